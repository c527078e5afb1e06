"""Layers and heads that came out of a data frame are numbers of numpy, and were refused."""

from __future__ import annotations

import numpy as np
import torch
from zoo import Zoo

import headwise as hw


def test_numbers_of_numpy_name_layers_and_heads() -> None:
    zoo = Zoo()
    model, batch = zoo.model("llama"), zoo.batch("llama")
    with hw.ablate(model, {1: [2]}):
        want = zoo.result(model, batch)
    for heads in ({np.int64(1): [np.int64(2)]}, {np.int32(-1): np.array([2])}, {1: torch.tensor([2])}):
        with hw.ablate(model, heads):
            assert torch.equal(zoo.result(model, batch), want)
    with hw.observe(model, hw.Entropy(), sites=[np.int64(1)]) as seen:
        zoo.result(model, batch)
    assert seen.sites == ["model.layers.1.self_attn"]
