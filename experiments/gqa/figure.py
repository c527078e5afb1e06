"""The figure: held-out loss of each way of conversion before and after training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["draw"]

COLORS = {"mean": "#1f5fa8", "first": "#c8641e", "random": "#2a7f4f"}


def draw(result: dict[str, Any], path: Path) -> None:
    """Draws a result.

    Args:
        result: what `run` writes as result.json; a part that is not there gets no panel.
        path: where the SVG goes.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "headwise"  # or names in the file would differ from run to run
    mpl.rcParams["font.size"] = 8
    from matplotlib import pyplot as plt

    panels = [(part, groups) for part in ("two-layer", "smollm2") if part in result for groups in _groups(result[part])]
    drawn, grid = plt.subplots(1, len(panels), figsize=(2.2 * len(panels) + 1, 3), layout="constrained", squeeze=False)
    for (part, groups), panel in zip(panels, grid[0], strict=True):
        told = result[part]
        _panel(panel, told, groups)
        panel.set_title(f"{part}: {told['kv_heads']} to {groups}", loc="left")
        panel.set_xlabel("steps after conversion")
        panel.spines[["top", "right"]].set_visible(False)
    left: Any = grid[0][0]
    left.set_ylabel("held-out loss, nats a token")
    left.legend(frameon=False)
    drawn.savefig(path, metadata={"Date": None})
    plt.close(drawn)


def _groups(told: dict[str, Any]) -> list[int]:
    return list(dict.fromkeys(row["groups"] for row in told["ordering"]))


def _panel(panel: Any, told: dict[str, Any], groups: int) -> None:
    lines = [row for row in told["ordering"] if row["groups"] == groups]
    steps = [row["steps"] for row in lines]
    for how, color in COLORS.items():
        panel.plot(steps, [row[how] for row in lines], ".-", color=color, label=how)
    spread = [row["random_sd"] or 0.0 for row in lines]
    panel.errorbar(steps, [row["random"] for row in lines], yerr=spread, color=COLORS["random"], fmt="none", capsize=2)
    as_it_was = [row["loss"] for row in told["rows"] if row["groups"] == 0]
    panel.plot(steps, as_it_was, ".--", color="black", lw=0.8, label="not converted")
    panel.set_xticks(steps)
