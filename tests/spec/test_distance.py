"""ALiBi's published slopes and its positions; T5's buckets and the tables of Swin and BEiT beside transformers'."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw

BACKENDS = [backend.name for backend in hw.backends.TABLE if backend.name != "sdpa"]


# --- slopes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 8, 12, 16, 25, 40, 64, 71, 112])
def test_slopes_are_the_published_ones(heads: int) -> None:
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom", reason="transformers is not installed")
    wanted = bloom.build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)[:, 0, 1]
    torch.testing.assert_close(hw.Alibi.slopes_of(heads), wanted)


def test_slopes_of_a_power_of_two_are_a_geometric_row() -> None:
    assert hw.Alibi.slopes_of(8).tolist() == [2.0**-n for n in range(1, 9)]


@pytest.mark.parametrize("heads", [0, -1, 2.0, True])
def test_slopes_of_no_heads(heads: Any) -> None:
    with pytest.raises(hw.SpecError, match=r"Alibi\.slopes_of: heads is"):
        hw.Alibi.slopes_of(heads)


# --- positions ---------------------------------------------------------------------------------------------------


B, H, T, S = 2, 3, 9, 13


def by_loops(q: Tensor, k: Tensor, slopes: Tensor, at: list[list[float]], keys: list[list[float]]) -> Tensor:
    p = torch.zeros(B, H, T, S, dtype=torch.float64)
    for b in range(B):
        for h in range(H):
            for i in range(T):
                away = torch.tensor([abs(at[b][i] - place) for place in keys[b]], dtype=torch.float64)
                score = k[b, h].double() @ q[b, h, i].double() / math.sqrt(q.shape[-1])
                p[b, h, i] = torch.softmax(score - float(slopes[h]) * away, 0)
    return p


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", ["both", "both, by sequence", "queries in halves", "keys alone", "neither"])
def test_alibi_against_loops(case: str, backend: str) -> None:
    generator = torch.Generator().manual_seed(2)
    q, k = torch.randn(B, H, T, 6, generator=generator), torch.randn(B, H, S, 6, generator=generator)
    slopes = torch.tensor([0.5, 0.1, -0.2])
    at: Any = None
    keys: Any = None
    where, places = [[4.0 + i for i in range(T)]] * B, [[float(j) for j in range(S)]] * B
    if case != "neither":
        keys = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9])
        keys = torch.stack([keys, keys.flip(0)]) if case == "both, by sequence" else keys
        places = keys.expand(B, S).double().tolist()
    if case.startswith("both"):
        at = torch.tensor([0, 1, 2, 0, 1, 0, 1, 2, 200], dtype=torch.uint8)  # no difference wraps around
        at = torch.stack([at, at.flip(0)]) if case == "both, by sequence" else at
    elif case == "queries in halves":
        at = torch.arange(T) / 2
    if at is not None:
        where = at.expand(B, T).double().tolist()
    rule = hw.Alibi(slopes, at, keys)
    eye = torch.eye(S).expand(B, H, S, S)
    found = hw.attention(q, k, eye, scores=(rule,), backend=backend)
    torch.testing.assert_close(found.double(), by_loops(q, k, slopes, where, places), atol=2e-6, rtol=1e-5)


def test_documents_that_restart_are_documents_alone() -> None:
    q, k, v = torch.randn(3, 1, 2, 11, 8).unbind(0)
    slopes, places = hw.Alibi.slopes_of(2), torch.tensor([*range(4), *range(7)])
    mask = hw.spec.recipes.packed([4, 7])
    packed = hw.attention(q, k, v, mask=mask, scores=(hw.Alibi(slopes, places),))
    for part in (slice(0, 4), slice(4, 11)):
        alone = (x[:, :, part] for x in (q, k, v))
        torch.testing.assert_close(
            packed[:, :, part], hw.attention(*alone, mask=hw.Causal(), scores=(hw.Alibi(slopes),))
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_far_positions_keep_their_distances(backend: str) -> None:
    """At 2**40 a float32 position would not tell neighbours apart; int64 and float64 positions do."""
    x = torch.zeros(1, 1, 3, 4)
    far = torch.arange(3) + 2**40
    near = hw.attention(x, x, torch.eye(3)[None, None], scores=(hw.Alibi(torch.ones(1)),), backend=backend)
    for places in (far, far.double()):
        scores = (hw.Alibi(torch.ones(1), places),)
        torch.testing.assert_close(hw.attention(x, x, torch.eye(3)[None, None], scores=scores, backend=backend), near)


@pytest.mark.parametrize("backend", ["reference", "blocked"])
def test_gradients_of_slopes_between_positions(backend: str) -> None:
    generator = torch.Generator().manual_seed(4)
    q, k, v = (torch.randn(1, 2, n, 3, generator=generator, dtype=torch.float64) for n in (4, 5, 5))
    places, keys = torch.tensor([5, 0, 1, 9]), torch.randn(1, 5, generator=generator, dtype=torch.float64) * 4

    def f(q: Tensor, slopes: Tensor) -> Tensor:
        return hw.attention(q, k, v, scores=(hw.Alibi(slopes, places, keys), hw.SoftCap(3.0)), backend=backend)

    leaves = q.requires_grad_(), torch.tensor([0.3, -0.1], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(f, leaves)
    assert torch.autograd.gradgradcheck(f, leaves)


def test_gradients_of_the_kernels_are_those_of_the_reference() -> None:
    if "native" not in BACKENDS:
        pytest.skip("no native kernels here: there was no compiler")
    generator = torch.Generator().manual_seed(4)
    q, k, v = (torch.randn(2, 2, n, 8, generator=generator) for n in (35, 45, 45))
    places = torch.randint(0, 60, (2, 35), generator=generator)
    found = []
    for backend in ("native", "reference"):
        slopes = torch.tensor([[0.3, 0.1], [0.2, 0.05]], requires_grad=True)
        rule = hw.Alibi(slopes, places, torch.arange(45))
        hw.attention(q, k, v, scores=(rule,), backend=backend).square().sum().backward()
        found.append(slopes.grad)
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_positions_may_change_between_calls_but_not_before_backward() -> None:
    x = torch.randn(1, 1, 3, 4, requires_grad=True)
    places = torch.tensor([0, 1, 0])
    out = hw.attention(x, x, x, scores=(hw.Alibi(torch.ones(1), places),), backend="blocked")
    places += 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_a_graph_holds_positions() -> None:
    q, k, v = torch.randn(3, 1, 2, 5, 8).unbind(0)

    def f(q: Tensor, slopes: Tensor, places: Tensor) -> Tensor:
        rules = (hw.Alibi(slopes, places), hw.Alibi(slopes, key_positions=places), hw.Alibi(slopes))
        return hw.attention(q, k, v, mask=hw.Padding(3), scores=rules, q_start=torch.tensor([1]))

    given = q.requires_grad_(), torch.rand(2, requires_grad=True), torch.arange(5) % 3
    wanted, found = f(*given), torch.compile(f, fullgraph=True, backend="aot_eager")(*given)
    torch.testing.assert_close(found, wanted)
    for a, b in zip(*(torch.autograd.grad(x.sum(), given[:2]) for x in (found, wanted)), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("rule", "error", "said"),
    [
        (lambda: hw.Alibi(torch.ones(3), [1, 2]), hw.SpecError, "positions is list"),  # type: ignore[arg-type]
        (lambda: hw.Alibi(torch.ones(3), torch.ones(T) > 0), hw.SpecError, "positions is torch.bool"),
        (lambda: hw.Alibi(torch.ones(3), torch.ones(T, requires_grad=True)), hw.SpecError, "positions requires one"),
        (lambda: hw.Alibi(torch.ones(3), torch.arange(8)), hw.ShapeError, r"it is \[T=9\] or \[B=2,T=9\]"),
        (lambda: hw.Alibi(torch.ones(3), torch.arange(T)), hw.ShapeError, "Give key_positions for the keys where T"),
        (lambda: hw.Alibi(torch.ones(3), None, torch.arange(T)), hw.ShapeError, r"it is \[S=13\] or \[B=2,S=13\]"),
        (lambda: hw.Alibi(torch.ones(3), None, torch.full((S,), math.inf)), hw.SpecError, "holds NaN or inf"),
    ],
)
def test_positions_that_do_not_fit(rule: Any, error: type[Exception], said: str) -> None:
    q, k = torch.zeros(B, H, T, 6), torch.zeros(B, H, S, 6)
    with pytest.raises(error, match=said):
        hw.attention(q, k, k, scores=(rule(),))


# --- T5 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (32, 20), (8, 5), (12, 300), (4, 1000)])
def test_buckets_are_those_of_transformers(buckets: int, max_distance: int, bidirectional: bool) -> None:
    """Every distance to twice the furthest, and some far beyond."""
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5", reason="transformers is not installed")
    weights = torch.arange(2.0 * buckets).reshape(buckets, 2)
    rule = hw.RelativeBias.t5(weights, bidirectional, max_distance).basic()
    near = torch.arange(-2 * max_distance, 2 * max_distance + 1)
    offsets = torch.cat([near, torch.tensor([-(10**6), -12345, 12345, 10**6])])
    wanted = t5.T5Attention._relative_position_bucket(offsets, bidirectional, buckets, max_distance)
    entries = (offsets + rule.zero).clamp(0, rule.table.shape[1] - 1)
    assert torch.equal(rule.table[:, entries], weights[wanted].mT)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_attention_of_t5(bidirectional: bool) -> None:
    """The written bias of a T5 layer and the rule give the same, with a cache too."""
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5", reason="transformers is not installed")
    weights = torch.randn(32, 2)
    q, k, v = torch.randn(1, 2, 7, 8), torch.randn(1, 2, 300, 8), torch.randn(1, 2, 300, 8)
    offsets = torch.arange(300) - torch.arange(293, 300)[:, None]
    bias = weights[t5.T5Attention._relative_position_bucket(offsets, bidirectional)].permute(2, 0, 1)
    wanted = hw.attention(q, k, v, scale=1.0, scores=(hw.Bias(bias),))
    found = hw.attention(q, k, v, scale=1.0, scores=(hw.RelativeBias.t5(weights, bidirectional),))
    torch.testing.assert_close(found, wanted)


def test_gradient_reaches_the_weights_of_the_buckets() -> None:
    generator = torch.Generator().manual_seed(5)
    q = torch.randn(1, 2, 7, 3, generator=generator, dtype=torch.float64)

    def f(weights: Tensor) -> Tensor:
        return hw.attention(q, q, q, scores=(hw.RelativeBias.t5(weights, True, 5),))

    weights = torch.randn(6, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(f, (weights,))


@pytest.mark.parametrize(
    ("shape", "how", "said"),
    [
        ((3, 2), {"bidirectional": True}, "at least 4 buckets, an even number"),
        ((1, 2), {"bidirectional": False}, "at least 2 buckets"),
        ((32,), {"bidirectional": False}, "weights does not fit"),
        ((32, 2), {"bidirectional": False, "max_distance": 16}, "max_distance is 16; it is an int above 16"),
    ],
)
def test_buckets_that_make_no_sense(shape: tuple[int, ...], how: dict[str, Any], said: str) -> None:
    with pytest.raises(hw.HeadwiseError, match=said):
        hw.RelativeBias.t5(torch.zeros(shape), **how)


# --- tables of pictures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(7, 7), (3, 5), (1, 4), (1, 1)])
def test_a_grid_is_that_of_swin(size: tuple[int, int]) -> None:
    swin = pytest.importorskip("transformers.models.swin.modeling_swin", reason="transformers is not installed")
    module = swin.SwinRelativePositionBias(3, size)
    torch.nn.init.normal_(module.relative_position_bias_table)
    found = hw.Bias.grid(module.relative_position_bias_table, *size).basic().tensor
    assert torch.equal(found, module()[0])


@pytest.mark.parametrize("size", [(3, 5), (4, 4)])
def test_a_grid_with_a_class_token_is_that_of_beit(size: tuple[int, int]) -> None:
    beit = pytest.importorskip("transformers.models.beit.modeling_beit", reason="transformers is not installed")
    table = torch.randn((2 * size[0] - 1) * (2 * size[1] - 1) + 3, 2)
    entries = beit.BeitRelativePositionBias.generate_relative_position_index(size)
    assert torch.equal(hw.Bias.grid(table, *size).basic().tensor, table[entries].permute(2, 0, 1))


def test_gradient_reaches_the_table_of_a_grid() -> None:
    generator = torch.Generator().manual_seed(6)
    q = torch.randn(2, 2, 5, 3, generator=generator, dtype=torch.float64)
    table = torch.randn(12, 2, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda t: hw.attention(q, q, q, scores=(hw.Bias.grid(t, 2, 2),)), (table,))


def test_a_table_of_another_grid() -> None:
    with pytest.raises(hw.ShapeError, match="a 3 x 4 grid has 35 offsets, and 3 entries more with a class token"):
        hw.Bias.grid(torch.zeros(36, 2), 3, 4)
