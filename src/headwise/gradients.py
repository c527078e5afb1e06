"""A plan computed by its backend, as one node in autograd's graph: its first and its second derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headwise.backends import Backend, Blocked, Reference, Result, RowFacts, Tangents
from headwise.plan import Plan
from headwise.products import as_given, may_be_extreme

__all__ = ["computed", "detached", "first_derivatives", "needed", "second_derivatives"]


def computed(plan: Plan, backend: Backend) -> tuple[Tensor, Tensor, Result]:
    """Output (before the gate) and lse in autograd's graph, and the backend's result."""
    assert plan.v is not None
    if isinstance(backend, Reference):
        result = backend.forward(plan)  # plain torch: autograd needs no help
        return result.out, result.lse, result
    tensors = (plan.q, plan.k, plan.v, *plan.parameters)
    if torch.is_grad_enabled() and any(x.requires_grad for x in tensors):
        box: list[Result] = []
        out, lse = _Differentiable.apply(plan, backend, box, *tensors)
        return out, lse, box[0]
    with torch.no_grad():
        result = backend.forward(plan)
    return result.out, result.lse, result


def detached(plan: Plan) -> Plan:
    """The plan over the same numbers without their graph."""
    v = None if plan.v is None else plan.v.detach()
    return plan.rebind(plan.q.detach(), plan.k.detach(), v, [p.detach() for p in plan.parameters])


class _Differentiable(torch.autograd.Function):
    """Forward and backward of a backend."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, backend: Backend, box: list[Result], *tensors: Tensor) -> tuple[Tensor, Tensor]:
        bare = detached(plan)
        result = backend.forward(bare)
        box.append(result)
        # Only what torch saves may hold the operands: then checkpointing and its hooks free them.
        ctx.plan, ctx.backend = bare.hollow(), backend
        ctx.has_facts = result.facts is not None
        # The mask's tensors ride along so that torch notices when one is overwritten before backward reads it again.
        ctx.save_for_backward(*tensors, result.out, result.lse, *(result.facts or ()), *_watched(bare))
        ctx.set_materialize_grads(False)
        return result.out, result.lse

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        grad_out, grad_lse = grads
        needs = ctx.needs_input_grad[3:]
        if grad_out is None and grad_lse is None:
            return (None,) * (3 + len(needs))
        saved = ctx.saved_tensors
        tensors, rest = saved[: len(needs)], [x.detach() for x in saved[len(needs) :]]
        result = Result(rest[0], rest[1], RowFacts(*rest[2:5]) if ctx.has_facts else None)
        if torch.is_grad_enabled():
            found = iter(_Gradient.apply(ctx.plan, ctx.backend, result, needs, grad_out, grad_lse, *tensors))
            return (None, None, None, *(next(found) if need else None for need in needs))
        plan = ctx.plan.rebind(tensors[0], tensors[1], tensors[2], tensors[3:])
        tangents = first_derivatives(detached(plan), ctx.backend, result, grad_out, grad_lse, needs)
        return (None, None, None, tangents.q, tangents.k, tangents.v, *tangents.parameters)


class _Gradient(torch.autograd.Function):
    """The first derivatives, where somebody may want to differentiate them again."""

    @staticmethod
    def forward(
        ctx: Any,
        hollow: Plan,
        backend: Backend,
        result: Result,
        needs: Sequence[bool],
        grad_out: Tensor | None,
        grad_lse: Tensor | None,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        ctx.plan, ctx.needs = hollow, needs
        ctx.save_for_backward(grad_out, grad_lse, *tensors, *_watched(hollow))
        plan = hollow.rebind(tensors[0], tensors[1], tensors[2], tensors[3:])
        tangents = first_derivatives(detached(plan), backend, result, grad_out, grad_lse, needs)
        return needed(tangents, tensors, needs)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Any, ...]:
        grad_out, grad_lse, *rest = ctx.saved_tensors
        tensors = rest[: len(ctx.needs)]
        plan = ctx.plan.rebind(tensors[0], tensors[1], tensors[2], tensors[3:])
        found = second_derivatives(plan, grad_out, grad_lse, ctx.needs, cotangents)
        return (None, None, None, None, *found)


def _watched(plan: Plan) -> list[Tensor]:
    """The mask's tensors that count their versions; those made in inference mode do not, and cannot be saved."""
    return [tensor for tensor in plan.conditions() if not tensor.is_inference()]


def needed(tangents: Tangents, operands: Sequence[Tensor], needs: Sequence[bool]) -> tuple[Tensor, ...]:
    """The gradients that were asked for, in the order of ``needs``; 0 where an operand reaches no output."""
    grads = (tangents.q, tangents.k, tangents.v, *tangents.parameters)
    found = zip(grads, operands, needs, strict=True)
    return tuple(torch.zeros_like(x) if grad is None else grad for grad, x, need in found if need)


def first_derivatives(
    plan: Plan,
    backend: Backend,
    result: Result,
    grad_out: Tensor | None,
    grad_lse: Tensor | None,
    needs: Sequence[bool],
) -> Tangents:
    """Derivatives of out and lse by q, k, v and the plan's parameters, as the backend's tiles give them."""
    assert plan.v is not None
    with as_given(plan.geometry.device), torch.no_grad():
        if result.facts is None and (grad_lse is not None or grad_out is None or may_be_extreme(plan.v, grad_out, 1.0)):
            backend = Blocked()
            result = backend.forward(plan)
        return backend.backward(plan, result, grad_out, grad_lse, needs)


def second_derivatives(
    plan: Plan,
    grad_out: Tensor | None,
    grad_lse: Tensor | None,
    needs: Sequence[bool],
    cotangents: Sequence[Tensor],
) -> tuple[Tensor | None, ...]:
    """Derivatives of the first derivatives by grad_out, grad_lse, q, k, v and the plan's parameters.

    The reference's graph is made again and differentiated twice. Each operand is a variable of its own in it, so where
    one is made from another, or is the same tensor, no path between them is counted twice.
    """
    assert plan.v is not None
    vjp: Any = torch.func.vjp

    def outputs(*operands: Tensor) -> tuple[Tensor, Tensor]:
        result = Reference().forward(plan.rebind(operands[0], operands[1], operands[2], operands[3:]))
        return result.out, result.lse

    def gradients(*variables: Tensor) -> tuple[Tensor, ...]:
        given = iter(variables)
        grads = [None if grad is None else next(given) for grad in (grad_out, grad_lse)]
        made, pull = vjp(outputs, *given)
        found = pull(
            tuple(torch.zeros_like(y) if g is None else g.to(y.dtype) for y, g in zip(made, grads, strict=True))
        )
        return tuple(grad for grad, need in zip(found, needs, strict=True) if need)

    given = [grad for grad in (grad_out, grad_lse) if grad is not None]
    with as_given(plan.geometry.device):
        _, pull = vjp(gradients, *given, plan.q, plan.k, plan.v, *plan.parameters)
        found = iter(pull(tuple(cotangents)))
    return (*(None if grad is None else next(found) for grad in (grad_out, grad_lse)), *found)
