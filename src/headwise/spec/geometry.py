"""Where things stand: the sizes of one attention call, and the cells of one rectangle of its pattern."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

__all__ = ["Cells", "Geometry", "span"]


def span(part: slice) -> int:
    """The number of indices in a slice whose start and stop are set and whose step is one."""
    return int(part.stop) - int(part.start)


@dataclass(frozen=True, eq=False)
class Geometry:
    """The sizes of one call, in NOTATION's letters, and where query 0 stands on the key axis.

    Attributes:
        B: batch size.
        H: query heads.
        Hk: key/value heads.
        T: queries.
        S: keys.
        D: width of a query and a key.
        E: width of a value.
        q_start: position of query 0, one int for all batch rows or an int64 tensor [B].
        device: where the operands live.
    """

    B: int
    H: int
    Hk: int
    T: int
    S: int
    D: int
    E: int
    q_start: int | Tensor
    device: torch.device

    def positions(self, batch: slice, rows: slice) -> Tensor:
        """Positions of some queries on the key axis: int64 [b, n], with b = 1 where all batch rows agree."""
        at = torch.arange(rows.start, rows.stop, device=self.device, dtype=torch.int64)
        if isinstance(self.q_start, Tensor):
            return self.q_start[batch, None] + at
        return (at + self.q_start)[None]

    def whole(self) -> Cells:
        """All cells of the pattern as one rectangle."""
        return Cells(self, slice(0, self.B), slice(0, self.H), slice(0, self.T), slice(0, self.S))


@dataclass(frozen=True, eq=False)
class Cells:
    """One rectangle of the pattern, ``[batch, heads, rows, keys]``, with its index tensors.

    The index tensors broadcast against each other to ``[b, h, n, m]``: that is what a mask or a score rule is a
    function of.
    """

    geometry: Geometry
    batch: slice
    heads: slice
    rows: slice
    keys: slice

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The sizes of the rectangle, (b, h, n, m)."""
        return span(self.batch), span(self.heads), span(self.rows), span(self.keys)

    def _range(self, part: slice) -> Tensor:
        return torch.arange(part.start, part.stop, device=self.geometry.device, dtype=torch.int64)

    @cached_property
    def b(self) -> Tensor:
        """Batch index, int64 [b, 1, 1, 1]."""
        return self._range(self.batch)[:, None, None, None]

    @cached_property
    def h(self) -> Tensor:
        """Query head index, int64 [h, 1, 1]."""
        return self._range(self.heads)[:, None, None]

    @cached_property
    def i(self) -> Tensor:
        """Query index, int64 [n, 1]."""
        return self._range(self.rows)[:, None]

    @cached_property
    def j(self) -> Tensor:
        """Key index, int64 [m]."""
        return self._range(self.keys)

    @cached_property
    def pos(self) -> Tensor:
        """Position of each query on the key axis, int64 [b or 1, 1, n, 1]."""
        return self.geometry.positions(self.batch, self.rows)[:, None, :, None]

    def part_of(self, tensor: Tensor) -> Tensor:
        """The part of a tensor that broadcasts to [B, H, T, S] which falls on these cells; a view, never expanded."""
        while tensor.dim() < 4:
            tensor = tensor[None]
        for axis, part in enumerate((self.batch, self.heads, self.rows, self.keys)):
            if tensor.shape[axis] != 1:
                tensor = tensor.narrow(axis, part.start, span(part))
        return tensor
