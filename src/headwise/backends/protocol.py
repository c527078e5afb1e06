"""What a backend is: it refuses with a reason, or it computes exactly the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

from torch import Tensor

from headwise.plan import Plan

__all__ = ["Backend", "Result", "RowFacts", "Tangents"]


class RowFacts(NamedTuple):
    """What is known of every whole row, [B, H, T] each, in the plan's dtype.

    ``p = exp(logit - peak) / exp(log_total)``: keeping the peak apart from the rest keeps a probability exact at large
    logits, where one rounded log-sum-exp would not.

    Attributes:
        max_logit: the largest score, real keys only; -inf for an empty row.
        peak: the number subtracted before the exponential, the larger of max_logit and the sink; 0 for an empty row.
        log_total: log of the sum of exponentials after that; 0 for an empty row.
    """

    max_logit: Tensor
    peak: Tensor
    log_total: Tensor

    @property
    def lse(self) -> Tensor:
        """Log-sum-exp in nats, -inf for an empty row."""
        return (self.peak + self.log_total).masked_fill(self.max_logit == float("-inf"), float("-inf"))


@dataclass(frozen=True, eq=False)
class Result:
    """A backend's answer.

    Attributes:
        out: [B, H, T, E] in the operands' dtype, before the head gate.
        lse: log-sum-exp [B, H, T] in nats, -inf for an empty row.
        facts: of each row; None where the backend does not know them. Then the blocked backend finds them again where
            the gradient of lse needs them.
        entropy: of each row [B, H, T] in nats, real keys only; where the plan's observers ask for it and the backend
            finds it on the way, else None.
        answers: to those of the plan's observers that the backend answered on the way, by name.
    """

    out: Tensor
    lse: Tensor
    facts: RowFacts | None
    entropy: Tensor | None = None
    answers: dict[str, Any] = field(default_factory=dict)


class Tangents(NamedTuple):
    """Gradients of one call; None where none was asked for. ``parameters`` are in the plan's order."""

    q: Tensor | None
    k: Tensor | None
    v: Tensor | None
    parameters: Sequence[Tensor | None]


@runtime_checkable
class Backend(Protocol):
    """One way to compute attention; a backend of the user's own is any object with these members.

    Attributes:
        name: what explain() calls it.
    """

    name: str

    def refuse(self, plan: Plan) -> str | None:
        """Why the plan cannot be computed exactly, as one sentence; None where it can."""

    def forward(self, plan: Plan) -> Result:
        """Computes a plan that was not refused; called without gradient mode."""

    def backward(
        self, plan: Plan, result: Result, grad_out: Tensor | None, grad_lse: Tensor | None, needs: Sequence[bool]
    ) -> Tangents:
        """First derivatives of ``out`` and ``lse``; ``needs`` is for q, k, v and the plan's parameters in order."""
