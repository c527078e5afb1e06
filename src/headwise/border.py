"""The operators that torch sees: what is traced, compiled, exported or transformed goes through them, unopened.

``headwise::attention`` takes a spec as words, numbers and tensors (`spec.encoding`), checks it and runs the backend
that an ordinary call would run; its outputs are what ``headwise::attention_backward`` needs to differentiate it. Both
know the shapes of their results without computing them, their derivatives (the second by way of the reference), and
what to do with a further axis that torch.vmap adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd.forward_ad import _set_fwd_grad_enabled
from torch.autograd.function import _SingleLevelFunction

from headwise.backends import TABLE, Result, RowFacts, choose
from headwise.errors import UnsupportedError, sentence
from headwise.gradients import detached, first_derivatives, needed, second_derivatives
from headwise.plan import Plan, make_plan
from headwise.products import as_given
from headwise.spec import AttentionSpec
from headwise.spec.dropout import draw_seed
from headwise.spec.encoding import Encoded, decode, encode, unencodable
from headwise.tracing import number

__all__ = ["asked_of", "obstacle", "traced"]

_LIBRARY = torch.library.Library("headwise", "DEF")
_ASKED = "Tensor[] conditions, Tensor[] parameters, Tensor? seed, str words, SymInt[] ints, float[] floats, str backend"
_FOUND = "Tensor out, Tensor lse, Tensor max_logit, Tensor peak, Tensor log_total, Tensor note"
_LIBRARY.define(f"attention(Tensor q, Tensor k, Tensor v, {_ASKED}) -> ({_FOUND})")
_LIBRARY.define(
    f"attention_backward(Tensor? grad_out, Tensor? grad_lse, Tensor q, Tensor k, Tensor v, {_ASKED}, {_FOUND},"
    " bool[] needs) -> Tensor[]"
)
# A random number is drawn where torch's compiler sees it, so that it is not drawn again where a layer is recomputed.
_LIBRARY.define("seed(Tensor q, Tensor k, Tensor v) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))


def obstacle(q: Any, k: Any, v: Any, spec: AttentionSpec, backend: Any) -> str:
    """Why a call cannot go through the operator, as the first half of a sentence; "" where it can."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if not isinstance(x, Tensor):
            return f"{name} is a {type(x).__name__}"
    if backend is not None and not isinstance(backend, str):
        return f"the backend is a {type(backend).__name__}"
    return unencodable(spec)


def traced(q: Tensor, k: Tensor, v: Tensor, spec: AttentionSpec, backend: str | None) -> tuple[Tensor, Tensor]:
    """Output (before the gate) and lse, by the operator; nothing may be in the way."""
    asked = encode(spec)
    seed = torch.ops.headwise.seed.default(q, k, v) if spec.dropout > 0 else None
    found = torch.ops.headwise.attention.default(
        q, k, v, asked.conditions, asked.parameters, seed, asked.words, asked.ints, asked.floats, backend or ""
    )
    return found[0], found[1]


# --- what the operators compute ----------------------------------------------------------------------------------


class _Asked(NamedTuple):
    """What an operator is asked besides its operands."""

    conditions: list[Tensor]
    parameters: list[Tensor]
    seed: Tensor | None
    words: str
    ints: list[int]
    floats: list[float]
    backend: str

    def plan(self, q: Tensor, k: Tensor, v: Tensor) -> Plan:
        spec = decode(Encoded(self.words, self.ints, self.floats, self.conditions, self.parameters))
        plan = make_plan("attention", q, k, v, spec, draw=False)
        return plan if self.seed is None else replace(plan, seed=number(self.seed))


def asked_of(rest: Any) -> _Asked:
    """What the operator's arguments behind q, k and v say."""
    return _Asked(*rest)


def _attention(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    asked = asked_of(rest)
    plan = asked.plan(q, k, v)
    backend = choose("attention", plan, asked.backend or None)
    with as_given(q.device), torch.no_grad():
        result = backend.forward(plan)
    facts = result.facts or [torch.zeros_like(result.lse) for _ in range(3)]
    # Which backend ran, and whether it left facts; backward must not choose again, for it might choose otherwise.
    note = torch.tensor([TABLE.index(backend), result.facts is not None], dtype=torch.int64, device="cpu")
    rows = (x.contiguous() for x in (result.lse, *facts))
    return _laid_out(result.out, _blank_out(q, v)), *rows, note


def _attention_blank(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> tuple[Tensor, ...]:
    rows = [q.new_empty(q.shape[:-1], dtype=torch.promote_types(q.dtype, torch.float32)) for _ in range(4)]
    return _blank_out(q, v), *rows, torch.empty(2, dtype=torch.int64, device="cpu")


def _blank_out(q: Tensor, v: Tensor) -> Tensor:
    """An empty output whose heads lie side by side, as an output projection reads them.

    Operands that cannot be right have a shape too: they are refused when the call is run, by the sentence of plan.py.
    """
    if q.dim() != 4:
        return q.new_empty(q.shape)
    B, H, T, _ = q.shape
    return q.new_empty((B, T, H, v.shape[-1])).transpose(1, 2)


def _laid_out(x: Tensor, blank: Tensor) -> Tensor:
    """A result with the strides that were promised."""
    return x if x.stride() == blank.stride() else blank.copy_(x)


def _backward(grad_out: Tensor | None, grad_lse: Tensor | None, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Any:
    asked, (out, lse, *facts, note), needs = _Asked(*rest[:7]), rest[7:13], rest[13]
    backend, has_facts = note.tolist()
    result = Result(out, lse, RowFacts(*facts) if has_facts else None)
    plan = detached(asked.plan(q, k, v))
    # Inside an operator autograd is switched off below grad mode, and the reference's derivative is autograd's.
    with torch._C._SetExcludeDispatchKeyGuard(torch._C.DispatchKey.AutogradFunctionality, False):
        tangents = first_derivatives(plan, TABLE[backend], result, grad_out, grad_lse, needs)
    found = needed(tangents, (q, k, v, *asked.parameters), needs)
    blanks = _backward_blank(grad_out, grad_lse, q, k, v, *rest)
    return [_laid_out(x, blank) for x, blank in zip(found, blanks, strict=True)]


def _backward_blank(grad_out: Any, grad_lse: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> list[Tensor]:
    asked, needs = _Asked(*rest[:7]), rest[13]
    return [torch.empty_like(x) for x, need in zip((q, k, v, *asked.parameters), needs, strict=True) if need]


def _seed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return draw_seed()


def _seed_blank(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.empty((), dtype=torch.int64, device="cpu")


# --- their derivatives -------------------------------------------------------------------------------------------


class _Saved(NamedTuple):
    """How what an operator was asked is kept until its derivative is wanted: tensors with torch, the rest as it is."""

    asked: _Asked  # only what torch does not save
    unsaved: list[Tensor | None]

    @staticmethod
    def of(ctx: Any, asked: _Asked, *tensors: Tensor | None) -> _Saved:
        """Saves tensors and those that were asked with; torch notices when one is overwritten meanwhile."""
        # Tensors made in inference mode count no versions and cannot be saved.
        unsaved = [x if x.is_inference() else None for x in asked.conditions]
        watched = [x for x in asked.conditions if not x.is_inference()]
        ctx.save_for_backward(*tensors, asked.seed, *watched)
        return _Saved(asked._replace(conditions=[], parameters=[], seed=None), unsaved)

    def back(self, seed: Tensor | None, watched: Sequence[Tensor], parameters: Sequence[Tensor]) -> _Asked:
        left = iter(watched)
        conditions = [next(left) if x is None else x for x in self.unsaved]
        return self.asked._replace(conditions=conditions, parameters=list(parameters), seed=seed)


class _Node(_SingleLevelFunction):
    """A node in autograd's graph that is made below torch's transforms, one level of them at a time."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        rule = "forward-mode derivatives are the reference backend's alone"
        todo = 'Ask for backend="reference", or for derivatives in reverse mode (grad, vjp, jacrev).'
        raise UnsupportedError(sentence("attention", "a forward-mode derivative is wanted", rule, todo=todo))


class _Attention(_Node):
    @staticmethod
    def forward(ctx: Any, below: Callable[..., Any], asked: _Asked, *operands: Tensor) -> tuple[Tensor, ...]:
        found: tuple[Tensor, ...] = below(*operands[:3], *asked)
        ctx.asked = _Saved.of(ctx, asked, *operands, *found)
        ctx.mark_non_differentiable(*found[2:])
        ctx.set_materialize_grads(False)
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        needs = ctx.needs_input_grad[2:]
        if grads[0] is None and grads[1] is None:
            return (None,) * (2 + len(needs))
        n = len(needs)
        operands, found, seed, watched = _cut(ctx.saved_tensors, n, 6)
        asked = ctx.asked.back(seed, watched, operands[3:])
        backward = torch.ops.headwise.attention_backward.default
        made = iter(backward(grads[0], grads[1], *operands[:3], *asked, *found, list(needs)))
        return (None, None, *(next(made) if need else None for need in needs))


class _AttentionBackward(_Node):
    @staticmethod
    def forward(
        ctx: Any, below: Callable[..., Any], asked: _Asked, found: Sequence[Tensor], needs: list[bool], *operands: Any
    ) -> tuple[Tensor, ...]:
        ctx.needs, ctx.asked = needs, _Saved.of(ctx, asked, *operands)
        return tuple(below(*operands[:5], *asked, *found, needs))

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Any, ...]:
        operands, _, seed, watched = _cut(ctx.saved_tensors, 2 + len(ctx.needs), 0)
        grad_out, grad_lse, q, k, v, *parameters = operands
        plan = ctx.asked.back(seed, watched, parameters).plan(q, k, v)
        return (None,) * 4 + second_derivatives(plan, grad_out, grad_lse, ctx.needs, cotangents)


def _cut(saved: Sequence[Any], first: int, second: int) -> tuple[Any, Any, Any, Any]:
    """Saved tensors as their first few, the next few, one, and the rest."""
    middle = first + second
    return saved[:first], saved[first:middle], saved[middle], saved[middle + 1 :]


def _below(op: Any, keyset: Any) -> Callable[..., Any]:
    """The operator as it is below autograd."""

    def call(*args: Any) -> Any:
        # A node's forward has no grad mode, but a transform outside of this one may have to follow it.
        with torch._C._AutoDispatchBelowAutograd(), torch.enable_grad(), _set_fwd_grad_enabled(True):
            return op.redispatch(keyset & torch._C._after_autograd_keyset, *args)

    return call


def _attention_tracked(keyset: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Any:
    asked, below = _Asked(*rest), _below(torch.ops.headwise.attention.default, keyset)
    with enable_single_level_autograd_function():
        return _Attention.apply(below, asked, q, k, v, *asked.parameters)  # type: ignore[attr-defined]


def _backward_tracked(keyset: Any, grad_out: Any, grad_lse: Any, q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Any:
    asked, below = _Asked(*rest[:7]), _below(torch.ops.headwise.attention_backward.default, keyset)
    with enable_single_level_autograd_function():
        operands = (grad_out, grad_lse, q, k, v, *asked.parameters)
        found = _AttentionBackward.apply(below, asked, rest[7:13], rest[13], *operands)  # type: ignore[attr-defined]
        return list(found)


# --- a further axis ----------------------------------------------------------------------------------------------


def _attention_mapped(info: Any, dims: Sequence[Any], *args: Any) -> tuple[Any, Any]:
    """The rule of torch.vmap: the axis joins the batch, or the calls are made one by one."""
    op = torch.ops.headwise.attention.default
    if not _says_the_same_of_all(args[3:]):
        found = [torch.stack(parts) for parts in zip(*_one_by_one(op, info, dims, args), strict=True)]
        return tuple(found), (0,) * len(found)
    *found, note = op(*(_folded(x, dim, info.batch_size) for x, dim in zip(args, dims, strict=True)))
    return (*(_unfolded(x, info.batch_size) for x in found), note), (*[0] * len(found), None)


def _backward_mapped(info: Any, dims: Sequence[Any], *args: Any) -> tuple[Any, Any]:
    op = torch.ops.headwise.attention_backward.default
    note, needs = args[-2:]
    if dims[-2] is not None or not _says_the_same_of_all(args[5:]):
        found = [torch.stack(parts) for parts in zip(*_one_by_one(op, info, dims, args), strict=True)]
    else:
        folded = (_folded(x, dim, info.batch_size) for x, dim in zip(args[:-2], dims[:-2], strict=True))
        found = [_unfolded(x, info.batch_size) for x in op(*folded, note, needs)]
    return found, [0] * len(found)


def _says_the_same_of_all(rest: Sequence[Any]) -> bool:
    """Whether a spec, without tensors and dropout, does not tell one sequence of the batch from another."""
    asked = _Asked(*rest[:7])
    return not asked.conditions and not asked.parameters and asked.seed is None


def _one_by_one(op: Any, info: Any, dims: Sequence[Any], args: Sequence[Any]) -> list[Any]:
    def pick(x: Any, dim: Any, n: int) -> Any:
        if isinstance(dim, (list, tuple)):
            return [pick(part, of_part, n) for part, of_part in zip(x, dim, strict=True)]
        return x if dim is None else x.select(dim, n)

    return [op(*pick(args, dims, n)) for n in range(info.batch_size)]


def _folded(x: Any, dim: Any, size: int) -> Any:
    """A tensor with the further axis in its batch."""
    if not isinstance(x, Tensor):
        return x
    return (x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)).flatten(0, 1)


def _unfolded(x: Tensor, size: int) -> Tensor:
    return x.unflatten(0, (size, x.shape[0] // size))


def _seed_mapped(info: Any, dims: Sequence[Any], *operands: Any) -> tuple[Tensor, None]:
    return draw_seed(), None  # torch.randint knows vmap's randomness: an error, one number for all, or one for each


def _register() -> None:
    for name, run, blank, mapped in (
        ("attention", _attention, _attention_blank, _attention_mapped),
        ("attention_backward", _backward, _backward_blank, _backward_mapped),
        ("seed", _seed, _seed_blank, _seed_mapped),
    ):
        _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"headwise::{name}", blank, lib=_LIBRARY)
        torch.library.register_vmap(f"headwise::{name}", mapped, lib=_LIBRARY)
    _LIBRARY.impl("attention", _attention_tracked, "Autograd", with_keyset=True)
    _LIBRARY.impl("attention_backward", _backward_tracked, "Autograd", with_keyset=True)


_register()
