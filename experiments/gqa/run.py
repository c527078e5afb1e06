"""Mean, first or random key/value heads, before and after a short training? Converts a small model and SmolLM2.

python -m experiments.gqa.run                     about fifteen minutes of one core; writes result.json, figure.svg
python -m experiments.gqa.run --only two-layer    that model anew; the other's part of result.json stays
python -m experiments.gqa.run --quick             a minute, into a temporary folder: does everything run?
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from experiments.gqa.conversion import Plan, ordering, rows
from experiments.gqa.figure import draw
from experiments.gqa.page import table
from experiments.induction.contexts import contexts
from experiments.induction.training import Recipe
from experiments.machine import machine
from experiments.pruning.windows import stretches
from experiments.texts import CACHE, Corpus, corpus

HERE = Path(__file__).parent
PARTS = ("two-layer", "smollm2")
SHARES = (0.01, 0.05)  #: of the steps of pre-training; the paper's is 0.05.
SMOLLM2 = Plan(groups=(1,), steps=(16,), seeds=2, rate=1e-4)
WINDOW, ROWS = 256, 2  #: tokens and windows of SmolLM2's batches.
HELD_OUT = {"two-layer": 64, "smollm2": 8}  #: windows.


def main() -> None:
    """Converts, trains, measures, draws and writes."""
    asked = _arguments()
    torch.set_num_threads(asked.threads)
    out = Path(tempfile.mkdtemp()) if asked.quick and asked.out == HERE else asked.out
    out.mkdir(parents=True, exist_ok=True)
    file = out / "result.json"
    texts = corpus(asked.data, seed=0)
    result: dict[str, Any] = {}
    for part in PARTS if asked.only is None else (asked.only,):
        began = time.perf_counter()
        told = _two_layer(asked, texts) if part == "two-layer" else _smollm2(texts, asked.quick)
        result = json.loads(file.read_text()) if file.is_file() else {}
        result |= {part: {**told, "machine": machine(time.perf_counter() - began)}, "text": texts.described()}
        file.write_text(_compact(result))
    for part in (part for part in PARTS if part in result):
        print("\n".join([part, *table(result[part])]))
    draw(result, out / "figure.svg")
    print(f"wrote {file} and {out / 'figure.svg'}")


def _two_layer(asked: argparse.Namespace, texts: Corpus) -> dict[str, Any]:
    """Every divisor of its heads, trained on for shares of its pre-training with batches of the same size."""
    model, tokenizer = hw.load(asked.model)
    recipe = pretraining()
    heads = model.config.num_key_value_heads
    steps = tuple(round(share * recipe["steps"]) for share in SHARES)
    plan = Plan(tuple(n for n in range(heads - 1, 0, -1) if heads % n == 0), steps, seeds=3, rate=1e-3)
    if asked.quick:
        plan = dataclasses.replace(plan, groups=plan.groups[-1:], steps=(2,), seeds=1)
    cut = contexts(texts, tokenizer, recipe["context"], asked.data, 0)
    generator = torch.Generator().manual_seed(0)
    batches = [cut.draw(recipe["batch"], generator) for _ in range(max(plan.steps))]
    held_out = cut.held_out[: 8 if asked.quick else HELD_OUT["two-layer"]]
    told = _told(model, plan, batches, held_out)
    return {"pretraining": recipe, "shares_of_pretraining": SHARES, **told}


def pretraining() -> dict[str, int]:
    """Steps, batch and context of the two-layer model's training, as its experiment wrote them down."""
    file = HERE.parent / "induction" / "result.json"
    recipe = json.loads(file.read_text())["recipe"] if file.is_file() else dataclasses.asdict(Recipe())
    return {name: recipe[name] for name in ("steps", "batch", "context")}


def _smollm2(texts: Corpus, quick: bool) -> dict[str, Any]:
    model, tokenizer = hw.load("smollm2")
    plan = dataclasses.replace(SMOLLM2, steps=(2,), seeds=1) if quick else SMOLLM2
    length = 32 if quick else WINDOW
    windows = stretches(tokenizer, texts.train, ROWS * max(plan.steps), length)
    held_out = stretches(tokenizer, texts.held_out, HELD_OUT["smollm2"], length)
    return _told(model, plan, windows.split(ROWS), held_out)


def _told(model: Any, plan: Plan, batches: Any, held_out: Tensor) -> dict[str, Any]:
    found = rows(model, plan, batches, held_out, print)
    kept = [{name: value for name, value in row.items() if name != "windows"} for row in found]
    config = model.config
    return {
        "layers": config.num_hidden_layers,
        "heads": config.num_attention_heads,
        "kv_heads": config.num_key_value_heads,
        "plan": dataclasses.asdict(plan),
        "batch_tokens": batches[0].numel(),
        "held_out_tokens": held_out.numel(),
        "ordering": ordering(found),
        "rows": kept,
    }


def _compact(result: dict[str, Any]) -> str:
    """JSON whose lists of training losses take one line each."""
    marks: dict[str, str] = {}

    def marked(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: marked(inner) for key, inner in value.items()}
        if isinstance(value, list) and value and all(isinstance(inner, float) for inner in value):
            marks[f'"@{len(marks)}@"'] = json.dumps(value)
            return f"@{len(marks) - 1}@"
        return [marked(inner) for inner in value] if isinstance(value, (list, tuple)) else value

    text = json.dumps(marked(result), indent=1)
    for mark, line in marks.items():
        text = text.replace(mark, line)
    return text + "\n"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=PARTS, help="this model alone")
    parser.add_argument("--model", default="two-layer", help="a folder to read the two-layer model from instead")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: %(default)s)")
    parser.add_argument("--data", type=Path, default=CACHE, help="folder for packages of text (%(default)s)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for result.json and figure.svg (here)")
    parser.add_argument("--quick", action="store_true", help="little of everything, into a temporary folder")
    return parser.parse_args()


if __name__ == "__main__":
    main()
