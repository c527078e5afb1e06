"""Pages: rows and caches share them, copy what they write, and give back what nobody reads."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError
from headwise.nn.paged import PagedCache
from headwise.nn.pool import PagePool
from headwise.spec import Paged


def tokens(n: int, batch: int = 1, width: int = 4) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, 2, n, width), torch.randn(batch, 2, n, 3)


def looked_up(pages: Paged) -> Tensor:
    """Token by token through the table."""
    size = pages.page_size
    rows = [
        torch.stack([pages.pool[row[j // size], :, j % size] for j in range(pages.length)], 1)
        for row in pages.table.tolist()
    ]
    return torch.stack(rows)


@pytest.mark.parametrize("size", [1, 3, 16])
def test_the_table_says_where_everything_lies(size: int) -> None:
    cache = PagedCache(page_size=size)
    assert cache.stored() is None
    for n in (5, 1, 3, 1, 7):
        k, v = cache.append(*tokens(n, 2))
        for pages, whole in zip(cache.stored(), (k, v), strict=True):
            assert pages.table.dtype == torch.int32
            assert pages.table.shape == (2, -(-cache.length // size))
            assert torch.equal(looked_up(pages), whole)
    assert cache.pool.used == 2 * -(-17 // size)


def test_rows_that_went_on_from_one_share_its_pages() -> None:
    cache = PagedCache(page_size=4)
    cache.append(*tokens(10))
    before = cache.k.clone()
    cache.reorder([0, 0, 0])
    assert cache.pool.used == 3
    k, v = tokens(1, 3)
    got, _ = cache.append(k, v)
    assert torch.equal(got, torch.cat((before.expand(3, -1, -1, -1), k), 2))
    assert cache.pool.used == 2 + 3  # the full pages are one, the page that was written is three
    cache.append(*tokens(1, 3))
    assert cache.pool.used == 2 + 3
    cache.reorder([2])
    assert cache.pool.used == 3
    assert torch.equal(cache.k[:, :, :11], got[2:])


def test_a_copy_shares_pages_until_either_writes() -> None:
    one = PagedCache(page_size=4)
    one.append(*tokens(6))
    two = copy.copy(one)
    assert (two.pool is one.pool, one.pool.used) == (True, 2)
    then = two.k.clone()
    one.append(*tokens(1))
    assert one.pool.used == 3
    assert torch.equal(two.k, then)
    two.append(*tokens(3))
    assert torch.equal(two.k[:, :, :6], then)
    assert one.pool.used == 4
    del one
    assert two.pool.used == 3
    two.crop(5)
    three = copy.copy(two)
    two.append(*tokens(1))
    assert torch.equal(three.k, then[:, :, :5])
    assert torch.equal(two.k[:, :, :5], then[:, :, :5])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))])
def test_a_deep_copy_has_a_pool_of_its_own_and_shares_in_it(copied: object) -> None:
    pool = PagePool(page_size=4)
    other, cache = PagedCache(pages=pool), PagedCache(pages=pool)
    other.append(*tokens(20))
    cache.append(*tokens(6))
    cache.reorder([0, 0])
    for tensor in pool.tensors():
        tensor[cache._table[:, 1], :, 2:] = float("nan")
    made = copied(cache)
    assert made.pool is not pool
    assert (made.pool.used, len(made.pool.tensors()[0])) == (2, 2)
    assert torch.equal(made.k, cache.k)
    assert all(tensor.isfinite().all() for tensor in made.pool.tensors())
    made.append(*tokens(9, 2))
    assert torch.equal(made.k[:, :, :6], cache.k)
    assert pool.used == 5 + 2


def test_pages_that_nobody_reads_are_used_again() -> None:
    pool = PagePool(page_size=2, limit=4)
    for _ in range(5):
        cache = PagedCache(pages=pool)
        cache.append(*tokens(7))
        cache.crop(3)
        assert pool.used == 2
        cache.append(*tokens(4))
        cache.reset()
        assert pool.used == 0
        cache.append(*tokens(5))
        del cache
        assert pool.used == 0
    assert len(pool.tensors()[0]) == 4


def test_a_pool_doubles_and_keeps_what_it_holds() -> None:
    cache, whole, counts = PagedCache(page_size=2), [], set()
    for _ in range(40):
        k, v = tokens(1)
        whole.append(k)
        assert torch.equal(cache.append(k, v)[0], torch.cat(whole, 2))
        counts.add(len(cache.pool.tensors()[0]))
    assert sorted(counts) == [1, 2, 4, 8, 16, 32]


def test_a_full_pool_is_one_sentence_and_changes_nothing() -> None:
    pool = PagePool(page_size=2, limit=3)
    one, two = PagedCache(pages=pool), PagedCache(pages=pool)
    one.append(*tokens(4))
    two.append(*tokens(1))
    held, lie = one.k.clone(), one.stored()[0].table.clone()
    with pytest.raises(ShapeError, match="PagePool: 1 more pages are wanted, 0 of 3 are free; a pool with a limit"):
        one.append(*tokens(1))
    assert (one.length, pool.used) == (4, 3)
    assert torch.equal(one.k, held)
    assert torch.equal(one.stored()[0].table, lie)
    one.crop(3)
    one.reorder([0, 0])
    with pytest.raises(ShapeError, match="0 of 3 are free"):
        one.append(*tokens(1, 2))  # a shared page is written: a copy is wanted
    del two
    one.append(*tokens(1, 2))
    assert pool.used == 3
    assert torch.equal(one.k[:, :, :3], held[:, :, :3].expand(2, -1, -1, -1))


def test_a_block_that_fails_gives_its_pages_back() -> None:
    cache = PagedCache(page_size=4)
    cache.append(*tokens(6))
    cache.reorder([0, 0])
    held, used, lie = cache.k.clone(), cache.pool.used, cache.stored()[0].table.clone()
    for n in (1, 9):
        with pytest.raises(ZeroDivisionError), cache.appending(*tokens(n, 2)):
            raise ZeroDivisionError
        assert cache.pool.used == used
        assert torch.equal(cache.stored()[0].table, lie)
        assert torch.equal(cache.k, held)


def test_caches_of_one_pool_are_of_one_form() -> None:
    pool = PagePool(page_size=2)
    one, two = PagedCache(pages=pool), PagedCache(pages=pool)
    one.append(*tokens(3, 2))
    two.append(*tokens(3, 5))  # another batch size is no other form
    three = PagedCache(pages=pool)
    for wrong in (tokens(1, width=5), [x.double() for x in tokens(1)]):
        with pytest.raises(ShapeError, match=r"PagePool: the new k .* does not fit the pages"):
            three.append(*wrong)
    assert (three.length, three.k) == (0, None)
    del one, two
    three.append(*tokens(1, width=5))  # nobody reads it any more
    assert three.k.shape == (1, 2, 1, 5)


def test_what_a_cache_and_a_pool_are_made_of() -> None:
    with pytest.raises(SpecError, match="PagedCache: page_size is 4, the pages of the pool hold 2 tokens"):
        PagedCache(page_size=4, pages=PagePool(2))
    for wrong in (0, True, 1.5):
        with pytest.raises(SpecError, match="page_size is"):
            PagedCache(page_size=wrong)
        with pytest.raises(SpecError, match="limit is"):
            PagePool(limit=wrong)
    assert repr(PagedCache(page_size=3)) == "PagedCache(page_size=3, S=0)"
