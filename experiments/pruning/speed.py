"""How much faster a model is without half of its heads: attention modules alone, and all of it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from headwise.models.projections import projections

__all__ = ["attention_modules", "compared", "groups_left"]


def groups_left(model: Any) -> list[tuple[int, int]]:
    """Query heads and key/value heads of each layer that has any."""
    found = [projections(model, site) for site in hw.sites(model)]
    return [(part.heads, len(set(part.kv_heads))) for part in found]


def attention_modules(model: Any, sites: Sequence[str]) -> list[Any]:
    """The modules that hold a layer's whole attention, output projection included (in BERT also the norm behind it)."""
    return [model.get_submodule(site.removesuffix(".self")) for site in sites]


@contextmanager
def _stopwatch(modules: Sequence[Any]) -> Iterator[list[float]]:
    """Sums the seconds that modules take, each run of each of them."""
    spent, began = [0.0], [0.0]

    def before(*_: Any) -> None:
        began[0] = time.process_time()

    def after(*_: Any) -> None:
        spent[0] += time.process_time() - began[0]

    hooks = [module.register_forward_pre_hook(before) for module in modules]
    hooks += [module.register_forward_hook(after) for module in modules]
    try:
        yield spent
    finally:
        for hook in hooks:
            hook.remove()


def compared(whole: Any, pruned: Any, ids: Tensor, rounds: int) -> dict[str, Any]:
    """Times two models in turn on the same ids, and gives ratios of medians (above 1: the pruned one is faster).

    Processor seconds, not those of the clock: with one thread they are the work alone, whoever else is at work.

    Args:
        whole: in use.
        pruned: in use.
        ids: [B, T].
        rounds: counted; one more comes before them.

    Returns:
        Seconds are medians; ``range`` is the least and the greatest ratio of one round.
    """
    seconds: dict[str, list[list[float]]] = {"model_time": [[], []], "attention": [[], []]}
    sites = hw.sites(whole)
    further = {"logits_to_keep": 1} if whole.can_generate() else {}
    for round_ in range(rounds + 1):
        for which, model in enumerate((whole, pruned)):
            with _stopwatch(attention_modules(model, sites)) as spent, torch.no_grad():
                began = time.process_time()
                model(input_ids=ids, **further)
                if round_:
                    seconds["model_time"][which].append(time.process_time() - began)
                    seconds["attention"][which].append(spent[0])
    told: dict[str, Any] = {"batch": len(ids), "tokens": ids.shape[1], "rounds": rounds}
    for name, (slow, fast) in seconds.items():
        ratios = [a / b for a, b in zip(slow, fast, strict=True)]
        told[name] = {
            "whole": round(statistics.median(slow), 4),
            "pruned": round(statistics.median(fast), 4),
            "ratio": round(statistics.median(slow) / statistics.median(fast), 3),
            "range": [round(min(ratios), 3), round(max(ratios), 3)],
        }
    return told
