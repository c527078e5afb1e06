"""A row of NaN came out as 0 from the reference where all of its cells were dropped: a NaN that is seen stays a NaN."""

from __future__ import annotations

import pytest
import torch
from native_here import NATIVE

import headwise as hw


@pytest.mark.parametrize("backend", ["reference", "blocked", NATIVE])
def test_a_dropped_nan_is_still_a_nan(backend: str) -> None:
    q, v = torch.zeros(1, 1, 64, 2), torch.ones(1, 1, 1, 2)
    torch.manual_seed(0)
    out = hw.attention(q, torch.full((1, 1, 1, 2), float("nan")), v, dropout=0.5, backend=backend)
    assert bool(out.isnan().all())
