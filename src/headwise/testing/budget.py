"""How far a float result may be from the exact one: measured on torch itself, on the same input.

The budget of a result is ``2 * E + u``. E is the larger error, against float64, of torch's fused op and of the same
thing written as three torch ops; u is one unit of rounding of the dtype at the largest number of the exact result.
Without u a good result fails by chance: where torch happens to be lucky, E is smaller than one rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headwise.plan import Plan, make_plan
from headwise.products import finite_part
from headwise.spec import AttentionSpec, ScoreRule, SoftCap
from headwise.spec.dropout import kept
from headwise.testing.cases import Call

__all__ = ["allowed", "far", "fused", "spacing", "three_op", "within"]


def spacing(largest: float, dtype: torch.dtype) -> float:
    """Distance between neighbouring floats of a dtype at the size of ``largest``.

    Example:
        >>> import torch
        >>> from headwise.testing import spacing
        >>> spacing(3.0, torch.float32) == 2 * torch.finfo(torch.float32).eps
        True
    """
    info = torch.finfo(dtype)
    if largest <= info.tiny:
        return float(info.smallest_normal) * float(info.eps)
    return float(info.eps) * 2.0 ** math.floor(math.log2(largest))


def far(found: Tensor, exact: Tensor) -> float:
    """The largest distance between two results; inf where one is NaN or infinite and the other is not the same.

    Example:
        >>> import torch
        >>> from headwise.testing import far
        >>> far(torch.tensor([1.0, float("nan")]), torch.tensor([1.5, float("nan")]))
        0.5
        >>> far(torch.tensor([1.0, float("nan")]), torch.tensor([1.0, 2.0]))
        inf
    """
    if found.shape != exact.shape:
        raise AssertionError(f"the result is {list(found.shape)}, it should be {list(exact.shape)}")
    found, exact = found.detach().double(), exact.detach().double()
    if exact.numel() == 0:
        return 0.0
    same = (found == exact) | (found.isnan() & exact.isnan())
    distance = torch.where(same, 0.0, (found - exact).abs())
    return float(torch.where(distance.isnan(), math.inf, distance).max())


def allowed(exact: Tensor, forms: Sequence[Tensor], dtype: torch.dtype) -> float:
    """The budget ``2 * E + u`` of one result.

    Args:
        exact: the result in float64.
        forms: the same result by torch's own forms in ``dtype``; numbers that are not finite (torch's NaN of an empty
            row) say nothing about rounding and are left out.
        dtype: of the result that will be judged.
    """
    exact = exact.detach().double()
    error = 0.0
    for form in forms:
        wide = form.detach().double()
        fair = torch.isfinite(wide) & torch.isfinite(exact)
        error = max(error, far(torch.where(fair, wide, 0.0), torch.where(fair, exact, 0.0)))
    finite = finite_part(exact).abs()
    largest = float(finite.max()) if finite.numel() else 0.0
    return 2 * error + spacing(largest, dtype)


def within(found: Tensor, exact: Tensor, budget: float, what: str) -> None:
    """Raises AssertionError where a result is further from the exact one than its budget, and says where first.

    Example:
        >>> import torch
        >>> from headwise.testing import within
        >>> within(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]), 0.1, "out")
        Traceback (most recent call last):
        AssertionError: out: 0.5 from the exact numbers, 0.1 is allowed; at [1] it is 2.5, it should be 2
    """
    distance = far(found, exact)
    if distance <= budget:
        return
    mine, other = found.detach().double(), exact.detach().double()
    bad = ~((mine == other) | (mine.isnan() & other.isnan()) | ((mine - other).abs() <= budget))
    at = tuple(bad.nonzero()[0].tolist())
    where = f"at {list(at)} it is {float(mine[at]):.6g}, it should be {float(other[at]):.6g}"
    raise AssertionError(f"{what}: {distance:.3g} from the exact numbers, {budget:.3g} is allowed; {where}")


def _plan(call: Call, seed: int) -> Plan:
    torch.manual_seed(seed)
    return make_plan("three_op", call.q, call.k, call.v, AttentionSpec(**call.options))


def _per_head(plan: Plan, x: Tensor) -> Tensor:
    return x[:, list(plan.kv_heads)]


def _scores(plan: Plan, q: Tensor, k: Tensor) -> Tensor:
    """Scores in the operands' own dtype, mask and rules written out, -inf where hidden."""
    cells = plan.geometry.whole()
    score, hidden, _ = plan.apply_rules(q @ _per_head(plan, k).mT * plan.scale, cells)
    if plan.spec.mask is not None:
        score = score.masked_fill(~plan.spec.mask.keep(cells), -math.inf)
    return score if hidden is None else score.masked_fill(hidden, -math.inf)


def _finish(plan: Plan, out: Tensor) -> Tensor:
    gate = plan.spec.gate
    return out if gate is None else out * (gate[..., None, None] if gate.dim() < 3 else gate[..., None])


class _AsFused(torch.autograd.Function):
    """Softmax and product, whose backward is that of fused kernels: each row is measured against ``sum(dO * O)``."""

    @staticmethod
    def forward(ctx: Any, score: Tensor, factor: Tensor, v: Tensor) -> Tensor:
        """Score [..., T, S or S + 1], factor of dropout [..., T, S], v [..., S, E]."""
        p = score.softmax(-1)
        out = (p[..., : v.shape[-2]] * factor) @ v
        ctx.save_for_backward(p, factor, v, out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        p, factor, v, out = ctx.saved_tensors
        (grad,) = grads
        grad_p = torch.nn.functional.pad((grad @ v.mT) * factor, (0, p.shape[-1] - v.shape[-2]))
        score = p * (grad_p - (grad * out).sum(-1, keepdim=True))
        return score, None, (p[..., : v.shape[-2]] * factor).mT @ grad


def three_op(call: Call, seed: int = 5, *, as_fused: bool = False) -> tuple[Tensor, Tensor]:
    """Product, softmax, product in the operands' own dtype, with every option written out; differentiable.

    Args:
        call: NaN and inf in its operands count as 0.
        seed: as of ``Call.run``.
        as_fused: differentiate as fused kernels do. torch's own say few of the options.

    Returns:
        out [B, H, T, E] and lse [B, H, T].
    """
    call = call.finite()
    plan = _plan(call, seed)
    score = _scores(plan, call.q, call.k)
    dead = (score == -math.inf).all(-1, keepdim=True)
    score = score.masked_fill(dead, 0.0)
    if plan.spec.sinks is not None:
        sink = plan.spec.sinks.to(score.dtype)[:, None, None].expand(*score.shape[:-1], 1)
        score = torch.cat([score, sink], -1)
    factor = (~dead).to(score.dtype).expand(*score.shape[:-1], plan.geometry.S)
    if plan.seed is not None:
        factor = factor * kept(plan.seed, plan.spec.dropout, plan.geometry.whole()) / (1 - plan.spec.dropout)
    lse = torch.logsumexp(score, -1).masked_fill(dead[..., 0], -math.inf)
    v = _per_head(plan, call.v)
    if as_fused:
        out: Tensor = _AsFused.apply(score, factor, v)
        return _finish(plan, out), lse
    return _finish(plan, (score.softmax(-1)[..., : plan.geometry.S] * factor) @ v), lse


def fused(call: Call) -> Tensor | None:
    """Torch's ``scaled_dot_product_attention`` with mask and biases written out; None where it cannot say the call."""
    options = call.options
    cannot = any(isinstance(rule, (SoftCap, ScoreRule)) for rule in options.get("scores", ()))
    if cannot or options.get("sinks") is not None or options.get("dropout") or 0 in (*call.q.shape, *call.v.shape):
        return None
    call = call.finite()
    plan = _plan(call, 0)
    # Scores of q = 0 are what mask and biases alone amount to: 0, a bias, or -inf.
    added = _scores(plan, torch.zeros_like(call.q), torch.zeros_like(call.k))
    k, v = (_per_head(plan, x) for x in (call.k, call.v))
    out = torch.nn.functional.scaled_dot_product_attention(call.q, k, v, attn_mask=added, scale=plan.scale)
    return _finish(plan, out)
