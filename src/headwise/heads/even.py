"""The head without preferences: what every score is held against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headwise.observers import LogSumExp
from headwise.pattern import Pattern
from headwise.spec import Bias, Mask

__all__ = ["Chance", "Even", "evenly"]

_VISIBLE = "even:visible"


def evenly(pattern: Pattern) -> Pattern:
    """The pattern of heads that spread evenly over the keys that a pattern's queries may see.

    p_ij = 1 / n_i where key j is visible to query i, n_i of them are. It is itself a lazy pattern, of queries and keys
    of nothing but zeros under the same mask, so its answers are exact chance levels for any mask and any question. What
    biases hide by a score of -inf is hidden here too; sinks are left out.

    Args:
        pattern: [B, H, T, S].

    Returns:
        A pattern of the same shape.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.heads.even import evenly
        >>> x = torch.randn(1, 1, 3, 4)
        >>> evenly(hw.Pattern(x, x, mask=hw.Causal()))[0, 0]
        tensor([[1.0000, 0.0000, 0.0000],
                [0.5000, 0.5000, 0.0000],
                [0.3333, 0.3333, 0.3333]])
    """
    B, H, T, S = pattern.shape
    options = pattern.options
    q = torch.zeros((B, H, T, 1), dtype=pattern.dtype, device=pattern.q.device)
    k = torch.zeros((B, 1, S, 1), dtype=pattern.dtype, device=pattern.q.device)
    return Pattern(q, k, mask=options["mask"], scores=_hiding(pattern), q_start=options["q_start"])


def _hiding(pattern: Pattern) -> tuple[Bias, ...]:
    """Biases of zeros that hide what the biases of a pattern hide."""
    biases = [rule.tensor.detach() for rule in pattern.options["scores"] if isinstance(rule, Bias)]
    hiding = [tensor for tensor in biases if tensor.numel() and bool(tensor.min() == float("-inf"))]
    return tuple(
        Bias(torch.zeros_like(tensor).masked_fill(tensor == float("-inf"), float("-inf"))) for tensor in hiding
    )


@dataclass(frozen=True, eq=False)
class Chance:
    """What even heads answer, and what these answers count.

    Attributes:
        seen: the answers by name.
        visible: how many keys each query sees, float64 [B, H, T].
    """

    seen: Mapping[str, Tensor]
    visible: Tensor

    def count(self, name: str) -> Tensor:
        """How many of the visible keys a question about a share of attention is about, float64 [B, H, T]."""
        return (self.seen[name].double() * self.visible).round()

    def share(self, name: str) -> Tensor:
        """The chance level of a share of attention, float64 [B, H, T]: its count over that of all visible keys."""
        return self.count(name) / self.visible.clamp(min=1)

    def choice(self, name: str) -> Tensor:
        """Which queries have a choice: some of their visible keys are meant and some are not."""
        count = self.count(name)
        return (count > 0) & (count < self.visible)


@dataclass(eq=False)
class Even:
    """Answers of even heads, asked once for each mask: the layers of a forward mostly share one.

    Attributes:
        asked: the questions.
        found: the masks so far, each with its answers.
    """

    asked: list[Any]
    found: list[tuple[Mask | None, tuple[Any, ...], Chance]] = field(default_factory=list)

    def of(self, pattern: Pattern) -> Chance:
        """Answers of the even heads that see what the heads of a pattern see."""
        mask, start = pattern.options["mask"], pattern.options["q_start"]
        if isinstance(start, Tensor) or _hiding(pattern):
            return self._answers(pattern)
        place = (tuple(pattern.shape), start)
        for known, where, chance in self.found:
            if known is mask and where == place:
                return chance
        chance = self._answers(pattern)
        self.found.append((mask, place, chance))
        return chance

    def _answers(self, pattern: Pattern) -> Chance:
        seen = evenly(pattern).ask(*self.asked, LogSumExp(name=_VISIBLE))
        # scores of 0, so the log-sum-exp is the log of a count; that of an empty row is -inf
        return Chance(seen, seen[_VISIBLE].double().exp().round())
