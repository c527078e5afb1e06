"""How a plan is cut: chunks of heads, blocks of queries, and the tiles of keys that some query of a block can see."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from headwise.plan import Chunk, Plan
from headwise.spec import Cells, Geometry
from headwise.spec.geometry import span

__all__ = ["KEYS", "ROWS", "chunks", "key_tiles", "row_blocks", "visible_in"]

ROWS = 128  # queries in a block
KEYS = 1024  # keys in a tile
SCRATCH = 2**20  # cells of a tile over all heads of a chunk: 4 MiB of float32


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


def row_blocks(rows: slice, step: int = ROWS) -> Iterator[slice]:
    """Cuts queries into blocks."""
    for start in range(rows.start, rows.stop, step):
        yield slice(start, min(start + step, rows.stop))


def key_tiles(plan: Plan, batch: slice, rows: slice, width: int = KEYS) -> list[tuple[slice, bool]]:
    """The tiles of keys that some query of the block may see, and whether all of them see all of it (a bare tile)."""
    intervals = plan.intervals
    lo, hi = intervals.bounds(batch, rows)
    alive = lo < hi
    if plan.geometry.S == 0 or not bool(alive.any()):
        return []
    start, stop = int(lo[alive].min()), int(hi[alive].max())
    first, last = int(lo.max()), int(hi.min())  # keys that every query sees, where there is one run a row
    single = lo.shape[-1] == 1 and intervals.exact
    # A bare stretch begins and ends on multiples of 16, so that its tiles stay aligned.
    first, last = (start if first == start else -(-first // 16) * 16), (stop if last == stop else last // 16 * 16)
    cuts = [start, stop]
    if single and first < last:
        cuts = sorted({start, first, last, stop})
    tiles = []
    for a, b in pairwise(cuts):
        bare = single and first <= a and b <= last
        for j in range(a, b, width):
            tile = slice(j, min(j + width, b))
            if bare or bool(((lo < tile.stop) & (hi > tile.start) & alive).any()):
                tiles.append((tile, bare))
    return tiles


def visible_in(plan: Plan, cells: Cells, bare: bool) -> Tensor | None:
    """Which cells of a tile the mask keeps, broadcastable to its shape; None where it keeps all."""
    mask = plan.spec.mask
    if bare or mask is None:
        return None
    if not plan.intervals.exact:
        kept = mask.keep(cells)
        return None if bool(kept.all()) else kept
    lo, hi = plan.intervals.bounds(cells.batch, cells.rows)
    inside = torch.zeros((), dtype=torch.bool, device=lo.device)
    for run in range(lo.shape[-1]):
        low, high = lo[..., run, None], hi[..., run, None]
        part = cells.j < high
        if int(low.max()) > cells.keys.start:
            part = part & (cells.j >= low)
        inside = part if run == 0 else inside | part
    return inside[:, None]


def tiles_counted(plan: Plan) -> tuple[int, int, int]:
    """Tiles that are worked on, tiles of the whole pattern, and visible cells a head (an upper bound if inexact)."""
    geometry: Geometry = plan.geometry
    used = cells = 0
    for b in range(geometry.B):
        batch = slice(b, b + 1)
        for rows in row_blocks(slice(0, geometry.T)):
            used += sum(-(-span(tile) // KEYS) for tile, _ in _merged(key_tiles(plan, batch, rows)))
            cells += plan.intervals.count(batch, rows)
    total = geometry.B * -(-geometry.T // ROWS) * -(-geometry.S // KEYS)
    return min(used, total), total, cells


def _merged(tiles: list[tuple[slice, bool]]) -> list[tuple[slice, bool]]:
    """Neighbouring tiles as one stretch."""
    out: list[tuple[slice, bool]] = []
    for tile, bare in tiles:
        if out and out[-1][0].stop == tile.start:
            out[-1] = (slice(out[-1][0].start, tile.stop), False)
        else:
            out.append((tile, bare))
    return out
