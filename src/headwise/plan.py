"""From what was asked to what is done: every check of a call's operands, every default, every lowering, once."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise.errors import HeadwiseError, ShapeError, SpecError, axes, sentence
from headwise.observers import Observer, named
from headwise.spec import AttentionSpec, Cells, Geometry, Intervals, Mask, Rules, ScoreRule
from headwise.spec.checks import FAR, is_integer, of_class
from headwise.spec.dropout import draw_seed
from headwise.spec.pieces import Piece, pieces_of
from headwise.tracing import number, readable

__all__ = ["Chunk", "Plan", "check_gate", "make_plan"]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Batch rows and query heads that are worked on together; their key/value heads are one slice.

    Attributes:
        batch: batch rows.
        heads: query heads.
        kv: the key/value heads they read, each read by ``group`` consecutive query heads.
        group: query heads a key/value head.
    """

    batch: slice
    heads: slice
    kv: slice
    group: int


@dataclass(frozen=True, eq=False)
class Plan:
    """A checked call: operands, options with their defaults filled in, and the mask as intervals.

    Attributes:
        q, k: queries [B, H, T, D] and keys [B, Hk, S, D].
        v: values [B, Hk, S, E], or None for a bare pattern.
        spec: the options as given.
        geometry: sizes and positions.
        scale: the factor on q.k.
        kv_heads: the key/value head of each query head.
        seed: of the dropped cells; None without dropout.
        observers: the questions by the key of their answer.
    """

    q: Tensor
    k: Tensor
    v: Tensor | None
    spec: AttentionSpec
    geometry: Geometry
    scale: float
    kv_heads: tuple[int, ...]
    seed: int | None
    observers: dict[str, Any]

    @cached_property
    def intervals(self) -> Intervals:
        """The mask as runs of keys."""
        if self.spec.mask is None:
            return Intervals.everything(self.geometry)
        return self.spec.mask.intervals(self.geometry)

    @cached_property
    def pieces(self) -> list[Piece] | None:
        """The mask as one rectangle or triangle of cells a batch row; None where it is not."""
        g = self.geometry
        if self.spec.mask is None:
            return [Piece(slice(0, g.B), slice(0, g.T), slice(0, g.S), False)]
        return pieces_of(self.intervals, g)

    @property
    def dtype(self) -> torch.dtype:
        """What is computed in: float64 for float64 operands, else float32."""
        return torch.float64 if self.q.dtype == torch.float64 else torch.float32

    @property
    def uniform_groups(self) -> bool:
        """Whether query head h reads key/value head h // G."""
        group = self.geometry.H // self.geometry.Hk if self.geometry.Hk else 0
        return group * self.geometry.Hk == self.geometry.H and all(
            kv == h // group for h, kv in enumerate(self.kv_heads)
        )

    @property
    def parameters(self) -> tuple[Tensor, ...]:
        """Tensors besides q, k, v that may carry a gradient through the backend: score rules' in order, then sinks."""
        found = [p for p in (rule.parameter() for rule in self.spec.scores) if p is not None]
        return tuple(found) + (() if self.spec.sinks is None else (self.spec.sinks,))

    def rebind(self, q: Tensor, k: Tensor, v: Tensor | None, parameters: Sequence[Tensor]) -> Plan:
        """The same plan over other tensors of the same shapes; parameters as ``parameters`` orders them."""
        left = list(parameters)
        scores = tuple(
            rule if rule.parameter() is None else rule.with_parameter(left.pop(0)) for rule in self.spec.scores
        )
        sinks = None if self.spec.sinks is None else left.pop(0)
        return self._like(q=q, k=k, v=v, spec=replace(self.spec, scores=scores, sinks=sinks))

    def hollow(self) -> Plan:
        """The plan without its operands, to be filled again by ``rebind``."""
        v = None if self.v is None else self.v.new_empty(0)
        return self._like(q=self.q.new_empty(0), k=self.k.new_empty(0), v=v)

    def asking(self, observers: dict[str, Any]) -> Plan:
        """The same plan with other questions."""
        return self._like(observers=observers)

    def basic(self) -> Plan:
        """The same plan with each score rule as the kernels know it; ``Rules.pull_basic`` leads gradients back."""
        return self._like(spec=replace(self.spec, scores=tuple(rule.basic() for rule in self.spec.scores)))

    def _like(self, **changes: Any) -> Plan:
        """A changed plan with the same mask, which need not be lowered again."""
        plan = replace(self, **changes)
        for lowered in ("intervals", "pieces"):
            if lowered in self.__dict__:
                plan.__dict__[lowered] = self.__dict__[lowered]
        return plan

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Plan:
        """The same plan over what ``change`` makes of each of its tensors."""
        mask, start = self.spec.mask, self.geometry.q_start
        scores = tuple(rule.mapped(change) for rule in self.spec.scores)
        spec = replace(self.spec, mask=None if mask is None else mask.mapped(change), scores=scores)
        geometry = replace(self.geometry, q_start=change(start) if isinstance(start, Tensor) else start)
        v = None if self.v is None else change(self.v)
        plan = replace(self, spec=spec, geometry=geometry)
        return plan.rebind(change(self.q), change(self.k), v, [change(p) for p in self.parameters])

    def conditions(self) -> tuple[Tensor, ...]:
        """The tensors that say what is visible and where things stand; none of them carries a gradient."""
        start = () if not isinstance(self.geometry.q_start, Tensor) else (self.geometry.q_start,)
        rules = tuple(tensor for rule in self.spec.scores for tensor in rule.conditions())
        return (() if self.spec.mask is None else self.spec.mask.tensors()) + rules + start

    def tensors(self) -> list[Tensor]:
        """Every tensor that the pattern depends on, and its values."""
        found = [self.q, self.k] + ([] if self.v is None else [self.v])
        return [*found, *self.parameters, *self.conditions()]

    def apply_rules(self, score: Tensor, cells: Cells) -> tuple[Tensor, Tensor | None, list[Tensor]]:
        """The score rules, in order.

        Args:
            score: ``q.k * scale`` [b, h, n, m].
            cells: where it lies.

        Returns:
            The scores after the rules, the cells that a rule hid (bool, or None), and the scores before each rule.
        """
        hidden, before = None, []
        rules = self.spec.scores
        for left, rule in zip(reversed(range(len(rules))), rules, strict=True):
            before.append(score)
            score = rule.apply(score, cells)
            gone = rule.hidden(cells)
            if gone is None and left and isinstance(rule, ScoreRule):
                gone = score == float("-inf")
            if gone is not None:
                hidden = gone if hidden is None else hidden | gone
                if left:  # a later rule must neither bring a hidden cell back nor make a NaN of its -inf
                    score = score.masked_fill(gone, 0.0)
        return score, hidden, before


_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class _Call(NamedTuple):
    """Who calls, with what: an error's sentence names both, and is only written when there is one."""

    who: str
    q: Tensor
    k: Tensor
    v: Tensor | None

    def error(self, kind: type[HeadwiseError], what: str, rule: str, todo: str = "") -> HeadwiseError:
        """An error with the call's shapes in it."""
        shown = [axes("q", self.q, "B H T D"), axes("k", self.k, "B Hk S D")]
        shown += [] if self.v is None else [axes("v", self.v, "B Hk S E")]
        return kind(sentence(self.who, what, rule, ", ".join(shown), todo))


def make_plan(
    who: str,
    q: Tensor,
    k: Tensor,
    v: Tensor | None,
    spec: AttentionSpec,
    observe: Sequence[Any] = (),
    draw: bool = True,
) -> Plan:
    """Checks a call and fills in its defaults; without ``draw`` no dropout seed is taken from torch's generator.

    Raises:
        ShapeError: shapes, dtypes or devices disagree.
        SpecError: an option has no meaning.
    """
    call = _Call(who, q, k, v)
    _check_operands(call)
    scores = _scores(call, spec.scores)
    (B, H, T, D), (_, Hk, S, _) = q.shape, k.shape
    E = D if v is None else v.shape[-1]
    kv_heads = _kv_heads(call, spec.kv_heads, H, Hk)
    if scores is not spec.scores or spec.kv_heads is not None:
        spec = replace(spec, scores=scores, kv_heads=None if spec.kv_heads is None else kv_heads)
    q_start = _q_start(call, spec.q_start, B, T, S)
    geometry = Geometry(B, H, Hk, T, S, D, E, q_start, q.device)
    scale = _scale(call, spec.scale, D)
    _check_options(call, spec, geometry)
    observers = named(observe)
    for observer in observers.values():
        if isinstance(observer, Observer):
            observer.check(geometry, v is not None)
    seed = number(draw_seed()) if draw and spec.dropout > 0 else None
    return Plan(q, k, v, spec, geometry, scale, kv_heads, seed, observers)


def _check_operands(call: _Call) -> None:
    who, q, k, v = call
    operands = {"q": q, "k": k} if v is None else {"q": q, "k": k, "v": v}
    for name, x in operands.items():
        if not isinstance(x, Tensor):
            raise SpecError(sentence(who, f"{name} is a {type(x).__name__}", "q, k and v are torch tensors"))
        if x.dim() != 4:
            letters = {"q": "B,H,T,D", "k": "B,Hk,S,D", "v": "B,Hk,S,E"}[name]
            todo = "Add the missing axis with unsqueeze, or view the heads out of the model width."
            what = f"{name} has {x.dim()} axes"
            raise ShapeError(sentence(who, what, f"it is [{letters}]", axes(name, x, ""), todo))
    for name, x in operands.items():
        if x.layout != torch.strided:
            raise call.error(ShapeError, f"{name} is {x.layout}", "q, k and v are strided tensors", "Use .to_dense().")
        if x.dtype not in _FLOATS:
            rule = "q, k and v are float16, bfloat16, float32 or float64"
            raise call.error(ShapeError, f"{name} is {x.dtype}", rule)
        if x.dtype != q.dtype:
            what = f"{name} is {x.dtype}, q is {q.dtype}"
            raise call.error(ShapeError, what, "q, k and v share one dtype", f"Cast with {name}.to(q.dtype).")
        _check_device(call, name, x)
        if x.shape[0] != q.shape[0]:
            what = f"{name} has batch {x.shape[0]}, q has {q.shape[0]}"
            todo = f"Expand with {name}.expand(B, -1, -1, -1); strides are free, nothing is copied."
            raise call.error(ShapeError, what, "q, k and v share the batch", todo)
    if k.shape[-1] != q.shape[-1]:
        what = f"k has width {k.shape[-1]}, q has {q.shape[-1]}"
        raise call.error(ShapeError, what, "queries and keys share the width D")
    if q.shape[-1] == 0:
        raise call.error(ShapeError, "q and k have width 0", "a head needs a width D of at least 1")
    if v is not None and v.shape[1:3] != k.shape[1:3]:
        what = f"v has {v.shape[1]} heads and {v.shape[2]} keys, k has {k.shape[1]} and {k.shape[2]}"
        raise call.error(ShapeError, what, "every key has one value")


_ONE_DEVICE = "all operands live on one device"


def _kv_heads(call: _Call, given: Any, H: int, Hk: int) -> tuple[int, ...]:
    if given is None:
        if Hk == 0 and H == 0:
            return ()
        if Hk == 0 or H % Hk:
            good = [str(n) for n in range(1, H + 1) if H % n == 0]
            listed = " or ".join([", ".join(good[:-1]), good[-1]] if len(good) > 1 else good)
            todo = f"Use {listed} key heads, or say with kv_heads which key head each query head reads."
            what = f"k has {Hk} heads, q has {H}"
            raise call.error(ShapeError, what, "the key heads must divide the query heads", todo)
        return tuple(h // (H // Hk) for h in range(H))
    try:
        heads = tuple(operator.index(None if isinstance(n, bool) else n) for n in given)  # type: ignore[arg-type]
    except TypeError:
        raise call.error(SpecError, f"kv_heads is {given!r}", f"it is a list of H={H} ints") from None
    if len(heads) != H or not all(0 <= n < Hk for n in heads):
        rule = f"it names, for each of the H={H} query heads, a key/value head 0 to {Hk - 1}"
        raise call.error(SpecError, f"kv_heads is {list(heads)}", rule)
    return heads


def _scores(call: _Call, given: Any) -> tuple[Rules, ...]:
    rules = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else None
    wrong = [given] if rules is None else [rule for rule in rules if not isinstance(rule, Rules)]
    if wrong:
        shown = f"scores {'is' if rules is None else 'holds'} {wrong[0]!r}"
        what, made = of_class(wrong[0], Rules, "score rule") or (shown, "")
        todo = f"Write scores=({made or 'hw.SoftCap(30.0)'},)."
        raise call.error(SpecError, what, "scores is a sequence of score rules", todo)
    return rules or ()


def _q_start(call: _Call, given: Any, B: int, T: int, S: int) -> int | Tensor:
    if given is None:
        return S - T
    if isinstance(given, int) and not isinstance(given, bool):
        if abs(given) > FAR:
            raise call.error(SpecError, f"q_start is {given}", f"a position lies between -{FAR} and {FAR}")
        return given
    if not is_integer(given) or tuple(given.shape) not in ((), (B,)):
        shown = f"q_start is {given!r}"
        if isinstance(given, Tensor):
            shown = f"{axes('q_start', given, 'B')} of {given.dtype}"
        raise call.error(SpecError, shown, f"q_start is an int or an integer tensor [B={B}]")
    if given.dim() == 0:
        return _q_start(call, int(given), B, T, S)
    starts: Tensor = given.to(torch.int64)
    if given.device.type == "cpu" and readable(given) and bool(((starts > FAR) | (starts < -FAR)).any()):
        raise call.error(SpecError, f"q_start is {given.tolist()}", f"a position lies between -{FAR} and {FAR}")
    _check_device(call, "q_start", given)
    return starts


def _scale(call: _Call, given: Any, D: int) -> float:
    if given is None:
        return 1.0 / math.sqrt(D)
    try:
        scale = float(given) if isinstance(given, (int, float)) and not isinstance(given, bool) else math.nan
    except OverflowError:  # an int beyond all floats
        scale = math.inf
    if not math.isfinite(scale):
        raise call.error(SpecError, f"scale is {given!r}", "it is a finite number, or None for 1/sqrt(D)")
    return scale


def _check_options(call: _Call, spec: AttentionSpec, geometry: Geometry) -> None:
    if spec.mask is not None and not isinstance(spec.mask, Mask):
        shown = f"a {spec.mask.dtype} tensor" if isinstance(spec.mask, Tensor) else repr(spec.mask)
        what, made = of_class(spec.mask, Mask, "mask") or (f"mask is {shown}", "")
        todo = (
            "Wrap a bool keep-mask (True = may attend) in hw.Dense(keep); a float mask that is added goes in"
            " scores=(hw.Bias(tensor),)."
        )
        if isinstance(spec.mask, (bool, str)):
            todo = "Write hw.Causal() for the usual one."
        raise call.error(SpecError, what, "a mask is one of headwise's masks", f"Write {made}." if made else todo)
    if isinstance(spec.dropout, bool) or not isinstance(spec.dropout, (int, float)) or not 0 <= spec.dropout < 1:
        raise call.error(SpecError, f"dropout is {spec.dropout!r}", "it is a probability, 0 or more and below 1")
    B, H, T = geometry.B, geometry.H, geometry.T
    _check_vector(call, "sinks", spec.sinks, ((H,),))
    _check_vector(call, "gate", spec.gate, ((H,), (B, H), (B, H, T)))
    held = [] if spec.mask is None else [("the mask", tensor) for tensor in spec.mask.tensors()]
    held += [
        (type(rule).__name__, tensor)
        for rule in spec.scores
        for tensor in (rule.parameter(), *rule.conditions())
        if tensor is not None
    ]
    for name, tensor in held:
        if tensor.device != geometry.device:
            raise call.error(ShapeError, f"{name} is on {tensor.device}, q on {geometry.device}", _ONE_DEVICE)
    if spec.mask is not None:
        spec.mask.check(geometry)
    for rule in spec.scores:
        rule.check(geometry)


def check_devices(who: str, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Checks where operands live, for a call whose numbers torch does not look at."""
    call = _Call(who, q, k, v)
    for name, x in (("k", k), ("v", v)):
        _check_device(call, name, x)


def _check_device(call: _Call, name: str, x: Tensor) -> None:
    if x.device != call.q.device:
        raise call.error(ShapeError, f"{name} is on {x.device}, q on {call.q.device}", _ONE_DEVICE)


def check_gate(who: str, q: Tensor, k: Tensor, v: Tensor, gate: Any) -> None:
    """Checks a gate alone, for a call whose other options are checked elsewhere."""
    if q.dim() == 4:
        B, H, T, _ = q.shape
        _check_vector(_Call(who, q, k, v), "gate", gate, ((H,), (B, H), (B, H, T)))


def _check_vector(call: _Call, name: str, value: Any, allowed: tuple[tuple[int, ...], ...]) -> None:
    """Checks a float tensor that may have one of a few shapes."""
    if value is None:
        return
    if not isinstance(value, Tensor) or not value.is_floating_point():
        found = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise call.error(SpecError, f"{name} is {found}", f"{name} is a float tensor")
    if tuple(value.shape) not in allowed:
        rule = f"it is {' or '.join(str(list(shape)) for shape in allowed)}"
        raise call.error(ShapeError, f"{name} is {list(value.shape)}", rule)
    _check_device(call, name, value)
