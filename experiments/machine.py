"""What a result says about where it was made."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import torch

import headwise as hw

__all__ = ["machine"]


def machine(seconds: float) -> dict[str, object]:
    """Processor, threads, versions, and how long it took.

    Args:
        seconds: of the clock.

    Returns:
        A dict for result.json.
    """
    told = Path("/proc/cpuinfo")
    lines = told.read_text().splitlines() if told.is_file() else []
    processor = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    wide = next((" avx512f" for line in lines if "avx512f" in line), "")
    return {
        "processor": (processor or platform.machine()) + wide,
        "threads": torch.get_num_threads(),
        "seconds": round(seconds),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "headwise": hw.__version__,
    }
