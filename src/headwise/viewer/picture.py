"""A picture of one head's pattern, drawn without a browser: cells, tokens along both axes, a colour bar."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.heads import KINDS, MIXED, Head
from headwise.spec.geometry import span
from headwise.viewer.answers import Answers
from headwise.viewer.axes import Axis, Grid
from headwise.viewer.colour_bar import ceiling, draw_bar
from headwise.viewer.colours import PAPERS, SCALES, coloured, ink_on, rgb
from headwise.viewer.earned import earned
from headwise.viewer.labels import brief, columns, shortened, visible
from headwise.viewer.scene import Scene
from headwise.viewer.sheet import Box, Cells, Colour, Line, Sheet, Text
from headwise.viewer.shown import Shown

__all__ = ["LARGEST", "NUMBERED", "Picture", "check_shown", "named_scale", "part_of", "pictured"]

LARGEST = 512  #: cells a side; above it they are pooled by 2 x 2, 4 x 4, ...
NUMBERED = 64  #: up to so many single cells a side, each is drawn with its number

_CELL = 36  # pixels of a cell with a number
_LABELLED = 14  # pixels of a cell whose label fits beside it
_LONG = 1024  # pixels of the longer side of cells without labels
_THIN = 160  # and of the shorter, at least
_COLUMNS = 18  # of a label
_SMALL = 11  # size of labels and numbers
_GAP = 8
_EDGE = 24
_BAR = 240  # height of the colour bar, at most
_SLANTED = 20  # pixels from which labels above the cells stand at 45 degrees, and not upright


@dataclass(frozen=True, eq=False)
class Picture:
    """What a picture shows.

    Attributes:
        cells: probabilities or their differences [n, m], pooled by ``2^z x 2^z``.
        z: the level.
        rows: the queries, a slice with both ends.
        cols: the keys.
        queries: what lies along the queries.
        keys: what lies along the keys.
        title: the first line.
        notes: the lines below it.
        scale: of the colours, "linear", "sqrt" or "log".
        dark: light on dark.
        diverging: the cells are differences.
    """

    cells: Tensor
    z: int
    rows: slice
    cols: slice
    queries: Axis
    keys: Axis
    title: str
    notes: tuple[str, ...] = ()
    scale: str = "sqrt"
    dark: bool = False
    diverging: bool = False

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise SpecError(sentence("view", f"scale is {self.scale!r}", 'scale is "linear", "sqrt" or "log"'))

    def sheet(self) -> Sheet:
        """The drawing, to be written as SVG or PNG.

        Example:
            >>> import torch
            >>> from headwise.viewer import Tokens
            >>> from headwise.viewer.picture import Picture
            >>> part, tokens = slice(0, 2), Tokens(["The", " cat"])
            >>> cells = torch.tensor([[1.0, 0.0], [0.25, 0.75]])
            >>> Picture(cells, 0, part, part, tokens, tokens, "Layer 0, head 0").sheet().svg().count("<text")
            15
        """
        return _Drawing(self).sheet()


def pictured(
    answers: Answers,
    shown: Shown,
    *,
    rows: slice | None = None,
    cols: slice | None = None,
    scale: str = "sqrt",
    dark: bool = False,
) -> Picture:
    """The picture of a head, or of a part of its pattern.

    Args:
        answers: of the scene.
        shown: which head, and what is shown of it.
        rows: slice of queries; None = all.
        cols: slice of keys; None = all.
        scale: of the colours, "linear", "sqrt" or "log".
        dark: light on dark.

    Raises:
        SpecError: no such head, row of the batch, run or scale; a slice that holds nothing.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.viewer import Answers, Scene
        >>> from headwise.viewer.picture import pictured
        >>> from headwise.viewer.shown import Shown
        >>> x = torch.zeros(1, 1, 600, 4)
        >>> answers = Answers(Scene.of({"run": {"layer": hw.Pattern(x, x, mask=hw.Causal())}}))
        >>> pictured(answers, Shown(0, 0)).cells.shape, pictured(answers, Shown(0, 0), rows=slice(5, 9)).z
        (torch.Size([300, 300]), 1)
    """
    scene = answers.scene
    check_shown(scene, shown)
    _, _, T, S = scene.pattern(0, shown.layer).shape
    rows, cols = part_of("rows", rows, T), part_of("cols", cols, S)
    z = max(0, (max(span(rows), span(cols)) - 1) // LARGEST).bit_length()
    return Picture(
        cells=answers.part(shown, rows, cols, z),
        z=z,
        rows=rows,
        cols=cols,
        queries=scene.axes[scene.rows[shown.layer][shown.b]],
        keys=scene.axes[scene.cols[shown.layer][shown.b]],
        title=_title(scene, shown),
        notes=_notes(scene, shown, rows, cols, z, scale),
        scale=scale,
        dark=dark,
        diverging=shown.minus is not None,
    )


def check_shown(scene: Scene, shown: Shown) -> None:
    """Refuses what the scene does not have."""
    runs = [shown.run] if shown.minus is None else [shown.run, shown.minus]
    _below("layer", shown.layer, len(scene.sites))
    _below("head", shown.head, scene.pattern(0, shown.layer).shape[1], f" in layer {shown.layer}")
    _below("b", shown.b, scene.batch)
    for run in runs:
        _below("run", run, len(scene.runs))
    if shown.pool not in ("mean", "max"):
        raise SpecError(sentence("view", f"pool is {shown.pool!r}", 'pool is "mean" or "max"'))


def _below(name: str, value: Any, most: int, where: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < most:
        raise SpecError(
            sentence("view", f"{name} is {value!r}", f"there {'is' if most == 1 else 'are'} {most}{where}, from 0")
        )


def part_of(name: str, part: Any, length: int) -> slice:
    """A slice with both ends, of at least one position."""
    if part is None:
        part = slice(0, length)
    try:
        start, stop, step = part.indices(length)
    except (AttributeError, TypeError):
        raise SpecError(sentence("view", f"{name} is {part!r}", "it is a slice with int ends, slice(10, 20)")) from None
    if step != 1 or start >= stop:
        what = f"{name} is {part!r} of {length:,} positions"
        raise SpecError(sentence("view", what, "a picture shows one stretch of at least one"))
    return slice(start, stop)


def _title(scene: Scene, shown: Shown) -> str:
    title = f"Layer {scene.describe_layer(shown.layer)['label']}, head {shown.head}"
    found = _scored(scene, shown)
    kind = f": {KINDS.get(found.kind, MIXED).title.lower()}" if found else ""
    names = list(scene.runs)
    of = f" in {names[shown.run]!r}" if len(names) > 1 else ""
    return title + kind + of + (f" minus {names[shown.minus]!r}" if shown.minus is not None else "")


def _scored(scene: Scene, shown: Shown) -> Head | None:
    return next((head for head in scene.heads or () if (head.layer, head.head) == (shown.layer, shown.head)), None)


def _notes(scene: Scene, shown: Shown, rows: slice, cols: slice, z: int, scale: str) -> tuple[str, ...]:
    """What the picture is of, and what a cell and its colour mean."""
    f = 1 << z
    one, many = ("difference", "differences") if shown.minus is not None else ("probability", "probabilities")
    pool = "mean" if shown.pool == "mean" else "largest"
    cell = f"Each cell: one {one}" if z == 0 else f"Each cell: the {pool} of {f} x {f} {many}"
    if shown.minus is not None and z and pool == "largest":
        cell = f"Each cell: the difference of the largest of {f} x {f} probabilities"
    cell += ", each row divided by its largest" if shown.norm else ""
    hidden = f", key {scene.sink(shown.layer, shown.b)} hidden" if shown.hide else ""
    _, _, T, S = scene.pattern(0, shown.layer).shape
    part = ""
    if (span(rows), span(cols)) != (T, S):
        part = (
            f"Queries {rows.start:,} to {rows.stop - 1:,} of {T:,}, keys {cols.start:,} to {cols.stop - 1:,} of {S:,}. "
        )
    row = f"Row {shown.b} of the batch. " if scene.batch > 1 else ""
    head = _scored(scene, shown)
    kind = f"{KINDS.get(head.kind, MIXED).title.capitalize()}: {earned(head)}." if head else ""
    lines = [scene.title, kind, f"{row}{part}{cell}{hidden}; {named_scale(scale)} colours."]
    return tuple(line for line in lines if line)


def named_scale(scale: str) -> str:
    """What a sentence calls a scale of colours."""
    return {"sqrt": "square-root", "log": "logarithmic"}.get(scale, scale)


@dataclass(frozen=True)
class _Side:
    """One axis of the drawing: pixels of a cell, and what is written where, in pixels from the first cell's edge."""

    cell: float
    length: float
    marks: tuple[tuple[float, str], ...]
    named: bool  # a label for each cell; else ticks

    @property
    def reach(self) -> float:
        """Pixels that the longest mark takes."""
        return max((columns(text) for _, text in self.marks), default=0) * 0.61 * _SMALL + _GAP


def _side(axis: Axis, part: slice, cells: int, longest: int, f: int, numbered: bool, apart: float) -> _Side:
    """An axis with its cells' size, and labels where they fit, ticks otherwise."""
    if numbered:
        cell = float(_CELL)
    else:
        least = _LABELLED * cells if cells <= NUMBERED else _THIN
        cell = max(_LONG * cells / longest, min(least, _LONG)) / max(1, cells)
    length = cell * cells
    if f == 1 and cell >= _LABELLED - 1:
        names = axis.labels
        marks = ((at + 0.5) * cell for at in range(cells))
        texts = (shortened(visible(names[part.start + at]), _COLUMNS) for at in range(cells))
        return _Side(cell, length, tuple(zip(marks, texts, strict=True)), named=True)
    return _Side(cell, length, tuple(_ticks(axis, part, f, cell, apart)), named=False)


def _ticks(axis: Axis, part: slice, f: int, cell: float, apart: float) -> list[tuple[float, str]]:
    """Round positions so far apart that their names do not meet; of an image the first patches of its rows."""
    pixels = cell / f
    unit, front = (axis.width, axis.before) if isinstance(axis, Grid) else (1, 0)
    step = _round_step(apart / (pixels * unit)) * unit
    first = front + max(0, -(-(part.start - front) // step)) * step
    return [
        ((at - part.start + 0.5) * pixels, f"r{(at - front) // unit}" if isinstance(axis, Grid) else f"{at:,}")
        for at in range(first, part.stop, step)
    ]


def _round_step(least: float) -> int:
    """The least of 1, 2, 5, 10, 20, ... that is not below a number."""
    decade = 10 ** max(0, math.floor(math.log10(max(1.0, least))))
    return next(step * decade for step in (1, 2, 5, 10) if step * decade >= least)


class _Drawing:
    """Puts a picture together."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        n, m = picture.cells.shape
        self.n, self.m = n, m
        self.numbered = picture.z == 0 and max(n, m) <= NUMBERED
        longest, f = max(n, m, 1), 1 << picture.z
        self.down = _side(picture.queries, picture.rows, n, longest, f, self.numbered, 28)
        self.across = _side(picture.keys, picture.cols, m, longest, f, self.numbered, 64)
        paper = {name: rgb(colour) for name, colour in PAPERS["dark" if picture.dark else "light"].items()}
        self.ink, self.soft, self.line, self.surface = (paper[name] for name in ("ink", "soft", "line", "surface"))
        finite = picture.cells[picture.cells.isfinite()]
        self.most = ceiling(float(finite.abs().max()) if finite.numel() else 0.0)
        self.slanted = self.across.named and self.across.cell >= _SLANTED
        self.x = _EDGE + max(self.down.reach, 60)
        above = self.across.reach * (math.sqrt(0.5) if self.slanted else 1) if self.across.named else 20
        self.y = _EDGE + 24 + 18 * len(picture.notes) + 22 + above + _GAP

    def sheet(self) -> Sheet:
        picture = self.picture
        overhang = self.across.reach * math.sqrt(0.5) if self.slanted else 0
        beside = max(96.0, overhang)
        widest = max((columns(line) * 6.6 for line in picture.notes), default=0)
        widest = max(widest, columns(picture.title) * 9.6)
        width = max(self.x + self.across.length + beside, min(widest, 1600) + 2 * _EDGE)
        height = self.y + max(self.down.length, 120) + _EDGE
        sheet = Sheet(math.ceil(width), math.ceil(height), self.surface, picture.title)
        self._head(sheet)
        self._cells(sheet)
        self._along(sheet)
        self._bar(sheet)
        return sheet

    def _head(self, sheet: Sheet) -> None:
        most = int((sheet.width - 2 * _EDGE) / 6.6)
        sheet.marks.append(Text(_EDGE, _EDGE + 4, shortened(self.picture.title, most), self.ink, 16, bold=True))
        for line, note in enumerate(self.picture.notes):
            sheet.marks.append(Text(_EDGE, _EDGE + 28 + 18 * line, shortened(note, most), self.soft, 12))

    def _cells(self, sheet: Sheet) -> None:
        picture, (x, y) = self.picture, (self.x, self.y)
        colours = coloured(picture.cells, self.most, picture.scale, dark=picture.dark, diverging=picture.diverging)
        wide, tall = self.across, self.down
        if self.numbered:
            for i, row in enumerate(picture.cells.tolist()):
                for j, p in enumerate(row):
                    self._cell(sheet, i, j, p, tuple(colours[i, j].tolist()))
        elif self.n and self.m:
            sheet.marks.append(Cells(x, y, wide.length, tall.length, colours))
        for corner in ((x, y), (x + wide.length, y + tall.length)):
            sheet.marks.append(Line(corner[0], y, corner[0], y + tall.length, self.line))
            sheet.marks.append(Line(x, corner[1], x + wide.length, corner[1], self.line))

    def _cell(self, sheet: Sheet, i: int, j: int, p: float, colour: Colour) -> None:
        x, y = self.x + j * _CELL, self.y + i * _CELL
        sheet.marks.append(Box(x, y, _CELL, _CELL, colour))
        if p:
            told = brief(p) if math.isfinite(p) else "NaN"
            sheet.marks.append(Text(x + _CELL / 2, y + _CELL / 2, told, ink_on(colour), _SMALL, "middle"))

    def _along(self, sheet: Sheet) -> None:
        """Labels or ticks of both axes, and their names."""
        x, y = self.x, self.y
        for at, text in self.down.marks:
            sheet.marks.append(Text(x - _GAP, y + at, text, self.ink, _SMALL, "end", mono=self.down.named))
            if not self.down.named:
                sheet.marks.append(Line(x - 4, y + at, x, y + at, self.line))
        for at, text in self.across.marks:
            if self.across.named:
                turn = -45 if self.slanted else -90
                sheet.marks.append(Text(x + at, y - _GAP, text, self.ink, _SMALL, "start", turn, mono=True))
            else:
                sheet.marks.append(Text(x + at, y - 14, text, self.ink, _SMALL, "middle"))
                sheet.marks.append(Line(x + at, y - 4, x + at, y, self.line))
        top = _EDGE + 24 + 18 * len(self.picture.notes) + 10
        sheet.marks.append(Text(x, top, f"key ({self.picture.keys.name}) →", self.soft, _SMALL))
        sheet.marks.append(Text(_EDGE, top, "query ↓", self.soft, _SMALL))

    def _bar(self, sheet: Sheet) -> None:
        picture, x = self.picture, self.x + self.across.length + 20
        draw_bar(
            sheet, x, self.y, min(_BAR, max(self.down.length, 120)), self.most, picture.scale, dark=picture.dark,
            diverging=picture.diverging, ink=self.ink, line=self.line,
        )  # fmt: skip
