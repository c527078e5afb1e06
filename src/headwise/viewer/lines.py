"""One query's row, one key's column, and the profile of a head."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise.observers import Crop, Entropy, Offsets, Received, TopKeys
from headwise.pattern import Pattern

__all__ = ["FAR", "Profile", "column", "largest", "profile", "row"]

FAR = 64  #: the largest distance in a profile of offsets.
NAMED = 12  # how many of the largest are named
LINKS = 4  # top keys of each query, among which the strongest links are found


def row(pattern: Pattern, b: int, h: int, i: int) -> Tensor:
    """Query i's probabilities, float32 [S]."""
    crop = Crop(slice(i, i + 1), slice(0, pattern.shape[3]))
    found: Tensor = pattern.ask(crop, batch=slice(b, b + 1), heads=slice(h, h + 1))["crop"][0, 0, 0]
    return found.float().cpu()


def column(pattern: Pattern, b: int, h: int, j: int) -> Tensor:
    """All queries' probabilities on key j, float32 [T]."""
    where = {"batch": slice(b, b + 1), "heads": slice(h, h + 1)}
    pattern.settle(**where)  # else each question finds the numbers of all rows anew
    found: Tensor = pattern.ask(Crop(slice(0, pattern.shape[2]), slice(j, j + 1)), **where)["crop"][0, 0, :, 0]
    return found.float().cpu()


def largest(values: Tensor) -> list[dict[str, Any]]:
    """The places of the largest absolute values, most first, those of 0 left out."""
    order = values.abs().nan_to_num(0.0).topk(min(NAMED, len(values)))
    found = [(int(at), float(values[at])) for at in order.indices]
    return [{"at": at, "p": p} for at, p in found if p != 0 and math.isfinite(p)]


class Profile(NamedTuple):
    """What a profile shows of one head.

    Attributes:
        entropy: [T] in nats.
        received: [S], sum over queries of p.
        offsets: mean p at distance ``entry - after``, [after + limit + 1].
        limit: the largest distance behind.
        after: the largest distance ahead.
        links: (i, j, p), the strongest first, of the top keys of each query but the sink and the query's own.
        seeing: queries that see a key.
    """

    entropy: Tensor
    received: Tensor
    offsets: Tensor
    limit: int
    after: int
    links: list[tuple[int, int, float]]
    seeing: Tensor


def profile(pattern: Pattern, b: int, h: int, *, causal: bool, sink: int) -> Profile:
    """Entropy, received mass, offsets and strongest links of one head, in one pass over its pattern."""
    _, _, T, S = pattern.shape
    where = {"batch": slice(b, b + 1), "heads": slice(h, h + 1)}
    limit = max(0, min(FAR, max(T, S) - 1))
    after = 0 if causal else limit
    pattern.settle(**where)
    asked = [Entropy(), Received(), Offsets(limit, after), TopKeys(max(1, min(LINKS, S)))]
    found = pattern.ask(*asked, **where)
    entropy, received, offsets = (found[name][0, 0].float().cpu() for name in ("entropy", "received", "offsets"))
    values, indices = found["top_keys"].values[0, 0].cpu(), found["top_keys"].indices[0, 0].cpu()
    seeing = indices[:, 0] >= 0 if T else torch.zeros(0, dtype=torch.bool, device="cpu")
    start = pattern.options["q_start"]
    own = torch.arange(T, dtype=torch.int64, device="cpu") + (
        int(start[b]) if isinstance(start, Tensor) else int(start)
    )
    left_out = (indices == sink) | (indices == own[:, None]) | (indices < 0)
    return Profile(entropy, received, offsets, limit, after, _links(values, indices, left_out), seeing)


def _links(values: Tensor, indices: Tensor, left_out: Tensor) -> list[tuple[int, int, float]]:
    if not values.numel():
        return []
    strength = values.masked_fill(left_out, 0.0).nan_to_num(0.0)
    order = strength.flatten().topk(min(NAMED, strength.numel())).indices
    k = values.shape[1]
    return [
        (int(at) // k, int(indices[at // k, at % k]), float(strength[at // k, at % k]))
        for at in order
        if strength[at // k, at % k] > 0
    ]
