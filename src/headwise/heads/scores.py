"""What each head of a model does on a text: scores from observers, each beside what a head without preferences gets.

A score is the share of a query's attention that falls on one kind of key, averaged over the queries that have a choice:
with n_i visible keys, c_i of them of the kind, query i counts where 0 < c_i < n_i.

    score  = mean_i sum_{j of the kind} p_ij          chance = mean_i c_i / n_i          over the same queries

Chance is exact: it is the score of a head that spreads uniformly over the keys that the model's own mask shows, so it
follows causal masks, windows and padding by itself. No pattern is stored; memory is O(T) a head.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headwise.errors import ShapeError, SpecError, UnsupportedError, axes, sentence
from headwise.heads.estimates import Sums, estimate
from headwise.heads.even import Chance, Even
from headwise.heads.texts import check_tokens, reads_two_texts
from headwise.heads.watching import handed, layers_of
from headwise.models import observe as observing
from headwise.models import sites as sites_of
from headwise.observers import Entropy, MassOn, MassWhere, Observer, named
from headwise.ops import Attended

__all__ = [
    "BROAD",
    "ERRORS",
    "FEWEST",
    "KINDS",
    "LOCAL",
    "MIXED",
    "Head",
    "Kind",
    "Reading",
    "entropy_sums",
    "kind_of",
    "lift",
    "score_heads",
    "share_questions",
    "share_sums",
]

LOCAL = 8  #: "local" keys are those less than this far from the query, the query's own token included.
BROAD = 0.8  #: a head is broad where its relative entropy is at least this.
ERRORS = 3  #: a head is of a kind only where its score is this many standard errors above chance,
FEWEST = 8  #: over at least so many queries: a short text with two repeats shows no induction head.


class Kind(NamedTuple):
    """One thing that a head may do.

    Attributes:
        name: key in ``Head.scores``.
        letter: one letter for grids.
        title: for people.
        means: what the score counts.
        margin: a head is of the kind only where its lift over chance is at least this.
        source: where the kind was described.
    """

    name: str
    letter: str
    title: str
    means: str
    margin: float
    source: str


# The margins were set by looking at SmolLM2 and MiniLM on prose. Half of what repeats there are words like "the", which
# induction and duplicate heads ignore, so a tenth of the room above chance, four times chance itself, is much already.
_KINDS = (
    Kind("previous_token", "P", "previous token", "the key just before the query", 0.25, "Voita et al. 2019"),
    Kind("next_token", "N", "next token", "the key just after the query", 0.25, "Clark et al. 2019"),
    Kind(
        "induction", "I", "induction", "keys that followed an earlier copy of the query's token", 0.1,
        "Olsson et al. 2022",
    ),
    Kind(
        "duplicate_token", "D", "duplicate token", "earlier copies of the query's token, but for the first token", 0.1,
        "Wang et al. 2022",
    ),
    Kind("first_token", "F", "first-token sink", "the first token", 0.3, "Xiao et al. 2023"),
    Kind("separator", "S", "separator", "special tokens after the first, such as [SEP]", 0.3, "Clark et al. 2019"),
    Kind("local", "L", "local", f"keys less than {LOCAL} tokens away, its own included", 0.3, "Clark et al. 2019"),
    Kind(
        "broad", "B", "broad", "entropy over its maximum, the log of the number of visible keys", 0.0,
        "Clark et al. 2019",
    ),
)  # fmt: skip
KINDS: dict[str, Kind] = {kind.name: kind for kind in _KINDS}  #: by name, in the order in which they are shown.
# The kinds that claim a head first, and those that claim what these leave; see kind_of.
_SEEKING = ("induction", "duplicate_token", "previous_token", "next_token")
_RESTING = ("local", "separator", "first_token")
MIXED = Kind("mixed", "·", "mixed", "none of these clears its chance level by its margin", 0.0, "")


@dataclass(frozen=True)
class Head:
    """What one head does on one text.

    Attributes:
        layer: the index of its site in ``hw.sites(model)``; where a site runs several times in a forward (ALBERT), each
            run counts as a layer, by site and then by run.
        head: index of the query head.
        site: the run's name, "site" or "site#1", ...
        kind: a key of ``KINDS``, or "mixed".
        scores: by kind, 0 to 1. A kind for which no query of the text has a choice (nothing repeats, no key lies
            ahead under a causal mask) is absent, not zero.
        chance: by kind, what a head that spreads uniformly over the visible keys scores on the same queries.
        error: by kind, the standard error of ``score - chance``, its spread over those queries divided by the root of
            their number; infinite below ``FEWEST`` of them. Queries of one text are no independent draws, so it is the
            least that can be said.
        entropy: mean over the queries that see at least two keys, in nats.
    """

    layer: int
    head: int
    site: str
    kind: str
    scores: Mapping[str, float]
    chance: Mapping[str, float]
    error: Mapping[str, float]
    entropy: float

    def lift(self, kind: str) -> float:
        """How far the score of a kind lies above chance, 0 = at chance, 1 = all of the attention; 0 where absent."""
        return lift(self.scores[kind], self.chance[kind]) if kind in self.scores else 0.0

    def told(self, kind: str) -> bool:
        """Whether at least ``FEWEST`` queries could show a kind: too few call no head by it, whatever they score."""
        return math.isfinite(self.error.get(kind, 0.0))


@dataclass(frozen=True, eq=False)
class Reading:
    """What one forward of a model told.

    Attributes:
        heads: one ``Head`` a head, layer by layer.
        queries: by kind, how many queries its score is a mean over (at the first site).
        causal: no query of any site sees a key ahead of it.
        seen: the answers of the caller's own observers, as of ``hw.observe``.
    """

    heads: tuple[Head, ...]
    queries: Mapping[str, int]
    causal: bool
    seen: Any


def lift(score: float, chance: float) -> float:
    """``(score - chance) / (1 - chance)``: the part of the room above chance that a head takes up.

    Example:
        >>> from headwise.heads import lift
        >>> lift(0.5, 0.0)
        0.5
        >>> lift(0.25, 0.25)
        0.0
    """
    return (score - chance) / (1 - chance) if chance < 1 else 0.0


def kind_of(scores: Mapping[str, float], chance: Mapping[str, float], error: Mapping[str, float] | None = None) -> str:
    """Which kind a head is of, or "mixed".

    What a head does where there is something to do says more than where it rests, and resting on the first token is
    what most heads of a causal model do most of the time (Xiao et al. 2023). So the kinds that look for something,
    induction, duplicate, previous and next token, come first: the one whose lift is the largest multiple of its margin
    (``Kind.margin``), if that is at least 1. Then, by the same rule, local, separator and first token. Then broad: a
    relative entropy of at least ``BROAD`` (a uniform head has 1). Else mixed. A score that is less than ``ERRORS``
    standard errors above chance claims nothing, and none does whose error is infinite.

    Args:
        scores: by kind.
        chance: by kind.
        error: by kind, as in ``Head``; None = the scores are exact.

    Returns:
        A key of ``KINDS``, or "mixed".

    Example:
        >>> from headwise.heads import kind_of
        >>> kind_of({"previous_token": 0.6, "first_token": 0.3}, {"previous_token": 0.1, "first_token": 0.1})
        'previous_token'
        >>> kind_of({"previous_token": 0.1}, {"previous_token": 0.1})
        'mixed'
    """
    sure = {name for name in scores if error is None or scores[name] - chance[name] >= ERRORS * error[name]}
    for group in (_SEEKING, _RESTING):
        margins = {name: lift(scores[name], chance[name]) / KINDS[name].margin for name in group if name in sure}
        best = max(margins, key=margins.__getitem__, default=None)
        if best is not None and margins[best] >= 1:
            return best
    told = error is None or math.isfinite(error.get("broad", 0.0))
    return "broad" if told and scores.get("broad", 0.0) >= BROAD else MIXED.name


def score_heads(
    model: nn.Module,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    separators: Tensor | None = None,
    observe: Sequence[Any] = (),
) -> Reading:
    """Runs a model once and scores every head of it; works at any length that the model takes.

    Args:
        model: a transformers model whose layers attend from the tokens to the tokens: a decoder or an encoder.
        input_ids: int64 [B, T].
        attention_mask: [B, T], 1 = a real token; None = all are. Padding enters no score.
        separators: bool [B, T], which tokens are separators; None = the text has none.
        observe: more observers to ask in the same pass; their answers are in ``Reading.seen``.

    Returns:
        The reading: ``.heads``, one ``Head`` each.

    Raises:
        ShapeError: input_ids, attention_mask and separators do not fit together.
        SpecError: fewer than two tokens, or an observer named like one of the questions asked here.
        UnsupportedError: an encoder-decoder model, or attention that does not go through transformers' interface.

    Sources: induction: Olsson et al. 2022 (arXiv 2209.11895); previous token: Voita et al. 2019 (arXiv 1905.09418),
    Olsson et al.; next token, separator and broad heads: Clark et al. 2019 (arXiv 1906.04341); first-token sinks: Xiao
    et al. 2023 (arXiv 2309.17453); duplicate tokens: Wang et al. 2022 (arXiv 2211.00593). They average over all queries
    or over random repeats of tokens; here each score is over those queries of a natural text that have a choice.

    Example:
        >>> import torch
        >>> from headwise.heads import score_heads
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> reading = score_heads(model, torch.tensor([[3, 4, 5, 3, 4, 6]]))
        >>> [(head.layer, head.head) for head in reading.heads]
        [(0, 0), (0, 1), (1, 0), (1, 1)]
        >>> round(reading.heads[0].chance["first_token"], 3)  # (1/2 + 1/3 + 1/4 + 1/5 + 1/6) / 5
        0.29
    """
    _check(model, input_ids, attention_mask, separators)
    shares = share_questions(input_ids, attention_mask, separators)
    asked = [*shares.values(), Entropy(name="score:entropy")]
    named([*asked, *observe])  # a clash of names is said before the model runs
    batch = {"input_ids": input_ids} | ({} if attention_mask is None else {"attention_mask": attention_mask})
    even, chances = Even(list(shares.values())), dict[str, Chance]()

    def take(run: str, attended: Attended) -> None:
        chances[run] = even.of(attended.pattern)

    with observing(model, *asked, *observe) as seen, handed(model, take), torch.no_grad():
        model(**batch)
    heads: list[Head] = []
    queries: dict[str, int] = {}
    for run, layer in layers_of(seen.sites, sites_of(model)).items():
        table = _Table.of(shares, seen[run], chances[run])
        queries = queries or table.queries
        heads += table.heads(layer, run)
    ahead = any(bool((chance.count("score:next_token") > 0).any()) for chance in chances.values())
    return Reading(tuple(heads), queries, not ahead, seen)


def _check(model: nn.Module, ids: Tensor, mask: Tensor | None, separators: Tensor | None) -> None:
    if not isinstance(ids, Tensor):
        raise SpecError(sentence("score_heads", f"input_ids is a {type(ids).__name__}", "it is a tensor, int64 [B,T]"))
    if ids.dim() != 2 or ids.dtype not in (torch.int32, torch.int64):
        raise ShapeError(
            sentence("score_heads", "input_ids does not fit", "it is int64 [B,T]", axes("input_ids", ids, "B T"))
        )
    for name, tensor in (("attention_mask", mask), ("separators", separators)):
        if tensor is not None and tensor.shape != ids.shape:
            shapes = f"{axes('input_ids', ids, 'B T')}, {axes(name, tensor, 'B T')}"
            raise ShapeError(sentence("score_heads", f"{name} does not fit input_ids", "both are [B,T]", shapes))
    if ids.shape[1] < 2:
        raise SpecError(
            sentence("score_heads", f"the text has {ids.shape[1]} tokens", "a head has a choice from two tokens on")
        )
    if reads_two_texts(model):
        raise UnsupportedError(
            sentence(
                "score_heads",
                f"{type(model).__name__} is an encoder-decoder model",
                "scores are of heads that attend from a text to itself",
                todo="Score its encoder, model.get_encoder().",
            )
        )
    sites_of(model)  # refuses a model that cannot be watched, before anything is computed
    check_tokens("score_heads", "input_ids", model, ids)


def share_questions(ids: Tensor, mask: Tensor | None, separators: Tensor | None) -> dict[str, Observer]:
    """For each kind that is a share of attention, the observer that measures it, [B, H, T] each."""
    B, T = ids.shape
    real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
    labels = ids.masked_fill(~real, -1)
    shifted = torch.nn.functional.pad(labels[:, :-1], (1, 0), value=-1)
    # Attention rests on the first token, so it would count as seeking a copy wherever that token comes again.
    copies = labels.scatter(1, real.int().argmax(1, keepdim=True), -1)
    at = torch.arange(T, device=ids.device, dtype=torch.int64)
    near = at[:, None] + torch.arange(1 - LOCAL, LOCAL, device=ids.device, dtype=torch.int64)
    near = torch.where((near >= 0) & (near < T), near, -1)
    first = real.int().argmax(1)[:, None, None].expand(B, T, 1)
    found: dict[str, Observer] = {
        "induction": MassWhere(labels, shifted, name="score:induction"),
        "duplicate_token": MassWhere(labels, copies, name="score:duplicate_token"),
        "previous_token": MassOn((at - 1)[:, None], name="score:previous_token"),
        "next_token": MassOn(torch.where(at + 1 < T, at + 1, -1)[:, None], name="score:next_token"),
        "local": MassOn(near, name="score:local"),
        "first_token": MassOn(first, name="score:first_token"),
    }
    if separators is not None and bool(separators.any()):
        most = int(separators.sum(1).max())
        ranked = separators.int().argsort(dim=1, descending=True, stable=True)[:, :most]
        chosen = torch.where(separators.gather(1, ranked), ranked, -1)[:, None].expand(B, T, most)
        found["separator"] = MassOn(chosen, name="score:separator")
    return found


def share_sums(shares: Mapping[str, Observer], seen: Mapping[str, Any], even: Chance) -> dict[str, Sums]:
    """What the answers to `share_questions` sum to over the queries that have a choice, by kind."""
    found = {}
    for kind, observer in shares.items():
        name = str(observer.name)
        found[kind] = Sums.over(seen[name], even.share(name), even.choice(name))
    return found


def entropy_sums(seen: Mapping[str, Any], even: Chance) -> dict[str, Sums]:
    """What the answer ``score:entropy`` sums to over the queries that see several keys, in nats and of its maximum."""
    several, most = even.visible >= 2, even.visible.clamp(min=2).log()
    nats = seen["score:entropy"].double()
    return {
        "entropy": Sums.over(nats, most, several),
        "relative_entropy": Sums.over(nats / most, torch.ones_like(most), several),
    }


@dataclass(frozen=True, eq=False)
class _Table:
    """Scores, chances and errors of one run of a site, by kind float64 [H], and over how many queries."""

    scores: dict[str, Tensor]
    chances: dict[str, Tensor]
    errors: dict[str, Tensor]
    queries: dict[str, int]
    entropy: Tensor

    @classmethod
    def of(cls, shares: Mapping[str, Observer], seen: Mapping[str, Any], even: Chance) -> _Table:
        """Averages what was observed over the queries that have a choice; what some head never had is absent."""
        sums = share_sums(shares, seen, even)
        entropy = entropy_sums(seen, even)
        sums["broad"] = entropy["relative_entropy"]
        found = {kind: estimate([part]) for kind, part in sums.items() if bool((part.number > 0).all())}
        return cls(
            {kind: one.score for kind, one in found.items()},
            {kind: one.chance for kind, one in found.items()},
            {kind: one.error.masked_fill(one.number < FEWEST, torch.inf) for kind, one in found.items()},
            {kind: int(one.number[0]) for kind, one in found.items() if len(one.number)},
            estimate([entropy["entropy"]]).score.nan_to_num(0.0),
        )

    def heads(self, layer: int, site: str) -> list[Head]:
        """One ``Head`` for each head of the run."""
        found = []
        for head in range(len(self.entropy)):
            scores = {kind: float(self.scores[kind][head]) for kind in KINDS if kind in self.scores}
            chance = {kind: float(self.chances[kind][head]) for kind in scores}
            error = {kind: float(self.errors[kind][head]) for kind in scores}
            kind = kind_of(scores, chance, error)
            found.append(Head(layer, head, site, kind, scores, chance, error, float(self.entropy[head])))
        return found
