"""Masks in closed form at a million queries and keys: lowering and explaining them takes kilobytes a block of rows."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

import headwise as hw
from headwise.backends import TABLE, choose
from headwise.plan import make_plan
from headwise.spec import AttentionSpec, Strided, recipes

MILLION = 2**20

MASKS: dict[str, Callable[[], hw.spec.Mask]] = {
    "longformer": lambda: recipes.longformer(512, 16),
    "prefix_lm": lambda: recipes.prefix_lm(1000),
    "chunked_local": lambda: recipes.chunked_local(8192),
    "dilated": lambda: recipes.dilated(128, 8),
    "streaming": lambda: recipes.streaming(4, 2000),
    "strided": lambda: hw.Causal() & Strided(128),
}


class Allocated(TorchDispatchMode):
    """Sums the storages that operations make."""

    def __init__(self) -> None:
        super().__init__()
        self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_flatten(out)[0]:
            if isinstance(leaf, Tensor):
                self.largest = max(self.largest, leaf.untyped_storage().nbytes())
        return out


def planned(name: str, x: Tensor) -> str:
    """The backend of a call, whose mask was also bounded for a block of rows."""
    n = x.shape[2]
    plan = make_plan("test", x, x, x, AttentionSpec(mask=MASKS[name]()))
    plan.intervals.bounds(slice(0, 1), slice(n // 2, n // 2 + 128))
    return choose("test", plan, None).name


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_in_closed_form_costs_kilobytes(name: str) -> None:
    """Checking a call, choosing its backend and bounding a block of rows: no tensor has an entry a token."""
    x = torch.empty(1, 1, MILLION, 1)
    with Allocated():
        planned(name, x[:, :, :256])  # what torch loads for a first call
    tracemalloc.start()
    with Allocated() as allocated:
        chosen = planned(name, x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert chosen == ("native" if any(b.name == "native" for b in TABLE) else "blocked")
    assert allocated.largest <= 64 * 2**10
    assert peak < 2**20


def test_what_is_explained_is_counted_a_block_of_rows_at_a_time() -> None:
    x = torch.empty(1, 1, MILLION, 1)
    with Allocated() as allocated:
        said = hw.explain(x, x, x, mask=MASKS["streaming"]())
    assert said.tiles[1] == (MILLION // 128) * (MILLION // 1024)
    assert said.tiles[0] < 5 * MILLION // 128
    assert allocated.largest <= 2 * MILLION


@pytest.mark.parametrize("name", MASKS)
def test_a_query_of_a_million_is_answered_from_its_own_tiles(name: str) -> None:
    x = torch.zeros(1, 1, MILLION, 1)
    with Allocated() as allocated:
        row = hw.Pattern(x, x, mask=MASKS[name]())[0, 0, MILLION - 3, MILLION - 16 :]
    assert bool((row > 0).any())
    assert allocated.largest <= 16 * MILLION
