"""explain() of a call with dropout took a seed from torch's generator, so asking changed what the call then dropped."""

from __future__ import annotations

import torch

import headwise as hw


def test_explain_leaves_the_generator_alone() -> None:
    x = torch.randn(1, 2, 5, 4)
    torch.manual_seed(0)
    dropped = hw.attention(x, x, x, dropout=0.5)
    torch.manual_seed(0)
    hw.explain(x, x, x, dropout=0.5)
    assert torch.equal(hw.attention(x, x, x, dropout=0.5), dropped)
