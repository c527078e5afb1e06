"""Every helper that compares can fail, and fails for the right reason."""

from __future__ import annotations

import pytest
import torch

from headwise.testing import CASES, allowed, define, far, fused, spacing, three_op, within

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("found", "exact", "distance"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0.0),
        ([1.0, 2.5], [1.0, 2.0], 0.5),
        ([NAN, 1.0], [NAN, 1.0], 0.0),
        ([NAN, 1.0], [0.0, 1.0], INF),
        ([0.0, 1.0], [NAN, 1.0], INF),
        ([INF, 1.0], [INF, 1.0], 0.0),
        ([INF, 1.0], [-INF, 1.0], INF),
        ([1.0, 1.0], [INF, 1.0], INF),
        ([-INF], [NAN], INF),
        ([], [], 0.0),
    ],
)
def test_far(found: list[float], exact: list[float], distance: float) -> None:
    assert far(torch.tensor(found), torch.tensor(exact)) == distance


def test_far_refuses_to_broadcast() -> None:
    with pytest.raises(AssertionError, match=r"\[1\], it should be \[2\]"):
        far(torch.zeros(1), torch.zeros(2))


def test_within_can_fail() -> None:
    within(torch.tensor([1.1]), torch.tensor([1.0]), 0.2, "out")
    with pytest.raises(AssertionError, match=r"out: 0\.1 from the exact numbers, 0\.05 is allowed"):
        within(torch.tensor([1.1]), torch.tensor([1.0]), 0.05, "out")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [1.0, 1.5, 2.0, 3.9, 1e-3, 100.0])
def test_spacing_is_the_gap_to_the_next_float(dtype: torch.dtype, size: float) -> None:
    x = torch.tensor(size, dtype=dtype)
    bits = {8: torch.int64, 4: torch.int32, 2: torch.int16}[x.element_size()]
    after = (x.view(bits) + 1).view(dtype)
    assert spacing(float(x), dtype) == float(after.double() - x.double())


def test_allowed_is_twice_the_larger_error_and_one_unit() -> None:
    exact = torch.tensor([1.0, -3.0])
    forms = [torch.tensor([1.0, -3.25]), torch.tensor([1.125, -3.0])]
    assert allowed(exact, forms, torch.float32) == 0.5 + spacing(3.0, torch.float32)
    assert allowed(exact, [exact], torch.bfloat16) == spacing(3.0, torch.bfloat16)


def test_allowed_leaves_out_what_torch_cannot_say() -> None:
    """torch's NaN of an empty row must not widen a budget, and no infinity may."""
    exact = torch.tensor([0.0, 1.0, INF])
    assert allowed(exact, [torch.tensor([NAN, 1.25, 7.0])], torch.float32) == 0.5 + spacing(1.0, torch.float32)


@pytest.mark.parametrize("name", ["causal", "grouped heads", "bias that hides", "sinks", "dropout with all else"])
def test_torch_forms_say_the_same_thing(name: str) -> None:
    """In float64 both forms equal the definition: a budget measured on another question would allow anything."""
    call = CASES[name].make(torch.float64)
    exact = define(call)
    out, lse = three_op(call)
    within(out, exact.out, 1e-12, "three ops")
    within(lse, exact.lse, 1e-12, "lse of three ops")
    form = fused(call)
    assert (form is None) == (name in ("sinks", "dropout with all else"))
    if form is not None:
        within(form, exact.out, 1e-12, "fused op")


@pytest.mark.parametrize("name", ["plain", "causal", "alibi", "bias [2, 3, 11, 13]", "dropout with all else", "sinks"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_budgets_are_tight(name: str, dtype: torch.dtype) -> None:
    """An option left out moves the output by far more than its budget, so a wrong answer cannot pass."""
    call = CASES[name].make(dtype)
    exact = define(call)
    forms = [form for form in (three_op(call)[0], fused(call)) if form is not None]
    budget = allowed(exact.out, forms, dtype)
    wrong = {**call.options, "scale": 0.9 * call.q.shape[-1] ** -0.5}
    moved = far(define(type(call)(call.q, call.k, call.v, wrong)).out, exact.out)
    assert moved > 3 * budget
    if call.options:
        bare = define(type(call)(call.q, call.k, call.v, {})).out
        assert far(bare, exact.out) > 10 * budget


@pytest.mark.parametrize(
    "name", ["plain", "grouped heads", "sinks, causal, empty rows, grouped", "dropout with all else"]
)
def test_both_ways_to_differentiate_the_three_ops_are_right(name: str) -> None:
    """In float64 the fused kernels' way and autograd's agree with the definition's derivative."""
    made = CASES[name].make(torch.float64)
    grads = []
    for run in (lambda c: define(c).out, lambda c: three_op(c)[0], lambda c: three_op(c, as_fused=True)[0]):
        call, leaves = made.fresh()
        grads.append(torch.autograd.grad(run(call).sin().sum(), list(leaves.values()), allow_unused=True))
    for exact, *forms in zip(*grads, strict=True):
        for form in forms:
            within(form, exact, 1e-12, "gradient")
