"""Huge but finite numbers: hidden values, spreads of scores, caps, widths and positions."""

import sys

import pytest
import torch
from native_here import NATIVE

import headwise as hw

EACH = pytest.mark.parametrize("backend", ["reference", "blocked", NATIVE])


@pytest.mark.parametrize("backend", ["reference", "blocked", NATIVE, "sdpa"])
@pytest.mark.parametrize("huge", [3e38, -3.4e38])
def test_a_hidden_value_may_be_huge(backend: str, huge: float):
    q = torch.zeros(1, 1, 2, 1, requires_grad=True)
    k = torch.ones(1, 1, 2, 1)
    v = torch.tensor([1.0, huge]).reshape(1, 1, 2, 1)
    out = hw.attention(q, k, v, mask=hw.Causal(), backend=backend)
    (grad,) = torch.autograd.grad(out, q, torch.tensor([10.0, 0.0]).reshape(1, 1, 2, 1))
    assert torch.equal(grad, torch.zeros_like(grad))


@EACH
def test_a_gradient_of_nan_at_an_empty_row_goes_nowhere(backend: str):
    q, k, v = (torch.randn(1, 1, 2, 4, requires_grad=True) for _ in range(3))
    bias = torch.randn(2, 2, requires_grad=True)
    mask = hw.Padding(torch.tensor([2]), queries=torch.tensor([[True, False]]))
    out = hw.attention(q, k, v, mask=mask, scores=(hw.Bias(bias), hw.SoftCap(3.0)), backend=backend)
    grad_out = torch.ones_like(out)
    grad_out[:, :, 1] = float("nan")
    for grad in torch.autograd.grad(out, (q, k, v, bias), grad_out):
        assert torch.isfinite(grad).all()


@EACH
def test_a_gate_of_zero_takes_no_gradient_for_any_operand(backend: str):
    q, k = (torch.randn(1, 1, 3, 4, requires_grad=True) for _ in range(2))
    v = torch.full((1, 1, 3, 4), float("nan"))
    out = hw.attention(q, k, v, gate=torch.zeros(1), backend=backend)
    for grad in torch.autograd.grad(out.sum(), (q, k)):
        assert torch.equal(grad, torch.zeros_like(grad))


@EACH
def test_entropy_of_a_spread_that_leaves_float32(backend: str):
    q = torch.ones(1, 1, 2, 1)
    k = torch.tensor([3e38, -3e38]).reshape(1, 1, 2, 1)
    seen = hw.attend(q, k, k * 0, mask=hw.Causal(), scale=1.0, backend=backend, observe=[hw.Entropy()]).seen
    assert torch.equal(seen["entropy"], torch.zeros(1, 1, 2))


@pytest.mark.parametrize(
    "mask",
    [
        hw.Window(after=sys.maxsize),
        hw.Window(before=2**70, after=2**70),
        hw.Chunks(sys.maxsize),
        hw.Prefix(2**70),
        hw.Padding(2**70),
    ],
)
@EACH
def test_a_width_without_end_is_no_limit(mask: hw.spec.Mask, backend: str):
    x = torch.randn(1, 1, 4, 4)
    wanted = hw.attention(x, x, x, backend="reference")
    torch.testing.assert_close(hw.attention(x, x, x, mask=mask, backend=backend), wanted)


def test_positions_and_caps_have_a_range():
    x = torch.randn(1, 1, 4, 4)
    with pytest.raises(hw.SpecError, match="q_start is 9223372036854775807; a position lies between"):
        hw.attention(x, x, x, mask=hw.Causal(), q_start=2**63 - 1)
    with pytest.raises(hw.SpecError, match="a larger one caps nothing"):
        hw.SoftCap(1e39)


@pytest.mark.parametrize("backend", ["reference", "blocked"])
def test_a_rule_may_work_in_place(backend: str):
    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    inside = hw.ScoreRule(lambda score, b, h, i, j: score.mul_(2).add_(1))
    outside = hw.ScoreRule(lambda score, b, h, i, j: score * 2 + 1)
    found = torch.autograd.grad(hw.attention(x, x, x, scores=(inside, inside), backend=backend).square().sum(), x)[0]
    wanted = torch.autograd.grad(hw.attention(x, x, x, scores=(outside, outside), backend=backend).square().sum(), x)[0]
    torch.testing.assert_close(found, wanted)
