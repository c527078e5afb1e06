"""Pictures: what their cells, labels and colours say equals the pattern, and no token breaks them."""

from __future__ import annotations

import base64
import io
import re
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import dense
import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.errors import SpecError, UnavailableError
from headwise.viewer import Answers, Grid, Scene, Tokens, colours, sheet
from headwise.viewer.colour_bar import ceiling
from headwise.viewer.labels import brief, shortened, visible
from headwise.viewer.picture import Picture, pictured
from headwise.viewer.shown import Shown

FRONT = Path(__file__).resolve().parents[2] / "front" / "src" / "colour.ts"
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = [
    "</text><script>x()</script>",
    "\ud800",
    "\x00\x1b[31m",
    "]]>",
    "&lt;",
    '"\\',
    "",
    "\n",
    "\u202eabc",
    "ﷺ🎉",
    "\ufffe",
]


def answers(pattern: hw.Pattern, **more: Any) -> Answers:
    return Answers(Scene.of({"run": {"layers.3.attn": pattern}}, **more))


def texts(svg: str) -> list[str]:
    return [found.text or "" for found in ET.fromstring(svg).iter(f"{SVG}text")]


def test_the_colours_are_those_of_the_page() -> None:
    source = FRONT.read_text()
    told = source[source.index("const STOPS") : source.index("export interface")]
    assert {name: tuple(re.findall(r"#[0-9a-f]{6}", line)) for name, line in re.findall(r"(\w+): \[(.*)\],", told)} == (
        colours.STOPS
    )
    papers = source[source.index("const PAPERS") : source.index("export function paper")]
    for name, block in re.findall(r"(light|dark): \{(.*?)\}", papers, re.DOTALL):
        said = dict(re.findall(r'(\w+): "(#[0-9a-f]{6})"', block))
        assert {key: said[key] for key in colours.PAPERS[name]} == colours.PAPERS[name]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_a_ramp_goes_through_its_stops_and_its_lightness_one_way(dark: bool, apart: bool) -> None:
    ramp = colours.ramp(dark, apart)
    stops = colours.STOPS[("dark" if dark else "light") + ("Apart" if apart else "")]
    for n, stop in enumerate(stops):
        near = ramp[round(1023 * n / (len(stops) - 1))].int() - torch.tensor(colours.rgb(stop))
        assert near.abs().max() <= 2
    light = ramp.double() @ torch.tensor([0.2126, 0.7152, 0.0722], dtype=torch.float64)
    halves = [light[:512], light[512:].flip(0)] if apart else [light]
    for half in halves:
        steps = half.diff() if half[-1] > half[0] else -half.diff()
        assert steps.min() >= -1


@pytest.mark.parametrize(("scale", "share"), [("linear", 0.5), ("sqrt", 0.25), ("log", 0.0099)])
def test_a_scale_puts_a_share_into_the_middle_of_the_ramp(scale: str, share: float) -> None:
    assert float(colours.scaled(torch.tensor(share), scale)) == pytest.approx(0.5, rel=0.01)
    assert [float(colours.scaled(torch.tensor(end), scale)) for end in (0.0, 1.0)] == pytest.approx([0, 1])


def test_the_bar_ends_at_a_round_number_that_is_not_below_the_largest() -> None:
    for most, end in ((0.83, 1.0), (0.8, 0.8), (float(torch.tensor(0.8)), 0.8), (0.0121, 0.015), (0.0, 1.0)):
        assert ceiling(most) == end


@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize(("hide", "norm"), [(False, False), (True, False), (True, True)])
def test_cells_are_those_of_the_whole_matrix(pool: str, hide: bool, norm: bool) -> None:
    pattern = dense.patterns(700, mask=hw.Causal())
    made = pictured(answers(pattern), Shown(0, 1, 1, pool=pool, hide=hide, norm=norm), rows=slice(30, 690))
    p = dense.shown(pattern.to_dense()[1, 1], 0, hide=hide, norm=norm)[30:690]
    assert made.z == 1
    torch.testing.assert_close(made.cells.double(), dense.pooled(p, 1, pool), atol=1e-5, rtol=1e-5)


def test_a_difference_is_one_run_minus_the_other() -> None:
    one, two = dense.patterns(9, mask=hw.Causal()), dense.patterns(9, seed=3, mask=hw.Causal())
    scene = Scene.of({"plain": {"layer": one}, "cut": {"layer": two}})
    made = pictured(Answers(scene), Shown(0, 2, run=1, minus=0), rows=slice(2, 8), cols=slice(1, 5))
    torch.testing.assert_close(made.cells, (two.to_dense() - one.to_dense())[0, 2, 2:8, 1:5])
    assert made.diverging
    assert made.title == "Layer 0, head 2 in 'cut' minus 'plain'"
    negative, positive = made.cells.min(), made.cells.max()
    ends = [str(brief(float(value))) for value in (negative, positive)]
    assert set(ends) <= set(texts(made.sheet().svg()))


def test_single_cells_have_their_numbers_and_tokens_their_labels() -> None:
    pattern = dense.patterns(12, mask=hw.Causal())
    names = [f" word{n}" for n in range(12)]
    drawn = pictured(answers(pattern, tokens=names), Shown(0, 0), rows=slice(4, 10), cols=slice(2, 9)).sheet()
    said = texts(drawn.svg())
    p = pattern.to_dense()[0, 0, 4:10, 2:9]
    numbers = [mark.text for mark in drawn.marks if isinstance(mark, sheet.Text) and mark.anchor == "middle"]
    assert set(numbers) <= set(said)
    assert numbers == [brief(value) for value in p.flatten().tolist() if value]
    labels = [text for text in said if text.startswith("·word")]
    assert labels == [f"·word{n}" for n in range(4, 10)] + [f"·word{n}" for n in range(2, 9)]


def test_a_cell_has_the_colour_of_its_number() -> None:
    pattern = dense.patterns(5, mask=hw.Causal())
    drawn = pictured(answers(pattern), Shown(0, 0), scale="linear").sheet()
    p = pattern.to_dense()[0, 0].flatten()
    most = ceiling(float(p.max()))
    boxes = [mark.colour for mark in drawn.marks if isinstance(mark, sheet.Box)]
    for box, value in zip(boxes, p.tolist(), strict=True):
        assert box == tuple(colours.ramp(False, False)[round(value / most * 1023)].tolist())


def pixels(data: bytes) -> Tensor:
    from PIL import Image

    image = Image.open(io.BytesIO(data)).convert("RGB")
    return torch.tensor(list(image.tobytes()), dtype=torch.uint8).view(image.height, image.width, 3)


def test_pooled_cells_are_one_image_in_the_svg() -> None:
    made = pictured(answers(dense.patterns(600, B=1, mask=hw.Causal())), Shown(0, 0))
    (image, bar) = ET.fromstring(made.sheet().svg()).iter(f"{SVG}image")
    found = pixels(base64.b64decode(image.attrib["href"].removeprefix("data:image/png;base64,")))
    most = ceiling(float(made.cells.max()))
    wanted = colours.coloured(made.cells, most, "sqrt", dark=False, diverging=False)
    assert found.shape == (300, 300, 3)
    assert (found == wanted).all()
    assert bar.attrib["width"] == "12"


@pytest.mark.parametrize("dark", [False, True])
def test_a_png_shows_the_same(dark: bool) -> None:
    made = pictured(answers(dense.patterns(90, B=1, mask=hw.Causal())), Shown(0, 0), dark=dark)
    drawn = made.sheet()
    found = pixels(drawn.png())
    cells = next(mark for mark in drawn.marks if isinstance(mark, sheet.Cells))
    zoom = found.shape[0] / drawn.height
    for i, j in ((0, 0), (50, 20), (89, 89), (10, 80)):
        y, x = cells.y + (i + 0.5) * cells.height / 90, cells.x + (j + 0.5) * cells.width / 90
        assert (found[int(y * zoom), int(x * zoom)] == cells.colours[i, j]).all()
    assert tuple(found[2, 2].tolist()) == colours.rgb(colours.PAPERS["dark" if dark else "light"]["surface"])


@pytest.mark.parametrize("label", HOSTILE)
def test_no_token_breaks_the_svg_or_the_png(label: str) -> None:
    tokens = Tokens([label, "b"], name=label or "tokens")
    part = slice(0, 2)
    drawn = Picture(torch.rand(2, 2), 0, part, part, tokens, tokens, label, (label,)).sheet()
    svg = drawn.svg()
    svg.encode("utf-8")
    tree = ET.fromstring(svg)
    assert {element.tag.removeprefix(SVG) for element in tree.iter()} <= {
        "svg", "title", "rect", "line", "text", "image",
    }  # fmt: skip
    assert shortened(visible(tokens.labels[0]), 18) in texts(svg)
    assert drawn.png()[:4] == b"\x89PNG"


def test_patches_are_marked_by_their_rows() -> None:
    grid = Grid(24, 24, before=1)
    made = pictured(answers(dense.patterns(577, B=1), tokens=grid), Shown(0, 0))
    drawn = made.sheet()
    down = [mark for mark in drawn.marks if isinstance(mark, sheet.Text) and mark.anchor == "end"]
    assert [mark.text for mark in down] == [f"r{n}" for n in range(24)]
    cells = next(mark for mark in drawn.marks if isinstance(mark, sheet.Cells))
    first_of_row_5 = cells.y + (1 + 5 * 24 + 0.5) * cells.height / 578  # 289 cells of 2 x 2
    assert down[5].y == pytest.approx(first_of_row_5, abs=0.01)


def test_long_axes_have_round_positions_within_their_window() -> None:
    made = pictured(
        answers(dense.patterns(5000, B=1, H=1, Hk=1)), Shown(0, 0), rows=slice(1234, 3000), cols=slice(0, 40)
    )
    drawn = made.sheet()
    down = [mark.text for mark in drawn.marks if isinstance(mark, sheet.Text) and mark.anchor == "end"]
    assert int(down[0].replace(",", "")) >= 1234 and int(down[-1].replace(",", "")) < 3000
    steps = {int(b.replace(",", "")) - int(a.replace(",", "")) for a, b in pairwise(down)}
    assert len(steps) == 1
    assert (
        "Queries 1,234 to 2,999 of 5,000, keys 0 to 39 of 5,000. Each cell: the mean of 4 x 4 probabilities"
        in drawn.svg()
    )


def test_nan_is_called_by_its_name() -> None:
    part, tokens = slice(0, 2), Tokens(["a", "b"])
    cells = torch.tensor([[float("nan"), 0.5], [0.25, float("inf")]])
    said = texts(Picture(cells, 0, part, part, tokens, tokens, "x").sheet().svg())
    assert said.count("NaN") == 2 and {"0.50", "0.25"} <= set(said)


def test_without_fonts_it_is_still_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import ImageFont

    old = ImageFont.load_default()  # before the functions are replaced

    def nothing(*_: Any) -> Any:
        raise OSError("no such font")

    def small(size: float | None = None) -> Any:
        if size is not None:
            raise ImportError("no FreeType here")
        return ImageFont.load_default_imagefont() if hasattr(ImageFont, "load_default_imagefont") else old

    sheet._font.cache_clear()
    monkeypatch.setattr(ImageFont, "truetype", nothing)
    monkeypatch.setattr(ImageFont, "load_default", small)
    try:
        tokens = Tokens(["漢字", "⏎ b"])
        part = slice(0, 2)
        assert Picture(torch.rand(2, 2), 0, part, part, tokens, tokens, "x").sheet().png()[:4] == b"\x89PNG"
    finally:
        sheet._font.cache_clear()


def test_without_pillow_an_svg_is_written_and_a_png_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    drawn = pictured(answers(dense.patterns(4)), Shown(0, 0)).sheet()
    assert drawn.svg().startswith("<svg")
    with pytest.raises(UnavailableError, match="pip install pillow"):
        drawn.png()


@pytest.mark.parametrize(
    ("shown", "more", "said"),
    [
        (Shown(1, 0), {}, "layer is 1; there is 1, from 0"),
        (Shown(0, 3), {}, "head is 3; there are 3 in layer 0, from 0"),
        (Shown(0, -1), {}, "head is -1; there are 3"),
        (Shown(0, 0, b=2), {}, "b is 2; there are 2"),
        (Shown(0, 0, run=1), {}, "run is 1; there is 1"),
        (Shown(0, 0, pool="sum"), {}, "pool is 'sum'"),
        (Shown(0, 0), {"rows": 3}, "rows is 3; it is a slice"),
        (Shown(0, 0), {"cols": slice(4, 4)}, r"cols is slice\(4, 4, None\) of 6 positions"),
        (Shown(0, 0), {"rows": slice(0, 6, 2)}, "one stretch"),
        (Shown(0, 0), {"rows": slice("a", "b")}, "int ends"),
        (Shown(0, 0), {"scale": "cubic"}, "scale is 'cubic'"),
    ],
)
def test_what_does_not_exist_is_one_sentence(shown: Shown, more: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        pictured(answers(dense.patterns(6)), shown, **more)
