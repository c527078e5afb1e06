"""A block of rows that sees no key is one empty tile, and Segments asked torch for the classes of an empty tensor."""

from __future__ import annotations

import torch

import headwise as hw


def test_segments_beside_a_block_of_empty_rows() -> None:
    x = torch.zeros(1, 1, 300, 4)
    words = torch.zeros(300, dtype=torch.int64)
    mask = hw.Padding(300, queries=torch.arange(300)[None] >= 200)
    seen = hw.attend(x, x, x, mask=mask, backend="blocked", observe=[hw.Segments(words, words)]).seen["segments"]
    assert torch.allclose(seen, torch.tensor(100.0))


def test_segments_without_keys() -> None:
    q, k = torch.zeros(1, 1, 3, 4), torch.zeros(1, 1, 0, 4)
    nothing = torch.zeros(0, dtype=torch.int64)
    seen = hw.attend(q, k, k, observe=[hw.Segments(torch.tensor([0, 1, 1]), nothing)]).seen["segments"]
    assert seen.shape == (1, 1, 2, 0)
