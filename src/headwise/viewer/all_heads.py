"""A picture of all heads on one sheet: a small map each, layers down and heads across, in the colours of one scale."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.heads import KINDS
from headwise.spec.geometry import span
from headwise.viewer.answers import Answers
from headwise.viewer.colour_bar import ceiling, draw_bar
from headwise.viewer.colours import PAPERS, SCALES, coloured, ink_on, rgb
from headwise.viewer.earned import rule_of
from headwise.viewer.labels import columns, shortened
from headwise.viewer.picture import check_shown, named_scale, part_of
from headwise.viewer.scene import COLOURS, Scene
from headwise.viewer.sheet import Box, Cells, Line, Sheet, Text
from headwise.viewer.shown import Shown
from headwise.viewer.tiles import level

__all__ = ["FINEST", "all_heads"]

FINEST = 64  #: cells a side that every map may have; more where a map has more pixels

_SIDES = (40, 240)  # pixels of a map
_SHEET = (1200, 1800)  # pixels that the maps keep within as far as they can be that small
_APART, _EDGE, _SMALL, _BAR = 4, 24, 11, 200
_LETTER = 6.6  # pixels of a letter of small text, about


@dataclass(frozen=True)
class _Grid:
    """Where the maps stand.

    Attributes:
        places: (layer, head) of each map.
        at: (row, column) of each.
        rows: what stands left of each row; empty where each map has its own name above it.
        names: what stands above each map; empty where columns have numbers.
    """

    places: tuple[tuple[int, int], ...]
    at: tuple[tuple[int, int], ...]
    rows: tuple[str, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return 1 + max(row for row, _ in self.at), 1 + max(column for _, column in self.at)


def all_heads(
    answers: Answers,
    shown: Shown,
    *,
    heads: Sequence[tuple[int, int]] | None = None,
    rows: slice | None = None,
    cols: slice | None = None,
    scale: str = "sqrt",
    dark: bool = False,
) -> Sheet:
    """The sheet. Every map is drawn square and in the same colours: equal colours are equal numbers.

    Args:
        answers: of the scene.
        shown: what is shown of every head; its layer and head are not read.
        heads: (layer, head) pairs, in their order; None = all, a row a layer.
        rows: slice of queries of every head; None = all.
        cols: slice of keys; None = all.
        scale: of the colours, "linear", "sqrt" or "log".
        dark: light on dark.

    Raises:
        SpecError: no such head, row of the batch, run or scale; a slice that holds nothing.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.viewer import Answers, Scene
        >>> from headwise.viewer.all_heads import all_heads
        >>> from headwise.viewer.shown import Shown
        >>> x = torch.zeros(1, 3, 9, 4)
        >>> scene = Scene.of({"run": {f"layers.{n}": hw.Pattern(x, x, mask=hw.Causal()) for n in range(2)}})
        >>> all_heads(Answers(scene), Shown(0, 0)).svg().count("<image")  # six maps and the colour bar
        7
    """
    if scale not in SCALES:
        raise SpecError(sentence("view", f"scale is {scale!r}", 'scale is "linear", "sqrt" or "log"'))
    grid = _every(answers.scene) if heads is None else _some(answers.scene, heads)
    for layer, head in grid.places:
        check_shown(answers.scene, replace(shown, layer=layer, head=head))
    side = _side_of(grid)
    maps, coarsest = [], 0
    for layer, head in grid.places:
        T, S = answers.scene.pattern(0, layer).shape[2:]
        queries, keys = part_of("rows", rows, T), part_of("cols", cols, S)
        z = level(span(queries), span(keys), max(FINEST, side))
        coarsest = max(coarsest, z)
        maps.append(answers.part(replace(shown, layer=layer, head=head), queries, keys, z))
    notes = _notes(answers.scene, shown, coarsest, scale)
    return _Drawing(answers.scene, shown, grid, maps, side, scale, dark).sheet(notes)


def _every(scene: Scene) -> _Grid:
    counts = [scene.pattern(0, layer).shape[1] for layer in range(len(scene.sites))]
    places = tuple((layer, head) for layer, count in enumerate(counts) for head in range(count))
    return _Grid(places, places, rows=tuple(scene.describe_layer(n)["label"] for n in range(len(counts))))


def _some(scene: Scene, heads: Sequence[tuple[int, int]]) -> _Grid:
    across = math.ceil(math.sqrt(len(heads)))
    labels = [scene.describe_layer(n)["label"] for n in range(len(scene.sites))]
    names = tuple(f"layer {labels[layer]}, head {head}" for layer, head in heads)
    return _Grid(tuple(heads), tuple(divmod(n, across) for n in range(len(heads))), names=names)


def _side_of(grid: _Grid) -> int:
    down, across = grid.size
    least = max(_SIDES[0], *(math.ceil(_LETTER * columns(name)) for name in grid.names or ("",)))
    return max(least, min(_SIDES[1], _SHEET[0] // across, _SHEET[1] // down))


def _notes(scene: Scene, shown: Shown, z: int, scale: str) -> tuple[str, ...]:
    """What the sheet is of, and what a cell and its colour mean."""
    names, f = list(scene.runs), 1 << z
    what = "differences" if shown.minus is not None else "probabilities"
    pool = {"mean": "the mean", "max": "the largest"}[shown.pool]
    cell = "Each cell: one of the " + what if not z else f"Each cell: {pool} of up to {f} x {f} {what}"
    cell += ", each row divided by its largest" if shown.norm else ""
    cell += ", the sink hidden" if shown.hide else ""
    of = f"Run {names[shown.run]!r}" if len(names) > 1 else ""
    of += f" minus {names[shown.minus]!r}" if shown.minus is not None else ""
    row = f"row {shown.b} of the batch" if scene.batch > 1 else ""
    about = ", ".join(part for part in (of, row) if part)
    about = f"{about[0].upper()}{about[1:]}. " if about else ""
    return tuple(
        line
        for line in (scene.subtitle, f"{about}{cell}; {named_scale(scale)} colours, the same for all maps.")
        if line
    )


class _Drawing:
    """Puts a sheet together."""

    def __init__(
        self, scene: Scene, shown: Shown, grid: _Grid, maps: Sequence[Tensor], side: int, scale: str, dark: bool
    ) -> None:
        self.scene, self.grid, self.maps, self.side, self.scale, self.dark = scene, grid, maps, side, scale, dark
        self.diverging = shown.minus is not None
        paper = {name: rgb(colour) for name, colour in PAPERS["dark" if dark else "light"].items()}
        self.ink, self.soft, self.line, self.surface = (paper[name] for name in ("ink", "soft", "line", "surface"))
        sizes = [found[found.isfinite()].abs().max() for found in maps if bool(found.isfinite().any())]
        self.most = ceiling(float(torch.stack(sizes).max()) if sizes else 0.0)
        self.heads = {(head.layer, head.head): head for head in scene.heads or ()}
        self.step = (side + _APART + (18 if grid.names else 0), side + _APART)

    def sheet(self, notes: Sequence[str]) -> Sheet:
        down, across = self.grid.size
        legend = self._legend()
        left = _EDGE + max([_LETTER * columns(label) for label in ("layer", *self.grid.rows)]) + 8
        left = left if self.grid.rows else _EDGE
        top = _EDGE + 24 + 18 * len(notes) + 26
        widest = max(_LETTER * columns(line) for line in (*notes, *(text for _, text in legend), ""))
        width = max(left + across * self.step[1] + 90, min(widest + 60, 1600) + 2 * _EDGE)
        height = top + max(down * self.step[0], _BAR * 0.6) + 20 + 20 * len(legend) + _EDGE
        sheet = Sheet(math.ceil(width), math.ceil(height), self.surface, self.scene.title or "All heads")
        most = int((sheet.width - 2 * _EDGE) / _LETTER)
        sheet.marks.append(Text(_EDGE, _EDGE + 4, shortened(sheet.title, most), self.ink, 16, bold=True))
        for line, note in enumerate(notes):
            sheet.marks.append(Text(_EDGE, _EDGE + 28 + 18 * line, shortened(note, most), self.soft, 12))
        self._along(sheet, left, top)
        for place, (row, column), found in zip(self.grid.places, self.grid.at, self.maps, strict=True):
            self._map(sheet, place, left + column * self.step[1], top + row * self.step[0], found)
        draw_bar(
            sheet, left + across * self.step[1] + 16, top, min(_BAR, max(down * self.step[0] - _APART, 100)), self.most,
            self.scale, dark=self.dark, diverging=self.diverging, ink=self.ink, line=self.line,
        )  # fmt: skip
        y = sheet.height - _EDGE - 20 * len(legend) + 10
        for n, (kind, text) in enumerate(legend):
            if kind:
                self._letter(sheet, kind, _EDGE, y + 20 * n - 7)
            sheet.marks.append(Text(_EDGE + (22 if kind else 0), y + 20 * n, text, self.soft, _SMALL))
        return sheet

    def _along(self, sheet: Sheet, left: float, top: float) -> None:
        """The numbers of layers and heads, or the name of each map."""
        for name, (row, column) in zip(self.grid.names, self.grid.at, strict=False):
            x, y = left + column * self.step[1], top + row * self.step[0] - 9
            sheet.marks.append(Text(x, y, name, self.ink, _SMALL))
        if self.grid.names:
            return
        for row, label in enumerate(self.grid.rows):
            y = top + row * self.step[0] + self.side / 2
            sheet.marks.append(Text(left - 8, y, label, self.ink, _SMALL, "end"))
        for column in range(self.grid.size[1]):
            x = left + column * self.step[1] + self.side / 2
            sheet.marks.append(Text(x, top - 10, str(column), self.ink, _SMALL, "middle"))
        sheet.marks.append(Text(left - 8, top - 10, "layer", self.soft, _SMALL, "end"))
        x = left + self.grid.size[1] * self.step[1] + 6
        sheet.marks.append(Text(x, top - 10, "head", self.soft, _SMALL))

    def _map(self, sheet: Sheet, place: tuple[int, int], x: float, y: float, found: Tensor) -> None:
        side, head = self.side, self.heads.get(place)
        colours = coloured(found, self.most, self.scale, dark=self.dark, diverging=self.diverging)
        sheet.marks.append(Cells(x, y, side, side, colours))
        frame = rgb(COLOURS[head.kind]) if head and head.kind in COLOURS else self.line
        right, low = x + side, y + side
        for ends in ((x, y, right, y), (x, low, right, low), (x, y, x, low), (right, y, right, low)):
            sheet.marks.append(Line(*ends, frame))
        if head and head.kind in COLOURS:
            self._letter(sheet, head.kind, x + side - 14, y)

    def _letter(self, sheet: Sheet, kind: str, x: float, y: float) -> None:
        colour = rgb(COLOURS[kind])
        sheet.marks.append(Box(x, y, 14, 14, colour))
        sheet.marks.append(Text(x + 7, y + 7, KINDS[kind].letter, ink_on(colour), _SMALL, "middle", bold=True))

    def _legend(self) -> list[tuple[str, str]]:
        """A line a kind that a letter stands for: how many there are, and what it asks of a head."""
        counts = Counter(self.heads[place].kind for place in self.grid.places if place in self.heads)
        return [
            (kind.name, f"{kind.title}: {counts[kind.name]} head{'s'[: counts[kind.name] > 1]}; {rule_of(kind.name)}")
            for kind in KINDS.values()
            if counts[kind.name]
        ]
