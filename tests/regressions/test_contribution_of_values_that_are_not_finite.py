"""Contribution measured values through a Gram matrix, which makes NaN of a visible inf and fails without a width."""

from __future__ import annotations

import torch

import headwise as hw


def test_an_infinite_value_has_an_infinite_norm() -> None:
    x, v = torch.zeros(1, 1, 2, 4), torch.ones(1, 1, 2, 2)
    v[0, 0, 1, 0] = float("inf")
    weight = torch.tensor([[1.0, 2.0], [3.0, -4.0], [0.5, 1.0]])
    for backend in ("reference", "blocked"):
        by_key = hw.attend(x, x, v, backend=backend, observe=[hw.Contribution(weight)]).seen["contribution"].by_key
        assert by_key[0, 0, 0] == weight.sum(1).norm()
        assert by_key[0, 0, 1] == float("inf")


def test_values_without_a_width_carry_nothing() -> None:
    x, v = torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 0)
    for backend in ("reference", "blocked"):
        seen = hw.attend(x, x, v, backend=backend, observe=[hw.Contribution(torch.zeros(5, 0))]).seen["contribution"]
        assert torch.equal(seen.by_key, torch.zeros(1, 2, 3))
