"""The turning itself: by the native kernels where they are and nobody follows, else in torch's own operations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headwise.backends import turn
from headwise.tracing import followed

__all__ = ["rotated"]


def rotated(x: Tensor, cos: Tensor, sin: Tensor, pairing: str, inplace: bool) -> Tensor:
    """Turns pairs of numbers by angles.

    Args:
        x: [B,H,T,D].
        cos, sin: [T,W/2] or [B,T,W/2], W <= D.
        pairing: "halves" or "neighbours".
        inplace: whether x may be written over.

    Returns:
        [B,H,T,D] in x's dtype: the first W numbers of each row turned, the rest as it is.

    Example:
        >>> import torch
        >>> from headwise.nn.rotating import rotated
        >>> quarter = torch.zeros(1, 1), torch.ones(1, 1)
        >>> rotated(torch.tensor([[[[1.0, 2.0, 3.0]]]]), *quarter, "halves", inplace=False)
        tensor([[[[-2.,  1.,  3.]]]])
    """
    if followed(x, cos, sin):
        return _in_torch(x, cos, sin, pairing)
    if torch.is_grad_enabled() and x.requires_grad:
        return _Turn.apply(x, cos, sin, pairing)
    return _turned(x, cos, sin, pairing, inplace)


def _turned(x: Tensor, cos: Tensor, sin: Tensor, pairing: str, inplace: bool) -> Tensor:
    done = turn(x, cos, sin, pairing == "neighbours", inplace)
    return _in_torch(x, cos, sin, pairing) if done is None else done


class _Turn(torch.autograd.Function):
    """A turn, and its derivative: the turn back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.pairing = pairing
        return _turned(x, cos, sin, pairing, inplace=False)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        cos, sin = ctx.saved_tensors
        return rotated(grad, cos, -sin, ctx.pairing, inplace=False), None, None, None


def _in_torch(x: Tensor, cos: Tensor, sin: Tensor, pairing: str) -> Tensor:
    if cos.dim() == 3:
        cos, sin = cos[:, None], sin[:, None]
    half = cos.shape[-1]
    wide = x[..., : 2 * half].to(cos.dtype)
    if pairing == "halves":
        a, b = wide[..., :half], wide[..., half:]
        turned = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    else:
        a, b = wide[..., ::2], wide[..., 1::2]
        turned = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    turned = turned.to(x.dtype)
    return turned if 2 * half == x.shape[-1] else torch.cat((turned, x[..., 2 * half :]), -1)
