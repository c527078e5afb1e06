"""The native CPU kernels: every mask, rule and option that is no function of Python, in one pass over tiles.

`lowering.py` and `masks.py` put a plan into plain numbers; the kernels themselves are C++ under native/, compiled for
several instruction sets. The best that this processor has is chosen once, or the one that HEADWISE_ISA names.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

import headwise._native as kernels
from headwise.backends.native.addresses import DTYPES, contiguous, operand
from headwise.backends.native.answers import Found, begun, sweep, whole
from headwise.backends.native.backward import tangents
from headwise.backends.native.classes import classes
from headwise.backends.native.lowering import FEWER, lower, refusal
from headwise.backends.native.storing import stored
from headwise.backends.native.turning import turn
from headwise.backends.protocol import Result, RowFacts, Tangents
from headwise.observers import Accumulator, Entropy
from headwise.plan import Plan
from headwise.spec.checks import FAR

__all__ = ["Native", "quick", "running", "stored", "turn"]

INF = float("inf")
_ISA = kernels.isa()  # "" where HEADWISE_ISA names one that is not there


class Native:
    """The C++ kernels: float32, bfloat16 and float16 on CPU, memory O(T) beyond the operands."""

    name = "native"

    def refuse(self, plan: Plan) -> str | None:
        """What the kernels do not hold: float64, functions of Python, very wide heads."""
        if not _ISA:
            there = ", ".join(name for name, has in kernels.isas() if has)
            return f"HEADWISE_ISA is {os.environ.get('HEADWISE_ISA')!r}, and this build and processor share {there}"
        return refusal(plan)

    def forward(self, plan: Plan) -> Result:
        """Output and row facts; the entropy of the rows and answers too where somebody asks for them."""
        g = plan.geometry
        out = _blank_out(plan.q, g.B, g.H, g.T, g.E)
        asked = any(isinstance(observer, Entropy) for observer in plan.observers.values())
        rows = [plan.q.new_empty((g.B, g.H, g.T), dtype=torch.float32) for _ in range(5 if asked else 4)]
        found: dict[str, Accumulator] = {}
        if 0 in (g.B, g.H, g.T, g.S):
            return Result(out.zero_(), *_empty_rows(plan), entropy=rows[4].zero_() if asked else None)
        if cut := classes(plan):
            return self._of_classes(plan, cut)
        if found := begun(plan):
            here = Found(rows[0], rows[1], rows[2], rows[3], rows[4] if asked else None)
            sweep(plan, whole(plan), here, False, out, list(found.values()))
        else:
            lowered = lower(plan)
            size = (g.B, g.H, g.T)
            max_logit, peak, log_total, lse, *entropy = (contiguous(x, "a fact of the rows", size) for x in rows)
            facts = (max_logit, peak, log_total, lse, entropy[0] if entropy else 0)
            at = operand(out, "out", (*size, g.E), plan.q.dtype)
            lowered.call.forward(at, facts, torch.get_num_threads())
        answers = {name: accumulator.result() for name, accumulator in found.items()}
        return Result(out, rows[3], RowFacts(*rows[:3]), rows[4] if asked else None, answers)

    def _of_classes(self, plan: Plan, cut: list[tuple[slice, Plan]]) -> Result:
        """The rows of each class in their places; the others are empty."""
        g = plan.geometry
        out = _blank_out(plan.q, g.B, g.H, g.T, g.E).zero_()
        empty = Result(out, *_empty_rows(plan))
        for at, part in cut:
            found = self.forward(part)
            assert found.facts is not None
            assert empty.facts is not None
            places = (out, empty.lse, *empty.facts)
            for place, rows in zip(places, (found.out, found.lse, *found.facts), strict=True):
                place[:, :, at] = rows
        return empty

    def backward(
        self, plan: Plan, result: Result, grad_out: Tensor | None, grad_lse: Tensor | None, needs: Sequence[bool]
    ) -> Tangents:
        """First derivatives, every tile made again from the facts of its rows."""
        return tangents(plan, result, grad_out, grad_lse, needs)


def quick(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None,
    before: int | None,
    after: int | None,
    q_start: int | None,
) -> Tensor | None:
    """The output of a call without tensors in its options, for calls so small that planning them would be the work.

    Args:
        q, k, v: plain tensors (no subclass) of which no gradient is asked, and no mode of torch's is there that makes
            tensors otherwise; nothing else about them is checked yet.
        scale: factor on q.k; None = 1/sqrt(D).
        before, after: the mask as a window; None = no limit. Causal is (None, 0).
        q_start: position of query 0; None = S - T.

    Returns:
        [B, H, T, E], heads side by side in memory; None where the call has to go the long way, which finds out why.
    """
    kind = DTYPES.get(q.dtype)
    if kind is None or k.dtype != q.dtype or v.dtype != q.dtype or not (q.is_cpu and k.is_cpu and v.is_cpu):
        return None
    try:
        (B, H, T, D), (Bk, Hk, S, Dk), (Bv, Hv, Sv, E) = q.shape, k.shape, v.shape
        (q0, q1, q2, q3), (k0, k1, k2, k3), (v0, v1, v2, v3) = q.stride(), k.stride(), v.stride()
    except (ValueError, RuntimeError):  # other numbers of axes; no strides at all
        return None
    fits = (B, Hk, S, D) == (Bk, Hv, Sv, Dk) and Bk == Bv and q3 == k3 == v3 == 1
    if not fits or not B * H * Hk * T * S * D * E or H % Hk or max(D, E) > kernels.MAX_WIDTH or max(T, S) >= FEWER:
        return None
    start = S - T if q_start is None else q_start
    scale = 1.0 / math.sqrt(D) if scale is None else scale
    if type(scale) is not float or not math.isfinite(scale) or abs(start) > FAR or not _ISA:
        return None
    if q.is_neg() or k.is_neg() or v.is_neg() or forward_ad._current_level >= 0:
        return None
    addresses = q.data_ptr(), k.data_ptr(), v.data_ptr()
    if 0 in addresses:  # zeros that torch has no memory for
        return None
    out = _blank_out(q, B, H, T, E)
    call = kernels.Call(
        (addresses[0], q0, q1, q2, kind),
        (addresses[1], k0, k1, k2, kind),
        (addresses[2], v0, v1, v2, kind),
        (B, H, Hk, T, S, D, E),
        scale,
        [start],
        [],
    )
    if before is not None or after is not None:
        call.band(before, after)
    call.forward((out.data_ptr(), T * H * E, E, H * E, kind), (0, 0, 0, 0, 0), torch.get_num_threads())
    return out


def running() -> str:
    """Which kernels run in this process, on how many threads of whose: "avx2 kernels on 2 threads of libgomp"."""
    return f"{_ISA} kernels on {torch.get_num_threads()} threads of {kernels.thread_runtime()}"


def _empty_rows(plan: Plan) -> tuple[Tensor, RowFacts]:
    """Log-sum-exp and facts of rows that see no key."""
    g = plan.geometry
    lse, max_logit, peak, log_total = plan.q.new_zeros((4, g.B, g.H, g.T), dtype=torch.float32)
    return lse.fill_(-INF), RowFacts(max_logit.fill_(-INF), peak, log_total)


def _blank_out(like: Tensor, B: int, H: int, T: int, E: int) -> Tensor:
    """An output to be written, its heads side by side as an output projection reads them."""
    return like.new_empty_strided((B, H, T, E), (T * H * E, E, H * E, 1))
