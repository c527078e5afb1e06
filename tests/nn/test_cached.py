"""Cached = uncached = in chunks = packed = padded = alone, for every way of telling positions and every cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.nn import (
    Cache,
    DifferentialAttention,
    KVCache,
    LatentAttention,
    LongRope,
    PagedCache,
    QuantisedCache,
    RingCache,
    Rotary,
    StaticCache,
    Yarn,
)

F64 = torch.float64
T, M, WINDOW, SINKS = 19, 24, 5, 2

POSITIONS: dict[str, dict[str, Any]] = {
    "none": {},
    "rotary": {"rotary": Rotary(base=50.0)},
    "neighbours, partial": {"rotary": Rotary(2, base=50.0, pairing="neighbours")},
    "yarn": {"rotary": Rotary(base=50.0, scaling=Yarn(4.0, 8))},
    "alibi": {"scores": (hw.Alibi(torch.tensor([0.1, 0.3, 0.5, 0.7, 0.9, 1.1])),)},
    "relative table": {"scores": (hw.RelativeBias(torch.linspace(-2, 2, 6 * 7).view(6, 7), zero=6),)},
    "rotary, alibi and a cap": {"rotary": Rotary(), "scores": (hw.SoftCap(3.0), hw.Alibi(torch.full((6,), 0.2)))},
}
CACHES: dict[str, Callable[[], Cache]] = {
    "growing": KVCache,
    "static": lambda: StaticCache(T + 3),
    "pages of 1": lambda: PagedCache(page_size=1),
    "pages of 3": lambda: PagedCache(page_size=3),
    "pages of 16": lambda: PagedCache(page_size=16),
}
CUTS = ([T], [1] * T, [7, 1, 1, 6, 4], [2, 17])


def made(positions: str, mask: hw.spec.Mask, dtype: torch.dtype = F64) -> hw.MultiHeadAttention:
    torch.manual_seed(4)
    layer = hw.MultiHeadAttention(M, 6, 2, mask=mask, dtype=dtype, **POSITIONS[positions]).eval()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.4)
    return layer


def text(dtype: torch.dtype = F64, rows: int = 2) -> Tensor:
    return torch.randn(rows, T, M, dtype=F64, generator=torch.Generator().manual_seed(5)).to(dtype)


def in_pieces(layer: Any, x: Tensor, cache: Cache, cut: list[int], **options: Any) -> Tensor:
    with torch.no_grad():
        return torch.cat([layer(part, cache=cache, **options) for part in x.split(cut, dim=1)], 1)


def close(a: Tensor, b: Tensor) -> None:
    tolerance = 1e-11 if a.dtype == F64 else 2e-5
    torch.testing.assert_close(a, b, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("dtype", [F64, torch.float32], ids=["f64", "f32"])
@pytest.mark.parametrize("cache", list(CACHES))
@pytest.mark.parametrize("positions", list(POSITIONS))
def test_cached_in_any_cut_equals_uncached(positions: str, cache: str, dtype: torch.dtype) -> None:
    for mask in (hw.Causal(), hw.Window(WINDOW - 1, 0)):
        layer, x = made(positions, mask, dtype), text(dtype)
        want = layer(x)
        for cut in CUTS:
            close(in_pieces(layer, x, CACHES[cache](), cut), want)


@pytest.mark.parametrize("positions", [name for name in POSITIONS if name != "relative table"])
def test_a_ring_with_sinks_equals_its_own_mask(positions: str) -> None:
    """Distances are those of the text, across the gap too."""
    layer, x = made(positions, hw.Causal()), text()
    want = layer(x, mask=hw.Window(WINDOW - 1, 0) | hw.Prefix(SINKS))
    for cut in CUTS:
        close(in_pieces(layer, x, RingCache(WINDOW, SINKS), cut), want)
    assert not torch.allclose(want, layer(x, mask=hw.Window(WINDOW - 1, 0)), atol=1e-3), "the sinks count for nothing"


@pytest.mark.parametrize("positions", list(POSITIONS))
def test_a_ring_equals_its_window(positions: str) -> None:
    layer, x = made(positions, hw.Causal()), text()
    want = layer(x, mask=hw.Window(WINDOW - 1, 0))
    for cut in CUTS:
        close(in_pieces(layer, x, RingCache(WINDOW), cut), want)


def test_a_ring_refuses_what_it_cannot_mean() -> None:
    layer = made("relative table", hw.Causal())
    cache = RingCache(WINDOW, SINKS)
    with pytest.raises(hw.SpecError, match="the score rule RelativeBias counts keys that the ring lets go"):
        layer(text(), cache=cache)
    with pytest.raises(hw.SpecError, match="the mask Window counts keys"):
        made("none", hw.Window(WINDOW, 0))(text(), cache=cache)
    with pytest.raises(hw.SpecError, match="the mask Window counts keys"):
        hw.MultiHeadAttention(M, 6, mask=hw.Window(2, 2), dtype=F64)(text(), cache=cache)
    assert cache.length == 0


@pytest.mark.parametrize("positions", list(POSITIONS))
def test_eight_bits_are_within_their_step(positions: str) -> None:
    """Equal, to rounding, to the same layer over keys and values that were rounded beforehand; near the exact ones."""
    layer, x = made(positions, hw.Causal()), text()
    want = in_pieces(layer, x, QuantisedCache(), [T])
    for cut in CUTS[1:]:
        close(in_pieces(layer, x, QuantisedCache(), cut), want)
    cache = QuantisedCache()
    in_pieces(layer, x, cache, [T])
    exact = KVCache()
    in_pieces(layer, x, exact, [T])
    for rounded, true in ((cache.k, exact.k), (cache.v, exact.v)):
        assert rounded is not None
        assert true is not None
        assert bool(((rounded - true).abs() <= true.abs().amax(-1, keepdim=True) / 253).all())
    assert (want - layer(x)).abs().max() < 0.02 * layer(x).abs().max()


@pytest.mark.parametrize("positions", list(POSITIONS))
def test_packed_equals_padded_equals_alone(positions: str) -> None:
    layer = made(positions, hw.Causal())
    lengths = [7, 1, 11]
    alone = [layer(part) for part in text(rows=1).split(lengths, dim=1)]

    ids = torch.tensor([n for n, length in enumerate(lengths) for _ in range(length)])
    close(layer(text(rows=1), mask=hw.Documents(ids)), torch.cat(alone, 1))

    padded = torch.zeros(3, max(lengths), M, dtype=F64)
    left = padded.clone()
    for row, part in enumerate(text(rows=1).split(lengths, dim=1)):
        padded[row, : lengths[row]], left[row, -lengths[row] :] = part[0], part[0]
    real = torch.arange(max(lengths)) >= max(lengths) - torch.tensor(lengths)[:, None]
    for one, mask, at in ((padded, hw.Padding(torch.tensor(lengths)), False), (left, hw.Padding(real), True)):
        whole = layer(one, mask=mask)
        keep = real if at else real.flip(1)
        cached = torch.cat(
            [
                layer(one[:, t : t + 1], mask=hw.Padding(keep[:, : t + 1]), cache=c)
                for c in [KVCache()]
                for t in range(11)
            ],
            1,
        )
        for row, want in enumerate(alone):
            close(whole[row][keep[row]], want[0])
            close(cached[row][keep[row]], want[0])


@pytest.mark.parametrize("cache", ["growing", "static", "pages of 3", "ring", "eight bits"])
def test_beams_and_drafts(cache: str) -> None:
    """Beams that go on from other rows, and a draft that is taken back, leave what fresh texts would have made."""
    kinds = CACHES | {"ring": lambda: RingCache(WINDOW, SINKS), "eight bits": QuantisedCache}
    layer, x = made("rotary", hw.Causal()), text(rows=3)
    with torch.no_grad():
        held = kinds[cache]()
        layer(x[:, :9], cache=held)
        layer(torch.randn(3, 4, M, dtype=F64), cache=held)
        held.crop(-4)
        held.reorder([2, 0, 2])
        got = layer(x[:, 9:], cache=held)
        fresh = kinds[cache]()
        layer(x[[2, 0, 2], :9], cache=fresh)
        close(got, layer(x[:, 9:], cache=fresh))


LAYERS: dict[str, Callable[[], nn.Module]] = {
    "latent": lambda: LatentAttention(M, 6, kv_rank=8, nope_dim=4, rope_dim=2, v_dim=5, mask=hw.Causal(), dtype=F64),
    "differential": lambda: DifferentialAttention(M, 6, 2, rotary=Rotary(), mask=hw.Causal(), dtype=F64),
}


@pytest.mark.parametrize("cache", [*CACHES, "ring", "eight bits"])
@pytest.mark.parametrize("kind", list(LAYERS))
def test_other_layers_through_every_cache(kind: str, cache: str) -> None:
    kinds = CACHES | {"ring": lambda: RingCache(WINDOW, SINKS), "eight bits": QuantisedCache}
    torch.manual_seed(4)
    layer, x = LAYERS[kind]().eval(), text()
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.4)
    mask = hw.Window(WINDOW - 1, 0) | hw.Prefix(SINKS) if cache == "ring" else None
    want = in_pieces(layer, x, kinds[cache](), [T]) if cache == "eight bits" else layer(x, mask=mask)
    for cut in CUTS:
        close(in_pieces(layer, x, kinds[cache](), cut), want)


def test_a_call_that_fails_leaves_every_cache_as_it_was() -> None:
    layer, x = made("rotary", hw.Causal(), torch.float32), text(torch.float32)
    for make in [*CACHES.values(), lambda: RingCache(WINDOW, SINKS), QuantisedCache]:
        cache = make()
        with torch.no_grad():
            layer(x[:, :9], cache=cache)
            for bad in (lambda c: layer(x[:, 9:], cache=c, mask=hw.Padding(torch.tensor([1, 2, 3]))),):
                with pytest.raises(hw.HeadwiseError):
                    bad(cache)
            assert cache.length == 9
            close(layer(x[:, 9:], cache=cache), in_pieces(layer, x, make(), [9, 10])[:, 9:])


def test_other_batches_dtypes_and_contexts_are_one_sentence() -> None:
    layer, x = made("rotary", hw.Causal(), torch.float32), text(torch.float32)
    for make in [*CACHES.values(), lambda: RingCache(WINDOW, SINKS), QuantisedCache]:
        cache = make()
        with torch.no_grad():
            layer(x[:, :3], cache=cache)
            with pytest.raises(hw.ShapeError, match="batch size, heads, width, dtype and device stay"):
                layer(x[:1, :3], cache=cache)
    cross = hw.MultiHeadAttention(M, 6)
    with pytest.raises(hw.SpecError, match=r"a PagedCache with a context.* Use a KVCache\(\)"):
        cross(x, x, cache=PagedCache())
    with pytest.raises(hw.SpecError, match=r"cache is a dict; it is one of headwise.nn's"):
        cross(x, cache={})  # type: ignore[arg-type]


def test_long_frequencies_are_those_of_each_call() -> None:
    """As in transformers, a key keeps the angles of the length at which it came: so cuts differ, and say so."""
    scaling = LongRope((1.0, 1.0), (2.0, 8.0), 8, factor=2.0)
    layer = hw.MultiHeadAttention(M, 6, mask=hw.Causal(), rotary=Rotary(scaling=scaling), dtype=F64).eval()
    x = text()
    short = in_pieces(layer, x[:, :8], KVCache(), [1] * 8)
    close(short, layer(x[:, :8]))
    assert not torch.allclose(in_pieces(layer, x, KVCache(), [1] * T), layer(x), atol=1e-3)
