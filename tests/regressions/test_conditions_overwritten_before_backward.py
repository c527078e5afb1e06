"""A mask or q_start that was overwritten between forward and backward gave wrong gradients without a word."""

import pytest
import torch
from native_here import NATIVE

import headwise as hw


@pytest.mark.parametrize("backend", ["blocked", NATIVE, "sdpa"])
def test_a_length_that_moves_on_is_noticed(backend: str):
    x = torch.randn(2, 1, 4, 4, requires_grad=True)
    lengths = torch.tensor([2, 4])
    out = hw.attention(x, x, x, mask=hw.Padding(lengths), backend=backend)
    lengths += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("backend", ["blocked", NATIVE])
def test_positions_that_move_on_are_noticed(backend: str):
    x = torch.randn(2, 1, 4, 4, requires_grad=True)
    q_start = torch.tensor([0, 1])
    out = hw.attention(x, x, x, mask=hw.Causal() & hw.Window(1), q_start=q_start, backend=backend)
    q_start += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_mask_made_in_inference_mode_is_copied_by_the_pattern():
    with torch.inference_mode():
        keep = torch.eye(3).bool()
    x = torch.zeros(1, 1, 3, 2)
    pattern = hw.Pattern(x, x, mask=hw.Dense(keep))
    with torch.inference_mode():
        keep.fill_(True)
    assert torch.equal(pattern[0, 0], torch.eye(3))
