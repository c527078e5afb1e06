"""The first derivatives of a plan by the kernels: which gradients there are to write, in plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.backends.native.addresses import NOTHING, Numbers, Strides4, by_batch, contiguous, operand, plane
from headwise.backends.native.lowering import lower
from headwise.backends.protocol import Result, Tangents
from headwise.plan import Plan
from headwise.spec import Alibi, Bias

__all__ = ["tangents"]

NOT_WANTED = (0, (0, 0, 0, 0))  # of a rule that has no tensor, or whose tensor asks for no gradient


def tangents(
    plan: Plan, result: Result, grad_out: Tensor | None, grad_lse: Tensor | None, needs: Sequence[bool]
) -> Tangents:
    """Gradients of one call from the facts of its rows; ``needs`` is for q, k, v and the plan's parameters in order."""
    g = plan.geometry
    assert plan.v is not None and result.facts is not None
    q, k, v = (_blank(x) if need else None for x, need in zip((plan.q, plan.k, plan.v), needs[:3], strict=True))
    basic = plan.basic()
    # The kernels add to these, and sum in float64 what they do not add in place.
    sums = [
        torch.zeros(p.shape, dtype=torch.float32, device=p.device) if need else None
        for p, need in zip(basic.parameters, needs[3:], strict=True)
    ]
    if 0 in (g.B, g.H, g.T, g.S) or not any(needs):
        for x in (q, k, v):
            if x is not None:
                x.zero_()
        return _finished(plan, q, k, v, sums)
    size = (g.B, g.H, g.T, g.E)
    facts = [fact.contiguous() for fact in result.facts]
    max_logit, peak, log_total = (contiguous(fact, "a fact of the rows", size[:3]) for fact in facts)
    if grad_out is not None:  # of a sum it is one number, expanded
        grad_out = grad_out if grad_out.stride(-1) == 1 or g.E == 1 else grad_out.contiguous()
        grad_out = grad_out.to(result.out.dtype).resolve_neg()
    if grad_lse is not None:
        grad_lse = grad_lse.float().resolve_neg().contiguous()
    lowered = lower(basic)
    lowered.call.backward(
        operand(result.out, "out", size, plan.q.dtype),
        (max_logit, peak, log_total, 0, 0),
        NOTHING if grad_out is None or g.E == 0 else operand(grad_out, "the gradient of out", size, plan.q.dtype),
        0 if grad_lse is None else contiguous(grad_lse, "the gradient of lse", size[:3]),
        (_into(q, plan.q, "q"), _into(k, plan.k, "k"), _into(v, plan.v, "v")),
        _rules(basic, sums),
        0 if plan.spec.sinks is None or sums[-1] is None else contiguous(sums[-1], "the gradient of sinks", (g.H,)),
        torch.get_num_threads(),
    )
    return _finished(plan, q, k, v, sums)


def _blank(x: Tensor) -> Tensor:
    """A gradient to be written, laid out as its operand where that has a contiguous last axis."""
    like = torch.empty_like(x)
    return like if like.stride(-1) == 1 or x.shape[-1] == 1 else torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _into(gradient: Tensor | None, x: Tensor, name: str) -> Numbers:
    if gradient is None or gradient.numel() == 0:
        return NOTHING
    B, H, n, width = x.shape
    return operand(gradient, f"the gradient of {name}", (B, H, n, width), x.dtype)


def _rules(plan: Plan, sums: Sequence[Tensor | None]) -> list[tuple[int, Strides4]]:
    """Address and strides of the gradient of each rule's tensor; an axis along which that broadcasts has stride 0."""
    g, left, found = plan.geometry, list(sums), []
    for rule in plan.spec.scores:
        into = left.pop(0) if rule.parameter() is not None else None
        if into is None:
            found.append(NOT_WANTED)
        elif isinstance(rule, Bias):
            found.append(plane(into, "the gradient of a bias", (g.B, g.H, g.T, g.S), (torch.float32,)))
        elif isinstance(rule, Alibi):  # [H] or [B, H]
            address, batch = by_batch(into, "the gradient of slopes", g.B, (g.H,), torch.float32)
            found.append((address, (batch, 1, 0, 0)))
        else:  # a table [H, R]
            address = contiguous(into, "the gradient of a table", (g.H, into.shape[1]))
            found.append((address, (0, into.shape[1], 0, 0)))
    return found


def _finished(
    plan: Plan, q: Tensor | None, k: Tensor | None, v: Tensor | None, sums: Sequence[Tensor | None]
) -> Tangents:
    pulls = [rule.pull_basic for rule in plan.spec.scores if rule.parameter() is not None]
    mine = [None if x is None else pull(x) for pull, x in zip(pulls, sums, strict=False)] + list(sums[len(pulls) :])
    rest = [None if x is None else x.to(p.dtype) for x, p in zip(mine, plan.parameters, strict=True)]
    return Tangents(q, k, v, rest)
