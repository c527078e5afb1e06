"""Masks as intervals: for each query a few runs of keys [lo, hi) that hold every key it may attend to.

Causal, windows, prefixes, lengths, chunks, packed documents and any ``&`` and ``|`` of them are intervals exactly. The
bounds of a block of rows are computed when that block is reached, so a structured mask costs kilobytes at any length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.spec.checks import batch_of
from headwise.spec.geometry import Geometry

__all__ = ["MAX_RUNS", "Intervals", "capped", "hull_of", "joined", "runs_of_equal", "runs_of_true"]

# More runs a row than this are not worth comparing one by one: only their hull is kept, and a tile asks the mask.
MAX_RUNS = 32

Bounds = Callable[[slice, slice], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class Intervals:
    """Key intervals of every query.

    Attributes:
        bounds: ``bounds(batch, rows) -> lo, hi``, int64 [b or 1, n, K], clamped to [0, S]; ``lo >= hi`` is an empty
            run. Runs of one row may overlap.
        runs: how many runs a row has at most, K.
        exact: True where a key is visible if and only if it lies in a run; False where the runs only hold all visible
            keys and the mask itself has the last word.
    """

    bounds: Bounds
    exact: bool = True
    runs: int = 1

    @staticmethod
    def everything(geometry: Geometry, exact: bool = True) -> Intervals:
        """One run [0, S) for every query."""
        zero = torch.zeros((1, 1, 1), dtype=torch.int64, device=geometry.device)

        def bounds(batch: slice, rows: slice) -> tuple[Tensor, Tensor]:
            lo = zero.expand(1, rows.stop - rows.start, 1)
            return lo, lo + geometry.S

        return Intervals(bounds, exact)

    @staticmethod
    def between(geometry: Geometry, ends: Callable[[slice, slice], tuple[Tensor | int, Tensor | int]]) -> Intervals:
        """One run a query from ``ends(batch, rows) -> lo, hi``, ints or int64 tensors [b or 1, n or 1]."""

        def bounds(batch: slice, rows: slice) -> tuple[Tensor, Tensor]:
            n, S = rows.stop - rows.start, geometry.S
            lo, hi = (
                end.clamp(0, S).expand(-1, n)[..., None]
                if isinstance(end, Tensor)
                else torch.full((1, 1, 1), min(max(end, 0), S), device=geometry.device, dtype=torch.int64).expand(
                    1, n, 1
                )
                for end in ends(batch, rows)
            )
            if len(lo) != len(hi):
                lo, hi = torch.broadcast_tensors(lo, hi)
            return lo, hi

        return Intervals(bounds)

    @staticmethod
    def fixed(lo: Tensor, hi: Tensor, geometry: Geometry) -> Intervals:
        """The same runs for every query: lo, hi int64 [B or 1, K]."""
        lo, hi, exact = capped(lo[:, None], hi[:, None])

        def bounds(batch: slice, rows: slice) -> tuple[Tensor, Tensor]:
            part = batch if lo.shape[0] > 1 else slice(0, 1)
            n = rows.stop - rows.start
            return lo[part].expand(-1, n, -1), hi[part].expand(-1, n, -1)

        return Intervals(bounds, exact, lo.shape[-1])

    def _hulled(self) -> Intervals:
        """One run a row, which holds all of them."""

        def bounds(batch: slice, rows: slice) -> tuple[Tensor, Tensor]:
            return hull_of(*self.bounds(batch, rows))

        return self if self.runs == 1 else Intervals(bounds, exact=False)

    def __and__(self, other: Intervals) -> Intervals:
        """Runs of keys that lie in both; of many times many runs only the hulls are crossed."""
        if self.runs * other.runs > MAX_RUNS:
            return self._hulled() & other._hulled()

        def bounds(batch: slice, rows: slice) -> tuple[Tensor, Tensor]:
            lo_a, hi_a = self.bounds(batch, rows)
            lo_b, hi_b = other.bounds(batch, rows)
            if self.runs == other.runs == 1:
                return torch.maximum(lo_a, lo_b), torch.minimum(hi_a, hi_b)
            lo = torch.maximum(lo_a[..., :, None], lo_b[..., None, :]).flatten(-2)
            hi = torch.minimum(hi_a[..., :, None], hi_b[..., None, :]).flatten(-2)
            return _alive(lo, hi)

        return Intervals(bounds, self.exact and other.exact, self.runs * other.runs)

    def __or__(self, other: Intervals) -> Intervals:
        """Runs of keys that lie in either; of too many only the hulls are kept."""
        if self.runs + other.runs > MAX_RUNS:
            return self._hulled() | other._hulled()

        def bounds(batch: slice, rows: slice) -> tuple[Tensor, Tensor]:
            lo_a, hi_a = self.bounds(batch, rows)
            lo_b, hi_b = other.bounds(batch, rows)
            b = batch_of(lo_a, lo_b)
            lo = torch.cat([x.expand(b, -1, -1) for x in (lo_a, lo_b)], dim=-1)
            hi = torch.cat([x.expand(b, -1, -1) for x in (hi_a, hi_b)], dim=-1)
            return lo, hi

        return Intervals(bounds, self.exact and other.exact, self.runs + other.runs)

    def hull(self, batch: slice, rows: slice) -> tuple[int, int]:
        """The smallest [start, stop) outside which no query of the block sees a key; (0, 0) where none sees any."""
        lo, hi = self.bounds(batch, rows)
        alive = lo < hi
        if not bool(alive.any()):
            return 0, 0
        return int(lo[alive].min()), int(hi[alive].max())

    def count(self, batch: slice, rows: slice) -> int:
        """Cells inside the runs of a block, overlaps counted once, per head."""
        lo, hi = self.bounds(batch, rows)
        left = list(zip(lo.unbind(-1), hi.unbind(-1), strict=True))
        covered, reach = 0, torch.zeros_like(lo[..., 0])
        while left:  # whole columns are compared and exchanged: sorting a few runs a row takes longer
            low, high = left.pop()
            for n, (other_low, other_high) in enumerate(left):
                later = other_low > low
                left[n] = torch.where(later, other_low, low), torch.where(later, other_high, high)
                low, high = torch.where(later, low, other_low), torch.where(later, high, other_high)
            covered += int((high - torch.maximum(low, reach)).clamp(min=0).sum())
            reach = torch.maximum(reach, high)
        return covered * ((batch.stop - batch.start) if lo.shape[0] == 1 else 1)


def joined(found: list[Intervals], join: Callable[[Intervals, Intervals], Intervals]) -> Intervals:
    """Intervals joined two by two: bounds of a thousand masks are ten calls deep, not a thousand."""
    while len(found) > 1:
        found = [join(*found[n : n + 2]) if n + 1 < len(found) else found[n] for n in range(0, len(found), 2)]
    return found[0]


def _alive(lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor]:
    """Drops runs that are empty: of K x L crossed runs hardly more than K + L are left."""
    if lo.shape[-1] == 1:
        return lo, hi
    alive = lo < hi
    most = max(1, int(alive.sum(-1).max())) if alive.numel() else 1
    if most == lo.shape[-1]:
        return lo, hi
    order = (~alive).to(torch.int8).argsort(dim=-1, stable=True)[..., :most]
    alive, lo, hi = (x.gather(-1, order) for x in (alive, lo, hi))
    return torch.where(alive, lo, 0), torch.where(alive, hi, 0)


def capped(lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Replaces more than MAX_RUNS runs (last axis) by their hull; says whether the runs are still exact."""
    if lo.shape[-1] <= MAX_RUNS:
        return lo, hi, True
    return *hull_of(lo, hi), False


def hull_of(lo: Tensor, hi: Tensor) -> tuple[Tensor, Tensor]:
    """The runs of each row (last axis) as the one that holds them all."""
    alive = lo < hi
    low = torch.where(alive, lo, torch.iinfo(torch.int64).max).amin(-1, keepdim=True)
    high = torch.where(alive, hi, 0).amax(-1, keepdim=True)
    return torch.minimum(low, high), high


def runs_of_true(keep: Tensor) -> tuple[Tensor, Tensor]:
    """Runs of True along the last axis of a bool [b, S]: lo, hi int64 [b, K], padded with empty runs (0, 0)."""
    padded = torch.nn.functional.pad(keep.view(torch.int8), (1, 1))
    step = padded[:, 1:] - padded[:, :-1]
    if keep.numel():
        # Where as many keys lie between the first rise and the first fall as there are, there is no second run.
        lo, hi = step.argmax(-1), step.argmin(-1)
        if torch.equal(hi - lo, keep.sum(-1)):
            return lo[:, None], hi[:, None]
    return _table((step == 1).nonzero(), keep.shape[0]), _table((step == -1).nonzero(), keep.shape[0])


def _table(found: Tensor, rows: int) -> Tensor:
    """Turns (row, value) pairs sorted by row into [rows, K], padded with zeros."""
    row, value = found[:, 0], found[:, 1]
    counts = torch.bincount(row, minlength=rows)
    width = max(1, int(counts.max())) if rows else 1
    first = torch.cumsum(counts, 0) - counts
    table = torch.zeros((rows, width), dtype=torch.int64, device=found.device)
    table[row, torch.arange(len(row), device=row.device, dtype=torch.int64) - first[row]] = value
    return table


def runs_of_equal(ids: Tensor, key_ids: Tensor) -> tuple[Tensor, Tensor, bool]:
    """For queries with ids [b, T] the runs of keys with the same id in key_ids [b, S].

    Returns:
        lo, hi int64 [b, T, K] and whether they are exact (False where an id has more than MAX_RUNS runs).
    """
    tables = []
    for query, key in zip(ids, key_ids, strict=True):
        starts, stops, names = _equal_runs(key)
        names, order = names.sort(stable=True)
        starts, stops = starts[order], stops[order]
        first = torch.searchsorted(names, query.contiguous(), right=False)
        last = torch.searchsorted(names, query.contiguous(), right=True)
        width = max(1, int((last - first).max())) if len(query) else 1
        if width > MAX_RUNS:
            none = first == last
            at, end = first.clamp(max=len(names) - 1), (last - 1).clamp(min=0)
            lo = torch.where(none, 0, starts[at])[:, None]
            hi = torch.where(none, 0, stops[end])[:, None]
            tables.append((lo, hi, False))
            continue
        which = first[:, None] + torch.arange(width, device=query.device, dtype=torch.int64)
        real = which < last[:, None]
        which = which.clamp(max=max(0, len(names) - 1))
        if len(names) == 0:
            zero = torch.zeros_like(which)
            tables.append((zero, zero, True))
            continue
        tables.append((torch.where(real, starts[which], 0), torch.where(real, stops[which], 0), True))
    width = max(lo.shape[-1] for lo, _, _ in tables)
    pad = torch.nn.functional.pad
    lo = torch.stack([pad(lo, (0, width - lo.shape[-1])) for lo, _, _ in tables])
    hi = torch.stack([pad(hi, (0, width - hi.shape[-1])) for _, hi, _ in tables])
    return lo, hi, all(exact for _, _, exact in tables)


def _equal_runs(ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Runs of equal neighbours in ids [S]: starts, stops, and the id of each run."""
    if len(ids) == 0:
        empty = torch.zeros(0, dtype=torch.int64, device=ids.device)
        return empty, empty, ids
    change = (ids[1:] != ids[:-1]).nonzero()[:, 0] + 1
    starts = torch.nn.functional.pad(change, (1, 0))
    stops = torch.nn.functional.pad(change, (0, 1), value=len(ids))
    return starts, stops, ids[starts]
