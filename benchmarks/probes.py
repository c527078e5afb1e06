"""What the machine can do at best: multiply-adds and bytes read a second, on all threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

__all__ = ["Probe", "arithmetic", "cpu", "isa", "read"]

try:
    from headwise import _native
except ImportError:
    _native = None


@dataclass(frozen=True)
class Probe:
    """A rate, GFLOP/s or GB/s, and what measured it."""

    rate: float
    how: str


def arithmetic(dtype: torch.dtype = torch.float32, seconds: float = 0.1) -> Probe | None:
    """GFLOP/s of multiply-adds that touch no memory; without the native module of a large matrix product of torch's.

    None for bfloat16 where the CPU has no instruction for it.
    """
    threads = torch.get_num_threads()
    if dtype == torch.bfloat16 and "bf16" not in " ".join(cpu()["flags"]):
        return None
    if _native is not None:
        rate = _native.probe_multiply_adds(dtype == torch.bfloat16, threads, seconds)
        return Probe(rate, "multiply-adds in registers") if rate else None
    a = torch.ones(1024, 1024, dtype=dtype)
    product = _best(lambda: torch.mm(a, a), seconds)
    return Probe(2 * 1024**3 / product / 1e9, "a 1024 x 1024 matrix product of torch")


def read(size: int, repeats: int = 7) -> Probe:
    """GB/s of reading a buffer of so many bytes, the best of some reads; without the native module torch's sum."""
    if _native is not None:
        return Probe(_native.probe_read(size, torch.get_num_threads(), repeats), "reads alone")
    buffer = torch.ones(size // 4)
    return Probe(size / _best(buffer.sum, repeats * size / 2e10) / 1e9, "torch.sum")


def _best(step: Callable[[], object], seconds: float) -> float:
    """Seconds of the fastest of the calls that fit."""
    step()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
    return best


def cpu() -> dict[str, list[str]]:
    """The CPU as Linux describes it: its name, the numbers of its make, and what it can do. Elsewhere, little."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().split("\n\n")[0].splitlines() if info.exists() else []
    said = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    make = [f"{key} {said[key]}" for key in ("cpu family", "model", "stepping") if key in said]
    return {
        "name": [said.get("model name", "")],
        "make": make,
        "flags": (said.get("flags") or said.get("Features") or "").split(),
    }


def isa() -> str:
    """The instruction set that our native kernels run with; "none" where they are not built."""
    return "none" if _native is None else str(getattr(_native, "isa", lambda: "unknown")())
