"""A mask that says for each query which stretch of keys it sees."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.spec.checks import batch_of, is_integer, rows_of
from headwise.spec.geometry import Cells, Geometry
from headwise.spec.intervals import Intervals
from headwise.spec.masks import Mask

__all__ = ["Spans"]


@dataclass(frozen=True, eq=False)
class Spans(Mask):
    """One stretch of keys for each query: key j is visible to query i where ``start_i <= j < stop_i``.

    Several stretches a query are several masks, ``Spans(...) | Spans(...)``.

    Args:
        start: integer [T] or [B, T], the first key that each query sees.
        stop: integer [T] or [B, T], the first behind them; a query whose stop is not above its start sees no key.

    Raises:
        SpecError: start or stop is no integer tensor.
        ShapeError: one of them has other axes.

    Example:
        >>> import torch, headwise as hw
        >>> hw.Spans(torch.tensor([0, 1, 3, 2]), torch.tensor([2, 4, 3, 5])).show(S=5)
        ██···
        ·███·
        ·····
        ··███
    """

    start: Tensor
    stop: Tensor

    def __post_init__(self) -> None:
        for name, value in (("start", self.start), ("stop", self.stop)):
            if not is_integer(value):
                found = value.dtype if isinstance(value, Tensor) else type(value).__name__
                raise SpecError(sentence("Spans", f"{name} is {found}", "it is an integer tensor [T] or [B,T]"))
            if value.dim() not in (1, 2):
                what = f"{name} has {value.dim()} axes"
                raise ShapeError(sentence("Spans", what, "it is [T] or [B,T]", axes(name, value, "")))

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return any(end.dim() == 2 for end in (self.start, self.stop))

    def _ends(self) -> tuple[Tensor, Tensor]:
        """Both ends as [B or 1, T]."""
        start, stop = (end if end.dim() == 2 else end[None] for end in (self.start, self.stop))
        return start, stop

    def sizes(self) -> dict[str, int]:
        start, stop = self._ends()
        b = batch_of(start, stop)
        return {"T": start.shape[1]} | ({"B": b} if b != 1 else {})

    def check(self, geometry: Geometry) -> None:
        for name, end in zip(("start", "stop"), self._ends(), strict=True):
            if end.shape[1] != geometry.T or len(end) not in (1, geometry.B):
                rule = f"it is [T={geometry.T}] or [B={geometry.B},T={geometry.T}]"
                raise ShapeError(sentence("Spans", f"{name} does not fit the call", rule, axes(name, end, "B T")))

    def keep(self, cells: Cells) -> Tensor:
        start, stop = (cells.part_of(end[:, None, :, None]) for end in self._ends())
        return (start <= cells.j) & (cells.j < stop)

    def intervals(self, geometry: Geometry) -> Intervals:
        start, stop = self._ends()
        return Intervals.between(
            geometry, lambda batch, rows: (rows_of(start, batch)[:, rows].long(), rows_of(stop, batch)[:, rows].long())
        )
