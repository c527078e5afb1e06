"""A cache that the garbage collector took while its pool counted readers gave the pages they shared back twice."""

import copy
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from headwise.nn import PagedCache
from headwise.nn.pool import PagePool


class LetGo(TorchDispatchMode):
    """Empties a list at the n-th operation, as a collection may that runs there."""

    def __init__(self, caches: list[PagedCache], n: int) -> None:
        super().__init__()
        self.caches, self.n = caches, n

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.n -= 1
        if not self.n:
            self.caches.clear()
        return func(*args, **(kwargs or {}))


def tokens(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(1, 2, n, 4), torch.randn(1, 2, n, 4)


@pytest.mark.parametrize("n", range(1, 40))
def test_every_page_has_the_readers_it_has(n: int) -> None:
    pool = PagePool(page_size=2)
    one, two = PagedCache(pages=pool), PagedCache(pages=pool)
    one.append(*tokens(5))
    two.append(*tokens(5))
    dying = [copy.copy(two)]
    with LetGo(dying, n):
        two.reset()
        pool.used  # noqa: B018
        one.append(*tokens(2))
        one.crop(4)
        one.reorder([0])
    dying.clear()
    assert pool.used == 2
    assert sorted(pool._free) == [page for page in range(len(pool._readers)) if not pool._readers[page]]
    three = PagedCache(pages=pool)
    then = one.k.clone()
    three.append(*tokens(9))
    assert torch.equal(one.k, then)
    del one, three
    assert pool.used == 0
