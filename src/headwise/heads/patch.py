"""Patching: what a head did in another run, its output or its pattern, put into this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headwise.block import block
from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.heads.editing import chosen, edited
from headwise.models.edit import Call, Edit, Edited
from headwise.models.padding import mask_of_run, options_of_run
from headwise.models.sites import find_sites
from headwise.models.trace import Trace
from headwise.ops import attention
from headwise.pattern import Pattern
from headwise.spec import AttentionSpec
from headwise.spec.encoding import encode, unencodable

__all__ = ["freeze", "patch"]


@block("hw.patch")
def patch(
    model: nn.Module, heads: Mapping[Any, Sequence[int]], source: Trace, what: str = "output"
) -> Iterator[Edited]:
    """Puts the outputs or patterns that chosen heads had in another run into the runs of this block.

    With p the pattern and v the values of a head, p' and v' those of ``source``, the head gives

        output     p' v'     all that it did there
        pattern    p' v      where it looked there, and what it finds there now

    Patterns are computed again from the queries and keys that the trace holds, so nothing T x S is stored.

    Args:
        model: a transformers model; one that is not in use is used for the duration.
        heads: ``{layer: [head, ...]}``; a layer is a name or an index of ``hw.sites(model)``.
        source: ``hw.trace`` of a run of the same shape [B, T], on other tokens for example.
        what: "output" or "pattern".

    Yields:
        ``.backends``: for each layer that ran, the backend that ran it.

    Raises:
        SpecError: a layer or head that does not exist, or that the trace does not hold; single heads' patterns between
            runs whose masks differ; at the end of the block, an edit that did not act.
        ShapeError: a run of another shape than the trace's.
        UnsupportedError: the model's attention does not go through transformers' interface.

    Source: activation patching, Vig et al. 2020 (arXiv 2004.12265); Olsson et al. 2022 (arXiv 2209.11895).

    Example:
        >>> import torch, headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> clean, other = torch.arange(6)[None], torch.arange(6, 12)[None]
        >>> with torch.no_grad(), hw.patch(model, {1: [0, 1]}, hw.trace(model, input_ids=clean)):
        ...     patched = model(input_ids=other).logits
    """
    which = chosen("patch", model, heads)
    if what not in ("output", "pattern"):
        raise SpecError(sentence("patch", f"what is {what!r}", 'it is "output" or "pattern"'))
    kind = _Output if what == "output" else _Frozen
    with edited(model, [kind("patch", site, which[site], _pattern("patch", source, site)) for site in which]) as told:
        yield told


@block("hw.freeze")
def freeze(model: nn.Module, source: Trace, heads: Mapping[Any, Sequence[int]] | None = None) -> Iterator[Edited]:
    """Keeps patterns as they were in another run while the block is open: ``patch(..., what="pattern")`` of all heads.

    Args:
        model: a transformers model; one that is not in use is used for the duration.
        source: ``hw.trace`` of a run of the same shape [B, T].
        heads: ``{layer: [head, ...]}``; None = every head of every layer that the trace holds.

    Yields:
        ``.backends``: for each layer that ran, the backend that ran it.

    Raises:
        SpecError, ShapeError, UnsupportedError: as of ``hw.patch``.

    Source: Olsson et al. 2022 (arXiv 2209.11895), pattern-preserving ablations.

    Example:
        >>> import torch, headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> ids = torch.arange(6)[None]
        >>> with torch.no_grad(), hw.freeze(model, hw.trace(model, input_ids=ids)), hw.ablate(model, {0: [1]}):
        ...     logits = model(input_ids=ids).logits  # without head 0.1, every later pattern as with it
    """
    if not isinstance(source, Trace):
        raise _no_trace("freeze", source)
    if heads is None:
        modules = find_sites(model)
        heads = {site: range(_pattern("freeze", source, site).shape[1]) for site in source.sites if site in modules}
    which = chosen("freeze", model, heads)
    with edited(
        model, [_Frozen("freeze", site, which[site], _pattern("freeze", source, site)) for site in which]
    ) as told:
        yield told


def _pattern(who: str, source: Any, site: str) -> Pattern:
    if not isinstance(source, Trace):
        raise _no_trace(who, source)
    if f"{site}#1" in source.sites:
        raise SpecError(
            sentence(who, f"{site} runs more than once in a forward", "an edit has one output or pattern a layer")
        )
    return source.pattern(site)


def _no_trace(who: str, source: Any) -> SpecError:
    return SpecError(
        sentence(who, f"source is a {type(source).__name__}", "it is a trace", todo="Give hw.trace(model, **batch).")
    )


class _FromTrace(Edit):
    """An edit with a pattern of another run."""

    def __init__(self, who: str, site: str, heads: Sequence[int], source: Pattern) -> None:
        super().__init__(who, site, heads)
        self.source, self.options = source, options_of_run(source)

    def fit(self, call: Call) -> None:
        """Raises ShapeError unless the run has the shape of the trace."""
        B, H, T, S = self.source.shape
        here = (*call.q.shape[:3], call.k.shape[2])
        if here != (B, H, T, S):
            raise ShapeError(
                sentence(
                    self.who,
                    f"{self.site} was traced in another shape than it is run in",
                    "both runs have the same B, H, T and S",
                    f"trace [B={B},H={H},T={T},S={S}], run [B={here[0]},H={here[1]},T={here[2]},S={here[3]}]",
                    "Pad both inputs to one length; generate with use_cache=False.",
                )
            )


class _Output(_FromTrace):
    def after(self, call: Call, out: Tensor) -> Tensor:
        self.fit(call)
        assert self.source.v is not None  # a trace's patterns hold their values
        if self.source.v.shape[3] != out.shape[3]:
            raise ShapeError(
                sentence(
                    self.who,
                    f"{self.site} was traced with other heads than it is run with",
                    "both give outputs of one width E",
                    f"{axes('trace v', self.source.v, 'B Hk S E')}, {axes('run out', out, 'B H T E')}",
                )
            )
        there = attention(self.source.q, self.source.k, self.source.v, **self.options)
        heads = self.index(out)
        return out.index_copy(1, heads, there.index_select(1, heads).to(out.dtype))


class _Frozen(_FromTrace):
    def before(self, call: Call) -> Call:
        self.fit(call)
        options = {**call.options, **self.options}
        real = mask_of_run(self.source.options["mask"])[1]
        if set(self.heads) == set(range(call.q.shape[1])):
            if self._reads_there(call) == _reads(call.q.shape[1], call.k, call.options):
                q, k = self.source.q.to(call.q.dtype), self.source.k.to(call.k.dtype)
                return replace(call, q=q, k=k, options=options, real_queries=real)
            return replace(self._mixed(call, options), real_queries=real)
        here = call.but(scale=_scale(call), q_start=call.first_position).options
        if self.source.q.shape[3] != call.q.shape[3] or not _same(options, here):
            raise SpecError(
                sentence(
                    self.who,
                    f"{self.site} was traced under another width, mask, position or rule than it is run under",
                    "the pattern of single heads is taken over only where these agree",
                    todo="Pad both inputs alike, or take over all heads of the layer.",
                )
            )
        return self._mixed(call, call.options)

    def _reads_there(self, call: Call) -> list[int]:
        return _reads(call.q.shape[1], self.source.k, self.options)

    def _mixed(self, call: Call, options: Mapping[str, Any]) -> Call:
        """Some heads' queries and keys from there, the others' from here; each head with keys and values of its own."""
        H = call.q.shape[1]
        here = torch.tensor(_reads(H, call.k, call.options), device=call.k.device, dtype=torch.int64)
        there = torch.tensor(self._reads_there(call), device=call.k.device, dtype=torch.int64)
        q, k = self.source.q.to(call.q.dtype), self.source.k.to(call.k.dtype).index_select(1, there)
        if set(self.heads) != set(range(H)):
            taken = torch.zeros(H, dtype=torch.bool, device=call.q.device).index_fill(0, self.index(call.q), True)
            taken = taken[:, None, None]
            q, k = torch.where(taken, q, call.q), torch.where(taken, k, call.k.index_select(1, here))
        return replace(call, q=q, k=k, v=call.v.index_select(1, here), options={**options, "kv_heads": None})


def _reads(H: int, k: Tensor, options: Mapping[str, Any]) -> list[int]:
    """For each query head the key head that it reads."""
    told = options.get("kv_heads")
    return [h // (H // k.shape[1]) for h in range(H)] if told is None else list(told)


def _scale(call: Call) -> float:
    scale: float | None = call.options.get("scale")
    return call.q.shape[-1] ** -0.5 if scale is None else scale


def _same(a: Mapping[str, Any], b: Mapping[str, Any]) -> bool:
    """Whether the options of two calls say the same about their patterns, by their words and numbers."""
    specs = [replace(AttentionSpec(**options), dropout=0.0, gate=None, kv_heads=None) for options in (a, b)]
    if any(unencodable(spec) for spec in specs):
        return specs[0].mask is specs[1].mask and specs[0].scores == specs[1].scores
    one, two = (encode(spec) for spec in specs)
    tensors = zip([*one.conditions, *one.parameters], [*two.conditions, *two.parameters], strict=False)
    return one[:3] == two[:3] and all(x.shape == y.shape and bool((x == y).all()) for x, y in tensors)
