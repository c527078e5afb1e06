"""Rotary embedding by the kernels: where a tensor is plain enough, in one pass over its memory."""

from __future__ import annotations

import torch
from torch import Tensor

import headwise._native as kernels
from headwise.backends.native.addresses import DTYPES, operand, plane

__all__ = ["turn"]

_HAS_KERNELS = bool(kernels.isa())


def turn(x: Tensor, cos: Tensor, sin: Tensor, neighbours: bool, inplace: bool) -> Tensor | None:
    """Turns pairs of numbers of each row by the angles of its token.

    Args:
        x: [B,H,T,D], of which no gradient is asked and that nobody follows.
        cos, sin: [T,W/2] or [B,T,W/2] float32, W <= D.
        neighbours: whether pair k is numbers (2k, 2k + 1) of a row; else (k, k + W/2).
        inplace: whether x may be written over.

    Returns:
        [B,H,T,D], x itself where that could be done in place; None where the kernels cannot do it.
    """
    if not _HAS_KERNELS or x.dtype not in DTYPES or type(x) is not Tensor or not (x.is_cpu and cos.is_cpu):
        return None
    if cos.dtype != torch.float32 or x.dim() != 4 or not x.numel() or x.is_neg() or x._is_zerotensor():
        return None
    if x.stride(-1) != 1 or cos.stride(-1) != 1 or sin.stride() != cos.stride():
        return None
    B, H, T, D = x.shape
    if inplace and 0 not in x.stride() and not (x.is_inference() and not torch.is_inference_mode_enabled()):
        out = x
        if not x.is_inference():
            torch.autograd.graph.increment_version(x)
    else:
        out = x.new_empty_strided((B, H, T, D), (T * H * D, D, H * D, 1))
    shape, half = (B, H, T, D), cos.shape[-1]
    (cos_at, strides), (sin_at, _) = (
        plane(angle.unsqueeze(-3), what, (B, 1, T, half), (torch.float32,))
        for angle, what in ((cos, "the cosines"), (sin, "the sines"))
    )
    places = operand(x, "x", shape), operand(out, "out", shape, x.dtype)
    angles = (cos_at, sin_at, strides[0], strides[2], half)
    kernels.turn(*places, shape, angles, neighbours, torch.get_num_threads())
    return out
