"""The picture of all heads: each map is its head's, in one scale, at its place, with what its letter asks."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import dense
import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.errors import SpecError
from headwise.heads import Head
from headwise.viewer import Answers, Scene, colours, sheet
from headwise.viewer.all_heads import all_heads
from headwise.viewer.colour_bar import ceiling
from headwise.viewer.shown import Shown

SVG = "{http://www.w3.org/2000/svg}"


def scene(T: int = 20, layers: int = 2, **more: Any) -> Scene:
    patterns = {f"layers.{n}.attn": dense.patterns(T, seed=n, mask=hw.Causal()) for n in range(layers)}
    return Scene.of({"run": patterns}, title="Six heads", **more)


def scored() -> list[Head]:
    """Two induction heads, a broad one and three that are called nothing."""
    found = []
    for n in range(6):
        kind = {0: "induction", 4: "induction", 5: "broad"}.get(n, "mixed")
        scores = {"induction": 0.5, "broad": 0.9}
        zero = {"induction": 0.1, "broad": 1.0}
        found.append(Head(n // 3, n % 3, f"layers.{n // 3}.attn", kind, scores, zero, dict.fromkeys(scores, 0.0), 1.0))
    return found


def maps_of(drawn: sheet.Sheet) -> list[sheet.Cells]:
    return [mark for mark in drawn.marks if isinstance(mark, sheet.Cells)][:-1]  # the last is the colour bar


def texts(drawn: sheet.Sheet) -> list[str]:
    return [mark.text for mark in drawn.marks if isinstance(mark, sheet.Text)]


def cells_of(of: Scene, run: int = 0, b: int = 0) -> dict[tuple[int, int], Tensor]:
    patterns = [of.pattern(run, n).to_dense()[b] for n in range(len(of.sites))]
    return {(layer, head): p for layer, whole in enumerate(patterns) for head, p in enumerate(whole)}


@pytest.mark.parametrize("dark", [False, True])
def test_each_head_stands_in_its_layer_in_the_colours_of_one_scale(dark: bool) -> None:
    of = scene()
    drawn = all_heads(Answers(of), Shown(0, 0, 1), dark=dark)
    cells = cells_of(of, b=1)
    most = ceiling(float(torch.stack(list(cells.values())).max()))
    maps = maps_of(drawn)
    assert len(maps) == 6
    for (layer, head), found in zip(cells, maps, strict=True):
        wanted = colours.coloured(cells[layer, head], most, "sqrt", dark=dark, diverging=False)
        assert (found.colours == wanted).all()
        assert (found.x, found.y) == (maps[head].x, maps[3 * layer].y)
    labels = [mark.text for mark in drawn.marks if isinstance(mark, sheet.Text) and mark.anchor == "end"]
    assert labels == ["0", "1", "layer"]
    assert [text for text in texts(drawn) if text in "012"][2:5] == ["0", "1", "2"]
    assert "Row 1 of the batch. Each cell: one of the probabilities; square-root colours" in " ".join(texts(drawn))


def test_long_patterns_are_pooled_and_parts_can_be_shown() -> None:
    of = scene(700, 1)
    drawn = all_heads(Answers(of), Shown(0, 0, pool="max"), rows=slice(100, 700), scale="log")
    p = of.pattern(0, 0).to_dense()[0, :, 100:]
    pooled = torch.stack([dense.pooled(one, 2, "max") for one in p]).float()
    wanted = colours.coloured(pooled, ceiling(float(pooled.max())), "log", dark=False, diverging=False)
    for found, one in zip(maps_of(drawn), wanted, strict=True):
        assert (found.colours.int() - one.int()).abs().max() <= 1
    assert "the largest of up to 4 x 4 probabilities; logarithmic colours" in " ".join(texts(drawn))


def test_a_difference_of_runs_is_one_sheet() -> None:
    one, two = dense.patterns(9, B=1, mask=hw.Causal()), dense.patterns(9, B=1, seed=3, mask=hw.Causal())
    of = Scene.of({"plain": {"layer": one}, "cut": {"layer": two}})
    drawn = all_heads(Answers(of), Shown(0, 0, run=1, minus=0))
    apart = (two.to_dense() - one.to_dense())[0]
    wanted = colours.coloured(apart, ceiling(float(apart.abs().max())), "sqrt", dark=False, diverging=True)
    for found, one_head in zip(maps_of(drawn), wanted, strict=True):
        assert (found.colours.int() - one_head.int()).abs().max() <= 1
    assert "Run 'cut' minus 'plain'. Each cell: one of the differences" in " ".join(texts(drawn))


def test_a_letter_says_how_it_was_earned() -> None:
    said = texts(all_heads(Answers(scene(heads=scored())), Shown(0, 0)))
    assert said.count("I") == 3 and said.count("B") == 2  # one more in the legend
    assert "induction: 2 heads; lift over chance at least 0.1" in said
    assert "broad: 1 head; score at least 0.8" in said
    assert not any("mixed" in text for text in said)


def test_some_heads_are_shown_in_their_order_under_their_names() -> None:
    of = scene(heads=scored())
    drawn = all_heads(Answers(of), Shown(0, 0), heads=[(1, 2), (0, 0), (1, 0)])
    cells = cells_of(of)
    maps = maps_of(drawn)
    most = ceiling(max(float(cells[place].max()) for place in ((1, 2), (0, 0), (1, 0))))
    for place, found in zip(((1, 2), (0, 0), (1, 0)), maps, strict=True):
        assert (found.colours == colours.coloured(cells[place], most, "sqrt", dark=False, diverging=False)).all()
    assert [text for text in texts(drawn) if text.startswith("layer ")] == [
        "layer 1, head 2", "layer 0, head 0", "layer 1, head 0",
    ]  # fmt: skip
    assert maps[0].y == maps[1].y < maps[2].y and maps[0].x == maps[2].x < maps[1].x


def test_layers_of_other_lengths_and_head_counts_share_a_sheet() -> None:
    patterns = {
        "encoder.layers.0.self_attn": dense.patterns(30, B=1),
        "decoder.layers.0.self_attn": dense.patterns(8, B=1, H=6, Hk=3, mask=hw.Causal()),
        "decoder.layers.0.encoder_attn": dense.patterns(8, 30, B=1),
    }
    drawn = all_heads(Answers(Scene.of({"run": patterns})), Shown(0, 0))
    shapes = [found.colours.shape[:2] for found in maps_of(drawn)]
    assert shapes == [(30, 30)] * 3 + [(8, 8)] * 6 + [(8, 30)] * 3
    assert {"encoder 0", "decoder 0", "cross 0"} <= set(texts(drawn))


def test_it_is_saved_as_svg_or_png(tmp_path: Path) -> None:
    from PIL import Image

    patterns = [dense.patterns(12, seed=n, B=1, mask=hw.Causal()) for n in range(3)]
    seen = hw.view(patterns, tokens=[f"<{n}&" for n in range(12)], title="<&>")
    seen.save(tmp_path / "heads.svg", heads="all")
    root = ET.fromstring((tmp_path / "heads.svg").read_text("utf-8"))
    images = list(root.iter(f"{SVG}image"))
    assert len(images) == 10  # nine maps and the bar
    first = base64.b64decode(images[0].attrib["href"].removeprefix("data:image/png;base64,"))
    assert Image.open(io.BytesIO(first)).size == (12, 12)
    seen.save(tmp_path / "heads.png", heads="all", dark=True)
    image = Image.open(tmp_path / "heads.png").convert("RGB")
    assert image.getpixel((2, 2)) == colours.rgb(colours.PAPERS["dark"]["surface"])
    seen.save(tmp_path / "head.svg")
    assert len(list(ET.fromstring((tmp_path / "head.svg").read_text("utf-8")).iter(f"{SVG}rect"))) > 100  # one head


def test_what_cannot_be_drawn_is_one_sentence(tmp_path: Path) -> None:
    seen = hw.view(dense.patterns(6, B=1))
    for wrong, said in (
        ({"heads": [(0, 9)]}, r"there is no head \(0, 9\); heads are \(layer, head\) pairs, up to \(0, 2\)"),
        ({"heads": "some"}, "heads is 'some'; it is \"all\" or a list"), ({"heads": 3}, "heads is a int"),
        ({"heads": []}, "heads is empty"), ({"heads": [3]}, "there is no head 3"),
        ({"heads": "all", "head": (0, 1)}, "head and heads were both given"),
        ({"heads": "all", "b": 2}, "b is 2; there is 1"), ({"heads": "all", "scale": "cubic"}, "scale is 'cubic'"),
        ({"heads": "all", "pool": "sum"}, "pool is 'sum'"), ({"heads": "all", "rows": slice(3, 3)}, "rows is"),
        ({"heads": "all", "run": 1}, "run is 1"),
    ):  # fmt: skip
        with pytest.raises(SpecError, match=said):
            seen.save(tmp_path / "heads.png", **wrong)
    with pytest.raises(SpecError, match=r"head was given for .*a\.html; head says what a picture shows"):
        seen.save(tmp_path / "a.html", head=(0, 1))
    assert list(tmp_path.iterdir()) == []


def test_a_page_of_all_heads_holds_every_one_whole(tmp_path: Path) -> None:
    page = hw.view(dense.patterns(70, B=1)).save(tmp_path / "a.html", heads="all")
    assert '"heads":["0.0","0.1","0.2"]' in page.read_text("utf-8")
