"""Masks that follow from positions alone: causal, window, prefix, chunks. Closed form at any length."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.spec.checks import FAR, column, int_vector, rows_of, whole_number
from headwise.spec.geometry import Cells, Geometry
from headwise.spec.intervals import Intervals
from headwise.spec.masks import Mask

__all__ = ["Causal", "Chunks", "Prefix", "Window"]


@dataclass(frozen=True, eq=False)
class Causal(Mask):
    """Key j is visible to query i where ``j <= pos_i``.

    Args:
        align: "end": pos_i = q_start + i, so with the default q_start = S - T the last query sees every key.
            "start": q_start counts as 0 for this mask, torch's top-left rule.

    Example:
        >>> import torch, headwise as hw
        >>> q, k = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 5, 4)
        >>> (hw.Pattern(q, k, mask=hw.Causal())[0, 0] > 0).int()
        tensor([[1, 1, 1, 1, 0],
                [1, 1, 1, 1, 1]], dtype=torch.int32)
        >>> (hw.Pattern(q, k, mask=hw.Causal(align="start"))[0, 0] > 0).int()
        tensor([[1, 0, 0, 0, 0],
                [1, 1, 0, 0, 0]], dtype=torch.int32)
    """

    align: str = "end"

    def __post_init__(self) -> None:
        if self.align not in ("end", "start"):
            raise SpecError(
                sentence("Causal", f"align is {self.align!r}", 'align is "end" (last with last) or "start" (top-left)')
            )

    @property
    def by_position(self) -> bool:  # type: ignore[override]
        return self.align == "end"

    @property
    def never_ahead(self) -> bool:  # type: ignore[override]
        return self.align == "end"

    def _positions(self, geometry: Geometry, batch: slice, rows: slice) -> Tensor:
        if self.align == "start":
            return torch.arange(rows.start, rows.stop, device=geometry.device, dtype=torch.int64)[None]
        return geometry.positions(batch, rows)

    def keep(self, cells: Cells) -> Tensor:
        return cells.j <= self._positions(cells.geometry, cells.batch, cells.rows)[:, None, :, None]

    def intervals(self, geometry: Geometry) -> Intervals:
        return Intervals.between(geometry, lambda batch, rows: (0, self._positions(geometry, batch, rows) + 1))


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """Keys near the query: ``pos_i - before <= j <= pos_i + after``.

    Args:
        before: how many OTHER keys are visible behind the query; None = no limit.
        after: how many OTHER keys are visible ahead of it; None = no limit.

    A causal model's ``sliding_window=W`` is ``Causal() & Window(W - 1, 0)``: W keys, the query's own among them.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 4, 4)
        >>> (hw.Pattern(x, x, mask=hw.Window(before=1, after=0))[0, 0] > 0).int()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 1, 1, 0],
                [0, 0, 1, 1]], dtype=torch.int32)
    """

    before: int | None = None
    after: int | None = None
    by_position = True

    @property
    def never_ahead(self) -> bool:  # type: ignore[override]
        return self.after == 0

    def __post_init__(self) -> None:
        for name in ("before", "after"):
            if getattr(self, name) is not None:
                rule = "it counts the other keys visible on that side, so it is an int of at least 0, or None for no"
                whole_number("Window", name, getattr(self, name), 0, rule=f"{rule} limit")

    def keep(self, cells: Cells) -> Tensor:
        kept = torch.ones((1, 1), dtype=torch.bool, device=cells.geometry.device)
        if self.before is not None:
            kept = kept & (cells.j >= cells.pos - min(self.before, FAR))
        if self.after is not None:
            kept = kept & (cells.j <= cells.pos + min(self.after, FAR))
        return kept

    def intervals(self, geometry: Geometry) -> Intervals:
        def ends(batch: slice, rows: slice) -> tuple[Tensor | int, Tensor | int]:
            pos = geometry.positions(batch, rows)
            lo = 0 if self.before is None else pos - min(self.before, FAR)
            hi = geometry.S if self.after is None else pos + min(self.after, FAR) + 1
            return lo, hi

        return Intervals.between(geometry, ends)


@dataclass(frozen=True, eq=False)
class Prefix(Mask):
    """Every query may see the first keys, ``j < lengths[b]``; a prefix LM is ``Causal() | Prefix(n)``.

    Args:
        lengths: int, or integer tensor [B].

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 3, 4)
        >>> (hw.Pattern(x, x, mask=hw.Causal() | hw.Prefix(2))[0, 0] > 0).int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """

    lengths: int | Tensor
    by_position = True

    def __post_init__(self) -> None:
        int_vector("Prefix", "lengths", self.lengths, None)

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return isinstance(self.lengths, Tensor)

    def sizes(self) -> dict[str, int]:
        return {"B": len(self.lengths)} if isinstance(self.lengths, Tensor) else {}

    def check(self, geometry: Geometry) -> None:
        int_vector("Prefix", "lengths", self.lengths, geometry)

    def keep(self, cells: Cells) -> Tensor:
        lengths = rows_of(column(self.lengths, cells.geometry), cells.batch)
        return cells.j < lengths[:, :, None, None]

    def intervals(self, geometry: Geometry) -> Intervals:
        hi = column(self.lengths, geometry).clamp(0, geometry.S)
        return Intervals.fixed(torch.zeros_like(hi), hi, geometry)


@dataclass(frozen=True, eq=False)
class Chunks(Mask):
    """Query and key lie in the same chunk: ``floor((pos_i - start) / size) == floor((j - start) / size)``.

    Args:
        size: tokens in a chunk.
        start: where chunk 0 begins, an int or an integer tensor [B] (Llama 4 in transformers counts from the left
            padding).

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 4, 4)
        >>> (hw.Pattern(x, x, mask=hw.Causal() & hw.Chunks(2))[0, 0] > 0).int()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 0, 1, 0],
                [0, 0, 1, 1]], dtype=torch.int32)
    """

    size: int
    start: int | Tensor = 0
    by_position = True

    def __post_init__(self) -> None:
        whole_number("Chunks", "size", self.size, 1, rule="a chunk holds at least 1 token")
        int_vector("Chunks", "start", self.start, None)

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return isinstance(self.start, Tensor)

    def sizes(self) -> dict[str, int]:
        return {"B": len(self.start)} if isinstance(self.start, Tensor) else {}

    def check(self, geometry: Geometry) -> None:
        int_vector("Chunks", "start", self.start, geometry)

    def _start(self, geometry: Geometry) -> Tensor:
        """Where a chunk begins, one of those near position 0, so that no sum overflows: int64 [B or 1, 1]."""
        size = min(self.size, 2**63 - 1)
        if isinstance(self.start, int):
            behind = self.start % self.size
            return column(behind if behind <= FAR else behind - self.size, geometry)
        start = column(self.start, geometry) % size
        return torch.where(start > FAR, start - size, start).clamp(min=-FAR)

    def _chunk(self, at: Tensor, start: Tensor) -> Tensor:
        return torch.div(at - start, self._size, rounding_mode="floor")

    @property
    def _size(self) -> int:
        """The size of a chunk, of which one is as good as another where it holds every position."""
        return min(self.size, 2 * FAR)

    def keep(self, cells: Cells) -> Tensor:
        start = rows_of(self._start(cells.geometry), cells.batch)[:, :, None, None]
        return self._chunk(cells.pos, start) == self._chunk(cells.j, start)

    def intervals(self, geometry: Geometry) -> Intervals:
        start = self._start(geometry)

        def ends(batch: slice, rows: slice) -> tuple[Tensor | int, Tensor | int]:
            origin = rows_of(start, batch)
            lo = self._chunk(geometry.positions(batch, rows), origin) * self._size + origin
            return lo, lo + self._size

        return Intervals.between(geometry, ends)
