"""Attention over tiles in portable torch: O(T) memory forward, backward and for every observer.

A tile of scores is made, used and forgotten. Forward keeps a running maximum and sum a row (the online softmax);
backward and the observers' pass make each tile again, with the row's final numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.backends.protocol import Result, RowFacts, Tangents
from headwise.backends.tiling import chunks, key_tiles, row_blocks, visible_in
from headwise.observers import Frame, Observer, Tile, start
from headwise.plan import Chunk, Plan
from headwise.products import all_finite, visible_product
from headwise.spec import Cells, ScoreRule
from headwise.spec.dropout import kept
from headwise.spec.geometry import span

__all__ = ["Blocked", "survey"]

INF = float("inf")
KEEP = 2**22  # cells of a row block whose scores are kept between the two sweeps of a survey: 16 MiB of float32


class _Worker:
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

    def cells(self, rows: slice, keys: slice) -> Cells:
        """Where a tile of this chunk lies."""
        return Cells(self.plan.geometry, self.chunk.batch, self.chunk.heads, rows, keys)

    def scores(self, q: Tensor, cells: Cells, bare: bool) -> tuple[Tensor, Tensor | None, list[Tensor]]:
        """Scores of a tile, -inf where hidden; which cells are visible (None = all); scores before each rule."""
        product = self.unfold(q @ self.k[:, :, cells.keys].mT, span(cells.rows))
        score, hidden, before = self.plan.apply_rules(product, cells)
        visible = visible_in(self.plan, cells, bare)
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
        factor = torch.where(empty, 0.0, torch.exp(max_logit - peak) if sinks is not None else 1.0) / total
        return RowFacts(max_logit, peak.masked_fill(empty, 0.0), torch.log(total)), factor


@dataclass
class _Online:
    """Running maximum and sum of exponentials of a block of rows, [b, h, n]."""

    largest: Tensor
    total: Tensor

    @classmethod
    def of(cls, worker: _Worker, rows: slice) -> _Online:
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
        careful = not all_finite(plan.q, plan.k, plan.v)
        out = plan.q.new_zeros((g.B, g.H, g.T, g.E))
        facts = _blank(plan)
        for chunk in chunks(plan, slice(0, g.B), slice(0, g.H)):
            worker = _Worker(plan, chunk, careful)
            for rows in row_blocks(slice(0, g.T)):
                found, mean = self._rows(worker, rows)
                _write(facts, found, chunk, rows)
                out[chunk.batch, chunk.heads, rows] = mean.to(out.dtype)
        return Result(out, facts.lse, facts)

    def _rows(self, worker: _Worker, rows: slice) -> tuple[RowFacts, Tensor]:
        """One block of rows: facts [b, h, n] and output [b, h, n, E]."""
        plan, online = worker.plan, _Online.of(worker, rows)
        assert worker.v is not None
        q, mixed = worker.queries(rows), None
        for keys, bare in key_tiles(plan, worker.chunk.batch, rows):
            cells = worker.cells(rows, keys)
            score, visible, _ = worker.scores(q, cells, bare)
            powers, shrink = online.take(score)
            survivors = worker.survivors(cells)
            part = worker.weigh(powers if survivors is None else powers * survivors, visible, worker.v[:, :, keys])
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
            worker = _Worker(plan, chunk, pass_.careful)
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
        self.careful = not all_finite(plan.q, plan.k, plan.v, result.out, self.grad_out)
        # rowsum(dO * O) is what each row's gradient is measured against; lse adds its own gradient to every p.
        self.against = (self.grad_out.to(dtype) * result.out.to(dtype)).sum(-1)
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

    def rows(self, worker: _Worker, rows: slice) -> None:
        """Adds the part of one block of rows."""
        plan, chunk = worker.plan, worker.chunk
        at = (chunk.batch, chunk.heads, rows)
        assert worker.v is not None
        q = worker.queries(rows)
        grad_out = worker.fold(self.grad_out[at].to(plan.dtype))
        grad_q = None
        for keys, bare in key_tiles(plan, chunk.batch, rows):
            cells = worker.cells(rows, keys)
            score, visible, before = worker.scores(q, cells, bare)
            p = _probabilities(score, visible, self.facts.peak[at], self.facts.log_total[at])
            survivors = worker.survivors(cells)
            if self.v is not None:
                weights = p if survivors is None else p * survivors
                self.v[chunk.batch, chunk.kv, keys] += worker.gather(weights, visible, grad_out)
            if not (self.needs[0] or self.needs[1] or any(self.needs[3:])):
                continue
            grad_p = worker.unfold(grad_out @ worker.v[:, :, keys].mT, span(rows))
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
        if hidden is not None and (self.careful or rules):
            grad = grad.masked_fill(hidden, 0.0)
        after = score
        for rule, start_, place in zip(reversed(rules), reversed(before), reversed(into), strict=True):
            grad = rule.pull(grad, start_, after, cells, place)
            if hidden is not None:
                grad = grad.masked_fill(hidden, 0.0)
            after = start_
        return grad

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


def _probabilities(score: Tensor, visible: Tensor | None, peak: Tensor, log_total: Tensor) -> Tensor:
    """``exp(score - peak) / exp(log_total)``, 0 where hidden even in a row of NaN."""
    p = (score - peak[..., None]).exp_().mul_(torch.exp(-log_total)[..., None])
    if visible is not None and bool(peak.isnan().any() | log_total.isnan().any()):
        p = p.masked_fill(~visible, 0.0)
    return p


def survey(plan: Plan, facts: RowFacts | None, frame: Frame, observers: dict[str, Any]) -> dict[str, Any]:
    """Answers questions about a part of the pattern in one pass over its tiles; memory O(T).

    Args:
        plan: the call.
        facts: of its rows if a forward pass left them; else they are found on the way.
        frame: batch rows, heads and queries to look at.
        observers: questions by name, all about ``frame``.

    Returns:
        The answers by name.
    """
    found = {name: start(observer, frame) for name, observer in observers.items()}
    careful = not all_finite(plan.q, plan.k)
    values = any(not isinstance(o, Observer) or o.reads_values for o in observers.values())
    with torch.no_grad():
        for chunk in chunks(plan, frame.batch, frame.heads):
            worker = _Worker(plan, chunk, careful)
            for rows in row_blocks(frame.rows):
                for tile in _tiles(worker, rows, frame.keys, facts, values):
                    for accumulator in found.values():
                        accumulator.see(tile)
        return {name: accumulator.result() for name, accumulator in found.items()}


def _tiles(worker: _Worker, rows: slice, wanted: slice, facts: RowFacts | None, values: bool) -> Iterator[Tile]:
    """Exact tiles of one block of rows that meet the wanted keys; at least one, so that its row facts are seen."""
    plan, chunk = worker.plan, worker.chunk
    q = worker.queries(rows)
    where = key_tiles(plan, chunk.batch, rows)
    made: dict[int, tuple[Tensor, Tensor | None, Tensor]] = {}
    if facts is not None:
        at = (chunk.batch, chunk.heads, rows)
        here = RowFacts(*(fact[at] for fact in facts))
    elif span(chunk.batch) * span(chunk.heads) * span(rows) * sum(span(keys) for keys, _ in where) <= KEEP:
        here, made = _whole_rows(worker, q, rows, where)
    else:
        online = _Online.of(worker, rows)
        for keys, bare in where:
            online.take(worker.scores(q, worker.cells(rows, keys), bare)[0])
        here, _ = worker.finish(online.largest, online.total)
    met = [(keys, bare) for keys, bare in where if keys.start < wanted.stop and keys.stop > wanted.start]
    for keys, bare in met or [(slice(0, 0), True)]:
        cells = worker.cells(rows, keys)
        if met and keys.start in made:
            score, visible, p = made.pop(keys.start)
        else:
            score, visible, _ = worker.scores(q, cells, bare)
            p = _probabilities(score, visible, here.peak, here.log_total)
        v = worker.v[:, :, keys].repeat_interleave(chunk.group, dim=1) if values and worker.v is not None else None
        yield Tile(cells, p, score, visible, here.peak, here.log_total, here.lse, here.max_logit, v)


def _whole_rows(
    worker: _Worker, q: Tensor, rows: slice, where: list[tuple[slice, bool]]
) -> tuple[RowFacts, dict[int, tuple[Tensor, Tensor | None, Tensor]]]:
    """A block of rows that fits the scratch: its facts, and by first key each tile's scores, visible cells and p.

    With all scores at hand the maximum is known before the first exponential, so each cell is made once.
    """
    online = _Online.of(worker, rows)
    scored = [(keys.start, *worker.scores(q, worker.cells(rows, keys), bare)[:2]) for keys, bare in where]
    for _, score, _ in scored:
        online.largest = torch.maximum(online.largest, score.amax(-1))
    base = online.largest.masked_fill(online.largest == -INF, 0.0)[..., None]
    powers = [(score - base).exp_() for _, score, _ in scored]
    for power in powers:
        online.total = online.total + power.sum(-1)
    facts, factor = worker.finish(online.largest, online.total)
    nan = bool(factor.isnan().any())
    made = {}
    for (first, score, visible), power in zip(scored, powers, strict=True):
        p = power.mul_(factor[..., None])
        made[first] = score, visible, p.masked_fill_(~visible, 0.0) if nan and visible is not None else p
    return facts, made
