"""Every built-in question, sized for a call."""

from __future__ import annotations

import torch

from headwise.observers import (
    Contribution,
    Crop,
    Entropy,
    LogSumExp,
    Map,
    MassOn,
    MassWhere,
    MaxLogit,
    Observer,
    Offsets,
    Received,
    Segments,
    TopKeys,
)
from headwise.testing.calls import Call, Draw

__all__ = ["questions"]


def questions(call: Call, seed: int = 0) -> tuple[Observer, ...]:
    """Every built-in question, some of them twice, that fit a call.

    Args:
        call: asked about.
        seed: of the targets, labels and groups.

    Example:
        >>> import torch
        >>> from headwise.testing import CASES, questions
        >>> call = CASES["plain"].make(torch.float32)
        >>> sorted(call.run(observe=questions(call)).seen)[:3]
        ['all_keys', 'blurred', 'contribution']
    """
    draw = Draw(torch.float64, seed)
    (B, H, T, _), (S, E) = call.q.shape, call.v.shape[-2:]
    weight = draw.normal(17, H * E).to(call.q.dtype)
    return (
        LogSumExp(),
        MaxLogit(),
        Entropy(),
        Received(),
        Offsets(limit=6, after=3),
        Offsets(limit=40, name="far_offsets"),
        TopKeys(3),
        TopKeys(19, name="all_keys"),
        MassOn(draw.ints(S, B, T, 4, low=-1)),
        MassOn(draw.ints(S, T, 1, low=-1), name="mass_on_shared"),
        MassWhere(draw.ints(4, B, T, low=-1), draw.ints(4, B, S, low=-1)),
        MassWhere(draw.ints(3, T), draw.ints(3, S), name="mass_where_shared"),
        Segments(draw.ints(3, B, T, low=-1), draw.ints(5, B, S, low=-1)),
        Segments(draw.ints(3, T), draw.ints(2, S), name="segments_shared"),
        Map(3, 4),
        Map(13, 5, name="stretched"),
        Map(2, 2, rows=slice(1, -2), cols=slice(3, 11), pool="mean", name="blurred"),
        Map(4, 3, pool="max", name="peaks"),
        Crop(slice(2, 9), slice(1, -1)),
        Contribution(weight),
    )
