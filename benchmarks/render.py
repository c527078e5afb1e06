"""The records of docs/benchmarks as a page: ``python -m benchmarks.render`` writes docs/benchmarks.md."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks import floors, results
from benchmarks.results import Record, Row

__all__ = ["PAGE", "line", "page", "promises", "write"]

PAGE = results.FOLDER.parent / "benchmarks.md"

HEAD = """# Benchmarks

What `make bench` measured, rendered from `docs/benchmarks/*.json` by `python -m benchmarks.render`. Us and a peer take
turns in one process. **ours** is the median of a call; under a peer's name stands how many times as long it takes, the
ratio of medians, with the least and the largest of single rounds in brackets: above 1 we are faster. GFLOP/s count the
visible cells alone, GB/s each byte of q, k, v and the output once. **of peak** is the part of what the machine was
probed to do in the same run: multiply-adds in registers, or reads of a buffer as large. Before it is timed, every
answer is compared with float64, ours within the budget of the conformance suite.
"""

PEERS = ("torch", "torch, packed", "unfused", "flex", "onnxruntime", "onnxruntime, packed", "openvino")
PEERS += ("openvino, packed", "zentorch", "zentorch, packed", "sdpa", "without attention", "plain", "observed")


def _duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size or unit == "us":
            return f"{seconds / size:.3g} {unit}"
    raise AssertionError


def _ratio(row: Row, side: str) -> str:
    said = row["ratios"][side]
    return f"{said['ratio']:.3g} ({said['low']:.3g} to {said['high']:.3g})"


def _rate(row: Row) -> str:
    if "read" in row:
        return f"{row['bytes'] / results.seconds(row) / 1e9:.3g} GB/s"
    return f"{row['gflop'] / results.seconds(row):.3g}" if row["gflop"] else ""


def line(row: Row) -> str:
    """A row in one line, as the terminal shows it while a run goes on."""
    where = "/".join(filter(None, [row["environment"], row["ran"]["backend"], row["ran"]["isa"]]))
    if not row["sides"]:
        return f"{row['name']} [{where}] {row.get('mib')} MiB"
    said = [f"{row['name']} [{where}] {_duration(results.seconds(row))}"]
    rate = _rate(row)
    if rate:
        said.append(rate if "GB/s" in rate else f"{rate} GFLOP/s")
    said += [f"{side} {_ratio(row, side)}" for side in row["ratios"]]
    said += [f"no {peer}: {why[:100]}" for peer, why in row["refused"].items() if "packing" not in why]
    return " | ".join(said)


# --- the page ----------------------------------------------------------------------------------------------------

Picks = Callable[[Row], bool]


def _work(*names: str) -> Picks:
    return lambda row: row["axes"]["work"] in names


SECTIONS: dict[str, Picks] = {
    "Full": lambda row: row["axes"]["work"] == "full" and "H" not in row["axes"] and row["isa"] is None,
    "Causal": lambda row: row["axes"]["work"] == "causal" and row["isa"] is None,
    "Masks and scores": _work("window 256", "alibi", "table", "documents", "padding 50 %"),
    "Structured masks": lambda row: row["kind"] == "structured",
    "The shape of BERT": lambda row: "H" in row["axes"],
    "Forced to AVX2": lambda row: row["isa"] == "avx2",
    "Decode": lambda row: row["kind"] == "decode",
    "Decode from pages, eight bits and latents": lambda row: row["kind"] in ("stored", "latent"),
    "Forward and backward": lambda row: row["kind"] == "backward",
    "Observers": lambda row: row["kind"] == "observed",
    "Tiny inputs": lambda row: row["kind"] == "overhead",
    "Whole models": lambda row: row["kind"] in ("minilm", "smollm2_decode", "smollm2_prefill"),
}


def _table(header: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *body)]


def _grouped(found: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows by bench: one bench has a row in each environment."""
    groups: dict[str, list[Row]] = {}
    for row in found:
        groups.setdefault(row["name"], []).append(row)
    return groups


def _section(found: Sequence[Row], best: dict[str, float]) -> list[str]:
    """A table, a line a bench. Our time is that of its first environment, a ratio that of the peer's own."""
    sides = [side for side in PEERS if any(side in row["ratios"] for row in found)]
    rated = any(_rate(row) for row in found)
    header = ["", "backend", "ours", *(["GFLOP/s", "of peak"] if rated else []), *sides]
    body = []
    for name, group in _grouped(found).items():
        first = group[0]
        cells = [name, first["ran"]["backend"], _duration(results.seconds(first))]
        if rated:
            part = results.share(first, best)
            cells += [_rate(first), "" if part is None else f"{part:.0%}"]
        for side in sides:
            cells.append(next((_ratio(row, side) for row in group if side in row["ratios"]), ""))
        body.append(cells)
    return _table(header, body)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def promises(record: Record, *, only_measured: bool = False) -> list[str]:
    """The table of what is promised: floor, measured, held or not."""
    body = []
    for verdict in floors.evaluate(record):
        floor = verdict.floor
        if only_measured and verdict.measured is None:
            continue
        bound = f"{'at most' if floor.most else 'at least'} {floor.bound:g} {floor.unit}"
        held = {True: "yes", False: "**no**", None: "not measured"}[verdict.met]
        body.append([floor.work, bound, _number(verdict.measured), held])
    return _table(["work", "floor", "measured", "held"], body)


def _not_reported(record: Record) -> list[str]:
    """What a reader would otherwise miss without knowing."""
    said = []
    for row in record["rows"]:
        if row["name"].endswith("all observers") and "mib" in row:
            sizes = ", ".join(f"{mib:.0f} MiB at T = {length}" for length, mib in row["mib"].items())
            said.append(f"- {row['name']}: memory above the operands, {sizes}")
    for kind, what in (
        ("wrong", "the answer was wrong, so there is no time"),
        ("failed", "it did not run"),
        ("discarded", "disturbed by something else on the machine, in every attempt"),
    ):
        for entry in record[kind]:
            why = f" ({entry['why']})" if "why" in entry else ""
            said.append(f"- {entry['name']} [{entry['environment']}]: {what}{why}")
    reasons: dict[str, list[str]] = {}
    for row in record["rows"]:
        for peer, why in row["refused"].items():
            if "packing the group" not in why:
                reasons.setdefault(f"{peer}: {why.splitlines()[0][:200]}", []).append(row["name"])
    said += [f"- {why}: {', '.join(dict.fromkeys(names))}" for why, names in reasons.items()]
    return said


def _of_record(record: Record) -> list[str]:
    machine, best = record["machine"], results.best_fma(record["rows"])
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    lines = [
        f"## {machine['cpu']} ({machine['make']}), {machine['threads']} threads, {machine['isa']}",
        "",
        f"{record['date'][:10]}, headwise {record['commit']}, profile {record['profile']}; {versions}.",
        f"Python {machine['python']}, {machine['system']}; torch runs {machine['torch_isa']}.",
        "",
        *(f"- multiply-adds, {how}: {rate:.0f} GFLOP/s" for how, rate in best.items()),
    ]
    wide = [row["fma_bf16"] for row in record["rows"] if row.get("fma_bf16")]
    if wide:
        lines.append(f"- bfloat16, {wide[0]['how']}: {max(said['rate'] for said in wide):.0f} GFLOP/s")
    for row in record["rows"]:
        if "read" in row and row["environment"] == "here":
            said = row["read"]
            lines.append(f"- {row['bytes'] / 2**20:.0f} MiB, {said['how']}: {said['rate']:.1f} GB/s")
    lines += [f"- conformance before the run: {record['conformance']} calls right", ""]
    lines += ["### What is promised", "", *promises(record, only_measured=record["profile"] == "part"), ""]
    for title, picks in SECTIONS.items():
        found = [row for row in record["rows"] if picks(row)]
        if found:
            lines += [f"### {title}", "", *_section(found, best), ""]
    rest = _not_reported(record)
    return lines + (["### Beside the tables", "", *rest, ""] if rest else [])


def page(records: Sequence[Record]) -> str:
    """The page of some records."""
    return "\n".join([HEAD, *(line for record in records for line in _of_record(record))]).rstrip() + "\n"


def write(folder: Path = results.FOLDER, to: Path = PAGE) -> Path:
    """Renders every record of a folder."""
    to.write_text(page([results.load(path) for path in sorted(folder.glob("*.json"))]))
    return to


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="folder", type=Path, default=results.FOLDER, help="records")
    parser.add_argument("--to", type=Path, default=PAGE)
    given = parser.parse_args()
    print(write(given.folder, given.to))
