"""Cases x backends x dtypes: output, log-sum-exp, answers and gradients against the float64 definition."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import pytest
import torch
from answers import answers
from definition import Exact, define
from native_here import NATIVE
from small import small_tiles
from torch import Tensor

import headwise as hw
from headwise import observers, spec
from headwise.testing import CASES, Call, allowed, far, fused, questions, spacing, three_op, within

DTYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
F64, F32 = torch.float64, torch.float32
SHORT = {torch.float64: "f64", torch.float32: "f32", torch.bfloat16: "bf16", torch.float16: "f16"}
# The definition is float64 itself, so for float64 results there is nothing more exact to measure torch against: two
# ways to add up the same few numbers of size 1 differ by some units of 2e-16, and this is far from any real fault.
SAME_F64 = 1e-12

by_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=SHORT.get)
by_case = pytest.mark.parametrize("name", list(CASES))
by_backend = pytest.mark.parametrize("backend", ["reference", "blocked", NATIVE, "sdpa"])


@cache
def exact_of(name: str, dtype: torch.dtype) -> tuple[Call, Exact]:
    """A case and its definition, worked out once."""
    call = CASES[name].make(dtype)
    return call, define(call)


@cache
def budgets(name: str, dtype: torch.dtype, backend: str) -> tuple[float, float]:
    """How far output and log-sum-exp may be from the definition."""
    call, exact = exact_of(name, dtype)
    if dtype == F64:
        size = max([1.0, *(float(x.nan_to_num(0, 0, 0).abs().max()) for x in (exact.out, exact.lse) if x.numel())])
        return SAME_F64 * size, SAME_F64 * size
    if not CASES[name].gradients:  # something that is seen is not finite: measure where it is
        call = call.finite()
        exact = define(call)
    forms = [form for form in (fused(call), three_op(call)[0]) if form is not None]
    # Half-precision operands have a float32 log-sum-exp, so that is what torch is measured in. torch's own kernel is
    # held to less: its exponentials are those of the operands' dtype.
    measured = call if backend == "sdpa" else call.to(F32)
    return allowed(exact.out, forms, dtype), allowed(exact.lse, [three_op(measured)[1]], F32)


def refused(name: str, call: Call, backend: str) -> bool:
    """Whether the backend refuses the case; it does so for the expected reason, or not at all."""
    reason = hw.explain(call.q, call.k, call.v, **call.options).reasons[backend]
    expected = CASES[name].refusal(backend, call.q.dtype)
    if expected is None:
        assert reason == "can run", f"{backend} refuses {name!r}, which it can do: {reason}"
        return False
    assert expected in reason, f"{backend} should refuse {name!r} because of {expected!r}, it says: {reason}"
    with pytest.raises(hw.UnsupportedError, match="refuses") as error:
        call.run(backend)
    assert error.value.reasons == {backend: reason}
    return True


@by_dtype
@by_backend
@by_case
def test_output_and_log_sum_exp(name: str, backend: str, dtype: torch.dtype, tiny: None) -> None:
    call, exact = exact_of(name, dtype)
    if refused(name, call, backend):
        return
    got = call.run(backend)
    assert got.out.dtype == dtype
    assert got.lse.dtype == (F64 if dtype == F64 else F32)
    out_budget, lse_budget = budgets(name, dtype, backend)
    within(got.out, exact.out, out_budget, "out")
    within(got.lse, exact.lse, lse_budget, "lse")
    empty = ~exact.visible.any(-1)
    assert bool((got.out[empty] == 0).all())
    assert bool((got.lse[empty] == -torch.inf).all())


@by_case
def test_whole_tiles_and_small_ones_agree(name: str) -> None:
    """The usual sizes of tiles hold these calls in one; the other tests cut them."""
    call, exact = exact_of(name, F64)
    within(call.run("blocked").out, exact.out, budgets(name, F64, "blocked")[0], "out")


# Sums over many probabilities, in the float32 that everything is observed in, carry the rounding of each of them.
LOOSE = {"entropy", "received", "segments", "segments_shared"}


def _close(found: Any, exact: Any, name: str, dtype: torch.dtype) -> None:
    largest = float(torch.nan_to_num(exact.double(), 0, 0, 0).abs().max()) if exact.numel() else 0.0
    if dtype == F64:
        budget = 1e-10
    else:
        budget = (1e-4 if name in LOOSE else 1e-5) + 4 * spacing(max(largest, 1.0), F32)
    within(found, exact, budget, name)


def _some(names: list[str], dtype: torch.dtype, step: int) -> list[Any]:
    """Every case in float64; every second in float32, which runs the same code; fewer in what is widened to it."""
    first = {F64: 0, F32: 0, torch.bfloat16: 1, torch.float16: 2}[dtype]
    every = {F64: 1, F32: 2}.get(dtype, step)
    return [pytest.param(name, dtype, id=f"{name}-{SHORT[dtype]}") for name in names[first::every]]


@pytest.mark.parametrize("backend", ["reference", "blocked", NATIVE])
@pytest.mark.parametrize(("name", "dtype"), [p for dtype in DTYPES for p in _some(list(CASES), dtype, 6)])
def test_answers(name: str, backend: str, dtype: torch.dtype, tiny: None) -> None:
    """Every built-in question about every case, against its own definition on the dense float64 pattern."""
    call, exact = exact_of(name, dtype)
    if refused(name, call, backend):
        return
    asked = questions(call)
    plain, got = call.run(backend), call.run(backend, asked)
    assert far(plain.out, got.out) == 0, "observing changed the output"
    assert far(plain.lse, got.lse) == 0, "observing changed the log-sum-exp"
    assert len(got.seen) == len(asked)
    _compare(call, exact, asked, got.seen, dtype)


@pytest.mark.parametrize("keep", [None, 0], ids=["whole rows", "two sweeps"])
@by_case
def test_answers_of_a_pattern_whose_rows_are_not_known_yet(
    name: str, keep: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No forward pass left the row facts: the survey finds them, with all tiles of a block at hand or in two sweeps."""
    small_tiles(monkeypatch, keep=keep)
    call, exact = exact_of(name, F64)
    asked = questions(call)
    options = {key: value for key, value in call.options.items() if key not in ("dropout", "gate")}
    _compare(call, exact, asked, hw.Pattern(call.q, call.k, call.v, **options).ask(*asked), F64)


def _compare(call: Any, exact: Exact, asked: Any, seen: dict[str, Any], dtype: torch.dtype) -> None:
    """Every answer against its definition."""
    for question, key in zip(asked, seen, strict=True):
        found, want = seen[key], answers(exact, question, call)
        if isinstance(question, hw.TopKeys):
            _top(found, want, exact, key, dtype)
        elif isinstance(question, hw.Contribution):
            assert not found.by_key.requires_grad
            _close(found.by_key, want[0], key, dtype)
            _close(found.by_query, want[1], key, dtype)
        else:
            assert not found.requires_grad
            assert found.dtype == (F64 if dtype == F64 else F32)
            _close(found, want, key, dtype)


def _top(found: Any, want: Any, exact: Exact, name: str, dtype: torch.dtype) -> None:
    """Values are those of the definition; the keys have these values, differ, and fewer is 0 and -1."""
    _close(found.values, want[0], name, dtype)
    fair = ~exact.p.isnan().any(-1)  # NaN has no order
    keys, wanted = found.indices[fair], want[1][fair]
    assert bool(((keys < 0) == (wanted < 0)).all())
    padded = torch.nn.functional.pad(exact.p[fair], (0, 1))
    at = padded.gather(-1, torch.where(keys < 0, exact.size.S, keys))
    _close(at, want[0][fair], name, dtype)
    for row in keys.flatten(0, -2):
        real = row[row >= 0]
        assert len(real.unique()) == len(real)


@by_case
def test_pattern_is_the_definition(name: str, tiny: None) -> None:
    call, exact = exact_of(name, F64)
    got = call.run("blocked")
    assert tuple(got.pattern.shape) == tuple(exact.p.shape)
    within(got.pattern.to_dense(), exact.p, SAME_F64, "p")


def _gradients(
    out: Tensor, lse: Tensor, leaves: dict[str, Tensor], weights: tuple[Tensor, Tensor]
) -> dict[str, Tensor]:
    """Derivatives of a fixed mixture of output and log-sum-exp (of rows that are not empty)."""
    alive = lse != -torch.inf
    loss = (out * weights[0].to(out.dtype)).sum()
    loss = loss + (torch.where(alive, lse, 0.0) * weights[1].to(lse.dtype)).sum()
    if not loss.requires_grad:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if g is None else g for (name, leaf), g in zip(leaves.items(), found, strict=True)
    }


def _weights(exact: Exact, dtype: torch.dtype, draw: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3 + draw)
    out, lse = (torch.randn(x.shape, generator=generator, dtype=F64) for x in (exact.out, exact.lse))
    return out.to(dtype), lse if dtype == F64 else torch.zeros_like(lse)


def _derivatives(name: str, dtype: torch.dtype, draw: int) -> tuple[dict[str, Tensor], list[dict[str, Tensor]]]:
    """Derivatives of one mixture by the definition, and of its output by torch's forms."""
    made = CASES[name].make(dtype)
    call, leaves = made.fresh()
    exact = define(call)
    weights = _weights(exact, dtype, draw)
    wanted = {n: g.double() for n, g in _gradients(exact.out, exact.lse, leaves, weights).items()}
    if dtype == F64:
        return wanted, []
    call, leaves = made.finite().fresh()
    forms = [_gradients(*three_op(call, as_fused=way), leaves, weights) for way in (False, True)]
    out = fused(call)
    if out is not None:
        forms.append(_gradients(out, torch.zeros(weights[1].shape, dtype=dtype), leaves, weights))
    return wanted, forms


@cache
def exact_gradients(name: str, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Derivatives by the definition, through the output and (in float64) log-sum-exp, and how far one may be.

    How far torch's forms are is measured on four mixtures of the same output: over the few rows of a case one mixture
    is, now and then, hardly off by chance.
    """
    wanted, forms = _derivatives(name, dtype, 0)
    if dtype == F64:
        return wanted, {n: 1e-11 * max([1.0, float(g.abs().max())]) if g.numel() else 0.0 for n, g in wanted.items()}
    # The derivative is one result with several parts: where a part cancels to nothing (q of a row with one key), its
    # rounding is that of the sums it came from.
    whole, budget = torch.cat([g.flatten() for g in wanted.values()]), 0.0
    for exact, others in [(wanted, forms), *(_derivatives(name, dtype, draw) for draw in (1, 2, 3))]:
        joined = [torch.cat([g.flatten().double() for g in part.values()]) for part in (exact, *others)]
        budget = max(budget, allowed(joined[0], joined[1:], dtype))
    # It is rounded once more than an output is: the sums of the way there come back as factors of the way back.
    budget += spacing(float(whole.abs().max()), dtype) if whole.numel() else 0.0
    return wanted, dict.fromkeys(wanted, budget)


DIFFERENTIABLE = [name for name, case in CASES.items() if case.gradients]


@by_backend
@pytest.mark.parametrize(("name", "dtype"), [p for dtype in DTYPES for p in _some(DIFFERENTIABLE, dtype, 5)])
def test_gradients(name: str, dtype: torch.dtype, backend: str, tiny: None) -> None:
    """q, k, v, slopes, tables, biases, sinks and gate; in float64 through output and log-sum-exp together.

    In shorter floats through the output alone, within the budget that torch's own forms need for the same derivative.
    """
    made = CASES[name].make(dtype)
    if refused(name, made, backend):
        return
    call, leaves = made.fresh()
    got = call.run(backend)
    found = _gradients(got.out, got.lse, leaves, _weights(exact_of(name, dtype)[1], dtype))
    wanted, budget = exact_gradients(name, dtype)
    for leaf, g in wanted.items():
        assert found[leaf].dtype == dtype
        within(found[leaf], g, budget[leaf], f"gradient of {leaf}")


# --- that nothing is left out, and that the checks can fail ---------------------------------------------------------


def _public(module: Any, base: type) -> set[type]:
    found = {getattr(module, name) for name in module.__all__}
    return {c for c in found if inspect.isclass(c) and issubclass(c, base) and c is not base}


@pytest.mark.parametrize("kind", sorted(_public(spec, spec.Mask) | _public(spec, spec.Rules), key=lambda c: c.__name__))
def test_every_mask_and_rule_has_a_case(kind: type) -> None:
    """Held by what the cases' options hold, not by what they say they hold."""
    used: set[type] = set()
    for case in CASES.values():
        options = case.make(F32).options
        used |= {type(rule) for rule in options.get("scores", ())}
        used |= _kinds(options.get("mask"))
    assert kind in used


def _kinds(mask: Any) -> set[type]:
    inside = getattr(mask, "masks", ())
    return {type(mask)}.union(*(_kinds(m) for m in inside))


@pytest.mark.parametrize("kind", sorted(_public(observers, observers.Observer), key=lambda c: c.__name__))
def test_every_observer_has_a_question(kind: type) -> None:
    assert kind in {type(question) for question in questions(CASES["plain"].make(F32))}


@pytest.mark.parametrize("option", ["mask", "scores", "scale", "q_start", "kv_heads", "sinks", "dropout", "gate"])
def test_every_option_has_a_case(option: str) -> None:
    parameters = set(inspect.signature(hw.attention).parameters)
    assert option in parameters
    assert any(option in case.make(F32).options for case in CASES.values())


def test_no_option_is_unknown_to_the_cases() -> None:
    known = {"q", "k", "v", "mask", "scores", "scale", "q_start", "kv_heads", "sinks", "dropout", "gate", "backend"}
    assert set(inspect.signature(hw.attention).parameters) == known


@by_case
def test_each_case_says_what_it_is_for(name: str) -> None:
    case = CASES[name]
    assert case.exercises
    used = _kinds(case.make(F32).options.get("mask")) | {type(r) for r in case.make(F32).options.get("scores", ())}
    assert {kind for kind in case.exercises if isinstance(kind, type)} <= used


def test_backends_that_refuse_take_a_fair_share_of_the_cases() -> None:
    """A backend that refuses everything would pass all else."""
    assert sum(case.sdpa is None for case in CASES.values()) >= 30
    refused_by_native = {name for name, case in CASES.items() if case.native is not None}
    assert refused_by_native == {name for name, case in CASES.items() if {hw.Rule, hw.ScoreRule} & set(case.exercises)}


def test_the_small_tiles_really_are_small(tiny: None) -> None:
    """Counted by an observer: without the fixture the same call is one tile a head or less."""

    class Tiles:
        def __init__(self) -> None:
            self.shapes: list[tuple[int, ...]] = []

        def see(self, tile: Any) -> None:
            self.shapes.append(tuple(tile.p.shape))

        def merge(self, other: Tiles) -> None:
            self.shapes += other.shapes

        def result(self) -> list[tuple[int, ...]]:
            return self.shapes

    call = CASES["plain, E != D"].make(F64)
    shapes = call.run("blocked", [Tiles()]).seen["tiles"]
    assert len(shapes) >= 3 * 3 * 2
    assert max(s[2] for s in shapes) == 4
    assert max(s[3] for s in shapes) == 5
    assert sum(s[0] * s[1] * s[2] * s[3] for s in shapes) == 2 * 3 * 11 * 13
