"""The figure: patterns and gradients at the start against d_k, and the losses of the trainings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["draw"]

SCALED, UNSCALED, SMALL = "#1f5fa8", "#c8641e", "#3b8f5a"
PANELS = (
    ("largest", "Largest probability of a row", "probability"),
    ("entropy", "Entropy of a row", "nats"),
    ("score_gradient", "Gradient of the scores", "norm a query"),
    ("query_gradient", "Gradient of the query", "norm a query"),
)


def draw(result: dict[str, Any], path: Path) -> None:
    """Draws starts and trainings of a result.

    Args:
        result: what `run` writes as result.json.
        path: where the SVG goes.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "headwise"  # or names in the file would differ from run to run
    mpl.rcParams["font.size"] = 8
    from matplotlib import pyplot as plt

    widths = sorted({run["d_k"] for run in result["runs"]})
    drawn = plt.figure(figsize=(10, 5), layout="constrained")
    halves: Any = drawn.subfigures(2, 1)
    above, below = halves
    for panel, (name, title, unit) in zip(above.subplots(1, len(PANELS)), PANELS, strict=True):
        _start(panel, result["starts"], name)
        panel.set_title(title, loc="left")
        panel.set(xlabel="d_k", ylabel=unit)
        panel.spines[["top", "right"]].set_visible(False)
        if name == "entropy":
            panel.legend(frameon=False, title="mean; dashed: median", loc="upper right", bbox_to_anchor=(1, 0.92))
    for panel, d_k in zip(below.subplots(1, len(widths), sharey=True), widths, strict=True):
        _losses(panel, [run for run in result["runs"] if run["d_k"] == d_k])
        panel.set_title(f"Reversing strings, d_k = {d_k}", loc="left")
        panel.set(xlabel="step", yscale="log")
        panel.spines[["top", "right"]].set_visible(False)
        if d_k == widths[0]:
            panel.set_ylabel("held-out loss, nats a letter")
            panel.legend(frameon=False)
    drawn.savefig(path, metadata={"Date": None})
    plt.close(drawn)


def _start(panel: Any, rows: list[dict[str, Any]], name: str) -> None:
    for scaled, color in ((True, SCALED), (False, UNSCALED)):
        some = [row for row in rows if row["scaled"] is scaled]
        widths = [row["d_k"] for row in some]
        label = "times 1/sqrt(d_k)" if scaled else "not scaled"
        means, errors = [row[name] for row in some], [row[f"{name}_sd"] for row in some]
        panel.errorbar(widths, means, errors, color=color, lw=1.2, label=label)
        panel.plot(widths, [row[f"{name}_median"] for row in some], color=color, lw=1, ls="--")
    panel.set_xscale("log", base=2)
    if "gradient" in name:
        panel.set_yscale("log")


def _losses(panel: Any, runs: list[dict[str, Any]]) -> None:
    colors = {"scaled": SCALED, "unscaled": UNSCALED, "unscaled, small start": SMALL}
    for run in runs:
        label = run["arm"] if run["seed"] == 0 else None
        losses = [look["loss"] for look in run["looks"]]
        panel.plot([look["step"] for look in run["looks"]], losses, color=colors[run["arm"]], lw=1, label=label)
