"""Prefix matching and copying on random repeated tokens: what induction heads are told by.

Ten samples of 25 distinct random tokens, each repeated four times behind the start token. With pos(r, s) the place of
the s-th token in its r-th repeat, prefix matching of query i = pos(r, s), r >= 1, is

    sum over r' < r of p[i, pos(r', s) + 1]

the attention to what followed the same token in earlier repeats. Copying reads the head's output z_i straight through
the unembedding: l_i(t) = z_i W_O^h . u_t with u_t the row of token t, the gain of the last norm included. With
raise_i(t) = max(0, l_i(t) - mean over the vocabulary of l_i) and a_i(t) the attention of query i to token t,

    r_i = sum_t a_i(t) raise_i(t) / sum_t raise_i(t)      both sums over the 25 tokens of the sample
    copying = 2 r - 1, r the mean of r_i over queries

so 1 raises only what is attended to, and -1 raises it not at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, UnsupportedError, sentence
from headwise.heads.estimates import Estimate, Sums, estimate
from headwise.heads.even import Even
from headwise.heads.reading import Norm, Side, last_norm, norm_behind, reaches_logits, unembedding, wide
from headwise.heads.texts import context, start_of_decoder
from headwise.heads.watching import Run, Watch, body, forward, runs_of, watch
from headwise.models.projections import projections
from headwise.observers import MassOn
from headwise.ops import Attended

__all__ = ["Sample", "draw", "random_token_scores"]

_WHO = "random_token_scores"
_RARE = 0.1  # of a vocabulary in order of frequency, left out at either end


@dataclass(frozen=True, eq=False)
class Sample:
    """Random tokens, repeated.

    Attributes:
        tokens: int64 [B, n], distinct in each row.
        ids: int64 [B, T], what the model reads: the start token, where there is one, and the tokens again and again.
        repeats: how often.
    """

    tokens: Tensor
    ids: Tensor
    repeats: int

    @property
    def first(self) -> int:
        """Where the first random token stands."""
        return self.ids.shape[1] - self.repeats * self.tokens.shape[1]

    def places(self) -> Tensor:
        """Where each token stands, int64 [n, repeats]."""
        n = self.tokens.shape[1]
        return (
            self.first
            + torch.arange(n, dtype=torch.int64, device="cpu")[:, None]
            + n * torch.arange(self.repeats, dtype=torch.int64, device="cpu")
        )

    def matches(self, offset: int) -> Tensor:
        """For each query the keys at an offset from its token in earlier repeats, int64 [T, repeats - 1], -1 = none.

        Args:
            offset: 1 = what followed it, -1 = what preceded it.
        """
        found = torch.full((self.ids.shape[1], max(self.repeats - 1, 1)), -1, dtype=torch.int64, device="cpu")
        for places in self.places().tolist():
            for r, at in enumerate(places):
                earlier = [place + offset for place in places[:r] if place + offset >= self.first]
                found[at, : len(earlier)] = torch.tensor(earlier, dtype=torch.int64, device="cpu")
        return found


def draw(
    model: nn.Module,
    tokenizer: Any,
    *,
    tokens: int = 25,
    repeats: int = 4,
    examples: int = 10,
    start: int | None = None,
    seed: int = 0,
) -> Sample:
    """Draws random tokens, the most and the least common left out.

    How common a token is, is read from its place in the vocabulary: byte-pair merges are learned from the most frequent
    down, and WordPiece and unigram vocabularies are sorted by frequency. Special and added tokens, single bytes and
    tokens of brackets ("[unused7]") are left out, then a tenth of what remains at either end.

    Args:
        model: whose vocabulary; None of it is run.
        tokenizer: says which tokens are special; None = all are ordinary.
        tokens: how many distinct tokens.
        repeats: how often they come.
        examples: B, how many rows.
        start: token to put before them; None = none.
        seed: the same seed draws the same tokens.

    Raises:
        SpecError: the model's context or vocabulary is too small.
    """
    longest = context(model)
    length = tokens * repeats + (start is not None)
    if longest is not None and length > longest:
        what = f"{tokens} tokens {repeats} times are {length} with the start token, the context is {longest}"
        raise SpecError(sentence(_WHO, what, "a sample is read in one piece"))
    known = _ordinary(model, tokenizer)
    cut = int(len(known) * _RARE)
    middle = torch.tensor(known[cut : len(known) - cut], dtype=torch.int64, device="cpu")
    if len(middle) < tokens:
        what = f"{len(middle)} ordinary tokens of medium frequency, and {tokens} are wanted"
        raise SpecError(sentence(_WHO, what, "tokens of a sample are distinct"))
    generator = torch.Generator(device="cpu").manual_seed(seed)
    chosen = torch.stack(
        [
            middle[torch.randperm(len(middle), generator=generator, dtype=torch.int64, device="cpu")[:tokens]]
            for _ in range(examples)
        ]
    )
    ids = chosen.repeat(1, repeats)
    if start is not None:
        ids = torch.cat([torch.full((examples, 1), start, dtype=torch.int64, device="cpu"), ids], 1)
    return Sample(chosen, ids, repeats)


def _ordinary(model: nn.Module, tokenizer: Any) -> list[int]:
    """Ids of ordinary tokens, ascending."""
    embedding: Any = model.get_input_embeddings()  # type: ignore[operator]
    size = int(embedding.weight.shape[0])
    if tokenizer is None:
        return list(range(size))
    left_out = {*tokenizer.all_special_ids, *tokenizer.get_added_vocab().values()}
    byte = re.compile(r"<0x[0-9A-F]{2}>|\[.*\]|<.*>")
    vocabulary = tokenizer.get_vocab()
    return sorted(
        at
        for text, at in vocabulary.items()
        if at < size and at not in left_out and len(text) > 1 and not byte.fullmatch(text)
    )


def start_token(tokenizer: Any) -> int | None:
    """The token that texts of a tokenizer start with; None where it has none."""
    for name in ("bos_token_id", "cls_token_id"):
        found = getattr(tokenizer, name, None)
        if isinstance(found, int):
            return found
    return None


def random_token_scores(
    model: nn.Module,
    tokenizer: Any,
    runs: Mapping[str, Run] | None = None,
    *,
    tokens: int = 25,
    repeats: int = 4,
    examples: int = 10,
    offset: int = 1,
    seed: int = 0,
) -> dict[str, dict[str, Estimate]]:
    """Prefix matching and copying of every head that attends from a sequence to itself.

    Args:
        model: a transformers model that reads tokens.
        tokenizer: of the model, or None.
        runs: what runs in a forward of it, where that is known already, as of ``headwise.heads.watching.runs_of``;
            None = it is found by running a few tokens.
        tokens, repeats, examples, seed: of the samples, as of ``draw``.
        offset: 1 = keys that followed the same token, the direction that finds the known induction heads; -1 = keys
            that preceded it, as the paper's appendix has it.

    Returns:
        By name of the run ``{"prefix_matching": ..., "copying": ...}``; copying only where what a head
        adds goes to an unembedding through one last norm, and the weights of the site are known. The interval
        is over the samples. The chance level is that of a head that spreads evenly, of copying that of a head with the
        same outputs that does.

    Raises:
        SpecError: the model's context or vocabulary is too small.
        UnsupportedError: attention that does not go through transformers' interface.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads" (arXiv 2209.11895), head activation
    evaluators. The paper gives r a range of 0 to 0.5 before scaling it to -1 .. 1; the ratio as it is described reaches
    1, so it is scaled by 2 r - 1. Their copying runs on tokens that do not repeat: ``repeats=1``.

    Example:
        >>> import headwise as hw
        >>> from headwise.heads import random_token_scores
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=64, n_positions=128)
        ... ).eval()
        >>> scores = random_token_scores(model, None)  # by run of a site
        >>> found = scores["transformer.h.0.attn"]
        >>> # of the queries of 4 repeats of 25 tokens: (1/26 + ... + 1/50 + 2/51 + ... + 3/100) / 75
        >>> sorted(found), found["copying"].score.shape, round(float(found["prefix_matching"].chance[0]), 3)
        (['copying', 'prefix_matching'], torch.Size([2]), 0.031)
    """
    if offset not in (1, -1):
        raise SpecError(sentence(_WHO, f"offset is {offset!r}", "it is 1, what followed, or -1, preceded"))
    runs = runs_of(_WHO, model) if runs is None else runs
    start = start_token(tokenizer)
    sample = draw(model, tokenizer, tokens=tokens, repeats=repeats, examples=examples, start=start, seed=seed)
    device = next(model.parameters()).device
    batch: dict[str, Any] = {"input_ids": sample.ids.to(device)}
    decoded = sample
    if getattr(model.config, "is_encoder_decoder", False):
        first = start_of_decoder(_WHO, model)
        decoded = draw(model, tokenizer, tokens=tokens, repeats=repeats, examples=examples, start=first, seed=seed)
        batch["decoder_input_ids"] = decoded.ids.to(device)
    found: dict[str, dict[str, Estimate]] = {}
    own = {name: run for name, run in runs.items() if run.kind == "self"}
    asked = {decoding: _SampleQuestions(decoded if decoding else sample, offset, device) for decoding in (False, True)}
    copies = {run.site: _Copies.of(model, run, asked[run.decoding].sample) for run in own.values()}

    def take(run: Run, attended: Attended) -> None:
        found[run.name] = asked[run.decoding].scores(attended, copies[run.site])

    watching = Watch(own, take)
    watching.asked = {run.site: asked[run.decoding].observers for run in own.values()}
    part = body(model)
    with watch(model, part, watching):
        forward(part, batch)
    return found


class _SampleQuestions:
    """What is asked on one sample."""

    def __init__(self, sample: Sample, offset: int, device: torch.device) -> None:
        self.sample = sample
        T = sample.ids.shape[1]
        self.observers = [
            MassOn(sample.matches(offset).to(device), name="random:matches"),
            *(
                MassOn(places.expand(T, -1).to(device), name=f"random:{at}")
                for at, places in enumerate(sample.places())
            ),
        ]
        self.even = Even(self.observers)

    def scores(self, attended: Attended, copies: _Copies | None) -> dict[str, Estimate]:
        even = self.even.of(attended.pattern)
        name = "random:matches"
        found = {"prefix_matching": _over_samples(attended.seen[name], even.share(name), even.choice(name))}
        if copies is not None:
            found["copying"] = copies.score(attended, even.seen, even.visible >= 2)
        return found


@dataclass(frozen=True, eq=False)
class _Copies:
    """How the outputs of a site's heads move the logits of a sample's tokens.

    Attributes:
        weights: [B, H, E, n], from a head's output to the logits of the sample's tokens, less the mean logit.
    """

    weights: Tensor

    @classmethod
    def of(cls, model: nn.Module, run: Run, sample: Sample) -> _Copies | None:
        """None where what a head adds does not go to logits, or how is not known."""
        try:
            p = projections(model, run.site, who=_WHO)
            last, read = last_norm(model, p, _WHO), unembedding(model, _WHO)
        except UnsupportedError:
            return None
        if p.heads != run.heads or not reaches_logits(model, run.site):
            return None
        W_O = torch.stack([wide(p.o.weight(head)) for head in range(p.heads)])  # [H, M, E]
        behind = norm_behind(model, p)
        W_O = W_O if behind is None else W_O * behind.gain[:, None]
        rows = read.weight[sample.tokens.to(read.weight.device)] - read.weight.mean(0)  # [B, n, M]
        rows = Norm.of(last, rows.shape[-1]).into(Side(rows, rows.new_zeros(()))).weight
        return cls(torch.einsum("bnm,hme->bhen", rows, W_O.to(rows.dtype)))

    def score(self, attended: Attended, even: Mapping[str, Tensor], several: Tensor) -> Estimate:
        """Copying: the share of what is raised that is raised on the tokens attended to."""
        raised = (attended.out.to(self.weights.dtype) @ self.weights).clamp(min=0).double()  # [B, H, T, n]
        total = raised.sum(-1)
        least = torch.finfo(total.dtype).tiny
        shares = []
        for answers in (attended.seen, even):
            mass = torch.stack([answers[f"random:{at}"] for at in range(raised.shape[-1])], -1).double()
            shares.append(2 * (mass * raised).sum(-1) / total.clamp(min=least) - 1)
        return _over_samples(shares[0], shares[1], (total > 0) & several)


def _over_samples(values: Tensor, uniform: Tensor, where: Tensor) -> Estimate:
    """Each row of a batch [B, H, T] is a sample of its own."""
    rows = [slice(b, b + 1) for b in range(values.shape[0])]
    return estimate([Sums.over(values[b], uniform[b], where[b]) for b in rows])
