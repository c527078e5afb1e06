"""The figure: a row a model, of what heads score, and of what is lost without the leading ones and without others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["draw"]

TOP, OTHER, SAME = "#1f5fa8", "#a8a8a8", "#c8641e"
LISTS: dict[str, dict[str, Any]] = {
    "prefix_matching": {"color": TOP, "lw": 1.4},
    "retrieval": {"color": "#4c8c4a", "lw": 1, "ls": "--"},
}
TITLES = {
    "repeats": ("Random tokens, later repeats", "rise of loss, nats a token"),
    "text": ("Natural text", "rise of loss, nats a token"),
    "recall": ("Facts told from a text", "share of their words"),
}


def draw(result: dict[str, Any], path: Path) -> None:
    """Draws the models of a result.

    Args:
        result: what `run` writes as result.json.
        path: where the SVG goes.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "headwise"  # or names in the file would differ from run to run
    mpl.rcParams["svg.fonttype"] = "none"  # letters as paths would take half of the file
    mpl.rcParams["font.size"] = 7
    from matplotlib import pyplot as plt

    models = result["models"]
    drawn, grid = plt.subplots(len(models), 4, figsize=(10, 2.7 * len(models)), layout="constrained", squeeze=False)
    for row, (name, told) in zip(grid, models.items(), strict=True):
        _scores(row[0], name, told["scores"])
        _lost(row[1], told["ablation"], "repeats")
        _lost(row[2], told["ablation"], "text")
        row[2].legend(frameon=False)
        if "needle" in told:
            _lost(row[3], told["needle"], "recall")
            row[3].axhline(told["needle"]["whole"], color="black", lw=0.6, ls=":")
        else:
            row[3].set_axis_off()
        for panel in row:
            panel.spines[["top", "right"]].set_visible(False)
    drawn.savefig(path, metadata={"Date": None})
    plt.close(drawn)


def _scores(panel: Any, name: str, scores: dict[str, Any]) -> None:
    matched, copied = ([x for row in scores[score] for x in row] for score in ("prefix_matching", "retrieval"))
    panel.plot(matched, copied, ".", ms=3.5, color=TOP, mew=0)
    panel.axhline(0.1, color="black", lw=0.6, ls=":")
    panel.set_title(f"{name}, each head", loc="left")
    panel.set_xlabel("prefix matching, share of attention")
    panel.set_ylabel("retrieval, share of needle copied")


def _lost(panel: Any, told: dict[str, Any], measure: str) -> None:
    """Random sets as dots, the leading heads of each list as lines."""
    rows = [one for one in told["sets"] if one["how"] == "zero"]
    sizes = sorted({one["size"] for one in rows})
    for which, color, aside in (("others", OTHER, -0.1), ("same layers", SAME, 0.1)):
        dots = [(sizes.index(one["size"]) + aside, one[measure]) for one in rows if one["set"] == which]
        panel.plot(*zip(*dots, strict=True), ".", ms=3.5, color=color, mew=0, label=f"random, {which}")
    for ranking in dict.fromkeys(one["ranking"] for one in rows):
        line = [one[measure] for one in rows if one["set"] == "top" and one["ranking"] == ranking]
        name = f"top by {ranking.replace('_', ' ')}"
        panel.plot(range(len(sizes)), line, marker="o", ms=3, label=name, **LISTS[ranking])
    title, unit = TITLES[measure]
    panel.set_title(title, loc="left")
    panel.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    panel.set_xlabel("heads left out")
    panel.set_ylabel(unit)
    if measure != "recall":
        panel.axhline(0, color="black", lw=0.5)
