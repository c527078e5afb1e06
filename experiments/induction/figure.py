"""The figure: how loss, in-context score, prefix matching and composition go over the tokens of a training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["draw"]

TWO, ONE, PLAIN, FAINT = "#1f5fa8", "#c8641e", "#4c8c4a", "#b8b8b8"


def draw(result: dict[str, Any], path: Path) -> None:
    """Draws the trainings of a result.

    Args:
        result: what `run` writes as result.json.
        path: where the SVG goes.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "headwise"  # or names in the file would differ from run to run
    mpl.rcParams["font.size"] = 8
    from matplotlib import pyplot as plt

    drawn, grid = plt.subplots(2, 2, figsize=(8, 5.6), layout="constrained", sharex=True)
    loss, icl, prefix, composition = grid.flat
    for run in result["runs"]:
        _loss_and_icl(loss, icl, run)
    first = {run["layers"]: run for run in reversed(result["runs"]) if run["repeats"]}
    _heads(prefix, first[1], first[2])
    _composed(composition, first[2])
    loss.legend(frameon=False)
    before = first[2]["final"]["composition"]["previous_token_head"]
    for panel, title, unit in (
        (loss, "Held-out loss", "nats a token"),
        (icl, "In-context score", "loss of token 500 less that of token 50, nats"),
        (prefix, "Prefix matching of each head", "share of attention"),
        (composition, f"K-composition with the previous-token head, 0.{before}", "over chance"),
    ):
        panel.set_title(title, loc="left")
        panel.set_ylabel(unit)
        panel.set_xscale("log")
        panel.spines[["top", "right"]].set_visible(False)
        change = first[2]["change"]
        if change:
            panel.axvspan(*(x / 1e6 for x in change["tokens"]), color="#f2e6b8", lw=0, zorder=0)
    for panel in grid[1]:
        panel.set_xlabel("tokens, millions")
    drawn.savefig(path, metadata={"Date": None})
    plt.close(drawn)


def _millions(run: dict[str, Any]) -> list[float]:
    return [row["tokens"] / 1e6 for row in run["training"][1:]]


def _loss_and_icl(loss: Any, icl: Any, run: dict[str, Any]) -> None:
    kind = f"{run['layers']} layer{'s' * (run['layers'] > 1)}" + ", no repeated spans" * (not run["repeats"])
    style = {
        "color": PLAIN if not run["repeats"] else TWO if run["layers"] == 2 else ONE,
        "lw": 1.4 if run["seed"] == 0 else 0.7,
        "label": kind if run["seed"] == 0 else None,
    }
    for panel, name in ((loss, "loss"), (icl, "icl")):
        panel.plot(_millions(run), [row[name] for row in run["training"][1:]], **style)


def _heads(panel: Any, one: dict[str, Any], two: dict[str, Any]) -> None:
    for run, layer, color in ((two, 0, FAINT), (one, 0, ONE), (two, 1, TWO)):
        for head in range(len(run["training"][0]["prefix_matching"][0])):
            scores = [row["prefix_matching"][layer][head] for row in run["training"][1:]]
            label = f"layer {layer} of {run['layers']}" if head == 0 else None
            panel.plot(_millions(run), scores, color=color, lw=1, label=label)
    panel.legend(frameon=False)


def _composed(panel: Any, two: dict[str, Any]) -> None:
    """The heads that match prefixes in the end in blue, the others in grey."""
    told = two["final"]["composition"]
    before = told["previous_token_head"]
    for head, score in enumerate(two["final"]["prefix_matching"][1]):
        values = [row["k_composition"][head][before] - told["chance"] for row in two["training"][1:]]
        strong = score >= 0.5 * max(two["final"]["prefix_matching"][1])
        panel.plot(_millions(two), values, color=TWO if strong else FAINT, lw=1, zorder=2 + strong)
    panel.axhline(0, color="black", lw=0.5)
