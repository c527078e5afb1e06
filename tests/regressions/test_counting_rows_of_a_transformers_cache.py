"""To count the rows of a batch all keys were gathered from their pages; of an empty layer none could be selected."""

from collections.abc import Callable

import pytest
import torch
from transformers.cache_utils import DynamicCache

from headwise.models.adapter import TransformersCache
from headwise.nn import Cache, KVCache, PagedCache, QuantisedCache
from headwise.spec import Paged, Quantised

MAKES: list[Callable[[], Cache]] = [KVCache, PagedCache, QuantisedCache]


@pytest.mark.parametrize("make", MAKES)
def test_rows_are_counted_where_they_lie(make: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch) -> None:
    cache = TransformersCache(make)
    cache.update(torch.randn(2, 1, 3, 4), torch.randn(2, 1, 3, 4), 0)
    for kind in (Paged, Quantised):
        monkeypatch.setattr(kind, "dense", None)
    cache.batch_repeat_interleave(2)
    cache.batch_select_indices(torch.tensor([3, 0, 1]))
    assert cache.layers[0].cache.batch == 3


@pytest.mark.parametrize("make", [*MAKES, None])
def test_of_an_empty_layer(make: Callable[[], Cache] | None) -> None:
    cache = DynamicCache() if make is None else TransformersCache(make)
    cache.update(torch.randn(2, 1, 3, 4), torch.randn(2, 1, 3, 4), 0)
    cache.reset()
    cache.batch_select_indices(torch.tensor([1]))
    assert make is None or cache.layers[0].cache.batch is None
