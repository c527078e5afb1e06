"""A cache belongs to one module: another that comes is one sentence, an empty cache and a copy are anybody's."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import nn

from headwise.errors import SpecError
from headwise.nn import Cache, KVCache, PagedCache, QuantisedCache, RingCache, StaticCache

KINDS: dict[str, Callable[[], Cache]] = {
    "growing": KVCache,
    "static": lambda: StaticCache(9),
    "ring": lambda: RingCache(3, sinks=1),
    "pages": lambda: PagedCache(page_size=2),
    "eight bits": QuantisedCache,
}


class Layer(nn.Module):
    """Appends as a layer does."""

    def forward(self, x: torch.Tensor, cache: Cache) -> torch.Tensor:
        cache.serve(self)
        with cache.appending(x, x):
            return x + cache.length


def some(n: int = 3) -> torch.Tensor:
    return torch.randn(2, 1, n, 4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_module_is_one_sentence(kind: str) -> None:
    cache, one, two = KINDS[kind](), Layer(), Layer()
    one(some(), cache)
    then = cache.k.clone()
    says = rf"{type(cache).__name__}: it holds 3 tokens of another Layer; .* Give each layer a cache of its own"
    with pytest.raises(SpecError, match=says):
        two(some(), cache)
    assert torch.equal(cache.k, then)
    one(some(1), cache)
    assert cache.length == 4


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_cache_is_anybodys(kind: str) -> None:
    for empty in (lambda cache: cache.reset(), lambda cache: cache.crop(0)):
        cache, one, two = KINDS[kind](), Layer(), Layer()
        cache.serve(one)  # in a call that failed then, say
        two(some(), cache)
        empty(cache)
        one(some(), cache)
        with pytest.raises(SpecError, match="another Layer"):
            two(some(), cache)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))])
def test_a_copy_serves_nobody(kind: str, copied: Callable[[Cache], Cache]) -> None:
    cache, one, two = KINDS[kind](), Layer(), Layer()
    one(some(), cache)
    other = copied(cache)
    two(some(1), other)
    with pytest.raises(SpecError, match="another Layer"):
        one(some(1), other)
    one(some(1), cache)


def test_a_module_that_is_gone_is_not_waited_for() -> None:
    cache = KVCache()
    Layer()(some(), cache)
    gc.collect()
    Layer()(some(), cache)
    assert cache.length == 6


@pytest.mark.parametrize("kind", KINDS)
def test_batch_is_none_while_nothing_is_held(kind: str) -> None:
    cache = KINDS[kind]()
    assert cache.batch is None
    cache.append(some(), some())
    assert cache.batch == 2
    cache.reorder([1, 1, 0])
    assert cache.batch == 3
    cache.crop(0)
    assert cache.batch is None


def test_in_a_compiled_call() -> None:
    cache, layer = KVCache(), Layer()
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    with torch.no_grad():
        compiled(some(), cache)
        compiled(some(), cache)
    assert cache.length == 6
    with pytest.raises(SpecError, match="another Layer"):
        Layer()(some(), cache)
