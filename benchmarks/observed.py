"""What it costs to watch every head of SmolLM2, beside transformers' own paths.

    python -m benchmarks.observed [--tokens 2048] [--rounds 5] [--json OUT]

Times are medians over rounds in which the paths take turns in one process; memory is the peak of a process of its own
for each path, less what the loaded model takes. Paths: transformers' sdpa (plain), headwise unwatched, watched with
the five observers named below, and transformers' eager attention with output_attentions (only up to --eager-limit
tokens: it forms every pattern).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from pydoc_data.topics import topics

import torch
import transformers

import headwise as hw

PATHS = ("plain", "unwatched", "watched", "eager")


def questions() -> list[object]:
    """The observers of the comparison."""
    return [hw.Entropy(), hw.Received(), hw.Offsets(64), hw.TopKeys(8), hw.Map(64, 64)]


def load(tokens: int) -> tuple[object, torch.Tensor]:
    """The model and a real text of so many tokens."""
    model, tokenizer = hw.load("smollm2")
    ids = tokenizer("\n".join(topics[name] for name in sorted(topics)), return_tensors="pt").input_ids[:, :tokens]
    return model, ids


def run(path: str, model: object, ids: torch.Tensor) -> None:
    """One forward along one path, prepared and undone outside the clock by ``prepared``."""
    with torch.no_grad():
        if path == "watched":
            with hw.observe(model, *questions()):
                model(ids, use_cache=False)
        else:
            model(ids, use_cache=False, output_attentions=path == "eager")


@contextlib.contextmanager
def prepared(path: str, model: object):
    """The model as a path needs it."""
    if path in ("unwatched", "watched"):
        hw.use(model)
        yield
        hw.restore(model)
    else:
        before = model.config._attn_implementation
        model.set_attn_implementation("eager" if path == "eager" else "sdpa")
        yield
        model.set_attn_implementation(before)


def peak_mib(path: str, tokens: int) -> float:
    """Peak memory of a fresh process that runs one path, less its size after loading, MiB."""
    command = [sys.executable, __file__, "--child", path, "--tokens", str(tokens)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1])


def child(path: str, tokens: int) -> None:
    """Runs one path and prints how far memory rose above the loaded model."""
    model, ids = load(tokens)
    run("plain", model, ids[:, :16])
    with prepared(path, model):
        before = size_kib()
        reset_peak()
        run(path, model, ids)
        print((peak_kib() - before) / 1024)


def size_kib() -> int:
    return int(next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in line).split()[1])


def peak_kib() -> int:
    return int(next(line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line).split()[1])


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def main() -> None:
    """Runs the comparison and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--eager-limit", type=int, default=2048)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child")
    options = parser.parse_args()
    if options.child:
        child(options.child, options.tokens)
        return
    model, ids = load(options.tokens)
    paths = [path for path in PATHS if path != "eager" or options.tokens <= options.eager_limit]
    seconds: dict[str, list[float]] = {path: [] for path in paths}
    for _ in range(options.rounds + 1):
        for path in paths:
            with prepared(path, model):
                start = time.perf_counter()
                run(path, model, ids)
                seconds[path].append(time.perf_counter() - start)
    rows = []
    for path in paths:
        taken = seconds[path][1:]
        ratios = [a / b for a, b in zip(taken, seconds["plain"][1:], strict=True)]
        rows.append(
            {
                "path": path,
                "seconds": statistics.median(taken),
                "ratio": statistics.median(taken) / statistics.median(seconds["plain"][1:]),
                "spread": [min(ratios), max(ratios)],
                "peak_mib": peak_mib(path, options.tokens),
            }
        )
    report = {
        "tokens": options.tokens,
        "rounds": options.rounds,
        "threads": torch.get_num_threads(),
        "cpu": _cpu(),
        "versions": {"headwise": hw.__version__, "torch": torch.__version__, "transformers": transformers.__version__},
        "rows": rows,
    }
    print(f"SmolLM2-135M, {options.tokens} tokens, float32, {report['threads']} threads, {report['cpu']}")
    for row in rows:
        low, high = row["spread"]
        print(
            f"{row['path']:10s} {row['seconds']:7.2f} s  {row['ratio']:5.2f} x plain ({low:.2f} to {high:.2f})"
            f"  peak {row['peak_mib']:7.0f} MiB over the model"
        )
    if options.json:
        options.json.write_text(json.dumps(report, indent=1))


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = [line.split(":")[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
