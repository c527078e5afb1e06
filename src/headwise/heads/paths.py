"""A model of attention alone as a sum over paths: through no head, one head, two heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, UnsupportedError, sentence
from headwise.heads.reading import crosses, norm_before, side_of, wide
from headwise.heads.recording import Recording, record
from headwise.heads.targets import logits_asked
from headwise.models.edit import editing
from headwise.models.families import factors
from headwise.models.padding import options_of_run
from headwise.models.projections import Projections
from headwise.ops import attention

__all__ = ["Paths", "paths"]


@dataclass(frozen=True, eq=False)
class Paths:
    """Terms of a logit, or of the difference of two, by the heads that a path goes through; NaN where nothing is asked.

    direct + one + two + biases + rest = logit, patterns and sizes in norms being those of the run.

    Attributes:
        direct: [B, T], embedding to unembedding.
        one: [L, H, B, T], embedding, one head, unembedding.
        two: [L, H, L, H, B, T], the head of ``[l1, h1]`` before that of ``[l2, h2]``: virtual heads; NaN where l1 is
            not before l2.
        biases: [B, T], whatever begins in a bias of the model, along every path.
        logit: [B, T], as the model gave it, before any soft cap.
    """

    direct: Tensor
    one: Tensor
    two: Tensor
    biases: Tensor
    logit: Tensor

    @property
    def rest(self) -> Tensor:
        """What is left, [B, T]: paths through three heads or more, and what comes of feed-forwards that are ignored."""
        one, two = self.one.nan_to_num(0.0).sum((0, 1)), self.two.nan_to_num(0.0).sum((0, 1, 2, 3))
        return self.logit - self.direct - one - two - self.biases


def paths(
    model: nn.Module,
    targets: Tensor | None = None,
    wrong: Tensor | None = None,
    *,
    feed_forward: str = "refuse",
    **batch: Any,
) -> Paths:
    """Expands the logits of one run of an attention-only model into paths from embedding to unembedding.

    With patterns A and the norms' sizes as they were in the run, the model is linear, and a product of sums:
    (1 + sum_h A2_h W_OV2_h) (1 + sum_h A1_h W_OV1_h) over layers, multiplied out. The work is one attention call for
    each head and later layer, on the patterns' own queries and keys; no pattern is stored.

    Args:
        model: a transformers model of a known family that norms first and has an unembedding.
        targets, wrong: as of `attribution`.
        feed_forward: "refuse" raises where a feed-forward adds anything; "ignore" leaves all that comes of what they
            add in ``rest``.
        batch: the model's inputs.

    Returns:
        The paths.

    Raises:
        UnsupportedError: as `attribution`; feed-forwards that add something; layers that read another stack.
        ShapeError, SpecError: as `attribution`; heads that are edited (`hw.ablate` and the like) meanwhile.

    Source:
        Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", "Path Expansion Trick".

    Example:
        >>> import torch
        >>> from headwise.heads.paths import paths
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> for layer in model.transformer.h:
        ...     _ = layer.mlp.c_proj.weight.data.zero_()  # attention only
        >>> found = paths(model, input_ids=torch.arange(6)[None])
        >>> found.two.shape, bool(found.rest[0, :-1].abs().max() < 1e-5)
        (torch.Size([2, 2, 2, 2, 1, 6]), True)
    """
    if feed_forward not in ("refuse", "ignore"):
        raise SpecError(sentence("paths", f"feed_forward is {feed_forward!r}", 'it is "refuse" or "ignore"'))
    run = record(model, batch, "paths")
    _refuse_unless_attention(model, run, feed_forward)
    asked = logits_asked(model, run, batch, targets, wrong, "paths")
    frozen = [_Frozen(model, run, at, p, asked.along.weight) for at, p in run.sites.items()]
    L, H = len(run.layers), max(p.heads for p in run.layers)
    one = run.size.new_full((L, H, *asked.logit.shape), torch.nan)
    two = run.size.new_full((L, H, L, H, *asked.logit.shape), torch.nan)
    for n, first in enumerate(frozen):
        mixed = first.mix(run.embedding)
        one[first.at, : first.heads] = first.worth(mixed)
        for h in range(first.heads) if n + 1 < len(frozen) else ():
            added = first.adds(mixed, h)
            for second in frozen[n + 1 :]:
                two[first.at, h, second.at, : second.heads] = second.worth(second.mix(added))
    terms = (run.term(run.embedding, asked.along.weight), one, two, _of_biases(run, frozen, asked.along), asked.logit)
    return Paths(*(term.masked_fill(asked.nothing, torch.nan) for term in terms))


class _Frozen:
    """One site with the pattern and the norms' sizes that a run had: a linear map of the residual stream."""

    def __init__(self, model: nn.Module, run: Recording, at: int, p: Projections, along: Tensor) -> None:
        self.at, self.heads = at, p.heads
        self._p, self._run = p, run
        self._along = run.into_site(model, p, along)
        self._size = run.before[p.site]
        norm = norm_before(model, p, "paths")
        self._sides = [norm.into(side_of(p, "v", group)) for group in range(p.groups)]
        self._factor = factors(model).residual

    def mix(self, stream: Tensor, biases: bool = False) -> Tensor:
        """Each head's mix of the values of a stream [B, T, M], [B, H, T, E]."""
        if not self.heads:
            return stream.new_zeros(stream.shape[0], 0, stream.shape[1], self._p.value_dim)
        pattern, rows = self._run.patterns[self._p.site], stream / self._size
        values = torch.stack([rows @ side.weight.T + (side.bias if biases else 0.0) for side in self._sides], 1)
        return attention(pattern.q, pattern.k, values.to(pattern.q.dtype), **options_of_run(pattern)).to(stream.dtype)

    def worth(self, mixed: Tensor) -> Tensor:
        """What mixes of values add to the logits asked for, [H, B, T]."""
        return self._run.by_head(self._p, self._along, mixed)

    def adds(self, mixed: Tensor, head: int) -> Tensor:
        """What one head adds to the stream, [B, T, M]."""
        return self._behind(mixed[:, head] @ wide(self._p.o.weight(head)).T)

    def adds_in_all(self, mixed: Tensor) -> Tensor:
        """What all heads and the output projection's bias add, [B, T, M]."""
        nothing = torch.zeros_like(self._run.embedding)
        added = sum((mixed[:, h] @ wide(self._p.o.weight(h)).T for h in range(self.heads)), nothing)
        bias = self._p.o_bias
        return self._behind(added if bias is None else added + wide(bias))

    def _behind(self, added: Tensor) -> Tensor:
        if self._p.site in self._run.behind:
            gain, size = self._run.behind[self._p.site]
            added = added * gain / size
        return added * self._factor


def _of_biases(run: Recording, frozen: list[_Frozen], along: Any) -> Tensor:
    """The frozen model on an embedding of zeros: everything that begins in a bias."""
    stream = torch.zeros_like(run.embedding)
    for site in frozen:
        stream = stream + site.adds_in_all(site.mix(stream, biases=True))
    return run.term(stream, along.weight) + along.bias


def _refuse_unless_attention(model: nn.Module, run: Recording, feed_forward: str) -> None:
    for p in run.sites.values():
        if crosses(p.site):
            raise UnsupportedError(sentence("paths", f"{p.site} reads another stack", "paths are those of one stack"))
        if editing(p.module) is not None:
            what = f"heads of {p.site} are edited by an open block"
            raise SpecError(sentence("paths", what, "paths go through heads as the weights make them"))
    if feed_forward == "ignore":
        return
    for layer, added in run.feed_forward.items():
        if bool((added != 0).any()):
            raise UnsupportedError(
                sentence(
                    "paths",
                    f"the feed-forward of {layer} adds something",
                    "a model with feed-forwards is no sum of paths through heads",
                    todo='feed_forward="ignore" leaves what comes of it in .rest; `attribution` has a term for each.',
                )
            )
