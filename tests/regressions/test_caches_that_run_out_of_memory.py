"""Where memory ended in the midst of a change, pages were lost, a ring had another length, keys other rows than values.

Here it ends at each allocation in turn, of whatever changes a cache, and the cache is as it was.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headwise.nn import Cache, KVCache, PagedCache, QuantisedCache, RingCache, StaticCache


class OutOfMemory(TorchDispatchMode):
    """Fails at the n-th operation that makes new memory."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        given, made = ({x.untyped_storage()._cdata for x in tree_leaves(them) if isinstance(x, Tensor)}
                       for them in ((args, kwargs), out))  # fmt: skip
        self.n -= bool(made - given)
        if made - given and not self.n:
            raise MemoryError
        return out


def pair(n: int) -> tuple[Tensor, Tensor]:
    return torch.randn(3, 2, n, 4), torch.randn(3, 2, n, 5)


KINDS: dict[str, Callable[[], Cache]] = {
    "growing": KVCache,
    "static": lambda: StaticCache(40),
    "ring": lambda: RingCache(4),
    "ring and sinks": lambda: RingCache(3, sinks=2),
    "pages": lambda: PagedCache(page_size=4),
    "eight bits": QuantisedCache,
}
CHANGES: dict[str, Callable[[Cache], object]] = {
    "a token": lambda cache: cache.append(*pair(1)),
    "many": lambda cache: cache.append(*pair(17)),
    "crop": lambda cache: cache.crop(-2),
    "reorder": lambda cache: cache.reorder([2, 0, 0]),
    "batch": lambda cache: cache.reorder([1, 2]),
}


def held(cache: Cache) -> tuple[Tensor, Tensor]:
    return cache.k.clone(), cache.v.clone()


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_cache_is_as_it_was(kind: str, change: str) -> None:
    for n in range(1, 200):
        torch.manual_seed(0)
        cache = KINDS[kind]()
        for more in (3, 2, 1):
            cache.append(*pair(more))
        cache.reorder([0, 0, 1])  # pages are shared
        length, then = cache.length, held(cache)
        used = cache.pool.used if isinstance(cache, PagedCache) else 0
        try:
            with OutOfMemory(n):
                CHANGES[change](cache)
        except MemoryError:
            pass
        else:
            assert n > 1 or change == "crop"  # some keep less by looking at less
            return
        assert cache.length == length
        assert all(torch.equal(*both) for both in zip(held(cache), then, strict=True))
        assert not isinstance(cache, PagedCache) or cache.pool.used == used
        k, v = pair(1)
        got, _ = cache.append(k, v)
        assert torch.equal(got[:, :, :-1], then[0])
        assert kind == "eight bits" or torch.equal(got[:, :, -1:], k)
