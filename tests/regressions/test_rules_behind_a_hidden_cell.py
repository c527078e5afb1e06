"""A cell hidden by one score rule went on into the next as -inf.

A rule whose derivative at -inf is NaN spoiled the gradient of the whole row on the reference, and a soft cap after a
rule of the user's own made a finite number of it, so that the hidden key was attended to.
"""

from __future__ import annotations

import pytest
import torch
from native_here import NATIVE

import headwise as hw

INF = float("inf")
BACKENDS = ["reference", "blocked"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_later_rule_makes_no_nan_of_it(backend: str) -> None:
    q, k, v = (torch.randn(1, 1, 4, 3, dtype=torch.float64, requires_grad=True) for _ in range(3))
    bias = torch.tensor([0.0, -INF, 0.0, 0.0], dtype=torch.float64)
    rules = (hw.Bias(bias), hw.ScoreRule(lambda s, b, h, i, j: s + torch.sin(s)))
    out = hw.attention(q, k, v, scores=rules, backend=backend)
    grads = torch.autograd.grad(out.square().sum(), (q, k, v))
    assert all(bool(torch.isfinite(g).all()) for g in grads)
    assert bool((grads[1][:, :, 1] == 0).all())


@pytest.mark.parametrize(
    ("backend", "hides"),
    [
        *((backend, hides) for backend in BACKENDS for hides in ("rule", "bias")),
        pytest.param(*NATIVE.values, "bias", marks=NATIVE.marks),
    ],
)
def test_a_later_rule_does_not_bring_it_back(backend: str, hides: str) -> None:
    x = torch.zeros(1, 1, 3, 2)
    column = torch.tensor([0.0, -INF, 0.0])
    first = hw.Bias(column) if hides == "bias" else hw.ScoreRule(lambda s, b, h, i, j: s + column[j])
    got = hw.attend(x, x, x, scores=(first, hw.SoftCap(1.0)), backend=backend, observe=[hw.TopKeys(3)])
    assert got.pattern[0, 0, 0].tolist() == [0.5, 0.0, 0.5]
    assert got.seen["top_keys"].indices[0, 0, 0].tolist() == [0, 2, -1]
