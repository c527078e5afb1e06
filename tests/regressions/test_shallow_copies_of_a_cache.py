"""A shallow copy of a KVCache wrote its new keys into the same buffer, over those of the other."""

import copy

import torch

from headwise.nn import KVCache


def test_a_shallow_copy_goes_its_own_way() -> None:
    cache = KVCache()
    for n in (4, 1):
        cache.append(torch.randn(1, 2, n, 4), torch.randn(1, 2, n, 4))
    other = copy.copy(cache)
    one, two = torch.ones(1, 2, 1, 4), torch.full((1, 2, 1, 4), 2.0)
    mine, _ = cache.append(one, one)
    theirs, _ = other.append(two, two)
    assert torch.equal(mine[:, :, 5:], one)
    assert torch.equal(theirs[:, :, 5:], two)
    assert torch.equal(mine[:, :, :5], theirs[:, :, :5])
