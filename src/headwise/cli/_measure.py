"""How long a piece of work takes and how high memory goes meanwhile."""

from __future__ import annotations

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
        seconds: wall time.
        peak: the most memory that the process had resident while it ran, weights included, bytes; None where the system
            does not tell.
    """

    seconds: float
    peak: int | None

    def __str__(self) -> str:
        time_ = f"{self.seconds:.2f} s" if self.seconds < 100 else f"{self.seconds:.0f} s"
        return time_ + (f", peak {self.peak / 2**30:.2f} GiB" if self.peak is not None else "")


def measured(work: Callable[[], Result]) -> tuple[Result, Cost]:
    """Runs something once.

    The peak is Linux's own high-water mark of resident memory (VmHWM), set back before the run, so nothing that happens
    between two samples is missed. Memory that an earlier run left with the allocator counts as resident; run the
    lighter of two things first.

    Args:
        work: what to run.

    Returns:
        Its result, and what it cost.
    """
    told = _reset()
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    return result, Cost(seconds, _peak() if told else None)


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
