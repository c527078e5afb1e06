"""kv_heads=2 is a natural slip (a module's kv_heads is a number) and was a bare TypeError."""

from __future__ import annotations

import pytest
import torch

import headwise as hw


def test_the_error_says_what_it_is() -> None:
    q, k = torch.zeros(1, 4, 3, 2), torch.zeros(1, 2, 3, 2)
    with pytest.raises(hw.SpecError, match="attention: kv_heads is 2; it is a list of H=4 ints"):
        hw.attention(q, k, k, kv_heads=2)  # type: ignore[arg-type]
    with pytest.raises(hw.SpecError, match="Pattern: kv_heads is 2; it is a list of H=4 ints"):
        hw.Pattern(q, k, kv_heads=2)  # type: ignore[arg-type]
