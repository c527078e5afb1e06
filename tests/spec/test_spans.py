"""Spans: one stretch of keys a query, and what it refuses."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import headwise as hw


def test_each_query_sees_its_stretch_and_no_other_key() -> None:
    x = torch.zeros(2, 1, 3, 4)
    keys = torch.zeros(2, 1, 5, 4)
    start, stop = torch.tensor([[0, 2, 4], [-3, 1, 3]]), torch.tensor([2, 5, 4])
    p = hw.Pattern(x, keys, mask=hw.Spans(start, stop))
    want = [[[1, 1, 0, 0, 0], [0, 0, 1, 1, 1], [0, 0, 0, 0, 0]], [[1, 1, 0, 0, 0], [0, 1, 1, 1, 1], [0, 0, 0, 1, 0]]]
    assert (p.to_dense()[:, 0] > 0).int().tolist() == want


def test_its_runs_are_exact_and_cost_two_numbers_a_query() -> None:
    n = 1_000_000
    at = torch.arange(n)
    x = torch.zeros(1, 1, n, 1)
    mask = hw.Spans((at - 3).clamp(min=0), at + 1)
    assert sum(t.numel() for t in mask.tensors()) == 2 * n
    p = hw.Pattern(x, x, mask=mask)
    assert p[0, 0, n - 1, n - 5 :].tolist() == [0.0, 0.25, 0.25, 0.25, 0.25]


@pytest.mark.parametrize(
    ("start", "stop", "text"),
    [
        (3, torch.zeros(3).long(), "start is int; it is an integer tensor"),
        (torch.zeros(3), torch.zeros(3).long(), "start is torch.float32"),
        (torch.zeros(3).long(), torch.zeros(3).bool(), "stop is torch.bool"),
        (torch.zeros(3).long(), torch.zeros(1, 1, 3).long(), "stop has 3 axes; it is [T] or [B,T]"),
    ],
)
def test_what_is_no_stretch(start: Any, stop: Any, text: str) -> None:
    with pytest.raises(hw.HeadwiseError, match="Spans: " + re.escape(text)):
        hw.Spans(start, stop)


@pytest.mark.parametrize("shape", [(4,), (1, 4), (3, 3)])
def test_what_does_not_fit(shape: tuple[int, ...]) -> None:
    x = torch.zeros(2, 1, 3, 4)
    wrong, right = torch.zeros(shape).long(), torch.zeros(3).long()
    for ends, name in (((wrong, right), "start"), ((right, wrong), "stop")):
        with pytest.raises(hw.ShapeError, match=rf"Spans: {name} does not fit the call; it is \[T=3\] or \[B=2,T=3\]"):
            hw.Pattern(x, x, mask=hw.Spans(*ends))
