"""The border of masks: what transformers says, said again exactly, and a description that acts like the tensor."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import masking_utils as theirs

import headwise as hw
from headwise.errors import SpecError
from headwise.models import lower as lowering
from headwise.models.lower import Place, lower, window
from headwise.models.masks import Described, Said, headwise_mask, read

IDS = torch.tensor([[0, 0, 0, 1, 1, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0, 0, 1, 1]])
IMAGES = torch.tensor([[-1, 0, 0, -1, -1, 1, 1, 1, -1], [-1, -1, 0, 0, 0, 0, -1, -1, 0]])
POSITIONS = torch.tensor([[0, 1, 2, 0, 1, 0, 1, 2, 3], [0, 1, 2, 3, 4, 5, 6, 0, 1]])
LEFT = torch.tensor([0, 2])
CAUSAL, BOTH_WAYS = theirs.causal_mask_function, theirs.bidirectional_mask_function


def packed(fn: Any) -> Any:
    """What transformers makes of a mask for packed sequences."""
    return theirs.and_masks(
        theirs.remap_positions_for_packed_sequence(fn, POSITIONS), theirs.packed_sequence_mask_function(IDS)
    )


def by_hand(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """A mask function that nobody knows."""
    return (k + q) % 3 != 1


KNOWN = {
    "causal": CAUSAL,
    "both ways": BOTH_WAYS,
    "window": theirs.sliding_window_causal_mask_function(3),
    "two-sided window": theirs.sliding_window_bidirectional_mask_function(2),
    "chunks": theirs.chunked_causal_mask_function(4, LEFT),
    "packed": packed(CAUSAL),
    "packed window": packed(theirs.sliding_window_causal_mask_function(2)),
    "images": theirs.or_masks(CAUSAL, theirs.blockwise_overlay(IMAGES)),
    "images in a window": theirs.or_masks(
        theirs.sliding_window_causal_mask_function(3), theirs.blockwise_overlay(IMAGES)
    ),
}
UNKNOWN = {
    "by hand": theirs.and_masks(CAUSAL, by_hand),
    "packed chunks": packed(theirs.chunked_causal_mask_function(3, LEFT)),
    "positions without documents": theirs.remap_positions_for_packed_sequence(CAUSAL, POSITIONS),
}


def visible(mask: hw.spec.Mask | None, place: Place) -> Tensor:
    """What a headwise mask keeps, [B, 1, T, S], as the library itself reads it."""
    q = torch.zeros(place.batch, 1, place.queries, 4)
    k = torch.zeros(place.batch, 1, place.keys, 4)
    return hw.Pattern(q, k, mask=mask, q_start=place.q_start).to_dense() > 0


def kinds(mask: hw.spec.Mask | None) -> set[str]:
    """The names of all simple parts of a mask."""
    return set() if mask is None else {type(part).__name__ for part in mask.parts()}


@pytest.mark.parametrize("name", [*KNOWN, *UNKNOWN])
@pytest.mark.parametrize(
    ("queries", "keys", "q_offset", "kv_offset"), [(9, 9, 0, 0), (4, 9, 5, 0), (4, 9, 3, 0), (2, 4, 7, 5), (1, 6, 5, 3)]
)
def test_a_lowered_mask_keeps_the_same_cells(name: str, queries: int, keys: int, q_offset: int, kv_offset: int) -> None:
    fn = {**KNOWN, **UNKNOWN}[name]
    place = Place(2, queries, keys, q_offset, kv_offset, torch.device("cpu"))
    want = theirs.sdpa_mask(2, queries, keys, q_offset, kv_offset, fn, allow_is_causal_skip=False)
    assert torch.equal(visible(lower(fn, place), place), want.expand(2, 1, queries, keys))


@pytest.mark.parametrize("name", KNOWN)
def test_known_parts_do_not_become_rules(name: str) -> None:
    """A rule is exact and slow; only what nobody knows may end as one."""
    place = Place(2, 9, 9, 0, 0, torch.device("cpu"))
    assert "Rule" not in kinds(lower(KNOWN[name], place))


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_parts_become_rules(name: str) -> None:
    place = Place(2, 9, 9, 0, 0, torch.device("cpu"))
    assert "Rule" in kinds(lower(UNKNOWN[name], place))


def test_only_the_unknown_part_becomes_a_rule() -> None:
    place = Place(2, 9, 9, 0, 0, torch.device("cpu"))
    assert kinds(lower(UNKNOWN["by hand"], place)) == {"Causal", "Rule"}


def test_a_rule_that_only_takes_single_indices() -> None:
    """transformers maps such functions over every cell; so does the rule."""
    flags = torch.tensor([True, False, True, True, False])

    def one_cell(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        assert q.dim() == 0
        return flags[k] | (q == k)

    place = Place(1, 5, 5, 0, 0, torch.device("cpu"))
    want = theirs.sdpa_mask(1, 5, 5, 0, 0, one_cell, allow_is_causal_skip=False, use_vmap=True)
    assert torch.equal(visible(lower(one_cell, place, vmapped=True), place), want)


def test_windows_are_converted_in_one_place() -> None:
    causal, both = window(4, causal=True), window(4, causal=False)
    assert (causal.before, causal.after) == (3, 0)
    assert (both.before, both.after) == (4, 4)
    rows = visible(hw.Causal() & causal, Place(1, 6, 6, 0, 0, torch.device("cpu")))[0, 0].sum(-1)
    assert rows.tolist() == [1, 2, 3, 4, 4, 4]


def described(**changes: Any) -> Described:
    call = {"batch_size": 2, "q_length": 5, "kv_length": 9, "q_offset": 4, "mask_function": CAUSAL, **changes}
    mask = headwise_mask(**call)
    assert isinstance(mask, Described)
    return mask


PADDED = torch.tensor([[True] * 9, [False, False, False] + [True] * 6])


def test_padding_empties_its_rows_and_hides_its_keys() -> None:
    said = described(q_length=9, q_offset=0, attention_mask=PADDED).say()
    kept = visible(said.mask, Place(2, 9, 9, 0, 0, torch.device("cpu")))[:, 0]
    assert kept[1, :3].sum() == 0
    assert kept[1, :, :3].sum() == 0
    assert torch.equal(kept[0], torch.ones(9, 9).tril().bool())
    assert torch.equal(kept[1, 3:, 3:], torch.ones(6, 6).tril().bool())


def test_padding_that_hides_nothing_is_left_out() -> None:
    assert kinds(described(attention_mask=torch.ones(2, 9, dtype=torch.bool)).say().mask) == {"Causal"}


def test_rows_of_another_sequence_are_not_emptied() -> None:
    """A 2-D mask longer than the keys, or beside queries of their own, says nothing about the queries."""
    latents = described(q_length=3, kv_length=9, q_offset=0, mask_function=BOTH_WAYS, attention_mask=PADDED).say()
    assert float(visible(latents.mask, Place(2, 3, 9, 0, 0, torch.device("cpu"))).any(-1).float().min()) == 1


def test_a_static_caches_counter_is_read_at_once() -> None:
    """The cache counts on in the same tensor before the first layer reads its mask."""
    counter = torch.tensor(4)
    mask = described(q_offset=counter)
    counter += 5
    assert mask.say().q_start == 4


@pytest.mark.parametrize(
    "use",
    [
        lambda m: m[:, 0],
        lambda m: ~m,
        lambda m: m.to(torch.float32),
        lambda m: m & torch.ones(5, 9, dtype=torch.bool),
        lambda m: torch.where(m, 0.0, -1.0),
        lambda m: torch.zeros(2, 1, 5, 9).masked_fill(~m, -1.0),
        lambda m: m.expand(-1, 3, -1, -1),
        lambda m: m.clone(),
        lambda m: m.all(),
        lambda m: torch.cat([m, m], dim=-1),
        lambda m: m[..., 2:7],
        lambda m: m[:, :, -2:],
        lambda m: m[1:],
        lambda m: m[:, :, ::2],
        lambda m: m.detach(),
        lambda m: m.long().sum(-1),
        lambda m: m.permute(0, 1, 3, 2),
        lambda m: m.repeat(1, 2, 1, 1),
        lambda m: m.sum(),
        lambda m: m.float().mean(),
    ],
)
def test_operations_mean_what_they_mean_on_the_tensor(use: Any) -> None:
    mask = described(attention_mask=PADDED)
    plain = theirs.sdpa_mask(2, 5, 9, 4, 0, CAUSAL, PADDED, allow_is_causal_skip=False)
    assert type(plain) is Tensor
    got, want = use(mask), use(plain)
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    assert torch.equal(got.written() if isinstance(got, Described) else got, want)


def test_it_answers_checks_like_the_tensor_without_writing_it() -> None:
    mask = described()
    assert isinstance(mask, Tensor)
    assert mask.shape == (2, 1, 5, 9)
    assert mask.dim() == mask.ndim == 4
    assert mask.dtype == torch.bool
    assert mask.device == torch.device("cpu")
    assert not mask.is_floating_point()
    assert mask.to("cpu") is mask
    assert mask._written is None
    assert "written=False" in repr(mask)


def test_cutting_rows_or_keys_keeps_it_a_description() -> None:
    mask = described()
    part = mask[:, :, 2:, 1:6]
    assert isinstance(part, Described)
    assert part._written is None
    assert mask._written is None
    assert torch.equal(visible(part.say().mask, part.recipe.place), mask.written()[:, :, 2:, 1:6])


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.fill_(True),
        lambda m: m.__setitem__((slice(None), slice(None), slice(1, 3)), True),
        lambda m: m[:, :, :, 5:].fill_(True),
        lambda m: m[:, 0].logical_not_(),
        lambda m: m.__setitem__((..., 0), False),
        lambda m: m.logical_and_(torch.ones(5, 9, dtype=torch.bool).tril()),
    ],
)
def test_a_change_in_place_is_not_lost(change: Any) -> None:
    mask = described()
    plain = theirs.sdpa_mask(2, 5, 9, 4, 0, CAUSAL, allow_is_causal_skip=False).expand(2, 1, 5, 9).clone()
    before = plain.clone()
    change(mask)
    change(plain)
    assert not torch.equal(plain, before)
    assert torch.equal(visible(mask.say().mask, mask.recipe.place), plain)
    assert mask.say().q_start == 4


def test_a_window_of_a_cache_counts_from_its_offset() -> None:
    said = described(q_length=2, kv_length=4, q_offset=7, kv_offset=5).say()
    assert said.q_start == 2


def test_every_key_visible_may_be_none_only_where_it_is_allowed() -> None:
    assert headwise_mask(1, 3, 3, mask_function=BOTH_WAYS, allow_is_bidirectional_skip=True) is None
    assert described(mask_function=BOTH_WAYS).say().mask is None
    assert headwise_mask(1, 3, 3, mask_function=CAUSAL, allow_is_bidirectional_skip=True) is not None


def test_a_bool_mask_of_the_users_is_kept_as_it_is() -> None:
    keep = torch.ones(1, 1, 3, 3).tril().bool()
    said = read(keep, 3)
    assert said.mask.keep_cells is keep
    assert said.scores == ()


def test_a_float_mask_is_split_into_hidden_and_added() -> None:
    low = torch.finfo(torch.float32).min
    given = torch.tensor([[0.0, low, 2.5], [float("-inf"), -1.0, 0.0]])
    said = read(given, 3)
    assert torch.equal(said.mask.keep_cells, torch.tensor([[True, False, True], [False, True, True]]))
    assert torch.equal(said.scores[0].tensor, torch.tensor([[0.0, 0.0, 2.5], [0.0, -1.0, 0.0]]))
    assert read(torch.zeros(3, 3), 3).mask is None
    assert read(torch.zeros(3, 3), 3).scores == ()


class Sizes(TorchDispatchMode):
    """Notes how many cells each tensor has that is made."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[tuple[str, int]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if isinstance(out, Tensor) and not any(out is arg for arg in args):
            self.made.append((str(func), out.numel()))
        return out


@pytest.mark.parametrize(("adds", "hides"), [(False, False), (False, True), (True, False), (True, True)])
def test_a_float_mask_makes_no_square_that_is_not_kept(adds: bool, hides: bool) -> None:
    given = torch.full((64, 64), 0.5 if adds else 0.0)
    if hides:
        given = given.masked_fill(torch.ones(64, 64, dtype=torch.bool).triu(1), torch.finfo(torch.float32).min)
    with Sizes() as sizes:
        said = read(given, 64)
    squares = [func for func, cells in sizes.made if cells >= 64 * 64]
    assert len(squares) == 1 + adds, squares
    assert (said.mask is not None, len(said.scores)) == (hides, int(adds))


def test_a_nan_in_a_float_mask_is_no_hidden_cell() -> None:
    said = read(torch.tensor([[0.0, float("nan")], [0.0, float("-inf")]]), 2)
    assert said.mask.keep_cells.tolist() == [[True, True], [True, False]]
    assert said.scores[0].tensor[0, 1].isnan()


def test_a_float_mask_is_read_once_and_again_when_changed() -> None:
    given = torch.zeros(1, 1, 3, 3)
    first = read(given, 3)
    assert read(given, 3) is first
    given[..., 0] = torch.finfo(torch.float32).min
    second = read(given, 3)
    assert second is not first
    assert not bool(second.mask.keep_cells[..., 0].any())


def test_reading_a_mask_does_not_keep_it_alive() -> None:
    given = torch.zeros(1, 1, 3, 3)
    gone = weakref.ref(given)
    assert isinstance(read(given, 3), Said)
    del given
    gc.collect()
    assert gone() is None


def test_a_learned_float_mask_gets_its_gradient() -> None:
    given = torch.randn(1, 1, 3, 3, requires_grad=True)
    for _ in range(2):  # a cached graph could only be used once
        said = read(given, 3)
        q = torch.randn(1, 1, 3, 4)
        hw.attention(q, q, q, mask=said.mask, scores=said.scores).square().sum().backward()
    assert float(given.grad.abs().sum()) > 0


def test_columns_beyond_the_keys_are_cut_off() -> None:
    keep = torch.ones(1, 1, 3, 5, dtype=torch.bool)
    assert read(keep, 3).mask.keep_cells.shape[-1] == 3
    assert described(q_length=3, kv_length=9, q_offset=0).shape[-1] == 9


def test_a_mask_of_integers_is_refused() -> None:
    with pytest.raises(
        SpecError, match=r"mask of torch.int64; a mask is bool, True = may attend, or float.*\.bool\(\)"
    ):
        read(torch.ones(1, 1, 3, 3, dtype=torch.int64), 3)


@pytest.mark.parametrize("form", ["bool", "float"])
def test_a_4d_mask_through_a_model(zoo: Any, form: str) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    keep = torch.ones(10, 10).tril().bool() & (torch.arange(10) != 3)
    keep[3, 3] = True
    low = torch.finfo(torch.float32).min
    numbers = torch.where(keep, torch.randn(10, 10, generator=torch.Generator().manual_seed(0)), low)
    plain = torch.where(keep, 0.0, low)
    eagers = plain if form == "bool" else numbers
    eager = zoo.result(model, {**batch, "attention_mask": eagers.expand(2, 1, 10, 10)})
    hw.use(model)
    given = keep if form == "bool" else numbers
    ours = zoo.result(model, {**batch, "attention_mask": given.expand(2, 1, 10, 10)})
    assert float((ours - eager).abs().max() / eager.abs().max()) < 2e-5
    assert float((ours - zoo.result(model, batch)).abs().max()) > 2e-3


def test_the_known_parts_are_really_transformers_parts() -> None:
    """A release that renames a part must not turn every mask into a rule without a word."""
    assert sorted(lowering._known().values()) == sorted(
        ["causal", "everything", "and", "or", "window", "two_sided_window", "chunks", "blockwise", "packed", "remap"]
    )
