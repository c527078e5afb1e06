"""What does 1/sqrt(d_k) save a model from? Gradients at the start, and whole trainings, with and without it.

python -m experiments.scale.run            four minutes of one core; writes result.json and figure.svg here
python -m experiments.scale.run --quick    half a minute, few steps, into a temporary folder
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from experiments.machine import machine
from experiments.scale.figure import draw
from experiments.scale.starting import KEYS, MEASURES, QUERIES, VALUES, start
from experiments.scale.training import ARMS, Recipe, train

HERE = Path(__file__).parent
LEARNT = 0.1  #: nats a letter, below which a model has learnt to reverse.


def main() -> None:
    """Draws, trains and writes."""
    asked = _arguments()
    torch.set_num_threads(asked.threads)
    began, cpu = time.perf_counter(), time.process_time()
    recipe = replace(Recipe(), steps=20, every=10, warmup=10) if asked.quick else Recipe()
    widths, seeds = ([16, 256], 1) if asked.quick else ([16, 64, 256], 5)
    draws = 2 if asked.quick else 10
    out = Path(tempfile.mkdtemp()) if asked.quick else asked.out
    starts = start([4, 8, 16, 32, 64, 128, 256, 512], draws)
    runs = []
    for seed in range(seeds):
        for d_k in widths:
            for arm in ARMS:
                looks = train(recipe, d_k, arm, seed)
                runs.append({"d_k": d_k, "arm": arm, "seed": seed, "looks": looks})
                spent = time.perf_counter() - began
                print(f"seed {seed} d_k {d_k:4} {arm:24} loss {looks[-1]['loss']:.3f}  {spent:.0f} s", flush=True)
    result = {
        "start": {"queries": QUERIES, "keys": KEYS, "value_width": VALUES, "draws": draws, "measures": MEASURES},
        "recipe": asdict(recipe),
        "learnt_below": LEARNT,
        "summary": summary(runs),
        "machine": machine(time.perf_counter() - began),
        "cpu_seconds": round(time.process_time() - cpu),
        "starts": starts,
        "runs": runs,
    }
    (out / "result.json").write_text(_compact(result))
    draw(result, out / "figure.svg")
    print(f"wrote {out / 'result.json'} and {out / 'figure.svg'}")


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each width and arm: losses at the end, and the first step looked at where a run has learnt (None = never)."""
    rows = []
    for d_k in sorted({run["d_k"] for run in runs}):
        for arm in ARMS:
            same = [run["looks"] for run in runs if (run["d_k"], run["arm"]) == (d_k, arm)]
            learnt = [next((look["step"] for look in looks if look["loss"] < LEARNT), None) for looks in same]
            rows.append(
                {
                    "d_k": d_k,
                    "arm": arm,
                    "loss": [looks[-1]["loss"] for looks in same],
                    "learnt_at": learnt,
                    "entropy_at_start": [looks[0]["entropy"] for looks in same],
                    "entropy_at_end": [looks[-1]["entropy"] for looks in same],
                }
            )
    return rows


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for result.json and figure.svg (here)")
    parser.add_argument("--quick", action="store_true", help="20 steps, into a temporary folder")
    return parser.parse_args()


def _compact(result: dict[str, Any]) -> str:
    """JSON with one line a row and a run."""
    many = ("summary", "starts", "runs")
    lines = [json.dumps(row) for name in many for row in result[name]]
    text = json.dumps({**result, **{name: ["@"] * len(result[name]) for name in many}}, indent=1)
    for line in lines:
        text = text.replace('"@"', line, 1)
    return text + "\n"


if __name__ == "__main__":
    main()
