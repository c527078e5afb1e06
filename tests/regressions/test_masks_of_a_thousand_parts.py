"""Bounds of many masks are crossed two by two: a thousand calls inside each other are more than Python has."""

from __future__ import annotations

import functools
import operator

import pytest
import torch

import headwise as hw


@pytest.mark.parametrize("cross", [operator.or_, operator.and_], ids=["or", "and"])
def test_a_thousand_masks(cross: object) -> None:
    x = torch.randn(1, 1, 6, 4)
    parts = [hw.Window(n % 5, 3) for n in range(1000)]
    mask = functools.reduce(cross, parts)  # type: ignore[arg-type]
    want = hw.Window(4, 3) if cross is operator.or_ else hw.Window(0, 3)
    torch.testing.assert_close(hw.Pattern(x, x, mask=mask).to_dense(), hw.Pattern(x, x, mask=want).to_dense())
    torch.testing.assert_close(hw.attention(x, x, x, mask=mask), hw.attention(x, x, x, mask=want))
