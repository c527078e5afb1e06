"""With create_graph, operands made from one another had the paths between them counted twice."""

import pytest
import torch

import headwise as hw


@pytest.mark.parametrize("backend", ["reference", "blocked", "sdpa"])
def test_one_tensor_as_query_key_and_value(backend: str):
    x = torch.randn(1, 2, 5, 4, dtype=torch.float64, requires_grad=True)
    out = hw.attention(x, x, x, mask=hw.Causal(), backend=backend).square().sum()
    (once,) = torch.autograd.grad(out, x, retain_graph=True)
    (again,) = torch.autograd.grad(out, x, create_graph=True)
    torch.testing.assert_close(again, once)
    reference = hw.attention(x, x, x, mask=hw.Causal(), backend="reference").square().sum()
    (wanted,) = torch.autograd.grad(reference, x, create_graph=True)
    found = torch.autograd.grad(again.sin().sum(), x)[0]
    torch.testing.assert_close(found, torch.autograd.grad(wanted.sin().sum(), x)[0])


@pytest.mark.parametrize("backend", ["blocked", "sdpa"])
def test_operands_that_are_functions_of_each_other(backend: str):
    x = torch.randn(1, 1, 5, 4, dtype=torch.float64, requires_grad=True)

    def loss(name: str) -> torch.Tensor:
        q = x * 2
        k = q * 0.5
        return hw.attention(q, k, x + q, backend=name).square().sum()

    (wanted,) = torch.autograd.grad(loss("reference"), x)
    (found,) = torch.autograd.grad(loss(backend), x, create_graph=True)
    torch.testing.assert_close(found, wanted)
