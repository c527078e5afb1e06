"""Attention over tiles in portable torch: O(T) memory forward, backward and for every observer.

A tile of scores is made, used and forgotten. Forward keeps a running maximum and sum a row (the online softmax);
backward and the observers' pass make each tile again, with the row's final numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.backends.protocol import Result, RowFacts, Tangents
from headwise.backends.tiling import chunks, key_tiles, row_blocks
from headwise.backends.worker import INF, Online, Worker, probabilities
from headwise.plan import Chunk, Plan
from headwise.products import all_finite, may_be_extreme, visible_product
from headwise.spec import Cells, ScoreRule
from headwise.spec.geometry import span

__all__ = ["Blocked"]


class Blocked:
    """Portable torch over tiles, on any device; memory O(T) beyond the operands."""

    name = "blocked"

    def refuse(self, plan: Plan) -> str | None:
        """Refuses only a ScoreRule whose function reads a tensor that requires a gradient: it would get none."""
        if torch.is_grad_enabled():
            one = Cells(plan.geometry, *(slice(0, min(1, n)) for n in _sizes(plan)))
            for rule in plan.spec.scores:
                if isinstance(rule, ScoreRule) and rule.captures_gradient(one, plan.dtype):
                    return (
                        "the ScoreRule's function reads a tensor that requires a gradient, and only the reference's"
                        " graph reaches into a function; say it with hw.Bias, hw.Alibi or hw.RelativeBias"
                    )
        return None

    def forward(self, plan: Plan) -> Result:
        """Output and row facts by the online softmax over tiles."""
        g = plan.geometry
        assert plan.v is not None
        careful = may_be_extreme(plan.q, plan.k, plan.scale) or not all_finite(plan.v)
        out = plan.q.new_zeros((g.B, g.H, g.T, g.E))
        facts = _blank(plan)
        for chunk in chunks(plan, slice(0, g.B), slice(0, g.H)):
            worker = Worker(plan, chunk, careful)
            for rows in row_blocks(slice(0, g.T)):
                found, mean = self._rows(worker, rows)
                _write(facts, found, chunk, rows)
                out[chunk.batch, chunk.heads, rows] = mean.to(out.dtype)
        return Result(out, facts.lse, facts)

    def _rows(self, worker: Worker, rows: slice) -> tuple[RowFacts, Tensor]:
        """One block of rows: facts [b, h, n] and output [b, h, n, E]."""
        plan, online = worker.plan, Online.of(worker, rows)
        assert worker.v is not None
        q, mixed = worker.queries(rows), None
        for cells, kept_cells in key_tiles(plan, worker.chunk, rows):
            score, visible, _ = worker.scores(q, cells, kept_cells)
            powers, shrink = online.take(score)
            survivors = worker.survivors(cells)
            weights = powers if survivors is None else powers * survivors
            part = worker.weigh(weights, visible, worker.v[:, :, cells.keys])
            part = worker.unfold(part, span(rows))
            mixed = part if mixed is None else mixed.mul_(shrink[..., None]).add_(part)
        facts, factor = worker.finish(online.largest, online.total)
        if mixed is None:
            return facts, plan.q.new_zeros((*factor.shape, plan.geometry.E), dtype=plan.dtype)
        mixed = mixed * factor[..., None]
        return facts, mixed.masked_fill((online.largest == -INF)[..., None], 0.0)

    def backward(
        self, plan: Plan, result: Result, grad_out: Tensor | None, grad_lse: Tensor | None, needs: Sequence[bool]
    ) -> Tangents:
        """First derivatives, tile by tile: ``dS = P * (dO V^T - rowsum(dO * O) + dlse)`` and the chain of rules.

        Source: Dao et al. 2022, "FlashAttention" (arXiv 2205.14135), appendix B.
        """
        pass_ = _Backward(plan, result, grad_out, grad_lse, needs)
        g = plan.geometry
        for chunk in chunks(plan, slice(0, g.B), slice(0, g.H)):
            worker = Worker(plan, chunk, pass_.careful)
            for rows in row_blocks(slice(0, g.T)):
                pass_.rows(worker, rows)
        return pass_.tangents()


class _Backward:
    """The gradients of one call while its tiles are made again."""

    def __init__(
        self, plan: Plan, result: Result, grad_out: Tensor | None, grad_lse: Tensor | None, needs: Sequence[bool]
    ) -> None:
        g, dtype = plan.geometry, plan.dtype
        assert plan.v is not None and result.facts is not None
        self.plan, self.facts, self.needs = plan, result.facts, needs
        self.grad_out = plan.q.new_zeros((g.B, g.H, g.T, g.E)) if grad_out is None else grad_out
        self.careful = (
            may_be_extreme(plan.q, plan.k, plan.scale)
            or may_be_extreme(plan.v, self.grad_out, 1.0)
            or not all_finite(result.out)
        )
        # rowsum(dO * O) is what each row's gradient is measured against; lse adds its own gradient to every p.
        weighed = self.grad_out.to(dtype) * result.out.to(dtype)
        if self.careful:  # a gradient of 0 asks nothing of an output of NaN: a head whose gate is 0
            weighed = torch.where(self.grad_out == 0, 0.0, weighed)
        self.against = weighed.sum(-1)
        if grad_lse is not None:
            self.against = self.against - grad_lse.to(dtype)
        blank = torch.zeros((g.B, g.H, g.T, g.D), dtype=dtype, device=g.device)
        self.q = blank if needs[0] else None
        self.k = torch.zeros_like(plan.k, dtype=dtype) if needs[1] else None
        self.v = torch.zeros_like(plan.v, dtype=dtype) if needs[2] else None
        self.parameters = [
            torch.zeros_like(p, dtype=dtype) if need else None
            for p, need in zip(plan.parameters, needs[3:], strict=True)
        ]
        self.empty = self.facts.max_logit == -INF
        self._sink()

    def _sink(self) -> None:
        sinks = self.plan.spec.sinks
        if sinks is None or self.parameters[-1] is None:
            return
        p = torch.exp(sinks.to(self.plan.dtype)[:, None] - self.facts.peak - self.facts.log_total)
        self.parameters[-1] += torch.where(self.empty, 0.0, -p * self.against).sum((0, 2))

    def rows(self, worker: Worker, rows: slice) -> None:
        """Adds the part of one block of rows."""
        plan, chunk = worker.plan, worker.chunk
        at = (chunk.batch, chunk.heads, rows)
        assert worker.v is not None
        q = worker.queries(rows)
        grad_out = worker.fold(self.grad_out[at].to(plan.dtype))
        grad_q = None
        for cells, kept_cells in key_tiles(plan, chunk, rows):
            keys = cells.keys
            score, visible, before = worker.scores(q, cells, kept_cells)
            p = probabilities(score, visible, self.facts.peak[at], self.facts.log_total[at])
            survivors = worker.survivors(cells)
            if self.v is not None:
                weights = p if survivors is None else p * survivors
                self.v[chunk.batch, chunk.kv, keys] += worker.gather(weights, visible, grad_out)
            if not (self.needs[0] or self.needs[1] or any(self.needs[3:])):
                continue
            grad_p = worker.unfold(self._products(grad_out, worker.v[:, :, keys].mT), span(rows))
            if survivors is not None:
                grad_p = grad_p * survivors
            grad = self._through_rules(p * (grad_p - self.against[at][..., None]), score, before, visible, cells)
            if self.k is not None:
                self.k[chunk.batch, chunk.kv, keys] += worker.gather(grad, visible, q)
            if self.q is not None:
                part = worker.weigh(grad, visible, worker.k[:, :, keys])
                grad_q = part if grad_q is None else grad_q + part
        if self.q is not None and grad_q is not None:
            self.q[at] = worker.unfold(grad_q, span(rows)) * plan.scale

    def _through_rules(
        self, grad: Tensor, score: Tensor, before: list[Tensor], visible: Tensor | None, cells: Cells
    ) -> Tensor:
        """From the gradient of the masked scores back to that of ``q.k * scale``."""
        rules = self.plan.spec.scores
        slots = iter(self.parameters)
        into = [next(slots) if rule.parameter() is not None else None for rule in rules]
        hidden = None if visible is None else ~visible
        if hidden is not None:  # 0 times a product with a hidden value, which may be anything
            grad = grad.masked_fill(hidden, 0.0)
        after = score
        for rule, start_, place in zip(reversed(rules), reversed(before), reversed(into), strict=True):
            grad = rule.pull(grad, start_, after, cells, place)
            if hidden is not None:
                grad = grad.masked_fill(hidden, 0.0)
            after = start_
        return grad

    def _products(self, grad_out: Tensor, v: Tensor) -> Tensor:
        """``grad_out @ v``; where v may hold anything, a gradient of 0 asks nothing of it."""
        return visible_product(grad_out, grad_out != 0, v) if self.careful else grad_out @ v

    def tangents(self) -> Tangents:
        """The gradients in the dtypes of their tensors."""
        plan = self.plan
        operands = [(self.q, plan.q), (self.k, plan.k), (self.v, plan.v)]
        q, k, v = (None if g is None or x is None else g.to(x.dtype) for g, x in operands)
        rest = [None if g is None else g.to(p.dtype) for g, p in zip(self.parameters, plan.parameters, strict=True)]
        return Tangents(q, k, v, rest)


def _sizes(plan: Plan) -> tuple[int, int, int, int]:
    g = plan.geometry
    return g.B, g.H, g.T, g.S


def _blank(plan: Plan) -> RowFacts:
    """Facts of rows that are all empty."""
    g = plan.geometry
    zero = torch.zeros((g.B, g.H, g.T), dtype=plan.dtype, device=g.device)
    return RowFacts(zero - INF, zero, zero.clone())


def _write(facts: RowFacts, found: RowFacts, chunk: Chunk, rows: slice) -> None:
    for whole, part in zip(facts, found, strict=True):
        whole[chunk.batch, chunk.heads, rows] = part
