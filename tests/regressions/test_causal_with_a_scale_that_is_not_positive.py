"""torch's kernel multiplies the -inf of a causal mask by the scale: NaN at 0 and below."""

import math

import pytest
import torch

import headwise as hw


@pytest.mark.parametrize("scale", [0.0, -0.5])
@pytest.mark.parametrize("mask", [hw.Causal(), hw.Causal() & hw.Padding(torch.tensor([[False, True, True, True]]))])
def test_the_default_backend_has_the_definition(scale: float, mask: hw.spec.Mask):
    q, k, v = (torch.randn(1, 2, 4, 8, requires_grad=True) for _ in range(3))
    found = hw.attend(q, k, v, mask=mask, scale=scale)
    wanted = hw.attend(q, k, v, mask=mask, scale=scale, backend="reference")
    torch.testing.assert_close(found.out, wanted.out)
    torch.testing.assert_close(found.lse, wanted.lse)
    for a, b in zip(
        torch.autograd.grad(found.out.square().sum(), (q, k, v)),
        torch.autograd.grad(wanted.out.square().sum(), (q, k, v)),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_full_attention_takes_any_scale():
    x = torch.randn(1, 2, 4, 8)
    assert "can run" in hw.explain(x, x, x, scale=-0.5).reasons["sdpa"]
    lse = hw.attend(x, x, x, mask=hw.Causal(), scale=0.0).lse[0, 0]
    torch.testing.assert_close(lse, torch.tensor([math.log(n) for n in range(1, 5)]))
