"""Sides that take turns in one process, and what their times say about each other."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Pace", "Ratio", "interleaved", "ratio"]

Step = Callable[[], Any]


@dataclass(frozen=True)
class Pace:
    """How long a case may take.

    Attributes:
        seconds: of all sides together, about; slow calls overrun it by ``fewest``.
        block: seconds of one side's turn, filled with calls where one call is shorter.
        fewest, most: rounds.
        settle: pause before a turn, so that the threads of another library's pool have gone to sleep.
    """

    seconds: float
    block: float = 0.03
    fewest: int = 3
    most: int = 25
    settle: float = 0.005


@dataclass(frozen=True)
class Ratio:
    """How many times as long the peer takes: the ratio of medians, and the least and largest of single rounds."""

    ratio: float
    low: float
    high: float


def _expected(step: Step) -> float:
    """Seconds of a call: the second one, unless the first took so long that starting up cannot matter."""
    for _ in range(2):
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        if seconds > 1.0:
            break
    return seconds


def interleaved(sides: Mapping[str, Step], pace: Pace) -> dict[str, list[float]]:
    """Seconds a call, for each side and round; in every round each side has one turn, and the order rotates.

    A turn is a pause, one call that is not counted (where a call is short, so that a turn begins with the caches and
    threads of its own side), and as many calls as fill ``pace.block``.
    """
    expected = {name: _expected(step) for name, step in sides.items()}
    calls = {name: max(1, round(pace.block / max(seconds, 1e-7))) for name, seconds in expected.items()}
    a_round = sum(calls[name] * expected[name] for name in sides)
    rounds = max(pace.fewest, min(pace.most, int(pace.seconds / a_round)))
    names = list(sides)
    found: dict[str, list[float]] = {name: [] for name in names}
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                found[name].append(_turn(sides[name], calls[name], pace, warm=expected[name] < pace.block))
    finally:
        gc.enable()
    return found


def _turn(step: Step, calls: int, pace: Pace, *, warm: bool) -> float:
    time.sleep(pace.settle)
    if warm:
        step()
    start = time.perf_counter()
    for _ in range(calls):
        step()
    return (time.perf_counter() - start) / calls


def ratio(peer: Sequence[float], ours: Sequence[float]) -> Ratio:
    """Times of a peer over ours.

    Example:
        >>> ratio([2.0, 4.0, 3.0], [1.0, 1.0, 2.0])
        Ratio(ratio=3.0, low=1.5, high=4.0)
    """
    single = [a / b for a, b in zip(peer, ours, strict=True)]
    return Ratio(statistics.median(peer) / statistics.median(ours), min(single), max(single))
