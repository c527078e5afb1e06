"""Runs benches in this process and its environment; one line of JSON a bench to a file descriptor.

``python -m benchmarks.worker FD`` reads what to do from standard input, as ``__main__`` writes it.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from benchmarks import gate, models, prepare, probes
from benchmarks.cases import BENCHES, Bench
from benchmarks.peers import Peer, known
from benchmarks.timing import Pace, interleaved, ratio

__all__ = ["machine", "run"]

OURS = prepare.OURS
PACKAGES = ("headwise", "torch", "transformers", "numpy", "onnxruntime", "openvino", "zentorch")


def machine() -> dict[str, Any]:
    """CPU, ISA, threads and versions of this process."""
    cpu = probes.cpu()
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "cpu": cpu["name"][0] or platform.processor(),
        "make": ", ".join(cpu["make"]),
        "wide": sorted(flag for flag in cpu["flags"] if flag.startswith(("avx", "fma", "f16c", "amx", "asimd", "sve"))),
        "system": platform.platform(),
        "python": platform.python_version(),
        "threads": torch.get_num_threads(),
        "torch_isa": torch.backends.cpu.get_cpu_capability(),
        "isa": probes.isa(),
        "versions": found,
    }


def run(bench: Bench, peers: Sequence[Peer], seconds: float) -> dict[str, Any]:
    """Prepares, checks and times one bench.

    Args:
        bench: what to time.
        peers: those of its peers that live in this environment.
        seconds: of timing, about.
    """
    make = getattr(models, bench.kind, None) or getattr(prepare, bench.kind)
    torch.manual_seed(0)
    with torch.no_grad():
        ready: prepare.Prepared = make(bench, peers)
        before = probes.arithmetic()
        times = interleaved(ready.sides, Pace(seconds)) if ready.sides else {}
        after = probes.arithmetic()
    assert before is not None
    assert after is not None
    row: dict[str, Any] = {
        "name": bench.name,
        "kind": bench.kind,
        "axes": bench.axes,
        "isa": bench.isa,
        "ran": {"backend": ready.backend, "isa": probes.isa()},
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "sides": {name: [float(f"{t:.4g}") for t in taken] for name, taken in times.items()},
        "ratios": {name: asdict(ratio(taken, times[OURS])) for name, taken in times.items() if name != OURS},
        "refused": ready.refused,
        "gate": ready.gate,
        "gflop": ready.gflop,
        "bytes": ready.size,
        "fma": {"rate": min(before.rate, after.rate), "how": before.how},
        **ready.extra,
    }
    if bench.axes["dtype"] == "bf16":
        peak = probes.arithmetic(torch.bfloat16)
        row["fma_bf16"] = None if peak is None else asdict(peak)
    if ready.size and bench.kind in ("decode", "stored", "latent"):
        row["read"] = asdict(probes.read(ready.size))
    return row


def main() -> None:
    """Reads what to do from standard input."""
    given = json.load(sys.stdin)
    with os.fdopen(int(sys.argv[1]), "w") as out:

        def say(**message: Any) -> None:
            print(json.dumps(message), file=out, flush=True)

        say(machine=machine())
        if given["conformance"]:
            say(conformance=gate.conformance())
        here = {name: peer for name, peer in known().items() if peer.environment == given["environment"]}
        for name in given["benches"]:
            bench = BENCHES[name]
            say(begun=name)
            start = time.perf_counter()
            peers = [here[peer] for peer in bench.peers if peer in here and peer in given["peers"]]
            try:
                row = run(bench, peers, given["seconds"])
            except gate.WrongAnswer as wrong:
                say(wrong=name, why=str(wrong))
                continue
            except Exception as failed:  # noqa: BLE001  (one bench that fails must not end the others)
                say(failed=name, why=f"{type(failed).__name__}: {failed}")
                continue
            say(row=row | {"environment": given["environment"], "took": round(time.perf_counter() - start, 1)})


if __name__ == "__main__":
    main()
