"""The whole pattern as a tensor that carries gradients, for those who ask for T x S."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headwise.backends import Reference
from headwise.observers import Crop
from headwise.ops import Attended, attend
from headwise.plan import make_plan
from headwise.products import as_given
from headwise.spec import AttentionSpec
from headwise.tracing import followed, uncompiled

__all__ = ["with_weights"]


@uncompiled("with_weights: a pattern is no tensor, which torch.compile cannot put in a graph")
def with_weights(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> tuple[Attended, Tensor]:
    """Attention, and the whole of its pattern as a tensor that carries gradients; T x S, for those who ask for it.

    Args:
        q, k, v: as of `headwise.attention`.
        options: mask, scores, scale, q_start, dropout and backend, as of `headwise.attention`.

    Returns:
        What `headwise.attend` returns, and the probabilities before dropout [B,H,T,S] in q's dtype. A gradient that
        reaches them is made by going through the pattern again, so nothing T x S but the result is kept for it.

    Example:
        >>> import torch
        >>> from headwise.nn.weights import with_weights
        >>> q = torch.zeros(1, 1, 2, 4, requires_grad=True)
        >>> with_weights(q, q, q)[1]
        tensor([[[[0.5000, 0.5000],
                  [0.5000, 0.5000]]]], grad_fn=...)
    """
    attended = attend(q, k, v, **options)
    spec = AttentionSpec(**{name: x for name, x in options.items() if name not in ("dropout", "backend")})
    if followed(q, k, v):
        return attended, _probabilities(q, k, spec).to(q.dtype)
    carriers = [q, k, *(rule.parameter() for rule in spec.scores)]
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in carriers):
        from torch.utils.checkpoint import checkpoint

        weights = checkpoint(_probabilities, q, k, spec, use_reentrant=False, preserve_rng_state=False)
    else:
        weights = attended.pattern.ask(Crop(slice(0, q.shape[2]), slice(0, k.shape[2])))["crop"]
    return attended, weights.to(q.dtype)


def _probabilities(q: Tensor, k: Tensor, spec: AttentionSpec) -> Tensor:
    """The pattern by its definition, in torch's own operations."""
    plan = make_plan("with_weights", q, k, None, spec)
    with as_given(q.device):
        return Reference().softmax(plan, *Reference().scores(plan))[0]
