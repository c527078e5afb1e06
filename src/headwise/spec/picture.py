"""A mask as a small picture in characters, at a cost that the picture decides and not the length."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from headwise.spec.geometry import Cells, Geometry
from headwise.spec.intervals import Intervals

if TYPE_CHECKING:
    from headwise.spec.masks import Mask

__all__ = ["picture_of"]

SHADES = "·░▒▓█"  # no cell is visible, under a third of them, up to two thirds, more, all
QUERIES, KEYS = 8, 64  # looked at for one character: so many queries, and where only the mask knows, so many keys


def picture_of(mask: Mask, geometry: Geometry, batch: int, head: int, height: int, width: int) -> str:
    """One line a query and one character a key; where those are more than fit, one for a stretch of each."""
    T, S = geometry.T, geometry.S
    down, across = min(T, height), min(S, width)
    at = Cells(geometry, slice(batch, batch + 1), slice(head, head + 1), slice(0, T), slice(0, S))
    if (down, across) == (T, S):
        return "\n".join("".join(SHADES[-1] if cell else SHADES[0] for cell in row) for row in _kept(mask, at).tolist())
    rows, keys = _cuts(T, down), _cuts(S, across)
    intervals = mask.intervals(geometry)
    shares = _by_runs(intervals, at, rows, keys) if intervals.exact else _by_cells(mask, intervals, at, rows, keys)
    lines = ["".join(_shade(share) for share in row) for row in shares.tolist()]
    return "\n".join([*lines, f"{T} queries down, {S} keys across; one character is {_about(rows)} x {_about(keys)}"])


def _cuts(count: int, parts: int) -> list[int]:
    return [n * count // max(parts, 1) for n in range(parts + 1)]


def _about(cuts: list[int]) -> int:
    return max((b - a for a, b in pairwise(cuts)), default=0)


def _shade(share: float) -> str:
    if share in (0.0, 1.0):
        return SHADES[-1 if share else 0]
    return SHADES[1 + min(int(share * 3), 2)]


def _kept(mask: Mask, cells: Cells) -> Tensor:
    """Which cells of one head are visible: bool [n, m]."""
    return mask.keep(cells).expand(cells.shape)[0, 0]


def _by_runs(intervals: Intervals, at: Cells, rows: list[int], keys: list[int]) -> Tensor:
    """The visible share of each character's cells, from the runs of a few of its queries."""
    left, right = (
        torch.tensor(keys[:-1], dtype=torch.int64, device="cpu"),
        torch.tensor(keys[1:], dtype=torch.int64, device="cpu"),
    )
    shares = torch.zeros(len(rows) - 1, len(keys) - 1, dtype=torch.float32, device="cpu")
    for r, (start, stop) in enumerate(pairwise(rows)):
        few = min(QUERIES, stop - start)
        for n in range(few):
            query = start + (2 * n + 1) * (stop - start) // (2 * few)
            lo, hi = (end[0, 0].cpu() for end in intervals.bounds(at.batch, slice(query, query + 1)))
            lo, order = lo.sort()
            hi = hi[order].cummax(0).values
            lo = torch.maximum(lo, torch.nn.functional.pad(hi[:-1], (1, 0)))  # overlaps count once
            inside = torch.minimum(hi[:, None], right) - torch.maximum(lo[:, None], left)
            shares[r] += inside.clamp(min=0).sum(0) / (right - left) / few
    return shares.round(decimals=5)


def _by_cells(mask: Mask, intervals: Intervals, at: Cells, rows: list[int], keys: list[int]) -> Tensor:
    """The same from a few cells, where only the mask knows what is visible.

    Looked at are neighbouring queries in the middle of each character, and keys in the middle of what they may see.
    """
    shares = torch.zeros(len(rows) - 1, len(keys) - 1, dtype=torch.float32, device="cpu")
    for r, part in enumerate(pairwise(rows)):
        queries = _middle(*part, QUERIES)
        first, behind = intervals.hull(at.batch, queries)
        for c, (start, stop) in enumerate(pairwise(keys)):
            lo, hi = max(start, first), min(stop, behind)
            if lo < hi:
                near = Cells(at.geometry, at.batch, at.heads, queries, _middle(lo, hi, KEYS))
                shares[r, c] = _kept(mask, near).float().mean() * ((hi - lo) / (stop - start))
    return shares


def _middle(start: int, stop: int, most: int) -> slice:
    first = start + max(0, stop - start - most) // 2
    return slice(first, min(stop, first + most))
