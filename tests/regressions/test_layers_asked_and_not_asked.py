"""Differential attention dropped other cells when it was asked for its pattern; eight-bit keys of half-precision
queries were rounded in one way and not in the other; multi-axis rotations never reached the kernels."""

import pytest
import torch

import headwise as hw
from headwise.nn import Axes, DifferentialAttention, QuantisedCache, Rotary


def test_the_same_cells_drop() -> None:
    layer = DifferentialAttention(16, 2, dropout=0.5).train()
    x, found = torch.randn(2, 6, 16), []
    for call in (layer, lambda x: layer.attend(x).out):
        torch.manual_seed(3)
        found.append(call(x))
    assert torch.equal(*found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_eight_bits_are_the_same_bits(dtype: torch.dtype) -> None:
    layer = hw.MultiHeadAttention(64, 4, 2, mask=hw.Causal(), dtype=dtype).eval()
    x = torch.randn(2, 9, 64).to(dtype)
    with torch.no_grad():
        outs = []
        for call in (layer, lambda x, cache: layer.attend(x, cache=cache).out):
            cache = QuantisedCache()
            outs.append(torch.cat([call(x[:, :8], cache=cache), call(x[:, 8:], cache=cache)], 1))
    assert torch.equal(*outs)


def test_angles_of_several_axes_lie_as_the_kernels_read_them() -> None:
    cos, sin = Rotary(axes=Axes((2, 2), "own")).angles(torch.arange(10).view(2, 5), torch.zeros(1, 1, 5, 8))
    assert cos.is_contiguous()
    assert sin.is_contiguous()
