"""Few rows a head: backward made scores in another order of sums than forward had, and p did not add up to 1."""

from __future__ import annotations

import pytest
import torch

import headwise as hw


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("rows", [1, 4, 8, 9])
@pytest.mark.parametrize("width", [64, 93])
def test_a_row_on_one_key_gives_it_all(width: int, rows: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, rows, width).to(dtype), torch.randn(1, 1, 1, width).to(dtype)
    v, grad = torch.randn(1, 1, 1, 16).to(dtype).requires_grad_(), torch.randn(1, 1, rows, 16).to(dtype)
    hw.attention(q, k, v, scale=30.0, backend="native").backward(grad)
    wanted = grad.double().sum(2, keepdim=True)  # p is 1
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(v.grad.double(), wanted, rtol=eps, atol=8 * torch.finfo(torch.float32).eps)


def test_many_keys_and_large_scores() -> None:
    torch.manual_seed(1)
    q, k, v = torch.randn(1, 2, 4, 64), torch.randn(1, 1, 1500, 64), torch.randn(1, 1, 1500, 16)
    grad = torch.randn(1, 2, 4, 16)

    def of(backend: str, dtype: torch.dtype) -> list[torch.Tensor]:
        leaves = [x.to(dtype).requires_grad_() for x in (q, k, v)]
        out = hw.attention(*leaves, scale=4.0, backend=backend)
        return list(torch.autograd.grad(out, leaves, grad.to(dtype)))

    exact = of("reference", torch.float64)
    for found, fair, wanted in zip(of("native", q.dtype), of("blocked", q.dtype), exact, strict=True):
        off, allowed = ((x.double() - wanted).square().mean().sqrt() for x in (found, fair))
        assert off <= 1.5 * allowed
