"""The observers' pass by the kernels: it fills what tiles would have filled, all accumulators in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise._native import Call
from headwise.backends.native.addresses import NOTHING, by_batch, contiguous, operand
from headwise.backends.native.lowering import lower
from headwise.backends.protocol import RowFacts
from headwise.observers import Accumulator, Frame, Observer, groups, keys, regions, rows
from headwise.observers.protocol import start
from headwise.plan import Plan
from headwise.products import all_finite, may_be_extreme
from headwise.spec import SoftCap
from headwise.spec.geometry import span

__all__ = ["Found", "begun", "blank", "fill", "fills", "sweep", "whole"]

PADDED = 16  # what is read along the keys is padded to a multiple of this, as survey.h has it
NARROW = 2**31  # labels are int32 in the kernels
ROWS = 2**14  # queries whose visible keys are counted together


def fills(accumulator: Accumulator) -> bool:
    """Whether the pass knows what an accumulator gathers."""
    return type(accumulator) in _ASK or type(accumulator) in (rows._RowFact, rows._Entropy)


def whole(plan: Plan) -> Frame:
    """The frame of all there is."""
    g = plan.geometry
    return Frame(g, slice(0, g.B), slice(0, g.H), slice(0, g.T), slice(0, g.S), plan.dtype)


def begun(plan: Plan) -> dict[str, Accumulator]:
    """Fresh accumulators, by name, of what a forward pass can answer on its way; none where it is not worth it.

    It is where a question other than about row facts reads scores that the pass makes anyway: all of them.
    """
    g, asked = plan.geometry, plan.observers.values()
    built_in = [observer for observer in asked if isinstance(observer, Observer)]
    everything = any(span(o.rows(g)) == g.T for o in built_in) and any(span(o.keys(g)) == g.S for o in built_in)
    if not g.E or len(built_in) < len(asked) or not everything:
        return {}
    found = {name: start(observer, whole(plan)) for name, observer in plan.observers.items()}
    found = {name: accumulator for name, accumulator in found.items() if fills(accumulator)}
    return found if any(type(accumulator) in _ASK for accumulator in found.values()) else {}


def fill(
    plan: Plan, facts: RowFacts | None, entropy: Tensor | None, frame: Frame, found: Sequence[Accumulator]
) -> None:
    """Fills fresh accumulators, all of which ``fills`` knows, with what there is to see in a frame.

    Args:
        plan: a call that the kernels do not refuse.
        facts: of its rows, if a forward pass left them; else those of the frame are found on the way.
        entropy: of its rows [B, H, T], likewise.
        frame: batch rows, heads, queries and keys to look at.
        found: what is filled.
    """
    if 0 in (frame.b, frame.h, span(frame.rows), plan.geometry.S):
        return  # nothing to see: a fresh accumulator is the answer
    at = (frame.batch, frame.heads, frame.rows)
    if facts is None:
        here = blank(frame.b, frame.h, span(frame.rows), any(type(x) is rows._Entropy for x in found))
    else:
        max_logit, peak, log_total = (fact[at].contiguous() for fact in facts)
        here = Found(max_logit, peak, log_total, None, None if entropy is None else entropy[at])
    sweep(plan, frame, here, facts is not None, None, found)


class Found(NamedTuple):
    """What is known of rows, or about to be found, float32 [b, h, n] each; None = not wanted, or not known."""

    max_logit: Tensor
    peak: Tensor
    log_total: Tensor
    lse: Tensor | None
    entropy: Tensor | None


def blank(b: int, h: int, n: int, entropy: bool) -> Found:
    """Room for what a forward pass finds."""
    max_logit, peak, log_total, lse, last = (
        torch.empty((b, h, n), dtype=torch.float32, device="cpu") for _ in range(5)
    )
    return Found(max_logit, peak, log_total, lse, last if entropy else None)


def sweep(plan: Plan, frame: Frame, here: Found, known: bool, out: Tensor | None, found: Sequence[Accumulator]) -> None:
    """One pass over the tiles of a frame that is not empty: fills accumulators, and what is not known of its rows.

    Args:
        plan: a call that the kernels do not refuse.
        frame: batch rows, heads, queries and keys to look at.
        here: of the frame's rows; only written where it is not ``known``.
        known: whether it is.
        out: [B, H, T, E], written as the forward pass writes it; only where the rows are not known and the frame is
            all of them.
        found: what is filled.
    """
    lowered, asked = lower(plan), _Asked(plan, frame)
    for accumulator in found:
        if type(accumulator) in _ASK:
            _ASK[type(accumulator)](asked, accumulator)
    adds = known and here.entropy is None and any(type(x) is rows._Entropy for x in found)
    if adds:
        here = here._replace(entropy=torch.zeros_like(here.peak))
    facts = _addresses(frame, *here[:3], None if known else here.lse, here.entropy if adds or not known else None)
    if asked.questions or adds or out is not None:
        careful = asked.tells_hidden and asked.careful
        g = plan.geometry
        to = NOTHING if out is None else operand(out, "out", (g.B, g.H, g.T, g.E), plan.q.dtype)
        lowered.call.survey(asked.survey, facts, known, to, careful, torch.get_num_threads())
    elif not known:
        lowered.call.row_facts(_ranges(frame), facts, torch.get_num_threads())
    for accumulator in found:
        if type(accumulator) is rows._Entropy and here.entropy is not None:
            accumulator.total[:, :, frame.rows] = here.entropy
        elif type(accumulator) is rows._RowFact:
            fact = RowFacts(*here[:3]).lse if accumulator.fact == "lse" else here.max_logit
            accumulator.found[:, :, frame.rows] = fact


def _addresses(frame: Frame, *facts: Tensor | None) -> tuple[int, int, int, int, int]:
    """Addresses of what is known of the frame's rows, or about to be found; 0 where it is not wanted."""
    size = (frame.b, frame.h, span(frame.rows))
    max_logit, peak, log_total, lse, entropy = (
        0 if fact is None else contiguous(fact, "a fact of the rows", size) for fact in facts
    )
    return max_logit, peak, log_total, lse, entropy


def _ranges(frame: Frame) -> tuple[int, int, int, int, int, int, int, int]:
    b, h, n, m = frame.batch, frame.heads, frame.rows, frame.keys
    return b.start, b.stop, h.start, h.stop, n.start, n.stop, m.start, m.stop


class _Asked:
    """The questions of one pass, in plain numbers, and the tensors whose memory they name."""

    def __init__(self, plan: Plan, frame: Frame) -> None:
        self.plan, self.frame = plan, frame
        self.survey = Call.Survey(_ranges(frame))
        self.questions = 0
        self.tells_hidden = False  # whether an answer depends on which cells are hidden, not on p alone
        self.held: list[Tensor] = []

    def answer(self, into: Tensor, *size: int, dtype: torch.dtype = torch.float32) -> int:
        """The address of an answer [b, h, *size] of the frame's batch rows and heads."""
        return contiguous(into, "an answer", (self.frame.b, self.frame.h, *size), dtype)

    def hold(self, tensor: Tensor, what: str, *size: int, dtype: torch.dtype = torch.int64) -> tuple[int, int]:
        """Address and batch stride of a tensor [B or 1, *size] that a question names."""
        self.held.append(tensor)
        return by_batch(tensor, what, self.plan.geometry.B, size, dtype)

    @cached_property
    def careful(self) -> bool:
        """Whether an operand may hide a cell that the mask keeps, by a score of -inf."""
        frame = self.frame
        q, k = self.plan.q[frame.batch, frame.heads, frame.rows], self.plan.k[frame.batch, :, frame.keys]
        return may_be_extreme(q, k, self.plan.scale)


def _received(asked: _Asked, into: keys._Received) -> None:
    asked.questions += 1
    asked.survey.received(asked.answer(into.total, asked.plan.geometry.S))


def _offsets(asked: _Asked, into: keys._Offsets) -> None:
    asked.questions += 1
    counts = _visible_by_distance(asked, into.limit, into.after)
    if counts is not None:
        into.seen += counts
    else:
        asked.tells_hidden = True
    width = into.after + into.limit + 1
    seen = 0 if counts is not None else asked.answer(into.seen, width)
    asked.survey.offsets(asked.answer(into.total, width), seen, into.limit, into.after)


def _visible_by_distance(asked: _Asked, limit: int, after: int) -> Tensor | None:
    """How many of the frame's queries see the key at each distance -after .. limit, [b or 1, 1, after + limit + 1].

    None where runs of the mask do not say it: then the pass counts cells.
    """
    plan, frame = asked.plan, asked.frame
    if any(type(rule) is not SoftCap for rule in plan.spec.scores) or not plan.intervals.exact or asked.careful:
        return None
    steps = None
    for row in range(frame.rows.start, frame.rows.stop, ROWS):
        block = slice(row, min(row + ROWS, frame.rows.stop))
        lo, hi = plan.intervals.bounds(frame.batch, block)
        if lo.shape[-1] > 1:
            return None  # runs may overlap
        lo, hi = lo[..., 0].clamp(min=frame.keys.start), hi[..., 0].clamp(max=frame.keys.stop)
        pos = plan.geometry.positions(frame.batch, block)
        # A query sees distances pos - hi + 1 .. pos - lo: a step up where they begin, one down behind their end.
        first, behind = ((pos - end + 1 + after).clamp(0, after + limit + 1) for end in (hi, lo))
        seen = (lo < hi).expand_as(first).float()
        if steps is None:
            steps = torch.zeros((len(first), after + limit + 2), dtype=torch.float32, device=seen.device)
        steps.scatter_add_(-1, first, seen).scatter_add_(-1, behind, -seen)
    assert steps is not None
    return steps.cumsum(-1)[:, None, :-1]


def _top_keys(asked: _Asked, into: keys._TopKeys) -> None:
    asked.questions += 1
    asked.tells_hidden = True
    T = asked.plan.geometry.T
    keys = asked.answer(into.keys, T, into.k, dtype=torch.int64)
    asked.survey.top_keys(asked.answer(into.values, T, into.k), keys, into.k)


def _mass_on(asked: _Asked, into: groups._MassOn) -> None:
    asked.questions += 1
    targets = into.targets.long().contiguous()
    T, many = asked.plan.geometry.T, targets.shape[-1]
    asked.survey.mass_on(asked.answer(into.total, T), *asked.hold(targets, "targets", T, many), many)


def _mass_where(asked: _Asked, into: groups._MassWhere) -> None:
    asked.questions += 1
    labels = _labels(asked, into.q_labels, into.k_labels)
    asked.survey.mass_where(asked.answer(into.total, asked.plan.geometry.T), *labels)


def _segments(asked: _Asked, into: groups._Segments) -> None:
    if into.total.numel():
        asked.questions += 1
        labels = _labels(asked, into.q_ids, into.k_ids)
        height, width = into.total.shape[-2:]
        asked.survey.segments(asked.answer(into.total, height, width), *labels, height, width)


def _labels(asked: _Asked, of_queries: Tensor, of_keys: Tensor) -> tuple[int, int, int, int]:
    """Addresses and batch strides of labels [B or 1, T] and [B or 1, S] as int32, all that is negative as -1."""
    q, k = (x.long().clamp(min=-1) for x in (of_queries, of_keys))
    if max(int(x.max()) for x in (q, k)) >= NARROW:  # names are all that matters
        names = torch.cat([q.flatten(), k.flatten()]).unique()
        shift = int(names[0] < 0)
        q, k = (torch.searchsorted(names, x) - shift for x in (q, k))
    k = torch.nn.functional.pad(k, (0, -k.shape[-1] % PADDED), value=-1)
    q, k = (x.to(torch.int32).contiguous() for x in (q, k))
    T, S = asked.plan.geometry.T, asked.plan.geometry.S
    queries = asked.hold(q, "labels of queries", T, dtype=torch.int32)
    return *queries, *asked.hold(k, "labels of keys", S + -S % PADDED, dtype=torch.int32)


def _map(asked: _Asked, into: regions._Map) -> None:
    if span(into.rows) > 0 and span(into.cols) > 0:
        asked.questions += 1
        question = into.question
        size = (question.height, question.width)
        asked.survey.map(asked.answer(into.total, *size), *size, _region(into.rows, into.cols), question.pool == "max")


def _crop(asked: _Asked, into: regions._Crop) -> None:
    if into.found.numel():
        asked.questions += 1
        found = asked.answer(into.found, span(into.rows), span(into.cols))
        asked.survey.crop(found, _region(into.rows, into.cols))


def _region(rows: slice, cols: slice) -> tuple[int, int, int, int]:
    return rows.start, rows.stop, cols.start, cols.stop


def _contribution(asked: _Asked, into: keys._Contribution) -> None:
    asked.questions += 1
    norms = _norms(asked.plan, asked.frame, into.w_o)
    strange = not all_finite(norms)
    asked.tells_hidden = asked.tells_hidden or strange
    norms = torch.nn.functional.pad(norms, (0, -norms.shape[-1] % PADDED))
    asked.held.append(norms)
    T, S = asked.plan.geometry.T, asked.plan.geometry.S
    sums = asked.answer(into.by_key, S), asked.answer(into.by_query, T)
    size = (asked.frame.b, asked.frame.h, S + -S % PADDED)
    asked.survey.contribution(*sums, contiguous(norms, "norms of values", size), strange)


def _norms(plan: Plan, frame: Frame, w_o: Tensor) -> Tensor:
    """``||v_j W_O^h||`` of the frame's heads, [b, h, S]: that of ``v_j L``, only E wide, with L L' = W_O^h' W_O^h."""
    assert plan.v is not None  # check() refuses a pattern without values
    v, found = plan.v[frame.batch].float(), frame.zeros(plan.geometry.S)
    heads = plan.kv_heads[frame.heads]
    if plan.geometry.E == 0:
        return found
    per_head = w_o.detach().double().unflatten(1, (plan.geometry.H, -1))[:, frame.heads].permute(1, 2, 0)  # h, E, M
    root, failed = torch.linalg.cholesky_ex(per_head @ per_head.mT)
    for h, kv in enumerate(heads):
        torch.linalg.vector_norm(v[:, kv] @ root[h].float(), dim=-1, out=found[:, h])
    if bool(failed.any()) or not all_finite(found):  # a head blind to some direction; values that are not finite
        return keys._value_norms(v[:, list(heads)], w_o, frame.heads, plan.geometry.H)
    return found


_ASK: dict[type[Any], Callable[[_Asked, Any], None]] = {
    keys._Received: _received,
    keys._Offsets: _offsets,
    keys._OffsetsSummed: _offsets,
    keys._TopKeys: _top_keys,
    groups._MassOn: _mass_on,
    groups._MassWhere: _mass_where,
    groups._Segments: _segments,
    regions._Map: _map,
    regions._Crop: _crop,
    keys._Contribution: _contribution,
}
