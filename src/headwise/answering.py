"""Questions about a pattern, answered: from tiles of the part that they are about, or from the definition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from torch import Tensor

from headwise.backends import Reference, RowFacts, survey
from headwise.errors import ShapeError, SpecError, UnsupportedError, axes, sentence
from headwise.observers import Answered, Frame, Observer
from headwise.observers import start as begin
from headwise.observers.protocol import Tile, Whole
from headwise.plan import Plan
from headwise.products import as_given
from headwise.spec.geometry import span
from headwise.tracing import below_transforms, numberless

__all__ = ["answer", "check_numbers", "facts_that_fit", "not_given", "not_of_a_mapped_call"]


def answer(
    plan: Plan,
    facts: RowFacts | None = None,
    *,
    entropy: Tensor | None = None,
    known: Mapping[str, Any] | None = None,
    definition: bool = False,
    portable: bool = False,
    batch: slice | None = None,
    heads: slice | None = None,
    rows: slice | None = None,
) -> Answered:
    """Answers the plan's observers about a part of its pattern (None = all of it).

    With ``definition`` the answers come from the reference's whole pattern, else from tiles: the native kernels' where
    they know the question, unless ``portable``. ``entropy`` is that of the rows, and ``known`` are answers about all of
    the pattern, if a forward pass left them.
    """
    if not plan.observers:
        return Answered()
    g = plan.geometry
    batch = slice(0, g.B) if batch is None else batch
    heads = slice(0, g.H) if heads is None else heads
    if definition:
        with as_given(g.device):
            return Answered(_defined(plan))
    if rows is None:
        rows = _hull([o.rows(g) if isinstance(o, Observer) else slice(0, g.T) for o in plan.observers.values()])
    keys = _hull([o.keys(g) if isinstance(o, Observer) else slice(0, g.S) for o in plan.observers.values()])
    with below_transforms(), as_given(g.device):
        frame = Frame(g, batch, heads, rows, keys, plan.dtype)
        return Answered(survey(plan, facts, frame, plan.observers, entropy=entropy, known=known, portable=portable))


def check_numbers(who: str, *tensors: Tensor) -> None:
    """Refuses tensors of which there is a shape alone: which tiles there are to see depends on numbers."""
    bare = next((x for x in tensors if numberless(x)), None)
    if bare is not None:
        what = f"a {type(bare).__name__} {list(bare.shape)} on {bare.device} has a shape and no numbers"
        rule = "a pattern is asked about numbers, which decide what there is to see"
        todo = "Ask about real tensors; hw.attention knows the shape of its output without them."
        raise UnsupportedError(sentence(who, what, rule, todo=todo))


def _hull(parts: list[slice]) -> slice:
    real = [part for part in parts if span(part) > 0]
    if not real:
        return slice(0, 0)
    return slice(min(part.start for part in real), max(part.stop for part in real))


def _defined(plan: Plan) -> dict[str, Any]:
    """The reference's answers; a user's own observer sees the whole pattern as one tile."""
    whole = Reference().whole(plan)
    g = plan.geometry
    frame = Frame(g, slice(0, g.B), slice(0, g.H), slice(0, g.T), slice(0, g.S), plan.dtype)
    found = {}
    for name, observer in plan.observers.items():
        if isinstance(observer, Observer):
            found[name] = observer.define(whole)
            continue
        accumulator = begin(observer, frame)
        tile = {field.name: getattr(whole, field.name) for field in fields(Whole) if field.name != "geometry"}
        accumulator.see(Tile(g.whole(), **tile).copied())
        found[name] = accumulator.result()
    return found


def facts_that_fit(facts: Any, plan: Plan, part: tuple[slice, slice]) -> RowFacts:
    """Row facts that a caller gave for batch rows and heads of a plan, [b, h, T] each, in its dtype.

    Raises:
        SpecError, ShapeError: they are others.
    """
    want, device = (span(part[0]), span(part[1]), plan.geometry.T), plan.q.device
    rule = f"they are max_logit, peak and log_total, float [b={want[0]},h={want[1]},T={want[2]}] each"
    if not isinstance(facts, tuple) or len(facts) != 3:
        raise SpecError(sentence("Pattern", f"facts is a {type(facts).__name__}", rule, todo="Take p.facts()."))
    for name, fact in zip(RowFacts._fields, facts, strict=True):
        if not isinstance(fact, Tensor) or not fact.is_floating_point() or fact.device != device:
            found = f"{fact.dtype} on {fact.device}" if isinstance(fact, Tensor) else f"a {type(fact).__name__}"
            raise SpecError(sentence("Pattern", f"{name} of the facts is {found}", f"{rule}, on {device}"))
        if tuple(fact.shape) != want:
            raise ShapeError(sentence("Pattern", "the facts do not fit", rule, axes(name, fact, "b h T")))
    return RowFacts(*(fact.detach().to(plan.dtype) for fact in facts))


def not_given(heads: slice) -> SpecError:
    """The error of asking about heads whose row facts were not given."""
    what = f"heads {heads.start} to {heads.stop - 1} are asked about, and the row facts of some were not given"
    rule = "a pattern whose facts were given answers about those batch rows and heads alone"
    return SpecError(sentence("Pattern", what, rule, todo="Ask with batch= and heads=, or give the facts of all."))


def not_of_a_mapped_call() -> UnsupportedError:
    """The error of asking a pattern along whose operands torch.vmap maps."""
    rule = "answers are found from numbers, and a tensor that is mapped shows none"
    todo = 'Ask outside of torch.vmap, with that axis in the batch; or read .seen of attend(..., backend="reference").'
    return UnsupportedError(sentence("Pattern", "torch.vmap maps its operands", rule, todo=todo))
