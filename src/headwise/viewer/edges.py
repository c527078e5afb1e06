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


def edges(pattern: Pattern) -> Edges:
    """Finds them, from the keys that each query sees; where those are no single stretch, from the mask's own words.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.viewer.edges import edges
        >>> x = torch.zeros(1, 1, 9, 4)
        >>> edges(hw.Pattern(x, x, mask=hw.Causal() & hw.Window(before=3)))
        Edges(causal=True, before=3, after=None, keys=((0, 9),), queries=((0, 9),), edged=True)
    """
    B, _, T, _ = pattern.shape
    start = pattern.options["q_start"]
    found = []
    for b in range(B):
        own = torch.arange(T) + (int(start[b]) if isinstance(start, Tensor) else int(start))
        found.append(_of_row(pattern, b, own))
    keys, queries = tuple(one[0] for one in found), tuple(one[1] for one in found)
    said = {one[2] for one in found}
    if len(said) == 1 and None not in said:
        causal, before, after = next(iter(said))  # type: ignore[misc]
        written = any(isinstance(rule, (Bias, ScoreRule)) for rule in pattern.options["scores"])
        return Edges(causal, before, after, keys, queries, not written)
    return Edges(*_in_words(pattern.options["mask"]), keys, queries, edged=False)


Said = tuple[bool, "int | None", "int | None"]


def _of_row(pattern: Pattern, b: int, own: Tensor) -> tuple[tuple[int, int], tuple[int, int], Said | None]:
    """Keys and queries of a batch row, and causal, before and after where they say its mask exactly."""
    T = len(own)
    stretches = pattern.stretches(b)
    if stretches is None or stretches[0].shape[1] != 1:
        return pattern.reach(b), (0, T), None  # at least all that is seen
    lo, hi = (end[:, 0].cpu() for end in stretches)
    sees = (lo < hi).nonzero()[:, 0]
    if not len(sees):
        return (0, 0), (0, 0), (False, None, None)
    first, last = int(sees[0]), int(sees[-1]) + 1
    lo, hi, own = lo[first:last], hi[first:last], own[first:last]
    start, stop = int(lo.min()), int(hi.max())
    around = (start, stop), (first, last)
    if len(sees) != last - first:
        return *around, None
    ahead = (hi - 1 - own)[hi < stop]  # of queries whose sight ends before the last key
    behind = (own - lo)[lo > start]
    if (len(ahead) and int(ahead.min()) != int(ahead.max())) or (
        len(behind) and int(behind.min()) != int(behind.max())
    ):
        return *around, None
    after = int(ahead[0]) if len(ahead) else None
    before = int(behind[0]) if len(behind) else None
    # A last query at the last key sees nothing ahead, whether or not it would be let.
    causal = after == 0 or (after is None and bool((hi <= own + 1).all()))
    if (after is not None and after < 0) or (before is not None and before < 0):
        return *around, None
    after = None if causal else after
    limit = torch.full_like(hi, stop)
    limit = (
        torch.minimum(limit, own + 1) if causal else limit if after is None else torch.minimum(limit, own + 1 + after)
    )
    floor = torch.full_like(lo, start) if before is None else torch.maximum(torch.full_like(lo, start), own - before)
    exact = torch.equal(limit, hi) and torch.equal(floor, lo)
    return *around, (causal, before, after) if exact else None


def _in_words(mask: Mask | None) -> Said:
    """(causal, keys before, keys after) that a mask's own words say; what else it hides is not drawn as an edge."""
    if mask is None:
        return False, None, None
    parts = mask.parts() if isinstance(mask, And) else (mask,)
    causal = False
    before: list[int | None] = []
    after: list[int | None] = []
    for part in parts:
        if isinstance(part, And):
            inner = _in_words(part)
            causal |= inner[0]
            before.append(inner[1])
            after.append(inner[2])
        elif isinstance(part, Causal) and part.align == "end":
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
