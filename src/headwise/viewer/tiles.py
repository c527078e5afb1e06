"""Tiles of a pattern: exact probabilities, pooled by powers of two, for whatever part of the matrix is on the screen.

A level z pools cells of ``2^z x 2^z`` probabilities; tile (r, c) holds ``TILE x TILE`` of them, from query
``r * TILE * 2^z`` and key ``c * TILE * 2^z`` on. The last tiles of an axis end where it ends, and a cell at the edge
pools what there is. So every tile of every level is defined by the matrix alone, and nothing of it is kept but a few
pooled wholes: a deep tile touches few cells, and the coarse ones all come out of one pass over the pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from headwise.observers import Crop, Map
from headwise.pattern import Pattern
from headwise.spec.geometry import span

__all__ = [
    "BASE",
    "EACH",
    "TILE",
    "Cancelled",
    "base_level",
    "coarsest",
    "condensed",
    "cut",
    "joined_maps",
    "level",
    "pooled",
    "sketched",
    "window",
]

TILE = 256  #: side of a tile, in pooled cells.
BASE = 1024  #: a pooled whole is at most so many cells high and wide; levels above it are condensed from it.
EACH = 2  #: queries that stand for a pooled row of a preview
AT_ONCE = 2**27  # cells of the matrix between two looks at whether the answer is still wanted


class Cancelled(Exception):
    """What was asked for is not wanted any more."""


def coarsest(T: int, S: int) -> int:
    """The first level at which one tile holds the whole pattern.

    Example:
        >>> from headwise.viewer.tiles import coarsest
        >>> coarsest(200, 256), coarsest(257, 10), coarsest(32768, 32768)
        (0, 1, 7)
    """
    return level(T, S, TILE)


def base_level(T: int, S: int) -> int:
    """The first level at which the whole pattern is at most BASE cells high and wide."""
    return level(T, S, BASE)


def level(T: int, S: int, most: int) -> int:
    """The first level at which the whole pattern is at most so many cells high and wide."""
    return max(0, (max(T, S, 1) - 1) // most).bit_length()


def window(r: int, c: int, z: int, T: int, S: int) -> tuple[slice, slice]:
    """The queries and keys that a tile covers; empty slices where there is no such tile."""
    side = TILE << z
    return _part(r * side, side, T), _part(c * side, side, S)


def _part(start: int, side: int, length: int) -> slice:
    return slice(min(start, length), min(start + side, length))


def pooled(
    pattern: Pattern,
    b: int,
    h: int,
    rows: slice,
    cols: slice,
    z: int,
    pool: str,
    cancelled: Callable[[], bool] = lambda: False,
) -> Tensor:
    """A part of one head's pattern, exactly, pooled by 2^z.

    Args:
        pattern: p [B, H, T, S].
        b: row of the batch.
        h: query head.
        rows: queries, ``0 <= start < stop <= T``.
        cols: keys, likewise.
        z: the level.
        pool: "mean" or "max".
        cancelled: asked between parts of long work.

    Returns:
        [ceil(n / 2^z), ceil(m / 2^z)] for n queries and m keys, in the pattern's dtype: cell (r, c) pools queries
        ``rows.start + r * 2^z`` to ``rows.start + (r + 1) * 2^z``, as far as there are any, keys likewise.

    Raises:
        Cancelled: ``cancelled()`` turned true on the way.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.viewer.tiles import pooled
        >>> x = torch.zeros(1, 1, 3, 4)
        >>> pooled(hw.Pattern(x, x, mask=hw.Causal()), 0, 0, slice(0, 3), slice(0, 3), 1, "mean")
        tensor([[0.5000, 0.0000],
                [0.3333, 0.3333]])
    """
    f = 1 << z
    tall = max(1, AT_ONCE // (f * max(1, span(cols)))) * f  # whole pooled rows at a time
    parts = []
    for start in range(rows.start, rows.stop, tall):
        if cancelled():
            raise Cancelled
        parts.append(_pooled(pattern, b, h, slice(start, min(start + tall, rows.stop)), cols, z, pool))
    return torch.cat(parts) if len(parts) != 1 else parts[0]


def _pooled(pattern: Pattern, b: int, h: int, rows: slice, cols: slice, z: int, pool: str) -> Tensor:
    where = {"batch": slice(b, b + 1), "heads": slice(h, h + 1)}
    if not z:
        found: Tensor = pattern.ask(Crop(rows, cols), **where)["crop"][0, 0]
        return found
    asked, joined = joined_maps(rows, cols, z, pool)
    return joined(pattern.ask(*asked, **where))[0, 0]


def joined_maps(rows: slice, cols: slice, z: int, pool: str) -> tuple[list[Map], Callable[[Mapping[str, Any]], Tensor]]:
    """The questions that pool a part by 2^z, and what joins their answers to one map [b, h, height, width].

    A Map's cells are of one size where that divides its length, so what is left over at the edges is asked beside.
    """
    down, across = list(_runs(rows, 1 << z)), list(_runs(cols, 1 << z))
    asked = [
        Map(height, width, rows=r, cols=c, pool=pool, name=f"{y}.{x}")
        for y, (r, height) in enumerate(down)
        for x, (c, width) in enumerate(across)
    ]

    def joined(found: Mapping[str, Any]) -> Tensor:
        lines = [torch.cat([found[f"{y}.{x}"] for x in range(len(across))], -1) for y in range(len(down))]
        return torch.cat(lines, -2)

    return asked, joined


def _runs(part: slice, f: int) -> Iterator[tuple[slice, int]]:
    """The stretch of whole cells and the rest, each with its number of cells."""
    whole = span(part) // f
    if whole:
        yield slice(part.start, part.start + whole * f), whole
    if span(part) % f:
        yield slice(part.start + whole * f, part.stop), 1


def condensed(base: Tensor, have: int, z: int, T: int, S: int, pool: str) -> Tensor:
    """The whole at level z from the whole at a finer one: what ``pooled`` gives, up to rounding.

    Args:
        base: the whole at level ``have``, [ceil(T / 2^have), ceil(S / 2^have)].
        have: its level, at most z.
        z: the level wanted.
        T: queries.
        S: keys.
        pool: "mean" or "max".
    """
    if z == have:
        return base
    step = 1 << (z - have)
    if pool == "max":
        return _folded(base, step, torch.amax)
    tall, wide = (_sizes(length, have).to(base) for length in (T, S))
    sums = _folded(base * tall[:, None] * wide, step, torch.sum)
    return sums / (_sizes(T, z).to(base)[:, None] * _sizes(S, z).to(base))


def _folded(x: Tensor, step: int, reduce: Callable[..., Tensor]) -> Tensor:
    """Blocks of ``step x step`` reduced to one; missing cells count as 0."""
    h, w = x.shape
    H, W = -(-h // step), -(-w // step)
    padded = x.new_zeros((H * step, W * step))
    padded[:h, :w] = x
    return reduce(padded.view(H, step, W, step), dim=(1, 3))


def _sizes(length: int, z: int) -> Tensor:
    """How many positions each pooled cell of an axis covers."""
    count = -(-length >> z) if length else 0
    sizes = torch.full((count,), 1 << z, dtype=torch.int64, device="cpu")
    if count and length % (1 << z):
        sizes[-1] = length % (1 << z)
    return sizes


def cut(whole: Tensor, r: int, c: int) -> Tensor:
    """Tile (r, c) of a whole at its level, a copy: one that is kept must not keep the whole."""
    return whole[r * TILE : (r + 1) * TILE, c * TILE : (c + 1) * TILE].clone(memory_format=torch.contiguous_format)


def sketched(pattern: Pattern, h: int, T: int, z: int, pool: str) -> Tensor:
    """The whole at level z as a sample of its queries tells it: quick, of the right shape, and not exact.

    Args:
        pattern: the rows of ``sampled(T, ...)`` alone, [1, H, EACH * ceil(T / 2^z), S].
        h: query head.
        T: queries that they stand for.
        z: the level.
        pool: "mean" or "max".

    Returns:
        [ceil(T / 2^z), ceil(S / 2^z)]; what the sample did not meet is not shown.
    """
    height, S = -(-T // (1 << z)), pattern.shape[3]
    across = list(_runs(slice(0, S), 1 << z))
    asked = [Map(height, width, cols=keys, pool=pool, name=str(x)) for x, (keys, width) in enumerate(across)]
    found = pattern.ask(*asked, heads=slice(h, h + 1))
    return torch.cat([found[str(x)][0, 0] for x in range(len(across))], -1)
