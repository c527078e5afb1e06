"""A tree of drafted tokens was walked in Python for every tile, and its runs found twice a call."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.backends import tiling
from headwise.backends.native.lowering import lower
from headwise.plan import make_plan
from headwise.spec import AttentionSpec, sparse

PARENTS = [-1, 0, 0, 1, 1, 4, -1, 6, 2]


@pytest.fixture
def walks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Each walk through the parents that is made."""
    seen: list[Any] = []

    def counted(parents: torch.Tensor, walk: Any = sparse._walk) -> Any:
        seen.append(parents)
        return walk(parents)

    monkeypatch.setattr(sparse, "_walk", counted)
    return seen


@pytest.mark.parametrize("backend", ["native", "blocked", "reference"])
def test_one_walk_for_all_calls(backend: str, walks: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiling, "ROWS", 4)
    monkeypatch.setattr(tiling, "KEYS", 5)
    mask = hw.Causal() & hw.Tree(PARENTS) & hw.Window(12)
    q, k = torch.randn(2, 3, 9, 4, requires_grad=True), torch.randn(2, 3, 20, 4)
    for _ in range(2):
        hw.attention(q, k, k, mask=mask, backend=backend).sum().backward()
    assert len(walks) == 1


def test_parents_written_over_are_walked_again(walks: list[Any]) -> None:
    parents = torch.tensor(PARENTS)
    mask = hw.Tree(parents)
    q = torch.randn(1, 1, 9, 4)
    before = hw.attention(q, q, q, mask=mask)
    parents.copy_(torch.arange(9) - 1)
    chain = hw.attention(q, q, q, mask=mask)
    assert not torch.equal(before, chain)
    torch.testing.assert_close(chain, hw.attention(q, q, q, mask=hw.Causal()))
    for other in (mask.mapped(lambda x: torch.full_like(x, -1)), copy.deepcopy(mask)):
        same = hw.attention(q, q, q, mask=hw.Tree(other.parents.clone()))
        torch.testing.assert_close(hw.attention(q, q, q, mask=other), same)


def test_the_kernels_find_the_runs_of_each_part_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a mask that they read as nodes, too."""
    found: list[str] = []
    kinds = (hw.Dense, hw.Prefix, hw.Chunks, hw.Tree)
    for kind in kinds:
        monkeypatch.setattr(kind, "intervals", _counted(kind.intervals, kind.__name__, found))
    mask = (hw.Dense(torch.rand(9, 9) > 0.5) | hw.Prefix(2)) & hw.Chunks(4) & hw.Tree(PARENTS) & hw.Causal()
    q = torch.randn(1, 1, 9, 4)
    lower(make_plan("attention", q, q, q, AttentionSpec(mask=mask)))
    assert sorted(found) == sorted(kind.__name__ for kind in kinds)


def _counted(intervals: Any, name: str, found: list[str]) -> Any:
    def counted(mask: Any, geometry: Any) -> Any:
        found.append(name)
        return intervals(mask, geometry)

    return counted
