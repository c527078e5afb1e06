"""One chunk of heads at work: the scores of its tiles and products over their visible cells."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.backends.protocol import RowFacts
from headwise.plan import Chunk, Plan
from headwise.products import visible_product
from headwise.spec import Cells, ScoreRule
from headwise.spec.dropout import kept
from headwise.spec.geometry import span

__all__ = ["INF", "Online", "Worker", "probabilities"]

INF = float("inf")


class Worker:
    """One chunk of heads at work: its operands in the plan's dtype, query heads of a group folded into rows."""

    def __init__(self, plan: Plan, chunk: Chunk, careful: bool) -> None:
        self.plan, self.chunk, self.careful = plan, chunk, careful
        self.k = plan.k[chunk.batch, chunk.kv].to(plan.dtype)
        self.v = None if plan.v is None else plan.v[chunk.batch, chunk.kv].to(plan.dtype)

    def fold(self, x: Tensor) -> Tensor:
        """[b, h, n, w] of the chunk -> [b, kv, group * n, w]."""
        b, h, n, w = x.shape
        return x.reshape(b, h // self.chunk.group, self.chunk.group * n, w)

    def unfold(self, x: Tensor, n: int) -> Tensor:
        """[b, kv, group * n, w] -> [b, h, n, w]."""
        return x.reshape(x.shape[0], span(self.chunk.heads), n, x.shape[-1])

    def queries(self, rows: slice) -> Tensor:
        """Folded queries of a block, times the scale."""
        part = self.plan.q[self.chunk.batch, self.chunk.heads, rows].to(self.plan.dtype)
        return self.fold(part * self.plan.scale)

    def scores(self, q: Tensor, cells: Cells, visible: Tensor | None) -> tuple[Tensor, Tensor | None, list[Tensor]]:
        """Scores of a tile, -inf where hidden; which cells are visible (None = all); scores before each rule."""
        product = self.unfold(q @ self.k[:, :, cells.keys].mT, span(cells.rows))
        score, hidden, before = self.plan.apply_rules(product, cells)
        if hidden is not None:
            visible = ~hidden if visible is None else visible & ~hidden
        if visible is not None:
            score = score.masked_fill(~visible, -INF) if before else score.masked_fill_(~visible, -INF)
        if self.careful or any(isinstance(rule, ScoreRule) for rule in self.plan.spec.scores):
            visible = score != -INF  # an operand or a rule of the user's may have written -inf
        return score, visible, before

    def weigh(self, weights: Tensor, visible: Tensor | None, x: Tensor) -> Tensor:
        """``weights @ x`` over visible cells: [b, h, n, m] with x [b, kv, m, w] -> folded [b, kv, group * n, w]."""
        folded = self.fold(weights)
        if not self.careful:
            return folded @ x
        seen = torch.ones_like(weights, dtype=torch.bool) if visible is None else visible.expand(weights.shape)
        return visible_product(folded, self.fold(seen), x)

    def gather(self, weights: Tensor, visible: Tensor | None, x: Tensor) -> Tensor:
        """``weights^T @ x`` over visible cells: [b, h, n, m] with folded x [b, kv, group * n, w] -> [b, kv, m, w]."""
        folded = self.fold(weights).mT
        if not self.careful:
            return folded @ x
        seen = torch.ones_like(weights, dtype=torch.bool) if visible is None else visible.expand(weights.shape)
        return visible_product(folded, self.fold(seen).mT, x)

    def survivors(self, cells: Cells) -> Tensor | None:
        """The factor of dropout on each cell, 0 or 1 / (1 - dropout); None without dropout."""
        plan = self.plan
        if plan.seed is None:
            return None
        return kept(plan.seed, plan.spec.dropout, cells).to(plan.dtype) / (1 - plan.spec.dropout)

    def finish(self, max_logit: Tensor, total: Tensor) -> tuple[RowFacts, Tensor]:
        """Adds the sink to rows [b, h, n] whose sum is relative to max_logit; the factor that turns sums into means."""
        empty = max_logit == -INF
        sinks = self.plan.spec.sinks
        peak = max_logit
        if sinks is not None:
            sink = sinks[self.chunk.heads].to(self.plan.dtype)[:, None]
            peak = torch.maximum(max_logit, sink)
            total = total * torch.exp(max_logit - peak) + torch.exp(sink - peak)
        total = total.masked_fill(empty, 1.0)
        factor = 1.0 / total if sinks is None else torch.exp(max_logit - peak) / total
        return RowFacts(max_logit, peak.masked_fill(empty, 0.0), torch.log(total)), factor.masked_fill(empty, 0.0)


@dataclass
class Online:
    """Running maximum and sum of exponentials of a block of rows, [b, h, n]."""

    largest: Tensor
    total: Tensor

    @classmethod
    def of(cls, worker: Worker, rows: slice) -> Online:
        shape = (span(worker.chunk.batch), span(worker.chunk.heads), span(rows))
        zero = torch.zeros(shape, dtype=worker.plan.dtype, device=worker.k.device)
        return cls(zero - INF, zero)

    def take(self, score: Tensor) -> tuple[Tensor, Tensor]:
        """Takes in a tile of scores: exponentials relative to the new maximum, and the factor on what came before."""
        largest = torch.maximum(self.largest, score.amax(-1))
        base = largest.masked_fill(largest == -INF, 0.0)
        powers = (score - base[..., None]).exp_()
        shrink = torch.exp(self.largest - base)
        self.total = self.total * shrink + powers.sum(-1)
        self.largest = largest
        return powers, shrink


def probabilities(score: Tensor, visible: Tensor | None, peak: Tensor, log_total: Tensor) -> Tensor:
    """``exp(score - peak) / exp(log_total)``, 0 where hidden even in a row of NaN."""
    p = (score - peak[..., None]).exp_().mul_(torch.exp(-log_total)[..., None])
    if visible is not None and bool(peak.isnan().any() | log_total.isnan().any()):
        p = p.masked_fill(~visible, 0.0)
    return p
