"""B, H, T and S may each be 0: nothing to say, said without error by everything that takes a call."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch

import headwise as hw
from headwise import nn
from headwise.backends import TABLE
from headwise.nn.transformer import Decoder, Encoder
from headwise.spec import Global, Spans, Strided, Tree
from headwise.spec.encoding import FIELDS

BACKENDS = (*(backend.name for backend in TABLE), None)
SIZES = [sizes for sizes in product((0, 2), (0, 2), (0, 3), (0, 3)) if 0 in sizes]


def ints(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


def true(*shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=torch.bool)


STARTS: dict[str, Callable[[int], Any]] = {"one": lambda B: 1, "each": ints}


def masks(B: int, H: int, T: int, S: int) -> Iterator[hw.Mask]:
    """Every kind of mask, each of its tensors with and without the axes that it may leave out."""
    nq, nk = -(-T // 2), -(-S // 2)
    yield from (hw.Causal(), hw.Causal(align="start"), hw.Window(2, 1), hw.Window(None, 0), hw.Chunks(3))
    yield from (hw.Chunks(3, ints(B)), hw.Prefix(2), hw.Prefix(ints(B)))
    yield from (hw.Padding(2), hw.Padding(ints(B)), hw.Padding(true(B, S)), hw.Padding(true(B, S), true(B, T)))
    yield from (hw.Documents(ids, keys) for ids in (ints(T), ints(B, T)) for keys in (ints(S), ints(B, S)))
    for align in ("start", "end"):
        yield from (hw.Blocks(true(*lead, nq, nk), 2, align) for lead in ((), (H,), (B, H), (1, 1)))
    yield from (hw.Dense(true(*axes)) for axes in ((B, H, T, S), (T, S), (B, 1, 1, S), (H, T, 1), (1,)))
    yield hw.Rule(lambda b, h, i, j: i >= j)
    yield from (Global(tokens) for tokens in (0, 2, ints(B) + 1, true(S), true(B, S)))
    yield from (Strided(1), Strided(2), Tree(torch.arange(-1, T - 1)), Tree(ints(B, T) - 1))
    yield from (Spans(ints(*lead, T), ints(*lead, T) + 2) for lead in ((), (B,)))


def rules(B: int, H: int, T: int, S: int) -> Iterator[hw.spec.Rules]:
    ones = torch.ones
    yield hw.SoftCap(3.0)
    yield from (hw.Alibi(ones(H)), hw.Alibi(ones(B, H), ints(B, T), ints(S)), hw.Alibi(ones(H), ints(T), ones(B, S)))
    yield from (hw.RelativeBias(ones(H, 3), 1), hw.RelativeBias.t5(ones(4, H), bidirectional=True))
    yield from (hw.Bias(ones(*axes)) for axes in ((B, H, T, S), (T, S), (B, 1, 1, S), (H, T, 1), (1,)))
    yield hw.ScoreRule(lambda score, b, h, i, j: score + (i - j))
    if T == S == 9:  # a picture has a patch
        yield hw.Bias.grid(ones(25, H), 3, 3)


def questions(B: int, H: int, T: int, S: int) -> list[Any]:
    seen = [hw.Entropy(), hw.LogSumExp(), hw.MaxLogit(), hw.Received(), hw.Offsets(3, 1), hw.TopKeys(2)]
    seen += [hw.MassOn(ints(B, T, 1) - 1), hw.MassOn(ints(T, 2) - 1, name="shared")]
    seen += [hw.MassWhere(ints(B, T), ints(S)), hw.Segments(ints(T), ints(B, S))]
    seen += [hw.Map(2, 3), hw.Map(2, 2, pool="max", name="peaks"), hw.Crop(slice(0, T), slice(0, S))]
    return [*seen, hw.Contribution(torch.ones(5, H * 5))]


def operands(B: int, H: int, T: int, S: int) -> list[torch.Tensor]:
    shapes = ((B, H, T, 4), (B, H // 2, S, 4), (B, H // 2, S, 5))
    return [torch.randn(shape, requires_grad=True) for shape in shapes]


def take(sizes: tuple[int, ...], backend: str | None, **options: Any) -> None:
    """One call, forward and backward; a backend may refuse it in a sentence."""
    q, k, v = operands(*sizes)
    try:
        found = hw.attend(q, k, v, backend=backend, **options)
    except hw.UnsupportedError:
        assert backend not in (None, "reference")
        return
    assert found.out.shape == (*sizes[:3], 5) and found.lse.shape == sizes[:3]
    if sizes[3] == 0:
        assert bool((found.out == 0).all()) and bool((found.lse == -torch.inf).all())
    (found.out.sum() + torch.where(found.lse > -torch.inf, found.lse, 0.0).sum()).backward()
    assert all(x.grad is not None and x.grad.shape == x.shape for x in (q, k, v))
    assert all(bool(x.grad.isfinite().all()) for x in (q, k, v))  # type: ignore[union-attr]


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_mask_and_rule(sizes: tuple[int, ...], start: str) -> None:
    q_start = STARTS[start](sizes[0])
    for backend in BACKENDS:
        for mask in masks(*sizes):
            for whole in (mask, mask & hw.Window(1), mask | hw.Window(1), Strided(2) | mask, Global(1) & mask):
                take(sizes, backend, mask=whole, q_start=q_start)
        for rule in rules(*sizes):
            take(sizes, backend, scores=(rule,), q_start=q_start)
            take(sizes, backend, scores=(rule, hw.SoftCap(2.0)), mask=hw.Causal(), sinks=torch.zeros(sizes[1]))
        take(sizes, backend, q_start=q_start)


def test_every_kind_is_among_them() -> None:
    kinds = {type(part) for part in (*masks(2, 2, 3, 3), *rules(2, 2, 3, 3), *rules(2, 2, 9, 9))}
    combined = {hw.spec.And, hw.spec.Or}
    assert set(FIELDS) - combined <= kinds


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_question(sizes: tuple[int, ...]) -> None:
    q, k, v = (x.detach() for x in operands(*sizes))
    for mask in (None, *masks(*sizes)):
        want = hw.attend(q, k, v, mask=mask, backend="reference", observe=questions(*sizes)).seen
        for backend in BACKENDS:
            with contextlib.suppress(hw.UnsupportedError):
                same(hw.attend(q, k, v, mask=mask, backend=backend, observe=questions(*sizes)).seen, want)


def same(found: dict[str, Any], want: dict[str, Any]) -> None:
    assert list(found) == list(want)
    for name, value in want.items():
        pairs = zip(found[name], value, strict=True) if isinstance(value, tuple) else [(found[name], value)]
        for a, b in pairs:
            if isinstance(b, torch.Tensor):
                torch.testing.assert_close(a, b, equal_nan=True)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_every_method_of_a_pattern(sizes: tuple[int, ...]) -> None:
    B, _, T, S = sizes
    q, k, v = (x.detach() for x in operands(*sizes))
    for mask in (None, *masks(*sizes)):
        p = hw.Pattern(q, k, v, mask=mask)
        assert p.to_dense().shape == p.shape == sizes
        same(p.ask(*questions(*sizes)), hw.attend(q, k, v, mask=mask, observe=questions(*sizes)).seen)
        assert p.entropy().shape == sizes[:3] and p.received().shape == (*sizes[:2], S)
        assert p.map(2, 2).shape == (*sizes[:2], 2, 2) and p.offsets(3).shape == (*sizes[:2], 4)
        assert p.top_keys(2).indices.shape[:3] == p.mass_on(ints(T, 1) - 1).shape == sizes[:3]
        p.mass_where(ints(T), ints(S)), p.segments(ints(T), ints(S)), p.settle(), list(p.settling())
        assert p.facts().lse.shape == sizes[:3]
        assert p.replaced(mask=None).to_dense().shape == p.replaced(facts=p.facts()).to_dense().shape == sizes
        assert copy.deepcopy(p).shape == sizes and "Pattern" in repr(p)
        if not isinstance(mask, hw.Rule):
            assert pickle.loads(pickle.dumps(p)).shape == sizes
        for b in range(B):
            assert p.reach(b)[0] <= p.reach(b)[1] and (p.stretches(b) is None or p.stretches(b)[0].shape[0] == T)
        hw.explain(q, k, v, mask=mask)
        if mask is not None and B and sizes[1]:
            with contextlib.redirect_stdout(io.StringIO()):
                mask.show(T, S)


def test_parts_without_rows_heads_or_cells() -> None:
    """No batch rows, heads, queries or keys of a pattern that has some."""
    sizes = (2, 2, 3, 3)
    q, k, v = (x.detach() for x in operands(*sizes))
    none = slice(1, 1)
    for mask in (None, *masks(*sizes)):
        p = hw.Pattern(q, k, v, mask=mask)
        assert p[none].shape == (0, 2, 3, 3) and p[:, none].shape == (2, 0, 3, 3)
        assert p[:, :, none].shape == (2, 2, 0, 3) and p[..., none].shape == (2, 2, 3, 0)
        for part in ({"batch": none}, {"heads": none}, {"batch": none, "heads": none}):
            answers = p.ask(*questions(*sizes), **part)
            assert answers["entropy"].shape == (0 if "batch" in part else 2, 0 if "heads" in part else 2, 3)
            assert p.facts(**part).lse.shape == answers["entropy"].shape


LAYERS: dict[str, Callable[..., torch.nn.Module]] = {
    "plain": lambda **make: hw.MultiHeadAttention(8, 4, 2, **make),
    "rotary": lambda **make: hw.MultiHeadAttention(8, 4, 2, mask=hw.Causal(), rotary=nn.Rotary(), **make),
    "norm": lambda **make: hw.MultiHeadAttention(8, 4, 2, qk_norm="rms-wide", sinks="learned", gate="element", **make),
    "dropout": lambda **make: hw.MultiHeadAttention(8, 4, 2, dropout=0.3, gate="head", qk_norm="layer", **make),
    "scores": lambda **make: hw.MultiHeadAttention(8, 4, 2, scores=(hw.Alibi(torch.ones(4)),), **make),
    "global": lambda **make: hw.MultiHeadAttention(8, 4, 2, mask=Global(2) | hw.Window(1, 1), **make),
    "latent": lambda **make: nn.LatentAttention(
        8, 2, kv_rank=4, nope_dim=4, rope_dim=2, v_dim=4, mask=hw.Causal(), **make
    ),
    "differential": lambda **make: nn.DifferentialAttention(8, 2, mask=hw.Causal(), rotary=nn.Rotary(), **make),
}
CACHES: dict[str, Callable[[], nn.Cache]] = {
    "growing": nn.KVCache,
    "static": lambda: nn.StaticCache(20),
    "ring": lambda: nn.RingCache(4),
    "pages": lambda: nn.PagedCache(page_size=3),
    "eight bits": nn.QuantisedCache,
}


@pytest.mark.parametrize(("B", "T"), [(0, 0), (0, 3), (2, 0)])
@pytest.mark.parametrize("name", LAYERS)
def test_every_module(name: str, B: int, T: int) -> None:
    for backend, train in product(BACKENDS, (True, False)):
        if backend == "sdpa":  # no width of values but the queries', and no empty axis
            continue
        layer = LAYERS[name](backend=backend).train(train)
        x = torch.randn(B, T, 8, requires_grad=True)
        for options in ({}, {"mask": hw.Padding(ints(B) + 1)}):
            out = layer(x, **options)
            assert out.shape == x.shape
            out.sum().backward()
        if hasattr(layer, "attend"):
            assert layer.attend(x, observe=[hw.Entropy()]).seen["entropy"].shape[-1] == T


@pytest.mark.parametrize(("B", "T"), [(0, 0), (0, 3), (2, 0)])
@pytest.mark.parametrize("kind", CACHES)
def test_every_cache(kind: str, B: int, T: int) -> None:
    x, more = torch.randn(B, T, 8), torch.randn(B, 2, 8)
    with torch.no_grad():
        layer, cache = hw.MultiHeadAttention(8, 4, 2, mask=hw.Causal() & hw.Window(3)), CACHES[kind]()
        assert [layer(part, cache=cache).shape for part in (x, more, x)] == [x.shape, more.shape, x.shape]
        assert cache.length == 2 * T + 2


@pytest.mark.parametrize(("B", "T", "S"), [(0, 0, 0), (0, 3, 3), (2, 0, 3), (2, 3, 0), (2, 0, 0)])
def test_every_stack(B: int, T: int, S: int) -> None:
    config = nn.AttentionConfig(8, 2)
    for norm in ("pre", "post"):
        x, memory = torch.randn(B, T, 8, requires_grad=True), torch.randn(B, S, 8, requires_grad=True)
        encoded, decoded = Encoder(config, 2, norm=norm)(x), Decoder(config, 2, norm=norm)(x, memory)
        (encoded.sum() + decoded.sum() + hw.MultiHeadAttention(8, 2)(x, memory).sum()).backward()
        assert encoded.shape == decoded.shape == x.shape
        assert nn.Transformer(11, config, 2, norm=norm)(ints(B, S), ints(B, T)).shape == (B, T, 11)
    for first, train, weights in product((True, False), repeat=3):
        layer = nn.torch_compat.MultiheadAttention(8, 2, batch_first=first).train(train)
        q, k = (torch.randn((B, n, 8) if first else (n, B, 8)) for n in (T, S))
        out, shown = layer(q, k, k, need_weights=weights)
        assert out.shape == q.shape and (shown is None or shown.shape == (B, T, S))
