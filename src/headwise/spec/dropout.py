"""Dropout as one counter function of (seed, b, h, i, j): any backend, tile or thread drops the same cells."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.spec.geometry import Cells

__all__ = ["draw_seed", "kept"]

_WORD = 0xFFFFFFFF


def _mix(x: Tensor) -> Tensor:
    """A bijection of 32-bit words (held in int64) in which every input bit reaches every output bit."""
    x = x ^ (x >> 16)
    x = (x * 0x21F0AAAD) & _WORD
    x = x ^ (x >> 15)
    x = (x * 0xD35A2D97) & _WORD
    return x ^ (x >> 15)


def draw_seed() -> Tensor:
    """A 62-bit seed, int64 [], from torch's default generator, so that torch.manual_seed repeats the dropped cells."""
    return torch.randint(0, 2**62, (), dtype=torch.int64, device="cpu")


def kept(seed: int | Tensor, dropout: float, cells: Cells) -> Tensor:
    """Which cells survive: bool [b, h, n, m], each True with probability ``1 - dropout``.

    The seed's two words and b, h, i are mixed into two 32-bit row words r0, r1; cell j survives where
    ``mix(mix(r0 + 0x9E3779B9 * j) ^ r1) >= round(dropout * 2**32)``.
    """
    low, high = seed & _WORD, seed >> 32
    row = torch.as_tensor(low, dtype=torch.int64, device=cells.geometry.device)
    for index in (cells.b, cells.h, cells.i):
        row = _mix((row * 0x9E3779B9 + index + 1) & _WORD)
    other = _mix(row ^ high)
    word = _mix(_mix((row + cells.j * 0x9E3779B9) & _WORD) ^ other)
    return word >= round(dropout * 2**32)
