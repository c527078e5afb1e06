"""The head without preferences: what every score is held against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headwise.pattern import Pattern
from headwise.spec import Bias, Mask

__all__ = ["Even", "evenly"]


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


@dataclass(eq=False)
class Even:
    """Answers of even heads, asked once for each mask: the layers of a forward mostly share one.

    Attributes:
        asked: the questions.
        found: the masks so far, each with its answers.
    """

    asked: list[Any]
    found: list[tuple[Mask | None, tuple[Any, ...], dict[str, Tensor]]] = field(default_factory=list)

    def of(self, pattern: Pattern) -> dict[str, Tensor]:
        """Answers for the even heads that see what the heads of a pattern see."""
        mask, start = pattern.options["mask"], pattern.options["q_start"]
        if isinstance(start, Tensor) or _hiding(pattern):
            return evenly(pattern).ask(*self.asked)
        place = (tuple(pattern.shape), start)
        for known, where, answers in self.found:
            if known is mask and where == place:
                return answers
        answers = evenly(pattern).ask(*self.asked)
        self.found.append((mask, place, answers))
        return answers
