"""torch's op inside everywhere() had other strides than outside, no autocast, and refused forms that torch computes.

Every respect of a result is compared with torch's own for the same call: shape, dtype, strides, numbers, gradients and
kinds of errors, over calls drawn at random from what can be written.
"""

from __future__ import annotations

import random
import warnings
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from beside_torch import outcome, same
from torch import Tensor
from torch.nn.attention.bias import causal_lower_right, causal_upper_left

import headwise as hw

sdpa = F.scaled_dot_product_attention
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
LAYOUTS = ["BHTD", "BTHD", "HBTD", "turned", "part", "expanded"]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def laid_out(x: Tensor, kind: str) -> Tensor:
    """The same numbers with other strides."""
    if kind == "BTHD" and x.dim() >= 3:
        return x.transpose(-3, -2).contiguous().transpose(-3, -2)
    if kind == "HBTD" and x.dim() >= 3:
        return x.transpose(0, 1).contiguous().transpose(0, 1)
    if kind == "turned":
        return x.mT.contiguous().mT
    if kind == "part":
        return torch.cat([x, x], -1)[..., : x.shape[-1]]
    if kind == "expanded" and x.dim() >= 3 and x.shape[0]:
        return x[:1].expand(x.shape)
    return x


@pytest.mark.parametrize("shape", [(2, 3, 5, 8), (3, 5, 8), (5, 8), (2, 2, 3, 5, 8), (2, 3, 1, 8), (2, 3, 0, 8)])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("grad", [False, True])
def test_strides_are_torchs(shape: tuple[int, ...], layout: str, grad: bool) -> None:
    q = laid_out(draw(*shape), layout).detach().requires_grad_(grad)
    for options in ({}, {"is_causal": True}, {"attn_mask": torch.ones(shape[-2], shape[-2]).tril().bool()}):
        assert same(lambda q, options=options: sdpa(q, q, q, **options), [q]) == ""


def test_a_view_behind_the_op() -> None:
    x = draw(2, 3, 5, 8)
    with hw.everywhere():
        out = sdpa(x, x, x)
    assert out.view(6, 40).shape == (6, 40)  # batch and heads in one axis, which needs torch's strides


CASTS = [
    (torch.float32, torch.float32, torch.float32),
    (torch.float32, torch.bfloat16, torch.float16),
    (torch.float64, torch.float64, torch.float64),
    (torch.float64, torch.float32, torch.float32),
]


@pytest.mark.parametrize("to", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dtypes", CASTS, ids=lambda x: str(x[0]) + str(x[1]))
@pytest.mark.parametrize("mask", [None, torch.bool, torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("enabled", [True, False])
def test_autocast_casts_as_torch_casts(to: torch.dtype, dtypes: Any, mask: Any, enabled: bool) -> None:
    operands = [
        draw(2, 3, n, 8, seed=s).to(d).requires_grad_() for s, (n, d) in enumerate(zip((5, 7, 7), dtypes, strict=True))
    ]
    if mask is not None:
        operands.append(draw(5, 7, seed=3).to(mask) if mask != torch.bool else draw(5, 7, seed=3) > -0.5)

    def call(*x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=to, enabled=enabled):
            return sdpa(*x)

    assert same(call, operands, to if enabled else None) == ""


def test_autocast_of_a_module_with_and_without_weights() -> None:
    torch.manual_seed(0)
    layer, x = torch.nn.MultiheadAttention(16, 4, batch_first=True), draw(2, 5, 16)
    for need in (False, True):
        results = []
        for inside in (nullcontext, hw.everywhere):
            with inside(), torch.autocast("cpu", dtype=torch.bfloat16):
                results.append(layer(x, x, x, need_weights=need))
        (out, weights), (got, found) = results
        assert got.dtype == out.dtype == torch.bfloat16
        torch.testing.assert_close(got, out, rtol=2e-2, atol=2e-2)  # bfloat16's rounding of numbers of size 1, twice
        if need:
            assert found.dtype == weights.dtype
            torch.testing.assert_close(found, weights, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("heads", [(6, 2, 3), (6, 3, 2), (6, 1, 6), (6, 6, 2), (6, 2, 2), (6, 4, 2), (6, 2, 0)])
@pytest.mark.parametrize("lead", [(2,), (), (2, 2)])
def test_groups_of_two_sizes(heads: tuple[int, int, int], lead: tuple[int, ...]) -> None:
    H, Hk, Hv = heads
    q, k, v = draw(*lead, H, 5, 8), draw(*lead, Hk, 7, 8, seed=1), draw(*lead, Hv, 7, 6, seed=2)
    operands = [x.requires_grad_() for x in (q, k, v)]
    assert same(lambda q, k, v: sdpa(q, k, v, enable_gqa=True), operands) == ""


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 2.0}, {"attn_mask": draw(5, 7, seed=3)}])
def test_heads_without_width(options: dict[str, Any]) -> None:
    operands = [draw(2, 3, 5, 0), draw(2, 3, 7, 0), draw(2, 3, 7, 4, seed=1).requires_grad_()]
    assert same(lambda q, k, v: sdpa(q, k, v, **options), operands) == ""


def written(pick: random.Random) -> tuple[Any, list[Tensor], torch.dtype | None]:
    """A call at random, its operands, and the dtype of autocast."""
    axes = pick.choice([2, 3, 4, 4, 4, 5])
    T, S = pick.choice([(5, 7), (7, 5), (5, 5), (1, 6), (0, 4), (4, 0), (3, 3), (1, 1)])
    D = pick.choice([8, 8, 4, 1, 0])
    E = pick.choice([D, D, 6, 1, 0])
    dtype = pick.choice(DTYPES)
    lead = [pick.choice([2, 1, 3]) for _ in range(axes - 2)]
    if lead and pick.random() < 0.05:
        lead[0] = 0
    of_q, of_k, of_v = list(lead), list(lead), list(lead)
    options: dict[str, Any] = {"enable_gqa": True} if lead and pick.random() < 0.25 else {}
    if options:
        of_q[-1], of_k[-1], of_v[-1] = 6, pick.choice([1, 2, 3, 6]), pick.choice([1, 2, 3, 6])
    elif lead and pick.random() < 0.15:
        pick.choice([of_q, of_k, of_v])[pick.randrange(len(lead))] = 1
    shapes = (*of_q, T, D), (*of_k, S, D), (*of_v, S, E)
    operands = [laid_out(draw(*s, seed=n).to(dtype), pick.choice(LAYOUTS)) for n, s in enumerate(shapes)]
    to = pick.choice([None, None, None, torch.bfloat16, torch.float16])
    if pick.random() < (0.5 if to else 0.05):
        other = pick.randrange(3)
        operands[other] = operands[other].to(pick.choice([torch.float32, torch.bfloat16]))
    mask = pick.choice([None, "causal", "bool", "float", "wants", "upper", "lower", "both", "wrong", "float32"])
    shape = [pick.choice([1, n]) for n in (*of_q, T, S)][pick.randrange(axes - 1) :]
    if pick.random() < 0.7:
        shape[-2:] = T, S
    options["is_causal"] = mask in ("causal", "both")
    if mask in ("bool", "both"):
        options["attn_mask"] = draw(*shape, seed=5) > -0.5
    elif mask in ("upper", "lower"):
        options["attn_mask"] = (causal_upper_left if mask == "upper" else causal_lower_right)(T, S)
    elif mask == "wrong":
        options["attn_mask"] = torch.ones(T + 1, S + 1).bool()
    if pick.random() < 0.3:
        options["scale"] = pick.choice([0.5, 1.0, 3.0])
    if pick.random() < 0.05:
        options["dropout_p"] = pick.choice([1.0, -0.1, 1.5])
    wants = pick.random() < 0.6
    operands = [x.detach().requires_grad_(wants) for x in operands]
    if mask in ("float", "wants", "float32"):
        bias = draw(*shape, seed=5).to(torch.float32 if mask == "float32" else dtype)
        operands.append(bias.requires_grad_(mask == "wants" and wants))

    def call(*x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=to) if to else nullcontext():
            return sdpa(*x, **options)

    return call, operands, to


@pytest.mark.parametrize("batch", range(12))
def test_calls_at_random(batch: int) -> None:
    pick, computed = random.Random(batch), 0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Lower right causal bias will produce NaNs")
        for n in range(60):
            call, operands, to = written(pick)
            forms = [(list(x.shape), x.stride(), x.dtype, x.requires_grad) for x in operands]
            assert same(call, operands, to) == "", (batch, n, forms)
            computed += outcome(call, operands).error is None
    assert computed > 30


@pytest.mark.parametrize("change", ["numbers", "strides", "dtype", "errors"])
def test_the_comparison_can_fail(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwise.models import dot_product  # type: ignore[attr-defined]

    real = dot_product.attention

    def spoiled(*x: Tensor, **options: Any) -> Tensor:
        if change == "errors":
            raise KeyError
        out = real(*x, **options)
        return out * 1.01 if change == "numbers" else out.double() if change == "dtype" else out

    monkeypatch.setattr(dot_product, "attention", spoiled)
    if change == "strides":
        monkeypatch.setattr(dot_product, "_laid_out", lambda out, query: out)
    assert same(lambda q: sdpa(q, q, q), [draw(2, 3, 5, 8)]) != ""
