"""Pictures of masks: every class, any size, and a cost that the picture decides."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.spec import Global, Strided, Tree
from headwise.testing import CASES

ALL = [name for name, case in CASES.items() if case.make(torch.float32).options.get("mask") is not None]


def shown(capsys: pytest.CaptureFixture[str], mask: hw.spec.Mask, *sizes: int, **how: Any) -> list[str]:
    mask.show(*sizes, **how)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("name", ALL[::3])
def test_a_picture_is_what_the_mask_keeps(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    call = CASES[name].make(torch.float64)
    (B, H, T, _), S = call.q.shape, call.k.shape[2]
    for b, h in ((0, 0), (B - 1, H - 1)):
        options = {key: call.options[key] for key in ("mask", "q_start", "kv_heads") if key in call.options}
        seen = hw.Pattern(call.q, call.k, **options)[b, h] > 0
        lines = ["".join("█" if cell else "·" for cell in row) for row in seen.tolist()]
        start = call.options.get("q_start")
        found = shown(
            capsys, call.options["mask"], T, S, batch=b, head=h, q_start=start, height=max(T, 24), width=max(S, 64)
        )
        assert found == (lines or [""])


@pytest.mark.parametrize(
    ("mask", "rows", "across"),
    [
        (hw.Causal(), 16, 16),
        (hw.Dense(torch.ones(3, 5) > 0), 3, 5),
        (hw.Causal() & hw.Documents(torch.arange(7) // 3), 7, 7),
        (hw.Documents(torch.zeros(2).int(), torch.zeros(9).int()), 2, 9),
        (hw.Padding(torch.ones(2, 6) > 0), 6, 6),
        (hw.Padding(torch.ones(2, 6) > 0, torch.ones(2, 4) > 0), 4, 6),
        (hw.Blocks(torch.ones(2, 3) > 0, 2), 4, 6),
        (hw.Prefix(torch.tensor([1, 2])), 16, 16),
        (Tree([-1, 0, 0]), 3, 3),
        (Global(torch.ones(8) > 0), 8, 8),
    ],
    ids=str,
)
def test_sizes_that_the_mask_knows(mask: Any, rows: int, across: int, capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, mask)
    assert (len(lines), len(lines[0])) == (rows, across)


def test_a_pooled_picture_says_how_full_its_cells_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, hw.Window(0, 0), 64, height=4, width=4)[:4] == ["░···", "·░··", "··░·", "···░"]
    assert shown(capsys, hw.Prefix(64), 128, height=2, width=4)[:2] == ["██··", "██··"]
    assert shown(capsys, Strided(2), 128, height=1, width=3)[0] == "▒▒▒"  # only the mask itself knows
    overlapping = hw.Prefix(64) | hw.Prefix(32)
    assert shown(capsys, overlapping, 128, height=1, width=2)[0] == "█·", "keys of two runs are counted once"
    assert shown(capsys, hw.Causal(), 128, height=1, width=2)[1].startswith("128 queries down, 128 keys across")


MILLION = 1_000_000


@pytest.mark.parametrize(
    "make",
    [
        lambda: hw.Causal() & hw.Window(5000),
        lambda: hw.Chunks(8192) | hw.Prefix(7),
        lambda: Global(9) | hw.Window(99_999, 0),
        lambda: Strided(3),
        lambda: hw.Rule(lambda b, h, i, j: (i - j) % 3 == 0),
    ],
    ids=["window", "chunks", "global", "strided", "rule"],
)
def test_a_million_tokens_cost_what_the_picture_costs(
    make: Callable[[], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    shown(capsys, make(), 2000, height=16, width=32)  # what torch loads for a first call
    tracemalloc.start()
    lines = shown(capsys, make(), MILLION, height=16, width=32)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(lines) == 17
    assert peak < 2**20


def test_nothing_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, hw.Causal(), 0, 5) == [""]
    assert shown(capsys, hw.Causal(), 2, 0) == ["", ""]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ({"T": -1}, "show: T is -1"),
        ({"S": 2.5}, "show: S is 2.5"),
        ({"height": 0}, "show: height is 0"),
        ({"batch": 2}, "show: batch is 2; the mask holds 2 of them"),
        ({"head": -1}, "show: head is -1"),
        ({"q_start": 1.5}, "show: q_start is 1.5"),
        ({"q_start": "a"}, "show: q_start is 'a'"),
        ({"q_start": 2**70}, "show: q_start is 1180591620717411303424; it is an int from -1099"),
        ({"q_start": torch.tensor(1.5)}, "show: q_start .* of torch.float32; it is an int, or an integer tensor"),
        ({"T": 2**70}, "show: T is 1180591620717411303424"),
    ],
)
def test_what_cannot_be_shown(how: dict[str, Any], said: str) -> None:
    with pytest.raises(hw.SpecError, match=said):
        hw.Prefix(torch.tensor([1, 2])).show(**how)


def test_a_start_for_each_sequence_fits_the_mask() -> None:
    with pytest.raises(hw.ShapeError, match="q_start has 3 entries, the batch has 2 rows"):
        hw.Prefix(torch.tensor([1, 2])).show(4, q_start=torch.tensor([0, 1, 2]))


def test_a_start_in_a_tensor(capsys: pytest.CaptureFixture[str]) -> None:
    """Of one number, and of one for the row that is shown."""
    wanted = shown(capsys, hw.Causal(), 2, 5, q_start=1)
    assert shown(capsys, hw.Causal(), 2, 5, q_start=torch.tensor(1)) == wanted
    assert shown(capsys, hw.Causal(), 2, 5, q_start=torch.tensor([4, 1]), batch=1) == wanted


def test_a_mask_of_other_sizes_is_refused() -> None:
    with pytest.raises(hw.ShapeError, match="ids does not fit"):
        hw.Documents(torch.arange(3)).show(4)


def test_thin_bands_are_seen(capsys: pytest.CaptureFixture[str]) -> None:
    """Six keys of 20,000 a query, far fewer than a character holds, make a diagonal and not a blank page."""
    lines = shown(capsys, hw.masks.dilated(5, 3), 20_000, height=10, width=20)
    marked = [[c for c, character in enumerate(line) if character != "·"] for line in lines[:10]]
    assert all(marked)
    assert [row[-1] // 2 for row in marked] == list(range(10))


def test_global_counts_tokens() -> None:
    with pytest.raises(hw.SpecError, match="tokens is -1"):
        Global(-1)
