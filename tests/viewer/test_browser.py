"""The page in a real browser: opening, zooming, reading, choosing, linking, exporting, with pointer and with keys."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import dense
import pytest
import torch
from opened import Opened, number, rest, shown
from PIL import Image

import headwise as hw
from headwise.heads import Head
from headwise.viewer import Answers, Grid, Scene, colours
from headwise.viewer.server import Server, serve

pytestmark = pytest.mark.xdist_group("browser")

T = 700
HOSTILE = "<img src=x onerror=\"document.title='broken'\">"
KINDS = ["induction", "previous_token", "first_token", "mixed"]


def words(n: int) -> list[str]:
    return [HOSTILE if at == 1 else f" w{at}" for at in range(n)]


def heads(layers: int, count: int) -> list[Head]:
    found = []
    for n in range(layers * count):
        kind = KINDS[n % 4]
        scores = {"induction": n / 20, "previous_token": 0.5, "first_token": 0.2}
        chance, error = dict.fromkeys(scores, 0.1), dict.fromkeys(scores, 0.01)
        found.append(Head(n // count, n % count, f"layers.{n // count}.attn", kind, scores, chance, error, 1.0))
    return found


RUN = {f"layers.{n}.attn": dense.patterns(T, seed=n, mask=hw.Causal()) for n in range(3)}
CHANGED = {f"layers.{n}.attn": dense.patterns(T, seed=n + 7, mask=hw.Causal()) for n in range(3)}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    scene = Scene.of({"plain": RUN}, tokens=words(T), heads=heads(3, 3), title="Nine heads")
    with serve(Answers(scene)) as found:
        yield found


@pytest.fixture(scope="module")
def both() -> Iterator[Server]:
    """Two runs."""
    scene = Scene.of({"plain": RUN, "ablated": CHANGED}, tokens=words(T), heads=heads(3, 3), title="Nine heads twice")
    with serve(Answers(scene)) as found:
        yield found


def p(layer: int = 0, head: int = 0, b: int = 0, run: dict[str, hw.Pattern] = RUN) -> torch.Tensor:
    return run[f"layers.{layer}.attn"].to_dense()[b, head]


def test_it_opens_with_every_head_and_the_whole_pattern(server: Server, tab: Any) -> None:
    page = Opened(tab, server.url)
    assert tab.locator("h1").inner_text() == "Nine heads"
    assert tab.locator("[data-head]").count() == 9
    assert tab.title() != "broken"
    assert "mean of" in page.point(0.2, 0.8)


@pytest.mark.parametrize(("query", "key"), [(650, 12), (31, 30), (699, 0)])
def test_zoomed_to_single_cells_it_says_their_numbers(server: Server, tab: Any, query: int, key: int) -> None:
    page = Opened(tab, f"{server.url}#head=1.2&at={key + 0.5},{query + 0.5},8")
    assert tab.locator("[data-z]").first.get_attribute("data-z") == "0"
    # Near an edge the view is held inside the pattern, so the cell is looked for around the middle.
    for x in range(1, 16):
        for y in range(1, 16):
            said = page.point(x / 16, y / 16) if (x, y) != (8, 8) else page.point()
            if f"query {query} " in said and f"key {key} " in said:
                assert shown(number(said)) == pytest.approx(shown(float(p(1, 2)[query, key])), rel=1e-6)
                assert f"w{query}" in said
                return
    pytest.fail(f"no cell of query {query} and key {key}, the last: {said}")


def test_the_wheel_zooms_at_the_pointer_down_to_cells(server: Server, tab: Any) -> None:
    page = Opened(tab, server.url)
    before = page.point(0.25, 0.75)
    for _ in range(14):
        tab.mouse.wheel(0, -400)
    rest(tab, 400)
    page.drawn()
    said = page.point(0.25, 0.75)
    assert "mean of" in before and "mean of" not in said
    query, key = (int(said.split(f"{word} ", 1)[1].split()[0]) for word in ("query", "key"))
    assert abs(query - T * 0.75) < 8 and abs(key - T * 0.25) < 8
    layer, head = (int(part) for part in tab.locator("[data-here]").get_attribute("data-head").split("."))
    assert shown(number(said)) == pytest.approx(shown(float(p(layer, head)[query, key])), rel=1e-6)


def test_a_pooled_cell_says_the_mean_or_the_largest_of_its_cells(server: Server, tab: Any) -> None:
    for pool, reduce in (("mean", torch.mean), ("max", torch.amax)):
        page = Opened(tab, f"{server.url}#head=0.1&pool={pool}")
        said = page.point(0.11, 0.9)
        i0, i1 = (int(part) for part in said.split("queries ", 1)[1].split()[0].split("–"))
        j0, j1 = (int(part) for part in said.split("keys ", 1)[1].split()[0].split("–"))
        wanted = float(reduce(p(0, 1)[i0 : i1 + 1, j0 : j1 + 1]))
        assert shown(number(said)) == pytest.approx(shown(wanted), rel=1e-6)


def test_dragging_pans_and_a_box_zooms(server: Server, tab: Any) -> None:
    page = Opened(tab, f"{server.url}#head=1.2&at=300,400,60")
    box = page.plot.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.mouse.move(x, y)
    tab.mouse.down()
    tab.mouse.move(x - 100, y - 50, steps=4)
    tab.mouse.up()
    key, query, span = (float(part) for part in page.hash["at"].split(","))
    assert key > 305 and query > 402 and span == pytest.approx(60, rel=0.02)
    tab.keyboard.down("Shift")
    tab.mouse.move(x - 80, y - 80)
    tab.mouse.down()
    tab.mouse.move(x + 80, y + 80, steps=4)
    tab.mouse.up()
    tab.keyboard.up("Shift")
    rest(tab, 500)
    assert float(page.hash["at"].split(",")[2]) < span / 1.5


def test_chips_filter_and_a_score_orders(server: Server, tab: Any) -> None:
    Opened(tab, server.url)
    tab.locator("[data-kind='induction']").click()
    left = tab.locator("[data-head]:not([data-faint])")
    assert [left.nth(n).get_attribute("data-head") for n in range(left.count())] == ["0.0", "1.1", "2.2"]
    tab.locator("[data-kind='induction']").click()
    tab.locator(".overview select").select_option("induction")
    cells = tab.locator("[data-head]")
    order = [cells.nth(n).get_attribute("data-head") for n in range(9)]
    assert order == [f"{n // 3}.{n % 3}" for n in reversed(range(9))]


def test_scales_change_the_picture_and_not_the_numbers(server: Server, tab: Any) -> None:
    pictures, said = set(), set()
    for scale in ("linear", "sqrt", "log"):
        page = Opened(tab, f"{server.url}#head=0.1&scale={scale}")
        said.add(number(page.point(0.11, 0.9)))
        tab.mouse.move(0, 0)
        rest(tab, 80)
        pictures.add(page.plot.screenshot())
    assert len(pictures) == 3 and len(said) == 1


@pytest.mark.parametrize(("hide", "norm"), [(1, 0), (0, 1), (1, 1)])
def test_the_sink_can_be_hidden_and_rows_scaled(server: Server, tab: Any, hide: int, norm: int) -> None:
    page = Opened(tab, f"{server.url}#head=0.1&hide={hide}&norm={norm}&at=8,120,16")
    said = page.point(0.5, 0.5)
    query, key = (int(said.split(f"{word} ", 1)[1].split()[0]) for word in ("query", "key"))
    wanted = dense.shown(p(0, 1), 0, hide=bool(hide), norm=bool(norm))[query, key]
    assert shown(number(said)) == pytest.approx(shown(float(wanted)), rel=1e-6)


@pytest.mark.parametrize(("runs", "sign", "name"), [("", -1, "ablated − plain"), ("&minus=1", 1, "plain − ablated")])
def test_two_runs_open_on_their_difference(both: Server, tab: Any, runs: str, sign: int, name: str) -> None:
    page = Opened(tab, f"{both.url}#head=2.1{runs}&at=90.5,300.5,8")
    said = page.point()
    query, key = (int(said.split(f"{word} ", 1)[1].split()[0]) for word in ("query", "key"))
    wanted = sign * float(p(2, 1)[query, key] - p(2, 1, run=CHANGED)[query, key])
    assert number(said) == pytest.approx(wanted, rel=6e-2) and name in said
    assert name in tab.locator(".map-name").inner_text()


def test_one_of_two_runs_can_be_looked_at_and_linked(both: Server, tab: Any) -> None:
    page = Opened(tab, f"{both.url}#head=2.1")
    assert "run" not in page.hash and "minus" not in page.hash
    run, minus = tab.locator(".page-controls select").all()[:2]
    assert (run.input_value(), minus.input_value()) == ("1", "0")
    run.select_option("0")
    page.drawn()
    assert page.hash["run"] == "0"
    again = Opened(tab, tab.evaluate("location.href"))
    assert tab.locator(".page-controls select").nth(1).input_value() == "none" and again.hash["run"] == "0"


def test_locked_colours_stay_when_it_is_zoomed(server: Server, tab: Any) -> None:
    """Without a lock a cell changes its colour when what is brighter leaves the view."""

    def seen(more: str) -> tuple[int, ...]:
        page = Opened(tab, f"{server.url}#theme=light&head=0.1&scale=linear&query=none{more}")
        tab.mouse.move(0, 0)
        box = page.plot.bounding_box()
        image = Image.open(io.BytesIO(page.plot.screenshot())).convert("RGB")
        cell = box["width"] / float(more.rpartition(",")[2])
        # The view's middle is that of the cell, where its number may stand.
        return image.getpixel((int(box["width"] / 2 + 0.3 * cell), int(box["height"] / 2 + 0.3 * cell)))

    row, end = p(0, 1)[600], 0.01
    key = 50 + int((row[50:500] - 0.004).abs().argmin())
    wanted = colours.ramp(False, False)[round(min(1.0, float(row[key]) / end) * 1023)].tolist()
    views = [f"&at={key + 0.5},600.5,{span}" for span in (100, 12)]
    for view in views:
        assert seen(f"&range={end}{view}") == pytest.approx(wanted, abs=2)
    assert len({seen(view) for view in views}) == 2
    page = Opened(tab, f"{server.url}#head=0.1&at=100.5,600.5,12")
    tab.get_by_label("lock").check()
    page.drawn()
    end = float(page.hash["range"])
    page.plot.focus()
    tab.keyboard.press("0")
    page.drawn()
    assert float(page.hash["range"]) == end and "at" not in page.hash
    tab.get_by_label("lock").uncheck()
    assert "range" not in page.hash


def test_the_address_reopens_what_was_seen(server: Server, tab: Any) -> None:
    page = Opened(tab, server.url)
    tab.locator("[data-head='2.1']").click()
    page.point(0.3, 0.8)
    for _ in range(5):
        tab.mouse.wheel(0, -300)
    tab.get_by_role("radio", name="logarithm").or_(tab.get_by_text("log", exact=True)).first.click()
    page.drawn()
    state = page.hash
    assert state["head"] == "2.1" and state["scale"] == "log" and "at" in state
    said = page.point(0.4, 0.6)
    link = tab.evaluate("location.href")
    again = Opened(tab, link)
    assert again.hash == state
    assert again.point(0.4, 0.6) == said


def test_a_link_to_what_is_not_there_says_so_and_shows_the_rest(server: Server, tab: Any) -> None:
    page = Opened(tab, f"{server.url}#head=7.1&scale=log&query=99999999")
    said = tab.locator("[role='status'], [role='alert'], .notice").all_inner_texts()
    assert any("head=7.1" in text for text in said), said
    assert tab.locator("[data-here]").count() == 1
    assert "head" not in page.hash and page.hash["scale"] == "log"


def test_the_text_shows_what_a_token_attends_to(server: Server, tab: Any) -> None:
    Opened(tab, f"{server.url}#head=1.0&query=40")
    tab.wait_for_selector("[data-token='40']")
    tab.locator("[data-token='45']").click()
    best = p(1, 0)[45].topk(3)
    tab.wait_for_selector(f"[data-token='{int(best.indices[0])}'][data-shade]:not([data-shade^='0 '])")
    tab.wait_for_selector(".text-panel[data-ready]")
    rest(tab, 300)
    chips = tab.locator(".text-panel").inner_text()
    for at in best.indices.tolist():
        shade = tab.locator(f"[data-token='{at}']").get_attribute("data-shade")
        assert shade and int(shade.split()[0]) > 0, (at, shade)
    unseen = tab.locator("[data-token='46']").get_attribute("data-shade")  # ahead of the query
    assert unseen is None or unseen.startswith("0 "), unseen
    assert f"{float(best.values[0]):.3f}" in chips or f"{float(best.values[0]):.2f}" in chips


def test_a_picture_can_be_taken_along(server: Server, tab: Any, tmp_path: Path) -> None:
    Opened(tab, f"{server.url}#head=1.0&at=20,30,24")
    with tab.expect_download() as png:
        tab.get_by_role("button", name="PNG").click()
    png.value.save_as(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and (tmp_path / "a.png").stat().st_size > 5000
    with tab.expect_download() as svg:
        tab.get_by_role("button", name="SVG").click()
    svg.value.save_as(tmp_path / "a.svg")
    root = ET.fromstring((tmp_path / "a.svg").read_text("utf-8"))
    assert root.tag.endswith("svg") and not root.findall(".//{*}script") and not root.findall(".//{*}foreignObject")


def test_everything_can_be_done_with_keys(server: Server, tab: Any) -> None:
    page = Opened(tab, f"{server.url}#head=0.0")
    tab.locator("[data-head='0.0']").focus()
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        tab.keyboard.press(key)
    page.drawn()
    assert page.hash["head"] == "1.1"
    page.plot.focus()
    for _ in range(8):
        tab.keyboard.press("+")
    page.drawn()
    tab.keyboard.press("Shift+ArrowRight")
    tab.keyboard.press("Shift+ArrowUp")
    rest(tab, 100)
    said = page.says()
    query, key = (int(said.split(f"{word} ", 1)[1].split()[0]) for word in ("query", "key"))
    assert shown(number(said)) == pytest.approx(shown(float(p(1, 1)[query, key])), rel=1e-6)
    tab.keyboard.press("Enter")
    assert page.hash["query"] == str(query) and page.hash["key"] == str(key)
    tab.keyboard.press("0")
    assert "at" not in page.hash
    # Tab reaches every control, and comes round.
    reached = set()
    for _ in range(60):
        tab.keyboard.press("Tab")
        reached.add(
            tab.evaluate(
                "() => { let e = document.activeElement;"
                " while (e?.shadowRoot?.activeElement) e = e.shadowRoot.activeElement;"
                " return e.getAttribute('aria-label') || e.textContent.trim().slice(0, 20) || e.tagName; }"
            )
        )
    assert {"PNG", "SVG", "Text"} <= reached and any("Zoom in" in name for name in reached), reached


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("panel", ["text", "profile", "scores"])
def test_axe_finds_nothing_serious(both: Server, tab: Any, theme: str, panel: str) -> None:
    axe = Path(__file__).parents[2] / "front/node_modules/axe-core/axe.min.js"
    if not axe.exists():
        pytest.skip("axe-core is not installed; `make test` installs it where there is Node")
    Opened(tab, f"{both.url}#theme={theme}&panel={panel}&beside=1.1")
    rest(tab, 500)
    tab.evaluate(axe.read_text("utf-8"))
    found = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
    serious = [
        (violation["id"], [node["target"] for node in violation["nodes"]][:3], violation["nodes"][0]["failureSummary"])
        for violation in found["violations"]
        if violation["impact"] in ("serious", "critical")
    ]
    assert serious == []


def test_two_axes_and_patches_and_rows_of_a_batch(tab: Any) -> None:
    cross = {"decoder.layers.0.cross_attn": dense.patterns(5, 9)}
    with serve(Answers(Scene.of({"run": cross}, tokens=words(5), key_tokens=[f"s{n}" for n in range(9)]))) as server:
        page = Opened(tab, f"{server.url}#head=0.1&row=1")
        said = page.point(0.5, 0.5)
        query, key = (int(said.split(f"{word} ", 1)[1].split()[0]) for word in ("query", "key"))
        wanted = float(cross["decoder.layers.0.cross_attn"].to_dense()[1, 1, query, key])
        assert shown(number(said)) == pytest.approx(shown(wanted), rel=1e-6) and f"s{key}" in said
        tab.goto("about:blank")  # before its server ends
    image = {"encoder.layers.0.attention": dense.patterns(577, B=1)}
    with serve(Answers(Scene.of({"run": image}, tokens=Grid(24, 24, before=1)))) as server:
        page = Opened(tab, f"{server.url}#query=300")
        tab.wait_for_selector("[data-grid='24x24']")
        assert "r0 c" in Opened(tab, f"{server.url}#at=6.5,300.5,8").point()
        tab.goto("about:blank")  # before its server ends


def test_long_texts_keep_few_elements(tab: Any) -> None:
    n = 32_768
    q = torch.zeros(1, 1, n, 8)
    with serve(
        Answers(Scene.of({"run": {"layers.0.attn": hw.Pattern(q, q, mask=hw.Causal())}}, tokens=words(n)))
    ) as at:
        Opened(tab, f"{at.url}#query=20000")
        tab.wait_for_selector("[data-token='20000']")
        count = "document.querySelector('#headwise').shadowRoot.querySelectorAll('*').length"
        assert tab.evaluate(count) < 8000
        # One look at any cell of the matrix: an even head of 20,001 keys.
        said = Opened(tab, f"{at.url}#at=100.5,20000.5,8").point()
        query = int(said.split("query ", 1)[1].split()[0].replace(",", ""))
        assert shown(number(said)) == pytest.approx(shown(1 / (query + 1)), rel=1e-6)
        tab.goto("about:blank")  # before its server ends


def test_a_map_of_other_tokens_beside_keeps_its_own_place(tab: Any) -> None:
    """The second map has fewer queries: a click there must not select what the first has not, nor move it."""
    run = {"layers.0.attn": dense.patterns(60, mask=hw.Causal()), "layers.1.attn": dense.patterns(300)}
    with serve(Answers(Scene.of({"run": run}))) as server:
        page = Opened(tab, f"{server.url}#head=0.0&beside=1.0&query=5")
        second = tab.locator("[data-z]").nth(1).locator(".map-plot")
        second.click(position={"x": 150, "y": 190})
        box = second.bounding_box()
        tab.mouse.move(box["x"] + 90, box["y"] + 90)
        tab.mouse.wheel(0, -600)
        page.drawn()
        assert {"at", "key"}.isdisjoint(page.hash) and page.hash["query"] == "5"
        tab.goto("about:blank")  # before its server ends


def overlap(tab: Any, selector: str, around: str) -> dict[str, float]:
    """How much of a box another one covers, and how many of the first there are."""
    script = """([selector, around]) => {
        const root = document.querySelector('#headwise').shadowRoot;
        const outer = root.querySelector(around).getBoundingClientRect();
        const boxes = [...root.querySelectorAll(selector)].map((node) => node.getBoundingClientRect());
        const area = boxes.reduce((sum, { width, height }) => sum + width * height, 0);
        return { part: area / (outer.width * outer.height), count: boxes.length,
                 inside: boxes.every((box) => box.bottom <= outer.bottom + 1 && box.right <= outer.right + 1) };
    }"""
    return tab.evaluate(script, [selector, around])


@pytest.mark.parametrize(("layers", "count", "part"), [(1, 4, 0.45), (1, 1, 0.2), (2, 6, 0.35), (4, 4, 0.25)])
def test_few_heads_fill_their_panel(tab: Any, layers: int, count: int, part: float) -> None:
    run = {f"layers.{n}.attn": dense.patterns(24, B=1, H=count, Hk=1, seed=n) for n in range(layers)}
    with serve(Answers(Scene.of({"run": run}))) as server:
        Opened(tab, server.url)
        found = overlap(tab, "[data-head]", ".heads-scroll")
        assert found["count"] == layers * count and found["inside"] and found["part"] > part, found
        # By keys, too: from row to row, also within a layer.
        tab.locator("[data-head='0.0']").focus()
        tab.keyboard.press("End")
        tab.keyboard.press("Enter")
        assert tab.locator("[data-here]").get_attribute("data-head") == f"{layers - 1}.{count - 1}"
        tab.goto("about:blank")  # before its server ends


@pytest.mark.parametrize("runs", [1, 2])
def test_on_a_phone_nothing_of_the_readout_is_cut(chromium: Any, server: Server, both: Server, runs: int) -> None:
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    context.set_default_timeout(30_000)
    tab = context.new_page()
    page = Opened(tab, f"{(server if runs == 1 else both).url}#head=1.0&key=1")
    page.plot.scroll_into_view_if_needed()
    for x, y in ((0.002, 0.98), (0.4, 0.6), (0.1, 0.3)):  # the first column is of a token of fifty letters
        box = page.plot.bounding_box()
        tab.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * y)
        rest(tab, 60)
        said = tab.locator("[data-z] output").first
        sizes = said.evaluate(
            "(node) => { const { left, right } = node.getBoundingClientRect();"
            " const panel = node.closest('.panel').getBoundingClientRect();"
            " return [node.scrollHeight - node.clientHeight, node.scrollWidth - node.clientWidth,"
            " node.getBoundingClientRect().bottom - panel.bottom, -left, right - innerWidth]; }"
        )
        assert "quer" in said.inner_text() and max(sizes) <= 1, (said.inner_text(), sizes)
    context.close()


def test_a_head_says_how_it_earned_its_letter(server: Server, tab: Any) -> None:
    Opened(tab, f"{server.url}#head=1.1&panel=scores")
    earned = "score 0.200, chance 0.100, lift 0.111 (at least 0.1)"
    assert earned in tab.locator(".map-name").inner_text()
    assert earned in tab.locator(".scores-panel .means").inner_text()
    assert f"induction: {earned}" in tab.locator("[data-head='1.1']").get_attribute("title")
    assert "lift over chance at least 0.1" in tab.locator("[data-kind='induction']").get_attribute("title")


def test_the_image_lies_under_its_patches(tab: Any) -> None:
    """Left half red, right half blue: its colours are what is seen where nothing is attended to."""
    image = torch.zeros(3, 32, 32)
    image[0, :, :16], image[2, :, 16:] = 1, 1
    x = torch.zeros(1, 1, 65, 8)
    scene = Scene.of({"run": {"layer": hw.Pattern(x, x)}}, tokens=Grid(8, 8, before=1, image=image))
    with serve(Answers(scene)) as server:
        Opened(tab, f"{server.url}#theme=light&query=none")
        tab.wait_for_selector(".patches[data-image] canvas")
        rest(tab, 200)
        drawn = Image.open(io.BytesIO(tab.locator(".patches canvas").screenshot())).convert("RGB")
        width, height = drawn.size
        left, right = (drawn.getpixel((int(width * part), int(height * 0.7))) for part in (0.19, 0.81))
        assert left[0] > 200 > left[2] + 60 and right[2] > 200 > right[0] + 60, (left, right)
        tab.goto("about:blank")  # before its server ends


def test_a_saved_page_of_two_runs_opens_on_their_difference(tab: Any, tmp_path: Path) -> None:
    one, two = dense.patterns(60, B=1, mask=hw.Causal()), dense.patterns(60, B=1, seed=4, mask=hw.Causal())
    page = hw.view({"plain": one, "cut": two}).save(tmp_path / "a.html")
    shown_page = Opened(tab, page.as_uri())
    said = shown_page.point(0.3, 0.8)
    query, key = (int(said.split(f"{word} ", 1)[1].split()[0]) for word in ("query", "key"))
    wanted = float((two.to_dense() - one.to_dense())[0, 0, query, key])
    assert number(said) == pytest.approx(wanted, rel=6e-2) and "cut − plain" in said
    tab.wait_for_selector(".text-panel[data-ready]")
    assert "This saved file" not in tab.locator(".text-panel").inner_text()
