"""A mask that is one row or one column for all came to Offsets unexpanded, and its counts were those of one row."""

from __future__ import annotations

import pytest
import torch

import headwise as hw


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1), (6,), (2, 1, 1, 6), (2, 1, 6, 1)])
@pytest.mark.parametrize("backend", ["reference", "blocked"])
def test_offsets_count_every_row(shape: tuple[int, ...], backend: str) -> None:
    x = torch.zeros(2, 1, 6, 4, dtype=torch.float64)
    keep = torch.ones(shape, dtype=torch.bool)
    got = hw.attend(x, x, x, mask=hw.Dense(keep), backend=backend, observe=[hw.Offsets(3)]).seen["offsets"]
    assert torch.allclose(got, torch.full((2, 1, 4), 1 / 6, dtype=torch.float64))
