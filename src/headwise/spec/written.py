"""Masks that are written out, by tile or by cell, or known to a function alone: blocks, dense, rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.spec.checks import FAR, bool_only, broadcastable, rows_of, takes, whole_number
from headwise.spec.geometry import Cells, Geometry
from headwise.spec.intervals import Intervals, capped, runs_of_true
from headwise.spec.masks import Mask

__all__ = ["Blocks", "Dense", "Rule"]


@dataclass(frozen=True, eq=False)
class Blocks(Mask):
    """A map of square tiles: cell (i, j) is visible where ``keep[..., i // size, j // size]``.

    Args:
        keep: bool [nq, nk], [H, nq, nk] or [B, H, nq, nk] (B or H may be 1), nq = ceil(T / size), nk = ceil(S / size).
        size: rows and keys of a tile.
        align: "start": rows of tiles count queries, from query 0. "end": they count positions, ``pos_i // size``, so
            one map of a whole sequence serves every part of it; it may be larger than T and S, and a query behind or
            before it sees nothing.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 3, 4)
        >>> (hw.Pattern(x, x, mask=hw.Blocks(torch.eye(2).bool(), size=2))[0, 0] > 0).int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [0, 0, 1]], dtype=torch.int32)
    """

    keep_tiles: Tensor
    size: int
    align: str

    def __init__(self, keep: Tensor, size: int, align: str = "start") -> None:
        object.__setattr__(self, "keep_tiles", keep)
        object.__setattr__(self, "size", size)
        object.__setattr__(self, "align", align)
        bool_only("Blocks", "keep", keep, "nq nk")
        whole_number("Blocks", "size", size, 1, FAR, f"a tile has 1 to {FAR} rows")
        if keep.dim() not in (2, 3, 4):
            raise ShapeError(
                sentence("Blocks", f"keep has {keep.dim()} axes", "it is [nq,nk], [H,nq,nk] or [B,H,nq,nk]")
            )
        if align not in ("start", "end"):
            rule = 'align is "start" (tiles count queries) or "end" (they count positions)'
            raise SpecError(sentence("Blocks", f"align is {align!r}", rule))

    def _full(self) -> Tensor:
        return self.keep_tiles.reshape((1,) * (4 - self.keep_tiles.dim()) + tuple(self.keep_tiles.shape))

    @property
    def per_head(self) -> bool:  # type: ignore[override]
        return self._full().shape[1] > 1

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return self._full().shape[0] > 1

    @property
    def by_position(self) -> bool:  # type: ignore[override]
        return self.align == "end"

    def sizes(self) -> dict[str, int]:
        b, h, nq, nk = self._full().shape
        told = {"T": nq * self.size, "S": nk * self.size}
        return told | ({"B": b} if b != 1 else {}) | ({"H": h} if h != 1 else {})

    def check(self, geometry: Geometry) -> None:
        b, h, nq, nk = self._full().shape
        want_q, want_k = -(-geometry.T // self.size), -(-geometry.S // self.size)
        by_position = self.align == "end"
        fits = nk >= want_k and (nq > 0 or geometry.T == 0) if by_position else (nq, nk) == (want_q, want_k)
        if not fits or b not in (1, geometry.B) or h not in (1, geometry.H):
            wanted = f"nk={want_k} or more" if by_position else f"nq={want_q},nk={want_k}"
            raise ShapeError(
                sentence(
                    "Blocks",
                    f"keep does not fit T={geometry.T}, S={geometry.S} in tiles of {self.size}",
                    f"it must be [{wanted}], behind H={geometry.H} and B={geometry.B} if they vary",
                    axes("keep", self.keep_tiles, "B H nq nk"),
                )
            )

    def intervals(self, geometry: Geometry) -> Intervals:
        tiles = self._full().any(1)  # what some head sees: [b, nq, nk]
        b, nq, _ = tiles.shape
        lo, hi, exact = capped(*(x.unflatten(0, (b, nq)) * self.size for x in runs_of_true(tiles.flatten(0, 1))))
        lo, hi = lo.clamp(max=geometry.S), hi.clamp(max=geometry.S)
        none = torch.zeros_like(lo[:, :1])  # the runs of a query outside of the map, behind the last row of tiles
        lo, hi = torch.cat([lo, none], 1), torch.cat([hi, none], 1)

        def bounds(batch: slice, rows: slice) -> tuple[Tensor, Tensor]:
            tile, ends = self._tile_rows(geometry, batch, rows), (rows_of(lo, batch), rows_of(hi, batch))
            if len(tile) == 1:
                return ends[0][:, tile[0]], ends[1][:, tile[0]]
            at = tile[..., None].expand(-1, -1, lo.shape[-1])
            low, high = (end.expand(len(tile), -1, -1).gather(1, at) for end in ends)
            return low, high

        return Intervals(bounds, exact and not self.per_head, lo.shape[-1])

    def keep(self, cells: Cells) -> Tensor:
        tiles = self._full()
        if tiles.shape[0] > 1:
            tiles = tiles[cells.batch]
        if tiles.shape[1] > 1:
            tiles = tiles[:, cells.heads]
        rows, nq = self._tile_rows(cells.geometry, cells.batch, cells.rows), tiles.shape[2]
        at = rows.clamp(max=nq - 1)
        if len(at) == 1:
            kept = tiles.index_select(2, at[0])
        else:
            wide = (len(at), *tiles.shape[1:])
            kept = tiles.expand(wide).gather(2, at[:, None, :, None].expand(-1, wide[1], -1, wide[3]))
        kept = kept.index_select(3, cells.j // self.size)
        return kept & (rows < nq)[:, None, :, None] if self.align == "end" else kept

    def _tile_rows(self, geometry: Geometry, batch: slice, rows: slice) -> Tensor:
        """The row of tiles of each query, int64 [b or 1, n]; nq, which is none, for a query outside of the map."""
        nq = self.keep_tiles.shape[-2]
        if self.align == "start":
            return torch.arange(rows.start, rows.stop, device=geometry.device, dtype=torch.int64)[None] // self.size
        tile = geometry.positions(batch, rows).div(self.size, rounding_mode="floor")
        return torch.where((tile < 0) | (tile > nq), nq, tile)


@dataclass(frozen=True, eq=False)
class Dense(Mask):
    """A mask that somebody already wrote out.

    Args:
        keep: bool, broadcastable to [B, H, T, S]; True = may attend. It is read in place, tile by tile.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.Pattern(x, x, mask=hw.Dense(torch.tensor([[True, False], [True, True]])))[0, 0]
        tensor([[1.0000, 0.0000],
                [0.5000, 0.5000]])
    """

    keep_cells: Tensor

    def __init__(self, keep: Tensor) -> None:
        object.__setattr__(self, "keep_cells", keep)
        bool_only("Dense", "keep", keep, "B H T S")

    @property
    def per_head(self) -> bool:  # type: ignore[override]
        return self.keep_cells.dim() >= 3 and self.keep_cells.shape[-3] > 1

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return self.keep_cells.dim() == 4 and self.keep_cells.shape[0] > 1

    def sizes(self) -> dict[str, int]:
        shape = self.keep_cells.shape
        return {letter: n for letter, n in zip("BHTS"[4 - len(shape) :], shape, strict=True) if n != 1}

    def check(self, geometry: Geometry) -> None:
        broadcastable("Dense", "keep", self.keep_cells, geometry)

    def keep(self, cells: Cells) -> Tensor:
        return cells.part_of(self.keep_cells)


@dataclass(frozen=True, eq=False)
class Rule(Mask):
    """A mask that only a function knows; reference and blocked backends only.

    Args:
        fn: ``fn(b, h, i, j) -> bool``, called a tile at a time on int64 index tensors that broadcast to [b, h, n, m].

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 3, 4)
        >>> every_second = hw.Rule(lambda b, h, i, j: (i - j) % 2 == 0)
        >>> (hw.Pattern(x, x, mask=hw.Causal() & every_second)[0, 0] > 0).int()
        tensor([[1, 0, 0],
                [0, 1, 0],
                [1, 0, 1]], dtype=torch.int32)
    """

    fn: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]

    def __post_init__(self) -> None:
        takes("Rule", self.fn, "b, h, i, j")

    def keep(self, cells: Cells) -> Tensor:
        kept = self.fn(cells.b, cells.h, cells.i, cells.j)
        if not isinstance(kept, Tensor) or kept.dtype != torch.bool:
            found = kept.dtype if isinstance(kept, Tensor) else type(kept).__name__
            raise SpecError(sentence("Rule", f"fn returned {found}", "it returns a bool tensor, True = may attend"))
        try:
            kept.expand(cells.shape)
        except RuntimeError:
            raise ShapeError(
                sentence(
                    "Rule",
                    "fn returned a tensor that does not fit its tile",
                    f"it broadcasts to {list(cells.shape)}, the common shape of b, h, i, j",
                    axes("result", kept, "b h n m"),
                )
            ) from None
        return kept
