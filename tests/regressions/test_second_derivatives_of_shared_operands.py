"""With create_graph, operands made from one another had the paths between them counted twice."""

import pytest
import torch
from native_here import NATIVE

import headwise as hw


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    """What is counted twice is off by a half; float32 through the softmax's cancellations is not off by that much."""
    off = 1e-4 if found.dtype == torch.float32 else 1e-7
    torch.testing.assert_close(found, wanted, rtol=off, atol=off)


def numbers(*shape: int, backend: str) -> torch.Tensor:
    dtype = torch.float32 if backend == "native" else torch.float64
    return torch.randn(shape, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("backend", ["reference", "blocked", NATIVE, "sdpa"])
def test_one_tensor_as_query_key_and_value(backend: str):
    x = numbers(1, 2, 5, 4, backend=backend)
    out = hw.attention(x, x, x, mask=hw.Causal(), backend=backend).square().sum()
    (once,) = torch.autograd.grad(out, x, retain_graph=True)
    (again,) = torch.autograd.grad(out, x, create_graph=True)
    close(again, once)
    reference = hw.attention(x, x, x, mask=hw.Causal(), backend="reference").square().sum()
    (wanted,) = torch.autograd.grad(reference, x, create_graph=True)
    found = torch.autograd.grad(again.sin().sum(), x)[0]
    close(found, torch.autograd.grad(wanted.sin().sum(), x)[0])


@pytest.mark.parametrize("backend", ["blocked", NATIVE, "sdpa"])
def test_operands_that_are_functions_of_each_other(backend: str):
    x = numbers(1, 1, 5, 4, backend=backend)

    def loss(name: str) -> torch.Tensor:
        q = x * 2
        k = q * 0.5
        return hw.attention(q, k, x + q, backend=name).square().sum()

    (wanted,) = torch.autograd.grad(loss("reference"), x)
    (found,) = torch.autograd.grad(loss(backend), x, create_graph=True)
    close(found, wanted)
