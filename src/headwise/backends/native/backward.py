"""The first derivatives of a plan by the kernels: which gradients there are to write, in plain numbers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.backends.native.lowering import NOTHING, lower, numbers
from headwise.backends.native.masks import four
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
        torch.zeros(p.shape, dtype=torch.float32) if need else None
        for p, need in zip(basic.parameters, needs[3:], strict=True)
    ]
    if 0 in (g.B, g.H, g.T, g.S) or not any(needs):
        for x in (q, k, v):
            if x is not None:
                x.zero_()
        return _finished(plan, q, k, v, sums)
    facts = [fact.contiguous() for fact in result.facts]
    if grad_out is not None:  # of a sum it is one number, expanded
        grad_out = grad_out if grad_out.stride(-1) == 1 or g.E == 1 else grad_out.contiguous()
        grad_out = grad_out.to(result.out.dtype).resolve_neg()
    if grad_lse is not None:
        grad_lse = grad_lse.float().resolve_neg().contiguous()
    lowered = lower(basic)
    lowered.call.backward(
        numbers(result.out),
        (facts[0].data_ptr(), facts[1].data_ptr(), facts[2].data_ptr(), 0, 0),
        NOTHING if grad_out is None or g.E == 0 else numbers(grad_out),
        0 if grad_lse is None else grad_lse.data_ptr(),
        (_into(q), _into(k), _into(v)),
        _rules(basic, sums),
        0 if plan.spec.sinks is None or sums[-1] is None else sums[-1].data_ptr(),
        torch.get_num_threads(),
    )
    return _finished(plan, q, k, v, sums)


def _blank(x: Tensor) -> Tensor:
    """A gradient to be written, laid out as its operand where that has a contiguous last axis."""
    like = torch.empty_like(x)
    return like if like.stride(-1) == 1 or x.shape[-1] == 1 else torch.empty(x.shape, dtype=x.dtype)


def _into(gradient: Tensor | None) -> tuple[int, int, int, int, int]:
    return NOTHING if gradient is None or gradient.numel() == 0 else numbers(gradient)


def _rules(plan: Plan, sums: Sequence[Tensor | None]) -> list[tuple[int, tuple[int, int, int, int]]]:
    """Address and strides of the gradient of each rule's tensor; an axis along which that broadcasts has stride 0."""
    g, left, found = plan.geometry, list(sums), []
    for rule in plan.spec.scores:
        into = left.pop(0) if rule.parameter() is not None else None
        if into is None:
            found.append(NOT_WANTED)
        elif isinstance(rule, Bias):
            found.append((into.data_ptr(), four(into.expand(g.B, g.H, g.T, g.S).stride())))
        elif isinstance(rule, Alibi):  # [H] or [B, H]
            found.append((into.data_ptr(), (into.stride(0) if into.dim() == 2 else 0, 1, 0, 0)))
        else:  # a table [H, R]
            found.append((into.data_ptr(), (0, into.stride(0), 0, 0)))
    return found


def _finished(
    plan: Plan, q: Tensor | None, k: Tensor | None, v: Tensor | None, sums: Sequence[Tensor | None]
) -> Tangents:
    pulls = [rule.pull_basic for rule in plan.spec.scores if rule.parameter() is not None]
    mine = [None if x is None else pull(x) for pull, x in zip(pulls, sums, strict=False)] + list(sums[len(pulls) :])
    rest = [None if x is None else x.to(p.dtype) for x, p in zip(mine, plan.parameters, strict=True)]
    return Tangents(q, k, v, rest)
