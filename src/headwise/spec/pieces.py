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


ROWS = 2**14  # queries whose bounds are looked at together


def pieces_of(intervals: Intervals, geometry: Geometry) -> list[Piece] | None:
    """One piece a batch row, one for all of them where they agree, none for a row without keys; None where not so."""
    if not intervals.exact:
        return None
    if geometry.T == 1 and intervals.runs == 1:
        return _one_query(intervals, geometry)
    shapes = [_Shape() for _ in range(geometry.B)]
    for start in range(0, geometry.T, ROWS):
        lo, hi = intervals.bounds(slice(0, geometry.B), slice(start, min(start + ROWS, geometry.T)))
        if lo.shape[-1] != 1:
            return None
        shapes = shapes[: lo.shape[0]]  # one for all batch rows where the bounds do not tell them apart
        if not all(shape.take(start, lo[b, :, 0], hi[b, :, 0]) for b, shape in enumerate(shapes)):
            return None
    every = slice(0, geometry.B)
    return [shape.piece(every if len(shapes) == 1 else slice(b, b + 1)) for b, shape in enumerate(shapes) if shape.rows]


def _one_query(intervals: Intervals, geometry: Geometry) -> list[Piece]:
    """The pieces of a decoding step: whatever one run of keys one query sees is a rectangle."""
    every, row = slice(0, geometry.B), slice(0, 1)
    starts, stops = (end.flatten().tolist() for end in intervals.bounds(every, row))
    runs = [slice(start, stop) for start, stop in zip(starts, stops, strict=True)]
    batches = [every] if len(runs) == 1 else [slice(b, b + 1) for b in range(geometry.B)]
    return [Piece(batch, row, keys, False) for batch, keys in zip(batches, runs, strict=True) if keys.start < keys.stop]


class _Shape:
    """What the runs of one batch row have looked like so far."""

    def __init__(self) -> None:
        self.rows: slice | None = None
        self.first = self.reach = 0  # the first key that is seen, and how many keys the first query sees
        self.rectangle = self.triangle = True

    def take(self, start: int, lo: Tensor, hi: Tensor) -> bool:
        """Takes in the runs of queries from ``start`` on; False where they are neither rectangle nor triangle."""
        alive = (lo < hi).nonzero()[:, 0]
        if len(alive) == 0:
            return True
        first, last = start + int(alive[0]), start + int(alive[-1])
        lo, hi = lo[alive], hi[alive]
        if self.rows is None:
            self.rows, self.first, self.reach = slice(first, first), int(lo[0]), int(hi[0] - lo[0])
        if first != self.rows.stop or len(alive) != last - first + 1 or bool((lo != self.first).any()):
            return False
        grown = hi - self.first - self.reach
        self.rectangle = self.rectangle and not bool(grown.any())
        steps = torch.arange(first - self.rows.start, last + 1 - self.rows.start, device=lo.device, dtype=torch.int64)
        self.triangle = self.triangle and self.reach == 1 and bool((grown == steps).all())
        self.rows = slice(self.rows.start, last + 1)
        return self.rectangle or self.triangle

    def piece(self, batch: slice) -> Piece:
        """The piece of a batch row that sees a key."""
        assert self.rows is not None
        seen = self.reach if self.rectangle else self.rows.stop - self.rows.start
        return Piece(batch, self.rows, slice(self.first, self.first + seen), not self.rectangle)
