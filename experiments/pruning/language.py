"""SmolLM2: what each share of its heads is worth in nats a token."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from experiments.pruning.windows import batched
from headwise.heads import pruning_curve

__all__ = ["SHARES", "drawn", "language_model", "losses", "plain", "rise"]

SHARES = tuple(n / 10 for n in range(1, 10))
COARSE = (0.2, 0.4, 0.6, 0.8)  #: of random orders, which are many
MARKS = (0.2, 0.4, 0.5)

Heads = Mapping[str, Sequence[int]]


def language_model(
    model: Any,
    weigh: Tensor,
    measure: Tensor,
    seeds: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """All curves of a causal language model.

    Args:
        model: in use.
        weigh: [N, T] ids that heads are weighed on.
        measure: [N, T] ids, of other documents, that losses are measured on.
        seeds: random orders of removal.
        say: is told what was done.

    Returns:
        Losses in nats a token, shares of heads.
    """
    weighed, measured = batched(weigh, 4), batched(measure, 4)
    heads = torch.ones(len(hw.sites(model)), model.config.num_attention_heads)
    told: dict[str, Any] = {"heads": heads.numel(), "weighed_tokens": weigh.numel(), "measured_tokens": measure.numel()}
    curves = {}
    for name, iterative in (("once", False), ("anew", True)):
        curves[name] = pruning_curve(model, weighed, evaluate=measured, shares=SHARES, iterative=iterative)
        told[name] = points(curves[name])
        say(f"{name}: {told[name]}")
    curves["plain"] = plain(model, weighed, measured)
    told["plain"] = points(curves["plain"])
    say(f"plain: {told['plain']}")
    told["random"] = []
    for seed in range(seeds):
        curve = pruning_curve(model, weighed, evaluate=measured, shares=COARSE, scores=drawn(heads, seed))
        told["random"].append(points(curve))
        say(f"random {seed}: {told['random'][-1]}")
    whole = losses(model, measure)
    told["marks"] = {
        name: {f"{share:.1f}": rise(model, measure, whole, curve.keeping(1 - share).heads) for share in MARKS}
        for name, curve in curves.items()
    }
    told["half"] = curves["once"].keeping(0.5).heads
    return told


def plain(model: Any, weighed: Sequence[Mapping[str, Tensor]], measured: Sequence[Mapping[str, Tensor]]) -> Any:
    """The curve of gradients as they are, layers not made equal before they are compared."""
    scores = hw.importance(model, weighed)
    return pruning_curve(model, weighed, evaluate=measured, shares=SHARES, scores=scores)


def drawn(heads: Tensor, seed: int) -> Tensor:
    """Scores that put all heads into a random order."""
    return torch.rand(heads.shape, generator=torch.Generator().manual_seed(seed))


def points(curve: Any) -> list[dict[str, float]]:
    """A curve as rows."""
    return [{"removed": p.removed, "share": round(p.share, 4), "loss": round(p.loss, 4)} for p in curve.points]


def losses(model: Any, windows: Tensor) -> Tensor:
    """The mean loss of each window in nats a token, float64 [N]."""
    found = []
    for part in windows.split(4):
        with torch.no_grad():
            logits = model(input_ids=part).logits[:, :-1].float()
        each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), part[:, 1:].flatten(), reduction="none")
        found.append(each.view(len(part), -1).double().mean(1))
    return torch.cat(found)


def rise(model: Any, windows: Tensor, whole: Tensor, heads: Heads) -> dict[str, float]:
    """How much the loss rises without some heads, with the standard error over windows of the paired difference."""
    with hw.ablate(model, heads):
        more = losses(model, windows) - whole
    return {
        "removed": sum(map(len, heads.values())),
        "nats": round(float(more.mean()), 4),
        "error": round(float(more.std() / math.sqrt(len(more))), 4),
        "perplexity_ratio": round(math.exp(float(more.mean())), 4),
    }
