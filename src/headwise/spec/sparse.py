"""Masks of sparse attention and of drafts: global tokens, every n-th key, a tree of tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.spec.checks import FAR, batch_of, column, int_vector, ints_of, rows_of, whole_number
from headwise.spec.geometry import Cells, Geometry
from headwise.spec.intervals import MAX_RUNS, Intervals, runs_of_true
from headwise.spec.masks import Mask
from headwise.tracing import readable

__all__ = ["Global", "Strided", "Tree"]


@dataclass(frozen=True, eq=False)
class Global(Mask):
    """Global tokens: keys that every query sees, and queries that see every key.

    Cell (i, j) is visible where token j is global, or the token at pos_i is.

    Args:
        tokens: an int or integer tensor [B], the first so many tokens are global; or bool [S] or [B, S], which are.

    Source: Beltagy et al. 2020, "Longformer" (arXiv 2004.05150), section 3.1.

    Example:
        >>> import headwise as hw
        >>> (hw.spec.Global(1) | hw.Window(1, 1)).show(5)
        █████
        ███··
        ████·
        █·███
        █··██
    """

    tokens: int | Tensor
    by_position = True

    def __post_init__(self) -> None:
        marks = self._marks()
        if marks is None:
            if isinstance(self.tokens, int) and not isinstance(self.tokens, bool):
                whole_number("Global", "tokens", self.tokens, 0, FAR)
            int_vector("Global", "tokens", self.tokens, None)
        elif marks.dim() not in (1, 2):
            raise ShapeError(
                sentence(
                    "Global", f"bool tokens has {marks.dim()} axes", "it is [S] or [B,S]", axes("tokens", marks, "")
                )
            )

    def _marks(self) -> Tensor | None:
        """Which tokens are global, bool [S] or [B, S]; None where they are counted."""
        return self.tokens if isinstance(self.tokens, Tensor) and self.tokens.dtype == torch.bool else None

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        marks = self._marks()
        return marks.dim() == 2 if marks is not None else isinstance(self.tokens, Tensor)

    def sizes(self) -> dict[str, int]:
        marks = self._marks()
        if marks is not None:
            return dict(zip("BS"[-marks.dim() :], marks.shape, strict=True))
        return {"B": len(self.tokens)} if isinstance(self.tokens, Tensor) else {}

    def check(self, geometry: Geometry) -> None:
        marks = self._marks()
        if marks is None:
            int_vector("Global", "tokens", self.tokens, geometry)
        elif tuple(marks.shape) not in ((geometry.S,), (geometry.B, geometry.S)):
            raise ShapeError(
                sentence(
                    "Global",
                    "tokens does not fit the call",
                    f"it is [S={geometry.S}] or [B={geometry.B},S={geometry.S}]",
                    axes("tokens", marks, "B S"),
                )
            )

    def keys(self, geometry: Geometry) -> Tensor:
        """Which keys are global, where tokens are marked: bool [B or 1, S]."""
        marks = self._marks()
        assert marks is not None
        return marks if marks.dim() == 2 else marks[None]

    def queries(self, geometry: Geometry, batch: slice, rows: slice) -> Tensor:
        """Which queries are global: bool [b or 1, n]."""
        pos = geometry.positions(batch, rows)
        if self._marks() is None:
            return (pos >= 0) & (pos < rows_of(column(self.tokens, geometry), batch)) & (pos < geometry.S)
        keys = rows_of(self.keys(geometry), batch)
        b = batch_of(keys, pos)
        there = (pos >= 0) & (pos < geometry.S)
        if geometry.S == 0:
            return there
        return there & keys.expand(b, -1).gather(1, pos.clamp(0, geometry.S - 1).expand(b, -1))

    def keep(self, cells: Cells) -> Tensor:
        geometry = cells.geometry
        if self._marks() is None:
            keys = cells.j < rows_of(column(self.tokens, geometry), cells.batch)[:, :, None, None]
        else:
            keys = cells.part_of(self.keys(geometry)[:, None, None, :])
        return keys | self.queries(geometry, cells.batch, cells.rows)[:, None, :, None]

    def intervals(self, geometry: Geometry) -> Intervals:
        if self._marks() is None:
            hi = column(self.tokens, geometry).clamp(0, geometry.S)
            keys = Intervals.fixed(torch.zeros_like(hi), hi, geometry)
        else:
            keys = Intervals.fixed(*runs_of_true(self.keys(geometry)), geometry)
        return keys | Intervals.between(
            geometry, lambda batch, rows: (0, self.queries(geometry, batch, rows).long() * geometry.S)
        )


@dataclass(frozen=True, eq=False)
class Strided(Mask):
    """Keys whose distance to the query is a multiple of ``step``: ``(pos_i - j) % step == 0``.

    ``Window(before * step, after * step) & Strided(step)`` is a dilated window, ``hw.masks.dilated``.

    Args:
        step: at least 1; 1 is every key.

    Source: Child et al. 2019, "Generating Long Sequences with Sparse Transformers" (arXiv 1904.10509), section 4.3.

    Example:
        >>> import headwise as hw
        >>> (hw.Causal() & hw.spec.Strided(2)).show(5)
        █····
        ·█···
        █·█··
        ·█·█·
        █·█·█
    """

    step: int
    by_position = True

    def __post_init__(self) -> None:
        rule = f"it counts keys from one that is visible to the next, 1 to {FAR}"
        whole_number("Strided", "step", self.step, 1, FAR, rule)

    def keep(self, cells: Cells) -> Tensor:
        return (cells.pos - cells.j) % self.step == 0

    def intervals(self, geometry: Geometry) -> Intervals:
        return Intervals.everything(geometry, exact=self.step == 1)


@dataclass(frozen=True, eq=False)
class Tree(Mask):
    """A tree of drafted tokens: each sees all keys before the draft, its ancestors and itself.

    The T queries are the draft: query i is the token whose key is at pos_i = q_start + i. It sees key j where
    ``j < q_start``, or where key j belongs to token i itself or to one of its ancestors. A chain is ``Causal()``.

    Args:
        parents: integers [T] or [B, T], or a list of T: the token that each one follows, an earlier one, or -1 where
            it follows the last key before the draft.

    Raises:
        SpecError: a parent that is neither -1 nor an earlier token.

    Source: Miao et al. 2024, "SpecInfer" (arXiv 2305.09781), section 4.2.

    Example:
        >>> import headwise as hw
        >>> hw.spec.Tree([-1, 0, 0, 1, 2]).show(S=8)  # tokens 1 and 2 both follow token 0
        ████····
        █████···
        ████·█··
        █████·█·
        ████·█·█
    """

    parents: Tensor
    never_ahead = True

    def __init__(self, parents: Tensor | Sequence[int]) -> None:
        parents = ints_of("Tree", "parents", parents)
        if parents.dim() not in (1, 2):
            raise ShapeError(
                sentence(
                    "Tree", f"parents has {parents.dim()} axes", "it is [T] or [B,T]", axes("parents", parents, "")
                )
            )
        object.__setattr__(self, "parents", parents)

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return self.parents.dim() == 2

    def sizes(self) -> dict[str, int]:
        return dict(zip("BT"[-self.parents.dim() :], self.parents.shape, strict=True))

    def check(self, geometry: Geometry) -> None:
        if tuple(self.parents.shape) not in ((geometry.T,), (geometry.B, geometry.T)):
            raise ShapeError(
                sentence(
                    "Tree",
                    "parents does not fit the call",
                    f"it names one parent a query, [T={geometry.T}] or [B={geometry.B},T={geometry.T}]",
                    axes("parents", self.parents, "B T"),
                    "A draft is all queries of a call; its first token stands at q_start.",
                )
            )
        if not readable(self.parents):
            return
        parents = self._rows()
        wrong = (
            ((parents < -1) | (parents >= torch.arange(geometry.T, device=parents.device, dtype=torch.int64)))
            .nonzero()
            .tolist()
        )
        if wrong:
            b, i = wrong[0]
            where = f" of batch row {b}" if self.per_batch else ""
            raise SpecError(
                sentence(
                    "Tree",
                    f"the parent of token {i}{where} is {int(parents[b, i])}",
                    "a parent is an earlier token, or -1 for none in the draft",
                    todo="Order the tokens so that each stands behind its parent.",
                )
            )

    def _rows(self) -> Tensor:
        """Parents [B or 1, T]."""
        return self.parents.long() if self.per_batch else self.parents.long()[None]

    def keep(self, cells: Cells) -> Tensor:
        T = cells.geometry.T
        if T == 0:  # no token whose place could be looked up
            return torch.ones((1, 1, 0, 1), dtype=torch.bool, device=self.parents.device)
        token = (cells.j - (cells.pos - cells.i)[:, :, :1])[:, 0, 0]  # of each key, [b or 1, m]
        b = batch_of(rows_of(self._rows(), cells.batch), token)
        related = self._related(cells, token.clamp(0, T - 1).expand(b, -1))
        return ((token < 0)[:, None] | (related & ((token >= 0) & (token < T))[:, None]))[:, None]

    def _related(self, cells: Cells, at: Tensor) -> Tensor:
        """Whether token ``at`` [b, m] is each query's own or one of its ancestors: bool [b, n, m]."""
        if not readable(self.parents):  # a tracer's: in tensors alone, T x T
            whole = rows_of(_ancestors(self._rows()), cells.batch)[:, cells.rows].expand(len(at), -1, -1)
            return whole.gather(2, at[:, None].expand(-1, whole.shape[1], -1))
        # Numbered depth first, a token and its descendants are one stretch: token a is i or an ancestor of it where
        # first[a] <= first[i] < behind[a].
        walk = self._walked()
        first, behind = (rows_of(end, cells.batch).expand(len(at), -1) for end in (walk.first, walk.behind))
        own = first[:, cells.rows, None]
        return (first.gather(1, at)[:, None] <= own) & (own < behind.gather(1, at)[:, None])

    def intervals(self, geometry: Geometry) -> Intervals:
        table = self._walked().runs
        if table is None:
            hull = Intervals.between(geometry, lambda batch, rows: (0, geometry.positions(batch, rows) + 1))
            return Intervals(hull.bounds, exact=False)

        def bounds(batch: slice, rows: slice) -> tuple[Tensor, Tensor]:
            start = geometry.positions(batch, slice(0, 1))[..., None]
            own = rows_of(table, batch)[:, rows]
            b = batch_of(own, start)
            before = start.expand(b, own.shape[1], 1)
            lo, hi = (torch.where(own[..., 0] < own[..., 1], own[..., n] + start, 0) for n in (0, 1))
            lo, hi = torch.cat([torch.zeros_like(before), lo], -1), torch.cat([before, hi], -1)
            return lo.clamp(0, geometry.S), hi.clamp(0, geometry.S)

        return Intervals(bounds, True, table.shape[2] + 1)

    def _walked(self) -> _Walk:
        """The tree walked once, and again where the parents are others: a copy of the mask, a tensor written over."""
        last: _Walk | None = self.__dict__.get("_walk")
        parents = self._rows()
        if last is None or last.parents.device != parents.device or not torch.equal(last.parents, parents):
            last = _walk(parents)
            object.__setattr__(self, "_walk", last)
        return last


class _Walk(NamedTuple):
    """What a walk through the trees of parents [B or 1, T] finds.

    Attributes:
        parents: those that were walked.
        first, behind: of each token its number, depth first, and the first that is no descendant's, [B or 1, T].
        runs: its ancestors and itself as runs of tokens, [B or 1, T, K, 2]; None where they are too many.
    """

    parents: Tensor
    first: Tensor
    behind: Tensor
    runs: Tensor | None


def _walk(parents: Tensor) -> _Walk:
    lines: list[list[int]] = parents.tolist()
    numbered = [_depth_first(line) for line in lines]
    first, behind = (
        torch.tensor([pair[n] for pair in numbered], dtype=torch.int64, device=parents.device).reshape(parents.shape)
        for n in (0, 1)
    )
    return _Walk(parents.clone(), first, behind, _runs(lines, parents))


def _runs(lines: list[list[int]], like: Tensor) -> Tensor | None:
    """The runs of all trees, filled up with empty ones; None where some row has too many."""
    found = []
    for line in lines:
        rows = _ancestral_runs(line)
        if rows is None:
            return None
        found.append(rows)
    width = max((len(row) for rows in found for row in rows), default=0)
    filled = [[row + [(0, 0)] * (width - len(row)) for row in rows] for rows in found]
    return torch.tensor(filled, dtype=torch.int64, device=like.device).reshape(*like.shape, width, 2)


def _ancestors(parents: Tensor) -> Tensor:
    """Which tokens, the last axis, are a token's own or its ancestors: bool [B or 1, T, T]."""
    token = torch.arange(parents.shape[1], device=parents.device, dtype=torch.int64)
    seen = (token[:, None] == token) | (parents[..., None] == token)
    for _ in range(max(0, parents.shape[1] - 1).bit_length()):  # each step sees twice as many generations
        seen = (seen.float() @ seen.float()) > 0
    return seen


def _depth_first(parents: list[int]) -> tuple[list[int], list[int]]:
    """Numbers the tokens of a tree depth first: of each its own number, and the first that is no descendant's."""
    sizes = [1] * len(parents)
    for token in range(len(parents) - 1, -1, -1):
        if parents[token] >= 0:
            sizes[parents[token]] += sizes[token]
    first, free, roots = [0] * len(parents), [0] * len(parents), 0
    for token, parent in enumerate(parents):
        if parent < 0:
            first[token], roots = roots, roots + sizes[token]
        else:
            first[token] = free[parent]
            free[parent] += sizes[token]
        free[token] = first[token] + 1
    return first, [a + n for a, n in zip(first, sizes, strict=True)]


def _ancestral_runs(parents: list[int]) -> list[list[tuple[int, int]]] | None:
    """For each token the runs of itself and its ancestors, as numbers of tokens; None where one has too many."""
    found: list[list[tuple[int, int]]] = []
    for token, parent in enumerate(parents):
        runs = found[parent] if parent >= 0 else []
        if runs and runs[-1][1] == token:
            found.append([*runs[:-1], (runs[-1][0], token + 1)])
        elif len(runs) + 2 > MAX_RUNS:  # with one more for the keys before the draft
            return None
        else:
            found.append([*runs, (token, token + 1)])
    return found
