"""Where a mask ends, as lines that a map can draw: causal, a window, and padding around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise.pattern import Pattern
from headwise.spec import Bias, Causal, Mask, ScoreRule, Window
from headwise.spec.masks import And

__all__ = ["Edges", "edges"]


class Edges(NamedTuple):
    """What is drawn of a mask.

    Attributes:
        causal: no query sees a key ahead of it.
        before: a window's keys behind the query; None = no end.
        after: likewise ahead.
        keys: for each batch row, the keys [start, stop) outside which no query sees any.
        queries: for each batch row, the queries [start, stop) outside which none sees a key.
        edged: these say the mask exactly: a cell is hidden if and only if one of them hides it.
    """

    causal: bool
    before: int | None
    after: int | None
    keys: tuple[tuple[int, int], ...]
    queries: tuple[tuple[int, int], ...]
    edged: bool


def edges(*runs: Pattern) -> Edges:
    """Finds them, from the keys that each query sees; where those are no single stretch, from the mask's own words.

    Args:
        runs: patterns [B, H, T, S] of the same site in several runs. Where they differ, what is said hides no cell that
            one of them shows, and is not exact.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.viewer.edges import edges
        >>> x = torch.zeros(1, 1, 9, 4)
        >>> edges(hw.Pattern(x, x, mask=hw.Causal() & hw.Window(before=3)))
        Edges(causal=True, before=3, after=None, keys=((0, 9),), queries=((0, 9),), edged=True)
    """
    first, *others = [_of_one(pattern) for pattern in runs]
    for other in others:
        if other != first:
            first = _both(first, other)
    return first


def _both(one: Edges, other: Edges) -> Edges:
    """What hides no cell that either shows."""

    def wide(a: int | None, b: int | None) -> int | None:
        return None if a is None or b is None else max(a, b)

    def hull(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return (
            (min(a[0], b[0]), max(a[1], b[1])) if a[0] < a[1] and b[0] < b[1] else max(a, b, key=lambda s: s[1] - s[0])
        )

    return Edges(
        one.causal and other.causal,
        wide(one.before, other.before),
        wide(0 if one.causal else one.after, 0 if other.causal else other.after) or None,
        tuple(map(hull, one.keys, other.keys)),
        tuple(map(hull, one.queries, other.queries)),
        edged=False,
    )


class _Row(NamedTuple):
    """One batch row: the stretch [lo, hi) of each query that sees a key, where it stands, and the ends of them all."""

    lo: Tensor
    hi: Tensor
    own: Tensor
    keys: tuple[int, int]


def _of_one(pattern: Pattern) -> Edges:
    B, _, T, _ = pattern.shape
    start = pattern.options["q_start"]
    rows: list[_Row] = []
    keys, queries = [], []
    single = True
    for b in range(B):
        stretches = pattern.stretches(b)
        if stretches is None or stretches[0].shape[1] != 1:
            single = False
            keys.append(pattern.reach(b))  # at least all that is seen
            queries.append((0, T))
            continue
        lo, hi = (end[:, 0].cpu() for end in stretches)
        sees = (lo < hi).nonzero()[:, 0]
        if not len(sees):
            keys.append((0, 0))
            queries.append((0, 0))
            continue
        first, last = int(sees[0]), int(sees[-1]) + 1
        single = single and len(sees) == last - first
        own = torch.arange(T, dtype=torch.int64, device="cpu") + (
            int(start[b]) if isinstance(start, Tensor) else int(start)
        )
        around = int(lo[sees].min()), int(hi[sees].max())
        keys.append(around)
        queries.append((first, last))
        rows.append(_Row(lo[first:last], hi[first:last], own[first:last], around))
    said = _said(rows) if single else None
    written = any(isinstance(rule, (Bias, ScoreRule)) for rule in pattern.options["scores"])
    words = _in_words(pattern.options["mask"]) if said is None else said
    return Edges(*words, tuple(keys), tuple(queries), edged=said is not None and not written)


Said = tuple[bool, "int | None", "int | None"]


def _said(rows: Sequence[_Row]) -> Said | None:
    """Causal, before and after where they say the mask of every batch row exactly."""
    # Only queries whose sight ends before the first or last key that any sees tell where it ends.
    ahead = {int(one) for row in rows for one in (row.hi - 1 - row.own)[row.hi < row.keys[1]].unique()}
    behind = {int(one) for row in rows for one in (row.own - row.lo)[row.lo > row.keys[0]].unique()}
    if len(ahead) > 1 or len(behind) > 1 or any(one < 0 for one in ahead | behind):
        return None
    after, before = (next(iter(found), None) for found in (ahead, behind))
    for lo, hi, own, (start, stop) in rows:
        limit = torch.full_like(hi, stop) if after is None else (own + 1 + after).clamp(max=stop)
        floor = torch.full_like(lo, start) if before is None else (own - before).clamp(min=start)
        if not (torch.equal(limit, hi) and torch.equal(floor, lo)):
            return None
    return after == 0, before, after or None


def _in_words(mask: Mask | None) -> Said:
    """(causal, keys before, keys after) that a mask's own words say; what else it hides is not drawn as an edge."""
    if mask is None:
        return False, None, None
    parts = mask.masks if isinstance(mask, And) else (mask,)
    causal = False
    before: list[int | None] = []
    after: list[int | None] = []
    for part in parts:
        if isinstance(part, Causal) and part.align == "end":
            causal = True
        elif isinstance(part, Window):
            before.append(part.before)
            after.append(part.after)
    return causal, _least(before), _least(after)


def _least(values: Sequence[int | None]) -> int | None:
    return min((value for value in values if value is not None), default=None)


def described(found: Edges) -> dict[str, Any]:
    """As the page reads it."""
    return {**found._asdict(), "keys": [list(pair) for pair in found.keys], "queries": [list(p) for p in found.queries]}
