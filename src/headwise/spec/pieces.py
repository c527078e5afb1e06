"""Masks that leave each batch row one rectangle or one triangle of cells: what a fused kernel can do on slices."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.spec.geometry import Geometry
from headwise.spec.intervals import Intervals

__all__ = ["Piece", "pieces_of"]


@dataclass(frozen=True)
class Piece:
    """Batch rows and queries that see one stretch of keys.

    Attributes:
        batch: batch rows.
        rows: their queries that are not empty.
        keys: the keys that some of them see.
        triangle: False where each query sees all of the keys; True where query n of the piece sees the first n + 1.
    """

    batch: slice
    rows: slice
    keys: slice
    triangle: bool


def pieces_of(intervals: Intervals, geometry: Geometry) -> list[Piece] | None:
    """One piece a batch row, one for all of them where they agree, none for a row without keys; None where not so."""
    if not intervals.exact:
        return None
    lo, hi = intervals.bounds(slice(0, geometry.B), slice(0, geometry.T))
    if lo.shape[-1] != 1:
        return None
    lo, hi = lo[..., 0], hi[..., 0]
    pieces = []
    for b in range(lo.shape[0]):
        batch = slice(0, geometry.B) if lo.shape[0] == 1 else slice(b, b + 1)
        found = _piece(batch, lo[b], hi[b])
        if found is None:
            return None
        pieces += found
    return pieces


def _piece(batch: slice, lo: Tensor, hi: Tensor) -> list[Piece] | None:
    """The piece of one batch row from its runs lo, hi [T]; [] where no row sees a key."""
    alive = (lo < hi).nonzero()[:, 0]
    if len(alive) == 0:
        return []
    first, last = int(alive[0]), int(alive[-1])
    rows = slice(first, last + 1)
    start = int(lo[first])
    if len(alive) != last - first + 1 or bool((lo[rows] != start).any()):
        return None
    reach = hi[rows] - start
    if bool((reach == reach[0]).all()):
        return [Piece(batch, rows, slice(start, start + int(reach[0])), False)]
    if bool((reach == torch.arange(1, len(reach) + 1, device=reach.device)).all()):
        return [Piece(batch, rows, slice(start, start + len(reach)), True)]
    return None
