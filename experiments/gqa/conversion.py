"""Converting copies of a model in each way, training them on for a little, and measuring each on held-out text."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from experiments.pruning.language import losses

__all__ = ["Plan", "converted", "ordering", "rows"]


@dataclass(frozen=True)
class Plan:
    """What is tried on a model.

    Attributes:
        groups: numbers of key/value heads.
        steps: numbers of steps of training after the conversion, each from a fresh conversion; 0 is measured too.
        seeds: of the random way.
        rate: learning rate.
    """

    groups: tuple[int, ...]
    steps: tuple[int, ...]
    seeds: int
    rate: float


def rows(
    model: Any, plan: Plan, batches: Sequence[Tensor], held_out: Tensor, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """One row a conversion and number of steps.

    Args:
        model: float32, not in use; it is not changed.
        plan: what is tried.
        batches: ids [B, T], the same for every way, in order; as many as the most steps.
        held_out: ids [N, T].
        say: is told each row.

    Returns:
        Rows with ``loss`` in nats a token on held-out text and ``windows``, the loss of each of its windows; groups of
        0 are the model as it was, which is trained on as well.
    """
    ways: list[tuple[int, str, int]] = [(0, "none", 0)]
    for groups in plan.groups:
        ways += [(groups, "mean", 0), (groups, "first", 0), *((groups, "random", seed) for seed in range(plan.seeds))]
    found = []
    for (groups, how, seed), steps in itertools.product(ways, (0, *plan.steps)):
        tried = converted(model, groups, how, seed)
        with _narrow():
            trained = hw.heads.uptrain(tried, list(batches), steps, lr=plan.rate) if steps else []
        with _narrow():
            windows = losses(tried, held_out)
        row = {"groups": groups, "how": how, "seed": seed, "steps": steps, "loss": round(float(windows.mean()), 4)}
        say(str(row))
        found.append({**row, "windows": windows.tolist(), "trained": [round(loss, 4) for loss in trained]})
    return found


def _narrow() -> contextlib.AbstractContextManager[Any]:
    """Products in bfloat16. Nothing is cached: an optimizer changes the weights while this holds."""
    return torch.autocast("cpu", torch.bfloat16, cache_enabled=False)


def converted(model: Any, groups: int, how: str, seed: int) -> Any:
    """A copy with so many key/value heads, in use; groups of 0 leave them as they are."""
    tried = copy.deepcopy(model)
    return hw.use(hw.heads.to_gqa(tried, groups, how, seed) if groups else tried).eval()


def ordering(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each number of groups and steps the loss of each way, and how much worse than "mean" the others are.

    Returns:
        Rows with mean, first, random (mean over seeds) in nats; random_sd over seeds, null for one seed;
        first_less_mean, random_less_mean and their standard errors over held-out windows (paired).
    """
    told = []
    for groups, steps in dict.fromkeys((row["groups"], row["steps"]) for row in found if row["groups"]):
        ways: dict[str, list[dict[str, Any]]] = {"mean": [], "first": [], "random": []}
        for row in found:
            if (row["groups"], row["steps"]) == (groups, steps):
                ways[row["how"]].append(row)
        table = {how: torch.tensor([row["windows"] for row in some]).mean(0) for how, some in ways.items()}
        seeds = [row["loss"] for row in ways["random"]]
        line = {"groups": groups, "steps": steps, **{how: round(float(x.mean()), 4) for how, x in table.items()}}
        line["random_sd"] = round(statistics.stdev(seeds), 4) if len(seeds) > 1 else None
        for how in ("first", "random"):
            more = table[how] - table["mean"]
            line[f"{how}_less_mean"] = round(float(more.mean()), 4)
            line[f"{how}_less_mean_error"] = round(float(more.std() / math.sqrt(len(more))), 4)
        told.append(line)
    return told
