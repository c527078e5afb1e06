"""Questions about word maps: of each link, whether the word that is attended to most is a right answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise.observers import Accumulator, Frame, Observer, Segments, Tile, Whole

__all__ = ["Answered", "Questions"]


class Answered(NamedTuple):
    """Which links a head answered right, and which count for it, bool [B, H, A] each."""

    right: Tensor
    counted: Tensor


@dataclass(frozen=True, eq=False)
class Questions(Observer):
    """Asks each link for its most attended word.

    Args:
        q_ids: int64 [T], groups of tokens that links ask from; -1 = none.
        k_ids: int64 [S], the word of each key; -1 = none.
        sources: bool [A, Q], the groups of each link.
        candidates: bool [A, K], the words that it may answer.
        targets: bool [A, K], those that are right.
    """

    q_ids: Tensor
    k_ids: Tensor
    sources: Tensor
    candidates: Tensor
    targets: Tensor

    def begin(self, frame: Frame) -> Accumulator:
        return _Asking(frame, self)

    def define(self, whole: Whole) -> Answered:
        segments = Segments(self.q_ids, self.k_ids)
        seen = whole.visible.to(whole.p.dtype).expand_as(whole.p)
        return self.judged(segments.define(whole), segments.define(replace(whole, p=seen)))

    def judged(self, mass: Tensor, visible: Tensor) -> Answered:
        """Judges word maps [b, h, Q, K] of attention and of visible cells."""
        of = self.sources.to(mass)
        # The sum over a link's tokens ranks words as their mean does.
        mass, seen = of @ mass, (of @ visible > 0) & self.candidates.to(mass.device)
        targets = self.targets.to(mass.device)
        counted = (seen & targets).any(-1) & (seen & ~targets).any(-1)
        most, chosen = mass.masked_fill(~seen, -1).max(-1)
        right = targets.expand_as(mass).gather(-1, chosen[..., None])[..., 0] & (most > 0) & counted
        return Answered(right, counted)


class _Asking:
    """Word maps of the attention and of the visible cells, kept until the links were judged."""

    def __init__(self, frame: Frame, question: Questions) -> None:
        segments = Segments(question.q_ids, question.k_ids)
        self.question = question
        self.mass: Any = segments.begin(frame)
        self.visible: Any = segments.begin(frame)

    def see(self, tile: Tile) -> None:
        self.mass.see(tile)
        seen = torch.ones_like(tile.p) if tile.visible is None else tile.visible.to(tile.p.dtype).expand_as(tile.p)
        self.visible.see(replace(tile, p=seen))

    def merge(self, other: _Asking) -> None:
        self.mass.merge(other.mass)
        self.visible.merge(other.visible)

    def result(self) -> Answered:
        return self.question.judged(self.mass.result(), self.visible.result())
