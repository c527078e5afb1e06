"""Questions about rectangles of the pattern: pooled maps and exact crops."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.observers.protocol import Accumulator, Frame, Observer, Tile, Whole
from headwise.spec.geometry import Geometry, span

__all__ = ["Crop", "Map"]


def _plain(who: str, name: str, part: slice | None, length: int) -> slice:
    """A user's slice with its ends set, counted from the front."""
    if part is None:
        return slice(0, length)
    if not isinstance(part, slice):
        raise SpecError(sentence(who, f"{name} is {part!r}", "it is a slice, slice(10, 20)"))
    try:
        start, stop, step = part.indices(length)
    except TypeError:
        raise SpecError(sentence(who, f"{name} is {part!r}", "a slice has int ends")) from None
    if step != 1:
        raise SpecError(sentence(who, f"{name} has step {step}", "a region is contiguous, step 1"))
    return slice(start, max(start, stop))


def _overlap(a: slice, b: slice) -> slice | None:
    start, stop = max(a.start, b.start), min(a.stop, b.stop)
    return slice(start, stop) if start < stop else None


def _edges(length: int, cells: int) -> list[int]:
    """Where the cells of a pooled axis begin: floor(r * length / cells), and the end."""
    return [r * length // cells for r in range(cells + 1)]


class _Map:
    def __init__(self, frame: Frame, question: Map) -> None:
        self.frame, self.question = frame, question
        self.rows = _plain("Map", "rows", question.rows_of, frame.geometry.T)
        self.cols = _plain("Map", "cols", question.cols_of, frame.geometry.S)
        self.total = frame.zeros(question.height, question.width)
        self.row_edges = _edges(span(self.rows), question.height)
        device = frame.geometry.device
        edges = torch.tensor(_edges(span(self.cols), question.width), device=device, dtype=torch.int64)
        # The pooled column of each key; cells that cover no key are never named.
        self.column = (
            torch.searchsorted(edges, torch.arange(span(self.cols), device=device, dtype=torch.int64), right=True) - 1
        )

    def see(self, tile: Tile) -> None:
        rows, keys = _overlap(tile.cells.rows, self.rows), _overlap(tile.cells.keys, self.cols)
        if rows is None or keys is None:
            return
        b, h = self.frame.at(tile.cells)
        column = self.column[keys.start - self.cols.start : keys.stop - self.cols.start]
        first, last = int(column[0]), int(column[-1]) + 1
        within = tile.p[..., keys.start - tile.cells.keys.start : keys.stop - tile.cells.keys.start]
        # Rows first: a block of rows falls into few cells, so the second step works on little.
        for r, start, stop in self._cells_of(rows):
            strip = within[..., start - tile.cells.rows.start : stop - tile.cells.rows.start, :]
            place = self.total[b, h, r, first:last]
            where = (column - first).expand(*strip.shape[:-2], -1)
            if self.question.pool == "mean":
                place.scatter_add_(-1, where, strip.sum(-2))
            else:
                place.scatter_reduce_(-1, where, strip.amax(-2), "amax")

    def _cells_of(self, rows: slice) -> list[tuple[int, int, int]]:
        """(pooled row, first query, past the last) of every pooled row that a block of queries touches."""
        found = []
        base = self.rows.start
        first = bisect_right(self.row_edges, rows.start - base) - 1
        last = bisect_left(self.row_edges, rows.stop - base)
        for r in range(max(0, first), min(last, self.question.height)):
            start = max(rows.start, self.rows.start + self.row_edges[r])
            stop = min(rows.stop, self.rows.start + self.row_edges[r + 1])
            if start < stop:
                found.append((r, start, stop))
        return found

    def merge(self, other: _Map) -> None:
        if self.question.pool == "mean":
            self.total += other.total
        else:
            self.total = torch.maximum(self.total, other.total)

    def result(self) -> Tensor:
        if self.question.pool == "max":
            return self.total
        tall = torch.tensor(self.row_edges, dtype=torch.int64, device=self.total.device).diff()
        wide = torch.tensor(
            _edges(span(self.cols), self.question.width), dtype=torch.int64, device=self.total.device
        ).diff()
        area = (tall[:, None] * wide).clamp(min=1)
        return self.total / area.to(self.total)


@dataclass(frozen=True, eq=False, init=False)
class Map(Observer):
    """The pattern, pooled: cell (r, c) holds the mean or the maximum of p over a rectangle of cells.

    Row r covers queries ``floor(r*T/height)`` to ``floor((r+1)*T/height)`` of the chosen rows, columns likewise.
    Hidden cells count as 0; a pooled cell that covers nothing (height above T) is 0.

    Args:
        height: pooled rows.
        width: pooled columns.
        rows: slice of queries; None = all.
        cols: slice of keys; None = all.
        pool: "mean" or "max".

    Returns:
        [B, H, height, width].

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 4, 4)
        >>> hw.attend(x, x, x, mask=hw.Causal(), observe=[hw.Map(2, 2)]).seen["map"].round(decimals=3)
        tensor([[[[0.5000, 0.0000],
                  [0.2920, 0.2080]]]])
    """

    height: int
    width: int
    rows_of: slice | None
    cols_of: slice | None
    pool: str

    def __init__(
        self,
        height: int,
        width: int,
        rows: slice | None = None,
        cols: slice | None = None,
        pool: str = "mean",
        *,
        name: str | None = None,
    ) -> None:
        for field, value in (("height", height), ("width", width)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SpecError(sentence("Map", f"{field} is {value!r}", "it counts pooled cells, at least 1"))
        if pool not in ("mean", "max"):
            raise SpecError(sentence("Map", f"pool is {pool!r}", 'pool is "mean" or "max"'))
        values = {"height": height, "width": width, "rows_of": rows, "cols_of": cols, "pool": pool, "name": name}
        for field, given in values.items():
            object.__setattr__(self, field, given)

    def check(self, geometry: Geometry, has_values: bool) -> None:
        _plain("Map", "rows", self.rows_of, geometry.T)
        _plain("Map", "cols", self.cols_of, geometry.S)

    def rows(self, geometry: Geometry) -> slice:
        return _plain("Map", "rows", self.rows_of, geometry.T)

    def keys(self, geometry: Geometry) -> slice:
        return _plain("Map", "cols", self.cols_of, geometry.S)

    def begin(self, frame: Frame) -> Accumulator:
        return _Map(frame, self)

    def define(self, whole: Whole) -> Tensor:
        rows = _plain("Map", "rows", self.rows_of, whole.geometry.T)
        cols = _plain("Map", "cols", self.cols_of, whole.geometry.S)
        p = whole.p[..., rows, cols]
        tall, wide = _edges(span(rows), self.height), _edges(span(cols), self.width)
        out = p.new_zeros((*p.shape[:2], self.height, self.width))
        for r in range(self.height):
            for c in range(self.width):
                cell = p[..., tall[r] : tall[r + 1], wide[c] : wide[c + 1]].flatten(-2)
                if cell.shape[-1]:
                    out[..., r, c] = cell.mean(-1) if self.pool == "mean" else cell.amax(-1)
        return out


class _Crop:
    def __init__(self, frame: Frame, rows: slice, cols: slice) -> None:
        self.frame, self.rows, self.cols = frame, rows, cols
        self.found = frame.zeros(span(rows), span(cols))

    def see(self, tile: Tile) -> None:
        rows, keys = _overlap(tile.cells.rows, self.rows), _overlap(tile.cells.keys, self.cols)
        if rows is None or keys is None:
            return
        b, h = self.frame.at(tile.cells)
        r, k = tile.cells.rows.start, tile.cells.keys.start
        part = tile.p[..., rows.start - r : rows.stop - r, keys.start - k : keys.stop - k]
        r, k = self.rows.start, self.cols.start
        self.found[b, h, rows.start - r : rows.stop - r, keys.start - k : keys.stop - k] = part

    def merge(self, other: _Crop) -> None:
        self.found += other.found

    def result(self) -> Tensor:
        return self.found


@dataclass(frozen=True, eq=False, init=False)
class Crop(Observer):
    """Exact probabilities of one rectangle; only its own tiles are made.

    Args:
        rows: slice of queries.
        cols: slice of keys.

    Returns:
        [B, H, len(rows), len(cols)].

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 4, 4)
        >>> hw.attend(x, x, x, observe=[hw.Crop(slice(0, 1), slice(1, 3))]).seen["crop"]
        tensor([[[[0.2500, 0.2500]]]])
    """

    rows_of: slice
    cols_of: slice

    def __init__(self, rows: slice, cols: slice, *, name: str | None = None) -> None:
        for field, value in {"rows_of": rows, "cols_of": cols, "name": name}.items():
            object.__setattr__(self, field, value)

    def check(self, geometry: Geometry, has_values: bool) -> None:
        _plain("Crop", "rows", self.rows_of, geometry.T)
        _plain("Crop", "cols", self.cols_of, geometry.S)

    def rows(self, geometry: Geometry) -> slice:
        return _plain("Crop", "rows", self.rows_of, geometry.T)

    def keys(self, geometry: Geometry) -> slice:
        return _plain("Crop", "cols", self.cols_of, geometry.S)

    def begin(self, frame: Frame) -> Accumulator:
        geometry = frame.geometry
        rows = _plain("Crop", "rows", self.rows_of, geometry.T)
        return _Crop(frame, rows, _plain("Crop", "cols", self.cols_of, geometry.S))

    def define(self, whole: Whole) -> Tensor:
        rows = _plain("Crop", "rows", self.rows_of, whole.geometry.T)
        return whole.p[..., rows, _plain("Crop", "cols", self.cols_of, whole.geometry.S)]
