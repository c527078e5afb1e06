"""Every built-in question, answered from the definition's dense pattern, cell by cell."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from headwise import observers
from headwise.testing.calls import Call
from headwise.testing.definition import Exact

__all__ = ["answers"]


def _label(labels: Tensor, b: int, at: int) -> int:
    return int(labels[at] if labels.dim() == 1 else labels[b, at])


def _pooled(p: Tensor, question: Any) -> Tensor:
    rows, cols = question.rows_of or slice(None), question.cols_of or slice(None)
    part = p[:, :, rows, cols]
    n, m = part.shape[2:]
    out = torch.zeros((*p.shape[:2], question.height, question.width), dtype=p.dtype, device="cpu")
    for r in range(question.height):
        for c in range(question.width):
            cell = part[
                :,
                :,
                math.floor(r * n / question.height) : math.floor((r + 1) * n / question.height),
                math.floor(c * m / question.width) : math.floor((c + 1) * m / question.width),
            ].flatten(2)
            if cell.shape[-1]:
                out[:, :, r, c] = cell.mean(-1) if question.pool == "mean" else cell.max(-1).values
    return out


def _offsets(exact: Exact, question: observers.Offsets) -> Tensor:
    size, p, visible = exact.size, exact.p.tolist(), exact.visible.tolist()
    out = torch.zeros((size.B, size.H, question.after + question.limit + 1), dtype=exact.p.dtype, device="cpu")
    for b in range(size.B):
        for h in range(size.H):
            found: dict[int, list[float]] = {}
            for i in range(size.T):
                for j in range(size.S):
                    if visible[b][h][i][j]:
                        found.setdefault(size.start[b] + i - j, []).append(p[b][h][i][j])
            for d, values in found.items():
                if -question.after <= d <= question.limit:
                    out[b, h, d + question.after] = math.fsum(values) / len(values) if _real(values) else math.nan
    return out


def _real(values: list[float]) -> bool:
    return all(map(math.isfinite, values))


def _top(exact: Exact, k: int) -> tuple[Tensor, Tensor]:
    size, p, visible = exact.size, exact.p.tolist(), exact.visible.tolist()
    values = torch.zeros((size.B, size.H, size.T, k), dtype=exact.p.dtype, device="cpu")
    indices = torch.full(values.shape, -1, dtype=torch.int64, device="cpu")
    for b in range(size.B):
        for h in range(size.H):
            for i in range(size.T):
                row = p[b][h][i]
                keys = [j for j in range(size.S) if visible[b][h][i][j]]
                best = sorted(keys, key=lambda j, row=row: (-row[j], j))[:k]  # type: ignore[misc]
                if best:
                    values[b, h, i, : len(best)] = torch.tensor(
                        [row[j] for j in best], dtype=exact.p.dtype, device="cpu"
                    )
                    indices[b, h, i, : len(best)] = torch.tensor(best, dtype=torch.int64, device="cpu")
    return values, indices


def _row_masses(exact: Exact, question: Any) -> Tensor:
    size = exact.size
    out = torch.zeros((size.B, size.H, size.T), dtype=exact.p.dtype, device="cpu")
    for b in range(size.B):
        for i in range(size.T):
            if isinstance(question, observers.MassOn):
                targets = question.targets[i] if question.targets.dim() == 2 else question.targets[b, i]
                keys = [j for j in targets.tolist() if j >= 0]
            else:
                mine = _label(question.q_labels, b, i)
                before = range(min(max(size.start[b] + i, 0), size.S))
                keys = [j for j in before if mine >= 0 and _label(question.k_labels, b, j) == mine]
            out[b, :, i] = exact.p[b, :, i, keys].sum(-1)
    return out


def _segments(exact: Exact, question: observers.Segments) -> Tensor:
    size, p = exact.size, exact.p.tolist()
    groups = [max([int(ids.max()) + 1 if ids.numel() else 0, 0]) for ids in (question.q_ids, question.k_ids)]
    out = torch.zeros((size.B, size.H, *groups), dtype=exact.p.dtype, device="cpu").tolist()
    for b in range(size.B):
        names = [(j, _label(question.k_ids, b, j)) for j in range(size.S)]
        for i in range(size.T):
            a = _label(question.q_ids, b, i)
            if a < 0:
                continue
            for h in range(size.H):
                for j, c in names:
                    if c >= 0:
                        out[b][h][a][c] += p[b][h][i][j]
    return torch.tensor(out, dtype=exact.p.dtype, device="cpu").reshape(size.B, size.H, *groups)


def _contribution(exact: Exact, question: observers.Contribution, call: Call) -> tuple[Tensor, Tensor]:
    size, width = exact.size, call.v.shape[-1]
    by_key = torch.zeros((size.B, size.H, size.S), dtype=exact.p.dtype, device="cpu")
    by_query = torch.zeros((size.B, size.H, size.T), dtype=exact.p.dtype, device="cpu")
    for h in range(size.H):
        w = question.w_o[:, h * width : (h + 1) * width].double()
        norms = (call.v[:, size.kv[h]].detach().double() @ w.T).norm(dim=-1)
        weighed = torch.where(exact.visible[:, h], exact.p[:, h] * norms[:, None, :], 0.0)
        by_key[:, h], by_query[:, h] = weighed.sum(1), weighed.sum(2)
    return by_key, by_query


def answers(exact: Exact, question: Any, call: Call) -> Any:
    """What a question's documentation says the answer is."""
    match question:
        case observers.LogSumExp():
            return exact.lse.detach()
        case observers.MaxLogit():
            return (
                exact.logits.amax(-1)
                if exact.size.S
                else torch.full(exact.lse.shape, -math.inf, dtype=torch.float64, device="cpu")
            )
        case observers.Entropy():
            return torch.where(exact.p == 0, 0.0, -exact.p * torch.log(exact.p)).sum(-1)
        case observers.Received():
            return exact.p.sum(2)
        case observers.Offsets():
            return _offsets(exact, question)
        case observers.TopKeys():
            return _top(exact, question.k)
        case observers.MassOn() | observers.MassWhere():
            return _row_masses(exact, question)
        case observers.Segments():
            return _segments(exact, question)
        case observers.Map():
            return _pooled(exact.p, question)
        case observers.Crop():
            return exact.p[:, :, question.rows_of, question.cols_of]
        case observers.Contribution():
            return _contribution(exact, question, call)
    raise AssertionError(f"no definition of {question!r}")
