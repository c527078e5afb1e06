"""torch's own attention op, run by headwise for the duration of a block."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from headwise.errors import UnsupportedError, sentence
from headwise.nn.weights import with_weights
from headwise.ops import attention
from headwise.spec import Bias, Causal, Dense, Mask, Rules

__all__ = ["everywhere"]


class _Here(threading.local):
    """How deep this thread is inside ``everywhere``; 0 while headwise itself computes."""

    depth = 0
    weights: list[Tensor] | None = None  # what the next call of the op hands its pattern to, where it is asked for


_here = _Here()
_lock = threading.Lock()
_entered = 0  # blocks that are open, over all threads
_own = torch.nn.functional.scaled_dot_product_attention
_own_module_forward = torch.nn.functional.multi_head_attention_forward


def _instead(*args: Any, **kwargs: Any) -> Tensor:
    """What stands in torch's namespace meanwhile: ours for a thread inside a block, torch's own for all others."""
    if not _here.depth:
        return _own(*args, **kwargs)
    # A backend of ours may call torch's op, and must then reach torch.
    depth, _here.depth = _here.depth, 0
    try:
        return _as_torch_means_it(*args, **kwargs)
    finally:
        _here.depth = depth


def _module_forward(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    """What nn.MultiheadAttention computes, by torch's own code; with weights wanted, it calls the op all the same.

    Left alone it would form weights, and drop some of them before it returns them. Those returned here are whole.
    """
    if not kwargs["need_weights"]:
        return _own_module_forward(*args, **kwargs)
    # Beside a mask torch reads the causal flag as a hint and looks at the mask alone; without one it refuses the flag.
    causal = kwargs["is_causal"] and kwargs["attn_mask"] is None
    box: list[Tensor] = []
    _here.weights = box
    try:
        out, _ = _own_module_forward(*args, **{**kwargs, "need_weights": False, "is_causal": causal})
    finally:
        _here.weights = None
    weights = box[0].mean(1) if kwargs["average_attn_weights"] else box[0]
    return out, weights if out.dim() == 3 else weights.squeeze(0)


_REPLACED: dict[Any, Callable[..., Any]] = {_own: _instead, _own_module_forward: _module_forward}


class _Everywhere(TorchFunctionMode):
    """Catches torch's op and the computation of its module, under whatever name; everything else passes.

    While a mode is active torch keeps off its fused inference path, in this thread alone.
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        return _REPLACED.get(func, func)(*args, **(kwargs or {}))


def _as_torch_means_it(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """torch.nn.functional.scaled_dot_product_attention on any number of leading axes, through hw.attention."""
    # torch takes a mask beside is_causal in its fused kernel and not in its plain one; where it does, both hide
    alone = is_causal and attn_mask is None
    full = _judged(query, key, value, attn_mask, dropout_p, alone, scale, enable_gqa)
    if any(type(t) is not Tensor and not isinstance(t, torch.nn.Parameter) for t in (query, key, value)):
        kinds = sorted({type(t).__name__ for t in (query, key, value)})
        raise UnsupportedError(sentence("everywhere", f"got {', '.join(kinds)}", "headwise computes on plain tensors"))
    heads = [t.shape[-3:-2] if enable_gqa else full[-1:] for t in (query, key, value)]
    q, k, v = (
        _flat(t.expand(*full[:-1], *own, *t.shape[-2:])) for t, own in zip((query, key, value), heads, strict=True)
    )
    mask: Mask | None = Causal(align="start") if is_causal else None
    scores: tuple[Rules, ...] = ()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        keep = Dense(_flat_mask(attn_mask, full))
        mask = keep if mask is None else mask & keep
    elif attn_mask is not None:
        scores = (Bias(_flat_mask(attn_mask, full)),)
    all_dropped = dropout_p == 1  # torch drops every cell then; hw.attention, which divides by 1 - p, knows no such p
    options: dict[str, Any] = {"mask": mask, "scores": scores, "scale": scale}
    options["dropout"] = 0.0 if all_dropped else dropout_p
    if _here.weights is None:
        out = attention(q, k, v, **options)
    else:
        attended, weights = with_weights(q, k, v, **options)
        out = attended.out
        _here.weights.append(weights)
    out = out * 0 if all_dropped else out
    return out.reshape(*full, query.shape[-2], value.shape[-1])


def _flat(t: Tensor) -> Tensor:
    """[..., n, d] as [B, H, n, d]: 2-D and 3-D inputs get axes of 1, more than 4 axes fold into the batch."""
    if t.dim() < 4:
        return t.reshape(*(1,) * (4 - t.dim()), *t.shape)
    return t if t.dim() == 4 else t.reshape(-1, *t.shape[-3:])


def _flat_mask(mask: Tensor, full: tuple[int, ...]) -> Tensor:
    """A mask that broadcasts to [B, H, T, S] beside inputs folded by ``_flat``; one that fits as it is stays so."""
    if mask.dim() <= 3 or len(full) <= 2:
        return mask
    return mask.expand(*full, *mask.shape[-2:]).reshape(-1, full[-1], *mask.shape[-2:])


def _judged(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, *options: Any) -> tuple[int, ...]:
    """Lets torch itself judge the call, on tensors without data, so that its errors stay its own.

    Returns:
        The leading axes of the output.
    """
    dropout_p, is_causal, scale, enable_gqa = options
    bare = [torch.empty(t.shape, dtype=t.dtype, device="meta") for t in (query, key, value)]
    mask = None if attn_mask is None else torch.empty(attn_mask.shape, dtype=attn_mask.dtype, device="meta")
    out = _own(
        bare[0],
        bare[1],
        bare[2],
        attn_mask=mask,
        dropout_p=dropout_p,
        is_causal=is_causal,
        scale=scale,
        enable_gqa=enable_gqa,
    )
    return tuple(out.shape[:-2])


@contextlib.contextmanager
def everywhere() -> Iterator[None]:
    """Sends torch's ``scaled_dot_product_attention`` through headwise for the duration, with torch's exact meaning.

    It reaches every caller in this thread: ``nn.MultiheadAttention``, ``nn.TransformerEncoder`` and models of the
    user's own. Causal is torch's top-left rule, bool masks keep, float masks are added, dropout is applied as given,
    inputs may have any number of leading axes. torch's fused inference path of these modules, which would go around
    the op, is off meanwhile in this thread. The weights that ``nn.MultiheadAttention`` returns with ``need_weights``
    are those before dropout, whose rows add up to 1, where torch returns what dropout left of them.

    Example:
        >>> import torch, headwise as hw
        >>> layer = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
        >>> x = torch.ones(1, 3, 8)
        >>> with torch.no_grad():
        ...     plain = layer(x, x, x, need_weights=False)[0]
        ...     with hw.everywhere():
        ...         ours = layer(x, x, x, need_weights=False)[0]
        >>> torch.allclose(plain, ours, atol=1e-6)
        True
    """
    _open()
    _here.depth += 1
    try:
        with _Everywhere():
            yield
    finally:
        _here.depth -= 1
        _close()


def _open() -> None:
    """Puts ours in torch's namespace with the first block; torch's own modules look the op up there."""
    global _entered
    with _lock:
        _entered += 1
        torch.nn.functional.scaled_dot_product_attention = _instead


def _close() -> None:
    """Puts torch's own back with the last block."""
    global _entered
    with _lock:
        _entered -= 1
        if _entered == 0:
            torch.nn.functional.scaled_dot_product_attention = _own
