"""Scores of every head on texts, from observers alone: nothing T x S is stored, at any length that the model takes.

Of query i, n_i visible keys and probabilities p_ij, i = 0 .. T-1. A score is a mean over the queries that have a
choice, and its chance level is what a head that spreads evenly (p_ij = 1 / n_i) gets on the same queries:

    entropy           -sum_j p_ij log p_ij, nats                    chance: log n_i                     n_i >= 2
    relative_entropy  entropy / log n_i                             chance: 1                           n_i >= 2
    confidence        max_j p_ij over words j, i a word             chance: 1 / n_i                     n_i >= 2
    positional        argmax_j p_ij = i + o, i a word, best o       chance: [i + o visible] / n_i       n_i >= 2
    a share           sum_{j of the kind} p_ij                      chance: c_i / n_i                   0 < c_i < n_i
    contribution      sum_j p_ij ||f(x_j)||, over all heads' sum    chance: 1 / H                       n_i >= 1

A word is a token that is no sign of the tokenizer's own. The shares are those of `headwise.heads.scores`: previous and
next token, first token, locality, separator, duplicate token, induction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import UnsupportedError
from headwise.heads.estimates import Estimate, Sums, estimate
from headwise.heads.even import Chance, Even
from headwise.heads.scores import entropy_sums, share_questions, share_sums
from headwise.heads.texts import Text
from headwise.heads.watching import Run, Watch, body, forward, watch
from headwise.models.projections import projections
from headwise.observers import Contribution, Entropy, MassOn, Observer, TopKeys
from headwise.ops import Attended

__all__ = ["FARTHEST", "Observed", "observe_texts"]

FARTHEST = 16  #: a positional head attends to an offset of at most so many tokens, on either side.
_SIGNS = 32  # a text with more special tokens than this shows no confidence: each costs a place among the top keys
_OFFSETS = range(-FARTHEST, FARTHEST + 1)


@dataclass(frozen=True, eq=False)
class Observed:
    """What texts say about the heads of one run of a site.

    Attributes:
        scores: by name.
        best_offset: int64 [H], of ``positional``: which key is meant, from the query; -1 = the token before it. None
            where that score is absent.
    """

    scores: dict[str, Estimate]
    best_offset: Tensor | None


class _TextQuestions:
    """The questions of one text to the sites of one kind, and what even heads are asked."""

    def __init__(self, shares: dict[str, Observer], words: Tensor, key_words: Tensor, positional: bool) -> None:
        T, S = len(words), len(key_words)
        self.words, self.key_words, self.shares, self.positional = words, key_words, shares, positional
        signs = (~key_words).nonzero().flatten()
        self.confident = len(signs) <= _SIGNS
        top = min(S, 1 + (len(signs) if self.confident else 0))
        self.observers = [*shares.values(), Entropy(name="score:entropy"), TopKeys(top, name="score:top")]
        even: list[Any] = list(shares.values())
        if self.confident and len(signs):
            even.append(MassOn(signs.expand(T, -1), name="even:signs"))
        if positional:
            at = torch.arange(T, device=words.device, dtype=torch.int64)
            even += [MassOn(_inside(at + o, S)[:, None], name=f"even:{o}") for o in _OFFSETS]
        self.even = Even(even)

    @classmethod
    def of_self(cls, ids: Tensor, special: Tensor) -> _TextQuestions:
        separators = special[None].clone()
        separators[:, 0] = False
        shares = share_questions(ids, None, separators)
        shares["locality"] = shares.pop("local")
        return cls(shares, ~special, ~special, positional=True)

    @classmethod
    def of_cross(cls, special: Tensor, target_special: Tensor) -> _TextQuestions:
        T = len(target_special)
        shares: dict[str, Observer] = {
            "first_token": MassOn(special.new_zeros((T, 1), dtype=torch.int64), name="score:first_token")
        }
        later = special.nonzero().flatten()
        later = later[later > 0]
        if len(later):
            shares["separator"] = MassOn(later.expand(T, -1), name="score:separator")
        return cls(shares, ~target_special, ~special, positional=False)


def _inside(keys: Tensor, S: int) -> Tensor:
    return torch.where((keys >= 0) & (keys < S), keys, -1)


def observe_texts(
    model: nn.Module,
    runs: Mapping[str, Run],
    texts: Sequence[Text],
    *,
    contribution: bool = True,
    progress: Callable[[int], None] | None = None,
) -> dict[str, Observed]:
    """Runs a model once on each text and scores every head.

    Args:
        model: a transformers model.
        runs: what runs in a forward of it, as of ``runs_of``.
        texts: what it reads, one by one, so that there is no padding.
        contribution: whether to weigh attention by what it carries, where the weights of a site are known.
        progress: called with 0, 1, ... after each run of a site, over all texts.

    Returns:
        By name of the run.
    """
    sums: dict[str, dict[str, list[Sums]]] = {name: {} for name in runs}
    asked: dict[str, _TextQuestions] = {}
    done = 0

    def take(run: Run, attended: Attended) -> None:
        nonlocal done
        for score, found in _sums(asked[run.name], attended).items():
            sums[run.name].setdefault(score, []).append(found)
        if progress is not None:
            progress(done)
        done += 1

    weights = {run.site: _contribution(model, run) for run in runs.values()} if contribution else {}
    watching, part = Watch(dict(runs), take), body(model)
    device = next(model.parameters()).device
    with watch(model, part, watching):
        for text in texts:
            by_kind = _questions_of(text, device)
            asked.update({run.name: by_kind[run.kind, run.decoding] for run in runs.values()})
            watching.asked = {
                run.site: [*asked[run.name].observers, *weights.get(run.site, [])] for run in runs.values()
            }
            forward(part, text.batch(device))
    return {name: _observed(found) for name, found in sums.items()}


def _questions_of(text: Text, device: torch.device) -> dict[tuple[str, bool], _TextQuestions]:
    """The questions by what a site attends from and to: its kind, and whether its queries are the decoder's."""
    special = text.special.to(device)
    found = {("self", False): _TextQuestions.of_self(text.ids.to(device), special)}
    if text.target is not None and text.target_special is not None:
        decoded = text.target_special.to(device)
        found["self", True] = _TextQuestions.of_self(text.target.to(device), decoded)
        found["cross", True] = _TextQuestions.of_cross(special, decoded)
    return found


def _contribution(model: nn.Module, run: Run) -> list[Observer]:
    """What weighs attention by the norms of what it carries; nothing where the weights of a site are not known."""
    try:
        found = projections(model, run.site, who="head_table")
    except UnsupportedError:
        return []
    w_o = found.w_o()
    if found.heads != run.heads or w_o.shape[1] != found.heads * found.value_dim:
        return []
    return [Contribution(w_o, name="score:contribution")]


def _sums(asked: _TextQuestions, attended: Attended) -> dict[str, Sums]:
    """What one text says about the heads of one site, by score."""
    seen, even = attended.seen, asked.even.of(attended.pattern)
    n = even.visible
    several = n >= 2
    found = share_sums(asked.shares, seen, even)
    found |= entropy_sums(seen, even)
    words = asked.words & several
    values, keys = seen["score:top"]
    if asked.confident:
        known = even.count("even:signs") if "even:signs" in even.seen else torch.zeros_like(n)
        real = (keys >= 0) & asked.key_words[keys.clamp(min=0)]
        best = torch.where(real, values, 0.0).amax(-1)
        found["confidence"] = Sums.over(best, 1 / n.clamp(min=1), words & (known < n))
    if asked.positional:
        found["positional"] = _by_offset(keys[..., 0], even, words)
    if "score:contribution" in seen:
        norms = seen["score:contribution"].by_query.double()
        whole = norms.sum(1, keepdim=True)
        share = torch.full_like(n, 1 / n.shape[1])
        found["contribution"] = Sums.over(norms / whole.clamp(min=torch.finfo(norms.dtype).tiny), share, whole > 0)
    return found


def _by_offset(keys: Tensor, even: Chance, words: Tensor) -> Sums:
    """For each offset how many queries attend to it most, [offsets, H]."""
    away = keys - torch.arange(keys.shape[-1], device=keys.device, dtype=torch.int64)
    rows = [Sums.over((away == o) & (keys >= 0), even.share(f"even:{o}"), words) for o in _OFFSETS]
    return Sums(*(torch.stack(part) for part in zip(*rows, strict=True)))


def _observed(sums: Mapping[str, Sequence[Sums]]) -> Observed:
    """Scores of all texts together; of the offsets the one that most queries attend to, the nearest where two tie."""
    scores = {name: estimate(found) for name, found in sums.items() if name != "positional"}
    texts = sums.get("positional", ())
    if not texts:
        return Observed(scores, None)
    counts = torch.stack([text.score for text in texts]).sum(0)  # [offsets, H]
    nearest = sorted(range(len(_OFFSETS)), key=lambda at: abs(_OFFSETS[at]))
    order = torch.tensor(nearest, device=counts.device, dtype=torch.int64)
    best = order[counts[order].argmax(0)]
    heads = torch.arange(len(best), device=counts.device, dtype=torch.int64)
    scores["positional"] = estimate([Sums(*(part[best, heads] for part in text)) for text in texts])
    return Observed(scores, torch.tensor(_OFFSETS, device=best.device, dtype=torch.int64)[best])
