"""``headwise info``: what is installed, what machine this is, and which backends can run on it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.errors import HeadwiseError

__all__ = ["info"]

# What bears on results or on whether a command runs at all.
_PACKAGES = (
    "headwise",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "gguf",
    "accelerate",
    "rich",
    "typer",
    "numpy",
)

_NO_KERNELS = (
    "absent: headwise was installed where it could not be compiled, and runs without them, slower. With a C++ compiler "
    "and Python's headers (Debian: apt-get install g++ python3-dev; macOS: xcode-select --install) run, in a checkout "
    "of headwise: pip install --force-reinstall --no-deps --no-cache-dir . (if it is installed editable: make native)"
)


def info(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    """Versions, this machine, and why each backend can or cannot run.

    \b
    Example:
        headwise info
        headwise info --json > machine.json
    """
    found = facts()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console()
    for title in ("versions", "machine", "native kernels"):
        table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2, 0, 0))
        for name, value in found[title].items():
            table.add_row(name, ", ".join(value) if isinstance(value, list) else str(value))
        console.print(table)
        console.print()
    table = Table(title="backends", title_justify="left", box=None, padding=(0, 2, 0, 0))
    for heading in ("name", "runs", "on a plain call"):
        table.add_column(heading, overflow="fold")
    for name, backend in found["backends"].items():
        table.add_row(name, "yes" if backend["runs"] else "no", backend["reason"])
    console.print(table)
    console.print(f"\nA plain call runs on {found['chosen']}. headwise.explain(q, k, v, ...) says this for any call.")


def facts() -> dict[str, Any]:
    """Everything that ``headwise info`` says, as plain values.

    Example:
        >>> from headwise.cli.info import facts
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
    q = torch.zeros(1, 2, 16, 32)
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
