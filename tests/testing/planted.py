"""Backends with a fault each, for the checks to find: the blocked backend, told something else or changed behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from headwise.backends import Blocked, Result, Tangents
from headwise.plan import Plan


class Planted:
    """The blocked backend with a fault in its forward pass, in its backward pass, or in what it refuses."""

    def __init__(
        self,
        before: Callable[[Plan], Plan] = lambda plan: plan,
        after: Callable[[Plan, Result], Result] = lambda plan, result: result,
        grads: Callable[[Tangents], Tangents] = lambda found: found,
        refuses: Callable[[Plan], str | None] = lambda plan: None,
    ) -> None:
        self.name = "planted"
        self.before, self.after, self.grads, self.refuses = before, after, grads, refuses

    def refuse(self, plan: Plan) -> str | None:
        reason = self.refuses(plan)
        return Blocked().refuse(plan) if reason is None else reason

    def forward(self, plan: Plan) -> Result:
        return self.after(plan, Blocked().forward(self.before(plan)))

    def backward(
        self, plan: Plan, result: Result, grad_out: Tensor | None, grad_lse: Tensor | None, needs: Sequence[bool]
    ) -> Tangents:
        return self.grads(Blocked().backward(self.before(plan), result, grad_out, grad_lse, needs))


def _with_mask(plan: Plan, mask: Any) -> Plan:
    return replace(plan, spec=replace(plan.spec, mask=mask))


def _top_left(plan: Plan) -> Plan:
    return _with_mask(plan, hw.Causal(align="start")) if isinstance(plan.spec.mask, hw.Causal) else plan


def _leaking(plan: Plan, result: Result) -> Result:
    """What 0 * NaN does to a product that is not told what is hidden."""
    assert plan.v is not None
    heads = (0 * plan.v.sum(2, keepdim=True))[:, list(plan.kv_heads)]
    return replace(result, out=result.out + heads)


def _written(plan: Plan) -> Plan:
    plan.q.mul_(2)
    return replace(plan, scale=plan.scale / 2)


_calls = [0]


def _another_each_time(plan: Plan, result: Result) -> Result:
    _calls[0] += 1
    eps = torch.finfo(result.out.dtype).eps
    return replace(result, out=result.out * (1 + eps * (_calls[0] % 3)))


def _packed(x: Tensor) -> Tensor:
    """The numbers as if they lay one behind the other, whatever their strides are."""
    return x.as_strided(x.shape, torch.empty(x.shape).stride())


right = Planted()
wrong_scale = Planted(before=lambda plan: replace(plan, scale=plan.scale * 1.01))
ignored_mask = Planted(before=lambda plan: _with_mask(plan, None))
top_left = Planted(before=_top_left)
leaking = Planted(after=_leaking)
writing = Planted(before=_written)
restless = Planted(after=_another_each_time)
strideless = Planted(before=lambda plan: replace(plan, q=_packed(plan.q), k=_packed(plan.k)))
wrong_lse = Planted(after=lambda plan, result: replace(result, lse=result.lse / 0.6931471805599453))
wrong_gradient = Planted(grads=lambda found: found._replace(k=None if found.k is None else 1.001 * found.k))
silent = Planted(refuses=lambda plan: "" if plan.spec.sinks is not None else None)
refusing = Planted(refuses=lambda plan: "it does nothing")


class Raising(Planted):
    """Some kernels raise where they should refuse."""

    def forward(self, plan: Plan) -> Result:
        raise RuntimeError("illegal instruction\nsecond line")
