"""Random calls from the whole space of options: blocked against the reference, native and sdpa where they accept.

The reference is held to the written definition by the cases; here it stands for it, so that many calls can be made.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from native_here import by_native
from small import small_tiles
from torch import Tensor

import headwise as hw
from headwise.testing import Call, Draw, calls, questions, within

F64 = torch.float64
INF = float("inf")
LONGEST = 23  # cut into tiles of 3 rows and 4 keys


few = settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module", autouse=True)
def tiles_of_many_sizes() -> Any:
    """Each example is cut by the sizes of the example before it: hypothesis and function fixtures do not mix."""
    with pytest.MonkeyPatch.context() as patch:
        small_tiles(patch, rows=3, keys=4, scratch=24)
        yield


def _same(a: Any, b: Any, what: str, off: float = 1e-10) -> None:
    within(a, b, off, what)


def agree(call: Call) -> None:
    """Blocked and the reference agree on output, log-sum-exp and all answers."""
    asked = questions(call)
    a, b = call.run("blocked", asked), call.run("reference", asked)
    _same(a.out, b.out, "out")
    _same(a.lse, b.lse, "lse")
    for name in a.seen:
        found, want = a.seen[name], b.seen[name]
        if isinstance(question := found, tuple) and hasattr(question, "indices"):
            _same(found.values, want.values, name)
            assert torch.equal(found.indices < 0, want.indices < 0)
            continue
        for x, y in zip(*((found, want) if isinstance(found, tuple) else ([found], [want])), strict=True):
            _same(x, y, name)


@few
@given(calls(longest=LONGEST))
def test_blocked_is_the_reference(call: Call) -> None:
    agree(call)


@few
@given(calls(longest=LONGEST))
def test_gradients_of_blocked_are_the_references(call: Call) -> None:
    grads = []
    for backend in ("blocked", "reference"):
        made, leaves = call.fresh()
        got = made.run(backend)
        alive = got.lse != -INF
        loss = got.out.square().sum() + torch.where(alive, got.lse, 0.0).sin().sum()
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        grads.append([torch.zeros(1) if g is None else g for g in found])
    for (name, a), b in zip(zip(call.leaves(), grads[0], strict=True), grads[1], strict=True):
        size = max([1.0, *b.abs().flatten().tolist()])
        assert bool(torch.isfinite(a).all()), name
        if a.shape == b.shape:
            _same(a, b, f"gradient of {name}", 1e-10 * size)
        else:
            assert float(a.abs().max()) == float(b.abs().max()) == 0.0


@few
@given(calls(spoiled=True, longest=LONGEST))
def test_what_is_not_finite_is_the_same_on_both(call: Call) -> None:
    """Where a NaN or an infinity is seen the two agree on which numbers it reaches, and how."""
    asked = [hw.Received(), hw.Entropy(), hw.LogSumExp(), hw.MaxLogit(), hw.Offsets(4, 2), hw.Map(3, 3)]
    a, b = call.run("blocked", asked), call.run("reference", asked)
    _same(a.out, b.out, "out")
    _same(a.lse, b.lse, "lse")
    for name in a.seen:
        _same(a.seen[name], b.seen[name], name)


@few
@given(calls(spoiled=True, longest=LONGEST))
def test_a_nan_reaches_the_rows_that_see_it_and_no_others(call: Call) -> None:
    """The rows whose visible operands are finite are those of the call with 0 in place of what is not."""
    clean = call.finite()
    visible = clean.run("reference", [hw.TopKeys(max(1, call.k.shape[2]))]).seen["top_keys"].indices
    got, want = call.run("blocked").out, clean.run("blocked").out
    kv = call.options.get("kv_heads") or [h * call.k.shape[1] // call.q.shape[1] for h in range(call.q.shape[1])]
    bad_key = ~(torch.isfinite(call.k).all(-1) & torch.isfinite(call.v).all(-1))[:, list(kv)]  # [B, H, S]
    padded = torch.nn.functional.pad(bad_key, (0, 1))
    where = torch.where(visible < 0, call.k.shape[2], visible)
    meets = padded[:, :, None].expand(*where.shape[:3], -1).gather(-1, where).any(-1)
    fair = ~meets & torch.isfinite(call.q).all(-1)
    _same(got[fair], want[fair], "rows that see nothing bad")


def native_takes(call: Call) -> bool:
    """Whether the native kernels take a call; what they refuse has a function of Python in it."""
    reason = hw.explain(call.q, call.k, call.v, **call.options).reasons["native"]
    assert reason == "can run" or "only Python knows" in reason
    return reason == "can run"


@by_native
@few
@given(calls(torch.float32, longest=LONGEST))
def test_native_where_it_accepts(call: Call) -> None:
    if not native_takes(call):
        return
    asked = [hw.Received(), hw.Entropy(), hw.MaxLogit(), hw.Offsets(4, 2), hw.Map(3, 3)]
    a, b = call.run("native", asked), call.to(F64).run("reference", asked)
    _same(a.out, b.out, "out", 1e-5)
    _same(a.lse, b.lse, "lse", 1e-4)
    for name in a.seen:
        _same(a.seen[name], b.seen[name], name, 1e-4)


@by_native
@few
@given(calls(torch.float32, longest=LONGEST))
def test_gradients_of_native_are_the_references(call: Call) -> None:
    if not native_takes(call):
        return
    grads = []
    for run in (call, call.to(F64)):
        made, leaves = run.fresh()
        got = made.run("native" if run is call else "reference")
        alive = got.lse != -INF
        loss = got.out.square().sum() + torch.where(alive, got.lse, 0.0).sin().sum()
        found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
        grads.append([torch.zeros_like(x) if g is None else g for g, x in zip(found, leaves.values(), strict=True)])
    for name, a, b in zip(call.leaves(), *grads, strict=True):
        _same(a, b, f"gradient of {name}", 1e-4 * max([1.0, *b.abs().flatten().tolist()]))


@by_native
@few
@given(calls(torch.float32, spoiled=True, longest=LONGEST))
def test_what_is_not_finite_is_the_same_on_native(call: Call) -> None:
    if not native_takes(call):
        return
    asked = [hw.Received(), hw.Entropy(), hw.LogSumExp(), hw.MaxLogit(), hw.Offsets(4, 2), hw.Map(3, 3)]
    a, b = call.run("native", asked), call.to(F64).run("reference", asked)
    _same(a.out, b.out, "out", 1e-5)
    _same(a.lse, b.lse, "lse", 1e-4)
    for name in a.seen:
        _same(a.seen[name], b.seen[name], name, 1e-4)


@few
@given(calls(torch.float32, longest=LONGEST))
def test_sdpa_where_it_accepts(call: Call) -> None:
    said = hw.explain(call.q, call.k, call.v, **call.options)
    if said.reasons["sdpa"] != "can run":
        with pytest.raises(hw.UnsupportedError):
            call.run("sdpa")
        return
    a, b = call.run("sdpa"), call.to(F64).run("reference")
    _same(a.out, b.out, "out", 1e-5)
    _same(a.lse, b.lse, "lse", 1e-4)


@st.composite
def plain_calls(draw: Any) -> Call:
    """Calls that torch's kernel can take: what is random is the mask's shape, the sizes and the padding."""
    T = draw(st.integers(1, 40))
    S = draw(st.sampled_from([T, T, draw(st.integers(1, 40))]))
    group, Hk = draw(st.sampled_from([(1, 2), (2, 1), (3, 2)]))
    size = {"B": 2, "H": group * Hk, "T": T, "S": S, "D": draw(st.sampled_from([1, 3, 8, 17]))}
    numbers = Draw(F64, draw(st.integers(0, 2**31)))
    pads = numbers.ints(S, 2)
    left = torch.arange(S) >= pads[:, None]
    options = [
        {},
        {"mask": hw.Causal()},
        {"mask": hw.Causal(align="start")},
        {"mask": hw.Padding(pads)},
        {"mask": hw.Padding(left)},
        {"mask": hw.Causal() & hw.Padding(left, left if S == T else None)},
        {"mask": hw.Causal(), "q_start": draw(st.integers(-5, 45))},
        {"mask": hw.Prefix(pads)},
    ]
    return numbers.call(Hk=Hk, fused=True, **size, **draw(st.sampled_from(options)))


taken: list[bool] = []


@few
@given(plain_calls())
def test_sdpa_and_its_gradients_on_calls_it_can_take(call: Call) -> None:
    said = hw.explain(call.q, call.k, call.v, **call.options)
    taken.append(said.reasons["sdpa"] == "can run")
    if not taken[-1]:
        assert "triangle" in said.reasons["sdpa"]
        return
    results: list[list[Tensor]] = []
    for backend in ("sdpa", "reference"):
        made, leaves = call.fresh()
        got = made.run(backend)
        results.append([got.out, got.lse, *torch.autograd.grad(got.out.square().sum(), list(leaves.values()))])
    for a, b in zip(*results, strict=True):
        _same(a, b, "sdpa")


def test_sdpa_was_really_asked() -> None:
    """Most of the calls above were taken, not refused; runs after them in the same process or not at all."""
    if len(taken) >= 20:
        assert sum(taken) > len(taken) / 2
    else:
        test_sdpa_and_its_gradients_on_calls_it_can_take()
        assert sum(taken) > len(taken) / 2


def test_the_fuzz_can_fail() -> None:
    """A fault planted into a mask's runs is found by these calls."""
    original = hw.Window.intervals

    def wrong(self: hw.Window, geometry: Any) -> Any:
        return original(hw.Window(self.before, None if self.after is None else self.after + 1), geometry)

    many = settings(few, phases=[Phase.generate], report_multiple_bugs=False, max_examples=300)
    search = many(given(calls(longest=LONGEST))(agree))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hw.Window, "intervals", wrong)
        with pytest.raises(AssertionError):
            search()
