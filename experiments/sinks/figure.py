"""The figure: perplexity against position, one panel a text."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

__all__ = ["draw"]

DENSE, WINDOW, KEPT, OTHER = "#444444", "#c8641e", "#1f5fa8", "#3b8f5a"


def draw(result: dict[str, Any], path: Path) -> None:
    """Draws the runs of a result.

    Args:
        result: what `run` writes as result.json.
        path: where the SVG goes.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "headwise"  # or names in the file would differ from run to run
    mpl.rcParams["font.size"] = 8
    from matplotlib import pyplot as plt

    names = [text["name"] for text in result["texts"]]
    drawn, panels = plt.subplots(len(names), 1, figsize=(10, 2.8 * len(names)), layout="constrained", squeeze=False)
    column: list[Any] = list(panels[:, 0])
    for panel, name in zip(column, names, strict=True):
        runs = [run for run in result["runs"] if run["text"] == name]
        widest = max((run["recent"] or 0) + run["sinks"] for run in runs)
        for run in runs:
            _curve(panel, run, result["block_tokens"], small=0 < (run["recent"] or 0) + run["sinks"] < widest)
        read = result["block_tokens"] * len(runs[0]["blocks"])
        if read > result["trained_positions"]:
            panel.axvline(result["trained_positions"], color="black", lw=0.6, ls=":")
        panel.set(yscale="log", xlim=(0, read))
        panel.set_title(name, loc="left")
        panel.set_ylabel("perplexity")
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    column[-1].set_xlabel(f"position, tokens (means of {result['block_tokens']}; dotted: the trained length)")
    drawn.savefig(path, metadata={"Date": None})
    plt.close(drawn)


def _curve(panel: Any, run: dict[str, Any], block: int, small: bool) -> None:
    color = DENSE if run["recent"] is None else KEPT if run["sinks"] == 4 else OTHER if run["sinks"] else WINDOW
    style = ":" if run["positions"] == "text" else "--" if small else "-"
    places = [block * (at + 0.5) for at in range(len(run["blocks"]))]
    panel.plot(places, [math.exp(x) for x in run["blocks"]], color=color, ls=style, lw=1.1, label=run["name"])
