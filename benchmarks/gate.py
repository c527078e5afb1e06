"""No time without a right answer: what is about to be timed is compared with float64 first.

Ours must be within the budget of the conformance suite, ``headwise.testing.allowed``, on the rows and heads that are
compared: the first, middle and last rows of the first and the last group of heads. A peer must compute the same thing:
its answer may be as far as its dtype's rounding explains, or else its time says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from headwise import spec
from headwise.testing import CASES
from headwise.testing.budget import allowed, far, fused, three_op
from headwise.testing.calls import Call

__all__ = ["Expected", "WrongAnswer", "conformance", "expected", "judge", "same_answers", "same_work"]

ROWS = 32
#: How far a peer's answer may be from float64, relative to its norm; rounding p to bfloat16 alone is some 0.3 %.
SAME_WORK = {torch.float32: 1e-3, torch.bfloat16: 3e-2, torch.float16: 5e-3}

#: How far an answer of an observer may be from float64, of its largest number: sums over thousands of float32.
SAME_ANSWER = 1e-5


class WrongAnswer(AssertionError):
    """What was computed is not what was asked for, so its time is not reported."""


@dataclass(frozen=True)
class Part:
    """Some rows of some heads of a call."""

    rows: slice
    heads: list[int]
    call: Call

    def of(self, out: Tensor) -> Tensor:
        """The same part of a whole output [B, H, T, E]."""
        return out[:, self.heads, self.rows]


@dataclass(frozen=True)
class Expected:
    """Parts of an output in float64, and how far ours may be from any of them."""

    parts: list[tuple[Part, Tensor]]
    budget: float


def parts(call: Call) -> list[Part]:
    """What is compared of a call: all of a small one."""
    T = call.q.shape[2]
    if T <= 3 * ROWS:
        starts = {0: T}
    else:
        starts = dict.fromkeys((0, (T - ROWS) // 2, T - ROWS), ROWS)
    return [_part(call, slice(start, start + count)) for start, count in starts.items()]


def _part(call: Call, rows: slice) -> Part:
    (_, H, T, _), (_, Hk, S, _) = call.q.shape, call.k.shape
    kv = sorted({0, Hk - 1})
    heads = [h for n in kv for h in range(n * H // Hk, (n + 1) * H // Hk)]
    options = dict(call.options)
    if options.get("mask") is not None:
        options["mask"] = _rows_of(options["mask"], call, rows, heads)
    if "scores" in options:
        options["scores"] = tuple(rule.with_parameter(rule.parameter()[heads]) for rule in options["scores"])
    if rows != slice(0, T):
        options["q_start"] = S - T + rows.start
    return Part(rows, heads, Call(call.q[:, heads, rows], call.k[:, kv], call.v[:, kv], options))


def _rows_of(mask: Any, call: Call, rows: slice, heads: list[int]) -> Any:
    """A mask for some rows and heads of a call: positions come from q_start, most kinds are written out."""
    if isinstance(mask, spec.And):
        return spec.And(tuple(_rows_of(part, call, rows, heads) for part in mask.masks))
    if isinstance(mask, hw.Causal | hw.Window | hw.Padding):
        return mask
    (B, H, T, _), S = call.q.shape, call.k.shape[2]
    geometry = spec.Geometry(B, H, call.k.shape[1], T, S, 1, 1, S - T, call.q.device)
    cells = spec.Cells(geometry, slice(0, B), slice(0, H), rows, slice(0, S))
    return hw.Dense(mask.keep(cells).expand(cells.shape)[:, heads])


def expected(call: Call) -> Expected:
    """The output in float64 where it is compared, with the budget that torch's own forms set over all of it."""
    found = [(part, three_op(part.call.to(torch.float64))[0]) for part in parts(call)]
    exact = torch.cat([numbers.flatten() for _, numbers in found])
    forms = []
    for form in (lambda part: three_op(part)[0], fused):
        made = [form(part.call) for part, _ in found]
        if all(numbers is not None for numbers in made):
            forms.append(torch.cat([numbers.flatten() for numbers in made]))
    return Expected(found, allowed(exact, forms, call.q.dtype))


def judge(out: Tensor, truth: Expected) -> dict[str, float]:
    """The largest error of our output beside its budget; WrongAnswer where it is larger."""
    errors = [(part.rows, far(part.of(out), exact)) for part, exact in truth.parts]
    for rows, error in errors:
        if not error <= truth.budget:
            where = f"rows {rows.start} to {rows.stop - 1}"
            raise WrongAnswer(f"{where} are {error:.3g} from float64, {truth.budget:.3g} is allowed")
    return {"error": max(error for _, error in errors), "allowed": truth.budget}


def same_work(out: Tensor, truth: Expected, dtype: torch.dtype) -> str | None:
    """Why a peer's output is not that of the call; None where it is."""
    worst = max(float((part.of(out).double() - exact).norm() / exact.norm()) for part, exact in truth.parts)
    if worst <= SAME_WORK[dtype]:
        return None
    return f"its answer is {worst:.1%} from float64, so it does other work"


def same_answers(found: dict[str, Any], exact: dict[str, Any]) -> dict[str, float]:
    """Judges what observers said, by name, against the same questions in float64; WrongAnswer where one is far."""
    worst = {"error": 0.0, "allowed": 1.0}
    for name, value in exact.items():
        for field, truth in _tensors(value).items():
            ours = _tensors(found[name])[field]
            if truth.is_floating_point():
                error, budget = far(ours, truth), SAME_ANSWER * float(torch.nan_to_num(truth, 0, 0, 0).abs().max())
            else:  # which keys: near ties may change places
                error, budget = float((ours != truth).double().mean()), 0.01
            if not error <= budget:
                raise WrongAnswer(f"{name} {field} is {error:.3g} from float64, {budget:.3g} is allowed")
            if budget and error / budget > worst["error"] / worst["allowed"]:
                worst = {"error": error, "allowed": budget}
    return worst


def _tensors(value: Any) -> dict[str, Tensor]:
    return {"": value} if isinstance(value, Tensor) else value._asdict()


def conformance(dtypes: Sequence[torch.dtype] = (torch.float32, torch.bfloat16)) -> int:
    """Runs the shared cases on whatever backend is chosen; WrongAnswer at the first that is wrong.

    Returns:
        How many were right.
    """
    count = 0
    for name, case in CASES.items():
        for dtype in dtypes:
            call = case.make(dtype).finite()
            exact = three_op(call.to(torch.float64))[0]
            forms = [form for form in (fused(call), three_op(call)[0]) if form is not None]
            error, budget = far(_quiet(call.run).out, exact), allowed(exact, forms, dtype)
            if not error <= budget:
                raise WrongAnswer(f"case {name!r} in {dtype} is {error:.3g} from float64, {budget:.3g} is allowed")
            count += 1
    return count


def _quiet(run: Callable[[], Any]) -> Any:
    """That some cases reach the reference is no news here."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return run()
