"""A TransformersCache took one cache for all its layers where make() gave the same object each time."""

import pytest
import torch
from transformers import LlamaConfig

from headwise.errors import SpecError
from headwise.models.adapter import TransformersCache
from headwise.nn import KVCache, PagedCache, PagePool

SIZES = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 16}
CONFIG = LlamaConfig(num_hidden_layers=3, **SIZES)


def test_layers_that_are_made_at_once() -> None:
    one = KVCache()
    with pytest.raises(
        SpecError, match=r"make\(\) gave KVCache\(S=0\) for a second layer; it gives a new, empty cache"
    ):
        TransformersCache(lambda: one, CONFIG)


def test_layers_that_are_made_as_they_come() -> None:
    one, k = KVCache(), torch.zeros(1, 2, 3, 4)
    cache = TransformersCache(lambda: one)
    with pytest.raises(SpecError, match="for a second layer"):
        cache.update(k, k, 1)
    assert one.length == 0


def test_caches_that_share_a_pool_are_as_many() -> None:
    pool = PagePool(2)
    cache = TransformersCache(lambda: PagedCache(pages=pool), CONFIG)
    assert len({id(layer.cache) for layer in cache.layers}) == 3
