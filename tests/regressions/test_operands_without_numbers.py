"""One operand on meta, and a call gave numbers of memory that nobody wrote; zeros without memory crashed it."""

from __future__ import annotations

import pytest
import torch

import headwise as hw

OPERANDS = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("backend", [None, "native", "blocked"])
def test_one_on_meta_is_refused(which: int, backend: str | None) -> None:
    operands = [x.to("meta") if n == which else x for n, x in enumerate(OPERANDS)]
    with pytest.raises(hw.errors.ShapeError, match="all operands live on one device"):
        hw.attention(*operands, backend=backend)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("mask", [None, hw.Padding(torch.tensor([3]))])
def test_zeros_that_have_no_memory(which: int, mask: hw.Mask | None) -> None:
    given = [torch._efficientzerotensor(x.shape) if n == which else x for n, x in enumerate(OPERANDS)]
    plain = [torch.zeros_like(x) if n == which else x for n, x in enumerate(OPERANDS)]
    torch.testing.assert_close(hw.attention(*given, mask=mask), hw.attention(*plain, mask=mask), rtol=0, atol=0)
