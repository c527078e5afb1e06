"""The pattern of another model's head was read with this model's groups, or its values with the other's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from zoo import Zoo

import headwise as hw
from headwise.errors import ShapeError


def output(pattern: Any) -> torch.Tensor:
    """Each head's mix of its values, by the textbook, [B, H, T, E]."""
    options = pattern.options
    H, Hk = pattern.shape[1], pattern.v.shape[1]
    reads = options["kv_heads"] or [h // (H // Hk) for h in range(H)]
    return pattern.to_dense() @ pattern.v[:, list(reads)]


def test_a_pattern_of_more_key_heads_is_taken_over_whole() -> None:
    zoo = Zoo()
    many = zoo.model("llama", num_key_value_heads=4)
    few = hw.to_gqa(copy.deepcopy(many), 2)
    batch = zoo.batch("llama")
    source = hw.trace(many, input_ids=batch["input_ids"].flip(1))
    for heads in ([2], [0, 1, 2, 3]):
        with hw.patch(few, {0: heads}, source, what="pattern"):
            taken = hw.trace(few, **batch).pattern(0).to_dense()
        torch.testing.assert_close(taken[:, heads], source.pattern(0).to_dense()[:, heads], rtol=0, atol=1e-6)


def test_values_are_read_by_the_model_that_runs() -> None:
    zoo = Zoo()
    batch = zoo.batch("llama")
    one, two = hw.prune(zoo.model("llama"), {0: [0]}), hw.prune(zoo.model("llama"), {0: [2]})
    source = hw.trace(one, **batch)
    own = hw.trace(two, **batch).pattern(0)
    want = source.pattern(0).to_dense() @ own.v[:, [0, 0, 1]]  # two lost head 2: its heads 0 and 1 read key head 0
    with hw.freeze(two, source, {0: [0, 1, 2]}):
        frozen = hw.trace(two, **batch).pattern(0)
    torch.testing.assert_close(output(frozen), want, rtol=0, atol=1e-5)


def test_an_output_of_another_width_is_refused() -> None:
    zoo = Zoo()
    wide = hw.trace(zoo.model("llama", head_dim=16), **zoo.batch("llama"))
    model = zoo.model("llama")
    with pytest.raises(ShapeError, match="traced with other heads"), hw.patch(model, {0: [0]}, wide):
        zoo.result(model, zoo.batch("llama"))
