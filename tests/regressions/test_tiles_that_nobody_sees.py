"""Blocks and Dense had every tile scored before the mask was asked; & of masks with holes multiplied runs."""

import pytest
import torch

import headwise as hw
from headwise.backends import tiling
from headwise.backends.tiling import chunks, key_tiles, row_blocks
from headwise.plan import make_plan
from headwise.spec import AttentionSpec, Mask

T = 64


def cells_made(mask: Mask, heads: int = 1) -> int:
    """Cells of one head that blocked makes scores of."""
    x = torch.zeros(1, heads, T, 2)
    plan = make_plan("test", x, x, x, AttentionSpec(mask=mask))
    made = 0
    for chunk in chunks(plan, slice(0, 1), slice(0, heads)):
        for rows in row_blocks(slice(0, T)):
            for cells, _ in key_tiles(plan, chunk, rows):
                _, h, n, m = cells.shape
                made += h * n * m
    return made // heads


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tiling, "ROWS", 8)
    monkeypatch.setattr(tiling, "KEYS", 16)


def test_a_block_diagonal_is_made_and_nothing_else():
    eye = torch.eye(T // 8).bool()
    assert cells_made(hw.Blocks(eye, 8)) == T * 8
    assert cells_made(hw.Dense(eye.repeat_interleave(8, 0).repeat_interleave(8, 1))) == T * 8
    assert cells_made(hw.Rule(lambda b, h, i, j: i // 8 == j // 8)) == T * 8


def test_heads_with_blocks_of_their_own_skip_their_own():
    keep = torch.zeros(4, T // 8, T // 8).bool()
    for head in range(4):
        keep[head, :, head] = True
    assert cells_made(hw.Blocks(keep, 8), heads=4) == T * 8


def test_crossed_runs_stay_few():
    holes = [torch.arange(T)[None] % step != 0 for step in (2, 3, 5, 7)]
    mask = hw.Padding(holes[0])
    for hole in holes[1:]:
        mask = mask & hw.Padding(hole)
    x = torch.zeros(1, 1, T, 2)
    plan = make_plan("test", x, x, x, AttentionSpec(mask=mask))
    lo, _ = plan.intervals.bounds(slice(0, 1), slice(0, T))
    assert lo.shape[-1] <= T // 2
    wanted = torch.stack(holes).all(0)[0]
    assert torch.equal(hw.Pattern(x, x, mask=mask)[0, 0, 5] > 0, wanted)


def test_a_crop_makes_its_own_tiles():
    x = torch.zeros(1, 1, T, 2)
    plan = make_plan("test", x, x, x, AttentionSpec())
    chunk = next(chunks(plan, slice(0, 1), slice(0, 1)))
    made = [cells.keys for cells, _ in key_tiles(plan, chunk, slice(0, 8), slice(20, 25))]
    assert made == [slice(20, 25)]
