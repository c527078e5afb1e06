"""The operations: ``attention`` (the output), ``attend`` (the output and answers about the pattern), ``explain``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Never

from headwise.answering import answer, check_numbers
from headwise.backends import Backend, Blocked, Reference, Result, all_reasons, choose, quick, running, stored
from headwise.backends.tiling import tiles_counted
from headwise.border import obstacle, traced
from headwise.elsewhere import not_taken, without_others
from headwise.errors import UnsupportedError, sentence
from headwise.gradients import computed, detached
from headwise.pattern import Pattern
from headwise.plan import Plan, check_devices, check_gate, make_plan
from headwise.products import as_given
from headwise.spec import AttentionSpec, Causal, Mask, Rules, Stored, Window
from headwise.spec.checks import FAR
from headwise.spec.stored import dense_of
from headwise.tracing import break_graph, compiling, followed, uncompiled

__all__ = ["Attended", "Explanation", "attend", "attention", "explain"]

BackendLike = str | Backend | None

_BY_NAME = "Write mask=headwise.Causal() or another mask, scores=(...), and every other option by its name."


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


@without_others
def attention(
    q: Tensor,
    k: Tensor | Stored,
    v: Tensor | Stored,
    *others: Never,
    mask: Mask | None = None,
    scores: Sequence[Rules] = (),
    scale: float | None = None,
    q_start: int | Tensor | None = None,
    kv_heads: Sequence[int] | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
    gate: Tensor | None = None,
    backend: BackendLike = None,
    **names: Never,
) -> Tensor:
    """Multi-head attention: ``out = gate * softmax(rules(scale * q k^T) + mask) v``, head by head.

    Args:
        q: queries [B, H, T, D], float16, bfloat16, float32 or float64; any strides.
        k: keys [B, Hk, S, D]; query head h reads key head h // (H / Hk), so Hk = H is plain multi-head attention,
            Hk < H grouped, Hk = 1 multi-query.
        v: values [B, Hk, S, E]. Keys and values may also be stored otherwise: ``Paged``, ``Quantised``.
        mask: which keys a query may attend to, True = may; masks combine with & and |. None = all.
        scores: score rules, applied in order before the mask.
        scale: factor on q.k; None = 1/sqrt(D).
        q_start: position of query 0 on the key axis, int or integer [B]; None = S - T, last with last.
        kv_heads: for each query head the key/value head that it reads; None = h // (H / Hk).
        sinks: float [H], one extra logit a row, in the softmax's denominator only.
        dropout: probability to drop a cell after the softmax; explicit, so a module passes 0 in eval.
        gate: float [H], [B, H] or [B, H, T], scales a head's output; 0 gives exactly 0.
        backend: "native", "sdpa", "blocked", "reference" or a backend object; None = the first of these that does not
                refuse.
        others, names: nothing; who writes what torch calls otherwise is told what to write here.

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
    if others or names:
        raise not_taken("attention", attention, others, names, _BY_NAME)
    if not torch.compiler.is_compiling():
        out = _quick(q, k, v, mask, scores, scale, q_start, kv_heads, sinks, dropout, gate, backend)
        if out is not None:
            return out
    spec = AttentionSpec(mask, scores, scale, q_start, kv_heads, sinks, dropout, gate)
    if isinstance(k, Stored) or isinstance(v, Stored):
        out = _stored(q, k, v, spec, backend)
        if out is not None:
            return out
    keys, values = dense_of(k), dense_of(v)
    if followed(q, keys, values):
        return _followed(q, keys, values, spec, backend)
    return _attention(q, keys, values, spec, backend)


# A Pattern is a lazy object of Python and an observer any object whose methods see tiles: no graph holds them.
@uncompiled("attend: a pattern and the answers of observers are no tensors, which torch.compile cannot put in a graph")
@without_others
def attend(
    q: Tensor,
    k: Tensor | Stored,
    v: Tensor | Stored,
    *others: Never,
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
    **names: Never,
) -> Attended:
    """Attention, and whatever is asked of its pattern, which is never stored.

    Args:
        q, k, v, mask, scores, scale, q_start, kv_heads, sinks, dropout, gate, backend: as of ``attention``.
        observe: questions, ``[hw.Entropy(), hw.TopKeys(8)]``. Observing changes neither the output, by one bit, nor
            which backend computes it.

    Returns:
        Attended: .out, .lse, .pattern and .seen, the answers by name.

    Under the derivatives of torch.func (grad, vjp, jacrev) .out and .lse are differentiated, and answers are plain
    numbers. torch.vmap maps .out and .lse alone: a pattern that it maps answers nothing, unless ``backend`` is
    "reference", whose .seen is mapped as well.

    Raises:
        ShapeError, SpecError: as of ``attention``.
        UnsupportedError: as of ``attention``; or torch.vmap maps a call whose pattern is asked.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 2, 3, 4)
        >>> got = hw.attend(x, x, x, mask=hw.Causal(), observe=[hw.Entropy()])
        >>> got.seen["entropy"][0, 0]
        tensor([0.0000, 0.6931, 1.0986])
        >>> got.pattern[0, 0, 2, :]
        tensor([0.3333, 0.3333, 0.3333])
    """
    if others or names:
        raise not_taken("attend", attend, others, names, _BY_NAME)
    spec = AttentionSpec(mask, scores, scale, q_start, kv_heads, sinks, dropout, gate)
    keys, values = dense_of(k), dense_of(v)
    definition = backend == "reference" or isinstance(backend, Reference)
    if not definition and followed(q, keys, values):
        return _transformed(q, keys, values, spec, backend, observe)
    plan = make_plan("attend", q, keys, values, spec, observe)
    out, lse, result = _run("attend", plan, backend)
    bare = detached(plan)
    facts = None if result.facts is None else type(result.facts)(*(fact.detach() for fact in result.facts))
    portable = _portable(backend)
    seen = answer(bare, facts, entropy=result.entropy, known=result.answers, definition=definition, portable=portable)
    pattern = Pattern.of_plan(bare, facts, result.entropy)
    return Attended(out, lse.float() if plan.dtype != torch.float64 else lse, pattern, seen)


@uncompiled("explain: an explanation is no tensor, which torch.compile cannot put in a graph")
@without_others
def explain(
    q: Tensor,
    k: Tensor | Stored,
    v: Tensor | Stored,
    *others: Never,
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
    **names: Never,
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
    if others or names:
        raise not_taken("explain", explain, others, names, _BY_NAME)
    spec = AttentionSpec(mask, scores, scale, q_start, kv_heads, sinks, dropout, gate)
    plan = make_plan("explain", q, dense_of(k), dense_of(v), spec, observe, draw=False)
    chosen = choose("explain", plan, backend, runs=False).name
    used, total, visible = tiles_counted(plan)
    return Explanation(chosen, all_reasons(plan), (used, total), visible, _cost(plan, visible, chosen))


def _cost(plan: Plan, visible: int, chosen: str) -> tuple[str, ...]:
    g = plan.geometry
    gflop = 2 * visible * g.H * (g.D + g.E) / 1e9
    lines = [f"arithmetic: {gflop:.3g} GFLOP on the visible cells of {g.H} heads; the pattern would take {_size(plan)}"]
    if chosen == "native":
        lines.insert(0, f"native runs {running()}")
    if plan.observers:
        asked = ", ".join(plan.observers)
        how = (
            "by their definitions, over the whole pattern"
            if chosen == Reference.name
            else "one pass over the same tiles, O(T) memory"
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


def _quick(
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    scores: Any,
    scale: Any,
    q_start: Any,
    kv_heads: Any,
    sinks: Any,
    dropout: Any,
    gate: Any,
    backend: Any,
) -> Tensor | None:
    """The output of a call so plain that planning it may take longer than the work; None for any other call.

    Plain is: a band of keys or all of them, no other option, tensors of no subclass, no derivative wanted, nobody who
    follows. Whatever else there is to check, the kernels' quick call checks, and the long way says.
    """
    if not (type(q) is type(k) is type(v) is Tensor):
        return None
    if not (kv_heads is sinks is gate is None and type(scores) is tuple and not scores):
        return None
    if not (type(dropout) is float and dropout == 0.0 and (backend is None or backend == "native")):
        return None
    if q_start is not None and type(q_start) is not int:
        return None
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return None
    if torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack():
        return None
    kind = type(mask)
    if mask is None:
        return quick(q, k, v, scale, None, None, q_start)
    if kind is Causal and mask.align == "end":
        return quick(q, k, v, scale, None, 0, q_start)
    if kind is Window and (mask.before or 0) <= FAR and (mask.after or 0) <= FAR:
        return quick(q, k, v, scale, mask.before, mask.after, q_start)
    return None


def _blank(x: Any) -> Any:
    return x.blank() if isinstance(x, Stored) else x


def _stored(
    q: Tensor, k: Tensor | Stored, v: Tensor | Stored, spec: AttentionSpec, backend: BackendLike
) -> Tensor | None:
    """The output over stored keys or values, read as they lie; None where that cannot be, so that they are made dense.

    Whatever else there is to check, a plan over blanks of their shapes checks.
    """
    given = [part for x in (q, k, v) for part in (x.tensors() if isinstance(x, Stored) else (x,))]
    if backend not in (None, "native") or spec.dropout or followed(*given):
        return None
    if torch.is_grad_enabled() and any(isinstance(x, Tensor) and x.requires_grad for x in given):
        return None
    plan = make_plan("attention", q, _blank(k), _blank(v), spec)
    if torch.is_grad_enabled() and any(p.requires_grad for p in plan.parameters):
        return None
    out = stored(plan, k, v)
    return out if out is None or spec.gate is None else _gated(out, spec.gate, plan.dtype)


def _attention(q: Tensor, k: Tensor, v: Tensor, spec: AttentionSpec, backend: BackendLike) -> Tensor:
    return _run("attention", make_plan("attention", q, k, v, spec), backend)[0]


def _followed(q: Tensor, k: Tensor, v: Tensor, spec: AttentionSpec, backend: BackendLike) -> Tensor:
    """The output of a call that torch compiles, exports or transforms: by the operator, which stays closed to it."""
    if not compiling() and (backend == "reference" or isinstance(backend, Reference)):
        return _attention(q, k, v, spec, backend)  # plain torch, which every transform of torch's follows by itself
    why = obstacle(q, k, v, spec, backend)
    if why and torch.compiler.is_dynamo_compiling():
        break_graph(_not_followed("attention", why))
        return torch.compiler.disable(_attention)(q, k, v, spec, backend)
    return _by_operator("attention", q, k, v, spec, backend)[0]


def _by_operator(
    who: str, q: Tensor, k: Tensor, v: Tensor, spec: AttentionSpec, backend: BackendLike
) -> tuple[Tensor, Tensor]:
    """Output (gated) and lse by the operator."""
    why = obstacle(q, k, v, spec, backend)
    if why:
        raise UnsupportedError(_not_followed(who, why))
    check_devices(who, q, k, v)
    if spec.gate is not None:
        check_gate(who, q, k, v, spec.gate)
    out, lse = traced(q, k, v, spec, backend)  # type: ignore[arg-type]  # a backend that is no name is an obstacle
    return (out if spec.gate is None else _gated(out, spec.gate, q.dtype)), lse


def _transformed(
    q: Tensor, k: Tensor, v: Tensor, spec: AttentionSpec, backend: BackendLike, observe: Sequence[Any]
) -> Attended:
    """``attend`` where torch transforms or traces: the operator's output and lse, the pattern below derivatives."""
    if observe:
        check_numbers("attend", q, k, v)
    plan = make_plan("attend", q, k, v, spec, observe, draw=False)
    out, lse = _by_operator("attend", q, k, v, spec, backend)
    pattern = Pattern.of_plan(detached(plan))
    seen = pattern._ask(list(observe), portable=_portable(backend)) if observe else {}
    return Attended(out, lse, pattern, seen)


def _portable(backend: BackendLike) -> bool:
    """Whether answers may not come from the kernels: who names the blocked backend is answered by it too."""
    return backend == "blocked" or isinstance(backend, Blocked)


def _not_followed(who: str, why: str) -> str:
    rule = "what torch compiles, exports or transforms is handed over in words, numbers and tensors"
    return sentence(who, why, rule, todo="Say it with another mask, rule or backend, or call it outside.")


def _run(who: str, plan: Plan, wanted: BackendLike) -> tuple[Tensor, Tensor, Result]:
    """Output (gated), lse and the backend's result."""
    backend = choose(who, plan, wanted)
    with as_given(plan.geometry.device):
        out, lse, result = computed(plan, backend)
        return (out if plan.spec.gate is None else _gated(out, plan.spec.gate, plan.dtype)), lse, result


def _gated(out: Tensor, gate: Tensor, dtype: torch.dtype) -> Tensor:
    """Each head's output times its gate; a gate of 0 gives 0 even where the output is NaN."""
    wide = gate.to(dtype).unsqueeze(-1)
    wide = wide.unsqueeze(-1) if gate.dim() < 3 else wide
    kept = torch.where(
        (wide == 0) & torch.isfinite(out).logical_not(), torch.zeros((), dtype=out.dtype, device=out.device), out
    )
    return (kept * wide).to(out.dtype)
