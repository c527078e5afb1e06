"""Rotary.angles handed out the table that all layers share, to be written over; and a layer took positions, frequencies
and operands that mean nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import headwise as hw
from headwise.nn import DynamicNTK, Linear, LongRope, Rotary, Yarn


def test_angles_are_the_callers_own() -> None:
    x = torch.randn(1, 1, 4, 8)
    before = Rotary(base=84.0).rotate(x, 0)
    for part in Rotary(base=84.0).angles(0, x):
        part.zero_()
    assert torch.equal(Rotary(base=84.0).rotate(x, 0), before)


def test_no_positions_at_all() -> None:
    empty = Rotary(scaling=DynamicNTK(2.0, 8)).rotate(torch.zeros(1, 1, 0, 8), torch.zeros(0, dtype=torch.long))
    assert empty.shape == (1, 1, 0, 8)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Linear("4"), "factor is '4'"),  # type: ignore[arg-type]
        (lambda: Linear(float("nan")), "factor is nan"),
        (lambda: LongRope((-1.0, 1.0), (1.0, 1.0), 8), "short_factor is"),
        (lambda: Yarn(2.0, 64, truncate=1), "truncate is 1; it is True or False"),  # type: ignore[arg-type]
        (lambda: Rotary(base=1.0, scaling=Yarn(2.0, 64)).rotate(torch.zeros(1, 1, 2, 8), 0), "the base is 1"),
        (lambda: Rotary().rotate(torch.zeros(1, 1, 2, 8), True), "positions is True"),
        (lambda: Rotary().rotate(torch.zeros(1, 1, 2, 8), "a"), "positions is 'a'"),  # type: ignore[arg-type]
        (lambda: Rotary().rotate(torch.zeros(1, 1, 2, 8, dtype=torch.long), 0), "of torch.int64; queries and keys are"),
        (lambda: Rotary().rotate(torch.zeros(1, 2, 8), 0), r"queries and keys are \[B,H,T,D\]"),
    ],
)
def test_what_means_nothing(make: Any, said: str) -> None:
    with pytest.raises(hw.HeadwiseError, match=said):
        make()
