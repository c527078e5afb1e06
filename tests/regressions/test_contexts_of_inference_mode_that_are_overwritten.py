"""A context of inference mode that was overwritten in place was taken for the same: the keys read were the old ones."""

import pytest
import torch

import headwise as hw


@pytest.mark.parametrize("inference", [False, True])
def test_overwritten_is_another_context(inference: bool) -> None:
    layer = hw.MultiHeadAttention(8, 2)
    x = torch.randn(1, 1, 8)
    with torch.no_grad(), torch.inference_mode(inference):
        context, cache = torch.randn(1, 4, 8), hw.nn.KVCache()
        context[0, 0, 0] = float("nan")  # is still what it was
        layer(x, context, cache=cache)
        layer(x, context, cache=cache)
        context[0, 1] += 1
        with pytest.raises(hw.SpecError, match="this cache holds the keys of another context"):
            layer(x, context, cache=cache)


def test_a_view_of_another_layout() -> None:
    with torch.inference_mode():
        context = torch.randn(4, 1, 8).transpose(0, 1)
        cache = hw.nn.KVCache()
        cache.append(torch.randn(1, 2, 4, 4), torch.randn(1, 2, 4, 4))
        cache.remember(context)
        assert cache.holds(context)
