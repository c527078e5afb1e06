"""Attention over nested tensors: sequences of many lengths, packed into one row in which each sees its own keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from headwise.ops import attention
from headwise.spec import Spans

__all__ = ["nested_attention", "own_keys"]


def nested_attention(
    own: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """Torch's op on nested tensors of [H, T_n, D] a sequence, strided and contiguous or jagged along T.

    Any other form is torch's own to compute or to refuse: a mask, the causal flag, fewer axes, heads that differ.

    Args:
        own: torch's op.
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa: as of torch's op.

    Returns:
        Nested [H, T_n, E] a sequence, laid out as torch lays it out.
    """
    operands = (query, key, value)
    if attn_mask is not None or is_causal or enable_gqa or not 0 <= dropout_p < 1 or not _known(*operands):
        return own(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if torch.is_autocast_enabled(query.device.type):
        to = torch.get_autocast_dtype(query.device.type)
        query, key, value = (x if x.dtype == torch.float64 else x.to(to) for x in operands)
    options: dict[str, Any] = {"scale": scale, "dropout": dropout_p}
    if query.layout == torch.jagged:
        return _jagged(query, key, value, options)
    rows = [x.unbind() for x in (query, key, value)]
    lengths, key_lengths = ([x.shape[1] for x in row] for row in rows[:2])
    q, k, v = (torch.cat(row, 1)[None] for row in rows)
    out = attention(q, k, v, mask=own_keys(lengths, key_lengths, q.device), **options)
    return torch.nested.as_nested_tensor(list(out[0].split(lengths, 1)))


def own_keys(lengths: Sequence[int], key_lengths: Sequence[int], device: torch.device) -> Spans:
    """The mask of sequences that lie behind one another: each query sees the keys of its own sequence."""
    queries, keys = (torch.tensor(n, dtype=torch.int64, device=device) for n in (lengths, key_lengths))
    return _spans(queries, keys)


def _spans(lengths: Tensor, key_lengths: Tensor) -> Spans:
    stop = key_lengths.cumsum(0)
    return Spans(*(end.repeat_interleave(lengths) for end in (stop - key_lengths, stop)))


def _known(query: Tensor, key: Tensor, value: Tensor) -> bool:
    """Whether they are sequences of the same heads, in a layout whose rows can be packed."""
    operands: tuple[Any, ...] = (query, key, value)
    if not all(x.is_nested and x.dim() == 4 and x.layout == query.layout for x in operands):
        return False
    if not query.dtype == key.dtype == value.dtype or not query.size(0) == key.size(0) == value.size(0):
        return False
    if query.layout == torch.jagged:
        ragged = all(x._ragged_idx == 2 and x.lengths() is None and x.values().shape[1] for x in operands)
        fits = query.size(1) == key.size(1) == value.size(1) and query.size(3) == key.size(3) > 0
        return bool(ragged and fits and key._size[2] == value._size[2])  # type: ignore[attr-defined]
    if not all(x.is_contiguous() for x in operands):
        return False
    shapes = [[row.shape for row in x.unbind()] for x in operands]
    heads = {row[0] for of_one in shapes for row in of_one}
    widths = [{row[2] for row in of_one} for of_one in shapes]
    lengths = [[row[1] for row in of_one] for of_one in shapes]
    same = len(heads) == 1 and all(len(w) == 1 for w in widths) and widths[0] == widths[1] != {0}
    return same and lengths[1] == lengths[2] and sum(lengths[0]) > 0 < sum(lengths[1])


def _jagged(query: Any, key: Any, value: Any, options: dict[str, Any]) -> Tensor:
    """Sequences [B, H, j, D] in one row of values [H, total, D], and the output in another with the same offsets."""
    q, k, v = (x.values()[None] for x in (query, key, value))
    mask = _spans(query.offsets().diff(), key.offsets().diff())
    packed = attention(q, k, v, mask=mask, **options)[0]
    flat = packed.transpose(0, 1)
    flat = flat.contiguous().view(flat.shape)  # [total, H, E], the order in which torch keeps it
    again = torch.nested.nested_tensor_from_jagged(
        flat, query.offsets(), min_seqlen=query._maybe_min_seqlen, max_seqlen=query._maybe_max_seqlen
    )
    return again.transpose(1, 2)
