"""What becomes of SmolLM2 when its first tokens leave the window, and past the 8,192 positions it was trained on?

python -m experiments.sinks.run            some twelve minutes of one core; writes result.json and figure.svg here
python -m experiments.sinks.run --quick    a minute, shorter, Python's text alone, into a temporary folder
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from experiments.machine import machine
from experiments.sinks.figure import draw
from experiments.sinks.streaming import Kept, losses
from experiments.texts import CACHE, corpus

HERE = Path(__file__).parent
MANUAL = "git-doc/doc/git-doc/user-manual.html"  #: the document of experiments.texts that is read as the second text.
TRAINED = 8192  #: max_position_embeddings of SmolLM2.
BLOCK = 512  #: tokens in one point of the curves.


def main() -> None:
    """Reads the texts under every setting and writes what came of it."""
    asked = _arguments()
    torch.set_num_threads(asked.threads)
    began, cpu = time.perf_counter(), time.process_time()
    model, tokenizer = hw.load("smollm2")
    tokens, cache = (2048, 256) if asked.quick else (2 * TRAINED, 1024)
    texts = _texts(None if asked.quick else asked.data)
    out = Path(tempfile.mkdtemp()) if asked.quick else asked.out
    runs, told = [], []
    for number, (name, source, text) in enumerate(texts):
        ids = tokenizer(text, return_tensors="pt").input_ids[0]
        again = recurring(ids[:tokens].tolist(), cache)
        told.append({"name": name, "source": source, "tokens": len(ids), "read": tokens, "recurring": again})
        for kept in settings(cache, everything=number == 0):
            lost = losses(model, ids[: tokens + 1], kept)
            runs.append({"text": name, "name": kept.name, **asdict(kept), "blocks": blocks(lost)})
            spans = ", ".join(f"{low}-{high}: {perplexity(runs[-1], low, high):.2f}" for low, high in _spans(runs[-1]))
            print(f"{name:14} {kept.name:30} {spans}  {time.perf_counter() - began:.0f} s", flush=True)
    result = {
        "model": "SmolLM2-135M-Instruct, float32",
        "trained_positions": TRAINED,
        "block_tokens": BLOCK,
        "texts": told,
        "mass_on_first_tokens": mass_on_first(model, tokenizer(texts[0][2], return_tensors="pt").input_ids[:, :tokens]),
        "summary": summary(runs),
        "machine": machine(time.perf_counter() - began),
        "cpu_seconds": round(time.process_time() - cpu),
        "runs": runs,
    }
    (out / "result.json").write_text(_compact(result))
    draw(result, out / "figure.svg")
    print(f"wrote {out / 'result.json'} and {out / 'figure.svg'}")


def settings(cache: int, *, everything: bool) -> list[Kept]:
    """What is compared: caches of equal size, with and without first tokens, as in the paper.

    Args:
        cache: keys in it.
        everything: also one first token alone, positions of the text, and caches of a quarter of the size.
    """
    small = cache // 4
    core = [Kept(), Kept(cache), Kept(cache - 4, 4)]
    more = [Kept(cache - 1, 1), Kept(cache - 4, 4, "text"), Kept(small), Kept(small - 4, 4)]
    return core + (more if everything else [])


def blocks(lost: Tensor) -> list[float]:
    """The mean of each block of `BLOCK` positions, nats a token."""
    return [round(float(part.double().mean()), 4) for part in lost.split(BLOCK)]


def recurring(ids: list[int], apart: int, length: int = 16) -> list[int]:
    """How many tokens of each block end a run of ``length`` that came first more than ``apart`` tokens before."""
    first: dict[tuple[int, ...], int] = {}
    counts = [0] * -(-len(ids) // BLOCK)
    for end in range(length, len(ids) + 1):
        came = first.setdefault(tuple(ids[end - length : end]), end)
        counts[(end - 1) // BLOCK] += end - came > apart
    return counts


def perplexity(run: dict[str, Any], low: int, high: int) -> float:
    """The perplexity of the positions low to high - 1, both on borders of blocks."""
    part = run["blocks"][low // BLOCK : high // BLOCK]
    return math.exp(sum(part) / len(part))


def difference(run: dict[str, Any], other: dict[str, Any], low: int, high: int) -> tuple[float, float]:
    """By how much a run loses more than another on the same tokens, nats, and the standard error over blocks."""
    pairs = zip(run["blocks"], other["blocks"], strict=True)
    gaps = torch.tensor([a - b for a, b in pairs], dtype=torch.float64)[low // BLOCK : high // BLOCK]
    return float(gaps.mean()), float(gaps.std() / len(gaps) ** 0.5)


def _spans(run: dict[str, Any]) -> list[tuple[int, int]]:
    """Before the window is full, inside the trained positions, and past them, as far as the text goes."""
    end = BLOCK * len(run["blocks"])
    edges = [edge for edge in (0, 1024, TRAINED) if edge < end] + [end]
    return list(pairwise(edges))


def summary(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Perplexity of each run and span, and its loss against the same text with four first tokens (``more``, nats)."""
    rows = []
    for run in runs:
        same = [one for one in runs if one["text"] == run["text"] and one["positions"] == "cache"]
        size = max(one["recent"] or 0 for one in same) if run["recent"] is None else run["recent"] + run["sinks"]
        beside = next(one for one in same if one["sinks"] == 4 and one["recent"] == size - 4)
        for low, high in _spans(run):
            more, error = difference(run, beside, low, high)
            rows.append(
                {
                    "text": run["text"],
                    "name": run["name"],
                    "from": low,
                    "to": high,
                    "perplexity": round(perplexity(run, low, high), 2),
                    "more": round(more, 4),
                    "more_error": round(error, 4),
                }
            )
    return rows


@torch.no_grad()
def mass_on_first(model: Any, ids: Tensor, tokens: int = 2048) -> dict[str, Any]:
    """What share of its attention the dense model gives to the first tokens, in the second half of a text.

    Args:
        model: in eval mode.
        ids: [1,n]; the first ``tokens`` of them are read.
        tokens: read.

    Returns:
        For 1 and for 4 first tokens the mean over layers, heads and queries, and the share of heads whose mean is over
        a half.
    """
    ids = ids[:, :tokens]
    told: dict[str, Any] = {"tokens": ids.shape[1]}
    for first in (1, 4):
        targets = torch.arange(first).expand(ids.shape[1], first)
        with hw.observe(model, hw.MassOn(targets)) as seen:
            model.model(input_ids=ids, use_cache=False)
        late = seen["mass_on"][..., ids.shape[1] // 2 :].mean((1, -1))  # [L,H]
        over_half = float((late > 0.5).float().mean())
        told[str(first)] = {"mean": round(float(late.mean()), 4), "heads_over_half": round(over_half, 4)}
    return told


def _texts(data: Path | None) -> list[tuple[str, str, str]]:
    """Name, source and text of Python's own documentation, and where there is a folder of a manual of Debian's."""
    import platform
    from pydoc_data.topics import topics

    python = "\n\n".join(topics[name] for name in sorted(topics))
    found = [("Python topics", f"pydoc_data.topics of Python {platform.python_version()}, in order of name", python)]
    if data is not None:
        texts = corpus(data)
        manual = next(one for one in (*texts.train, *texts.held_out) if one.name == MANUAL)
        found.append(("Git manual", f"{MANUAL} of git-doc {texts.versions['git-doc']}", manual.text))
    return found


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (default: %(default)s)")
    parser.add_argument("--data", type=Path, default=CACHE, help="folder for Debian's packages (%(default)s)")
    parser.add_argument("--out", type=Path, default=HERE, help="folder for result.json and figure.svg (here)")
    parser.add_argument("--quick", action="store_true", help="2,048 tokens, into a temporary folder")
    return parser.parse_args()


def _compact(result: dict[str, Any]) -> str:
    """JSON with one line a text, a run and a row of the summary."""
    many = ("texts", "summary", "runs")
    lines = [json.dumps(row) for name in many for row in result[name]]
    marked = {**result, **{name: ["@"] * len(result[name]) for name in many}}
    text = json.dumps(marked, indent=1)
    for line in lines:
        text = text.replace('"@"', line, 1)
    return text + "\n"


if __name__ == "__main__":
    main()
