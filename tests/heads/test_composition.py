"""Composition against dense matrices in columns, as the paper writes them, and against random weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.errors import SpecError, UnsupportedError
from headwise.heads.circuits import composition, random_composition
from headwise.models.projections import Projections, projections


def columns(p: Projections, head: int) -> tuple[Tensor, Tensor]:
    """W_QK = W_Q^T W_K and W_OV = W_O W_V in float64."""
    g = p.kv_heads[head]
    W_Q, W_K, W_V, W_O = (
        weight.detach().double() for weight in (p.q.weight(head), p.k.weight(g), p.v.weight(g), p.o.weight(head))
    )
    return W_Q.T @ W_K, W_O @ W_V


def textbook(one: Projections, h1: int, two: Projections, h2: int, kind: str) -> float:
    _, written = columns(one, h1)
    scores, moved = columns(two, h2)
    reading = {"q": scores.T, "k": scores, "v": moved}[kind]
    return float((reading @ written).norm() / (reading.norm() * written.norm()))


@pytest.mark.parametrize("kind", ["q", "k", "v"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "starcoder2"])
def test_ratios_are_those_of_dense_matrices(zoo: Any, name: str, kind: str) -> None:
    model = zoo.model(name)
    ours = composition(model, kind, subtract=False)
    layers = [projections(model, site) for site in hw.sites(model)]
    assert ours.shape == (2, 4, 2, 4)
    for h1 in range(4):
        for h2 in range(4):
            expected = textbook(layers[0], h1, layers[1], h2, kind)
            assert float(ours[0, h1, 1, h2]) == pytest.approx(expected, rel=1e-5)
    assert int(ours.isfinite().sum()) == 16
    minus = composition(model, kind)
    torch.testing.assert_close(ours - minus, torch.full_like(ours, random_composition(32, 8, 32, 8, 32)) + 0 * ours,
                               equal_nan=True)  # fmt: skip


def test_sides_differ(zoo: Any) -> None:
    model = zoo.model("gpt2")
    q, k, v = (composition(model, kind)[0, :, 1] for kind in ("q", "k", "v"))
    assert min(float((one - two).abs().max()) for one, two in ((q, k), (k, v), (q, v))) > 1e-3


@pytest.mark.parametrize("kind", ["q", "k", "v"])
def test_who_reads_whom_in_an_encoder_and_decoder(zoo: Any, kind: str) -> None:
    model = zoo.model("t5")
    found = composition(model, kind, subtract=False)
    layers = [projections(model, site) for site in hw.sites(model)]
    encoder, cross = (0, 1), (3, 5)  # 2 and 4 are the decoder's own
    inside = {(0, 1), (2, 4), (3, 4)}
    expected = inside | ({(2, 3), (2, 5), (3, 5), (4, 5)} if kind == "q" else {(a, b) for a in encoder for b in cross})
    there = {(a, b) for a in range(6) for b in range(6) if bool(found[a, :, b].isfinite().all())}
    assert there == expected
    assert int(found.isfinite().sum()) == 16 * len(expected)
    for a, b in expected:
        value = textbook(layers[a], 1, layers[b], 3, kind)
        assert float(found[a, 1, b, 3]) == pytest.approx(value, rel=1e-5)


def test_folded_norms_are_in_what_is_read(zoo: Any) -> None:
    model = zoo.model("llama")
    gain = torch.linspace(0.2, 3.0, 32)
    with torch.no_grad():
        model.model.layers[1].input_layernorm.weight.copy_(gain)
    folded = composition(model, "k", fold_norm=True, subtract=False)
    with torch.no_grad():
        for name in ("q_proj", "k_proj"):
            getattr(model.model.layers[1].self_attn, name).weight.mul_(gain)
    torch.testing.assert_close(folded, composition(model, "k", subtract=False), equal_nan=True)


@pytest.mark.parametrize("shape", [(32, 8, 32, 8, 32), (24, 4, 16, 6, 40)], ids=str)
def test_baseline_is_the_mean_over_random_matrices(shape: tuple[int, int, int, int, int]) -> None:
    outer, rank, width, value_dim, inner = shape
    generator = torch.Generator().manual_seed(99)
    ratios = []
    for _ in range(3000):
        sizes = ((outer, rank), (rank, width), (width, value_dim), (value_dim, inner))
        A, B, C, D = (torch.randn(*size, generator=generator, dtype=torch.float64) for size in sizes)
        ratios.append((A @ B @ C @ D).norm() / ((A @ B).norm() * (C @ D).norm()))
    mean = float(torch.stack(ratios).mean())
    assert random_composition(*shape) == pytest.approx(mean, rel=0.01)
    assert mean == pytest.approx(width**-0.5, rel=0.03)


@pytest.mark.parametrize("kind", ["q", "k", "v"])
def test_random_heads_compose_by_chance(zoo: Any, kind: str) -> None:
    model = zoo.model("gpt2", n_embd=64, n_head=8, n_layer=3)
    found = composition(model, kind)
    assert found.isfinite().sum() == 3 * 64
    assert abs(float(found.nanmean())) < 0.003  # ratios are 0.125
    assert float(composition(model, kind, subtract=False).nanmean()) == pytest.approx(0.125, abs=0.004)


def test_a_head_that_reads_just_what_another_wrote(zoo: Any) -> None:
    model = zoo.model("gpt2")
    with torch.no_grad():
        first, second = (model.transformer.h[n].attn for n in (0, 1))
        wrote = first.c_proj.weight[8:16]  # head 1's [E, M]
        second.c_attn.weight[:, 32 + 16 : 32 + 24] = wrote.T  # keys of head 2
    found = composition(model, "k")
    assert int(found.nan_to_num(-1).argmax()) == int(torch.arange(64).view(2, 4, 2, 4)[0, 1, 1, 2])
    with torch.no_grad():
        first.c_proj.weight[8:16] = 0  # it writes nothing now: no ratio, so none of it is read
    assert composition(model, "k", subtract=False)[0, 1, 1].tolist() == [0.0] * 4


def test_heads_that_are_gone(zoo: Any) -> None:
    whole = composition(zoo.model("llama"), "v")
    ours = composition(hw.prune(zoo.model("llama"), {0: [1], 1: [0, 3]}), "v")
    assert ours.shape == (2, 3, 2, 3)
    kept = whole[0][[0, 2, 3]][:, 1][:, [1, 2]]
    torch.testing.assert_close(ours[0, :, 1, :2], kept)
    assert bool(ours[0, :, 1, 2].isnan().all())


def test_refusals(zoo: Any) -> None:
    with pytest.raises(SpecError, match="kind is 'x'"):
        composition(zoo.model("gpt2"), "x")  # type: ignore[arg-type]
    for kind in ("q", "k"):
        with pytest.raises(UnsupportedError, match="norms its queries and keys"):
            composition(zoo.model("qwen3"), kind)
    with pytest.raises(UnsupportedError, match="norms what its layers give"):
        composition(zoo.model("bert"), "v", fold_norm=True)


def test_a_real_model() -> None:
    model, _ = hw.load("minilm")
    found = composition(model, "k", subtract=False)
    assert found.shape == (6, 12, 6, 12)
    layers = [projections(model, site) for site in hw.sites(model)]
    for l1, h1, l2, h2 in ((0, 3, 1, 7), (2, 11, 5, 0)):
        expected = textbook(layers[l1], h1, layers[l2], h2, "k")
        assert float(found[l1, h1, l2, h2]) == pytest.approx(expected, rel=1e-5)
