"""A mask of a class of its own was read as its storage: torch's CausalBias, which holds no numbers, gave anything."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from beside_torch import same
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

import headwise as hw

sdpa = F.scaled_dot_product_attention
KINDS = pytest.mark.parametrize("kind", [causal_upper_left, causal_lower_right])


@pytest.fixture(autouse=True)
def rows_without_keys() -> Iterator[None]:
    """torch warns of lower right masks with more queries than keys, whose first rows see nothing."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Lower right causal bias will produce NaNs")
        yield


def operands(T: int, S: int, *lead: int, dtype: torch.dtype = torch.float32, kv: int = 3) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (*lead, 3 * (1 + (kv == 1)), T, 8), (*lead, kv, S, 8), (*lead, kv, S, 6)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


@KINDS
@pytest.mark.parametrize("sizes", [(5, 5), (5, 7), (7, 5), (1, 6), (6, 1), (0, 4), (4, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("lead", [(2,), (), (2, 2)])
def test_it_means_what_torch_means(kind: Any, sizes: tuple[int, int], dtype: torch.dtype, lead: Any) -> None:
    bias = kind(*sizes)
    for options in ({}, {"scale": 0.3}):
        found = same(lambda *x, o=options: sdpa(*x, attn_mask=bias, **o), operands(*sizes, *lead, dtype=dtype))
        assert found == ""


@KINDS
def test_beside_groups_autocast_and_mixed_operands(kind: Any) -> None:
    q, k, v = operands(5, 7, 2, kv=1)
    bias = kind(5, 7)
    assert same(lambda *x: sdpa(*x, attn_mask=bias, enable_gqa=True), [q, k, v]) == ""

    def cast(*x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return sdpa(*x, attn_mask=bias, enable_gqa=True)

    assert same(cast, [q, k, v], torch.bfloat16) == ""
    mixed = q, k.detach().to(torch.bfloat16), v
    assert same(cast, mixed, torch.bfloat16) == ""  # one of the two is refused, by its own error


@KINDS
@pytest.mark.parametrize("change", ["other sizes", "one row", "the flag too", "mixed dtypes"])
def test_what_torch_makes_of_sizes_and_flags_that_do_not_fit(kind: Any, change: str) -> None:
    q, k, v = operands(5, 7, 2)
    bias = kind(1, 7) if change == "one row" else kind(4, 9) if change == "other sizes" else kind(5, 7)
    k = k.detach().double() if change == "mixed dtypes" else k
    assert same(lambda *x: sdpa(*x, attn_mask=bias, is_causal=change == "the flag too"), [q, k, v]) == ""


@KINDS
def test_dropout_beside_it_drops_visible_cells_alone(kind: Any) -> None:
    q, k = torch.zeros(1, 1, 40, 8), torch.zeros(1, 1, 60, 8)
    with hw.everywhere():
        weights = sdpa(q, k, torch.eye(60)[None, None], attn_mask=kind(40, 60), dropout_p=0.5)[0, 0]
    visible = kind(40, 60)._materialize()
    assert bool((weights[~visible] == 0).all())
    assert 0.4 < float((weights[visible] > 0).float().mean()) < 0.6
    expected = (2 / visible.sum(1, keepdim=True)).expand(40, 60)
    torch.testing.assert_close(weights[weights > 0], expected[weights > 0])


@KINDS
def test_it_is_a_mask_of_ours_and_no_tensor(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    op = sys.modules["headwise.models.dot_product"]
    masks: list[Any] = []
    real = hw.attention
    monkeypatch.setattr(op, "attention", lambda *x, **o: masks.append(o["mask"]) or real(*x, **o))
    with hw.everywhere():
        sdpa(*operands(5, 7, 2), attn_mask=kind(5, 7))
    assert [type(mask) for mask in masks] == [hw.Causal]


class Plain(Tensor):
    """A subclass that means nothing of its own."""


class Hidden(Tensor):
    """A subclass with an answer of its own for the op."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return torch.zeros(1) if func is sdpa else super().__torch_function__(func, types, args, kwargs)


@pytest.mark.parametrize("kind", [Plain, Hidden])
@pytest.mark.parametrize("place", ["query", "key", "value", "attn_mask"])
def test_other_classes_are_refused_wherever_they_stand(kind: Any, place: str) -> None:
    x = torch.randn(1, 2, 5, 8)
    call = {"query": x, "key": x, "value": x, "attn_mask": torch.ones(5, 5).bool()}
    call[place] = call[place].as_subclass(kind)
    with hw.everywhere(), pytest.raises(hw.UnsupportedError, match=f"got {kind.__name__}; headwise computes on plain"):
        sdpa(**call)


@pytest.mark.parametrize("need_weights", [False, True])
def test_a_module_refuses_it_as_torchs_does(need_weights: bool) -> None:
    layer, x = torch.nn.MultiheadAttention(16, 2, batch_first=True), torch.randn(2, 5, 16)
    errors = []
    for inside in (nullcontext, hw.everywhere):
        with inside(), pytest.raises(RuntimeError) as error:
            layer(x, x, x, attn_mask=causal_upper_left(5, 5), need_weights=need_weights)
        errors.append(str(error.value))
    assert errors[0] == errors[1]
