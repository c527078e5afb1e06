"""The growing cache: what goes in comes out, in order, and an error leaves it as it was."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headwise.errors import ShapeError, SpecError
from headwise.nn import KVCache
from headwise.nn.growing import Growing


def pair(length: int, batch: int = 2, heads: int = 3, **options: object) -> tuple[torch.Tensor, torch.Tensor]:
    k = torch.randn(batch, heads, length, 5, **options)  # type: ignore[call-overload]
    v = torch.randn(batch, heads, length, 7, **options)  # type: ignore[call-overload]
    return k, v


@settings(deadline=None, max_examples=40)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.booleans())
def test_appending_in_pieces_is_concatenating(lengths: list[int], grad: bool) -> None:
    pieces = [pair(n, requires_grad=grad) for n in lengths]
    cache = KVCache()
    for n, (k, v) in enumerate(pieces):
        before = cache.length
        assert before == sum(lengths[:n])
        held_k, held_v = cache.append(k, v)
        assert torch.equal(held_k, torch.cat([p[0] for p in pieces[: n + 1]], 2))
        assert torch.equal(held_v, torch.cat([p[1] for p in pieces[: n + 1]], 2))
    if cache.length:
        assert torch.equal(cache.k, held_k)
        assert torch.equal(cache.v, held_v)
    assert cache.length == sum(lengths)


def test_a_new_cache_is_empty() -> None:
    cache = KVCache()
    assert (cache.length, cache.k, cache.v) == (0, None, None)
    assert repr(cache) == "KVCache(S=0)"


def test_what_was_handed_out_stays() -> None:
    cache = KVCache()
    handed = [cache.append(*pair(n)) for n in (4, 1, 1, 1, 3)]
    kept = [(k.clone(), v.clone(), k._version) for k, v in handed]
    for _ in range(20):
        cache.append(*pair(1))
    for (k, v), (k_then, v_then, version) in zip(handed, kept, strict=True):
        assert torch.equal(k, k_then)
        assert torch.equal(v, v_then)
        assert k._version == version


def test_the_callers_tensor_is_copied() -> None:
    cache = KVCache()
    k, v = pair(3)
    held = k.clone()
    cache.append(k, v)
    k.zero_()
    assert torch.equal(cache.k, held)


def test_few_copies() -> None:
    cache = KVCache()
    places = set()
    for _ in range(257):
        k, _ = cache.append(*pair(1))
        places.add(k.untyped_storage().data_ptr())
    assert len(places) <= 10


def test_gradients_reach_every_step() -> None:
    pieces = [pair(2, requires_grad=True) for _ in range(3)]
    cache = KVCache()
    for k, v in pieces:
        held_k, held_v = cache.append(k, v)
    (held_k.sum() * 2 + held_v.sum() * 3).backward()
    for k, v in pieces:
        assert k.grad is not None
        assert v.grad is not None
        assert (k.grad == 2).all()
        assert (v.grad == 3).all()


def test_a_prompt_without_gradients_then_steps_with_them() -> None:
    cache = KVCache()
    first = pair(3)
    cache.append(*first)
    k, v = pair(2, requires_grad=True)
    held, _ = cache.append(k, v)
    held.sum().backward()
    assert (k.grad == 1).all()
    with torch.no_grad():
        last, _ = cache.append(*pair(1))
    assert not last.requires_grad
    assert torch.equal(last[:, :, :3], first[0])
    assert torch.equal(last[:, :, 3:5], k)


def test_inference_mode() -> None:
    cache = KVCache()
    with torch.inference_mode():
        for _ in range(5):
            k, _ = cache.append(*pair(2))
    assert k.shape[2] == 10


@pytest.mark.parametrize(
    ("k", "v", "says"),
    [
        (torch.zeros(1, 3, 1, 5), torch.zeros(1, 3, 1, 7), "new k [B=1,Hk=3,S=1,D=5]"),
        (torch.zeros(2, 1, 1, 5), torch.zeros(2, 1, 1, 7), "new k [B=2,Hk=1,S=1,D=5]"),
        (torch.zeros(2, 3, 1, 6), torch.zeros(2, 3, 1, 7), "new k [B=2,Hk=3,S=1,D=6]"),
        (torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 1, 8), "new v [B=2,Hk=3,S=1,E=8]"),
        (torch.zeros(2, 3, 1, 5).double(), torch.zeros(2, 3, 1, 7).double(), "torch.float64"),
        (torch.zeros(2, 3, 1, 5, device="meta"), torch.zeros(2, 3, 1, 7, device="meta"), "meta"),
        (torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 2, 7), "do not belong together"),
        (torch.zeros(2, 3, 1, 5), torch.zeros(2, 3, 1, 7).half(), "do not belong together"),
        (torch.zeros(3, 1, 5), torch.zeros(3, 1, 7), "do not belong together"),
    ],
)
def test_what_does_not_fit_changes_nothing(k: torch.Tensor, v: torch.Tensor, says: str) -> None:
    cache = KVCache()
    held_k, held_v = cache.append(*pair(4))
    held_k, held_v = held_k.clone(), held_v.clone()
    with pytest.raises(ShapeError) as caught:
        cache.append(k, v)
    assert says in str(caught.value)
    assert str(caught.value).startswith("KVCache: ")
    assert cache.length == 4
    assert torch.equal(cache.k, held_k)
    assert torch.equal(cache.v, held_v)


def test_a_block_that_fails_changes_nothing() -> None:
    cache = KVCache()
    cache.append(*pair(4))
    cache.append(*pair(1))  # there is room now, so the next append writes in place
    held = cache.k.clone()

    def fail() -> None:
        with cache.appending(*pair(2)) as (k, _):
            assert k.shape[2] == 7
            raise RuntimeError("seen")

    with pytest.raises(RuntimeError, match="seen"):
        fail()
    assert cache.length == 5
    assert torch.equal(cache.k, held)
    k, v = pair(1)
    assert torch.equal(cache.append(k, v)[0], torch.cat((held, k), 2))


def test_a_copy_goes_its_own_way() -> None:
    cache = KVCache()
    cache.append(*pair(4))
    cache.append(*pair(1))
    other = copy.deepcopy(cache)
    mine, _ = cache.append(*pair(1))
    theirs, _ = other.append(*pair(1))
    assert torch.equal(mine[:, :, :5], theirs[:, :, :5])
    assert not torch.equal(mine, theirs)


def test_a_context_is_held_once() -> None:
    cache, context = KVCache(), torch.zeros(2, 4, 8)
    assert not cache.holds(context)
    cache.append(*pair(4))
    with pytest.raises(SpecError, match="a sequence of its own"):
        cache.holds(context)
    cache.remember(context)
    assert cache.holds(context)
    for change in (lambda: cache.crop(1), lambda: cache.reorder([0])):
        with pytest.raises(SpecError, match="this cache holds the keys of a context"):
            change()
    assert cache.length == 4
    with pytest.raises(SpecError, match="another context"):
        cache.holds(context.clone())
    context += 1
    with pytest.raises(SpecError, match="another context"):
        cache.holds(context)


# The tensor that grows, which every cache is made of


def cells(n: int, rows: int = 2) -> torch.Tensor:
    return torch.randn(rows, 3, n, 5)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["more", "first", "last", "rows", "fewer", "other", "copy"]), st.integers(0, 7), st.booleans()
    ),
    min_size=1,
    max_size=25,
)


@settings(deadline=None, max_examples=150)
@given(STEPS)
def test_growing_is_concatenating_whatever_is_done_between(steps: list[tuple[str, int, bool]]) -> None:
    grown, whole = Growing(), cells(0)
    handed: list[tuple[torch.Tensor, torch.Tensor]] = []
    for what, n, kept in steps:
        if what == "more":
            new = cells(n, len(whole))
            whole = torch.cat((whole, new), 2)
            grown.held = grown.extended(new)
        elif grown.held is None:
            continue
        elif what == "first":
            whole = whole[:, :, : whole.shape[2] - n]
            grown.held = grown.held[:, :, : grown.held.shape[2] - n]
        elif what == "last":
            whole = whole[:, :, n:]
            grown.held = grown.held[:, :, n:]
        elif what == "rows":
            rows = torch.randint(len(whole), (len(whole),))
            whole = whole[rows]
            grown.take(rows)
        elif what == "fewer":
            rows = torch.randint(len(whole), (1 + n % 3,))
            whole = whole[rows]
            grown.take(rows)
        elif what == "other":
            whole = cells(n, len(whole))
            grown.held = whole.clone()
        else:
            grown = copy.copy(grown)
        assert torch.equal(grown.held, whole)
        if kept:
            handed.append((grown.held, whole.clone()))
    for view, then in handed:
        assert torch.equal(view, then)


def test_cells_that_were_cropped_are_written_again_only_if_nobody_reads_them() -> None:
    grown = Growing()
    for n in (4, 1, 1):
        grown.held = grown.extended(cells(n))
    place = grown.held.untyped_storage().data_ptr()
    grown.held = grown.held[:, :, :4]
    grown.held = grown.extended(cells(2))
    assert grown.held.untyped_storage().data_ptr() == place
    for look in (lambda t: t, lambda t: t.transpose(1, 2), lambda t: t[0, 1], lambda t: t.numpy()):
        kept = look(grown.held)
        then = torch.as_tensor(kept).clone()
        grown.held = grown.held[:, :, :4]
        grown.held = grown.extended(cells(1))
        assert torch.equal(torch.as_tensor(kept), then)


def test_rows_that_nobody_reads_are_moved_where_they_are() -> None:
    grown = Growing()
    for n in (4, 1):
        grown.held = grown.extended(cells(n, 3))
    then, place = grown.held.clone(), grown.held.untyped_storage().data_ptr()
    grown.take(torch.tensor([2, 1, 0]))
    assert torch.equal(grown.held, then[[2, 1, 0]])
    assert grown.held.untyped_storage().data_ptr() == place
    kept = grown.held
    grown.take(torch.tensor([0, 0, 1]))
    assert torch.equal(kept, then[[2, 1, 0]])
    assert torch.equal(grown.held, then[[2, 2, 1]])


def test_where_torch_does_not_say_who_reads_cropped_cells_are_never_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._C, "_storage_Use_Count")
    grown = Growing()
    for n in (4, 1, 1):
        grown.held = grown.extended(cells(n))
    kept, then = grown.held, grown.held.clone()
    grown.held = grown.held[:, :, :4]
    grown.held = grown.extended(cells(1))
    assert torch.equal(kept, then)


@pytest.mark.parametrize(
    "new",
    [torch.zeros(1, 3, 1, 5), torch.zeros(2, 3, 1, 4), torch.zeros(3, 1, 5), torch.zeros(2, 3, 1, 5, device="meta")],
)
def test_what_cannot_be_concatenated_is_not_broadcast(new: torch.Tensor) -> None:
    grown = Growing()
    for n in (4, 1):
        grown.held = grown.extended(cells(n))
    then = grown.held.clone()
    with pytest.raises(RuntimeError):
        grown.extended(new)
    assert torch.equal(grown.held, then)


def test_another_dtype_is_promoted_as_concatenating_does() -> None:
    grown = Growing()
    for n in (4, 1):
        grown.held = grown.extended(cells(n).bfloat16())
    then, new = grown.held, cells(1)
    grown.held = grown.extended(new)
    assert torch.equal(grown.held, torch.cat((then, new), 2))
    assert grown.held.dtype == torch.float32


def test_a_file_holds_no_spare_room() -> None:
    grown = Growing()
    for n in (400, 1):
        grown.held = grown.extended(cells(n))
    written = pickle.dumps(grown)
    assert len(written) < 1.1 * 401 * 2 * 3 * 5 * 4
    again = pickle.loads(written)
    assert torch.equal(again.held, grown.held)
