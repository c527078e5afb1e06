"""torch.nn.functional.scaled_dot_product_attention, with torch's exact meaning, computed by hw.attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn.attention._utils import _validate_sdpa_input
from torch.nn.attention.bias import CausalBias, CausalVariant

from headwise.errors import UnsupportedError, sentence
from headwise.models.nested import nested_attention
from headwise.nn.weights import with_weights
from headwise.ops import attention
from headwise.spec import Bias, Causal, Dense, Mask, Rules
from headwise.tracing import followed, plain

__all__ = ["Options", "dot_product"]

_FLOATS = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
_MATH = 0  # what torch._fused_sdp_choice calls the path of plain operations, which returns a contiguous tensor
_PLAIN = (Tensor, torch.nn.Parameter)


class Options(NamedTuple):
    """What torch's op is asked besides its tensors, under torch's own names."""

    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False


def dot_product(
    own: Callable[..., Tensor],
    weights: list[Tensor] | None,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """What torch's op gives for these arguments: numbers, dtype, strides, gradients, errors.

    Args:
        own: torch's op, which judges the call and runs what only it can: arguments that are no tensors at all, and
            nested tensors in forms that have no meaning as sequences of heads.
        weights: a list that gets the probabilities before dropout [B,H,T,S]; None where nobody wants them.
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa: as of torch's op.

    Returns:
        [..., T, E].
    """
    asked = Options(dropout_p, is_causal, scale, enable_gqa)
    operands = (query, key, value) if attn_mask is None else (query, key, value, attn_mask)
    ours: Mask | None = None
    if not all(type(x) in _PLAIN for x in operands):
        if not all(isinstance(x, Tensor) for x in operands):
            return own(query, key, value, attn_mask, *asked[:2], scale=scale, enable_gqa=enable_gqa)
        if type(attn_mask) is CausalBias:
            attn_mask, ours, asked = _of_causal_bias(query, key, value, attn_mask, asked)
        _refuse_other_kinds(query, key, value, attn_mask)
    if query.is_nested or key.is_nested or value.is_nested:
        return nested_attention(own, query, key, value, attn_mask, *asked)
    if _nothing_to_add(query, key, value):
        if weights is not None:
            weights.append(query.new_zeros(*query.shape[:-1], key.shape[-2]))
        return own(query, key, value, attn_mask, *asked[:2], scale=scale, enable_gqa=enable_gqa)
    query, key, value, attn_mask = _cast(query, key, value, attn_mask)
    fused = _fused(query, key, value, attn_mask, asked)
    if asked.dropout_p < 0:  # which its fused kernel refuses, and the path of plain operations takes for none
        if fused:
            return own(query, key, value, attn_mask, *asked[:2], scale=scale, enable_gqa=enable_gqa)
        asked = asked._replace(dropout_p=0.0)
    # Its fused kernel takes a mask beside is_causal, and both hide; the path of plain operations refuses them.
    judged = asked._replace(is_causal=asked.is_causal and (attn_mask is None or not fused))
    lead = _leading_axes(query, key, value, attn_mask, judged)
    if lead is None:
        lead = _judged(own, query, key, value, attn_mask, judged)
    out = _computed(lead, query, key, value, attn_mask, ours, asked, weights)
    return _laid_out(out, query if fused else None)


# --- what the operands are ---------------------------------------------------------------------------------------


def _of_causal_bias(
    query: Tensor, key: Tensor, value: Tensor, bias: CausalBias, asked: Options
) -> tuple[Any, Mask | None, Options]:
    """A CausalBias as torch reads it: a tensor, or a mask of ours, or the causal flag.

    Of a square one, and of one to the upper left, torch reads the flag alone and not the sizes that it was made with.
    """
    if asked.is_causal:
        bias._dispatch(query, key, value, bias, *asked)  # refuses the flag beside it, in torch's words
    if bias.seq_len_q == bias.seq_len_kv or bias.variant == CausalVariant.UPPER_LEFT:
        return None, None, asked._replace(is_causal=True)
    _validate_sdpa_input(query, key, value)
    if (bias.seq_len_q, bias.seq_len_kv) == (query.shape[-2], key.shape[-2]):
        return None, Causal(align="end"), asked
    return bias._materialize(query.device), None, asked  # a size of 1 broadcasts, and others are torch's error


def _refuse_other_kinds(*operands: Tensor | None) -> None:
    """Raises for a subclass of Tensor that is more than a tensor; those of torch's own tracers are let through."""
    odd = [x for x in operands if x is not None and not plain(x) and not x.is_nested]
    if odd:
        kinds = ", ".join(sorted({type(x).__name__ for x in odd}))
        todo = "Pass x.as_subclass(torch.Tensor), or call it outside of the block."
        raise UnsupportedError(sentence("everywhere", f"got {kinds}", "headwise computes on plain tensors", todo=todo))


def _nothing_to_add(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether the output is empty, or all of it is the sum over no key, so that only its form is left to find."""
    shapes = (query.shape[:-1], key.shape[:-1], value.shape)
    return any(0 in shape for shape in shapes)


def _cast(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Operands as autocast hands them to torch's op: every float but float64 in autocast's dtype."""
    kind = query.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return query, key, value, attn_mask
    to = torch.get_autocast_dtype(kind)

    def cast(x: Tensor) -> Tensor:
        return x.to(to) if x.is_floating_point() and x.dtype != torch.float64 else x

    return cast(query), cast(key), cast(value), None if attn_mask is None else cast(attn_mask)


def _fused(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, asked: Options) -> bool:
    """Whether torch would take a fused kernel, whose output has the strides of the query."""
    if query.dim() != 4 or asked.dropout_p > 0 or not key.dim() == value.dim() == 4:
        return False
    if not followed(query, key, value):
        choice = torch._fused_sdp_choice  # torch's own answer, which knows which kernels are switched off
        return bool(choice(query, key, value, attn_mask, *asked[:2], scale=asked.scale, enable_gqa=asked.enable_gqa))
    # A tracer follows no choice among kernels: the same conditions, of shapes and strides alone.
    wants = attn_mask is not None and attn_mask.requires_grad
    one = query.shape[-1] == value.shape[-1] and all(x.stride(-1) == 1 for x in (query, key, value))
    return one and not wants and query.shape[-2] > 0 and key.shape[-2] > 0


# --- what is computed --------------------------------------------------------------------------------------------


def _leading_axes(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, asked: Options
) -> tuple[int, ...] | None:
    """The leading axes of the output of a call in which nothing broadcasts but a mask; None for any other."""
    q, k, v = query.shape, key.shape, value.shape
    axes, heads = len(q), asked.enable_gqa
    fits = axes == len(k) == len(v) and axes >= 2 + heads and q[-1] == k[-1] and k[-2] == v[-2]
    if not fits or query.dtype not in _FLOATS or not query.dtype == key.dtype == value.dtype:
        return None
    if not query.device == key.device == value.device or not 0 <= asked.dropout_p <= 1:
        return None
    if not q[: -2 - heads] == k[: -2 - heads] == v[: -2 - heads]:
        return None
    if heads and not all(x[-3] and q[-3] % x[-3] == 0 for x in (k, v)):
        return None
    if attn_mask is None:
        return tuple(q[:-2])
    full = (*q[:-1], k[-2])
    beside = not asked.is_causal and attn_mask.dtype in (torch.bool, query.dtype) and attn_mask.device == query.device
    if not beside or not 2 <= attn_mask.dim() <= axes:
        return None
    sizes = zip(attn_mask.shape, full[axes - attn_mask.dim() :], strict=True)
    return tuple(q[:-2]) if all(n in (1, size) for n, size in sizes) else None


def _judged(
    own: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, asked: Options
) -> tuple[int, ...]:
    """Lets torch itself judge the call, on tensors without data, so that its errors stay its own.

    Returns:
        The leading axes of the output.
    """
    bare = [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in (query, key, value)]
    mask = None if attn_mask is None else torch.empty(attn_mask.shape, dtype=attn_mask.dtype, device="meta")
    out = own(bare[0], bare[1], bare[2], mask, *asked[:2], scale=asked.scale, enable_gqa=asked.enable_gqa)
    return tuple(out.shape[:-2])


def _computed(
    lead: tuple[int, ...],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    ours: Mask | None,
    asked: Options,
    weights: list[Tensor] | None,
) -> Tensor:
    """The op's output [*lead, T, E], whatever its strides."""
    T, E, D = query.shape[-2], value.shape[-1], query.shape[-1]
    heads = [t.shape[-3:-2] if asked.enable_gqa else lead[-1:] for t in (query, key, value)]
    q, k, v = (
        _flat(t.expand(*lead[:-1], *own, *t.shape[-2:]) if t.shape[:-2] != (*lead[:-1], *own) else t)
        for t, own in zip((query, key, value), heads, strict=True)
    )
    scale = asked.scale
    scores: tuple[Rules, ...] = ()
    if D == 0:  # every product is 0, whatever the scale
        q, k, scale = F.pad(q, (0, 1)), F.pad(k, (0, 1)), 1.0
    if k.shape[1] != v.shape[1]:  # groups of two sizes
        k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    options: dict[str, Any] = {}
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        keep = Dense(_flat_mask(attn_mask, lead))
        ours = Causal(align="start") & keep if asked.is_causal else keep
    elif asked.is_causal and attn_mask is None:
        ours, options = Causal(), {"q_start": 0}
    elif attn_mask is not None:
        scores = (Bias(_flat_mask(attn_mask, lead)),)
        ours = Causal(align="start") if asked.is_causal else ours
    all_dropped = asked.dropout_p == 1  # hw.attention, which divides by 1 - p, knows no such p
    if forward_ad._current_level >= 0:
        options["backend"] = "reference"  # the only one with forward-mode derivatives
    options |= {"mask": ours, "scores": scores, "scale": scale, "dropout": 0.0 if all_dropped else asked.dropout_p}
    if weights is None:
        out = attention(q, k, v, **options)
    else:
        attended, pattern = with_weights(q, k, v, **options)
        out = attended.out
        weights.append(pattern)
    out = out * 0 if all_dropped else out
    return out if len(lead) == 2 else out.reshape(*lead, T, E)


def _flat(t: Tensor) -> Tensor:
    """[..., n, d] as [B, H, n, d]: 2-D and 3-D inputs get axes of 1, more than 4 axes fold into the batch."""
    if t.dim() < 4:
        return t.reshape(*(1,) * (4 - t.dim()), *t.shape)
    return t if t.dim() == 4 else t.flatten(0, -4)


def _flat_mask(mask: Tensor, lead: tuple[int, ...]) -> Tensor:
    """A mask that broadcasts to [B, H, T, S] beside inputs folded by ``_flat``; one that fits as it is stays so."""
    if mask.dim() <= 3 or len(lead) <= 2:
        return mask
    return mask.expand(*lead, *mask.shape[-2:]).flatten(0, -4)


def _laid_out(out: Tensor, query: Tensor | None) -> Tensor:
    """An output with torch's strides: those of a query [B,H,T,D], or contiguous ones.

    It comes with heads side by side, which is how most models lay out their queries; then nothing is copied.
    """
    if query is None:
        return out.contiguous().view(out.shape)  # the view has torch's strides for axes of length 1 too
    if query.stride() == out.stride():
        return out
    if query.is_contiguous():
        dense = out.contiguous().view(out.shape)
        if dense.stride() == query.stride():
            return dense
    if not followed(out, query):
        return torch.empty_like(query, requires_grad=False).copy_(out)
    strides = query.stride()
    order = sorted(range(4), key=strides.__getitem__, reverse=True)
    return out.permute(order).contiguous().permute([order.index(n) for n in range(4)])
