"""Every kind of cache against a list of tokens: what goes in comes out, whatever is done between."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headwise.errors import ShapeError, SpecError, UnsupportedError
from headwise.nn.cache import Cache, KVCache
from headwise.nn.growing import Growing
from headwise.nn.paged import PagedCache
from headwise.nn.quantised import QuantisedCache
from headwise.nn.ring import RingCache
from headwise.nn.static import StaticCache

KINDS: dict[str, Callable[[], Cache]] = {
    "growing": KVCache,
    "static": lambda: StaticCache(200),
    "ring": lambda: RingCache(4),
    "ring of one": lambda: RingCache(1),
    "ring and sinks": lambda: RingCache(3, sinks=2),
    "pages of 1": lambda: PagedCache(page_size=1),
    "pages of 3": lambda: PagedCache(page_size=3),
    "pages of 16": PagedCache,
    "eight bits": QuantisedCache,
}
CARRIES = ("growing", "ring", "ring of one", "ring and sinks")  # gradients


def pair(length: int, batch: int = 2, **options: Any) -> tuple[Tensor, Tensor]:
    return torch.randn(batch, 3, length, 5, **options), torch.randn(batch, 3, length, 7, **options)


def rounded(x: Tensor) -> Tensor:
    """What eight bits leave of each token, written out."""
    out = torch.empty_like(x)
    for at in [(b, h, s) for b in range(x.shape[0]) for h in range(x.shape[1]) for s in range(x.shape[2])]:
        scale = x[at].abs().max() / 127
        out[at] = torch.stack([(number / scale).round() for number in x[at]]) * scale
    return out


@dataclass
class Naive:
    """A cache as a list of tokens: all of them, and which a ring could still have."""

    window: int | None = None
    sinks: int = 0
    rounds: bool = False
    k: list[Tensor] = field(default_factory=list)
    v: list[Tensor] = field(default_factory=list)
    lost: int = 0  # tokens sinks .. lost - 1 are gone for good

    @classmethod
    def of(cls, cache: Cache) -> Naive:
        ring = (cache.window, cache.sinks) if isinstance(cache, RingCache) else (None, 0)
        return cls(*ring, isinstance(cache, QuantisedCache), lost=ring[1])

    def seen(self, length: int, new: int) -> list[int]:
        """Positions that ``new`` queries behind ``length`` tokens read."""
        every = range(length + new)
        if self.window is None:
            return list(every)
        return [j for j in every if j < self.sinks or j > length - self.window]

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        at = self.seen(len(self.k), k.shape[2])
        k, v = (rounded(k), rounded(v)) if self.rounds else (k, v)
        self.k += k.unbind(2)
        self.v += v.unbind(2)
        if self.window is not None:
            self.lost = max(self.lost, len(self.k) - 2 * self.window + 1)
        return torch.stack(self.k, 2)[:, :, at], torch.stack(self.v, 2)[:, :, at]

    def can_crop(self, kept: int) -> bool:
        if self.window is None or kept <= self.sinks or self.lost == self.sinks:
            return True
        return max(kept - self.window + 1, self.sinks) >= self.lost

    def crop(self, kept: int) -> None:
        del self.k[kept:], self.v[kept:]
        if kept <= self.sinks:
            self.lost = self.sinks

    def reorder(self, rows: Tensor) -> None:
        self.k, self.v = [k[rows] for k in self.k], [v[rows] for v in self.v]

    def held(self) -> tuple[Tensor, Tensor]:
        at = self.seen(len(self.k), 0)
        return torch.stack(self.k, 2)[:, :, at], torch.stack(self.v, 2)[:, :, at]


@torch.inference_mode()
def poison(cache: Any) -> None:
    """NaN, or its like in int8, into every slot that holds no token."""
    for part in [value for value in vars(cache).values() if isinstance(value, Growing)]:
        if part._buffer is not None:
            free = torch.ones(part._buffer.shape[-2], dtype=torch.bool)
            free[part._start : part._start + part._length] = False
            part._buffer.data[..., free, :] = float("nan") if part._buffer.is_floating_point() else -128
    if isinstance(cache, RingCache) and cache._k._buffer is not None:
        for part in (cache._k, cache._v):
            undropped = part.held.shape[2] - cache.held
            part.held.data[:, :, cache.sinks : cache.sinks + undropped] = float("nan")
    if isinstance(cache, StaticCache) and cache._k is not None:
        for buffer in (cache._k, cache._v):
            buffer.data[:, :, cache.length :] = float("nan")
    if isinstance(cache, PagedCache):
        poison_pages(cache)


def poison_pages(cache: PagedCache) -> None:
    pool, size = cache.pool, cache.page_size
    pool._settle()
    own = cache._table.flatten().bincount(minlength=len(pool._readers)) if cache.length else 0 * pool._readers
    for tensor in pool.tensors() or ():
        tensor[pool._readers == 0] = float("nan")
        if cache.length % size:
            last = cache._table[:, -1]
            tensor[last[own[last] == pool._readers[last]], :, cache.length % size :] = float("nan")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["more", "more", "more", "one", "fail", "crop", "crop", "reorder", "batch", "copy", "reset"]),
        st.integers(0, 9),
        st.sampled_from([copy.copy, copy.deepcopy, lambda cache: pickle.loads(pickle.dumps(cache))]),
    ),
    min_size=1,
    max_size=16,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=60)
@given(STEPS, st.integers(0, 2**31), st.booleans())
def test_any_order_of_calls_is_a_list_of_tokens(
    kind: str, steps: list[tuple[str, int, Any]], seed: int, inference: bool
) -> None:
    torch.manual_seed(seed)
    cache, naive, rows = KINDS[kind](), Naive.of(KINDS[kind]()), 2
    others: list[tuple[Cache, Naive]] = []
    for what, n, copied in steps:
        if what in ("more", "one"):
            k, v = pair(1 if what == "one" else n, rows)
            with torch.inference_mode(inference and bool(n % 2)):
                got = cache.append(k, v)
                if naive.k or k.shape[2]:
                    assert all(torch.equal(*both) for both in zip(got, naive.append(k, v), strict=True))
                del got  # whoever still looked at the buffer would keep it from being written in place
        elif what == "fail":
            with pytest.raises(ZeroDivisionError), cache.appending(*pair(n, rows)):
                raise ZeroDivisionError
        elif what == "crop" and not naive.can_crop(max(cache.length - n, 0)):
            with pytest.raises(SpecError, match="has let go of tokens"):
                cache.crop(max(cache.length - n, 0))
        elif what == "crop":
            naive.crop(max(cache.length - n, 0))
            cache.crop(-min(n, cache.length)) if n and cache.length else cache.crop(cache.length)
        elif what == "reorder" or (what == "batch" and naive.k):
            index = torch.randint(rows, (rows if what == "reorder" else 1 + n % 3,))
            cache.reorder(index)
            naive.reorder(index)
            rows = len(index)
        elif what == "copy":
            others.append((cache, copy.deepcopy(naive)))
            cache = copied(cache)
        elif what == "reset":
            cache.reset()
            naive, rows = Naive.of(cache), 1 + n % 3
        poison(cache)
        assert cache.length == len(naive.k)
        assert cache.held == len(naive.seen(cache.length, 0))
        assert (cache.k is None) == (not naive.k)
        if naive.k:
            assert torch.equal(cache.k, naive.held()[0])
            assert torch.equal(cache.v, naive.held()[1])
    for other, its in others:  # what happened to the copies is no business of theirs
        if its.k:
            k, v = pair(2, len(its.k[0]))
            assert all(torch.equal(*both) for both in zip(other.append(k, v), its.append(k, v), strict=True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("k", "v", "says"),
    [
        (torch.zeros(1, 3, 1, 5), torch.zeros(1, 3, 1, 7), "new k [B=1,Hk=3,S=1,D=5]"),
        (torch.zeros(2, 1, 1, 5), torch.zeros(2, 1, 1, 7), "new k [B=2,Hk=1,S=1,D=5]"),
        (torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 1, 8), "new v [B=2,Hk=3,S=1,E=8]"),
        (torch.zeros(2, 3, 1, 5).double(), torch.zeros(2, 3, 1, 7).double(), "torch.float64"),
        (torch.zeros(2, 3, 1, 5, device="meta"), torch.zeros(2, 3, 1, 7, device="meta"), "meta"),
        (torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 2, 7), "do not belong together"),
    ],
)
def test_what_does_not_fit_changes_nothing(kind: str, k: Tensor, v: Tensor, says: str) -> None:
    cache = KINDS[kind]()
    for n in (3, 1):
        cache.append(*pair(n))
    then = cache.k.clone(), cache.v.clone()
    with pytest.raises(ShapeError) as caught:
        cache.append(k, v)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{type(cache).__name__}: ")
    assert cache.length == 4
    assert all(torch.equal(*both) for both in zip(then, (cache.k, cache.v), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_out_of_range_is_one_sentence(kind: str) -> None:
    cache = KINDS[kind]()
    cache.append(*pair(3))
    for length in (4, -4, True, 1.0, None):
        with pytest.raises(SpecError, match=r"crop: length is .* the cache has seen 3 tokens"):
            cache.crop(length)
    for rows in ([2], [-1], torch.tensor([0, 5])):
        with pytest.raises(SpecError, match="the cache has 2 batch rows"):
            cache.reorder(rows)
    for rows in (torch.tensor([0.0]), torch.tensor([True, False]), torch.tensor([[0]])):
        with pytest.raises(SpecError, match="it is a list of integers"):
            cache.reorder(rows)
    assert cache.length == 3
    cache.reorder([1])
    assert cache.k.shape[0] == 1


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_go_through_or_are_refused(kind: str) -> None:
    cache, steps = KINDS[kind](), [pair(1, requires_grad=True) for _ in range(3)]
    if kind not in CARRIES:
        with pytest.raises(UnsupportedError, match="gradients are recorded"):
            cache.append(*steps[0])
        assert cache.length == 0
        with torch.no_grad():
            assert not any(held.requires_grad for held in cache.append(*steps[0]))
        return
    read = [cache.append(*step) for step in steps]
    sum(k.sum() * 2 + v.sum() * 3 for k, v in read).backward()
    naive = Naive.of(cache)
    for j, (k, v) in enumerate(steps):
        times = sum(j in naive.seen(n, 1) for n in range(3))
        assert (k.grad == 2 * times).all()
        assert (v.grad == 3 * times).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_dtypes_stay(kind: str, dtype: torch.dtype) -> None:
    cache = KINDS[kind]()
    for _ in range(3):
        k, v = cache.append(*pair(2, dtype=dtype))
    assert k.dtype == v.dtype == cache.k.dtype == cache.v.dtype == dtype


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_reset_another_batch_may_come(kind: str) -> None:
    cache = KINDS[kind]()
    cache.append(*pair(3))
    cache.reset()
    assert (cache.length, cache.held, cache.k, cache.v) == (0, 0, None, None)
    k = torch.randn(4, 1, 2, 6, dtype=torch.float64)
    got, _ = cache.append(k, k)
    torch.testing.assert_close(got, k, rtol=0, atol=0.05)


# One size


def test_a_static_cache_never_moves_and_never_grows() -> None:
    cache = StaticCache(8)
    cache.append(*pair(5))
    place = cache._k.data_ptr()
    for wrong in (4, 100):
        held = cache.k.clone()
        with pytest.raises(ShapeError, match=rf"StaticCache: {wrong} tokens behind the 5 held pass the capacity of 8"):
            cache.append(*pair(wrong))
        assert torch.equal(cache.k, held)
    assert cache.append(*pair(3))[0].shape[2] == 8
    cache.crop(2)
    cache.reorder([1, 0])
    cache.append(*pair(4))
    cache.reset()
    cache.append(*pair(1))
    assert cache._k.data_ptr() == place
    for wrong in (0, True, 2.0):
        with pytest.raises(SpecError, match="capacity is"):
            StaticCache(wrong)


def test_a_view_of_static_slots_knows_whether_they_were_written_again() -> None:
    cache = StaticCache(8)
    k, _ = cache.append(*pair(3))
    then, version = k.clone(), k._version
    cache.append(*pair(2))
    assert k._version == version
    assert torch.equal(k, then)
    cache.crop(2)
    cache.append(*pair(1))
    assert k._version > version


# Eight bits


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 3e4])
def test_the_error_of_eight_bits_is_bounded(dtype: torch.dtype, size: float) -> None:
    x = (torch.randn(4, 3, 50, 9, dtype=torch.float64) * size).clamp(-6e4, 6e4).to(dtype)
    got, _ = QuantisedCache().append(x, x)
    most = x.double().abs().amax(-1, keepdim=True)
    unit = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}.get(dtype, 0.0)
    tiny = 2.0**-25 if dtype == torch.float16 else 0.0  # half its smallest number
    error = (x.double() - got.double()).abs()
    assert (error <= most * (1 / 254 + 2.0**-22 + unit) + tiny).all()
    assert (error > most / 300).any() or not most.any()  # the bound is no larger than it has to be


def test_zeros_stay_zeros_and_the_largest_number_stays_finite() -> None:
    largest = torch.finfo(torch.float32).max
    x = torch.tensor([0.0, 0.0, largest, -largest, 1e-44, -1e-44]).reshape(1, 1, 3, 2)
    got, _ = QuantisedCache().append(x, x)
    assert (got[..., 0, :] == 0).all()
    torch.testing.assert_close(got[..., 1, :], x[..., 1, :])
    assert (got[..., 2, :].abs() <= 1e-42).all()


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_is_no_number_stays_none(bad: float) -> None:
    cache = QuantisedCache()
    k, v = pair(4)
    k[0, 1, 2, 3] = bad
    got, values = cache.append(k, v)
    assert got[0, 1, 2].isnan().all()
    assert got.isnan().sum() == 5
    assert values.isfinite().all()
    assert cache.append(*pair(1))[0].isnan().sum() == 5


def test_eight_bits_are_rounded_once_and_kept() -> None:
    cache = QuantisedCache()
    cache.append(*pair(6))
    first, values = cache.stored()
    assert (first.numbers.dtype, first.scales.dtype, values.scales.shape) == (torch.int8, torch.float32, (2, 3, 6))
    before = first.numbers.clone(), first.scales.clone()
    cache.append(*(100 * x for x in pair(3)))
    cache.crop(6)
    now, _ = cache.stored()
    assert torch.equal(now.numbers, before[0])
    assert torch.equal(now.scales, before[1])
    assert torch.equal(now.numbers * now.scales[..., None], cache.k)
    assert QuantisedCache().stored() is None
