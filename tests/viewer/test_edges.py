"""Edges that a map draws hide exactly what the mask hides, or say that they do not."""

from __future__ import annotations

from typing import Any

import dense
import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.viewer.edges import Edges, edges

T = 12
KEEP = torch.arange(T).expand(2, -1)
MASKS: dict[str, tuple[hw.spec.Mask | None, tuple[bool, int | None, int | None, bool]]] = {
    "none": (None, (False, None, None, True)),
    "causal": (hw.Causal(), (True, None, None, True)),
    "window": (hw.Causal() & hw.Window(before=3), (True, 3, None, True)),
    "two-sided": (hw.Window(3, 4), (False, 3, 4, True)),
    "left padding": (hw.Causal() & hw.Padding(torch.tensor([[0], [4]]) <= KEEP), (True, None, None, True)),
    "right padding": (hw.Padding(torch.tensor([5, 12])), (False, None, None, True)),
    "spans": (hw.Spans(torch.zeros(T).long(), torch.arange(T) + 1), (True, None, None, True)),
    "spans of a window": (hw.Spans((torch.arange(T) - 2).clamp(min=0), torch.arange(T) + 1), (True, 2, None, True)),
    "prefix": (hw.Causal() | hw.Prefix(torch.tensor([5, 6])), (False, None, None, False)),
    "chunks": (hw.Causal() & hw.Chunks(5), (True, None, None, False)),
    "holes": (hw.Causal() & hw.Padding(KEEP % 3 > 0), (True, None, None, False)),
    "dense": (hw.Dense(torch.ones(T, T, dtype=torch.bool)), (False, None, None, False)),
    "rule": (hw.Rule(lambda b, h, i, j: j <= i), (False, None, None, False)),
    "a sum inside": ((hw.Causal() | hw.Prefix(4)) & hw.Padding(torch.tensor([9, 12])), (False, None, None, False)),
    "short rows": (hw.Causal() & hw.Window(before=3) & hw.Padding(torch.tensor([9, 1])), (True, 3, None, True)),
    "an empty row": (hw.Causal() & hw.Padding(torch.tensor([[12], [4]]) <= KEEP), (True, None, None, True)),
    "one key": (hw.Padding(torch.tensor([1, 9])), (False, None, None, True)),
    "strictly behind": (hw.Spans(torch.zeros(T).long(), torch.arange(T)), (False, None, None, False)),
}  # fmt: skip


def hidden(found: Edges, b: int, pattern: hw.Pattern) -> Tensor:
    """What the edges hide, cell by cell."""
    _, _, rows, cols = pattern.shape
    i, j = torch.arange(rows)[:, None], torch.arange(cols)
    start = pattern.options["q_start"]
    own = i + (int(start[b]) if isinstance(start, Tensor) else start)
    gone = (j < found.keys[b][0]) | (j >= found.keys[b][1]) | (i < found.queries[b][0]) | (i >= found.queries[b][1])
    gone = gone | (j > own) if found.causal else gone
    gone = gone if found.before is None else gone | (j < own - found.before)
    return gone if found.after is None else gone | (j > own + found.after)


@pytest.mark.parametrize("name", MASKS)
def test_edges_are_those_of_the_mask(name: str) -> None:
    mask, wanted = MASKS[name]
    pattern = dense.patterns(T, mask=mask)
    found = edges(pattern)
    assert (found.causal, found.before, found.after, found.edged) == wanted
    if found.edged:
        for b in range(2):
            assert torch.equal(hidden(found, b, pattern), pattern.to_dense()[b, 0] == 0)


@pytest.mark.parametrize("more", [{"q_start": 3}, {"q_start": torch.tensor([0, 5])}, {}], ids=["one", "each", "last"])
def test_queries_that_stand_elsewhere(more: dict[str, Any]) -> None:
    pattern = dense.patterns(4, 9, mask=hw.Causal() & hw.Window(before=2), **more)
    found = edges(pattern)
    assert found.edged and found.causal and found.before == 2
    for b in range(2):
        assert torch.equal(hidden(found, b, pattern), pattern.to_dense()[b, 0] == 0)


def test_one_query_says_nothing_of_what_lies_ahead() -> None:
    assert edges(dense.patterns(1, 5)) == Edges(False, None, None, ((0, 5),) * 2, ((0, 1),) * 2, edged=True)


def test_runs_that_differ_hide_no_cell_that_one_of_them_shows() -> None:
    one = dense.patterns(T, mask=hw.Causal() & hw.Window(before=3) & hw.Padding(KEEP >= 2))
    other = dense.patterns(T, mask=hw.Causal() & hw.Window(before=5))
    for runs in ((one, other), (other, one), (one, dense.patterns(T)), (dense.patterns(T), one)):
        found = edges(*runs)
        assert not found.edged
        for b in range(2):
            shown = sum(run.to_dense()[b, 0] for run in runs) > 0
            assert not (hidden(found, b, one) & shown).any()
    assert edges(one, one) == edges(one)


def test_a_bias_may_hide_more_than_the_mask() -> None:
    bias = torch.zeros(T, T)
    bias[5, 2] = float("-inf")
    assert not edges(dense.patterns(T, mask=hw.Causal(), scores=[hw.Bias(bias)])).edged


def test_padding_of_no_token_is_no_edge() -> None:
    found = edges(dense.patterns(T, mask=hw.Padding(torch.tensor([0, 12]))))
    assert found.keys == ((0, 0), (0, 12)) and found.queries == ((0, 0), (0, 12))
