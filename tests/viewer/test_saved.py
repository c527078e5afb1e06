"""The saved page: what it holds equals the whole pattern, it loads nothing, no text breaks it, and it works offline."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import dense
import pytest
import torch
from opened import Opened, number, rest
from opened import shown as shown_number
from torch import Tensor

import headwise as hw
from headwise.errors import ShapeError, SpecError, UnavailableError
from headwise.heads import Head
from headwise.viewer import Answers, Scene, saved
from headwise.viewer.saved import KEYS, MAP, canonical, saved_page

HOSTILE = [
    "</script><script>window.broken = 1</script>", "<!--", "<img src=x onerror='window.broken = 2'>", "&lt;b&gt;",
    "{{script}}", "{{data}}", "\u2028\u2029", "\ud800", "\x00\x1b[31m", '"\\', "]]>", "", "\n", "ﷺ🎉",
]  # fmt: skip
TYPES = {"f32": torch.float32, "u8": torch.uint8, "i32": torch.int32}
DIGITS = 2.0**-13  # relative error of a float that keeps 12 bits after the first


def heads(layers: int, count: int, *telling: tuple[int, int]) -> list[Head]:
    """Heads of which the named ones are induction heads, the first the most."""
    found = []
    for n in range(layers * count):
        place = (n // count, n % count)
        score = 0.9 - 0.1 * telling.index(place) if place in telling else 0.0
        zero = {"induction": 0.0}
        found.append(Head(*place, f"layers.{place[0]}.attn", "mixed", {"induction": score}, zero, zero, 1.0))
    return found


def scene(layers: int = 2, T: int = 100, *telling: tuple[int, int], **more: Any) -> Scene:
    patterns = {
        f"layers.{n}.attn": dense.patterns(T, seed=n, B=1, mask=hw.Causal(), **more.pop("spec", {}))
        for n in range(layers)
    }
    found = {"heads": heads(layers, 3, *telling), "title": "Some <heads> & more", **more}
    return Scene.of({"run": patterns}, **found)


def budget(patch: pytest.MonkeyPatch, **bytes_of: float) -> None:
    """Other budgets of some parts of a page."""
    usual = dict.fromkeys(saved.budgets(0), 0.0) | {"top": 1.0, "profiles": 20_000}
    patch.setattr(saved, "budgets", lambda taken: {**usual, **bytes_of})


class Scripts(HTMLParser):
    """The scripts of a page, by their id or type, and every attribute that could load something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.loads: list[tuple[str, str | None]] = []
        self._now = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [(name, value) for name, value in attrs if name in ("src", "href", "srcset", "action", "poster")]
        if tag == "script":
            self._now = dict(attrs).get("id") or dict(attrs).get("type") or ""

    def handle_data(self, data: str) -> None:
        if self._now:
            self.found[self._now] = self.found.get(self._now, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._now = ""


def carried(html: str) -> Any:
    return json.loads(Scripts(html).found["headwise-saved"])


def page(of: Scene, **more: Any) -> Any:
    return carried(saved_page(Answers(of), **more))


def unpacked(text: str, kind: str) -> Tensor:
    raw = zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS)
    if not raw:
        return torch.empty(0, dtype=TYPES[kind])
    planes = torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(TYPES[kind].itemsize, -1)
    return planes.T.contiguous().view(TYPES[kind]).flatten()


def numbers(data: Any, name: str, **params: Any) -> tuple[Any, Tensor]:
    """The meta and the numbers of an answer that a page holds."""
    told = data["answers"][canonical(name, params)]
    found = unpacked(told["data"], told["type"])
    assert found.nbytes == told["size"]
    return told["meta"], found


def shown(layer: int, head: int, **more: Any) -> dict[str, Any]:
    return {"run": 0, "layer": layer, "head": head, "b": 0, "pool": "mean", "hide": 0, "norm": 0, **more}


def tile(data: Any, z: int, r: int, c: int, layer: int, head: int, **more: Any) -> Tensor:
    meta, found = numbers(data, "tile", **shown(layer, head, z=z, r=r, c=c, **more))
    assert (meta["z"], meta["r"], meta["c"], meta["exact"]) == (z, r, c, True)
    return found.view(meta["h"], meta["w"])


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found.double(), wanted.double(), rtol=2 * DIGITS, atol=1e-7)


def test_what_a_page_holds_equals_the_whole_pattern() -> None:
    of = scene(2, 300, (1, 2), (0, 1))
    data = page(of, heads=[(1, 2)])
    assert data["scene"]["saved"]["heads"][0] == "1.2"
    for layer in range(2):
        p = of.pattern(0, layer).to_dense()[0].double()
        for head in range(3):
            meta, found = numbers(data, "preview", **shown(layer, head))
            assert meta["exact"] is True
            assert max(meta["h"], meta["w"]) <= MAP
            close(found.view(meta["h"], meta["w"]), dense.pooled(p[head], meta["z"], "mean"))
    p = of.pattern(0, 1).to_dense()[0, 2].double()
    for pool in ("mean", "max"):
        close(tile(data, 1, 0, 0, 1, 2, pool=pool), dense.pooled(p, 1, pool))
    cells = torch.cat([torch.cat([tile(data, 0, r, c, 1, 2) for c in range(2)], 1) for r in range(2)])
    close(cells, p)

    meta, found = numbers(data, "profile", run=0, layer=1, head=2, b=0)
    entropy = torch.special.entr(p).sum(-1)
    close(found, torch.cat([entropy, p.sum(0)]))
    assert meta["entropy"] == pytest.approx(float(entropy.mean()), rel=1e-3)

    meta, codes = numbers(data, "overview", run=0, b=0, since=0)
    assert (meta["done"], meta["exact"], meta["of"], len(meta["heads"])) == (True, 6, 6, 6)
    for n, told in enumerate(meta["heads"]):
        whole = of.pattern(0, told["layer"]).map(32, 32)[0, told["head"]]
        small = told["scale"] * (codes.view(6, 32, 32)[n] / 255) ** 2
        assert ((small - whole).abs() <= told["scale"] / 255 + 1e-5).all()


def test_top_keys_are_those_of_the_last_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    budget(monkeypatch, top=6 * KEYS * saved._KEY_BYTES * 20.5)
    of = scene(2, 100)
    top = page(of)["topKeys"]["0"]
    assert (top["k"], top["first"]) == (KEYS, 80)
    keys, p = unpacked(top["keys"], "i32").view(6, 20, KEYS), unpacked(top["p"], "f32").view(6, 20, KEYS)
    for n in range(6):
        whole = of.pattern(0, n // 3).to_dense()[0, n % 3, 80:]
        close(p[n], whole.topk(KEYS).values)
        close(whole.gather(1, keys[n].long()), p[n])


def test_layers_of_other_lengths_have_top_keys_of_their_first_queries() -> None:
    patterns = {
        "encoder.layers.0.self_attn": dense.patterns(30, B=1),
        "decoder.layers.0.self_attn": dense.patterns(8, B=1, mask=hw.Causal()),
        "decoder.layers.0.encoder_attn": dense.patterns(8, 30, B=1),
    }
    of = Scene.of({"run": patterns}, tokens=[f"t{n}" for n in range(8)], key_tokens=[f"s{n}" for n in range(30)])
    top = page(of)["topKeys"]["0"]
    keys = unpacked(top["keys"], "i32").view(9, 30, KEYS)
    assert top["first"] == 0
    assert (keys[3:, 8:] == -1).all()
    assert (keys[:3] >= 0).all()
    cross = patterns["decoder.layers.0.encoder_attn"].to_dense()[0, 1]
    assert keys[7, :8, 0].tolist() == cross.argmax(-1).tolist()


def test_the_opening_head_and_the_most_telling_others_come_down_to_single_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = scene(2, 72, (1, 1), (0, 2))
    data = page(of)
    assert data["scene"]["saved"]["heads"] == ["1.1", "0.2", "0.0", "0.1", "1.0", "1.2"]
    assert "every head down to single cells" in data["scene"]["saved"]["says"]
    budget(monkeypatch, open=10_000, tiles=0)
    data = page(of)
    assert data["scene"]["saved"]["heads"] == ["1.1"]
    assert "1 of 6 heads down to single cells, the others as maps" in data["scene"]["saved"]["says"]
    assert canonical("tile", shown(0, 2, z=0, r=0, c=0)) not in data["answers"]


def test_the_two_leading_heads_of_each_kind_come_before_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the margins say: induction heads have low scores and were left out for many strong duplicate heads."""
    scores = {
        (0, 0): {"duplicate_token": 0.9}, (0, 1): {"duplicate_token": 0.8}, (0, 2): {"duplicate_token": 0.7},
        (1, 0): {"induction": 0.12}, (1, 1): {"induction": 0.11}, (1, 2): {"induction": 0.01},
        (2, 0): {"first_token": 0.9}, (2, 1): {"broad": 0.9}, (2, 2): {"first_token": 0.2},
    }  # fmt: skip
    scored = []
    for place, own in scores.items():
        zero = dict.fromkeys(own, 0.0)
        scored.append(Head(*place, f"layers.{place[0]}.attn", "mixed", own, zero, zero, 1.0))
    budget(monkeypatch, open=12_000, tiles=75_000)
    held = page(scene(3, 72, heads=scored))["scene"]["saved"]["heads"]
    assert held[:7] == ["0.0", "1.0", "2.0", "2.1", "1.1", "0.1", "2.2"]
    assert len(held) < 9


def test_a_head_that_does_not_fit_has_its_coarser_levels(monkeypatch: pytest.MonkeyPatch) -> None:
    budget(monkeypatch, open=200_000, tiles=0)
    data = page(scene(1, 600, (0, 1)))
    levels = {int(re.search(r"&z=(\d+)", key)[1]) for key in data["answers"] if key.startswith("tile?")}  # type: ignore[index]
    assert levels == {2}
    assert data["scene"]["saved"]["heads"] == []
    assert "no head down to single cells" in data["scene"]["saved"]["says"]


def test_named_heads_are_held_whole_beyond_every_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    budget(monkeypatch, open=0, tiles=0, profiles=0)
    of = scene(2, 600, (1, 1))
    data = page(of, heads=[(0, 2), [1, 0], (0, 2)])
    assert data["scene"]["saved"]["heads"] == ["0.2", "1.0"]
    assert data["scene"]["open"] == [0, 2]
    assert re.match(r"This saved file of \d\.\d MB holds 2 of 6 heads", data["scene"]["saved"]["says"])
    p = of.pattern(0, 1).to_dense()[0, 0]
    close(tile(data, 0, 2, 1, 1, 0), p[512:, 256:512])
    assert numbers(data, "profile", run=0, layer=0, head=2, b=0)[1].shape == (1200,)


def test_maps_grow_coarser_where_many_heads_share_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    of = scene(4, 200, (3, 2))
    fine = page(of)
    sides = {numbers(fine, "preview", **shown(n // 3, n % 3))[0]["h"] for n in range(12)}
    assert sides == {50}
    budget(monkeypatch, maps=30_000)
    coarse = page(of)
    sides = {(n // 3, n % 3): numbers(coarse, "preview", **shown(n // 3, n % 3))[0]["h"] for n in range(12)}
    assert sides[3, 2] == 50
    assert set(sides.values()) == {50, 25}
    meta, found = numbers(coarse, "preview", **shown(2, 0))
    close(found.view(meta["h"], -1), dense.pooled(of.pattern(0, 2).to_dense()[0, 0].double(), meta["z"], "mean"))


def test_other_runs_differences_and_rows_are_held_too() -> None:
    one, two = dense.patterns(40, mask=hw.Causal()), dense.patterns(40, seed=5, mask=hw.Causal())
    data = page(Scene.of({"plain": {"layer": one}, "cut": {"layer": two}}))
    for b in range(2):
        apart = (two.to_dense() - one.to_dense())[b, 1]
        close(tile(data, 0, 0, 0, 0, 1, run=1, b=b), two.to_dense()[b, 1])
        found = tile(data, 0, 0, 0, 0, 1, run=1, minus=0, b=b)
        torch.testing.assert_close(found, apart, atol=1e-6, rtol=2 * DIGITS)
    assert canonical("overview", {"run": 1, "minus": 0, "b": 1, "since": 0}) in data["answers"]


def test_floats_keep_their_digits_whatever_their_size() -> None:
    x = torch.cat([10.0 ** -torch.arange(0, 37.0), torch.tensor([0.0, 1.0, float("inf"), float("nan")])])
    found = unpacked(saved._packed(x), "f32")
    assert found[-4:-1].tolist() == [0.0, 1.0, float("inf")]
    assert found[-1].isnan()
    assert ((found - x)[:37].abs() <= DIGITS * x[:37]).all()


def test_the_page_loads_nothing() -> None:
    html = saved_page(Answers(scene()))
    parsed = Scripts(html)
    assert parsed.loads == [("href", "data:,")]
    assert "default-src 'none'" in html
    assert "connect-src" not in html


def test_no_text_becomes_markup() -> None:
    of = scene(1, len(HOSTILE), tokens=HOSTILE, title=HOSTILE[0], subtitle=HOSTILE[2], facts=[(HOSTILE[0], HOSTILE[2])])
    html = saved_page(Answers(of))
    assert len(re.findall(r"<script", html)) == len(re.findall(r"</script", html)) == 2
    assert "<!--" not in html
    parsed = Scripts(html)
    assert "window.broken" in parsed.found["headwise-saved"]
    assert "window.broken" not in parsed.found["module"]
    labels = carried(html)["scene"]["axes"][0]["labels"]
    assert labels == [token.encode("utf-8", "replace").decode() for token in HOSTILE]
    html.encode("utf-8")  # nothing that a file cannot hold


def test_the_script_is_carried_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved, "script", lambda: "a = '</script><!-- {{data}} {{title}}';")
    found = Scripts(saved_page(Answers(scene()))).found["module"].strip()
    assert found == "a = '<\\/script><\\!-- {{data}} {{title}}';"


def test_a_page_without_its_script_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(saved, "files", lambda _: tmp_path)
    with pytest.raises(UnavailableError, match="npx vite build"):
        saved_page(Answers(scene()))


@pytest.mark.parametrize(("T", "layers", "count"), [(256, 30, 9), (2048, 4, 12), (512, 32, 32), (40, 2, 4)])
def test_the_size_is_bounded_whatever_the_model(T: int, layers: int, count: int) -> None:
    patterns = {
        f"layers.{n}.attn": dense.patterns(T, seed=n, B=1, H=count, Hk=count, mask=hw.Causal()) for n in range(layers)
    }
    of = Scene.of({"run": patterns}, tokens=[f" token{n}" for n in range(T)])
    html = saved_page(Answers(of))
    assert len(html) < 5e6
    assert len(html) > 4.2e6 or T == 40
    data = carried(html)
    shown = {tuple(re.findall(r"(?:head|layer)=(\d+)", key)) for key in data["answers"] if "pool=mean" in key}
    assert len(shown) == layers * count


def test_patterns_of_nan_are_one_sentence() -> None:
    pattern = dense.patterns(20, B=1)
    pattern.q[0, 1, 3] = float("nan")
    broken = hw.Pattern(pattern.q, pattern.k)
    of = Scene.of({"run": {"layers.0.attn": dense.patterns(20, B=1), "layers.1.attn": broken}})
    with pytest.raises(SpecError, match="the patterns of 1 of 6 heads hold NaN, first that of layer 1, head 1; "):
        saved_page(Answers(of))


def test_a_pattern_without_cells_is_one_sentence() -> None:
    with pytest.raises(ShapeError, match=r"site 'layer' has \[2, 3, 0, 5\] for"):
        Scene.of({"run": {"layer": dense.patterns(0, 5)}})


@pytest.mark.parametrize("place", [(0, 3), (2, 0), (-1, 0), "0.1", (0,), 3])
def test_a_head_that_does_not_exist_is_one_sentence(place: Any) -> None:
    with pytest.raises(SpecError, match=r"there is no head .*pairs, up to"):
        saved_page(Answers(scene()), heads=[place])


@pytest.mark.xdist_group("browser")
def test_a_saved_page_works_offline(tab: Any, tmp_path: Path) -> None:
    of = scene(2, 300, (1, 2), tokens=[HOSTILE[n % 14] if n < 20 else f" w{n}" for n in range(300)])
    place = tmp_path / "a page.html"
    place.write_text(saved_page(Answers(of), heads=[(1, 2)]), encoding="utf-8")
    tab.context.set_offline(True)
    opened = Opened(tab, place.as_uri())
    assert tab.title() == "Some <heads> & more"
    assert tab.locator("[data-head]").count() == 6
    assert tab.locator("[data-here]").get_attribute("data-head") == "1.2"
    tab.get_by_text("This saved file of").first.wait_for()
    assert tab.evaluate("window.broken") is None

    p = of.pattern(0, 1).to_dense()[0, 2]
    for pool in ("mean", "max"):
        opened = Opened(tab, f"{place.as_uri()}#head=1.2&at=100.5,200.5,8&pool={pool}")
        said = opened.point()
        query, key = (int(said.split(f"{word} ", 1)[1].split()[0]) for word in ("query", "key"))
        assert shown_number(number(said)) == pytest.approx(shown_number(float(p[query, key])), rel=1e-6)
        assert f"w{query}" in said


@pytest.mark.xdist_group("browser")
def test_a_head_that_is_not_held_shows_its_map(tab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    budget(monkeypatch, maps=1e6, open=-1e6)  # what maps leave over goes to tiles
    of, place = scene(2, 200, (1, 2)), tmp_path / "page.html"
    place.write_text(saved_page(Answers(of), heads=[(1, 2)]), encoding="utf-8")
    opened = Opened(tab, place.as_uri())
    tab.locator("[data-head='0.1']").click()
    rest(tab, 800)
    said = opened.point(0.26, 0.76)
    i0, i1 = (int(part) for part in said.split("queries ", 1)[1].split()[0].split("–"))
    j0, j1 = (int(part) for part in said.split("keys ", 1)[1].split()[0].split("–"))
    assert i1 - i0 == 3
    wanted = of.pattern(0, 0).to_dense()[0, 1, i0 : i1 + 1, j0 : j1 + 1].mean()
    assert shown_number(number(said)) == pytest.approx(shown_number(float(wanted)), rel=1e-6)
