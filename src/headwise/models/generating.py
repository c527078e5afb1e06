"""The steps of a generation as one run: each site's queries in a row, over all keys that were ever made."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headwise.backends import RowFacts
from headwise.errors import UnsupportedError, sentence
from headwise.models.biases import Biases
from headwise.models.padding import mask_of_run, options_of_run
from headwise.nn.growing import Growing
from headwise.pattern import Pattern
from headwise.plan import Plan, make_plan
from headwise.spec import AttentionSpec, Bias, Mask, Padding, Rules, Spans
from headwise.spec.checks import batch_of
from headwise.spec.encoding import FIELDS

__all__ = ["Steps"]


class Steps:
    """The runs of one site in the steps of a generation, taken in one by one; memory O(T).

    A cache is overwritten, cut and concatenated from step to step, so what each step added is copied: its queries, its
    row facts, the keys that are new, and for each query the keys that its mask kept.

    Args:
        site: the name, for messages.
        first: the pattern of the first step.
    """

    def __init__(self, site: str, first: Pattern) -> None:
        self.site = site
        if not first.fresh:
            raise self._refusal("its cache writes over the keys of earlier steps, as a static one does")
        first.settle()
        self._first = plan = self._planned(first)
        self._keys, self._values = Growing(), Growing()
        self._keys.held = self._keys.extended(plan.k)
        self._values.held = None if plan.v is None else self._values.extended(plan.v)
        self._queries: list[Tensor] = []
        self._facts: list[RowFacts] = []
        self._spans: list[tuple[Tensor, Tensor]] = []
        self._real: list[Tensor] = []  # which queries are tokens and not padding, bool [B, T] of each step
        self._rows = 0
        self._biases = [Biases() for rule in plan.spec.scores if isinstance(rule, Bias)]
        self.grows: bool | None = None  # whether steps add keys; False for attention to another sequence
        self._take(first, plan, past=0, dropped=0)

    def add(self, pattern: Pattern) -> None:
        """Takes in the next step.

        Raises:
            UnsupportedError: it does not attend to the keys of the steps before it, unchanged.
        """
        plan, before = self._planned(pattern), self._first
        held = self._keys.held
        assert held is not None
        same = [(x.shape[:2], x.shape[3], x.dtype, x.device) for x in (plan.q, plan.k)]
        if same != [(x.shape[:2], x.shape[3], x.dtype, x.device) for x in (before.q, before.k)]:
            raise self._refusal("the batch or the heads of a later step are others")
        for name in ("scale", "kv_heads"):
            if getattr(plan, name) != getattr(before, name):
                raise self._refusal(f"a later step has another {name}")
        total, S = held.shape[2], plan.geometry.S
        if self.grows is not True and total == S and _equal(held, plan.k):
            self.grows, past, dropped = False, S, 0
        else:
            past = self._past(held, plan)
            dropped = total - past
            self._keys.held = self._keys.extended(plan.k[:, :, past:])
            if plan.v is not None:
                self._values.held = self._values.extended(plan.v[:, :, past:])
            stands = plan.geometry.q_start + dropped
            if not _alike(stands, before.geometry.q_start + self._rows):
                raise self._refusal("the queries of a later step do not stand behind those before it")
        self._take(pattern, plan, past, dropped)

    def _past(self, held: Tensor, plan: Plan) -> int:
        """How many of the keys of a step that adds some are older, which are the last ones held."""
        total, past = held.shape[2], plan.geometry.S - plan.geometry.T
        if self.grows is False or not 0 < past <= total:
            raise self._refusal("a later step does not attend to the keys before it and its own")
        if not _equal(held[:, :, total - past :], plan.k[:, :, :past]):
            what = "keys of earlier steps have changed since, as beams, quantised caches and drafts change them"
            raise self._refusal(what)
        self.grows = True
        return past

    def _take(self, pattern: Pattern, plan: Plan, past: int, dropped: int) -> None:
        g = plan.geometry
        if not plan.intervals.exact:
            raise self._refusal("which keys its mask keeps is known cell by cell alone")
        real = mask_of_run(pattern.options["mask"])[1]
        self._real.append(plan.q.new_ones((g.B, g.T), dtype=torch.bool) if real is None else real)
        lo, hi = plan.intervals.bounds(slice(0, g.B), slice(0, g.T))
        self._spans.append(((lo + dropped).clone(), torch.where(lo < hi, hi + dropped, 0)))
        self._join_rules(plan, past, dropped, hi.amax(-1))
        self._queries.append(plan.q.clone())
        self._facts.append(pattern.facts())
        self._rows += g.T

    def _join_rules(self, plan: Plan, past: int, dropped: int, reach: Tensor) -> None:
        rules, before = plan.spec.scores, self._first.spec.scores
        sinks = (plan.spec.sinks, self._first.spec.sinks)
        if [type(rule) for rule in rules] != [type(rule) for rule in before] or not _says_the_same(*sinks):
            raise self._refusal("a later step has other score rules or sinks")
        biases = iter(self._biases)
        for rule, first in zip(rules, before, strict=True):
            if isinstance(rule, Bias):
                if not next(biases).take(rule.tensor, plan.geometry, past, dropped, reach):
                    what = "a bias is added to its scores that is neither of the keys nor of their distance alone"
                    raise self._refusal(what)
            elif rule is not first and not _says_the_same(rule, first):
                raise self._refusal(f"a later step has another {type(rule).__name__}")

    def pattern(self) -> Pattern:
        """All steps as one pattern [B, H, T of all steps, S of all keys]; nothing of it is computed again."""
        first = self._first
        keys, values = self._keys.held, self._values.held
        assert keys is not None
        biases = iter(self._biases)
        scores: list[Rules] = [
            next(biases).joined(first.geometry.H) if isinstance(rule, Bias) else rule for rule in first.spec.scores
        ]
        start = first.geometry.q_start if self.grows else first.spec.q_start
        spec = AttentionSpec(
            self._mask(keys.shape[2]), tuple(scores), first.scale, start, first.spec.kv_heads, first.spec.sinks
        )
        plan = make_plan("trace", torch.cat(self._queries, 2), keys, values, spec, draw=False)
        facts = RowFacts(*(torch.cat(parts, 2) for parts in zip(*self._facts, strict=True)))
        return Pattern.of_plan(plan, facts)

    def _mask(self, keys: int) -> Mask:
        """Which of all keys each query sees: one mask for each run that a query has, and the rows of padding empty."""
        b = batch_of(*(lo for lo, _ in self._spans))
        runs = max(lo.shape[-1] for lo, _ in self._spans)
        start, stop = (torch.cat([_widened(ends[side], b, runs) for ends in self._spans], 1) for side in (0, 1))
        masks: list[Mask] = [Spans(start[..., n].contiguous(), stop[..., n].contiguous()) for n in range(runs)]
        mask, real = functools.reduce(operator.or_, masks), torch.cat(self._real, 1)
        return mask if bool(real.all()) else mask & Padding(keys, queries=real)

    def _planned(self, pattern: Pattern) -> Plan:
        """The step as it ran: padding attends to what its mask row says."""
        spec = AttentionSpec(**options_of_run(pattern))
        return make_plan("trace", pattern.q, pattern.k, pattern.v, spec, draw=False)

    def _refusal(self, what: str) -> UnsupportedError:
        rule = "steps become one pattern where each attends to the keys of the steps before it, unchanged"
        todo = "Trace one forward over the whole text instead: hw.trace(model, input_ids=ids)."
        return UnsupportedError(sentence("trace", f"{self.site}: {what}", rule, todo=todo))


def _widened(ends: Tensor, b: int, runs: int) -> Tensor:
    """Ends of runs [b or 1, T, K] for more batch rows and with more runs, which are empty."""
    return torch.nn.functional.pad(ends, (0, runs - ends.shape[-1])).expand(b, -1, -1)


def _equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same numbers; NaN is the same as NaN."""
    return torch.equal(a, b) or (a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all()))


def _alike(a: int | Tensor, b: int | Tensor) -> bool:
    same = a == b
    return bool(same.all()) if isinstance(same, Tensor) else same


def _says_the_same(a: Any, b: Any) -> bool:
    """Whether two rules, or values of their fields, are the same."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return a is b or _equal(a, b)
    if type(a) in FIELDS and type(a) is type(b):
        return all(_says_the_same(getattr(a, name), getattr(b, name)) for name in FIELDS[type(a)])
    return a is b or (type(a) is type(b) and not isinstance(a, (Tensor, Sequence)) and bool(a == b))
