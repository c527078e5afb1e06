"""A drawing of boxes, lines, texts and coloured cells, written as SVG by hand or as PNG by Pillow."""

from __future__ import annotations

import base64
import io
import math
import struct
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise.errors import UnavailableError, sentence
from headwise.tensor_bytes import bytes_of

__all__ = ["Box", "Cells", "Colour", "Line", "Sheet", "Text", "hexadecimal", "png_of"]

Colour = tuple[int, int, int]

_SANS = 'system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif'
_MONO = 'ui-monospace, "SF Mono", "Cascadia Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace'
_ANCHORS = {"start": "l", "middle": "m", "end": "r"}
_RISE = 0.35  # the baseline stands so far below the middle of a letter, of its size
_LARGEST = 4096  # pixels of the longer side of a PNG


class Text(NamedTuple):
    """One line of text; (x, y) is its beginning, middle or end, halfway up its letters."""

    x: float
    y: float
    text: str
    colour: Colour
    size: float = 12
    anchor: str = "start"
    turn: float = 0  # degrees, clockwise
    bold: bool = False
    mono: bool = False


class Box(NamedTuple):
    """A filled rectangle."""

    x: float
    y: float
    width: float
    height: float
    colour: Colour


class Line(NamedTuple):
    """A thin line."""

    x: float
    y: float
    to_x: float
    to_y: float
    colour: Colour


class Cells(NamedTuple):
    """A grid of coloured cells, uint8 [h, w, 3], in a rectangle."""

    x: float
    y: float
    width: float
    height: float
    colours: Tensor


@dataclass
class Sheet:
    """A drawing.

    Attributes:
        width: in pixels.
        height: in pixels.
        ground: colour of the paper.
        title: what a reader of the screen hears.
        marks: what is drawn, in order.
    """

    width: int
    height: int
    ground: Colour
    title: str
    marks: list[Text | Box | Line | Cells] = field(default_factory=list)

    def svg(self) -> str:
        """The drawing as SVG: valid XML whatever its texts hold, and nothing that runs or loads."""
        size = f'width="{self.width}" height="{self.height}" viewBox="0 0 {self.width} {self.height}"'
        ground = _svg_box(Box(0, 0, self.width, self.height, self.ground))
        head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><title>{_escaped(self.title)}</title>'
        return "\n".join([head, ground, *map(_svg, self.marks), "</svg>", ""])

    def png(self) -> bytes:
        """The drawing as PNG, two pixels a unit as far as that stays below 4,096.

        Raises:
            UnavailableError: Pillow is not installed.
        """
        image, draw = _needed("PIL.Image"), _needed("PIL.ImageDraw")
        zoom = min(2.0, _LARGEST / max(self.width, self.height))
        paper = image.new("RGB", (round(self.width * zoom), round(self.height * zoom)), self.ground)
        pen = draw.Draw(paper)
        for mark in self.marks:
            if isinstance(mark, Text):
                _write(paper, pen, mark, zoom)
            elif isinstance(mark, Cells):
                x, y, right, low = (round(at * zoom) for at in _corners(mark))
                cells = image.open(io.BytesIO(png_of(mark.colours)))
                paper.paste(cells.resize((max(1, right - x), max(1, low - y)), image.Resampling.NEAREST), (x, y))
            elif isinstance(mark, Box):
                x, y, right, low = (round(at * zoom) for at in _corners(mark))
                pen.rectangle((x, y, max(x, right - 1), max(y, low - 1)), fill=mark.colour)
            else:
                ends = (mark.x * zoom, mark.y * zoom, mark.to_x * zoom, mark.to_y * zoom)
                pen.line(ends, fill=mark.colour, width=max(1, round(zoom)))
        out = io.BytesIO()
        paper.save(out, "PNG", optimize=False)
        return out.getvalue()


def hexadecimal(colour: Colour) -> str:
    """``#rrggbb``."""
    return "#{:02x}{:02x}{:02x}".format(*colour)


def png_of(colours: Tensor) -> bytes:
    """A PNG of uint8 [h, w, 3], one pixel a cell.

    Example:
        >>> import torch
        >>> from headwise.viewer.sheet import png_of
        >>> png_of(torch.zeros(2, 3, 3, dtype=torch.uint8))[:4]
        b'\\x89PNG'
    """
    height, width, _ = colours.shape
    rows = torch.cat([colours.new_zeros(height, 1), colours.reshape(height, -1)], 1)  # each row begins with filter 0

    def part(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(bytes_of(rows), 9)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", head) + part(b"IDAT", body) + part(b"IEND", b"")


def _corners(mark: Box | Cells) -> tuple[float, float, float, float]:
    return mark.x, mark.y, mark.x + mark.width, mark.y + mark.height


def _svg(mark: Text | Box | Line | Cells) -> str:
    if isinstance(mark, Text):
        return _svg_text(mark)
    if isinstance(mark, Box):
        return _svg_box(mark)
    if isinstance(mark, Line):
        ends = f'x1="{mark.x:g}" y1="{mark.y:g}" x2="{mark.to_x:g}" y2="{mark.to_y:g}"'
        return f'<line {ends} stroke="{hexadecimal(mark.colour)}"/>'
    place = f'x="{mark.x:g}" y="{mark.y:g}" width="{mark.width:g}" height="{mark.height:g}"'
    data = base64.b64encode(png_of(mark.colours)).decode("ascii")
    how = 'preserveAspectRatio="none" style="image-rendering:pixelated"'
    return f'<image {place} {how} href="data:image/png;base64,{data}"/>'


def _svg_box(mark: Box) -> str:
    place = f'x="{mark.x:g}" y="{mark.y:g}" width="{mark.width:g}" height="{mark.height:g}"'
    return f'<rect {place} fill="{hexadecimal(mark.colour)}"/>'


def _svg_text(mark: Text) -> str:
    fonts = (_MONO if mark.mono else _SANS).replace('"', "'")
    place = f'x="{mark.x:g}" y="{mark.y + _RISE * mark.size:g}"'
    turned = f' transform="rotate({mark.turn:g} {mark.x:g} {mark.y:g})"' if mark.turn else ""
    weight = ' font-weight="700"' if mark.bold else ""
    style = f'font-family="{fonts}" font-size="{mark.size:g}"{weight} text-anchor="{mark.anchor}"'
    # A text from right to left stands where its label stands, and turns around nothing beside it.
    order = 'direction="ltr" unicode-bidi="isolate" xml:space="preserve"'
    return f'<text {place}{turned} {style} {order} fill="{hexadecimal(mark.colour)}">{_escaped(mark.text)}</text>'


def _escaped(text: str) -> str:
    """A text as XML 1.0 can hold it; characters that XML has no place for become U+FFFD."""
    whole = "".join(character if _has_place(ord(character)) else "\ufffd" for character in text)
    return whole.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def _has_place(code: int) -> bool:
    return code in (0x9, 0xA, 0xD) or 0x20 <= code <= 0xD7FF or 0xE000 <= code <= 0xFFFD or 0x10000 <= code <= 0x10FFFF


def _needed(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as missing:
        what, rule = "package pillow is not installed", "a PNG is written by it, an SVG by nothing but headwise"
        raise UnavailableError(
            sentence("view", what, rule, todo="Save an .svg, or install it: pip install pillow.")
        ) from missing


def _write(paper: Any, pen: Any, mark: Text, zoom: float) -> None:
    """Draws one text."""
    font = _font(mark.mono, mark.bold, max(1, round(mark.size * zoom)))
    text = "".join(character if _has_place(ord(character)) else "\ufffd" for character in mark.text)
    if not hasattr(font, "getmask2"):  # Pillow's own small font, without FreeType: Latin letters of one size
        text = text.encode("latin-1", "replace").decode("latin-1")
    x, y, sink = mark.x * zoom, mark.y * zoom, _RISE * mark.size * zoom
    if not mark.turn:
        _letters(pen, x, y + sink, text, font, mark.anchor, mark.colour)
        return
    # Turned about the middle of a square of its own, which is then put where the text stands.
    side = 2 * math.ceil(font.getlength(text) + mark.size * zoom)
    own = _needed("PIL.Image").new("L", (side, side), 0)
    _letters(_needed("PIL.ImageDraw").Draw(own), side / 2, side / 2 + sink, text, font, mark.anchor, 255)
    own = own.rotate(-mark.turn, resample=_needed("PIL.Image").Resampling.BICUBIC)
    paper.paste(mark.colour, (round(x - side / 2), round(y - side / 2)), own)


def _letters(pen: Any, x: float, y: float, text: str, font: Any, anchor: str, colour: Colour | int) -> None:
    if hasattr(font, "getmask2"):
        pen.text((x, y), text, fill=colour, font=font, anchor=f"{_ANCHORS[anchor]}s")
        return
    back = {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * font.getlength(text)
    pen.text((x - back, y - 9), text, fill=colour, font=font)


@lru_cache(maxsize=64)
def _font(mono: bool, bold: bool, size: int) -> Any:
    """DejaVu where there is one, since it has most alphabets and the signs of labels; Pillow's own otherwise."""
    fonts = _needed("PIL.ImageFont")
    name = f"DejaVuSans{'Mono' if mono else ''}{'-Bold' if bold else ''}.ttf"
    beside = find_spec("matplotlib")  # carries the same fonts
    homes = [Path(beside.origin).parent / "mpl-data" / "fonts" / "ttf"] if beside and beside.origin else []
    for place in (name, *(str(home / name) for home in homes)):
        try:
            return fonts.truetype(place, size)
        except (OSError, ImportError):
            continue
    try:
        return fonts.load_default(size)
    except (OSError, ImportError, TypeError):  # no FreeType; or a Pillow whose default has one size
        return fonts.load_default()
