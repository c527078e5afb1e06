"""The operations: ``attention`` (the output), ``attend`` (the output and answers about the pattern), ``explain``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from headwise.backends import Backend, Blocked, Reference, Result, RowFacts, all_reasons, choose
from headwise.backends.tiling import tiles_counted
from headwise.pattern import Pattern, answer
from headwise.plan import Plan, make_plan
from headwise.products import as_given, may_be_extreme
from headwise.spec import AttentionSpec, Mask, Rules

__all__ = ["Attended", "Explanation", "attend", "attention", "explain"]

BackendLike = str | Backend | None


Call = TypeVar("Call", bound=Callable[..., Any])


def _uncompiled(fn: Call) -> Call:
    """Lets torch.compile leave a call as it is, one break in its graph: planning and tiling branch on numbers.

    torch.compiler.disable loads the compiler, which half of all programs never need, so it is asked on first use.
    """

    @functools.wraps(fn)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return torch.compiler.disable(fn)(*args, **kwargs)
        return fn(*args, **kwargs)

    return cast("Call", call)


@dataclass(frozen=True, eq=False)
class Attended:
    """What ``attend`` returns.

    Attributes:
        out: [B, H, T, E] in the operands' dtype.
        lse: log-sum-exp of each row [B, H, T] in nats, float32 (float64 for float64 operands); -inf for an empty row;
            carries a gradient.
        pattern: the T x S pattern, as an object that never stores it.
        seen: the observers' answers by name, detached.
    """

    out: Tensor
    lse: Tensor
    pattern: Pattern
    seen: dict[str, Any]

    def __repr__(self) -> str:
        out, lse = list(self.out.shape), list(self.lse.shape)
        return f"Attended(out {out}, lse {lse}, {self.pattern}, seen: {', '.join(self.seen) or 'nothing'})"


@dataclass(frozen=True)
class Explanation:
    """Which backend would run and why, and what the call costs; ``str()`` is for people.

    Attributes:
        chosen: name of the backend that computes the output.
        reasons: for every backend one sentence: why it refuses, or "can run".
        tiles: tiles worked on and tiles of the whole pattern.
        visible: cells that may be attended to, a head, over the batch (an upper bound where only the mask knows).
        notes: more lines for people.
    """

    chosen: str
    reasons: dict[str, str]
    tiles: tuple[int, int]
    visible: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        used, total = self.tiles
        lines = [f"{self.chosen} computes the output"]
        lines += [f"  {name}: {reason}" for name, reason in self.reasons.items()]
        lines += [
            f"tiles: {used} of {total} are worked on, {total - used} are skipped; {self.visible} visible cells a head"
        ]
        return "\n".join(lines + list(self.notes))


@_uncompiled
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | None = None,
    scores: Sequence[Rules] = (),
    scale: float | None = None,
    q_start: int | Tensor | None = None,
    kv_heads: Sequence[int] | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
    gate: Tensor | None = None,
    backend: BackendLike = None,
) -> Tensor:
    """Multi-head attention: ``out = gate * softmax(rules(scale * q k^T) + mask) v``, head by head.

    Args:
        q: queries [B, H, T, D], float16, bfloat16, float32 or float64; any strides.
        k: keys [B, Hk, S, D]; query head h reads key head h // (H / Hk), so Hk = H is plain multi-head attention,
            Hk < H grouped, Hk = 1 multi-query.
        v: values [B, Hk, S, E].
        mask: which keys a query may attend to, True = may; masks combine with & and |. None = all.
        scores: score rules, applied in order before the mask.
        scale: factor on q.k; None = 1/sqrt(D).
        q_start: position of query 0 on the key axis, int or integer [B]; None = S - T, last with last.
        kv_heads: for each query head the key/value head that it reads; None = h // (H / Hk).
        sinks: float [H], one extra logit a row, in the softmax's denominator only.
        dropout: probability to drop a cell after the softmax; explicit, so a module passes 0 in eval.
        gate: float [H], [B, H] or [B, H, T], scales a head's output; 0 gives exactly 0.
        backend: "reference", "blocked", "sdpa" or a backend object; None = the first that does not refuse.

    Returns:
        [B, H, T, E] in the operands' dtype. A query that may attend to nothing gives 0, with gradient 0.

    Raises:
        ShapeError: shapes, dtypes or devices disagree.
        SpecError: an option has no meaning, or the backend does not exist.
        UnsupportedError: the named backend cannot do exactly this.

    Source: Vaswani et al. 2017, "Attention Is All You Need" (arXiv 1706.03762), section 3.2.

    Example:
        >>> import torch, headwise as hw
        >>> q, k, v = torch.randn(2, 8, 5, 16), torch.randn(2, 2, 7, 16), torch.randn(2, 2, 7, 16)
        >>> hw.attention(q, k, v, mask=hw.Causal()).shape
        torch.Size([2, 8, 5, 16])
    """
    spec = AttentionSpec(mask, scores, scale, q_start, kv_heads, sinks, dropout, gate)
    plan = make_plan("attention", q, k, v, spec)
    return _run("attention", plan, backend)[0]


@_uncompiled
def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | None = None,
    scores: Sequence[Rules] = (),
    scale: float | None = None,
    q_start: int | Tensor | None = None,
    kv_heads: Sequence[int] | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
    gate: Tensor | None = None,
    backend: BackendLike = None,
    observe: Sequence[Any] = (),
) -> Attended:
    """Attention, and whatever is asked of its pattern, which is never stored.

    Args:
        q, k, v, mask, scores, scale, q_start, kv_heads, sinks, dropout, gate, backend: as of ``attention``.
        observe: questions, ``[hw.Entropy(), hw.TopKeys(8)]``. Observing changes neither the output, by one bit, nor
            which backend computes it.

    Returns:
        Attended: .out, .lse, .pattern and .seen, the answers by name.

    Raises:
        ShapeError, SpecError, UnsupportedError: as of ``attention``.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 2, 3, 4)
        >>> got = hw.attend(x, x, x, mask=hw.Causal(), observe=[hw.Entropy()])
        >>> got.seen["entropy"][0, 0]
        tensor([0.0000, 0.6931, 1.0986])
        >>> got.pattern[0, 0, 2, :]
        tensor([0.3333, 0.3333, 0.3333])
    """
    spec = AttentionSpec(mask, scores, scale, q_start, kv_heads, sinks, dropout, gate)
    plan = make_plan("attend", q, k, v, spec, observe)
    out, lse, result = _run("attend", plan, backend)
    bare = _detached(plan)
    facts = None if result.facts is None else type(result.facts)(*(fact.detach() for fact in result.facts))
    definition = backend == "reference" or isinstance(backend, Reference)
    seen = answer(bare, facts, definition=definition)
    return Attended(out, lse.float() if plan.dtype != torch.float64 else lse, Pattern.of_plan(bare, facts), seen)


def explain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | None = None,
    scores: Sequence[Rules] = (),
    scale: float | None = None,
    q_start: int | Tensor | None = None,
    kv_heads: Sequence[int] | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
    gate: Tensor | None = None,
    backend: BackendLike = None,
    observe: Sequence[Any] = (),
) -> Explanation:
    """Which backend would compute a call, why the others would not, and what it costs. Runs nothing.

    Args:
        q, k, v, mask, scores, scale, q_start, kv_heads, sinks, dropout, gate, backend, observe: as of ``attend``.

    Returns:
        Explanation: .chosen, .reasons {backend: sentence}; ``str()`` is for people.

    Raises:
        ShapeError, SpecError, UnsupportedError: as of ``attention``.

    Example:
        >>> import torch, headwise as hw
        >>> q = torch.randn(1, 2, 8, 16)
        >>> hw.explain(q, q, q, sinks=torch.zeros(2)).reasons["sdpa"]
        "torch's kernel has no sinks"
    """
    spec = AttentionSpec(mask, scores, scale, q_start, kv_heads, sinks, dropout, gate)
    plan = make_plan("explain", q, k, v, spec, observe, draw=False)
    chosen = choose("explain", plan, backend).name
    used, total, visible = tiles_counted(plan)
    return Explanation(chosen, all_reasons(plan), (used, total), visible, _cost(plan, visible, chosen))


def _cost(plan: Plan, visible: int, chosen: str) -> tuple[str, ...]:
    g = plan.geometry
    gflop = 2 * visible * g.H * (g.D + g.E) / 1e9
    lines = [f"arithmetic: {gflop:.3g} GFLOP on the visible cells of {g.H} heads; the pattern would take {_size(plan)}"]
    if plan.observers:
        asked = ", ".join(plan.observers)
        how = (
            "by their definitions, over the whole pattern"
            if chosen == Reference.name
            else "one further pass of blocked over the same tiles, O(T) memory"
        )
        lines.append(f"asked: {asked}; {how}")
    return tuple(lines)


def _size(plan: Plan) -> str:
    g = plan.geometry
    size = float(g.B * g.H * g.T * g.S * (8 if plan.dtype == torch.float64 else 4))
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:.3g} {unit}"


def _detached(plan: Plan) -> Plan:
    """The plan over the same numbers without their graph."""
    v = None if plan.v is None else plan.v.detach()
    return plan.rebind(plan.q.detach(), plan.k.detach(), v, [p.detach() for p in plan.parameters])


def _run(who: str, plan: Plan, wanted: BackendLike) -> tuple[Tensor, Tensor, Result]:
    """Output (gated), lse and the backend's result."""
    backend = choose(who, plan, wanted)
    with as_given(plan.geometry.device):
        out, lse, result = _computed(plan, backend)
        return (out if plan.spec.gate is None else _gated(out, plan.spec.gate, plan.dtype)), lse, result


def _computed(plan: Plan, backend: Backend) -> tuple[Tensor, Tensor, Result]:
    assert plan.v is not None
    tracked = torch.is_grad_enabled() and any(x.requires_grad for x in (plan.q, plan.k, plan.v, *plan.parameters))
    if isinstance(backend, Reference):
        result = backend.forward(plan)  # plain torch: autograd needs no help
        out, lse = result.out, result.lse
    elif tracked:
        box: list[Result] = []
        out, lse = _Differentiable.apply(plan, backend, box, plan.q, plan.k, plan.v, *plan.parameters)
        result = box[0]
    else:
        with torch.no_grad():
            result = backend.forward(plan)
        out, lse = result.out, result.lse
    return out, lse, result


def _gated(out: Tensor, gate: Tensor, dtype: torch.dtype) -> Tensor:
    """Each head's output times its gate; a gate of 0 gives 0 even where the output is NaN."""
    wide = gate.to(dtype)[..., None, None] if gate.dim() < 3 else gate.to(dtype)[..., None]
    kept = torch.where((wide == 0) & ~torch.isfinite(out), torch.zeros((), dtype=out.dtype, device=out.device), out)
    return (kept * wide).to(out.dtype)


def _watched(plan: Plan) -> list[Tensor]:
    """The mask's tensors that count their versions; those made in inference mode do not, and cannot be saved."""
    return [tensor for tensor in plan.conditions() if not tensor.is_inference()]


class _Differentiable(torch.autograd.Function):
    """One node in autograd's graph for a backend's forward and backward; second derivatives through the reference."""

    @staticmethod
    def forward(ctx: Any, plan: Plan, backend: Backend, box: list[Result], *tensors: Tensor) -> tuple[Tensor, Tensor]:
        bare = _detached(plan)
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
        tensors, rest = saved[: len(needs)], saved[len(needs) :]
        plan = ctx.plan.rebind(tensors[0], tensors[1], tensors[2], tensors[3:])
        with as_given(plan.geometry.device):
            if torch.is_grad_enabled():
                found = Reference().backward(plan, Result(rest[0], rest[1], None), grad_out, grad_lse, needs)
            else:
                found = _first_derivatives(ctx, _detached(plan), rest, grad_out, grad_lse, needs)
        return (None, None, None, found.q, found.k, found.v, *found.parameters)


def _first_derivatives(
    ctx: Any,
    plan: Plan,
    rest: Sequence[Tensor],
    grad_out: Tensor | None,
    grad_lse: Tensor | None,
    needs: Sequence[bool],
) -> Any:
    backend: Backend = ctx.backend
    facts = RowFacts(*rest[2:5]) if ctx.has_facts else None
    result = Result(rest[0], rest[1], facts)
    assert plan.v is not None
    if facts is None and (grad_lse is not None or grad_out is None or may_be_extreme(plan.v, grad_out, 1.0)):
        backend = Blocked()
        result = backend.forward(plan)
    return backend.backward(plan, result, grad_out, grad_lse, needs)
