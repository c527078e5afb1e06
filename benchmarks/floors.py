"""What is promised, each line a number that a record either holds or does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.results import OURS, Record, Row, best_fma, rows, seconds, share

__all__ = ["FLOORS", "Floor", "Verdict", "evaluate"]

Measure = Callable[[Row, dict[str, float]], float | None]


@dataclass(frozen=True)
class Floor:
    """One promise.

    Attributes:
        work: what is done.
        unit: of the bound, as "x torch".
        bound: the number.
        measure: reads it off a row; None where the row does not hold it.
        where: axes of the rows that must all hold it.
        most: the number is the most there may be, not the least.
        isa: forced.
    """

    work: str
    unit: str
    bound: float
    measure: Measure
    where: dict[str, Any] = field(default_factory=dict)
    most: bool = False
    isa: str | None = None


@dataclass(frozen=True)
class Verdict:
    """A promise beside what was measured: the worst of its rows, or None where no row is there."""

    floor: Floor
    measured: float | None
    row: str

    @property
    def met(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured <= self.floor.bound if self.floor.most else self.measured >= self.floor.bound


def over(peer: str) -> Measure:
    """A peer's time over ours."""
    return lambda row, best: row["ratios"][peer]["ratio"] if peer in row["ratios"] else None


def against(side: str) -> Measure:
    """Our time over another side's: what something costs beside it."""
    return lambda row, best: 1 / row["ratios"][side]["ratio"] if side in row["ratios"] else None


def fastest_peer(row: Row, best: dict[str, float]) -> float | None:
    """The time of the fastest peer of a row over ours."""
    return min((said["ratio"] for said in row["ratios"].values()), default=None)


def beside_causal(row: Row, best: dict[str, float]) -> float | None:
    """Our rate on visible cells over that on the cells of a dense causal call, T = S = 8192, H = 8, D = 64."""
    if "causal" not in row["sides"]:
        return None
    dense = 2 * 8 * 128 * 8192 * 8193 / 2 / 1e9
    return row["gflop"] / seconds(row, OURS) / (dense / seconds(row, "causal"))


def overhead(row: Row, best: dict[str, float]) -> float | None:
    """Microseconds a call above torch's own op."""
    return 1e6 * (seconds(row, OURS) - seconds(row, "torch")) if "torch" in row["sides"] else None


def observed_cost(row: Row, best: dict[str, float]) -> float | None:
    """The observed model's time over the plain one's."""
    return seconds(row, "observed") / seconds(row, OURS) if "observed" in row["sides"] else None


def growth(row: Row, best: dict[str, float]) -> float | None:
    """Memory at four times the length over memory; 4 where it is O(T), 16 where it is O(T^2)."""
    mib = row.get("mib")
    return None if mib is None else mib["8192"] / mib["2048"]


def _forward() -> list[Floor]:
    long, short = {2048, 8192}, {512}
    promised = {
        ("f32", "full"): {
            "torch": (2.2, 2.0),
            "onnxruntime": (1.05, 1.0),
            "openvino": (1.05, 1.0),
            "zentorch": (1.15, 1.05),
        },
        ("f32", "causal"): {
            "torch": (2.4, 2.5),
            "onnxruntime": (2.2, 1.6),
            "openvino": (2.2, 1.6),
            "zentorch": (1.25, 1.5),
        },
        ("bf16", "full"): {"torch": (3.8, 3.5), "openvino": (1.1, 1.1), "zentorch": (1.15, 1.05)},
        ("bf16", "causal"): {"torch": (4.0, 4.0), "openvino": (2.2, 1.5), "zentorch": (1.25, 1.4)},
        ("f16", "full"): {"torch": (2.5, 2.5)},
        ("f16", "causal"): {"torch": (2.5, 2.5)},
    }
    found = []
    for (dtype, work), peers in promised.items():
        for peer, bounds in peers.items():
            for T, name, bound in zip((long, short), ("T >= 2048", "T = 512"), bounds, strict=True):
                where = {"dtype": dtype, "work": work, "T": T, "D": 64, "B": 1}
                found.append(Floor(f"{dtype} {work}, {name}", f"x {peer}", bound, over(peer), where))
    return found


def _options() -> list[Floor]:
    def one(name: str, bound: float, peer: str, **where: Any) -> Floor:
        return Floor(name, f"x {peer}", bound, over(peer), where)

    f32 = {"dtype": "f32"}
    bert = {"work": "full", "B": 32, "H": 12}
    back = {"work": "causal, forward + backward", "T": 2048}
    return [
        one("window 256, T = 8192", 45, "torch", work="window 256", T=8192, **f32),
        one("window 256, T = 8192", 2, "flex", work="window 256", T=8192, **f32),
        one("ALiBi, causal", 4, "torch", work="alibi", **f32),
        one("ALiBi, causal", 2, "flex", work="alibi", **f32),
        one("relative table, causal", 4, "torch", work="table", **f32),
        one("relative table, causal", 2, "flex", work="table", **f32),
        one("50 % padding, batch 32, T = 512", 4, "torch", work="padding 50 %", **f32),
        one("BERT shape, T = 128, f32", 1.8, "torch", dtype="f32", T=128, **bert),
        one("BERT shape, T = 128, bf16", 3, "torch", dtype="bf16", T=128, **bert),
        one("BERT shape, T = 16, f32", 1, "torch", dtype="f32", T=16, **bert),
        one("BERT shape, T = 16, bf16", 1, "torch", dtype="bf16", T=16, **bert),
        one("forward + backward, causal, f32", 2, "torch", dtype="f32", **back),
        one("forward + backward, causal, bf16", 2, "torch", dtype="bf16", **back),
    ]


#: Of the dense causal rate on visible cells; what is not here has cells too scattered to be held to it.
DENSE_ENOUGH = (
    "band of 256",
    "band of 1,024",
    "band of 512, both ways",
    "chunks of 512",
    "packed by 256",
    "packed by 1,024",
    "prefix LM",
    "streaming",
    "half padding",
)


def _rest() -> list[Floor]:
    found = [
        Floor(work, "of the dense causal rate", 0.7, beside_causal, {"work": work, "T": 8192}) for work in DENSE_ENOUGH
    ]
    for dtype in ("f32", "bf16"):
        for S in (8192, 65536):
            where = {"work": "decode 32/8", "dtype": dtype, "S": S}
            name = f"decode 32/8, S = {S}, {dtype}"
            found.append(Floor(name, "of the reads probed", 0.6, share, where))
            found.append(Floor(name, "x the fastest peer", 1.0, fastest_peer, where))
    for group, bound in (
        ("LogSumExp + MaxLogit + Entropy", 1.08),
        ("Received + Offsets + Map", 1.85),
        ("all observers", 2.4),
    ):
        works = {f"full, {group}", f"causal, {group}"}
        found.append(Floor(group, "x our plain forward", bound, against("plain"), {"work": works}, most=True))
    found.append(
        Floor(
            "all observers, memory at T = 8192 over T = 2048",
            "(4 is O(T), 16 is O(T^2))",
            5,
            growth,
            {"work": "memory, all observers"},
            most=True,
        )
    )
    for dtype, bound in (("f32", 1.8), ("bf16", 4.0)):
        where = {"work": "SmolLM2 decode", "dtype": dtype}
        found.append(Floor(f"SmolLM2, decode at 8192, {dtype}", "x sdpa", bound, over("sdpa"), where))
    prefill = {"work": "SmolLM2 prefill", "T": 8192}
    found.append(Floor("SmolLM2, prefill of 8192, f32", "x sdpa", 1.5, over("sdpa"), prefill))
    found.append(Floor("SmolLM2, prefill of 8192, all observers", "x plain", 1.6, observed_cost, prefill, most=True))
    for work, bound in (("full", 1.0), ("causal", 1.5)):
        where = {"work": work, "dtype": "f32"}
        found.append(Floor(f"forced avx2, f32 {work}", "x torch", bound, over("torch"), where, isa="avx2"))
    for work in ("no mask", "Causal", "Window"):
        where = {"work": f"overhead, {work}"}
        found.append(Floor(f"a call on tiny inputs, {work}", "us above torch's op", 15, overhead, where, most=True))
    return found


FLOORS: list[Floor] = [*_forward(), *_options(), *_rest()]


def evaluate(record: Record) -> list[Verdict]:
    """Each promise beside the worst row that it is about."""
    best = best_fma(record["rows"])
    found = []
    for floor in FLOORS:
        where = {"H": None, **floor.where}
        measured = [
            (value, row["name"])
            for row in rows(record, isa=floor.isa, **where)
            if (value := floor.measure(row, best)) is not None
        ]
        worst = (max if floor.most else min)(measured, default=(None, ""))
        found.append(Verdict(floor, *worst))
    return found
