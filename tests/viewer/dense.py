"""The definition of what a viewer shows, from the whole matrix: what tests of the viewer compare with."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

import headwise as hw


def shown(p: Tensor, sink: int, *, hide: bool, norm: bool) -> Tensor:
    """One head's probabilities [T, S], with the sink left out and rows divided by their largest, if wanted."""
    p = p.double()
    if hide:
        p[:, sink] = 0
    return p / p.amax(-1, keepdim=True).clamp(min=1e-300) if norm else p


def pooled(p: Tensor, z: int, pool: str) -> Tensor:
    """Cells of 2^z x 2^z, those at the edges of what there is."""
    ask = {"mean": functional.avg_pool2d, "max": functional.max_pool2d}[pool]
    return ask(p[None, None], 1 << z, ceil_mode=True)[0, 0]


def patterns(
    T: int, S: int | None = None, *, seed: int = 0, B: int = 2, H: int = 3, Hk: int = 3, **spec: object
) -> hw.Pattern:
    """A pattern whose numbers are nothing in particular."""
    made = torch.Generator().manual_seed(seed)
    q, k = (torch.randn(B, heads, n, 8, generator=made) * 2 for heads, n in ((H, T), (Hk, S or T)))
    return hw.Pattern(q, k, **spec)  # type: ignore[arg-type]
