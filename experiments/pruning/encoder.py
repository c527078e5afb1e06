"""MiniLM: how alike what it says stays, of each token and of pairs of passages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from experiments.pruning.language import MARKS, SHARES, Heads, drawn, points
from experiments.pruning.windows import batched
from headwise.heads import Drift, pruning_curve

__all__ = ["agreement", "embeddings", "encoder"]


def encoder(
    model: Any,
    weigh: Tensor,
    measure: Tensor,
    seeds: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """All curves of a sentence encoder; heads are weighed by leaving one out, since `Drift` has no gradient at 0.

    Args:
        model: in use.
        weigh: [N, T] ids that heads are weighed on.
        measure: [N, T] ids, of other documents.
        seeds: random orders of removal.
        say: is told what was done.

    Returns:
        Losses are 1 - cosine of hidden states; ``pairs`` are rank correlations.
    """
    weighed, measured = batched(weigh, 8), batched(measure, 8)
    drift = Drift(model, [*weighed, *measured])
    heads = torch.ones(len(hw.sites(model)), model.config.num_attention_heads)
    told: dict[str, Any] = {"heads": heads.numel(), "weighed_tokens": weigh.numel(), "measured_tokens": measure.numel()}
    curve = pruning_curve(model, weighed, drift, evaluate=measured, shares=SHARES, method="leave_one_out")
    told["once"] = points(curve)
    say(f"once: {told['once']}")
    orders = [
        pruning_curve(model, weighed, drift, evaluate=measured, shares=SHARES, scores=drawn(heads, seed))
        for seed in range(seeds)
    ]
    told["random"] = [points(order) for order in orders]
    whole = embeddings(model, measure)
    told["pairs"] = {
        f"{share:.1f}": {
            "once": _pairs(model, measure, whole, curve.keeping(1 - share).heads),
            "random": [_pairs(model, measure, whole, order.keeping(1 - share).heads) for order in orders],
        }
        for share in MARKS
    }
    told["half"] = curve.keeping(0.5).heads
    return told


def _pairs(model: Any, windows: Tensor, whole: Tensor, heads: Heads) -> float:
    with hw.ablate(model, heads):
        return round(agreement(embeddings(model, windows), whole), 4)


def embeddings(model: Any, windows: Tensor) -> Tensor:
    """A passage's embedding as MiniLM's authors make it, the mean over its tokens at length 1: [N, M]."""
    with torch.no_grad():
        found = [model(input_ids=part).last_hidden_state.mean(1) for part in windows.split(8)]
    return torch.nn.functional.normalize(torch.cat(found), dim=1)


def agreement(now: Tensor, then: Tensor) -> float:
    """Rank correlation (Spearman) between the cosines of all pairs of passages in two sets of embeddings [N, M]."""
    above = torch.triu_indices(len(now), len(now), offset=1)
    ranks = torch.stack([(x @ x.T)[above[0], above[1]].argsort().argsort().double() for x in (now, then)])
    return float(torch.corrcoef(ranks)[0, 1])
