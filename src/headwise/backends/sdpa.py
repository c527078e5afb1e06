"""torch's fused CPU kernel, where it computes exactly the plan and never forms the T x S pattern."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.backends.protocol import Result, Tangents
from headwise.plan import Plan
from headwise.products import all_finite, may_be_extreme
from headwise.spec.pieces import Piece

__all__ = ["Sdpa"]

_OP = "_scaled_dot_product_flash_attention_for_cpu"


class Sdpa:
    """The kernel behind ``torch.nn.functional.scaled_dot_product_attention`` on CPU, called by its own name.

    Called so, it cannot silently become torch's unfused form, which allocates T x S. A mask is honoured where it leaves
    each batch row one rectangle or one triangle of cells (no mask, causal, left or right padding, a decoding step);
    the call is then made on slices, without any mask tensor.
    """

    name = "sdpa"

    def refuse(self, plan: Plan) -> str | None:
        """Every reason why torch's kernel would not run, or would not be exact."""
        spec, g = plan.spec, plan.geometry
        if g.device.type != "cpu":
            return f"the operands live on {g.device}, and the kernel is torch's for CPU"
        if not hasattr(torch.ops.aten, _OP):
            return f"torch {torch.__version__} has no fused attention kernel for CPU"
        if spec.scores:
            return f"torch's kernel cannot do {type(spec.scores[0]).__name__} without a T x S bias"
        if spec.sinks is not None:
            return "torch's kernel has no sinks"
        if spec.dropout > 0:
            return "with dropout torch leaves its fused kernel and forms T x S"
        if g.E != g.D:
            return f"the value width E={g.E} differs from the key width D={g.D}, which torch's kernel does not take"
        if 0 in (g.B, g.H, g.T, g.S):
            return "an axis is empty"
        if not plan.uniform_groups:
            return "the query heads read the key heads in uneven groups (kv_heads)"
        for name, x in (("q", plan.q), ("k", plan.k), ("v", plan.v)):
            if x is not None and x.stride(-1) != 1:
                return f"the last axis of {name} is not contiguous (stride {x.stride(-1)})"
        if plan.scale <= 0 and any(piece.triangle for piece in plan.pieces or ()):
            return f"scale is {plan.scale}, and torch's kernel multiplies the -inf of a causal mask by it"
        if plan.pieces is None:
            return "the mask is neither a rectangle nor a triangle of cells, so torch would need it written out, T x S"
        if may_be_extreme(plan.q, plan.k, plan.scale) or not all_finite(plan.v):
            return "q, k or v holds NaN or inf, or scores leave float32: torch's kernel makes zeros of those"
        return None

    def forward(self, plan: Plan) -> Result:
        """One call of the kernel for each piece; rows outside the pieces are empty."""
        g = plan.geometry
        assert plan.v is not None
        pieces = plan.pieces
        assert pieces is not None
        if len(pieces) == 1 and pieces[0].batch == slice(0, g.B) and pieces[0].rows == slice(0, g.T):
            out, lse = self._call(plan, pieces[0])
            return Result(out, lse, None)
        out = plan.q.new_zeros((g.B, g.H, g.T, g.E))
        lse = torch.full((g.B, g.H, g.T), float("-inf"), dtype=plan.dtype, device=g.device)
        for piece in pieces:
            at = (piece.batch, slice(None), piece.rows)
            out[at], lse[at] = self._call(plan, piece)
        return Result(out, lse, None)

    def _call(self, plan: Plan, piece: Piece) -> tuple[Tensor, Tensor]:
        q, k, v = _operands(plan, piece)
        out, lse = getattr(torch.ops.aten, _OP)(q, k, v, 0.0, piece.triangle, scale=plan.scale)
        return out, lse

    def backward(
        self, plan: Plan, result: Result, grad_out: Tensor | None, grad_lse: Tensor | None, needs: Sequence[bool]
    ) -> Tangents:
        """Torch's own backward kernel, piece by piece; it knows no gradient of lse, so none comes here."""
        assert plan.v is not None and grad_out is not None and grad_lse is None
        pieces = plan.pieces
        assert pieces is not None
        q, k, v = torch.zeros_like(plan.q), torch.zeros_like(plan.k), torch.zeros_like(plan.v)
        backward = getattr(torch.ops.aten, _OP + "_backward")
        for piece in pieces:
            rows, keys = (piece.batch, slice(None), piece.rows), (piece.batch, slice(None), piece.keys)
            found = backward(
                grad_out[rows].contiguous(),
                *_operands(plan, piece),
                result.out[rows],
                result.lse[rows],
                0.0,
                piece.triangle,
                scale=plan.scale,
            )
            q[rows], k[keys], v[keys] = found
        return Tangents(q if needs[0] else None, k if needs[1] else None, v if needs[2] else None, ())


def _operands(plan: Plan, piece: Piece) -> tuple[Tensor, Tensor, Tensor]:
    assert plan.v is not None
    rows, keys = (piece.batch, slice(None), piece.rows), (piece.batch, slice(None), piece.keys)
    return plan.q[rows], plan.k[keys], plan.v[keys]
