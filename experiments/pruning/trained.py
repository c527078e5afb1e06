"""Heads that trained gates close, after Voita et al. 2019: one more way to choose them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from experiments.pruning.windows import batched
from headwise.heads import Drift, train_gates

__all__ = ["gates"]

RATE = 0.2  #: of log alpha.


def gates(
    model: Any, weigh: Tensor, measure: Tensor, penalties: Sequence[float], steps: int, say: Callable[[str], None]
) -> list[dict[str, float]]:
    """One row a price of a head: how many heads training closed, and the loss without them.

    Args:
        model: in use; a causal one has a loss of its own, another is trained to stay what it is (`Drift`).
        weigh: [N, T] ids to train gates on, 512 tokens a step.
        measure: [N, T] ids, of other documents, that losses are measured on.
        penalties: the price of an open head, in units of the loss.
        steps: of each training.
        say: is told each row.
    """
    batches, measured = (batched(ids, max(1, 512 // ids.shape[1])) for ids in (weigh, measure))
    drift = None if model.can_generate() else Drift(model, [*batches, *measured])
    total = len(hw.sites(model)) * model.config.num_attention_heads
    told = []
    for penalty in penalties:
        closed = train_gates(model, batches, drift, penalty=penalty, steps=steps, lr=RATE).closed()
        with hw.ablate(model, closed) if closed else contextlib.nullcontext(), torch.no_grad():
            losses = [_loss(model, batch, drift) * len(batch["input_ids"]) for batch in measured]
        removed = sum(map(len, closed.values()))
        told.append({"penalty": penalty, "removed": removed, "share": round(removed / total, 4)})
        told[-1]["loss"] = round(sum(losses) / len(measure), 4)
        say(f"gates: {told[-1]}")
    return told


def _loss(model: Any, batch: dict[str, Tensor], drift: Drift | None) -> float:
    if drift is not None:
        return float(drift(model(**batch), batch))
    return float(model(**batch, labels=batch["input_ids"]).loss)
