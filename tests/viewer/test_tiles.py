"""Tiles are the dense pattern, pooled: every level, window and way of showing it."""

from __future__ import annotations

from typing import Any

import dense
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import headwise as hw
from headwise.viewer import Answers, Scene, tiles
from headwise.viewer.sampling import sampled, some_queries

MASKS: dict[str, hw.spec.Mask | None] = {
    "none": None,
    "causal": hw.Causal(),
    "window": hw.Causal() & hw.Window(before=40),
    "two_sided": hw.Window(30, 30),
    "padding": hw.Causal() & hw.Padding(torch.arange(301).expand(2, -1) >= torch.tensor([[0], [17]])),
    "chunks": hw.Causal() & hw.Chunks(64),
}


def answers(*patterns: hw.Pattern) -> Answers:
    return Answers(Scene.of({f"run {n}": {"layers.0.attn": p} for n, p in enumerate(patterns)}))


def asked(**more: Any) -> dict[str, Any]:
    return {"run": 0, "layer": 0, "head": 1, "b": 1, "pool": "mean", "hide": 0, "norm": 0, **more}


def close(found: Tensor, wanted: Tensor) -> None:
    assert found.shape == wanted.shape
    torch.testing.assert_close(found.double(), wanted.double(), rtol=3e-6, atol=1e-7)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("pool", ["mean", "max"])
@pytest.mark.parametrize(("hide", "norm"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_every_level_and_tile_is_the_dense_pattern(mask: str, pool: str, hide: int, norm: int) -> None:
    pattern = dense.patterns(301, mask=MASKS[mask])
    shower = answers(pattern)
    whole = dense.shown(pattern.to_dense()[1, 1], pattern.reach(1)[0], hide=bool(hide), norm=bool(norm))
    assert tiles.coarsest(301, 301) == 1
    for z in (0, 1):
        wanted = dense.pooled(whole, z, pool)
        for r in range(-(-wanted.shape[0] // tiles.TILE)):
            for c in range(-(-wanted.shape[1] // tiles.TILE)):
                found = shower.answer("tile", asked(pool=pool, hide=hide, norm=norm, z=z, r=r, c=c))
                place = slice(r * 256, (r + 1) * 256), slice(c * 256, (c + 1) * 256)
                close(found.data, wanted[place])
                assert found.meta == {
                    "z": z,
                    "r": r,
                    "c": c,
                    "h": found.data.shape[0],
                    "w": found.data.shape[1],
                    "exact": True,
                }


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    data=st.data(),
    T=st.integers(1, 90),
    S=st.integers(1, 90),
    z=st.integers(0, 5),
    pool=st.sampled_from(["mean", "max"]),
)
def test_any_window_at_any_scale(data: st.DataObject, T: int, S: int, z: int, pool: str) -> None:
    pattern = dense.patterns(T, S, seed=T * 97 + S)
    start, left = data.draw(st.integers(0, T - 1)), data.draw(st.integers(0, S - 1))
    rows, cols = slice(start, data.draw(st.integers(start + 1, T))), slice(left, data.draw(st.integers(left + 1, S)))
    close(tiles.pooled(pattern, 1, 2, rows, cols, z, pool), dense.pooled(pattern.to_dense()[1, 2, rows, cols], z, pool))


@settings(deadline=None, max_examples=60, derandomize=True)
@given(
    T=st.integers(1, 70),
    S=st.integers(1, 70),
    have=st.integers(0, 3),
    more=st.integers(0, 4),
    pool=st.sampled_from(["mean", "max"]),
)
def test_coarse_levels_come_out_of_finer_ones(T: int, S: int, have: int, more: int, pool: str) -> None:
    p = torch.rand(T, S, dtype=torch.float64)
    base = dense.pooled(p, have, pool)
    close(tiles.condensed(base, have, have + more, T, S, pool), dense.pooled(p, have + more, pool))


def test_long_work_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = dense.patterns(203, mask=hw.Causal())
    monkeypatch.setattr(tiles, "AT_ONCE", 203 * 16)
    everything = slice(0, 203), slice(0, 203)
    for z, pool in ((0, "mean"), (2, "mean"), (3, "max")):
        close(tiles.pooled(pattern, 0, 0, *everything, z, pool), dense.pooled(pattern.to_dense()[0, 0], z, pool))


def test_work_that_is_not_wanted_stops_between_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "AT_ONCE", 203 * 16)
    looks = iter([False, False, True])
    with pytest.raises(tiles.Cancelled):
        tiles.pooled(dense.patterns(203), 0, 0, slice(0, 203), slice(0, 203), 1, "mean", lambda: next(looks))
    assert next(looks, None) is None  # it looked three times and stopped at the third


def test_levels_above_the_base_are_condensed_from_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "BASE", 64)
    monkeypatch.setattr(tiles, "TILE", 16)
    pattern = dense.patterns(301, mask=hw.Causal())
    shower = answers(pattern)
    passes = []
    real = tiles.pooled
    monkeypatch.setattr(tiles, "pooled", lambda *args: passes.append(args[5]) or real(*args))
    whole = pattern.to_dense()[1, 1]
    for z in (5, 4, 3):
        wanted = dense.pooled(whole, z, "mean")
        for r, c in ((0, 0), (1, 0), (1, 1)):
            if r * 16 < wanted.shape[0]:
                close(shower.answer("tile", asked(z=z, r=r, c=min(c, (wanted.shape[1] - 1) // 16))).data,
                      wanted[r * 16 : r * 16 + 16, min(c, (wanted.shape[1] - 1) // 16) * 16 :][:, :16])  # fmt: skip
    assert passes == [3]


def test_a_difference_is_one_run_less_the_other() -> None:
    one, two = dense.patterns(77, mask=hw.Causal(), seed=1), dense.patterns(77, mask=hw.Causal(), seed=2)
    found = answers(one, two).answer("tile", asked(minus=1, z=0, r=0, c=0)).data
    close(found, one.to_dense()[1, 1] - two.to_dense()[1, 1])


def test_a_preview_has_the_shape_of_the_whole_and_rows_of_mass_one() -> None:
    T = 2048
    pattern = dense.patterns(T, B=1, H=1, Hk=1, mask=hw.Causal())
    shower = answers(pattern)
    z = tiles.coarsest(T, T)
    quick = shower.answer("preview", asked(head=0, b=0))
    exact = shower.answer("tile", asked(head=0, b=0, z=z, r=0, c=0))
    assert quick.data.shape == exact.data.shape and not quick.meta["exact"]
    # every row has the mass of a row: sampled, not invented
    mass = quick.data.double().sum(-1) * (1 << z)
    torch.testing.assert_close(mass, torch.ones_like(mass), rtol=1e-5, atol=1e-5)
    assert not torch.equal(quick.data, exact.data)


def test_short_patterns_are_previewed_whole() -> None:
    pattern = dense.patterns(24, mask=hw.Causal())
    shower = answers(pattern)
    close(shower.answer("preview", asked()).data, shower.answer("tile", asked(z=0, r=0, c=0)).data)


def test_tiles_are_kept_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = dense.patterns(600, mask=hw.Causal())
    shower = answers(pattern)
    shower._tiles.limit = 3 * 256 * 256 * 4
    for head in range(3):
        for r in range(3):
            for c in range(3):
                shower.answer("tile", asked(head=head, z=0, r=r, c=c))
    assert shower._tiles.size <= shower._tiles.limit
    assert shower._tiles.size == sum(size for _, size in shower._tiles._held.values())


@pytest.mark.parametrize("mask", ["none", "causal", "window", "padding", "chunks"])
def test_some_queries_are_rows_of_the_pattern(mask: str) -> None:
    pattern = dense.patterns(301, mask=MASKS[mask], scores=[hw.SoftCap(5.0)])
    rows = sampled(301, 32, 4)
    some = some_queries(pattern, 1, rows)
    assert some is not None
    torch.testing.assert_close(some.to_dense()[0], pattern.to_dense()[1][:, rows])
    edges = [r * 301 // 32 for r in range(33)]
    for r, of_row in enumerate(rows.view(32, 4).tolist()):
        assert all(edges[r] <= at < edges[r + 1] for at in of_row)


def test_queries_that_count_positions_are_not_taken_elsewhere() -> None:
    slopes = torch.tensor([0.5, 0.2, 0.1])
    assert some_queries(dense.patterns(30, scores=[hw.Alibi(slopes)]), 0, torch.tensor([3, 9])) is None
    keep = torch.ones(30, 30, dtype=torch.bool)
    assert some_queries(dense.patterns(30, mask=hw.Dense(keep)), 0, torch.tensor([3, 9])) is None


def test_what_cannot_be_sampled_is_previewed_whole() -> None:
    pattern = dense.patterns(301, scores=[hw.Alibi(torch.tensor([0.5, 0.2, 0.1]))])
    shower = answers(pattern)
    quick = shower.answer("preview", asked())
    assert quick.meta["exact"]
    close(quick.data, dense.pooled(pattern.to_dense()[1, 1], 1, "mean"))


@pytest.mark.parametrize(("hide", "norm"), [(1, 0), (0, 1), (1, 1)])
def test_a_preview_hides_and_divides_as_tiles_do(hide: int, norm: int) -> None:
    """Where every query of a row of the map looks alike, its sample is its mean."""
    q, k = torch.ones(2, 3, 600, 8), torch.randn(2, 3, 600, 8)
    shower = answers(hw.Pattern(q, k))
    quick = shower.answer("preview", asked(hide=hide, norm=norm))
    assert not quick.meta["exact"]
    exact = shower.answer("tile", asked(hide=hide, norm=norm, z=2, r=0, c=0))
    torch.testing.assert_close(quick.data, exact.data, rtol=1e-5, atol=1e-8)
