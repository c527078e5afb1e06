"""From a plan to plain numbers: what the kernels cannot do, and the call they are handed for all else."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from headwise._native import MAX_RULES, MAX_WIDTH, Call
from headwise.backends.native.addresses import BIASES, DTYPES, NOTHING, Numbers, by_batch, contiguous, operand, plane
from headwise.backends.native.masks import MaskLowering, mask_refusal
from headwise.plan import Plan
from headwise.spec import Alibi, Bias, Geometry, GridBias, RelativeBias, SoftCap, T5Bias

__all__ = ["FEWER", "Lowered", "lower", "refusal"]

FEWER = 2**31  # queries and keys; their numbers are int32 in the kernels


class Lowered(NamedTuple):
    """A call, and the tensors whose memory it names: they must live as long as it does."""

    call: Call
    held: list[Tensor]


def refusal(plan: Plan) -> str | None:
    """Why the kernels cannot compute a plan exactly, as one sentence; None where they can."""
    g = plan.geometry
    if g.device.type != "cpu":
        return f"the operands live on {g.device}, and the kernels are for CPU"
    if plan.q.dtype not in DTYPES:
        return f"the operands are {plan.q.dtype}, and the kernels compute in float32"
    if max(g.D, g.E) > MAX_WIDTH:
        return f"a head is {max(g.D, g.E)} wide (D={g.D}, E={g.E}), and the kernels take widths up to {MAX_WIDTH}"
    if max(g.T, g.S) >= FEWER:
        return f"there are {max(g.T, g.S)} tokens (T={g.T}, S={g.S}), and the kernels number them below 2**31"
    return _not_plain(plan) or _rules_refusal(plan) or mask_refusal(plan)


def _not_plain(plan: Plan) -> str | None:
    """Tensors that are more than the numbers at their address."""
    for x in plan.tensors():
        if type(x).__torch_dispatch__ is not Tensor.__torch_dispatch__:
            return f"a {type(x).__name__} keeps its numbers where only its own class finds them"
        if forward_ad._current_level >= 0 and forward_ad.unpack_dual(x).tangent is not None:
            return "an operand carries a forward-mode tangent, and the kernels know derivatives backwards only"
    return None


def _rules_refusal(plan: Plan) -> str | None:
    rules = plan.spec.scores
    if len(rules) > MAX_RULES:
        return f"there are {len(rules)} score rules, and the kernels hold {MAX_RULES}"
    for rule in rules:
        if type(rule) not in (SoftCap, Alibi, RelativeBias, T5Bias, Bias, GridBias):
            return f"only Python knows what a {type(rule).__name__} makes of a score"
        if isinstance(rule, Bias) and rule.tensor.dtype not in DTYPES:
            return f"the Bias is {rule.tensor.dtype}, and a copy in float32 may be T x S; give it as float32"
    return None


def lower(plan: Plan, k_at: Numbers | None = None, v_at: Numbers | None = None) -> Lowered:
    """The call of a plan that was not refused and has no empty axis but E.

    Args:
        plan: the call.
        k_at, v_at: where keys and values lie that the plan has only blanks for.
    """
    g, spec = plan.geometry, plan.spec
    held: list[Tensor] = []
    q = operand(_plain(plan.q, held), "q", (g.B, g.H, g.T, g.D))
    k = k_at or operand(_plain(plan.k, held), "k", (g.B, g.Hk, g.S, g.D), plan.q.dtype)
    v = v_at or NOTHING
    if v_at is None and plan.v is not None and g.E:
        v = operand(_plain(plan.v, held), "v", (g.B, g.Hk, g.S, g.E), plan.q.dtype)
    starts = g.q_start.tolist() if isinstance(g.q_start, Tensor) else [g.q_start]
    heads = [] if spec.kv_heads is None else list(plan.kv_heads)
    call = Call(q, k, v, (g.B, g.H, g.Hk, g.T, g.S, g.D, g.E), plan.scale, starts, heads)
    for rule in plan.basic().spec.scores:
        if isinstance(rule, SoftCap):
            call.rule_soft_cap(float(rule.cap))
        elif isinstance(rule, Alibi):
            slopes = by_batch(_floats(rule.slopes, held), "slopes", g.B, (g.H,), torch.float32)
            call.rule_slopes(*slopes, 1)
            if rule.conditions():
                call.rule_slopes_at(*_places(rule, g, held))
        elif isinstance(rule, RelativeBias):
            table = _floats(rule.table, held)
            n = table.shape[1]
            call.rule_table(contiguous(table, "the table of relative biases", (g.H, n)), n, n, rule.zero)
        elif isinstance(rule, Bias):
            bias = _resolved(rule.tensor, held)
            call.rule_bias(*plane(bias, "the bias", (g.B, g.H, g.T, g.S), BIASES), DTYPES[bias.dtype])
    if spec.sinks is not None:
        call.sinks(contiguous(_floats(spec.sinks, held), "sinks", (g.H,)))
    if plan.seed is not None:
        call.dropout(plan.seed, round(spec.dropout * 2**32), 1 / (1 - spec.dropout))
    if spec.mask is not None:
        MaskLowering(call, g, held).write(spec.mask)
    return Lowered(call, held)


def _places(rule: Alibi, g: Geometry, held: list[Tensor]) -> tuple[int, int, int, int]:
    """Addresses and batch strides of where queries and keys stand, float64: exact for any whole number below 2**53."""
    queries, keys = rule.positions, rule.positions if rule.key_positions is None else rule.key_positions
    if queries is None:
        queries = g.positions(slice(0, g.B), slice(0, g.T))
    assert keys is not None
    queries, keys = (_resolved(at.double().contiguous(), held) for at in (queries, keys))
    places = by_batch(queries, "positions", g.B, (g.T,), torch.float64)
    return *places, *by_batch(keys, "positions of keys", g.B, (g.S,), torch.float64)


def _resolved(x: Tensor, held: list[Tensor]) -> Tensor:
    """A tensor whose numbers are those at its address: of some torch only remembers that they are negated, or zeros."""
    x = torch.zeros_like(x) if x._is_zerotensor() else x.resolve_neg()
    held.append(x)
    return x


def _plain(x: Tensor, held: list[Tensor]) -> Tensor:
    """An operand with a contiguous last axis; copied where it has none."""
    return _resolved(x if x.stride(-1) == 1 or x.shape[-1] == 1 else x.contiguous(), held)


def _floats(x: Tensor, held: list[Tensor]) -> Tensor:
    """A small parameter in float32, contiguous."""
    return _resolved(x.float().contiguous(), held)
