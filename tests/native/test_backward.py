"""Gradients by the kernels, against autograd through the reference in float64, and the bits they must not depend on.

The conformance suite differentiates its own small cases. Here calls are long enough to be cut: into tiles of rows (up
to 48), blocks of keys (up to 128), and stretches of keys (512) whose dQ is added up apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.backends import Blocked, Reference, Result, Tangents
from headwise.plan import Plan, make_plan
from headwise.spec import AttentionSpec
from headwise.testing import Call, Draw, allowed, far, spacing, three_op, within

pytest.importorskip("headwise._native", reason="no native kernels here: there was no compiler; run: make native")

from headwise.backends.native import Native
from headwise.backends.native.backward import tangents

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
by_dtype = pytest.mark.parametrize("dtype", [F32, BF16, F16], ids=["f32", "bf16", "f16"])
SEED = 5


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Tests set the number of threads; what it was comes back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


CALLS: dict[str, Callable[[Draw], Call]] = {
    "plain": lambda d: d.call(T=53, S=131, D=17, E=33),
    "whole vectors": lambda d: d.call(fused=True, T=48, S=128, D=64),
    "causal, several tiles": lambda d: d.call(B=1, T=149, S=307, D=24, E=40, mask=hw.Causal()),
    "more queries than keys": lambda d: d.call(B=1, T=211, S=67, D=9, E=16, mask=hw.Causal()),
    "two stretches of keys": lambda d: d.call(B=1, H=2, T=59, S=701, D=16, E=8, mask=hw.Causal()),
    "window": lambda d: d.call(B=1, T=307, S=307, D=11, E=13, mask=hw.Causal() & hw.Window(37, 0)),
    "window ahead": lambda d: d.call(B=1, H=2, T=97, S=263, D=8, mask=hw.Window(20, 90)),
    "grouped": lambda d: d.call(B=1, H=6, Hk=2, T=61, S=139, D=16, E=24, mask=hw.Causal()),
    "one key head, few queries": lambda d: d.call(H=7, Hk=1, T=3, S=541, D=33),
    "uneven groups": lambda d: d.call(H=5, Hk=3, T=31, S=149, kv_heads=(2, 0, 2, 2, 0), mask=hw.Causal()),
    "a start for each sequence": lambda d: d.call(T=41, S=173, mask=hw.Causal(), q_start=torch.tensor([100, -17])),
    "empty rows": lambda d: d.call(T=103, S=61, mask=hw.Causal() & hw.Window(9, 0), q_start=-30),
    "documents": lambda d: d.call(T=139, S=139, mask=hw.Causal() & hw.Documents(d.ints(4, 2, 139))),
    "dense mask": lambda d: d.call(T=53, S=211, mask=hw.Dense(d.keep(1, 3, 53, 211))),
    "padding": lambda d: d.call(T=67, S=67, mask=hw.Padding(torch.tensor([67, 20]))),
    "soft cap": lambda d: d.call(T=53, S=139, mask=hw.Causal(), scores=(hw.SoftCap(3.0),)),
    "slopes": lambda d: d.call(T=53, S=139, mask=hw.Causal(), scores=(hw.Alibi(d.normal(3)),)),
    "slopes for each sequence": lambda d: d.call(T=53, S=139, scores=(hw.Alibi(d.normal(2, 3, size=0.1)),)),
    "table": lambda d: d.call(T=53, S=139, mask=hw.Causal(), scores=(hw.RelativeBias(d.normal(3, 71), 60),)),
    "table of one entry": lambda d: d.call(
        T=19, S=139, sinks=d.normal(3), scores=(hw.RelativeBias(d.normal(3, 1), 0),)
    ),
    "table, two stretches": lambda d: d.call(B=1, T=23, S=601, scores=(hw.RelativeBias(d.normal(3, 400), 390),)),
    "sinks": lambda d: d.call(T=53, S=139, mask=hw.Causal(), sinks=d.normal(3), q_start=-5),
    "dropout": lambda d: d.call(T=53, S=139, mask=hw.Causal(), dropout=0.3),
    "everything": lambda d: d.call(
        H=6,
        Hk=3,
        T=67,
        S=149,
        mask=hw.Causal() | hw.Prefix(9),
        scores=(
            hw.SoftCap(4.0),
            hw.Alibi(d.normal(6, size=0.1)),
            hw.SoftCap(5.0),
            hw.RelativeBias(d.normal(6, 40), 30),
            hw.Bias(d.normal(1, 6, 67, 149).masked_fill(~d.keep(1, 6, 67, 149, share=0.9), -math.inf)),
            hw.SoftCap(3.0),
        ),
        sinks=d.normal(6),
        dropout=0.2,
    ),
}
# A bias that broadcasts along any of its axes: its gradient is a sum over them.
for shape in [(2, 3, 53, 139), (1, 3, 53, 139), (2, 1, 53, 139), (1, 1, 53, 139), (2, 3, 1, 139), (1, 1, 1, 139)]:
    CALLS[f"bias {list(shape)}"] = lambda d, shape=shape: d.call(T=53, S=139, scores=(hw.Bias(d.normal(*shape)),))
for shape in [(2, 3, 53, 1), (1, 1, 53, 1), (1, 3, 1, 1), (1, 1, 1, 1), (139,), (53, 1)]:
    CALLS[f"bias {list(shape)}"] = lambda d, shape=shape: d.call(
        T=53, S=139, mask=hw.Causal(), sinks=d.normal(3), scores=(hw.Bias(d.normal(*shape)),)
    )
by_call = pytest.mark.parametrize("name", list(CALLS))


def plan_of(call: Call) -> Plan:
    torch.manual_seed(SEED)
    return make_plan("test", call.q, call.k, call.v, AttentionSpec(**call.options))


def weights(plan: Plan) -> tuple[Tensor, Tensor]:
    """Gradients of out and lse, the same for every dtype but for rounding."""
    g, generator = plan.geometry, torch.Generator().manual_seed(3)
    of_out = torch.randn((g.B, g.H, g.T, g.E), generator=generator, dtype=F64).to(plan.q.dtype)
    return of_out, torch.randn((g.B, g.H, g.T), generator=generator, dtype=F64).to(plan.dtype)


def every(plan: Plan) -> list[bool]:
    return [True] * (3 + len(plan.parameters))


def flat(found: Tangents) -> list[Tensor]:
    return [x for x in (found.q, found.k, found.v, *found.parameters) if x is not None]


def run(plan: Plan, threads: int = 1) -> tuple[Result, list[Tensor]]:
    """Forward and backward by the kernels."""
    torch.set_num_threads(threads)
    result = Native().forward(plan)
    return result, flat(tangents(plan, result, *weights(plan), every(plan)))


def mixture(out: Tensor, lse: Tensor, plan: Plan, leaves: dict[str, Tensor]) -> list[Tensor]:
    """Derivatives by autograd."""
    of_out, of_lse = weights(plan)
    loss = (out * of_out.to(out.dtype)).sum()
    loss = loss + (torch.where(lse == -math.inf, 0.0, lse) * of_lse.to(lse.dtype)).sum()
    return list(torch.autograd.grad(loss, list(leaves.values())))


@cache
def exact(name: str, dtype: torch.dtype) -> tuple[list[Tensor], float]:
    """The derivatives in float64, and how far from them one may be."""
    call = CALLS[name](Draw(dtype, 0))
    plan = plan_of(call)
    wide = plan_of(call.to(F64))
    of_out, of_lse = (x.to(F64) for x in weights(plan))
    with torch.no_grad():
        found = flat(Reference().backward(wide, Reference().forward(wide), of_out, of_lse, every(wide)))
    whole = torch.cat([x.flatten() for x in found])
    forms = []
    for way in (False, True):
        again, leaves = call.fresh()
        made = mixture(*three_op(again, SEED, as_fused=way), plan, leaves)
        forms.append(torch.cat([x.flatten() for x in made]))
    return found, allowed(whole, forms, dtype) + spacing(float(whole.abs().max()), dtype)


@by_call
@by_dtype
def test_derivatives(name: str, dtype: torch.dtype) -> None:
    wanted, budget = exact(name, dtype)
    plan = plan_of(CALLS[name](Draw(dtype, 0)))
    _, found = run(plan)
    assert [x.dtype for x in found] == [x.dtype for x in (plan.q, plan.k, plan.v, *plan.parameters)]
    for n, (got, want) in enumerate(zip(found, wanted, strict=True)):
        within(got, want, budget, f"gradient {n} of q, k, v and the parameters")


@pytest.mark.parametrize("n", range(3))
def test_the_comparison_can_fail(n: int) -> None:
    wanted, budget = exact("causal, several tiles", F32)
    _, found = run(plan_of(CALLS["causal, several tiles"](Draw(F32, 0))))
    found[n][0, 0, -1, 0] += 3 * budget
    with pytest.raises(AssertionError, match="is allowed"):
        within(found[n], wanted[n], budget, "spoiled")


@by_call
def test_bits_do_not_depend_on_threads(name: str) -> None:
    plan = plan_of(CALLS[name](Draw(F32, 0)))
    _, alone = run(plan, 1)
    for threads in (2, 3):
        for got, want in zip(run(plan, threads)[1], alone, strict=True):
            assert torch.equal(got, want)


@pytest.mark.parametrize("name", ["two stretches of keys", "one key head, few queries", "everything"])
def test_bits_do_not_depend_on_neighbours(name: str) -> None:
    """A sequence alone, and among others, on as many threads as make the kernels cut differently."""
    call = CALLS[name](Draw(F32, 0))
    options = {key: value for key, value in call.options.items() if key != "dropout"}  # which knows the batch row
    one = Call(call.q[:1], call.k[:1], call.v[:1], options)
    many = Call(*(torch.cat([x[:1], *(x[:1] + n for n in range(8))]) for x in (call.q, call.k, call.v)), options)

    def operands(call: Call, threads: int) -> list[Tensor]:
        torch.set_num_threads(threads)
        plan = plan_of(call)
        result = Native().forward(plan)
        of_out, of_lse = (x[:1].expand(len(plan.q), *x.shape[1:]).contiguous() for x in weights(plan_of(one)))
        return [x[0] for x in flat(tangents(plan, result, of_out, of_lse, every(plan)))[:3]]

    alone = operands(one, 1)
    for threads in (1, 2):
        for got, want in zip(operands(many, threads), alone, strict=True):
            assert torch.equal(got, want)


@by_dtype
def test_what_is_not_wanted_changes_nothing(dtype: torch.dtype) -> None:
    """Each gradient by itself has the bits that it has among the others."""
    plan = plan_of(CALLS["everything"](Draw(dtype, 0)))
    result, found = run(plan)
    for n in range(len(found)):
        needs = [n == m for m in range(len(found))]
        (got,) = flat(tangents(plan, result, *weights(plan), needs))
        assert torch.equal(got, found[n])


@by_dtype
@pytest.mark.parametrize("given", ["out", "lse"])
def test_one_of_two_gradients(dtype: torch.dtype, given: str) -> None:
    plan = plan_of(CALLS["everything"](Draw(dtype, 0)))
    result = Native().forward(plan)
    of_out, of_lse = weights(plan)
    zero = (torch.zeros_like(of_out), torch.zeros_like(of_lse))
    part = (of_out, None) if given == "out" else (None, of_lse)
    full = (of_out, zero[1]) if given == "out" else (zero[0], of_lse)
    found, wanted = (flat(tangents(plan, result, *pair, every(plan))) for pair in (part, full))
    for got, want in zip(found, wanted, strict=True):
        assert torch.equal(got, want)


def test_strides() -> None:
    """Operands, output and gradients that are views of something larger, and a gradient that is one number."""
    plan = plan_of(CALLS["grouped"](Draw(F32, 0)))
    _, wanted = run(plan)
    result, (of_out, of_lse) = Native().forward(plan), weights(plan)

    def apart(x: Tensor) -> Tensor:
        room = torch.full((*x.shape[:2], x.shape[2] + 3, 2 * x.shape[3] + 1), math.nan)[:, :, 1:-2]
        view = room.transpose(1, 2).contiguous().transpose(1, 2)[..., 1 : x.shape[3] + 1]
        return view.copy_(x)

    spread = plan.rebind(apart(plan.q), apart(plan.k), apart(plan.v), ())
    moved = Result(apart(result.out), result.lse, result.facts)
    wide = torch.stack([of_lse, of_lse], -1)[..., 0]
    for got, want in zip(flat(tangents(spread, moved, apart(of_out), wide, every(plan))), wanted, strict=True):
        assert torch.equal(got, want)
    one = torch.ones(()).expand(of_out.shape)
    found = flat(tangents(plan, result, one, None, every(plan)))
    for got, want in zip(found, flat(tangents(plan, result, one.contiguous(), None, every(plan))), strict=True):
        assert torch.equal(got, want)


HOLES: dict[str, Callable[[Draw], Any]] = {
    "causal": lambda d: hw.Causal(),
    "dense": lambda d: hw.Dense(d.keep(1, 1, 67, 149)),
}


@by_dtype
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("mask", list(HOLES))
@pytest.mark.parametrize("capped", [False, True])
def test_hidden_operands_may_hold_anything(dtype: torch.dtype, value: float, mask: str, capped: bool) -> None:
    """Keys that nobody sees and a query that sees nothing: the same bits as with zeros in their place, and no gradient.

    Backward is given the output of the zeros, so that it stands for itself.
    """
    draw = Draw(dtype, 0)
    keep = HOLES[mask](draw) & hw.Padding(torch.tensor([149, 100]), queries=torch.arange(67).ne(30).expand(2, 67))
    scores = (hw.SoftCap(4.0), hw.Alibi(draw.normal(3))) if capped else ()
    call = draw.call(T=67, S=149, D=10, E=6, mask=keep, scores=scores, q_start=82)
    call.k[1, :, 100:], call.v[1, :, 100:], call.q[:, :, 30] = 0, 0, 0
    plan = plan_of(call)
    result, clean = run(plan)
    call.k[1, :, 100:], call.v[1, :, 100:], call.q[:, :, 30] = value, value, value
    assert not torch.isfinite(plan.k).all()
    spoiled = flat(tangents(plan, result, *weights(plan), every(plan)))
    for got, want in zip(spoiled, clean, strict=True):
        assert torch.equal(got, want)
    assert not spoiled[0][:, :, 30].any()
    assert not spoiled[1][1, :, 100:].any()
    assert not spoiled[2][1, :, 100:].any()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e38])
@pytest.mark.parametrize("where", ["q", "k", "v", "grad"])
@pytest.mark.parametrize("name", ["causal, several tiles", "dropout", "everything", "documents"])
def test_what_is_visible_stays_what_it_is(name: str, where: str, value: float) -> None:
    """NaN and inf reach the gradients of what sees them, and no others: as in the blocked backend."""
    call = CALLS[name](Draw(F32, 0))
    plan = plan_of(call)
    of_out, of_lse = weights(plan)
    spoiled = {"q": call.q, "k": call.k, "v": call.v, "grad": of_out}[where]
    spoiled[0, 1, 40, 2] = value
    of_out[0, 1, 45] = 0  # which asks nothing of a value, whatever that is
    found = flat(tangents(plan, Native().forward(plan), of_out, of_lse, every(plan)))
    wanted = flat(Blocked().backward(plan, Blocked().forward(plan), of_out, of_lse, every(plan)))
    for got, want in zip(found, wanted, strict=True):
        assert torch.equal(got.isnan(), want.isnan())
        if value != 1e38:  # whose gradients are as large as its rounding
            assert torch.equal(got.isposinf(), want.isposinf())
            assert torch.equal(got.isneginf(), want.isneginf())
            fair = torch.isfinite(want)
            assert far(torch.where(fair, got, 0.0), torch.where(fair, want, 0.0)) < 1e-3 * float(want[fair].abs().max())


def test_empty_rows_get_nothing() -> None:
    plan = plan_of(CALLS["empty rows"](Draw(F32, 0)))
    result, found = run(plan)
    assert result.facts is not None
    empty = result.facts.max_logit == -math.inf
    assert bool(empty.any())
    assert not found[0][empty].any()
    of_out, _ = weights(plan)
    found = flat(tangents(plan, result, of_out, torch.full_like(result.lse, math.nan), every(plan)))
    assert not found[0][empty].any()


@pytest.mark.parametrize("axis", ["B", "T", "S", "E"])
def test_empty_axes(axis: str) -> None:
    plan = plan_of(Draw(F32, 0).call(**{axis: 0}, scores=(hw.Alibi(torch.ones(3)),), sinks=torch.ones(3)))
    _, found = run(plan)
    assert [x.shape for x in found] == [x.shape for x in (plan.q, plan.k, plan.v, *plan.parameters)]
    assert all(bool(torch.isfinite(x).all()) for x in found)
