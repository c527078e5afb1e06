"""Some queries of a pattern, as a pattern of their own: what a preview looks at."""

from __future__ import annotations

import functools
import operator

import torch
from torch import Tensor

from headwise.pattern import Pattern
from headwise.spec import Mask, SoftCap, Spans

__all__ = ["sampled", "some_queries"]

_STRETCHES = 8  # stretches of keys a query, beyond which the mask is not written down query by query


def some_queries(pattern: Pattern, b: int, rows: Tensor) -> Pattern | None:
    """The rows of chosen queries of one batch row, as a pattern [1, H, n, S].

    Args:
        pattern: p [B, H, T, S].
        b: row of the batch.
        rows: which queries, int64 [n]; one may be named several times.

    Returns:
        The pattern; None where its rows are not those of queries that stand elsewhere: a score rule other than SoftCap
        counts positions, the mask is no few stretches of keys a query, or keys are stored in pages.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.viewer.sampling import some_queries
        >>> x = torch.zeros(1, 1, 5, 4)
        >>> some_queries(hw.Pattern(x, x, mask=hw.Causal()), 0, torch.tensor([1, 3])).to_dense()[0, 0]
        tensor([[0.5000, 0.5000, 0.0000, 0.0000, 0.0000],
                [0.2500, 0.2500, 0.2500, 0.2500, 0.0000]])
    """
    options = pattern.options
    found = pattern.stretches(b)
    at_place = any(not isinstance(rule, SoftCap) for rule in options["scores"])
    if found is None or found[0].shape[1] > _STRETCHES or at_place or not isinstance(pattern.k, Tensor):
        return None
    pairs = zip(*(end[rows].unbind(1) for end in found), strict=True)
    mask: Mask = functools.reduce(operator.or_, [Spans(start, stop) for start, stop in pairs])
    kept = {name: options[name] for name in ("scores", "scale", "kv_heads", "sinks")}
    return Pattern(pattern.q[b : b + 1, :, rows], pattern.k[b : b + 1], mask=mask, **kept)


def sampled(T: int, height: int, each: int) -> Tensor:
    """Queries that stand for the rows of a map, ``each`` for one row, evenly between its edges; int64 [height * each].

    Row r of a map of ``height`` rows covers queries ``floor(r * T / height)`` to ``floor((r + 1) * T / height)``.

    Example:
        >>> from headwise.viewer.sampling import sampled
        >>> sampled(12, 3, 2).tolist()
        [1, 3, 5, 7, 9, 11]
    """
    r = torch.arange(height, dtype=torch.int64, device="cpu")
    start, stop = r * T // height, (r + 1) * T // height
    parts = (2 * torch.arange(each, dtype=torch.int64, device="cpu") + 1)[None, :]
    return (start[:, None] + (stop - start)[:, None] * parts // (2 * each)).flatten().clamp(max=max(0, T - 1))
