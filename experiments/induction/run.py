"""Do induction heads and in-context learning form together? Trains models of one and two layers and watches.

Half of the tokens of a step are in contexts that repeat a span of text; a third training, of two layers, has none.

    python -m experiments.induction.run            three trainings, one core; writes result.json and figure.svg here
    python -m experiments.induction.run --ship     also writes the two-layer model into the package
    python -m experiments.induction.run --quick    a minute, into a temporary folder: does everything run?

A training that was done before, with the same recipe and text, is read from the data folder instead.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from experiments.induction.contexts import Contexts, byte_pairs, contexts
from experiments.induction.figure import draw
from experiments.induction.final import final
from experiments.induction.measures import Ruler
from experiments.induction.shipping import WEIGHTS, ship
from experiments.induction.training import Recipe, attention_only, train
from experiments.texts import CACHE, corpus

HERE = Path(__file__).parent
LOOKED_AT = 128  #: held-out contexts of each measurement during training.


def main() -> None:
    """Trains, measures, draws and writes."""
    asked = _arguments()
    torch.set_num_threads(asked.threads)
    recipe = dataclasses.replace(Recipe(), **({"steps": asked.steps} if asked.steps else {}))
    if asked.quick:
        recipe = dataclasses.replace(recipe, steps=60, warmup=20)
    texts = corpus(asked.data, seed=0)
    tokenizer = byte_pairs(texts.train, recipe.vocabulary)
    cut = contexts(texts, tokenizer, recipe.context, asked.data, 0)
    if asked.quick:
        cut = dataclasses.replace(cut, held_out=cut.held_out[:64])
    kept = Path(tempfile.mkdtemp()) if asked.quick else asked.data / "induction"
    out = kept if asked.quick else asked.out
    trainings = _Trainings(cut, Ruler.of(cut, 16 if asked.quick else LOOKED_AT, 0), kept, texts.digest, print)
    runs = [
        trainings.run(dataclasses.replace(recipe, seed=seed, repeats=repeats), layers)
        for seed in range(asked.seeds)
        for layers, repeats in ((2, recipe.repeats), (1, recipe.repeats), (2, 0.0))
    ]
    result = {
        "recipe": dataclasses.asdict(recipe),
        "text": {**texts.described(), **cut.facts},
        "machine": {"processor": _processor(), "threads": asked.threads, "torch": torch.__version__},
        "runs": runs,
    }
    (out / "result.json").write_text(_compact(result))
    draw(result, out / "figure.svg")
    print(f"wrote {out / 'result.json'} and {out / 'figure.svg'}")
    if asked.ship or asked.quick:
        folder = kept / "two-layer" if asked.quick else WEIGHTS
        ship(trainings.model(recipe, 2), tokenizer, folder)
        print(f"wrote {folder}")


class _Trainings:
    """Runs trainings, or reads those that were run before."""

    def __init__(self, contexts: Contexts, ruler: Ruler, folder: Path, digest: str, say: Callable[[str], None]) -> None:
        self.contexts, self.ruler, self.folder, self.digest, self.say = contexts, ruler, folder, digest, say

    def _file(self, recipe: Recipe, layers: int) -> Path:
        key = hashlib.sha256(repr((recipe, layers, self.digest)).encode()).hexdigest()[:12]
        return self.folder / f"{layers}-layers-seed-{recipe.seed}-{key}.pt"

    def run(self, recipe: Recipe, layers: int) -> dict[str, Any]:
        """One training and what its model shows at the end."""
        file = self._file(recipe, layers)
        if not file.is_file():
            began = time.perf_counter()
            model, rows = train(recipe, layers, self.contexts, self.ruler, self.say)
            file.parent.mkdir(parents=True, exist_ok=True)
            spent = round(time.perf_counter() - began)
            torch.save({"weights": model.state_dict(), "rows": rows, "seconds": spent}, file)
        told = torch.load(file, weights_only=True)
        shown = final(self.model(recipe, layers), self.contexts, self.ruler)
        self.say(json.dumps({key: shown[key] for key in ("loss", "icl", "icl_error", "repeated_loss")}))
        return {
            "layers": layers,
            "seed": recipe.seed,
            "repeats": recipe.repeats,
            "seconds": told["seconds"],
            "change": change(told["rows"]),
            "final": shown,
            "training": told["rows"],
        }

    def model(self, recipe: Recipe, layers: int) -> Any:
        """A trained model."""
        model = attention_only(recipe, layers)
        model.load_state_dict(torch.load(self._file(recipe, layers), weights_only=True)["weights"])
        return model.eval()


def change(rows: list[dict[str, Any]], least: float = 0.1) -> dict[str, Any] | None:
    """When heads began to match prefixes: from a tenth to nine tenths of the way to the most that any head reaches.

    Args:
        rows: the measurements of a training.
        least: a training whose heads never score so much has no such change.

    Returns:
        tokens and in-context score at both ends, None without a change.
    """
    scores = [max(max(line) for line in row["prefix_matching"]) for row in rows]
    low, high = scores[0], max(scores)
    if high - low < least:
        return None
    ends = [next(i for i, x in enumerate(scores) if x >= low + share * (high - low)) for share in (0.1, 0.9)]
    return {
        "tokens": [rows[i]["tokens"] for i in ends],
        "icl": [rows[i]["icl"] for i in ends],
        "prefix_matching": [round(scores[i], 4) for i in ends],
        "highest": round(high, 4),
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, help=f"steps of each training (default: {Recipe.steps})")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each size (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: %(default)s)")
    parser.add_argument("--data", type=Path, default=CACHE, help="folder for packages and trainings (%(default)s)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for result.json and figure.svg (here)")
    parser.add_argument("--ship", action="store_true", help="write the two-layer model of seed 0 into the package")
    parser.add_argument("--quick", action="store_true", help="60 steps, into a temporary folder")
    return parser.parse_args()


def _processor() -> str:
    """The processor's name, and how wide its vectors are where Linux tells."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.is_file() else ""
    name = next((line.split(":")[1].strip() for line in text.splitlines() if line.startswith("model name")), "")
    return " ".join([name or platform.machine(), *(x for x in ("avx512f", "avx512_bf16", "amx_bf16") if x in text)])


def _compact(result: dict[str, Any]) -> str:
    """JSON with one line a measurement."""
    lines = [json.dumps(row) for run in result["runs"] for row in run["training"]]
    marked = {**result, "runs": [{**run, "training": ["@"] * len(run["training"])} for run in result["runs"]]}
    text = json.dumps(marked, indent=1)
    for line in lines:
        text = text.replace('"@"', line, 1)
    return text + "\n"


if __name__ == "__main__":
    main()
