"""Caches of one pool in several threads took the same page, or lost what another wrote while the pool grew."""

import copy
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from headwise.nn import PagedCache
from headwise.nn.pool import PagePool


def work(pool: PagePool, seed: int) -> None:
    numbers = torch.Generator().manual_seed(seed)
    cache, whole = PagedCache(pages=pool), torch.empty(1, 2, 0, 4)
    for step in range(60):
        k = torch.randn(1, 2, 1 + step % 5, 4, generator=numbers)
        whole = torch.cat((whole, k), 2)
        got, _ = cache.append(k, k)
        assert torch.equal(got, whole)
        if step % 4 == 3:
            cache = copy.copy(cache)
        if step % 3 == 2:
            cache.crop(max(cache.length - 4, 0))
            whole = whole[:, :, : cache.length]
        if step % 20 == 19:
            cache.reset()
            whole = whole[:, :, :0]


@pytest.fixture
def hasty() -> object:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_each_reads_its_own() -> None:
    for _ in range(3):
        pool = PagePool(page_size=2)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(work, [pool] * 4, range(4)))
        assert pool.used == 0
        assert sorted(pool._free) == list(range(len(pool._readers)))
