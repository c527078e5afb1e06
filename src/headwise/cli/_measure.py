"""How long a piece of work takes and how high memory goes meanwhile."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

__all__ = ["Cost", "measured"]

Result = TypeVar("Result")
_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


@dataclass(frozen=True)
class Cost:
    """What one run cost.

    Attributes:
        seconds: wall time; of several runs the median.
        peak: the most memory that the process had resident while it ran, weights included, bytes; None where the system
            does not tell.
        runs: how many there were.
    """

    seconds: float
    peak: int | None
    runs: int = 1

    def __str__(self) -> str:
        time_ = f"{self.seconds:.2f} s" if self.seconds < 100 else f"{self.seconds:.0f} s"
        time_ += " (one run)" if self.runs == 1 else f" (median of {self.runs} runs)"
        return time_ + (f", peak {self.peak / 2**30:.2f} GiB" if self.peak is not None else "")


def measured(work: Callable[[], Result], again: int = 0) -> tuple[Result, Cost]:
    """Runs something.

    The peak is Linux's own high-water mark of resident memory (VmHWM), set back before the run, so nothing that happens
    between two samples is missed. Memory that an earlier run left with the allocator counts as resident; run the
    lighter of two things first.

    Args:
        work: what to run.
        again: how often to run it again where a run takes less than a second; the time is then the median.

    Returns:
        Its result, and what it cost.
    """
    told = _reset()
    times: list[float] = []
    while not times or (len(times) <= again and max(times) < 1):
        start = time.perf_counter()
        result = work()
        times.append(time.perf_counter() - start)
    return result, Cost(statistics.median(times), _peak() if told else None, len(times))


def _reset() -> bool:
    try:
        _RESET.write_text("5")
    except OSError:
        return False
    return _STATUS.exists()


def _peak() -> int | None:
    for line in _STATUS.read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
