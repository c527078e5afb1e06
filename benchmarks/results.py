"""The record of a run: a file of JSON, and what to read from it.

    {"machine": {...}, "profile": "full", "commit": "...", "date": "...", "conformance": 310, "rows": [...],
     "discarded": [...], "wrong": [...], "failed": [...]}

A row is one bench in one environment: ``sides`` (seconds a call, one number a round), ``ratios`` (each side's median
over ours, with the least and largest of single rounds), ``refused``, ``gate`` (our error and its budget), ``gflop`` and
``bytes`` of the work, and the probes that were taken beside it.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = [
    "FOLDER",
    "Record",
    "best_fma",
    "disturbed",
    "file_of",
    "key",
    "load",
    "merged",
    "ratios",
    "rows",
    "save",
    "seconds",
    "share",
]

Record = dict[str, Any]
Row = dict[str, Any]

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
OURS = "headwise"
#: A run whose probe of multiply-adds is below this part of the best one was disturbed by something else.
UNDISTURBED = 0.95


def load(path: Path) -> Record:
    """Reads a record."""
    return json.loads(path.read_text())


def save(record: Record, path: Path) -> None:
    """Writes a record, one row a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lists = {name: value for name, value in record.items() if isinstance(value, list)}
    parts = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in record.items() if name not in lists]
    for name, items in lists.items():
        inside = ",\n".join("  " + json.dumps(item) for item in items)
        parts.append(f"{json.dumps(name)}: [\n{inside}\n ]" if items else f"{json.dumps(name)}: []")
    path.write_text("{\n " + ",\n ".join(parts) + "\n}\n")


def file_of(machine: dict[str, Any]) -> Path:
    """Where the record of a machine belongs: a file for each CPU, instruction set and number of threads."""
    make = machine["make"].partition(", stepping")[0]
    said = f"{machine['cpu']} {make} {machine['isa']} {machine['threads']} threads"
    return FOLDER / (re.sub(r"[^a-z0-9]+", "-", said.lower()).strip("-") + ".json")


def key(row: Row) -> tuple[str, str]:
    """What a row is about: its bench and its environment."""
    return row["name"], row["environment"]


def merged(old: Record, new: Record) -> Record:
    """A record with the rows of another one in place of its own; both must come from the same machine."""
    for name in ("cpu", "make", "threads"):
        if old["machine"][name] != new["machine"][name]:
            raise ValueError(f"{name} was {old['machine'][name]!r} and is {new['machine'][name]!r}")
    found = dict(new)
    for name in ("rows", "discarded", "wrong", "failed"):
        again = {key(row) for part in ("rows", "discarded", "wrong", "failed") for row in new[part]}
        found[name] = [row for row in old[name] if key(row) not in again] + new[name]
    found["machine"] = new["machine"] | {"versions": old["machine"]["versions"] | new["machine"]["versions"]}
    found["profile"] = old["profile"] if old["profile"] == new["profile"] else f"{old['profile']} + {new['profile']}"
    return found


def best_fma(found: Iterable[Row]) -> dict[str, float]:
    """The best probe of multiply-adds of a run, for each way in which it was taken."""
    best: dict[str, float] = {}
    for row in found:
        how = _how(row)
        best[how] = max(best.get(how, 0.0), row["fma"]["rate"])
    return best


def _how(row: Row) -> str:
    return f"{row['ran']['isa']}: {row['fma']['how']}"


def disturbed(row: Row, best: dict[str, float]) -> bool:
    """Whether something else ran on the machine beside this row."""
    return row["fma"]["rate"] < UNDISTURBED * best[_how(row)]


def rows(record: Record, *, isa: str | None = None, **axes: Any) -> list[Row]:
    """The rows with these axes; a set allows several values, None asks for rows that have no such axis.

    Args:
        record: of a run.
        isa: the forced instruction set; None = not forced.
        axes: ``work="causal", T={2048, 8192}``.
    """

    def fits(row: Row) -> bool:
        for name, wanted in axes.items():
            value = row["axes"].get(name)
            if value not in wanted if isinstance(wanted, set | frozenset) else value != wanted:
                return False
        return row["isa"] == isa

    return [row for row in record["rows"] if fits(row)]


def seconds(row: Row, side: str = OURS) -> float:
    """Median seconds of a call of one side."""
    return statistics.median(row["sides"][side])


def ratios(record: Record, peer: str, **axes: Any) -> list[float]:
    """How many times as long as ours a peer takes, in each row that has it."""
    return [row["ratios"][peer]["ratio"] for row in rows(record, **axes) if peer in row["ratios"]]


def share(row: Row, best: dict[str, float]) -> float | None:
    """Our part of what the machine can do: of the reads where keys are what costs, else of the multiply-adds."""
    if OURS not in row["sides"]:
        return None
    if "read" in row:
        return row["bytes"] / seconds(row) / 1e9 / row["read"]["rate"]
    if not row["gflop"]:
        return None
    peak = row["fma_bf16"]["rate"] if row.get("fma_bf16") else best[_how(row)]
    return row["gflop"] / seconds(row) / peak
