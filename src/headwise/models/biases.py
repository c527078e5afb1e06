"""What the steps of a generation add to their scores, put together as one rule."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.spec import Bias, Geometry, RelativeBias, Rules

__all__ = ["Biases"]


class Biases:
    """The biases [b, h, T, S] of one site in the steps of a generation, as long as one rule can say them all.

    Put side by side they would take T x S numbers. What models add depends on the key alone (the same for all queries)
    or on its distance alone (T5); each is kept as one row for as long as every step agrees.
    """

    def __init__(self) -> None:
        self._by_key: Tensor | None = None  # [b, h, 1, S]
        self._by_distance: Tensor | None = None  # [h, R], the own position last
        self._steps = 0

    def take(self, tensor: Tensor, geometry: Geometry, past: int, dropped: int, reach: Tensor) -> bool:
        """Takes in the bias of a step; says whether one rule can still say all of them.

        Args:
            tensor: broadcastable to the step's [B, H, T, S].
            geometry: of the step.
            past: how many of its keys were there before it.
            dropped: how many keys before its first one are there no more.
            reach: [b, T], the first key behind those that each query sees.
        """
        tensor = tensor.detach().reshape((1,) * (4 - tensor.dim()) + tuple(tensor.shape))
        tensor = tensor.expand(-1, -1, -1, geometry.S)
        first = self._steps == 0
        self._steps += 1
        by_key = self._row(tensor)
        if by_key is not None and not first:
            by_key = None if self._by_key is None else _longer(self._by_key, by_key, past, dropped)
        by_distance = self._line(tensor, geometry, reach)
        if by_distance is not None and not first:
            by_distance = None if self._by_distance is None else _longest(self._by_distance, by_distance)
        self._by_key, self._by_distance = by_key, by_distance
        return by_key is not None or by_distance is not None

    @staticmethod
    def _row(tensor: Tensor) -> Tensor | None:
        """The row that all queries share, as a copy; None where they differ."""
        one = tensor[:, :, :1]
        alike = tensor.stride(2) == 0 or all(torch.equal(one, tensor[:, :, i : i + 1]) for i in range(tensor.shape[2]))
        return one.clone() if alike else None

    @staticmethod
    def _line(tensor: Tensor, geometry: Geometry, reach: Tensor) -> Tensor | None:
        """The numbers of the distances up to a query's own position, [h, R]; None where they differ among queries."""
        start, T, S = geometry.q_start, geometry.T, geometry.S
        if not isinstance(start, int) or start < 0 or start + T != S or len(tensor) != 1:
            return None
        line = tensor[0, :, -1]
        places = torch.arange(start, S, device=reach.device, dtype=torch.int64)
        if bool((reach > places + 1).any()) or not bool(torch.isfinite(line).all()):
            return None  # a key ahead of its query is seen, or hidden by what is added
        for i in range(T):
            seen = start + i + 1
            if not torch.equal(tensor[0, :, i if tensor.shape[2] > 1 else 0, :seen], line[:, S - seen :]):
                return None
        return line.clone()

    def joined(self, heads: int) -> Rules:
        """One rule that adds what all steps added."""
        if self._by_key is not None:
            return Bias(self._by_key)
        assert self._by_distance is not None
        table = self._by_distance.expand(heads, -1).contiguous()
        return RelativeBias(table, table.shape[1] - 1)


def _longer(row: Tensor, new: Tensor, past: int, dropped: int) -> Tensor | None:
    """A row of all keys with those of a step behind it; None where they disagree on a key."""
    if row.shape[:2] != new.shape[:2] or not torch.equal(row[..., dropped : dropped + past], new[..., :past]):
        return None
    return torch.cat([row, new[..., past:]], -1)


def _longest(table: Tensor, new: Tensor) -> Tensor | None:
    """The longer of two tables; None where they disagree on a distance."""
    n = min(table.shape[1], new.shape[1])
    if len(table) != len(new) or not torch.equal(table[:, -n:], new[:, -n:]):
        return None
    return new if new.shape[1] > table.shape[1] else table
