"""A copy of a cache of one token held every page that its pool may have, and a file what happened to lie in memory."""

import copy
import pickle

import pytest
import torch

from headwise.errors import ShapeError
from headwise.nn import PagedCache
from headwise.nn.pool import PagePool


def test_only_its_pages_are_copied_and_the_limit_stays() -> None:
    pool = PagePool(page_size=4, limit=1000)
    cache = PagedCache(pages=pool)
    k = torch.randn(1, 2, 1, 64)
    cache.append(k, k)
    written = pickle.dumps(cache)
    assert len(written) < 20_000
    for made in (copy.deepcopy(cache), pickle.loads(written)):
        assert torch.equal(made.k, cache.k)
        assert (made.pool.limit, made.pool.used, len(made.pool.tensors()[0])) == (1000, 1, 1)
        made.append(k.expand(1, 2, 8, 64), k.expand(1, 2, 8, 64))
        assert torch.equal(made.k, k.expand(1, 2, 9, 64))
        with pytest.raises(ShapeError, match="1000 more pages are wanted, 997 of 1000 are free"):
            made.append(k.expand(1, 2, 4000, 64), k.expand(1, 2, 4000, 64))
        assert made.length == 9


def test_a_file_that_is_read_in_inference_mode_goes_on_outside() -> None:
    cache = PagedCache(page_size=2)
    k = torch.randn(1, 2, 3, 4)
    cache.append(k, k)
    with torch.inference_mode():
        made = pickle.loads(pickle.dumps(cache))
    made.append(k, k)
    made.reorder([0, 0])
    assert torch.equal(made.k, torch.cat((k, k), 2).expand(2, -1, -1, -1))
