"""Keys in pages or eight bits: zeros without memory crashed the process, a table that was changed after its check was
read outside of the pool, remembered signs of scales were forgotten, and gradients of a pool were cut off silently."""

from __future__ import annotations

import pytest
import torch

import headwise as hw

NUMBERS = torch.randint(-127, 127, (1, 2, 5, 8), dtype=torch.int8)


def q() -> torch.Tensor:
    return torch.randn(1, 4, 3, 8)


def table() -> torch.Tensor:
    return torch.tensor([[0, 1]], dtype=torch.int32)


def test_zeros_without_memory() -> None:
    plain, x = torch.ones(1, 2, 5, 8), q()
    zeros = torch._efficientzerotensor((4, 2, 4, 8))
    want = hw.attention(x, torch.zeros(1, 2, 5, 8), plain)
    torch.testing.assert_close(hw.attention(x, hw.Paged(zeros, table(), 5), plain), want)
    nothing = torch._efficientzerotensor((1, 2, 5, 8), dtype=torch.int8)
    torch.testing.assert_close(hw.attention(x, hw.Quantised(nothing, torch.ones(1, 2, 5)), plain), want)


@pytest.mark.parametrize("page", [2**30, -1, 4])
def test_a_table_that_was_changed_since(page: int) -> None:
    pages = table()
    keys = hw.Paged(torch.randn(4, 2, 4, 8), pages, 5)
    pages.fill_(page)
    for call in (hw.attention, hw.attend):
        with pytest.raises(hw.ShapeError, match=rf"the table names pages {page} to {page}; the pool has pages 0 to 3"):
            call(q(), keys, keys)


def test_signs_that_are_only_remembered() -> None:
    scales, x = torch.rand(1, 2, 5), q()
    remembered, written = hw.Quantised(NUMBERS, torch._neg_view(scales)), hw.Quantised(NUMBERS, -scales)
    want = hw.attention(x, written, written)
    torch.testing.assert_close(hw.attention(x, remembered, remembered), want, atol=1e-6, rtol=1e-6)


def test_gradients_of_what_is_stored() -> None:
    pool = torch.randn(4, 2, 4, 8, requires_grad=True)
    keys = hw.Paged(pool, table(), 5)
    hw.attention(q(), keys, keys).sum().backward()
    assert pool.grad is not None
    scales = torch.rand(1, 2, 5, requires_grad=True)
    small = hw.Quantised(NUMBERS, scales)
    hw.attention(q(), small, torch.randn(1, 2, 5, 8)).sum().backward()
    assert scales.grad is not None


def test_dilated_windows_over_pages_are_the_same_bits() -> None:
    torch.manual_seed(0)
    x, k = torch.randn(1, 4, 300, 8), torch.randn(1, 2, 304, 8)
    keys = hw.Paged(k.view(1, 2, 76, 4, 8).transpose(1, 2)[0].contiguous(), torch.arange(76).int()[None], 304)
    mask = hw.masks.dilated(5, 3)
    want = hw.attention(x, k, k, mask=mask)
    assert torch.equal(hw.attention(x, keys, keys, mask=mask), want)
    assert torch.equal(hw.attend(x, keys, keys, mask=mask).out, want)
