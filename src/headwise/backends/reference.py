"""The definition of attention: the textbook's steps in plain torch, over the whole T x S pattern.

Any float dtype, any device, every option. Slow and quadratic in memory on purpose: this is what the others are held to.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.backends.protocol import Result, RowFacts, Tangents
from headwise.observers import Whole
from headwise.plan import Plan
from headwise.products import all_finite, finite_part, may_be_extreme, visible_product
from headwise.spec.dropout import kept

__all__ = ["Reference"]

INF = float("inf")


class Reference:
    """Plain torch over the whole pattern; differentiable to any order by torch's autograd."""

    name = "reference"

    def refuse(self, plan: Plan) -> str | None:
        """Never: this is the definition of every option."""
        return None

    def forward(self, plan: Plan) -> Result:
        """Softmax attention as the textbook writes it, step by step."""
        scores, visible = self.scores(plan)
        p, facts = self.softmax(plan, scores, visible)
        if plan.seed is not None:
            survivors = kept(plan.seed, plan.spec.dropout, plan.geometry.whole())
            p = p * (survivors.to(p.dtype) / (1 - plan.spec.dropout))  # a product: a row of NaN stays one
        assert plan.v is not None  # only a bare Pattern has no values, and it asks for no output
        out = self.weigh(plan, p, visible, plan.v)
        out = out.masked_fill((facts.max_logit == -INF)[..., None], 0.0)  # an empty row: no gradient comes through
        return Result(out.to(plan.q.dtype), facts.lse, facts)

    def scores(self, plan: Plan) -> tuple[Tensor, Tensor]:
        """Scaled scores after the rules, -inf where hidden, and which cells are visible: [B, H, T, S] each."""
        cells = plan.geometry.whole()
        q, k = plan.q.to(plan.dtype), _per_query_head(plan, plan.k)
        product = finite_part(q) @ finite_part(k).mT * plan.scale
        if may_be_extreme(q, k, max(1.0, abs(plan.scale))):
            # A hidden NaN must not reach the gradients either: only finite operands take part in the product's graph.
            # Scaled first, what fits as a score does not overflow as a product.
            raw = ((q * plan.scale) @ k.mT).detach()
            product = torch.where(torch.isfinite(raw) & torch.isfinite(product), product, raw)
        score, hidden, _ = plan.apply_rules(product, cells)
        visible = torch.ones(cells.shape, dtype=torch.bool, device=q.device)
        if plan.spec.mask is not None:
            visible = visible & plan.spec.mask.keep(cells)
        if hidden is not None:
            visible = visible & ~hidden
        visible = visible & (score != -INF)
        return score.masked_fill(~visible, -INF), visible

    def softmax(self, plan: Plan, scores: Tensor, visible: Tensor) -> tuple[Tensor, RowFacts]:
        """Probabilities of each row, with the sink in the denominator only; a row without a key is all 0."""
        if plan.geometry.S == 0:
            max_logit = scores.new_full(scores.shape[:-1], -INF)
        else:
            max_logit = scores.detach().amax(-1)
        sinks = plan.spec.sinks
        sink = None if sinks is None else sinks.to(plan.dtype)[:, None]
        peak = max_logit if sink is None else torch.maximum(max_logit, sink.detach())
        empty = max_logit == -INF
        peak = peak.masked_fill(empty, 0.0)
        # The inner masked_fill keeps exp away from -inf, whose gradient would be NaN.
        powers = torch.exp((scores - peak[..., None]).masked_fill(~visible, 0.0)).masked_fill(~visible, 0.0)
        total = powers.sum(-1)
        if sink is not None:
            total = total + torch.exp(sink - peak).masked_fill(empty, 0.0)
        total = total.masked_fill(empty, 1.0)
        p = (powers / total[..., None]).masked_fill(~visible, 0.0)
        return p, RowFacts(max_logit, peak, torch.log(total))

    def weigh(self, plan: Plan, p: Tensor, visible: Tensor, v: Tensor) -> Tensor:
        """``sum_j p_ij v_j`` over the visible keys."""
        v = _per_query_head(plan, v)
        if all_finite(v):
            return p @ v
        patch = visible_product(p.detach(), visible, v.detach())
        return torch.where(torch.isfinite(patch), p @ finite_part(v), patch)

    def whole(self, plan: Plan) -> Whole:
        """The whole pattern, for the definitions of the observers."""
        with torch.no_grad():
            scores, visible = self.scores(plan)
            p, facts = self.softmax(plan, scores, visible)
            v = None if plan.v is None else _per_query_head(plan, plan.v)
        return Whole(plan.geometry, p, scores, visible, facts.peak, facts.log_total, facts.lse, facts.max_logit, v)

    def backward(
        self, plan: Plan, result: Result, grad_out: Tensor | None, grad_lse: Tensor | None, needs: Sequence[bool]
    ) -> Tangents:
        """Derivatives by torch's autograd; under ``create_graph`` they can be differentiated again."""
        again = torch.is_grad_enabled()
        with torch.enable_grad():
            inputs = [x for x in (plan.q, plan.k, plan.v, *plan.parameters) if x is not None]
            # Aliases, each used once: where one operand is made from another, or is the same tensor, a derivative by
            # the operand itself would also follow the caller's graph from one to the other and count it twice.
            if again:
                inputs = [x.view_as(x) for x in inputs]
            else:
                inputs = [x.detach().requires_grad_(need) for x, need in zip(inputs, needs, strict=True)]
            plan = plan.rebind(inputs[0], inputs[1], inputs[2], inputs[3:])
            fresh = self.forward(plan)
            pairs = [(fresh.out, grad_out), (fresh.lse, grad_lse)]
            pairs = [(y, g) for y, g in pairs if g is not None and y.requires_grad]
            wanted = [x for x, need in zip(inputs, needs, strict=True) if need]
            found = iter(
                torch.autograd.grad(
                    [y for y, _ in pairs],
                    wanted,
                    [g.to(y.dtype) for y, g in pairs if g is not None],
                    create_graph=again,
                    allow_unused=True,
                )
                if pairs and wanted
                else [None] * len(wanted)
            )
        grads = [next(found) if need else None for need in needs]
        return Tangents(grads[0], grads[1], grads[2], grads[3:])


def _per_query_head(plan: Plan, x: Tensor) -> Tensor:
    """Keys or values [B, Hk, S, W] as each query head reads them, [B, H, S, W]."""
    index = torch.tensor(plan.kv_heads, dtype=torch.int64, device=x.device)
    return x.to(plan.dtype).index_select(1, index)
