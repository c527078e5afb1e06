"""What a backend promises of every case, a function a promise: each raises AssertionError with the numbers.

A case that a backend refuses is none of these; ``refusal`` says so first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from headwise.errors import UnsupportedError
from headwise.observers import Contribution, Entropy, Received, Segments, TopKeys
from headwise.ops import attention, explain
from headwise.testing.answers import answers
from headwise.testing.budget import far, spacing, within
from headwise.testing.calls import Call, Case
from headwise.testing.definition import Exact
from headwise.testing.questions import questions
from headwise.testing.truth import budgets, exact_gradients, exact_of, gradients, weights

__all__ = ["PROMISES", "Promise", "compare", "name_of", "refusal"]

F64, F32 = torch.float64, torch.float32
Promise = Callable[[Case, torch.dtype, Any], None]


def name_of(backend: Any) -> str:
    """A backend's name, of itself or of its name."""
    return backend if isinstance(backend, str) else str(backend.name)


def refusal(case: Case, dtype: torch.dtype, backend: Any) -> str | None:
    """Why a backend refuses a case; None where it takes it.

    Raises:
        AssertionError: it says nothing, or the op and what ``explain`` says of it disagree.

    Example:
        >>> import torch
        >>> from headwise.testing import CASES
        >>> from headwise.testing.promises import refusal
        >>> refusal(CASES["sinks"], torch.float32, "sdpa")
        "torch's kernel has no sinks"
    """
    call = case.make(dtype)
    said = explain(call.q, call.k, call.v, **call.options).reasons.get(name_of(backend))
    try:
        torch.manual_seed(0)
        attention(call.q, call.k, call.v, **call.options, backend=backend)
    except UnsupportedError as error:
        reason = error.reasons.get(name_of(backend), "")
        assert reason.strip(), f"{name_of(backend)} refuses and gives no reason"
        assert said is None or not isinstance(backend, str) or said == reason, f"explain says {said!r}, not {reason!r}"
        return reason
    assert said == "can run" or not isinstance(backend, str), f"explain says {said!r}, and it runs"
    return None


def output(case: Case, dtype: torch.dtype, backend: Any) -> None:
    """Output and log-sum-exp are within their budgets; an empty row is 0 and -inf."""
    exact = exact_of(case, dtype)
    got = case.make(dtype).run(backend)
    assert got.out.dtype == dtype, f"out is {got.out.dtype}, it should be {dtype}"
    wide = F64 if dtype == F64 else F32
    assert got.lse.dtype == wide, f"lse is {got.lse.dtype}, it should be {wide}"
    out_budget, lse_budget = budgets(case, dtype, name_of(backend))
    within(got.out, exact.out, out_budget, "out")
    within(got.lse, exact.lse, lse_budget, "lse")
    empty = ~exact.visible.any(-1)
    assert bool((got.out[empty] == 0).all()), "a row that sees no key has an output that is not 0"
    assert bool((got.lse[empty] == -torch.inf).all()), "a row that sees no key has an lse that is not -inf"


def observed(case: Case, dtype: torch.dtype, backend: Any) -> None:
    """Every built-in question has its defined answer, and asking changes no bit of the output."""
    call, exact = case.make(dtype), exact_of(case, dtype)
    asked = questions(call)
    plain, got = call.run(backend), call.run(backend, asked)
    assert far(plain.out, got.out) == 0, "observing changed the output"
    assert far(plain.lse, got.lse) == 0, "observing changed the log-sum-exp"
    assert len(got.seen) == len(asked), f"{len(got.seen)} answers to {len(asked)} questions"
    compare(call, exact, asked, got.seen)


def differentiated(case: Case, dtype: torch.dtype, backend: Any) -> None:
    """q, k, v, slopes, tables, biases, sinks and gate; in float64 through output and log-sum-exp together.

    In shorter floats through the output alone, within the budget that torch's own forms need for the same derivative.
    """
    if not case.gradients:
        return
    call, leaves = case.make(dtype).fresh()
    got = call.run(backend)
    found = gradients(got.out, got.lse, leaves, weights(exact_of(case, dtype), dtype))
    wanted, budget = exact_gradients(case, dtype)
    for leaf, g in wanted.items():
        assert found[leaf].dtype == dtype, f"the gradient of {leaf} is {found[leaf].dtype}, it should be {dtype}"
        within(found[leaf], g, budget[leaf], f"gradient of {leaf}")


def untouched(case: Case, dtype: torch.dtype, backend: Any) -> None:
    """No operand and no tensor of an option is written to, with and without derivatives."""
    for made in (case.make(dtype), case.make(dtype).fresh()[0]):
        held = _tensors(made)
        before = {name: x.detach().clone() for name, x in held.items()}
        got = made.run(backend)
        if case.gradients and got.out.requires_grad:
            got.out.sum().backward()
        for name, x in held.items():
            assert far(x, before[name]) == 0, f"{name} was overwritten"
            assert _bits(x, before[name]), f"{name} was overwritten"


def strided(case: Case, dtype: torch.dtype, backend: Any) -> None:
    """Operands laid out as [B, T, H, D], or with gaps between their numbers, are the same operands or refused."""
    exact, budget = exact_of(case, dtype), budgets(case, dtype, name_of(backend))
    for moved in (_heads_inside, _with_gaps):
        call = case.make(dtype)
        call = Call(moved(call.q), moved(call.k), moved(call.v), call.options)
        how = f"operands{moved.__name__.replace('_', ' ')}"
        try:
            got = call.run(backend)
        except UnsupportedError as error:
            if not error.reasons.get(name_of(backend)):
                raise AssertionError(f"{how} are refused without a reason") from error
            continue
        within(got.out, exact.out, budget[0], f"out of {how}")
        within(got.lse, exact.lse, budget[1], f"lse of {how}")


def repeated(case: Case, dtype: torch.dtype, backend: Any) -> None:
    """The same bits again, and with any number of threads."""
    first = _results(case, dtype, backend)
    for threads in (None, 1, 3):
        with _threads(threads):
            again = _results(case, dtype, backend)
        how = "a second time" if threads is None else f"on {threads} threads"
        off = _by_threads(case, dtype) if threads and name_of(backend) == "sdpa" else {}
        for name, x in first.items():
            within(again[name], x, off.get(name, 0.0), f"{name} {how}")


def _by_threads(case: Case, dtype: torch.dtype) -> dict[str, float]:
    """Torch's own kernel adds in an order that its number of threads decides; it is held to its budgets."""
    out, lse = budgets(case, dtype, "sdpa")
    grads = exact_gradients(case, dtype)[1] if case.gradients else {}
    return {"out": out, "lse": lse} | {f"gradient of {name}": off for name, off in grads.items()}


PROMISES: dict[str, Promise] = {
    "output": output,
    "answers": observed,
    "gradients": differentiated,
    "operands kept": untouched,
    "strides": strided,
    "same bits": repeated,
}


# --- answers -----------------------------------------------------------------------------------------------------


def compare(call: Call, exact: Exact, asked: Any, seen: dict[str, Any]) -> None:
    """Every answer against its definition; raises AssertionError with the first that is wrong."""
    dtype = call.q.dtype
    for question, key in zip(asked, seen, strict=True):
        found, want = seen[key], answers(exact, question, call)
        if isinstance(question, TopKeys):
            _top(found, want, exact, question, key, dtype)
            continue
        pairs = [(found, want)]
        if isinstance(question, Contribution):
            pairs = [(found.by_key, want[0]), (found.by_query, want[1])]
        for mine, other in pairs:
            assert not mine.requires_grad, f"{key} carries a gradient"
            assert mine.dtype == (F64 if dtype == F64 else F32), f"{key} is {mine.dtype}"
            _close(mine, other, question, key, dtype)


def _close(found: Tensor, exact: Tensor, question: Any, name: str, dtype: torch.dtype) -> None:
    largest = float(torch.nan_to_num(exact.double(), 0, 0, 0).abs().max()) if exact.numel() else 0.0
    if dtype == F64:
        budget = 1e-10
    else:
        # Sums over many probabilities, in the float32 that everything is observed in, carry the rounding of each.
        loose = isinstance(question, (Entropy, Received, Segments))
        budget = (1e-4 if loose else 1e-5) + 4 * spacing(max(largest, 1.0), F32)
    within(found, exact, budget, name)


def _top(found: Any, want: Any, exact: Exact, question: Any, name: str, dtype: torch.dtype) -> None:
    """Values are those of the definition; the keys have these values, differ, and fewer is 0 and -1."""
    _close(found.values, want[0], question, name, dtype)
    fair = ~exact.p.isnan().any(-1)  # NaN has no order
    keys, wanted = found.indices[fair], want[1][fair]
    assert bool(((keys < 0) == (wanted < 0)).all()), f"{name}: -1 stands where a key is, or the other way round"
    padded = torch.nn.functional.pad(exact.p[fair], (0, 1))
    at = padded.gather(-1, torch.where(keys < 0, exact.size.S, keys))
    _close(at, want[0][fair], question, f"{name}, p of its keys", dtype)
    for row in keys.flatten(0, -2):
        real = row[row >= 0]
        assert len(real.unique()) == len(real), f"{name} names a key twice: {row.tolist()}"


# --- operands ----------------------------------------------------------------------------------------------------


def _tensors(call: Call) -> dict[str, Tensor]:
    """Every tensor of a call, by name."""
    held = call.leaves()
    mask, start = call.options.get("mask"), call.options.get("q_start")
    conditions = [] if mask is None else [("mask", x) for x in mask.tensors()]
    conditions += [(type(rule).__name__, x) for rule in call.options.get("scores", ()) for x in rule.conditions()]
    held |= {f"tensor {n} of {name}": x for n, (name, x) in enumerate(conditions)}
    return held | ({"q_start": start} if isinstance(start, Tensor) else {})


def _bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors agree in every bit but the kind of a NaN, the sign of a zero included."""
    if not one.is_floating_point():
        return torch.equal(one, other)
    fair = ~one.isnan()
    return bool((one.signbit() == other.signbit())[fair].all())


def _heads_inside(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _with_gaps(x: Tensor) -> Tensor:
    """Every second number of a tensor twice as wide; between them stands what must not be read."""
    wide = torch.full((*x.shape, 2), torch.nan, dtype=x.dtype, device="cpu")
    wide[..., 0] = x
    return wide[..., 0]


def _results(case: Case, dtype: torch.dtype, backend: Any) -> dict[str, Tensor]:
    call, leaves = case.make(dtype).fresh()
    got = call.run(backend)
    found = {"out": got.out.detach(), "lse": got.lse.detach()}
    if case.gradients:
        zero = torch.zeros(got.lse.shape, dtype=F64, device="cpu")
        mixture = (torch.ones(got.out.shape, dtype=F64, device="cpu"), zero)
        found |= {f"gradient of {n}": g for n, g in gradients(got.out, got.lse, leaves, mixture).items()}
    return found


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    try:
        if count is not None:
            torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)
