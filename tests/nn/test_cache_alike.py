"""What every kind of cache refuses alike, in one sentence and unchanged, and where it is open alike."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.errors import SpecError
from headwise.nn import Cache, KVCache, PagedCache, PagePool, QuantisedCache, RingCache, StaticCache

KINDS: dict[str, Callable[[], Cache]] = {
    "growing": KVCache,
    "static": lambda: StaticCache(30),
    "ring": lambda: RingCache(4),
    "ring of one": lambda: RingCache(1),
    "ring and sinks": lambda: RingCache(3, sinks=2),
    "pages": lambda: PagedCache(page_size=3),
    "eight bits": QuantisedCache,
}


def some(n: int, batch: int = 2, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(batch, 1, n, 4, dtype=dtype, device="cpu")


@contextmanager
def unchanged(cache: Cache) -> Iterator[None]:
    then = cache.length, cache.k.clone(), cache.v.clone()
    yield
    assert cache.length == then[0]
    assert torch.equal(cache.k, then[1])
    assert torch.equal(cache.v, then[2])


@pytest.fixture(params=list(KINDS))
def cache(request: pytest.FixtureRequest) -> Cache:
    """Seven tokens of two rows."""
    made = KINDS[request.param]()
    for n in (5, 1, 1):
        made.append(some(n), some(n))
    return made


ROWS: dict[str, Any] = {
    "floats": [0.9, 1.2],
    "a float": [1.0],
    "truths": [True, False],
    "tensors of truths": [torch.tensor(True)],
    "letters": "ab",
    "beyond int64": [2**70],
    "lists": [[0], [1]],
    "a number": 1,
    "nothing": None,
    "a float tensor": torch.tensor([0.0]),
    "a tensor of one number": torch.tensor(1),
}


@pytest.mark.parametrize("rows", ROWS)
def test_rows_are_whole_numbers(cache: Cache, rows: str) -> None:
    with unchanged(cache), pytest.raises(SpecError, match=r"\.reorder: rows is .*; it is a list of integers, \[B'\]"):
        cache.reorder(ROWS[rows])


@pytest.mark.parametrize(
    "rows", [[1, 0, 1], (1, 0, 1), [torch.tensor(1), 0, 1], torch.tensor([1, 0, 1], dtype=torch.uint8)]
)
def test_rows_in_every_spelling(cache: Cache, rows: Any) -> None:
    then = cache.k.clone()
    cache.reorder(rows)
    assert torch.equal(cache.k, then[[1, 0, 1]])
    cache.reorder(row for row in (1, 0))
    assert torch.equal(cache.k, then[[0, 1]])
    cache.reorder([])
    assert cache.batch == 0


CHANGES: dict[str, Callable[[Cache], Any]] = {
    "appending": lambda cache: cache.append(some(2), some(2)),
    "crop": lambda cache: cache.crop(6),
    "reorder": lambda cache: cache.reorder([1, 1]),
    "reset": lambda cache: cache.reset(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_cache_changes_in_no_other_way_while_it_appends(cache: Cache, change: str) -> None:
    says = rf"^{type(cache).__name__}\.{change}: this cache is in a block of appending"
    with unchanged(cache), pytest.raises(SpecError, match=says), cache.appending(some(1), some(1)):
        CHANGES[change](cache)
    CHANGES[change](cache)  # the block is over
    with pytest.raises(RuntimeError, match="a mask, say"), cache.appending(some(1), some(1)):
        raise RuntimeError("a mask, say")
    cache.append(some(1), some(1))


def test_the_block_goes_on_where_the_refusal_was_caught(cache: Cache) -> None:
    new, other = some(1), copy.deepcopy(cache)
    with cache.appending(new, new):
        for name, change in CHANGES.items():
            with pytest.raises(SpecError, match=name):
                change(cache)
    other.append(new, new)
    assert cache.length == other.length == 8
    assert torch.equal(cache.k, other.k) or torch.equal(cache.k.isnan(), other.k.isnan())


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))])
def test_a_copy_made_in_the_block_is_free(cache: Cache, copied: Callable[[Cache], Cache]) -> None:
    then = cache.k.clone()
    with cache.appending(some(1), some(1)):
        other = copied(cache)
        assert other.length == 7
        assert torch.equal(other.k, then)
        other.append(some(2), some(2))
    assert (cache.length, other.length) == (8, 9)


def test_a_block_that_was_left_open_is_over_when_it_is_let_go() -> None:
    cache = KVCache()
    block = cache.appending(some(1), some(1))
    block.__enter__()
    del block
    cache.append(some(2), some(2))
    assert cache.length == 2


EMPTIED: dict[str, Callable[[Cache], Any]] = {
    "reset": lambda cache: cache.reset(),
    "crop": lambda cache: cache.crop(0),
    "crop of all": lambda cache: cache.crop(-7),
    "no tokens": lambda cache: (cache.reset(), cache.append(some(0), some(0))),
}


@pytest.mark.parametrize("how", EMPTIED)
def test_an_empty_cache_is_open_to_any_batch(cache: Cache, how: str) -> None:
    EMPTIED[how](cache)
    assert (cache.length, cache.held, cache.batch, cache.k, cache.stored()) == (0, 0, None, None, None)
    cache.reorder([3, 1])  # there is nothing to say that no row 3 is there
    new = torch.randn(3, 2, 2, 6, dtype=torch.float64)
    got, _ = cache.append(new, new)
    torch.testing.assert_close(got, new, rtol=0, atol=0.05)
    assert cache.batch == 3


NUMBERS: dict[str, Any] = {
    "torch.int64": torch.ones(2, 1, 1, 4, dtype=torch.int64),
    "torch.bool": torch.ones(2, 1, 1, 4, dtype=torch.bool),
    "torch.complex64": torch.ones(2, 1, 1, 4, dtype=torch.complex64),
    "a list": [1.0],
    "a NoneType": None,
}


@pytest.mark.parametrize("says", NUMBERS)
def test_keys_and_values_are_float_tensors(cache: Cache, says: str) -> None:
    wrong = NUMBERS[says]
    for name, k, v in (("k", wrong, wrong), ("k", wrong, some(1)), ("v", some(1), wrong)):
        rule = rf"^{type(cache).__name__}: {name} is {says}; keys and values are float tensors"
        with unchanged(cache), pytest.raises(SpecError, match=rule):
            cache.append(k, v)
    cache.reset()
    with pytest.raises(SpecError, match="keys and values are float tensors"):
        cache.append(wrong, wrong)
    assert cache.length == 0


@pytest.mark.parametrize("pages", [3, True, "pool", KVCache()])
def test_pages_come_from_a_pool(pages: Any) -> None:
    with pytest.raises(SpecError, match=r"PagedCache: pages is .*; it is the pool that the pages come from"):
        PagedCache(pages=pages)


@pytest.mark.parametrize("kind", KINDS)
def test_a_default_device_is_that_of_no_cache(kind: str) -> None:
    cpu = {"device": "cpu"}
    with torch.device("meta"):
        cache = KINDS[kind]()
        for n in (5, 1, 1):
            k, _ = cache.append(some(n), some(n))
        cache.reorder([1, 0, 1])
        other, deep = copy.copy(cache), copy.deepcopy(cache)
        other.append(some(2, 3), some(2, 3))
        cache.crop(-1)
        with cache.appending(some(1, 3), some(1, 3)) as (keys, values):
            out = hw.attention(torch.zeros(3, 1, 1, 4, **cpu), keys, values)
        at = cache.key_positions(1)
        cache.reset()
        del other, deep
    assert k.is_cpu
    assert out.is_cpu
    assert at is None or at.is_cpu


def test_positions_lie_where_the_keys_lie() -> None:
    ring = RingCache(3, sinks=2)
    ring.append(*[torch.zeros(1, 1, 9, 4, device="meta")] * 2)
    assert ring.key_positions(1).is_meta


def test_a_pool_of_another_default_device() -> None:
    pool = PagePool(2, limit=6)
    with torch.device("meta"):
        one = PagedCache(pages=pool)
        one.append(some(3), some(3))
        assert pool.used == 4
        del one
    assert pool.used == 0


POSITIONS = {"positions": torch.arange(9, 10)}
KEYS = {"key_positions": torch.tensor([0, 7, 8, 9])}


@pytest.mark.parametrize("sinks", [0, 1])
def test_a_distance_is_told_from_both_ends_or_from_none(sinks: int) -> None:
    ring = RingCache(4 - sinks, sinks)
    half = [hw.Alibi(torch.ones(1), **POSITIONS), hw.Alibi(torch.ones(1), **KEYS)]
    for rule in half:
        assert ring.mask(None, (rule,)) is not None  # every token is still there
    ring.append(*[torch.zeros(1, 1, 9, 4)] * 2)
    for rule in half:
        with pytest.raises(SpecError, match=r"RingCache: the score rule Alibi .* positions of queries and keys, both"):
            ring.mask(None, (rule,))
    assert ring.mask(None, (hw.Alibi(torch.ones(1), **POSITIONS, **KEYS),)) is not None
    neither = (hw.Alibi(torch.ones(1)),)
    if not sinks:
        assert ring.mask(None, neither) is not None
        return
    with pytest.raises(SpecError, match="the score rule Alibi"):
        ring.mask(None, neither)


@pytest.mark.parametrize("sinks", [0, 1])
def test_a_layer_whose_rule_has_positions_of_its_own(sinks: int) -> None:
    """They are not overwritten, so they are refused once the ring has let go of keys."""
    rule = hw.Alibi(torch.ones(2), positions=torch.tensor([9]))
    layer, ring = hw.MultiHeadAttention(8, 2, scores=(rule,)).eval(), RingCache(4, sinks)
    ring.append(*[torch.zeros(1, 2, 9, 4)] * 2)
    with torch.no_grad(), unchanged(ring), pytest.raises(SpecError, match="RingCache: the score rule Alibi"):
        layer(torch.zeros(1, 1, 8), cache=ring)
