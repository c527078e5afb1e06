"""What is installed, what machine this is, and which backends can run on it. Needs no package but torch."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headwise.errors import HeadwiseError

__all__ = ["facts", "said"]

# What bears on results or on whether a command runs at all.
_PACKAGES = (
    "headwise",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "gguf",
    "accelerate",
    "numpy",
    "typer",
    "rich",
    "starlette",
    "uvicorn",
    "anywidget",
    "pillow",
    "matplotlib",
    "pandas",
    "pyarrow",
    "conllu",
)

_NO_KERNELS = (
    "absent: headwise was installed where it could not be compiled, and runs without them, slower. With a C++ compiler "
    "and Python's headers (Debian: apt-get install g++ python3-dev; macOS: xcode-select --install) run, in a checkout "
    "of headwise: pip install --force-reinstall --no-deps --no-cache-dir . (if it is installed editable: make native)"
)


def said(as_json: bool) -> str:
    """What ``headwise info`` prints: one JSON object, or tables in plain text, as wide as the terminal."""
    found = facts()
    if as_json:
        return json.dumps(found, indent=2)
    tables = [
        _table(title, [(name, ", ".join(value) if isinstance(value, list) else str(value)) for name, value in rows])
        for title, rows in ((title, found[title].items()) for title in ("versions", "machine", "native kernels"))
    ]
    rows = [
        (name, "yes" if backend["runs"] else "no", backend["reason"]) for name, backend in found["backends"].items()
    ]
    tables.append(_table("backends", [("name", "runs", "on a plain call"), *rows]))
    last = f"A plain call runs on {found['chosen']}. headwise.explain(q, k, v, ...) says this for any call."
    return "\n\n".join([*tables, last])


def _table(title: str, rows: Sequence[tuple[str, ...]]) -> str:
    """Columns two spaces apart, the last one wrapped."""
    widths = [max(map(len, column)) for column in list(zip(*rows, strict=True))[:-1]]
    room = max(20, shutil.get_terminal_size().columns - sum(widths) - 2 * len(widths))
    lines = [title]
    for *firsts, last in rows:
        before = "".join(f"{cell:<{width}}  " for cell, width in zip(firsts, widths, strict=True))
        wrapped = textwrap.wrap(last, room, break_long_words=False, break_on_hyphens=False) or [""]
        lines += [before + wrapped[0], *(" " * len(before) + more for more in wrapped[1:])]
    return "\n".join(lines)


def facts() -> dict[str, Any]:
    """Everything that ``headwise info`` says, as plain values.

    Example:
        >>> from headwise.cli._machine import facts
        >>> sorted(facts())
        ['backends', 'chosen', 'machine', 'native kernels', 'versions']
    """
    import torch

    import headwise as hw

    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    accelerator = torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
    machine = {
        "processor": _processor(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "vector instructions": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "memory": _memory(),
        "accelerator": accelerator,
    }
    q = torch.zeros(1, 2, 16, 32, dtype=torch.float32, device="cpu")
    explained = hw.explain(q, q, q, mask=hw.Causal())
    backends = {
        name: {"runs": _runs(name, explained, q), "reason": reason} for name, reason in explained.reasons.items()
    }
    return {
        "versions": versions,
        "machine": machine,
        "native kernels": _native(),
        "backends": backends,
        "chosen": explained.chosen,
    }


def _native() -> dict[str, Any]:
    """Which instruction set's kernels run, of which that were built; or why none can, and what to do."""
    if importlib.util.find_spec("headwise._native") is None:
        return {"in use": "none", "why": _NO_KERNELS}
    native = importlib.import_module("headwise._native")
    built = native.isas()
    found = {
        "in use": native.isa() or "none",
        "built": [name for name, _ in built],
        "on this processor": [name for name, has in built if has],
        "threads": "torch's" if native.thread_runtime() == "libgomp" else "of headwise's own",
    }
    if not native.isa():
        found["why"] = f"HEADWISE_ISA={os.environ.get('HEADWISE_ISA')} is not among those on this processor"
    return found


def _runs(name: str, explained: Any, q: Any) -> bool:
    """Whether a backend runs when it is asked for by name; asked of the backend, not read out of its sentence."""
    import headwise as hw

    if name == explained.chosen:
        return True
    try:
        hw.attention(q, q, q, mask=hw.Causal(), backend=name)
    except HeadwiseError:
        return False
    return True


def _processor() -> str:
    """The processor's own name, where the system tells it."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return "unknown"
    kilobytes = int(meminfo.read_text().split("MemTotal:")[1].split()[0])
    return f"{kilobytes / 2**20:.1f} GiB"
