"""Attention in torch's own operators, for whoever takes an exported model where headwise is not: ONNX, for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from headwise.border import asked_of
from headwise.errors import UnsupportedError, sentence
from headwise.plan import Plan

__all__ = ["decompositions"]

INF = float("inf")


def decompositions() -> dict[Any, Callable[..., Any]]:
    """What headwise's operators are in torch's own, for ``torch.export.ExportedProgram.run_decompositions``.

    An exported program calls ``headwise::attention``, which runs the fast kernels wherever headwise is installed. After
    these decompositions it is the textbook's steps in plain operators, T x S pattern and all, which any runtime reads:

        program = torch.export.export(model, (x,)).run_decompositions(hw.decompositions())
        torch.onnx.export(program, (x,)).save("model.onnx")

    Masks, score rules, sinks, gates and positions are kept; an empty row gives 0. Two promises need headwise itself:
    in plain operators a NaN in a hidden value reaches the output, and there is no dropout.

    Returns:
        A table of operators and functions, to be handed on.

    Raises:
        UnsupportedError: while decomposing, if a call has dropout: export the model in eval.

    Example:
        >>> import torch, headwise as hw
        >>> layer, x = hw.MultiHeadAttention(16, 2, mask=hw.Causal()).eval(), torch.randn(1, 5, 16)
        >>> program = torch.export.export(layer, (x,)).run_decompositions(hw.decompositions())
        >>> any("headwise" in str(node.target) for node in program.graph.nodes)
        False
        >>> torch.allclose(program.module()(x), layer(x), atol=1e-6)
        True
    """
    return {torch.ops.headwise.attention.default: _plain}


def _plain(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    asked = asked_of(rest)
    if asked.seed is not None:
        rule = "torch's operators cannot drop the cells that ours drop"
        raise UnsupportedError(sentence("decompositions", "the model has dropout", rule, todo="Export it in eval."))
    plan = asked.plan(q, k, v)
    cells = plan.geometry.whole()
    wide, keys, values = (x.to(plan.dtype) for x in (q, _each(plan, k), _each(plan, v)))
    score, hidden, _ = plan.apply_rules(wide @ keys.mT * plan.scale, cells)
    if plan.spec.mask is not None:
        score = torch.where(plan.spec.mask.keep(cells), score, -INF)
    if hidden is not None:
        score = torch.where(hidden, -INF, score)
    largest = score.amax(-1, keepdim=True) if plan.geometry.S else score.new_full((*score.shape[:-1], 1), -INF)
    empty = largest == -INF
    peak = largest if plan.spec.sinks is None else torch.maximum(largest, plan.spec.sinks.to(plan.dtype)[:, None, None])
    peak = torch.where(empty, 0.0, peak)
    powers = torch.exp(score - peak)
    total = powers.sum(-1, keepdim=True)
    if plan.spec.sinks is not None:
        total = total + torch.exp(plan.spec.sinks.to(plan.dtype)[:, None, None] - peak)
    total = torch.where(empty, 1.0, total)
    out = torch.where(empty, 0.0, powers / total @ values).to(q.dtype)
    rows = [x.squeeze(-1) for x in (largest, peak, total.log())]
    lse = torch.where(empty.squeeze(-1), -INF, rows[1] + rows[2])
    note = torch.full((2,), -1, dtype=torch.int64, device="cpu")
    return out, lse, *rows, note


def _each(plan: Plan, x: Tensor) -> Tensor:
    """Keys or values [B,Hk,S,W] as each query head reads them, [B,H,S,W]."""
    g = plan.geometry
    if plan.uniform_groups:
        return x[:, :, None].expand(-1, -1, g.H // g.Hk, -1, -1).flatten(1, 2)
    return torch.cat([x[:, kv : kv + 1] for kv in plan.kv_heads], dim=1)
