"""Numbers below the smallest normal one are numbers, except where a processor's bf16 product takes them for 0."""

from __future__ import annotations

import pytest
import torch

import headwise as hw

kernels = pytest.importorskip("headwise._native", reason="built without native kernels; make native")

FLUSHES = kernels.isa() == "avx512_bf16"  # as NOTATION says
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SIZES = [(1, 1), (1, 40), (40, 40), (300, 300)]


def subnormal(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).smallest_normal / 4


def zeros(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(1, 1, *shape, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("width", [4, 5, 64])
def test_values(width: int, sizes: tuple[int, int], dtype: torch.dtype) -> None:
    (T, S), tiny = sizes, subnormal(dtype)
    q, k = zeros(T, width, dtype=dtype), zeros(S, width, dtype=dtype)
    v = torch.full_like(k, tiny)
    assert float(v[0, 0, 0, 0]) == tiny
    found = hw.attention(q, k, v, backend="native")
    lost = FLUSHES and dtype == torch.bfloat16
    want = torch.full_like(found, 0.0 if lost else tiny)
    torch.testing.assert_close(
        found.float(), want.float(), rtol=1e-2, atol=0
    )  # a hundredth: subnormals have few digits


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("width", [4, 5, 64])
@pytest.mark.parametrize("small", ["keys", "queries"])
def test_scores(small: str, width: int, sizes: tuple[int, int], dtype: torch.dtype) -> None:
    (T, S), tiny = sizes, subnormal(dtype)
    q, k = zeros(T, width, dtype=dtype), zeros(S, width, dtype=dtype)
    few, many = (k, q) if small == "keys" else (q, k)
    few[..., 0], many[..., 0] = tiny, 0.5 / tiny if dtype != torch.float16 else 2.0**15
    want = float(few[0, 0, 0, 0]) * float(many[0, 0, 0, 0])
    found = hw.attend(q, k, k, scale=1.0, backend="native", observe=[hw.MaxLogit()]).seen["max_logit"]
    lost = FLUSHES and dtype == torch.bfloat16 and width % 2 == 0  # an odd width does not go in pairs
    torch.testing.assert_close(found, torch.full_like(found, 0.0 if lost else want), rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [4, 5])
def test_gradients_of_values(width: int, dtype: torch.dtype) -> None:
    tiny = subnormal(dtype)
    x, v = zeros(3, width, dtype=dtype), zeros(1, width, dtype=dtype).requires_grad_()
    hw.attention(x, v.detach(), v, backend="native").backward(torch.full_like(x, tiny))
    lost = FLUSHES and dtype == torch.bfloat16 and width % 2 == 0
    want = torch.full((1, 1, 1, width), 0.0 if lost else 3 * tiny)
    assert v.grad is not None
    torch.testing.assert_close(v.grad.float(), want, rtol=1e-2, atol=0)


@pytest.mark.parametrize("backend", ["reference", "blocked", "sdpa"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_on_other_backends(dtype: torch.dtype, backend: str) -> None:
    tiny, q = subnormal(dtype), zeros(40, 4, dtype=dtype)
    found = hw.attention(q, q, torch.full_like(q, tiny), backend=backend)
    torch.testing.assert_close(found.float(), torch.full_like(found, tiny).float(), rtol=1e-2, atol=0)
