"""A module that held a Dense or Blocks mask could not move: their fields are not named like their arguments."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.nn.rules import Held

KEEP = torch.ones(4, 4, dtype=torch.bool).tril()

MASKS = {
    "dense": hw.Dense(KEEP),
    "blocks": hw.Blocks(KEEP, 2),
    "padding": hw.Padding(torch.tensor([3]), None),
    "documents": hw.Documents(torch.tensor([0, 0, 1, 1])),
    "chunks": hw.Chunks(2, torch.tensor([1])),
    "prefix": hw.Prefix(torch.tensor([2])),
    "combined": hw.Causal() & (hw.Dense(KEEP) | hw.Documents(torch.tensor([0, 0, 1, 1]))),
}
RULES = {
    "alibi": hw.Alibi(torch.ones(2)),
    "relative": hw.RelativeBias(torch.zeros(2, 5), 2),
    "bias": hw.Bias(torch.zeros(4, 4)),
}


def tensors(rule: Any) -> list[torch.Tensor]:
    if isinstance(rule, torch.Tensor):
        return [rule]
    if dataclasses.is_dataclass(rule):
        return [t for value in vars(rule).values() for t in tensors(value)]
    return [t for value in rule for t in tensors(value)] if isinstance(rule, tuple) else []


@pytest.mark.parametrize("name", [*MASKS, *RULES])
def test_what_a_module_holds_moves_with_it(name: str) -> None:
    rule = {**MASKS, **RULES}[name]
    before = tensors(rule)
    moved = Held(rule).to("meta")()
    assert type(moved) is type(rule)
    assert repr(type(moved)) == repr(type(rule))
    assert [t.device.type for t in tensors(moved)] == ["meta"] * len(before)
    assert [t.shape for t in tensors(moved)] == [t.shape for t in before]
    assert all(t is old and t.device.type == "cpu" for t, old in zip(tensors(rule), before, strict=True))


@pytest.mark.parametrize("name", ["dense", "combined"])
def test_a_layer_with_a_written_mask_can_be_copied_and_converted(name: str) -> None:
    layer = hw.MultiHeadAttention(8, 2, mask=MASKS[name])
    x = torch.randn(1, 4, 8)
    wanted = layer(x)
    twin = copy.deepcopy(layer).double()
    torch.testing.assert_close(twin(x.double()).float(), wanted)
    assert torch.equal(copy.deepcopy(layer)(x), wanted)


@dataclasses.dataclass(frozen=True, eq=False)
class Doubled:
    """A rule of a user's own with a field that follows from the other and is no argument."""

    table: torch.Tensor
    twice: torch.Tensor = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", 2 * self.table)


def test_what_follows_from_a_tensor_moves_too() -> None:
    moved = Held(Doubled(torch.ones(3))).to(torch.float64)()
    assert moved.table.dtype == moved.twice.dtype == torch.float64
