"""Which heads of a model copy, on random repeats and out of a text, and what is lost without them and without others?

python -m experiments.retrieval.run                    ten minutes of one core; writes result.json and figure.svg here
python -m experiments.retrieval.run --model two-layer  measures that model anew and keeps the rest of result.json
python -m experiments.retrieval.run --quick            a minute, little of everything, into a temporary folder
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import headwise as hw
from experiments.machine import machine
from experiments.pruning.windows import stretches
from experiments.retrieval.ablation import MEASURES, Inputs, alone, losses, rises, summary
from experiments.retrieval.figure import draw as draw_figure
from experiments.retrieval.needle import FACTS, prompts, recalls
from experiments.retrieval.scoring import THRESHOLD, agreement, as_table, ranked, scored
from experiments.texts import CACHE, Corpus, corpus
from headwise.heads.random_tokens import draw

HERE = Path(__file__).parent
#: Heads above the threshold, Wu et al. 2024, by model.
PAPER = {
    "Llama-2-7B-80K": 0.032, "Yi-6B": 0.057, "Qwen1.5-14B": 0.038, "Mistral-7B": 0.042, "Mixtral": 0.062,
}  # fmt: skip
SCORING, MEASURING, REFERENCE = 0, 1, 2  #: seeds of the random tokens that heads are scored on, of the others.


@dataclass(frozen=True)
class Plan:
    """How much is done with a model.

    Attributes:
        dtype: of the weights.
        lengths, depths, needles: of the needle test that heads are scored by.
        sizes: how many heads are left out.
        examples, windows, window: rows of random repeats; windows of text, and their tokens.
        draws: random sets of each size and kind.
        facts, tokens, few: prompts whose answers are measured, their tokens, and random sets there; no facts = none.
    """

    dtype: torch.dtype
    lengths: tuple[int, ...]
    depths: tuple[float, ...]
    needles: int
    sizes: tuple[int, ...]
    examples: int
    windows: int
    window: int
    draws: int
    facts: int
    tokens: int
    few: int


#: Two heads of the small model match prefixes; it answers nothing, so nothing is asked of it after the scores.
PLANS = {
    "smollm2": Plan(torch.bfloat16, (256, 512), (0.1, 0.5, 0.9), 3, (5, 10, 20), 10, 6, 256, 20, 8, 512, 5),
    "two-layer": Plan(torch.float32, (256, 400), (0.1, 0.5, 0.9), 3, (1, 2), 10, 16, 256, 20, 0, 0, 0),
}
QUICK = {
    "smollm2": Plan(torch.bfloat16, (128,), (0.5,), 1, (5, 10), 2, 2, 32, 2, 2, 128, 1),
    "two-layer": Plan(torch.float32, (128,), (0.5,), 1, (1, 2), 2, 2, 32, 2, 0, 0, 0),
}


def main() -> None:
    """Measures, draws and writes."""
    asked = _arguments()
    torch.set_num_threads(asked.threads)
    out = Path(tempfile.mkdtemp()) if asked.quick and asked.out == HERE else asked.out
    out.mkdir(parents=True, exist_ok=True)
    file = out / "result.json"
    texts = corpus(asked.data, seed=0)
    for name in asked.model:
        began, cpu = time.perf_counter(), time.process_time()
        told = measured(name, (QUICK if asked.quick else PLANS)[name], texts)
        told |= {"machine": machine(time.perf_counter() - began), "cpu_seconds": round(time.process_time() - cpu)}
        before = json.loads(file.read_text()) if file.is_file() else {"models": {}}
        models = before["models"] | {name: told}
        result = {
            "threshold": THRESHOLD,
            "paper": PAPER,
            "text": texts.described(),
            "models": {known: models[known] for known in PLANS if known in models},
        }
        file.write_text(compact(result))
    draw_figure(json.loads(file.read_text()), out / "figure.svg")
    print(f"wrote {file} and {out / 'figure.svg'}")


def measured(name: str, plan: Plan, texts: Corpus) -> dict[str, Any]:
    """Everything that is said of one model."""
    model, tokenizer = hw.load(name, dtype=plan.dtype)
    model = hw.use(model)
    scores = scored(model, tokenizer, plan.lengths, plan.depths, plan.needles, SCORING)
    lists = {
        score: ranked(scores[score])
        for score in ("prefix_matching", "retrieval")
        if max(map(max, scores[score])) > 0  # a list of zeros is in no order
    }
    _say(f"{name}: leading {[(score, order[:10]) for score, order in lists.items()]}")
    inputs = _inputs(model, tokenizer, plan, texts)
    ablation = rises(model, inputs, lists, plan.sizes, plan.draws, _say)
    lonely = alone(model, inputs.sample, lists["prefix_matching"])
    told: dict[str, Any] = {
        "dtype": str(plan.dtype).removeprefix("torch."),
        "layers": len(scores["retrieval"]),
        "heads": sum(map(len, scores["retrieval"])),
        "seeds": {"scored": SCORING, "measured": MEASURING, "reference": REFERENCE},
        "inputs": {
            "random_rows": list(inputs.sample.ids.shape),
            "random_tokens": inputs.sample.tokens.shape[1],
            "repeats": inputs.sample.repeats,
            "text": list(inputs.text.shape),
        },
        "scores": scores,
        "leading": {score: order[:20] for score, order in lists.items()},
        "above_threshold": above(scores),
        "ablation": {**ablation, "summary": summary(ablation["sets"], MEASURES)},
        "alone": as_table(lonely),
    }
    if "retrieval" in lists:
        told["agreement"] = agreement(scores["prefix_matching"], scores["retrieval"], plan.sizes)
    if plan.dtype != torch.float32:
        wide = hw.use(hw.load(name)[0])
        exact = {part: round(float(x.mean()), 4) for part, x in losses(wide, inputs).items()}
        told["ablation"]["whole_float32"] = exact
        _say(f"{name}: float32 {exact}, {told['dtype']} {ablation['whole']}")
    if plan.facts:
        asked = prompts(tokenizer, FACTS[: plan.facts], plan.tokens)
        rankings = {score: lists[score] for score in ("retrieval", "prefix_matching")}
        needle = recalls(model, tokenizer, asked, rankings, plan.sizes, plan.few, _say)
        told["needle"] = {**needle, "summary": summary(needle["sets"], ["recall"])}
    return told


def above(scores: dict[str, Any]) -> dict[str, Any]:
    """How many heads are retrieval heads by the paper's threshold."""
    values = [value for row in scores["retrieval"] for value in row]
    count = sum(value > THRESHOLD for value in values)
    return {"heads": count, "share": round(count / len(values), 4)}


def _inputs(model: Any, tokenizer: Any, plan: Plan, texts: Corpus) -> Inputs:
    start = tokenizer.bos_token_id
    sample, other = (
        draw(model, tokenizer, examples=count, start=start, seed=seed)
        for count, seed in ((plan.examples, MEASURING), (2, REFERENCE))
    )
    text = stretches(tokenizer, texts.held_out, plan.windows, plan.window)
    return Inputs(sample, text, [other.ids, stretches(tokenizer, texts.train, 2, plan.window)])


def _say(what: str) -> None:
    print(what, flush=True)


def compact(result: dict[str, Any]) -> str:
    """JSON with one line a row of a table of scores, a set of heads and a row of a summary."""
    lines: list[str] = []

    def marked(value: Any, depth: int) -> Any:
        if isinstance(value, list | tuple) or (isinstance(value, dict) and depth > 4):
            if isinstance(value, list) and value and isinstance(value[0], dict | list | tuple) and depth <= 4:
                return [marked(one, 5) for one in value]
            lines.append(json.dumps(value))
            return "@"
        return {key: marked(one, depth + 1) for key, one in value.items()} if isinstance(value, dict) else value

    text = json.dumps(marked(result, 0), indent=1)
    for line in lines:
        text = text.replace('"@"', line, 1)
    return text + "\n"


def _there(names: Sequence[str]) -> list[str]:
    """Of the models those whose weights are installed."""
    found = []
    for name in names:
        try:
            hw.load(name)
        except (hw.SpecError, hw.UnavailableError) as reason:
            _say(f"{name} is left out: {reason}")
        else:
            found.append(name)
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=PLANS, nargs="+", help="models to measure (default: all that are there)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: %(default)s)")
    parser.add_argument("--data", type=Path, default=CACHE, help="folder for packages of text (%(default)s)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for result.json and figure.svg (here)")
    parser.add_argument("--quick", action="store_true", help="little of everything, into a temporary folder")
    asked = parser.parse_args()
    asked.model = asked.model or _there(list(PLANS))
    return asked


if __name__ == "__main__":
    main()
