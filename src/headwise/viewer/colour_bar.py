"""The colour bar of a picture: where it ends, and which round numbers stand beside it, as the page has them."""

from __future__ import annotations

import math

import torch

from headwise.viewer.colours import ramp, scaled
from headwise.viewer.labels import short
from headwise.viewer.sheet import Cells, Colour, Line, Sheet, Text

__all__ = ["ceiling", "draw_bar", "marks"]

_ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
_PLACES = (0.75, 0.5, 0.25)  # where round numbers are looked for between the ends, parts of the bar
_PARTS = {1.5: 3, 2.5: 5, 3.0: 3, 5.0: 5, 6.0: 3}  # into how many round parts a range is cut, by its digits; else 4
_THICK, _TICK, _GAP, _SIZE = 12, 4, 4, 11


def ceiling(most: float) -> float:
    """The end of the colour bar: the least round number that is not below the largest value.

    Example:
        >>> from headwise.viewer.colour_bar import ceiling
        >>> ceiling(0.83), ceiling(0.0121), ceiling(0.0)
        (1.0, 0.015, 1.0)
    """
    if not (most > 0 and math.isfinite(most)):
        return 1.0
    decade = 10.0 ** math.floor(math.log10(most))
    step = next((x for x in _ROUND if x * decade >= most * (1 - 1e-6)), 10.0)  # a float32 may lie just above its name
    return float(f"{step * decade:.3g}")


def marks(most: float, scale: str, *, diverging: bool) -> list[tuple[str, float]]:
    """Round numbers and where they stand on the bar, 0 to 1, the largest first.

    Example:
        >>> from headwise.viewer.colour_bar import marks
        >>> [text for text, _ in marks(1.0, "sqrt", diverging=False)]
        ['1', '0.5', '0.2', '0.05', '0']
    """
    if scale == "linear" and not diverging:
        parts = _PARTS.get(float(f"{most:.2e}".partition("e")[0]), 4)
        between = [most * (parts - 1 - n) / parts for n in range(parts - 1)]
    else:
        between = _rounds(most, scale, (0.5,) if diverging else _PLACES)
    ends = [(short(value), _along(value / most, scale)) for value in (most, *between)]
    if not diverging:
        return [*ends, ("0", 0.0)]
    above = [(f"+{text}", 0.5 + place / 2) for text, place in ends]
    below = [(f"−{text}", 0.5 - place / 2) for text, place in reversed(ends)]
    return [*above, ("0", 0.5), *below]


def _along(share: float, scale: str) -> float:
    return float(scaled(torch.tensor(share, dtype=torch.float64, device="cpu"), scale))


def _rounds(most: float, scale: str, places: tuple[float, ...]) -> list[float]:
    """The numbers 1, 2 and 5 times a power of ten that stand nearest to some places of the bar."""
    top = math.floor(math.log10(most))
    known = [float(f"{step}e{power}") for power in range(top, top - 5, -1) for step in (5, 2, 1)]
    known = [value for value in known if value < most * 0.999]
    nearest = (min(known, key=lambda value: abs(_along(value / most, scale) - place)) for place in places)
    return list(dict.fromkeys(nearest))


def draw_bar(
    sheet: Sheet, x: float, y: float, height: float, most: float, scale: str, *, dark: bool, diverging: bool,
    ink: Colour, line: Colour,
) -> None:  # fmt: skip
    """Draws the bar with its numbers, (x, y) its upper left corner."""
    downwards = torch.arange(1023, -1, -8, dtype=torch.int64, device="cpu")
    sheet.marks.append(Cells(x, y, _THICK, height, ramp(dark, diverging)[downwards][:, None]))
    for text, place in marks(most, scale, diverging=diverging):
        at = y + height * (1 - place)
        sheet.marks.append(Line(x + _THICK, at, x + _THICK + _TICK, at, line))
        sheet.marks.append(Text(x + _THICK + _TICK + _GAP, at, text, ink, _SIZE))
