"""How many heads can go before a model notices? Curves of SmolLM2 and MiniLM, and the speed of half a model.

python -m experiments.pruning.run                 about ten minutes of one core; writes result.json and figure.svg here
python -m experiments.pruning.run --only speed    measures that part anew and keeps the rest of result.json
python -m experiments.pruning.run --quick         a minute, into a temporary folder: does everything run?
"""

from __future__ import annotations

import argparse
import copy
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from experiments.machine import machine
from experiments.pruning.encoder import encoder
from experiments.pruning.figure import draw
from experiments.pruning.language import language_model
from experiments.pruning.page import tables
from experiments.pruning.speed import compared, groups_left
from experiments.pruning.trained import gates
from experiments.pruning.windows import stretches
from experiments.texts import CACHE, Corpus, corpus

HERE = Path(__file__).parent
PARTS = ("smollm2", "minilm", "gates", "speed")
SEEDS = 3  #: random orders of removal.
PENALTIES = {"smollm2": (0.02,), "minilm": (0.004, 0.01)}  #: of an open gate
STEPS = {"smollm2": 60, "minilm": 80}  #: of each training of gates.
WINDOW = {"smollm2": 256, "minilm": 128}
WEIGHED = {"smollm2": 8, "minilm": 16}  #: windows.
MEASURED = {"smollm2": 8, "minilm": 32}
#: What is timed: model, batch, tokens, rounds.
TIMED = (("minilm", 1, 512, 9), ("minilm", 16, 128, 5), ("smollm2", 1, 512, 5), ("smollm2", 1, 2048, 3))


def main() -> None:
    """Measures, draws and writes."""
    asked = _arguments()
    torch.set_num_threads(asked.threads)
    out = Path(tempfile.mkdtemp()) if asked.quick and asked.out == HERE else asked.out
    out.mkdir(parents=True, exist_ok=True)
    file = out / "result.json"
    texts = corpus(asked.data, seed=0)
    result: dict[str, Any] = {}
    for part in PARTS if asked.only is None else (asked.only,):
        began = time.perf_counter()
        if part == "speed":
            told: Any = {"rows": _speeds(json.loads(file.read_text()), texts, asked.quick)}
        elif part == "gates":
            told = _gates(texts, asked.quick, print)
        else:
            told = _curves(part, texts, asked.quick, print)
        result = json.loads(file.read_text()) if file.is_file() else {}
        result |= {part: {**told, "machine": machine(time.perf_counter() - began)}, "text": texts.described()}
        file.write_text(json.dumps(result, indent=1) + "\n")
    if result.keys() >= set(PARTS):
        print("\n\n".join("\n".join(rows) for rows in tables(result).values()))
    draw(result, out / "figure.svg")
    print(f"wrote {file} and {out / 'figure.svg'}")


def _windows(name: str, tokenizer: Any, texts: Corpus, quick: bool) -> tuple[Tensor, Tensor]:
    share = 4 if quick else 1
    weigh = stretches(tokenizer, texts.train, WEIGHED[name] // share, WINDOW[name] // share)
    return weigh, stretches(tokenizer, texts.held_out, MEASURED[name] // share, WINDOW[name] // share)


def _model(name: str) -> tuple[Any, Any]:
    """SmolLM2 in bfloat16, which a check compares with float32; MiniLM in float32."""
    model, tokenizer = hw.load(name, dtype=torch.bfloat16 if name == "smollm2" else torch.float32)
    return hw.use(model), tokenizer


def _curves(name: str, texts: Corpus, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    model, tokenizer = _model(name)
    weigh, measure = _windows(name, tokenizer, texts, quick)
    seeds = 1 if quick else SEEDS
    told = (language_model if name == "smollm2" else encoder)(model, weigh, measure, seeds, say)
    told = {"dtype": str(model.dtype).removeprefix("torch."), "window": weigh.shape[1], "seeds": seeds, **told}
    if name == "smollm2":
        told["precision"] = _precision(model, hw.use(hw.load(name)[0]), weigh)
        say(f"precision: {told['precision']}")
    return told


def _gates(texts: Corpus, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, prices in PENALTIES.items():
        model, tokenizer = _model(name)
        steps = 3 if quick else STEPS[name]
        rows = gates(model, *_windows(name, tokenizer, texts, quick), prices, steps, say)
        told[name] = {"steps": steps, "rows": rows}
    return told


def _precision(narrow: Any, wide: Any, weigh: Tensor) -> dict[str, float]:
    """Importance and loss in bfloat16 beside float32, on the same windows."""
    with torch.no_grad():
        losses = [float(model(input_ids=weigh[:4], labels=weigh[:4]).loss) for model in (narrow, wide)]
    ranks = [hw.importance(model, weigh[:4], normalise=True).flatten().argsort().argsort() for model in (narrow, wide)]
    return {
        "loss_bfloat16": round(losses[0], 4),
        "loss_float32": round(losses[1], 4),
        "rank_correlation_of_importance": round(float(torch.corrcoef(torch.stack(ranks).double())[0, 1]), 4),
    }


def _speeds(result: dict[str, Any], texts: Corpus, quick: bool) -> list[dict[str, Any]]:
    rows = []
    for name in dict.fromkeys(row[0] for row in TIMED):
        whole, tokenizer = hw.load(name)
        pruned = hw.use(hw.prune(copy.deepcopy(whole), result[name]["half"]))
        hw.use(whole)
        sizes = [sum(weights.numel() for weights in model.parameters()) for model in (whole, pruned)]
        left = groups_left(pruned)
        facts = {
            "parameters": sizes,
            "heads": [sum(heads for heads, _ in groups_left(whole)), sum(heads for heads, _ in left)],
            "kv_heads": [sum(groups for _, groups in groups_left(whole)), sum(groups for _, groups in left)],
        }
        for _, batch, tokens, rounds in (row for row in TIMED if row[0] == name):
            ids = stretches(tokenizer, texts.held_out, batch, 64 if quick else tokens)
            rows.append({"model": name, **facts, **compared(whole, pruned, ids, 1 if quick else rounds)})
            print(json.dumps(rows[-1]))
    return rows


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=PARTS, help="measure this part alone; speed needs the others' result")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: %(default)s)")
    parser.add_argument("--data", type=Path, default=CACHE, help="folder for packages of text (%(default)s)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for result.json and figure.svg (here)")
    parser.add_argument("--quick", action="store_true", help="little of everything, into a temporary folder")
    return parser.parse_args()


if __name__ == "__main__":
    main()
