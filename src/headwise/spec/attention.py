"""The options of one attention call, as one frozen value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from headwise.spec.masks import Mask
from headwise.spec.scores import Rules

__all__ = ["AttentionSpec"]


@dataclass(frozen=True, eq=False)
class AttentionSpec:
    """What is asked of an attention call besides q, k and v; the fields are the keywords of ``hw.attention``.

    Example:
        >>> import headwise as hw
        >>> hw.spec.AttentionSpec(mask=hw.Causal()).dropout
        0.0
    """

    mask: Mask | None = None
    scores: Sequence[Rules] = ()
    scale: float | None = None
    q_start: int | Tensor | None = None
    kv_heads: Sequence[int] | None = None
    sinks: Tensor | None = None
    dropout: float = 0.0
    gate: Tensor | None = None
