"""What a trained model shows at the end, in float32: losses with their errors, heads, composition and ablations."""

from __future__ import annotations

import contextlib
import itertools
import math
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from experiments.induction.contexts import Contexts
from experiments.induction.measures import (
    EARLY,
    LATE,
    REPEATED,
    Ruler,
    chance_of_composition,
    composition_of_keys,
    losses_by_token,
)

__all__ = ["final"]


def final(model: Any, contexts: Contexts, ruler: Ruler) -> dict[str, Any]:
    """Everything that is said of a model at the end of its training.

    Args:
        model: trained, in float32.
        contexts: all held-out contexts are read.
        ruler: its repeats and texts.

    Returns:
        What goes into the result: numbers in nats and shares of attention, tables [L][H].
    """
    model = hw.use(model).eval()
    losses = losses_by_token(model, contexts.held_out)
    told: dict[str, Any] = {"held_out_contexts": len(losses), **_losses(losses), **ruler.measure(model)}
    told["loss"] = round(float(losses[:, 1:].mean()), 4)
    told["icl"], told["icl_error"] = _icl(losses)
    if model.config.num_hidden_layers > 1:
        told["composition"] = _composition(model, told)
        told["ablations"] = _ablations(model, ruler, told)
    hw.restore(model)
    return told


def _icl(losses: Tensor) -> tuple[float, float]:
    """The in-context score and its standard error over contexts."""
    by_context = losses[:, slice(*LATE)].mean(1) - losses[:, slice(*EARLY)].mean(1)
    return round(float(by_context.mean()), 4), round(float(by_context.std() / math.sqrt(len(by_context))), 4)


def _losses(losses: Tensor) -> dict[str, Any]:
    """Mean loss of the tokens from one power of two to the next."""
    edges = [1 << power for power in range(10) if 1 << power <= losses.shape[1]]
    by_place = {
        f"{low}-{high - 1}": round(float(losses[:, low:high].mean()), 4) for low, high in itertools.pairwise(edges)
    }
    return {"loss_by_token": by_place}


def _composition(model: Any, told: dict[str, Any]) -> dict[str, Any]:
    """K-composition over chance of each head of layer 1 with the previous-token head of layer 0 and with the others."""
    chance = chance_of_composition(model)
    table = composition_of_keys(model) - chance
    before = int(torch.tensor(told["previous_token"][0]).argmax())
    others = [head for head in range(table.shape[1]) if head != before]
    return {
        "chance": round(chance, 4),
        "previous_token_head": before,
        "with_previous_token_head": [round(float(x), 4) for x in table[:, before]],
        "mean_with_the_others": [round(float(x), 4) for x in table[:, others].mean(1)],
        "table": [[round(float(x), 4) for x in row] for row in table],
    }


def _ablations(model: Any, ruler: Ruler, told: dict[str, Any]) -> dict[str, Any]:
    """Losses without a head, and, on the random repeats, also with every pattern kept as it was with the head."""
    heads = range(model.config.num_attention_heads)
    best = sorted(heads, key=lambda head: -told["prefix_matching"][1][head])
    groups: dict[str, dict[int, list[int]]] = {
        "none": {},
        **{f"{layer}.{head}": {layer: [head]} for layer in (0, 1) for head in heads},
        "two of layer 1 that match prefixes most": {1: best[:2]},
        "two of layer 1 that match prefixes least": {1: best[-2:]},
    }
    with torch.no_grad():
        patterns = hw.trace(model, input_ids=ruler.repeated)
    return {name: _without(model, ruler, chosen, patterns) for name, chosen in groups.items()}


def _without(model: Any, ruler: Ruler, chosen: dict[int, list[int]], patterns: Any) -> dict[str, float]:
    def copies() -> float:
        return round(float(losses_by_token(model, ruler.repeated)[:, REPEATED + 1 :].mean()), 4)

    def without() -> contextlib.AbstractContextManager[Any]:
        return hw.ablate(model, chosen) if chosen else contextlib.nullcontext()

    with without():
        losses = losses_by_token(model, ruler.text)
        told = {"loss": round(float(losses[:, 1:].mean()), 4), "icl": _icl(losses)[0], "repeated_loss": copies()}
    with hw.freeze(model, patterns), without():
        return {**told, "repeated_loss_patterns_kept": copies()}
