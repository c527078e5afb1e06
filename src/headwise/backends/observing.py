"""The observers' pass: exact tiles of a pattern, made with the final numbers of their rows, used and forgotten.

The native kernels answer the built-in questions where they can; tiles in portable torch answer all others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from headwise.backends.protocol import RowFacts
from headwise.backends.tiling import chunks, key_tiles, row_blocks
from headwise.backends.worker import INF, Online, Worker, probabilities
from headwise.observers import Accumulator, Frame, Observer, Tile, start
from headwise.plan import Plan
from headwise.products import may_be_extreme
from headwise.spec import Cells
from headwise.spec.geometry import span

try:
    from headwise.backends.native import Native
    from headwise.backends.native.answers import fill, fills
except ImportError:  # installed where there was no compiler
    NATIVE = False
else:
    NATIVE = True

__all__ = ["survey"]

KEEP = 2**22  # cells of a row block whose scores are kept between the two sweeps of a survey: 16 MiB of float32


Made = tuple[Cells, Tensor, Tensor | None, Tensor]  # a tile's place, scores, visible cells and probabilities


def survey(
    plan: Plan,
    facts: RowFacts | None,
    frame: Frame,
    observers: dict[str, Any],
    *,
    entropy: Tensor | None = None,
    known: Mapping[str, Any] | None = None,
    portable: bool = False,
) -> dict[str, Any]:
    """Answers questions about a part of the pattern in one pass over its tiles; memory O(T).

    Args:
        plan: the call.
        facts: of its rows if a forward pass left them; else they are found on the way.
        frame: batch rows, heads and queries to look at.
        observers: questions by name, all about ``frame``.
        entropy: of its rows [B, H, T] if a forward pass left it.
        known: answers about all of the pattern that a forward pass left, by name.
        portable: leave the native kernels out.

    Returns:
        The answers by name.
    """
    known = known or {}
    found = {name: start(observer, frame) for name, observer in observers.items() if name not in known}
    left = found
    with torch.no_grad():
        if NATIVE and not portable and Native().refuse(plan) is None:
            left = {name: accumulator for name, accumulator in found.items() if not fills(accumulator)}
            if len(left) < len(found):
                fill(plan, facts, entropy, frame, [x for name, x in found.items() if name not in left])
        if left:
            _show(plan, facts, frame, [(observers[name], x) for name, x in left.items()])
        answers = {name: accumulator.result() for name, accumulator in found.items()}
        return {name: known[name] if name in known else answers[name] for name in observers}


def _show(plan: Plan, facts: RowFacts | None, frame: Frame, asked: list[tuple[Any, Accumulator]]) -> None:
    """Shows every tile of the frame to all accumulators."""
    careful = may_be_extreme(plan.q, plan.k, plan.scale)
    values = any(not isinstance(o, Observer) or o.reads_values for o, _ in asked)
    for chunk in chunks(plan, frame.batch, frame.heads):
        worker = Worker(plan, chunk, careful)
        for rows in row_blocks(frame.rows):
            for tile in _tiles(worker, rows, frame.keys, facts, values):
                for observer, accumulator in asked:
                    # A user's observer gets tensors of its own: what it writes there reaches nobody else.
                    accumulator.see(tile if isinstance(observer, Observer) else tile.copied())


def _tiles(worker: Worker, rows: slice, wanted: slice, facts: RowFacts | None, values: bool) -> Iterator[Tile]:
    """Exact tiles of one block of rows that meet the wanted keys; at least one, so that its row facts are seen."""
    plan, chunk = worker.plan, worker.chunk
    q = worker.queries(rows)
    if facts is not None:
        at = (chunk.batch, chunk.heads, rows)
        here = RowFacts(*(fact[at] for fact in facts))
        made = _made(worker, q, rows, wanted, here)
    elif span(chunk.batch) * span(chunk.heads) * span(rows) * _reach(plan, chunk.batch, rows) <= KEEP:
        here, kept_tiles = _whole_rows(worker, q, rows)
        near = [tile for tile in kept_tiles if tile[0].keys.start < wanted.stop and tile[0].keys.stop > wanted.start]
        made = iter(near)
    else:
        online = Online.of(worker, rows)
        for cells, kept_cells in key_tiles(plan, chunk, rows):
            online.take(worker.scores(q, cells, kept_cells)[0])
        here, _ = worker.finish(online.largest, online.total)
        made = _made(worker, q, rows, wanted, here)
    nothing = True
    for cells, score, visible, p in made:
        nothing = False
        keys = cells.keys
        v = worker.v[:, :, keys].repeat_interleave(chunk.group, dim=1) if values and worker.v is not None else None
        yield Tile(cells, p, score, visible, here.peak, here.log_total, here.lse, here.max_logit, v)
    if nothing:
        none = Cells(plan.geometry, chunk.batch, chunk.heads, rows, slice(wanted.start, wanted.start))
        empty = here.peak.new_zeros((*here.peak.shape, 0))
        width = (*none.shape[:2], 0, plan.geometry.E)
        v = here.peak.new_zeros(width) if values and worker.v is not None else None
        yield Tile(none, empty, empty, None, here.peak, here.log_total, here.lse, here.max_logit, v)


def _reach(plan: Plan, batch: slice, rows: slice) -> int:
    """How many keys lie between the first and the last that a block of rows may see."""
    start, stop = plan.intervals.hull(batch, rows)
    return stop - start


def _made(worker: Worker, q: Tensor, rows: slice, wanted: slice, facts: RowFacts) -> Iterator[Made]:
    """Tiles of a block whose row facts are known."""
    for cells, kept_cells in key_tiles(worker.plan, worker.chunk, rows, wanted):
        score, visible, _ = worker.scores(q, cells, kept_cells)
        yield cells, score, visible, probabilities(score, visible, facts.peak, facts.log_total)


def _whole_rows(worker: Worker, q: Tensor, rows: slice) -> tuple[RowFacts, list[Made]]:
    """A block of rows that fits the scratch: its facts and its tiles.

    With all scores at hand the maximum is known before the first exponential, so each cell is made once.
    """
    online = Online.of(worker, rows)
    where = key_tiles(worker.plan, worker.chunk, rows)
    scored = [(cells, *worker.scores(q, cells, kept_cells)[:2]) for cells, kept_cells in where]
    for _, score, _ in scored:
        online.largest = torch.maximum(online.largest, score.amax(-1))
    base = online.largest.masked_fill(online.largest == -INF, 0.0)[..., None]
    powers = [(score - base).exp_() for _, score, _ in scored]
    for power in powers:
        online.total = online.total + power.sum(-1)
    facts, factor = worker.finish(online.largest, online.total)
    nan = bool(factor.isnan().any())
    made = []
    for (cells, score, visible), power in zip(scored, powers, strict=True):
        p = power.mul_(factor[..., None])
        made.append((cells, score, visible, p.masked_fill_(~visible, 0.0) if nan and visible is not None else p))
    return facts, made
