"""A tree of no drafted tokens beside another mask raised an IndexError: it has nothing to say, and says it."""

from __future__ import annotations

import pytest
import torch

import headwise as hw


@pytest.mark.parametrize("backend", [None, "blocked", "reference"])
@pytest.mark.parametrize("S", [0, 11])
def test_a_tree_of_no_tokens(backend: str | None, S: int) -> None:
    q, k = torch.randn(2, 3, 0, 4), torch.randn(2, 3, S, 4)
    mask = (hw.Tree([]) & hw.Dense(torch.ones(1, 1, 0, 1) > 0)) | hw.Window(2)
    assert hw.attention(q, k, k, mask=mask, backend=backend).shape == (2, 3, 0, 4)
    assert hw.attention(q, k, k, mask=hw.Tree([]), backend=backend).shape == (2, 3, 0, 4)
