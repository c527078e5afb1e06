"""An int beyond all floats as scale was a raw OverflowError; the least int64 as q_start passed a check by its abs()."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import headwise as hw

GIVEN: list[tuple[dict[str, Any], str]] = [
    ({"scale": 10**400}, "it is a finite number"),
    ({"q_start": torch.tensor([-(2**63)])}, "a position lies between"),
    ({"q_start": torch.tensor([2**63 - 1])}, "a position lies between"),
    ({"kv_heads": [True, False]}, "it is a list of H=2 ints"),
]


@pytest.mark.parametrize(("options", "said"), GIVEN)
def test_they_are_refused_in_words(options: dict[str, Any], said: str) -> None:
    with pytest.raises(hw.errors.SpecError, match=said):
        hw.attention(torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4), **options)
