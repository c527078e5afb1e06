"""Questions with one number a query: log-sum-exp, largest logit, entropy."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.observers.protocol import Accumulator, Frame, Observer, Tile, Whole

__all__ = ["Entropy", "LogSumExp", "MaxLogit"]


class _RowFact:
    """Copies one fact of each row out of the tiles that show it."""

    def __init__(self, frame: Frame, fact: str) -> None:
        self.frame, self.fact = frame, fact
        self.found = frame.zeros(frame.geometry.T).fill_(float("-inf"))

    def see(self, tile: Tile) -> None:
        b, h = self.frame.at(tile.cells)
        self.found[b, h, tile.cells.rows] = getattr(tile, self.fact)

    def merge(self, other: _RowFact) -> None:
        # NaN is a fact too, and no merge may lose it: torch.maximum keeps it.
        self.found = torch.maximum(self.found, other.found)

    def result(self) -> Tensor:
        return self.found


class _Entropy:
    """Adds up ``p * (log_total - (logits - peak))`` over the tiles of each row."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.total = frame.zeros(frame.geometry.T)

    def see(self, tile: Tile) -> None:
        b, h = self.frame.at(tile.cells)
        depth = (tile.logits - tile.peak[..., None]).clamp_(min=-1e30)  # p is 0 there, and 0 * -inf is no 0
        part = tile.p.sum(-1) * tile.log_total - torch.linalg.vecdot(tile.p, depth)
        self.total[b, h, tile.cells.rows] += part

    def merge(self, other: _Entropy) -> None:
        self.total += other.total

    def result(self) -> Tensor:
        return self.total


@dataclass(frozen=True, eq=False, kw_only=True)
class LogSumExp(Observer):
    """``lse[b,h,i] = log(sum_j exp(s_ij) + exp(sink_h))`` in nats.

    Returns:
        [B, H, T]; -inf for an empty row.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.attend(x, x, x, observe=[hw.LogSumExp()]).seen["log_sum_exp"]
        tensor([[[0.6931, 0.6931]]])
    """

    def begin(self, frame: Frame) -> Accumulator:
        return _RowFact(frame, "lse")

    def define(self, whole: Whole) -> Tensor:
        return whole.lse


@dataclass(frozen=True, eq=False, kw_only=True)
class MaxLogit(Observer):
    """``max_j s_ij`` over the keys that query i may attend to (no sink): what QK-clip needs.

    Returns:
        [B, H, T]; -inf for an empty row.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.ones(1, 1, 2, 4)
        >>> hw.attend(x, x, x, observe=[hw.MaxLogit()]).seen["max_logit"]
        tensor([[[2., 2.]]])
    """

    def begin(self, frame: Frame) -> Accumulator:
        return _RowFact(frame, "max_logit")

    def define(self, whole: Whole) -> Tensor:
        if whole.geometry.S == 0:
            return torch.full_like(whole.lse, float("-inf"))
        return whole.logits.masked_fill(~whole.visible, float("-inf")).amax(-1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Entropy(Observer):
    """``-sum_j p_ij log p_ij`` in nats, over real keys; with a sink p sums to less than 1.

    Returns:
        [B, H, T]; 0 for an empty row.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.attend(x, x, x, observe=[hw.Entropy()]).seen["entropy"]
        tensor([[[0.6931, 0.6931]]])
    """

    def begin(self, frame: Frame) -> Accumulator:
        return _Entropy(frame)

    def define(self, whole: Whole) -> Tensor:
        return torch.where(whole.p == 0, 0.0, -whole.p * torch.log(whole.p)).sum(-1)
