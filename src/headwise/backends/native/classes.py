"""Dilated windows as plain ones: tokens whose positions are alike modulo the step see each other and nobody else.

Queries and keys of one class lie at their strides, so nothing is copied, and among them the mask is a window: what is
computed is what is visible, where tiles of neighbours would be mostly holes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from headwise.plan import Plan
from headwise.spec import And, Causal, Mask, SoftCap, Strided, Window

__all__ = ["classes"]

# Queries that a class must have at least. Of fewer, cutting is not worth its while; and the kernels sum the scores of
# very few rows in another order, which those who make them again, in one piece, would not.
LEAST = 64


def classes(plan: Plan) -> list[tuple[slice, Plan]]:
    """A plan cut into one for each class of positions, with the queries that it is about; empty where it is not cut.

    Cut is a band of keys with a step, of enough queries, where nothing else tells positions apart: no distance in a
    rule, no dropout.
    Nobody observes the parts: whoever asks is answered by a pass over the whole. A class without keys is left out: its
    rows are empty.
    """
    found = _band(plan.spec.mask)
    g = plan.geometry
    if found is None or plan.seed is not None or not isinstance(g.q_start, int):
        return []
    if not all(isinstance(rule, SoftCap) for rule in plan.spec.scores):
        return []
    step, band = found
    if g.T // step < LEAST:
        return []
    return list(_cut(plan, step, band, g.q_start))


def _band(mask: Mask | None) -> tuple[int, Window] | None:
    """The step and the band, in steps, of a mask that is these two and nothing else."""
    parts = _anded(mask)
    steps = [part.step for part in parts if isinstance(part, Strided)]
    others = [part for part in parts if not isinstance(part, Strided)]
    if len(steps) != 1 or steps[0] == 1:
        return None
    before, after = [], []
    for part in others:
        if isinstance(part, Window):
            before += [] if part.before is None else [part.before // steps[0]]
            after += [] if part.after is None else [part.after // steps[0]]
        elif isinstance(part, Causal) and part.align == "end":
            after.append(0)
        else:
            return None
    return steps[0], Window(min(before, default=None), min(after, default=None))


def _anded(mask: Mask | None) -> list[Mask]:
    """The masks that ``&`` puts together, to any depth."""
    if isinstance(mask, And):
        return [part for inner in mask.masks for part in _anded(inner)]
    return [] if mask is None else [mask]


def _cut(plan: Plan, step: int, band: Window, q_start: int) -> Iterator[tuple[slice, Plan]]:
    g = plan.geometry
    for r in range(min(step, g.S)):
        first = (r - q_start) % step  # the first query of the class
        if first >= g.T:
            continue
        rows, keys = slice(first, g.T, step), slice(r, g.S, step)
        v = None if plan.v is None else plan.v[:, :, keys]
        q, k = plan.q[:, :, rows], plan.k[:, :, keys]
        at = (q_start + first - r) // step
        part = replace(g, T=q.shape[2], S=k.shape[2], q_start=at)
        yield rows, replace(plan, q=q, k=k, v=v, spec=replace(plan.spec, mask=band), geometry=part, observers={})
