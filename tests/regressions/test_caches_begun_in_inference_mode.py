"""A KVCache begun in inference mode refused to grow outside of it, where torch lets nobody write its buffer."""

import pytest
import torch

from headwise.nn import KVCache


@pytest.mark.parametrize("modes", [(True, True, False, False, True), (False, False, True, True, False)])
def test_a_cache_goes_on_in_another_mode(modes: tuple[bool, ...]) -> None:
    cache, pieces = KVCache(), []
    for mode, n in zip(modes, (6, 1, 1, 1, 1), strict=True):  # from the second on there is room in the buffer
        with torch.inference_mode(mode), torch.no_grad():
            pieces.append(torch.randn(1, 2, n, 4))
            held, _ = cache.append(pieces[-1], pieces[-1])
        assert torch.equal(held, torch.cat(pieces, 2))
