"""What tests do with an open page: wait until it is drawn, point at a cell, read what it says."""

from __future__ import annotations

import re
from typing import Any


class Opened:
    """A page of the viewer.

    Args:
        tab: playwright's page.
        url: what to open; its fragment is the state.
    """

    def __init__(self, tab: Any, url: str) -> None:
        self.tab = tab
        tab.goto("about:blank")
        tab.goto(url)
        self.drawn()

    def drawn(self) -> None:
        """Waits until every map shows exact numbers."""
        self.tab.wait_for_selector("[data-z][data-ready='1']")
        self.tab.wait_for_function(
            "() => [...document.querySelector('#headwise').shadowRoot.querySelectorAll('[data-z]')]"
            ".every((map) => map.dataset.ready === '1')"
        )

    @property
    def plot(self) -> Any:
        """The plot of the first map."""
        return self.tab.locator("[data-z]").first.locator(".map-plot")

    def point(self, x: float = 0.5, y: float = 0.5) -> str:
        """Points at a place of the plot, parts of its width and height; what the map says of it."""
        box = self.plot.bounding_box()
        self.tab.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * y)
        rest(self.tab, 60)
        return self.says()

    def says(self) -> str:
        """The map's readout."""
        return " ".join(self.tab.locator("[data-z]").first.locator("output").inner_text().split())

    @property
    def hash(self) -> dict[str, str]:
        """The state that the address holds."""
        rest(self.tab, 300)  # it is written when the reader rests
        words = self.tab.evaluate("location.hash").removeprefix("#").split("&")
        return dict(word.split("=", 1) for word in words if word)


def rest(tab: Any, ms: int) -> None:
    """Waits by the page's own clock, and until it has drawn: what came before is then done, however slow it is."""
    draws = "requestAnimationFrame(() => requestAnimationFrame(done))"
    tab.evaluate(f"() => new Promise((done) => setTimeout(() => {draws}, {ms}))")


def number(said: str) -> float:
    """The number that a readout begins with."""
    found = re.match(r"[+−-]?\d[\d.]*(e[−-]?\d+)?", said)
    assert found, said
    return float(found[0].replace("−", "-"))


def shown(p: float) -> float:
    """A probability to the digits that the page shows at least: two."""
    return float(f"{p:.2g}")
