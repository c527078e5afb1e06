"""What the viewer costs at any length: previews, wholes, tiles, the page, memory, frames a second in Chromium.

    python -m benchmarks.viewed [--tokens 32768] [--layers 30]

On a machine that does nothing else. The trace is synthetic: random q and k of the shape of SmolLM2's heads. Heads whose
whole is asked for are settled before, as those of a forward pass are.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import statistics
import time
from collections.abc import Callable
from typing import Any

import psutil
import torch

import headwise as hw
from headwise.viewer import Answers, Scene, tiles
from headwise.viewer.server import serve

HEADS, GROUPS, WIDTH = 9, 3, 64
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]

#: Pans by 3 pixels a frame for two seconds and says how long each frame was.
PAN = """async () => {
  const map = document.querySelector('#headwise').shadowRoot.querySelector('.map-plot');
  const box = map.getBoundingClientRect();
  const y = box.y + box.height / 2;
  const mouse = (target, type, x) => target.dispatchEvent(new MouseEvent(
    type, {clientX: x, clientY: y, bubbles: true, composed: true, view: window, buttons: 1}));
  const times = [];
  let x = box.x + box.width / 2;
  mouse(map, 'mousedown', x);
  let last = performance.now();
  for (let n = 0; n < 120; n++) {
    x += n < 60 ? -3 : 3;
    mouse(window, 'mousemove', x);
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  mouse(window, 'mouseup', x);
  return times;
}"""


def milliseconds(do: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    do()
    return 1e3 * (time.perf_counter() - begun)


def told(name: str, times: list[float]) -> tuple[str, str]:
    return name, f"{statistics.median(times):.0f} ms ({min(times):.0f} to {max(times):.0f}, {len(times)} times)"


def synthetic(tokens: int, layers: int) -> dict[str, hw.Pattern]:
    made = torch.Generator().manual_seed(0)

    def pattern() -> hw.Pattern:
        q = torch.randn(1, HEADS, tokens, WIDTH, generator=made) * 1.5
        return hw.Pattern(q, torch.randn(1, GROUPS, tokens, WIDTH, generator=made) * 1.5, mask=hw.Causal())

    return {f"layers.{n}.attn": pattern() for n in range(layers)}


def of_answers(answers: Answers, tokens: int, layers: int) -> list[tuple[str, str]]:
    """Each question by itself, without a page."""
    chosen = random.Random(0)
    places = [(chosen.randrange(layers), chosen.randrange(HEADS)) for _ in range(10)]

    def ask(name: str, layer: int, head: int, **more: Any) -> float:
        shown = {"run": 0, "layer": layer, "head": head, "b": 0, "pool": "mean", "hide": 0, "norm": 0, **more}
        return milliseconds(lambda: answers.answer(name, shown).frame())

    top = tiles.coarsest(tokens, tokens)
    found = [told("sampled preview of a head", [ask("preview", *place) for place in places])]
    for layer, head in places:
        answers.scene.pattern(0, layer).settle(heads=slice(head, head + 1))
    wholes = [ask("tile", *place, z=top, r=0, c=0) for place in dict.fromkeys(places)]
    found.append(told("exact whole of a head", wholes))
    deeper = []
    for layer, head in places:
        for z in range(tiles.base_level(tokens, tokens)):
            r = chosen.randrange(max(1, -(-(tokens >> z) // tiles.TILE)))
            deeper.append(ask("tile", layer, head, z=z, r=r, c=chosen.randrange(r + 1)))
    found.append(told("a tile below the base, any level", deeper))
    lines = {"run": 0, "heads": f"{places[0][0]}.{places[0][1]}", "b": 0}

    def line(name: str, at: dict[str, int]) -> float:
        return milliseconds(lambda: answers.answer(name, {**lines, **at}).frame())

    rows = [line("row", {"i": tokens - 1 - n}) for n in range(10)]
    return [*found, told("a query's row", rows), told("a key's column", [line("column", {"j": n}) for n in range(10)])]


def of_overview(answers: Answers) -> tuple[str, str]:
    """Until every head has a sampled map."""
    answers.answer("overview", {"run": 0, "b": 0, "since": 0})
    (overview,) = answers._overviews.values()

    def grow() -> None:
        while not all(overview.state):
            answers.work()

    return "sampled maps of all heads", f"{milliseconds(grow) / 1e3:.1f} s"


def of_page(answers: Answers, tokens: int) -> list[tuple[str, str]]:
    """In Chromium: the first picture, what is sent for it, and frames a second while panning over loaded tiles."""
    from playwright.sync_api import sync_playwright

    binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with serve(answers) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=FLAGS)
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        sent: list[int] = []
        page.on(
            "response", lambda response: sent.append(len(response.body())) if "/ask/tile" not in response.url else 0
        )
        begun = time.perf_counter()
        page.goto(server.url)
        page.wait_for_selector("[data-drawn='1']")
        first = time.perf_counter() - begun
        page.wait_for_selector("[data-z][data-ready='1']", timeout=120_000)
        exact = time.perf_counter() - begun
        found = [
            ("first picture", f"{first:.2f} s"),
            ("exact", f"{exact:.2f} s"),
            ("sent before tiles", f"{sum(sent) / 1e6:.2f} MB"),
        ]
        for name, span in (("the whole", tokens), ("deep", 600)):
            page.goto("about:blank")
            page.goto(f"{server.url}#at={tokens // 3},{tokens // 2},{span * 0.8}")
            page.wait_for_selector("[data-z][data-ready='1']", timeout=120_000)
            times = page.evaluate(PAN)[5:]
            slow = sum(one > 20 for one in times)
            found.append(
                (
                    f"frames while panning, {name}",
                    f"{1e3 / statistics.median(times):.0f} a second, {slow} of {len(times)} above 20 ms",
                )
            )
        browser.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=32_768)
    parser.add_argument("--layers", type=int, default=30)
    given = parser.parse_args()
    patterns = synthetic(given.tokens, given.layers)
    before = psutil.Process().memory_info().rss
    begun = time.perf_counter()
    answers = Answers(Scene.of({"run": patterns}, tokens=[f" word{n}" for n in range(given.tokens)]))
    size = len(answers.answer("scene", {}).frame())
    found = [("scene", f"{time.perf_counter() - begun:.2f} s, {size / 1e6:.2f} MB"), of_overview(answers)]
    found += of_answers(answers, given.tokens, given.layers)
    found += of_page(answers, given.tokens)
    after = psutil.Process().memory_info().rss
    found.append(("resident beside the trace, in the end", f"{(after - before) / 2**20:.0f} MiB"))
    for name, text in found:
        print(f"{name:<40} {text}")
    print(
        json.dumps({"tokens": given.tokens, "heads": given.layers * HEADS, "torch": torch.__version__, **dict(found)})
    )


if __name__ == "__main__":
    main()
