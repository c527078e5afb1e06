"""Finite operands whose scores leave float32, and a gate of 0 over a head of NaN, differed from backend to backend."""

import pytest
import torch
from native_here import NATIVE

import headwise as hw


@pytest.mark.parametrize("size", [1e19, 1e20, 3e37])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_scores_too_large_for_float32(size: float, sign: float):
    q = torch.full((1, 1, 3, 4), size)
    k = torch.full((1, 1, 3, 4), sign * size / 10)
    k[0, 0, 1] = 0.0
    v = torch.arange(12.0).reshape(1, 1, 3, 4)
    wanted = hw.attend(q, k, v, mask=hw.Causal(), backend="reference", observe=[hw.Offsets(2)])
    found = hw.attend(q, k, v, mask=hw.Causal(), observe=[hw.Offsets(2)])
    for a, b in ((found.out, wanted.out), (found.lse, wanted.lse), (found.seen["offsets"], wanted.seen["offsets"])):
        torch.testing.assert_close(a, b, equal_nan=True)


@pytest.mark.parametrize("backend", ["reference", "blocked", NATIVE])
def test_a_gate_of_zero_takes_no_gradient_from_a_head_of_nan(backend: str):
    x = torch.randn(1, 2, 3, 4)
    v = x.clone()
    v[0, 1, 0] = float("nan")
    v.requires_grad_()
    gate = torch.tensor([1.0, 0.0])
    out = hw.attention(x, x, v, gate=gate, backend=backend)
    assert torch.equal(out[0, 1], torch.zeros(3, 4))
    out.sum().backward()
    assert torch.isfinite(v.grad).all()
    assert torch.equal(v.grad[0, 1], torch.zeros(3, 4))


def test_an_observer_of_the_users_own_reaches_no_other():
    class Vandal:
        def see(self, tile: object) -> None:
            tile.p.zero_()
            tile.lse.zero_()

        def merge(self, other: object) -> None: ...

        def result(self) -> None: ...

    x = torch.randn(1, 2, 9, 4)
    alone = hw.attend(x, x, x, observe=[hw.Received(), hw.LogSumExp()])
    beside = hw.attend(x, x, x, observe=[Vandal(), hw.Received(), hw.LogSumExp()])
    assert torch.equal(beside.seen["received"], alone.seen["received"])
    assert torch.equal(beside.seen["log_sum_exp"], alone.seen["log_sum_exp"])
    assert torch.equal(beside.lse, alone.lse)
