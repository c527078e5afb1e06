"""The rows of the tables in README.md, from the result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["tables"]

NAMES = {"smollm2": "SmolLM2", "minilm": "MiniLM"}


def tables(result: dict[str, Any]) -> dict[str, list[str]]:
    """The rows below each heading.

    Args:
        result: whole.
    """
    return {
        "SmolLM2": _language(result["smollm2"]) + _marks(result["smollm2"]),
        "MiniLM": _encoder(result["minilm"]),
        "Gates": [row for name, told in result["gates"].items() if name in NAMES for row in _gates(name, told, result)],
        "Speed": [_speed(row) for row in result["speed"]["rows"]],
    }


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _between(values: Iterable[float], form: str) -> str:
    low, high = min(several := list(values)), max(several)
    return f"{low:{form}} to {high:{form}}"


def at(rows: list[dict[str, float]], share: float) -> float:
    """The loss at a share of the heads, on the straight line between the points beside it."""
    after = next(i for i, row in enumerate(rows) if row["share"] >= share)
    high = rows[after]
    if high["share"] == share:
        return high["loss"]
    low = rows[after - 1]
    return low["loss"] + (share - low["share"]) / (high["share"] - low["share"]) * (high["loss"] - low["loss"])


def _language(told: dict[str, Any]) -> list[str]:
    found = []
    for share in (0.2, 0.4, 0.6, 0.8):
        cells = [f"{math.exp(at(told[name], share)):,.1f}" for name in ("once", "anew", "plain")]
        random = _between((math.exp(at(row, share)) for row in told["random"]), ",.0f")
        found.append(_row(f"{share:.0%}", *cells, random))
    return found


def _marks(told: dict[str, Any]) -> list[str]:
    found = []
    for share in ("0.2", "0.4"):
        marks = [told["marks"][name][share] for name in ("once", "anew", "plain")]
        found.append(_row(f"{float(share):.0%}", *(f"{mark['nats']:.2f} ± {mark['error']:.2f}" for mark in marks)))
    return found


def _encoder(told: dict[str, Any]) -> list[str]:
    found = []
    for share, pairs in told["pairs"].items():
        removed = math.floor(float(share) * told["heads"] + 1e-6)
        losses = [
            next(row["loss"] for row in rows if row["removed"] == removed) for rows in (told["once"], *told["random"])
        ]
        random = _between((1 - loss for loss in losses[1:]), ".3f")
        apart = _between(pairs["random"], ".3f")
        found.append(
            _row(f"{float(share):.0%} ({removed})", f"{1 - losses[0]:.3f}", random, f"{pairs['once']:.3f}", apart)
        )
    return found


def _gates(name: str, told: dict[str, Any], result: dict[str, Any]) -> Iterable[str]:
    shown: Callable[[float], str] = {
        "smollm2": lambda loss: f"perplexity {math.exp(loss):.1f}",
        "minilm": lambda loss: f"cosine {1 - loss:.3f}",
    }[name]
    for row in told["rows"]:
        once = at(result[name]["once"], row["share"])
        yield _row(
            NAMES[name], f"{row['penalty']}", f"{row['removed']} ({row['share']:.0%})", shown(row["loss"]), shown(once)
        )


def _speed(row: dict[str, Any]) -> str:
    cells = [
        f"{part['ratio']:.2f} ({part['range'][0]:.2f} to {part['range'][1]:.2f})"
        for part in (row["attention"], row["model_time"])
    ]
    share = row["attention"]["whole"] / row["model_time"]["whole"]
    return _row(NAMES[row["model"]], f"{row['batch']} x {row['tokens']}", *cells, f"{share:.0%}")
