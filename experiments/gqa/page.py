"""The rows of the tables in README.md, from the result."""

from __future__ import annotations

from typing import Any

__all__ = ["table"]


def table(told: dict[str, Any]) -> list[str]:
    """The rows of one model: loss before and after training as it was, and of each way of conversion.

    Args:
        told: one model's part of the result.
    """
    rows = [f"| not converted | {row['steps']} | {row['loss']:.2f} | | |" for row in told["rows"] if not row["groups"]]
    for row in told["ordering"]:
        spread = "" if row["random_sd"] is None else f" ± {row['random_sd']:.2f}"
        ways = f"{row['mean']:.2f} | {row['first']:.2f} | {row['random']:.2f}{spread}"
        rows.append(f"| {told['kv_heads']} to {row['groups']} | {row['steps']} | {ways} |")
    return rows
