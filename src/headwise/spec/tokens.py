"""Masks that follow from what each token is: padding, and the document that it belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.spec.checks import batch_of, bool_only, column, fits, int_vector, is_integer, rows_of
from headwise.spec.geometry import Cells, Geometry
from headwise.spec.intervals import Intervals, runs_of_equal, runs_of_true
from headwise.spec.masks import Mask
from headwise.tracing import uncompiled

__all__ = ["Documents", "Padding"]


@dataclass(frozen=True, eq=False)
class Padding(Mask):
    """Keys (and queries) that are real tokens.

    Args:
        keep_or_lengths: bool [B, S], True = a real key; or an int or integer tensor [B], the first ``lengths[b]`` keys
            are real.
        queries: bool [B, T], False makes the whole row empty; None = every query is real.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 3, 4)
        >>> (hw.Pattern(x, x, mask=hw.Padding(torch.tensor([2])))[0, 0] > 0).int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [1, 1, 0]], dtype=torch.int32)
    """

    keep_or_lengths: int | Tensor
    queries: Tensor | None = None

    per_batch = True
    by_position = True

    def of_text(self) -> Padding:
        return self if self.queries is None else Padding(self.keep_or_lengths)

    def __post_init__(self) -> None:
        value = self.keep_or_lengths
        if isinstance(value, Tensor) and value.dim() == 2:
            bool_only("Padding", "keep_or_lengths", value, "B S")
        elif isinstance(value, Tensor) and value.dtype == torch.bool:
            raise ShapeError(
                sentence("Padding", f"a bool keep has {value.dim()} axes", "it is bool [B,S]", axes("keep", value, ""))
            )
        else:
            int_vector("Padding", "lengths", value, None)
        if self.queries is not None:
            bool_only("Padding", "queries", self.queries, "B T")

    def sizes(self) -> dict[str, int]:
        value = self.keep_or_lengths
        told = {} if not isinstance(value, Tensor) else dict(zip("BS", value.shape, strict=False))
        return told if self.queries is None else told | dict(zip("BT", self.queries.shape, strict=True))

    def check(self, geometry: Geometry) -> None:
        value = self.keep_or_lengths
        if isinstance(value, Tensor) and value.dim() == 2:
            fits("Padding", "keep", value, (geometry.B, geometry.S), "B S")
        else:
            int_vector("Padding", "lengths", value, geometry)
        if self.queries is not None:
            fits("Padding", "queries", self.queries, (geometry.B, geometry.T), "B T")

    def keep(self, cells: Cells) -> Tensor:
        value = self.keep_or_lengths
        if isinstance(value, Tensor) and value.dim() == 2:
            kept = cells.part_of(value[:, None, None, :])
        else:
            lengths = rows_of(column(value, cells.geometry), cells.batch)
            kept = cells.j < lengths[:, :, None, None]
        if self.queries is not None:
            kept = kept & cells.part_of(self.queries[:, None, :, None])
        return kept

    def intervals(self, geometry: Geometry) -> Intervals:
        value = self.keep_or_lengths
        if isinstance(value, Tensor) and value.dim() == 2:
            keys = Intervals.fixed(*runs_of_true(value), geometry)
        else:
            hi = column(value, geometry).clamp(0, geometry.S)
            keys = Intervals.fixed(torch.zeros_like(hi), hi, geometry)
        queries = self.queries
        if queries is None:
            return keys
        rows_seen = Intervals.between(
            geometry, lambda batch, rows: (0, rows_of(queries, batch)[:, rows].long() * geometry.S)
        )
        return keys & rows_seen


@dataclass(frozen=True, eq=False)
class Documents(Mask):
    """Packed documents: query i sees the keys whose id equals its own.

    Args:
        ids: integer [T] or [B, T], the document of each query.
        key_ids: integer [S] or [B, S], the document of each key; None = the same as ids (then S = T).

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 3, 4)
        >>> (hw.Pattern(x, x, mask=hw.Documents(torch.tensor([7, 7, 9])))[0, 0] > 0).int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [0, 0, 1]], dtype=torch.int32)
    """

    ids: Tensor
    key_ids: Tensor | None = None
    by_position = True

    def of_text(self) -> Documents:
        return self if self.key_ids is None else Documents(self.key_ids)

    @classmethod
    def from_offsets(cls, offsets: Tensor, key_offsets: Tensor | None = None) -> Documents:
        """Documents from cumulative lengths, ``[0, 3, 3, 8]``: lengths 3, 0 and 5.

        Args:
            offsets: integer [n + 1], rising from 0 to T (``cu_seqlens``).
            key_offsets: integer [n + 1] from 0 to S; None = the same as offsets.

        Example:
            >>> import torch, headwise as hw
            >>> hw.Documents.from_offsets(torch.tensor([0, 2, 2, 5])).ids
            tensor([0, 0, 2, 2, 2])
        """
        ids = _ids_from("offsets", offsets)
        key_ids = None if key_offsets is None else _ids_from("key_offsets", key_offsets)
        if key_offsets is not None and len(key_offsets) != len(offsets):
            raise ShapeError(
                sentence(
                    "Documents.from_offsets",
                    f"{len(offsets) - 1} query documents, {len(key_offsets) - 1} key documents",
                    "both sides hold the same documents",
                )
            )
        return cls(ids, key_ids)

    def __post_init__(self) -> None:
        for name in ("ids", "key_ids"):
            value = getattr(self, name)
            if value is None and name == "key_ids":
                continue
            if not is_integer(value):
                found = value.dtype if isinstance(value, Tensor) else type(value).__name__
                raise SpecError(sentence("Documents", f"{name} is {found}", "ids are an integer tensor"))
            if value.dim() not in (1, 2):
                raise ShapeError(
                    sentence(
                        "Documents", f"{name} has {value.dim()} axes", "ids are [T] or [B,T]", axes(name, value, "")
                    )
                )

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return any(t is not None and t.dim() == 2 for t in (self.ids, self.key_ids))

    def sizes(self) -> dict[str, int]:
        ids, key_ids = self._both()
        b = batch_of(ids, key_ids)
        return {"T": ids.shape[1], "S": key_ids.shape[1]} | ({"B": b} if b != 1 else {})

    def _both(self) -> tuple[Tensor, Tensor]:
        """Ids [B or 1, T] and key ids [B or 1, S]."""
        ids = self.ids if self.ids.dim() == 2 else self.ids[None]
        key_ids = self.ids if self.key_ids is None else self.key_ids
        return ids, key_ids if key_ids.dim() == 2 else key_ids[None]

    def check(self, geometry: Geometry) -> None:
        for name, value, length, letter in zip(
            ("ids", "key_ids"), self._both(), (geometry.T, geometry.S), ("T", "S"), strict=True
        ):
            if value.shape[1] != length or value.shape[0] not in (1, geometry.B):
                raise ShapeError(
                    sentence(
                        "Documents",
                        f"{name} does not fit the call",
                        f"it must be [{letter}={length}] or [B={geometry.B},{letter}={length}]",
                        axes(name, value, f"B {letter}"),
                        "Give ids for the queries and key_ids for the keys where T and S differ.",
                    )
                )

    def keep(self, cells: Cells) -> Tensor:
        ids, key_ids = self._both()
        return cells.part_of(ids[:, None, :, None]) == cells.part_of(key_ids[:, None, None, :])

    def intervals(self, geometry: Geometry) -> Intervals:
        ids, key_ids = self._both()
        b = batch_of(ids, key_ids)
        if b == 0:
            return Intervals.everything(geometry, exact=False)
        lo, hi, exact = runs_of_equal(ids.expand(b, -1).long(), key_ids.expand(b, -1).long())

        def bounds(batch: slice, rows: slice) -> tuple[Tensor, Tensor]:
            return rows_of(lo, batch)[:, rows], rows_of(hi, batch)[:, rows]

        return Intervals(bounds, exact, lo.shape[-1])


@uncompiled(
    "Documents.from_offsets: how many tokens there are stands in the offsets; make the mask outside of the graph"
)
def _ids_from(name: str, offsets: Tensor) -> Tensor:
    good = (
        is_integer(offsets)
        and offsets.dim() == 1
        and len(offsets) >= 1
        and int(offsets[0]) == 0
        and bool((offsets[1:] >= offsets[:-1]).all())
    )
    if not good:
        raise SpecError(
            sentence(
                "Documents.from_offsets", f"{name} is {offsets}", "offsets are integers that rise from 0, [0,3,3,8]"
            )
        )
    lengths = offsets[1:] - offsets[:-1]
    return torch.repeat_interleave(torch.arange(len(lengths), device=offsets.device, dtype=torch.int64), lengths.long())
