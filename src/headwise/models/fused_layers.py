"""The two functions of torch's inference path that compute attention inside: the same meaning, by headwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headwise.models.nested import own_keys
from headwise.nn.weights import with_weights
from headwise.ops import attention
from headwise.spec import Bias, Dense, Mask, Padding, Rules
from headwise.tracing import readable

__all__ = ["encoder_layer", "multi_head_attention"]

_PADDING = 1  # torch's mask_type for a mask of keys [B,S]; the others are masks of cells


@dataclass(frozen=True)
class _Rows:
    """A batch as plain rows [B, T, M]; sequences of a nested batch lie behind one another in one row."""

    x: Tensor
    lengths: list[int] | None  # of the sequences of a nested batch

    @staticmethod
    def of(x: Tensor) -> _Rows:
        if not x.is_nested:
            return _Rows(x, None)
        rows = x.unbind()
        return _Rows(torch.cat(rows)[None], [len(row) for row in rows])

    def again(self, x: Tensor) -> Tensor:
        """Rows of any width in the form of the batch that these were made of."""
        if self.lengths is None:
            return x
        return torch.nested.as_nested_tensor(list(x[0].split(self.lengths)))


def multi_head_attention(
    own: Callable[..., Any],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> Any:
    """``torch._native_multi_head_attention`` of a query that is key and value too; any other call stays torch's.

    Args:
        own: torch's function.
        query: [B, T, M], or nested [T_n, M] a sequence.
        mask: bool, True = hidden, or float, added: [B, T] for mask_type 1, else [T, T] or [B, H, T, T].
        key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, need_weights,
            average_attn_weights, mask_type: as of torch's function.

    Returns:
        Output like the query, and weights [B, T, T] or [B, H, T, T], or None. Those of a nested batch are padded by 0.
    """
    if not (query is key is value) or query.dim() != 3 or (query.is_nested and query.layout != torch.strided):
        args = (query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias)
        return own(*args, mask, need_weights, average_attn_weights, mask_type)
    rows = _Rows.of(query)
    heads = F.linear(rows.x, qkv_weight, qkv_bias).unflatten(-1, (3, num_head, -1)).permute(2, 0, 3, 1, 4)
    q, k, v = heads.unbind()
    options: dict[str, Any] = _hiding(mask, mask_type)
    if rows.lengths is not None:
        options = {"mask": own_keys(rows.lengths, rows.lengths, q.device)}
    weights = None
    if need_weights:
        attended, weights = with_weights(q, k, v, **options)
        out = attended.out
        weights = weights.mean(1, keepdim=True) if average_attn_weights else weights
        weights = weights if rows.lengths is None else _padded(weights, rows.lengths)
        weights = weights.squeeze(1) if average_attn_weights else weights
    else:
        out = attention(q, k, v, **options)
    return rows.again(F.linear(out.transpose(1, 2).flatten(2), proj_weight, proj_bias)), weights


def encoder_layer(
    own: Callable[..., Any],
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Any:
    """``torch._transformer_encoder_layer_fwd``: attention and a feed-forward net, each added to what went in.

        norm_first:  x = src + attend(norm_1(src));   out = x + ffn(norm_2(x))
        else:        x = norm_1(src + attend(src));   out = norm_2(x + ffn(x))

    Args:
        own: torch's function.
        src: [B, T, M], or nested [T_n, M] a sequence.
        embed_dim, num_heads, qkv_weight, ..., mask, mask_type: as of torch's function.

    Returns:
        Like src.
    """
    rows = _Rows.of(src)
    weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)

    def attend(x: Tensor) -> Tensor:
        nested = rows.again(x)
        out, _ = multi_head_attention(
            own, nested, nested, nested, embed_dim, num_heads, *weights, mask, False, True, mask_type
        )
        return _Rows.of(out).x

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.layer_norm(x, (embed_dim,), weight, bias, eps)

    def ffn(x: Tensor) -> Tensor:
        inner = F.linear(x, ffn_weight_1, ffn_bias_1)
        return F.linear(F.gelu(inner) if use_gelu else F.relu(inner), ffn_weight_2, ffn_bias_2)

    first, second = (norm_weight_1, norm_bias_1), (norm_weight_2, norm_bias_2)
    x = rows.x
    if norm_first:
        x = x + attend(norm(x, *first))
        return rows.again(x + ffn(norm(x, *second)))
    x = norm(x + attend(x), *first)
    return rows.again(norm(x + ffn(x), *second))


def _hiding(mask: Tensor | None, mask_type: int | None) -> dict[str, Mask | tuple[Rules, ...]]:
    """What a mask of torch's does to the pattern, as arguments of hw.attention.

    torch's modules hand over bool masks as 0 and -inf. Other floats its fused functions take for "hidden", where its
    plain path adds them, as its documentation says: so do these.
    """
    if mask is None:
        return {}
    keep = ~mask if mask.dtype == torch.bool else mask == 0
    if mask.dtype != torch.bool and not (readable(mask) and bool((keep | (mask == float("-inf"))).all())):
        return {"scores": (Bias(mask[:, None, None, :] if mask_type == _PADDING else mask),)}
    return {"mask": Padding(keep) if mask_type == _PADDING else Dense(keep)}


def _padded(weights: Tensor, lengths: list[int]) -> Tensor:
    """Weights [1, H, all, all] of sequences behind one another as [B, H, T, T], 0 where a sequence has ended."""
    most = max(lengths)
    out = weights.new_zeros(len(lengths), weights.shape[1], most, most)
    start = 0
    for n, length in enumerate(lengths):
        part = slice(start, start + length)
        out[n, :, :length, :length] = weights[0, :, part, part]
        start += length
    return out
