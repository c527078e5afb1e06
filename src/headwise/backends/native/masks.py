"""A mask as the kernels read it: a band, tables of runs, and where those do not say it all, nodes in postfix order.

The band is closed form. A table holds the runs [lo, hi) of every query as int32, 8 bytes a query and run, and one row
of them where all queries or all batch rows agree. What no table can say is read where it lies: cells, tiles, ids.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

import torch
from torch import Tensor

from headwise._native import MAX_DEPTH, MAX_NODES, Call
from headwise.backends.native.addresses import by_batch, contiguous, plane
from headwise.plan import Plan
from headwise.spec import (
    And,
    Blocks,
    Causal,
    Dense,
    Documents,
    Geometry,
    Global,
    Intervals,
    Mask,
    Or,
    Padding,
    Prefix,
    Strided,
    Window,
)
from headwise.spec.checks import FAR
from headwise.spec.intervals import MAX_RUNS, hull_of, joined

__all__ = ["MaskLowering", "mask_refusal"]

ROWS = 2**16  # queries whose runs are found together, in int64, before they become a part of the table


def mask_refusal(plan: Plan) -> str | None:
    """Why the kernels cannot read the mask, as one sentence; None where they can."""
    mask = plan.spec.mask
    if mask is None:
        return None
    for part in mask.parts():
        if type(part) not in _KNOWN and not _tabled(part.intervals(plan.geometry)):
            return f"only Python knows which cells a {type(part).__name__} keeps"
    nodes, depth = _room(mask)
    if (nodes > MAX_NODES or depth > MAX_DEPTH) and not plan.intervals.exact:
        return (
            f"the mask combines up to {nodes} conditions, {depth} deep, and the kernels hold {MAX_NODES}, {MAX_DEPTH}"
            " deep"
        )
    return None


# Masks that have a node of their own, where their runs are too many.
_READ = (Dense, Blocks, Documents, Padding, Strided, Global)
_KNOWN = (*_READ, Causal, Window, Prefix)


def _room(mask: Mask) -> tuple[int, int]:
    """The most nodes that a mask takes, and how deep their stack becomes."""
    if not isinstance(mask, (And, Or)):
        return (3, 2) if type(mask) in (Padding, Global) else (1, 1)
    rooms = [_room(part) for part in mask.masks]
    return sum(n for n, _ in rooms) + len(rooms) - 1, max(depth + (n > 0) for n, (_, depth) in enumerate(rooms))


class MaskLowering:
    """Writes a mask into a call; ``held`` gathers the tensors whose memory the call then names."""

    def __init__(self, call: Call, geometry: Geometry, held: list[Tensor]) -> None:
        self.call, self.geometry, self.held = call, geometry, held
        self._found: dict[int, Intervals] = {}

    def write(self, mask: Mask) -> None:
        """The mask as a band, and what a band cannot say as runs or nodes behind it."""
        before: list[int] = []
        after: list[int] = []
        rest = [part for part in _factors(mask) if not _banded(part, self.geometry, before, after)]
        self.call.band(min(before, default=None), min(after, default=None))
        if not rest:
            return
        left = rest[0] if len(rest) == 1 else And(tuple(rest))
        intervals = self._intervals(left)
        once = _same_for_every_query(left)
        if _tabled(intervals):
            self.call.runs(*self._table(intervals, once, hull=False))
            return
        self.call.runs(*self._table(intervals, once, hull=True))
        self._push(left)

    def _intervals(self, mask: Mask) -> Intervals:
        """The runs of a mask, of each part found once; every mask lives as long as this does."""
        if id(mask) not in self._found:
            if isinstance(mask, (And, Or)):
                join = operator.and_ if isinstance(mask, And) else operator.or_
                self._found[id(mask)] = joined([self._intervals(part) for part in mask.masks], join)
            else:
                self._found[id(mask)] = mask.intervals(self.geometry)
        return self._found[id(mask)]

    def _push(self, mask: Mask) -> None:
        """The nodes of a mask."""
        intervals = self._intervals(mask)
        if _tabled(intervals):
            self.call.node_runs(*self._table(intervals, _same_for_every_query(mask), hull=False))
        elif isinstance(mask, (And, Or)):
            for n, part in enumerate(mask.masks):
                self._push(part)
                if n and isinstance(mask, And):
                    self.call.node_all_of()
                elif n:
                    self.call.node_any_of()
        else:
            self._push_read(mask)

    def _push_read(self, mask: Mask) -> None:
        """The node of a mask that is read where it lies."""
        if isinstance(mask, Dense):
            self._push_cells(mask.keep_cells)
        elif isinstance(mask, Blocks):
            tiles = mask.keep_tiles
            self.held.append(tiles)
            nq, nk = tiles.shape[-2:]
            at = plane(tiles, "the map of tiles", (self.geometry.B, self.geometry.H, nq, nk), (torch.bool,))
            self.call.node_blocks(*at, mask.size, nq if mask.align == "end" else 0)
        elif isinstance(mask, Documents):
            ids, key_ids = mask.ids, mask.ids if mask.key_ids is None else mask.key_ids
            self.call.node_equal(*self._ids(ids, self.geometry.T), *self._ids(key_ids, self.geometry.S))
        elif isinstance(mask, Strided):  # equal where both have the same remainder
            pos, S = self.geometry.positions(*self._everybody()), self.geometry.S
            keys = torch.arange(S, dtype=torch.int64, device=self.geometry.device)
            self.call.node_equal(*self._ids(pos % mask.step, self.geometry.T), *self._ids(keys % mask.step, S))
        elif isinstance(mask, Global):
            self._push_cells(mask.keys(self.geometry)[:, None, None, :])
            self._push_cells(mask.queries(self.geometry, *self._everybody())[:, None, :, None])
            self.call.node_any_of()
        elif isinstance(mask, Padding) and isinstance(mask.keep_or_lengths, Tensor):
            self._push_cells(mask.keep_or_lengths[:, None, None, :])
            if mask.queries is not None:
                self._push_cells(mask.queries[:, None, :, None])
                self.call.node_all_of()
        else:
            raise AssertionError(f"{type(mask).__name__} should have been refused")

    def _everybody(self) -> tuple[slice, slice]:
        return slice(0, self.geometry.B), slice(0, self.geometry.T)

    def _push_cells(self, cells: Tensor) -> None:
        g = self.geometry
        self.held.append(cells)
        self.call.node_dense(*plane(cells, "the mask", (g.B, g.H, g.T, g.S), (torch.bool,)))

    def _ids(self, ids: Tensor, count: int) -> tuple[int, int]:
        """Address and batch stride of ids [count] or [B, count] as int64."""
        whole = ids.long().contiguous()
        self.held.append(whole)
        return by_batch(whole, "ids", self.geometry.B, (count,))

    def _table(self, intervals: Intervals, once: bool, hull: bool) -> tuple[int, int, int, int, int]:
        """Addresses of lo and hi, strides of their batch and row axes, and how many runs a row has."""
        g = self.geometry
        parts = []
        for start in range(0, 1 if once else g.T, ROWS):
            lo, hi = intervals.bounds(slice(0, g.B), slice(start, start + 1 if once else min(start + ROWS, g.T)))
            ends = hull_of(lo, hi) if hull and lo.shape[-1] > 1 else (lo, hi)
            parts.append([end.to(torch.int32).contiguous() for end in ends])
        runs = max(lo.shape[-1] for lo, _ in parts)
        lo, hi = (_joined([part[side] for part in parts], runs) for side in (0, 1))
        self.held += (lo, hi)
        b, n = lo.shape[0], lo.shape[1]
        shape = (1 if b == 1 else g.B, 1 if n == 1 else g.T, runs)
        low, high = (contiguous(ends, "the runs of the mask", shape, torch.int32) for ends in (lo, hi))
        return low, high, 0 if b == 1 else n * runs, 0 if n == 1 else runs, runs


def _joined(parts: list[Tensor], runs: int) -> Tensor:
    """Parts [b, n, K] behind one another, filled up with empty runs."""
    if len(parts) == 1:
        return parts[0]
    return torch.cat([torch.nn.functional.pad(part, (0, runs - part.shape[-1])) for part in parts], dim=1)


def _factors(mask: Mask) -> Iterator[Mask]:
    """The masks that must all keep a cell."""
    if not isinstance(mask, And):
        yield mask
        return
    for part in mask.masks:
        yield from _factors(part)


def _banded(mask: Mask, geometry: Geometry, before: list[int], after: list[int]) -> bool:
    """Whether a mask is keys near the query, pos - before to pos + after, and nothing else; adds its limits."""
    if type(mask) is Causal and mask.align == "end":
        after.append(0)
    elif type(mask) is Causal and isinstance(geometry.q_start, int):
        after.append(-geometry.q_start)  # j <= i
    elif type(mask) is Window:
        before += [] if mask.before is None else [min(mask.before, FAR)]
        after += [] if mask.after is None else [min(mask.after, FAR)]
    else:
        return False
    return True


def _tabled(intervals: Intervals) -> bool:
    """Whether the runs say it all."""
    return intervals.exact and intervals.runs <= MAX_RUNS


def _same_for_every_query(mask: Mask) -> bool:
    """Whether the runs of all queries of a batch row are the same."""
    if isinstance(mask, (And, Or)):
        return all(_same_for_every_query(part) for part in mask.masks)
    return type(mask) in (Prefix, Dense) or (type(mask) is Padding and mask.queries is None)
