"""How a plan is cut: chunks of heads, blocks of queries, and the tiles of keys that some query of a block can see."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from headwise.plan import Chunk, Plan
from headwise.spec import Cells
from headwise.spec.geometry import span

__all__ = ["chunks", "key_tiles", "row_blocks", "tiles_counted"]

ROWS = 128  # queries in a block
KEYS = 1024  # keys in a tile
SCRATCH = 2**20  # cells of a tile over all heads of a chunk: 4 MiB of float32
FEW = 4  # runs of a row up to which a tile compares with each; beyond, the mask's own definition is cheaper


def chunks(plan: Plan, batch: slice, heads: slice) -> Iterator[Chunk]:
    """Cuts batch rows and query heads into chunks whose tiles fit the scratch, groups of heads unbroken."""
    mask = plan.spec.mask
    geometry = plan.geometry
    tile = max(1, min(ROWS, geometry.T) * min(KEYS, geometry.S))
    many = max(1, SCRATCH // tile)  # heads times batch rows in a chunk
    alone = 1 if mask is not None and mask.per_head else many
    rows = 1 if mask is not None and mask.per_batch and tile > 64 * 64 else None
    for h, kv, group in _head_groups(plan, heads, alone):
        b_step = rows or max(1, many // max(1, span(h)))
        for b in range(batch.start, batch.stop, b_step):
            yield Chunk(slice(b, min(b + b_step, batch.stop)), h, kv, group)


def _head_groups(plan: Plan, heads: slice, most: int) -> Iterator[tuple[slice, slice, int]]:
    """Query heads, their key/value heads and the group size: whole groups where heads // G holds, else head by head."""
    group = plan.geometry.H // max(1, plan.geometry.Hk)
    whole = plan.uniform_groups and group and heads.start % group == 0 and heads.stop % group == 0
    if not whole:
        for h in range(heads.start, heads.stop):
            kv = plan.kv_heads[h]
            yield slice(h, h + 1), slice(kv, kv + 1), 1
        return
    step = max(1, most // group)
    for kv in range(heads.start // group, heads.stop // group, step):
        stop = min(kv + step, heads.stop // group)
        yield slice(kv * group, stop * group), slice(kv, stop), group


def row_blocks(rows: slice) -> Iterator[slice]:
    """Cuts queries into blocks."""
    for start in range(rows.start, rows.stop, ROWS):
        yield slice(start, min(start + ROWS, rows.stop))


def key_tiles(
    plan: Plan, chunk: Chunk, rows: slice, wanted: slice | None = None
) -> Iterator[tuple[Cells, Tensor | None]]:
    """The tiles that some query of a block may see, within the wanted keys (None = all of them).

    Yields:
        Where the tile lies, and which of its cells the mask keeps (bool, broadcastable to them; None = all).
    """
    intervals = plan.intervals
    lo, hi = intervals.bounds(chunk.batch, rows)
    alive = lo < hi
    if plan.geometry.S == 0 or not bool(alive.any()):
        return
    start, stop = int(lo[alive].min()), int(hi[alive].max())
    first, last = int(lo.max()), int(hi.min())  # keys that every query sees, where there is one run a row
    single = lo.shape[-1] == 1 and intervals.exact
    if wanted is not None:
        start, stop = max(start, wanted.start), min(stop, wanted.stop)
        first, last = max(start, first), min(stop, last)
    # A bare stretch begins and ends on multiples of 16, so that its tiles stay aligned.
    first, last = (start if first <= start else -(-first // 16) * 16), (stop if last >= stop else last // 16 * 16)
    cuts = sorted({start, first, last, stop}) if single and start <= first < last <= stop else [start, stop]
    for a, b in pairwise(cuts):
        bare = single and first <= a and b <= last
        for j in range(a, b, KEYS):
            keys = slice(j, min(j + KEYS, b))
            if bare:
                yield Cells(plan.geometry, chunk.batch, chunk.heads, rows, keys), None
            elif bool(((lo < keys.stop) & (hi > keys.start) & alive).any()):
                yield from _seen(plan, Cells(plan.geometry, chunk.batch, chunk.heads, rows, keys), lo, hi)


def _seen(plan: Plan, cells: Cells, lo: Tensor, hi: Tensor) -> Iterator[tuple[Cells, Tensor | None]]:
    """A tile that is not bare, cut down to the keys that some query sees; nothing where none does."""
    mask = plan.spec.mask
    if mask is None:
        yield cells, None
    elif plan.intervals.exact and lo.shape[-1] <= FEW:
        yield cells, _inside(cells, lo, hi)
    else:
        kept = mask.keep(cells)
        kept = kept.reshape((1,) * (4 - kept.dim()) + tuple(kept.shape))
        if bool(kept.all()):
            yield cells, None
            return
        some = kept.flatten(0, -2).any(0).nonzero()[:, 0]
        if len(some) == 0:
            return
        if kept.shape[-1] > 1:
            near = slice(int(some[0]), int(some[-1]) + 1)
            kept = kept[..., near]
            cells = replace(cells, keys=slice(cells.keys.start + near.start, cells.keys.start + near.stop))
        yield cells, kept


def _inside(cells: Cells, lo: Tensor, hi: Tensor) -> Tensor:
    """Which cells of a tile lie in a run of their query: bool [b or 1, 1, n, m]."""
    inside = None
    for run in range(lo.shape[-1]):
        low, high = lo[..., run, None], hi[..., run, None]
        part = cells.j < high
        if int(low.max()) > cells.keys.start:
            part = part & (cells.j >= low)
        inside = part if inside is None else inside | part
    assert inside is not None
    return inside[:, None]


def tiles_counted(plan: Plan) -> tuple[int, int, int]:
    """Tiles of ROWS x KEYS that some query sees into, tiles of the whole pattern, and visible cells a head.

    Both are upper bounds where only the mask itself knows what is visible.
    """
    g = plan.geometry
    across, used, cells = -(-g.S // KEYS), 0, 0
    for start in range(0, g.T, 128 * ROWS):
        rows = slice(start, min(start + 128 * ROWS, g.T))
        lo, hi = plan.intervals.bounds(slice(0, g.B), rows)
        cells += plan.intervals.count(slice(0, g.B), rows)
        alive = lo < hi
        # For each block of rows, +1 where a run's first tile begins and -1 behind its last: tiles with a sum above 0.
        blocks = -(-span(rows) // ROWS)
        batch, query = (torch.arange(n, dtype=torch.int64, device=lo.device) for n in (lo.shape[0], span(rows)))
        line = (query[:, None] // ROWS + blocks * batch[:, None, None]) * (across + 1)
        begin, behind = (
            torch.bincount((line + ends)[alive], minlength=lo.shape[0] * blocks * (across + 1))
            for ends in (lo // KEYS, -(-hi // KEYS))
        )
        seen = (begin - behind).view(-1, across + 1).cumsum(-1) > 0
        used += int(seen.sum()) * (g.B if lo.shape[0] == 1 else 1)
    return used, g.B * -(-g.T // ROWS) * across, cells
