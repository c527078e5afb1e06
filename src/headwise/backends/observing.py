"""The observers' pass: exact tiles of a pattern, made with the final numbers of their rows, used and forgotten.

The native kernels answer the built-in questions where they can; tiles in portable torch answer all others.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from headwise.backends.compiled import ABSENT, say_absent
from headwise.backends.protocol import RowFacts
from headwise.backends.tiling import chunks, key_tiles, row_blocks
from headwise.backends.worker import INF, Online, Worker, probabilities
from headwise.observers import Accumulator, Frame, Observer, Tile, start
from headwise.plan import Plan
from headwise.products import may_be_extreme
from headwise.spec import Cells
from headwise.spec.geometry import span

NATIVE = ABSENT is None
if NATIVE:
    from headwise.backends.native import Native
    from headwise.backends.native.answers import blank, fill, fills, sweep

__all__ = ["Settled", "survey"]

AT_ONCE = 2**27  # cells whose row facts are found in one piece, some 50 ms of two cores; but LEAST rows
LEAST = 256
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
        elif not NATIVE and not portable:
            say_absent("Pattern", plan)
        if left:
            _show(plan, facts, frame, [(observers[name], x) for name, x in left.items()])
        answers = {name: accumulator.result() for name, accumulator in found.items()}
        return {name: known[name] if name in known else answers[name] for name in observers}


def _row_facts(plan: Plan, batch: slice, heads: slice) -> Iterator[tuple[slice, slice, slice, RowFacts]]:
    """The facts of the rows of a part, some rows at a time, with the batch rows, heads and queries that they are of.

    They are those that a forward pass of the same backend would have left.
    """
    g = plan.geometry
    frame = Frame(g, batch, heads, slice(0, g.T), slice(0, g.S), plan.dtype)
    if 0 in (frame.b, frame.h, g.T):
        return
    # No mode of torch may reach over a yield: it would be that of whoever takes the next piece.
    if NATIVE and g.S and Native().refuse(plan) is None:
        step = max(LEAST, AT_ONCE // (g.S * frame.b * frame.h))
        for start in range(0, g.T, step):
            part = replace(frame, rows=slice(start, min(start + step, g.T)))
            here = blank(frame.b, frame.h, span(part.rows), entropy=False)
            with torch.no_grad():
                sweep(plan, part, here, False, None, [])
            yield batch, heads, part.rows, RowFacts(*here[:3])
        return
    if not NATIVE:
        say_absent("Pattern", plan)
    careful = may_be_extreme(plan.q, plan.k, plan.scale)
    for chunk in chunks(plan, batch, heads):
        worker = Worker(plan, chunk, careful)
        for rows in row_blocks(frame.rows):
            with torch.no_grad():
                online, q = Online.of(worker, rows), worker.queries(rows)
                for cells, kept_cells in key_tiles(plan, chunk, rows):
                    online.take(worker.scores(q, cells, kept_cells)[0])
                facts, _ = worker.finish(online.largest, online.total)
            yield chunk.batch, chunk.heads, rows, facts


class Settled:
    """The row facts of a pattern as far as they are known, head by head of each batch row; [B, H, T] a fact.

    Threads may ask and find at once: a head counts as known only after its facts have been written.

    Attributes:
        facts: of all rows; only those of known heads mean anything. None where no head is known.
        known: whether a head's rows are known, by batch row and head.
    """

    def __init__(self, plan: Plan, facts: RowFacts | None = None) -> None:
        g = plan.geometry
        self.facts = facts
        self.known = [[facts is not None] * g.H for _ in range(g.B)]
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            facts = None if self.facts is None else RowFacts(*(fact.clone() for fact in self.facts))
            return {"facts": facts, "known": [list(row) for row in self.known]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def covers(self, batch: slice, heads: slice) -> bool:
        """Whether every head of a part is known."""
        return all(all(row[heads]) for row in self.known[batch])

    def write(self, plan: Plan, batch: slice, heads: slice, facts: RowFacts) -> None:
        """Takes facts [b, h, T] of a part as known."""
        with self._lock:
            self._write(plan, batch, heads, slice(0, plan.geometry.T), facts)
            self._mark(batch, heads)

    def finding(self, plan: Plan, batch: slice, heads: slice) -> Iterator[None]:
        """Finds the facts of those heads of a part that are not known, a piece a step.

        Two threads that find the same ones write the same numbers.
        """
        for part in list(self._missing(batch, heads)):
            for rows_of_batch, of_heads, rows, facts in _row_facts(plan, *part):
                with self._lock:
                    self._write(plan, rows_of_batch, of_heads, rows, facts)
                yield
            with self._lock:
                self._mark(*part)

    def copied(self, plan: Plan, batch: slice, heads: slice) -> RowFacts:
        """The facts [b, h, T] of a part whose heads are known, as copies."""
        return RowFacts(*(fact[batch, heads].clone() for fact in self._room(plan)))

    def _room(self, plan: Plan) -> RowFacts:
        if self.facts is None:
            g = plan.geometry
            with torch.inference_mode(False):  # what is made in that mode could not be written to outside of it
                blanks = (torch.zeros((g.B, g.H, g.T), dtype=plan.dtype, device=g.device) for _ in RowFacts._fields)
                self.facts = RowFacts(*blanks)
        return self.facts

    def _write(self, plan: Plan, batch: slice, heads: slice, rows: slice, facts: RowFacts) -> None:
        with torch.no_grad():
            for into, found in zip(self._room(plan), facts, strict=True):
                into[batch, heads, rows] = found

    def _mark(self, batch: slice, heads: slice) -> None:
        for row in self.known[batch]:
            row[heads] = [True] * span(heads)

    def _missing(self, batch: slice, heads: slice) -> Iterator[tuple[slice, slice]]:
        """The heads of a part that are not known, as few rectangles of batch rows and heads."""
        rows = [(b, tuple(self.known[b][heads])) for b in range(batch.start, batch.stop)]
        for known, alike in groupby(rows, key=lambda row: row[1]):
            same = [b for b, _ in alike]
            for settled, run in groupby(range(len(known)), key=lambda h: known[h]):
                if not settled:
                    at = [heads.start + h for h in run]
                    yield slice(same[0], same[-1] + 1), slice(at[0], at[-1] + 1)


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
