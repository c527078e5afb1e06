"""The figure: what is lost against the share of heads that are gone."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["draw"]

BLUE, ORANGE, GREEN, PURPLE, FAINT = "#1f5fa8", "#c8641e", "#2a7f4f", "#7a4fa0", "#b0b0b0"


def draw(result: dict[str, Any], path: Path) -> None:
    """Draws the curves of a result.

    Args:
        result: what `run` writes as result.json; a part that is not there leaves its panel empty.
        path: where the SVG goes.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "headwise"  # or names in the file would differ from run to run
    mpl.rcParams["font.size"] = 8
    from matplotlib import pyplot as plt

    drawn, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for panel, name, shown in ((left, "smollm2", math.exp), (right, "minilm", lambda loss: 1 - loss)):
        if name in result:
            _panel(panel, result[name], result.get("gates", {}).get(name, {"rows": []})["rows"], shown)
    left.set_yscale("log")
    left.set_title("SmolLM2-135M, 270 heads", loc="left")
    left.set_ylabel("perplexity of held-out text")
    right.set_title("MiniLM-L6, 72 heads", loc="left")
    right.set_ylabel("mean cosine to the whole model's hidden states")
    for panel in (left, right):
        panel.set_xlabel("heads removed, %")
        panel.spines[["top", "right"]].set_visible(False)
        for mark in (20, 40):
            panel.axvline(mark, color=FAINT, lw=0.6, ls=":")
    drawn.savefig(path, metadata={"Date": None})
    plt.close(drawn)


def _panel(panel: Any, told: dict[str, Any], gates: list[dict[str, float]], shown: Callable[[float], float]) -> None:
    for number, row in enumerate(told["random"]):
        _curve(panel, row, shown, color=FAINT, lw=0.8, label="random order" if number == 0 else None)
    _curve(panel, told["once"], shown, color=BLUE, marker=".", label="least important first, weighed once")
    if "anew" in told:
        _curve(panel, told["anew"], shown, color=ORANGE, marker=".", label="weighed anew after each step")
    if "plain" in told:
        _curve(panel, told["plain"], shown, color=PURPLE, marker=".", label="weighed once, layers not normalised")
    values = [shown(row["loss"]) for row in gates]
    panel.plot([100 * row["share"] for row in gates], values, "D", color=GREEN, ms=4, label="gates, trained")
    panel.legend(frameon=False)


def _curve(panel: Any, rows: list[dict[str, float]], shown: Callable[[float], float], **style: Any) -> None:
    panel.plot([100 * row["share"] for row in rows], [shown(row["loss"]) for row in rows], **style)
