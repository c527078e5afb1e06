"""Patterns and gradients of random queries and keys, with and without the scale: what a model starts from."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import headwise as hw

__all__ = ["MEASURES", "measured", "start"]

#: What `measured` gives of each query, and what it is.
MEASURES = {
    "score_sd": "standard deviation of its scores",
    "entropy": "entropy of its row, nats",
    "largest": "largest probability of its row",
    "score_gradient": "norm of the gradient with respect to its scores",
    "query_gradient": "norm of the gradient with respect to the query",
}
QUERIES, KEYS, VALUES = 256, 64, 64  #: queries and keys of a draw, and the width of a value, the same at every d_k.


def measured(q: Tensor, k: Tensor, v: Tensor, back: Tensor, scale: float | None) -> dict[str, Tensor]:
    """One draw. The gradients are those of (out * back).sum().

    Args:
        q: [1,1,T,D].
        k: [1,1,S,D].
        v: [1,1,S,E].
        back: [1,1,T,E], the gradient that comes from behind.
        scale: 1.0, or None = 1/sqrt(D).

    Returns:
        Each of `MEASURES`, [T].
    """
    q = q.clone().requires_grad_()
    nudge = torch.zeros(
        1, 1, q.shape[2], k.shape[2], requires_grad=True
    )  # added to the scores, so its gradient is theirs
    seen = hw.attend(q, k, v, scores=(hw.Bias(nudge),), scale=scale, observe=[hw.Entropy(), hw.MaxLogit()])
    to_query, to_scores = torch.autograd.grad((seen.out * back).sum(), (q, nudge))
    scores = (q.detach() @ k.mT) * (q.shape[-1] ** -0.5 if scale is None else scale)
    told = {
        "score_sd": scores.std(-1),
        "entropy": seen.seen["entropy"],
        "largest": (seen.seen["max_logit"] - seen.lse.detach()).exp(),
        "score_gradient": to_scores.norm(dim=-1),
        "query_gradient": to_query.norm(dim=-1),
    }
    return {name: value[0, 0] for name, value in told.items()}


def start(widths: list[int], seeds: int) -> list[dict[str, Any]]:
    """Draws of unit variance at each width.

    Args:
        widths: values of d_k.
        seeds: draws of each; the same ones with and without the scale.

    Returns:
        A row a width and scale: of each measure the mean over draws of a draw's mean, and of its median (``_median``),
        each with the standard deviation over draws (``_sd``).
    """
    rows = []
    for width in widths:
        draws: dict[float | None, list[dict[str, Tensor]]] = {None: [], 1.0: []}
        for seed in range(seeds):
            random = torch.Generator().manual_seed(seed)
            shapes = ((QUERIES, width), (KEYS, width), (KEYS, VALUES), (QUERIES, VALUES))
            q, k, v, back = (torch.randn(1, 1, *shape, generator=random) for shape in shapes)
            for scale, found in draws.items():
                found.append(measured(q, k, v, back, scale))
        rows += [{"d_k": width, "scaled": scale is None, **_over(found)} for scale, found in draws.items()]
    return rows


def _over(draws: list[dict[str, Tensor]]) -> dict[str, float]:
    told = {}
    for name in MEASURES:
        for ending, middle in (("", Tensor.mean), ("_median", Tensor.median)):
            values = torch.stack([middle(draw[name].double()) for draw in draws])
            told[name + ending] = float(f"{values.mean():.4g}")
            told[name + ending + "_sd"] = float(f"{values.std():.2g}")
    return told
