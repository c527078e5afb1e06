"""Importance took the length of whichever input came first for the batch's, and NaN for layers worth nothing."""

from __future__ import annotations

from typing import Any

import torch
from zoo import Zoo

import headwise as hw
from headwise.heads import pruning_curve
from headwise.models.projections import projections


def model_and_ids() -> tuple[Any, torch.Tensor]:
    zoo = Zoo()
    return zoo.model("llama"), zoo.batch("llama")["input_ids"]


def test_an_input_of_one_row_does_not_make_a_batch_of_one() -> None:
    model, ids = model_and_ids()
    at = torch.arange(ids.shape[1])[None]
    wide = torch.cat([ids, ids[:1]])
    batches = [[{"input_ids": ids, "position_ids": at}, wide], [{"position_ids": at, "input_ids": ids}, wide]]
    assert torch.equal(*(hw.importance(model, several) for several in batches))


def test_a_layer_that_is_worth_nothing_goes_first() -> None:
    model, ids = model_and_ids()
    with torch.no_grad():
        projections(model, 0).o.matrix.zero_()
    assert hw.importance(model, ids, normalise=True)[0].tolist() == [0.0] * 4
    curve = pruning_curve(model, ids, shares=(0.5,))
    assert curve.total == 8
    assert curve.points[1].heads == {"model.layers.0.self_attn": [0, 1, 2, 3]}
    assert curve.points[1].loss == curve.points[0].loss
