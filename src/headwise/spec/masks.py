"""Masks: which cells of a pattern a query may attend to. True means "may attend"; masks combine with ``&`` and ``|``.

Every mask is a small frozen value. It says the same thing twice: ``keep(cells)`` is its definition, cell by cell, and
``intervals(geometry)`` is the same set as runs of keys, which is what lets a backend skip what nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.spec.geometry import Cells, Geometry
from headwise.spec.intervals import Intervals, runs_of_equal, runs_of_true

__all__ = [
    "And",
    "Blocks",
    "Causal",
    "Chunks",
    "Dense",
    "Documents",
    "Mask",
    "Or",
    "Padding",
    "Prefix",
    "Rule",
    "Window",
]


class Mask:
    """Base of all masks: a set of cells (b, h, i, j) that may be attended to.

    Example:
        >>> import headwise as hw
        >>> hw.Causal() & hw.Window(before=2)
        Causal(align='end') & Window(before=2, after=None)
    """

    per_head = False  # True where heads hold tensors of their own, so that cutting by head lets more be skipped
    per_batch = False  # the same for batch rows

    def keep(self, cells: Cells) -> Tensor:
        """The definition: bool, broadcastable to the cells' shape."""
        raise NotImplementedError

    def intervals(self, geometry: Geometry) -> Intervals:
        """Runs of keys that hold every visible cell."""
        return Intervals.everything(geometry, exact=False)

    def check(self, geometry: Geometry) -> None:
        """Raises ShapeError where the mask does not fit the call."""

    def parts(self) -> tuple[Mask, ...]:
        """The masks that this one is made of, itself included."""
        return (self,)

    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the mask holds; they are not copied."""
        found = []
        for part in self.parts():
            for field in fields(part):  # type: ignore[arg-type]
                value = getattr(part, field.name)
                if isinstance(value, Tensor):
                    found.append(value)
        return tuple(found)

    def __and__(self, other: Mask) -> Mask:
        return And((self, _a_mask(other, "&")))

    def __or__(self, other: Mask) -> Mask:
        return Or((self, _a_mask(other, "|")))


def _a_mask(value: Any, sign: str) -> Mask:
    if isinstance(value, Mask):
        return value
    raise SpecError(
        sentence(
            "mask",
            f"{sign} got a {type(value).__name__}",
            "masks combine with masks",
            todo="Wrap a bool tensor in hw.Dense(keep), True = may attend.",
        )
    )


@dataclass(frozen=True, eq=False)
class _Combined(Mask):
    masks: tuple[Mask, ...]

    @property
    def per_head(self) -> bool:  # type: ignore[override]
        return any(mask.per_head for mask in self.masks)

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return any(mask.per_batch for mask in self.masks)

    def check(self, geometry: Geometry) -> None:
        for mask in self.masks:
            mask.check(geometry)

    def parts(self) -> tuple[Mask, ...]:
        return tuple(part for mask in self.masks for part in mask.parts())


class And(_Combined):
    """Cells that every one of the masks keeps; written ``a & b``.

    Example:
        >>> import headwise as hw
        >>> isinstance(hw.Causal() & hw.Window(3), hw.spec.And)
        True
    """

    def keep(self, cells: Cells) -> Tensor:
        kept = self.masks[0].keep(cells)
        for mask in self.masks[1:]:
            kept = kept & mask.keep(cells)
        return kept

    def intervals(self, geometry: Geometry) -> Intervals:
        found = self.masks[0].intervals(geometry)
        for mask in self.masks[1:]:
            found = found & mask.intervals(geometry)
        return found

    def __repr__(self) -> str:
        return " & ".join(f"({m})" if isinstance(m, Or) else str(m) for m in self.masks)


class Or(_Combined):
    """Cells that at least one of the masks keeps; written ``a | b``.

    Example:
        >>> import headwise as hw
        >>> hw.Causal() | hw.Prefix(4)      # a prefix LM
        Causal(align='end') | Prefix(lengths=4)
    """

    def keep(self, cells: Cells) -> Tensor:
        kept = self.masks[0].keep(cells)
        for mask in self.masks[1:]:
            kept = kept | mask.keep(cells)
        return kept

    def intervals(self, geometry: Geometry) -> Intervals:
        found = self.masks[0].intervals(geometry)
        for mask in self.masks[1:]:
            found = found | mask.intervals(geometry)
        return found

    def __repr__(self) -> str:
        return " | ".join(f"({m})" if isinstance(m, And) else str(m) for m in self.masks)


@dataclass(frozen=True, eq=False)
class Causal(Mask):
    """Key j is visible to query i where ``j <= pos_i``.

    Args:
        align: "end": pos_i = q_start + i, so with the default q_start = S - T the last query sees every key.
            "start": q_start counts as 0 for this mask, torch's top-left rule.

    Example:
        >>> import torch, headwise as hw
        >>> q, k = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 5, 4)
        >>> (hw.Pattern(q, k, mask=hw.Causal())[0, 0] > 0).int()
        tensor([[1, 1, 1, 1, 0],
                [1, 1, 1, 1, 1]], dtype=torch.int32)
        >>> (hw.Pattern(q, k, mask=hw.Causal(align="start"))[0, 0] > 0).int()
        tensor([[1, 0, 0, 0, 0],
                [1, 1, 0, 0, 0]], dtype=torch.int32)
    """

    align: str = "end"

    def __post_init__(self) -> None:
        if self.align not in ("end", "start"):
            raise SpecError(
                sentence("Causal", f"align is {self.align!r}", 'align is "end" (last with last) or "start" (top-left)')
            )

    def _positions(self, geometry: Geometry, batch: slice, rows: slice) -> Tensor:
        if self.align == "start":
            return torch.arange(rows.start, rows.stop, device=geometry.device)[None]
        return geometry.positions(batch, rows)

    def keep(self, cells: Cells) -> Tensor:
        return cells.j <= self._positions(cells.geometry, cells.batch, cells.rows)[:, None, :, None]

    def intervals(self, geometry: Geometry) -> Intervals:
        return Intervals.between(geometry, lambda batch, rows: (0, self._positions(geometry, batch, rows) + 1))


@dataclass(frozen=True, eq=False)
class Window(Mask):
    """Keys near the query: ``pos_i - before <= j <= pos_i + after``.

    Args:
        before: how many OTHER keys are visible behind the query; None = no limit.
        after: how many OTHER keys are visible ahead of it; None = no limit.

    A causal model's ``sliding_window=W`` is ``Causal() & Window(W - 1, 0)``: W keys, the query's own among them.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 4, 4)
        >>> (hw.Pattern(x, x, mask=hw.Window(before=1, after=0))[0, 0] > 0).int()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 1, 1, 0],
                [0, 0, 1, 1]], dtype=torch.int32)
    """

    before: int | None = None
    after: int | None = None

    def __post_init__(self) -> None:
        for name in ("before", "after"):
            value = getattr(self, name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise SpecError(
                    sentence(
                        "Window",
                        f"{name} is {value!r}",
                        "it counts the other keys visible on that side, so it is an int of at least 0, or None for no"
                        " limit",
                    )
                )

    def keep(self, cells: Cells) -> Tensor:
        kept = torch.ones((1, 1), dtype=torch.bool, device=cells.geometry.device)
        if self.before is not None:
            kept = kept & (cells.j >= cells.pos - self.before)
        if self.after is not None:
            kept = kept & (cells.j <= cells.pos + self.after)
        return kept

    def intervals(self, geometry: Geometry) -> Intervals:
        def ends(batch: slice, rows: slice) -> tuple[Tensor | int, Tensor | int]:
            pos = geometry.positions(batch, rows)
            lo = 0 if self.before is None else pos - self.before
            hi = geometry.S if self.after is None else pos + self.after + 1
            return lo, hi

        return Intervals.between(geometry, ends)


def _int_vector(who: str, name: str, value: Any, geometry: Geometry | None) -> None:
    """Checks an int, or an integer tensor [B]."""
    if isinstance(value, int) and not isinstance(value, bool):
        return
    if not isinstance(value, Tensor) or value.dtype == torch.bool or value.is_floating_point() or value.dim() != 1:
        found = axes(name, value, "B") + f" of {value.dtype}" if isinstance(value, Tensor) else repr(value)
        raise SpecError(sentence(who, f"{name} is {found}", "it is an int, or an integer tensor [B]"))
    if geometry is not None and value.shape[0] != geometry.B:
        raise ShapeError(
            sentence(
                who,
                f"{name} has {value.shape[0]} entries, the batch has {geometry.B} rows",
                "it holds one number a batch row",
                axes(name, value, "B"),
            )
        )


def _column(value: int | Tensor, geometry: Geometry) -> Tensor:
    """An int or a tensor [B] as int64 [B or 1, 1]."""
    return torch.as_tensor(value, dtype=torch.int64, device=geometry.device).reshape(-1, 1)


def _rows_of(tensor: Tensor, batch: slice) -> Tensor:
    return tensor[batch] if tensor.shape[0] > 1 else tensor


@dataclass(frozen=True, eq=False)
class Prefix(Mask):
    """Every query may see the first keys, ``j < lengths[b]``; a prefix LM is ``Causal() | Prefix(n)``.

    Args:
        lengths: int, or integer tensor [B].

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 3, 4)
        >>> (hw.Pattern(x, x, mask=hw.Causal() | hw.Prefix(2))[0, 0] > 0).int()
        tensor([[1, 1, 0],
                [1, 1, 0],
                [1, 1, 1]], dtype=torch.int32)
    """

    lengths: int | Tensor

    def __post_init__(self) -> None:
        _int_vector("Prefix", "lengths", self.lengths, None)

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return isinstance(self.lengths, Tensor)

    def check(self, geometry: Geometry) -> None:
        _int_vector("Prefix", "lengths", self.lengths, geometry)

    def keep(self, cells: Cells) -> Tensor:
        lengths = _rows_of(_column(self.lengths, cells.geometry), cells.batch)
        return cells.j < lengths[:, :, None, None]

    def intervals(self, geometry: Geometry) -> Intervals:
        hi = _column(self.lengths, geometry).clamp(0, geometry.S)
        return Intervals.fixed(torch.zeros_like(hi), hi, geometry)


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

    def __post_init__(self) -> None:
        value = self.keep_or_lengths
        if isinstance(value, Tensor) and value.dim() == 2:
            _bool_only("Padding", "keep_or_lengths", value, "B S")
        elif isinstance(value, Tensor) and value.dtype == torch.bool:
            raise ShapeError(
                sentence("Padding", f"a bool keep has {value.dim()} axes", "it is bool [B,S]", axes("keep", value, ""))
            )
        else:
            _int_vector("Padding", "lengths", value, None)
        if self.queries is not None:
            _bool_only("Padding", "queries", self.queries, "B T")

    def check(self, geometry: Geometry) -> None:
        value = self.keep_or_lengths
        if isinstance(value, Tensor) and value.dim() == 2:
            _fits("Padding", "keep", value, (geometry.B, geometry.S), "B S")
        else:
            _int_vector("Padding", "lengths", value, geometry)
        if self.queries is not None:
            _fits("Padding", "queries", self.queries, (geometry.B, geometry.T), "B T")

    def keep(self, cells: Cells) -> Tensor:
        value = self.keep_or_lengths
        if isinstance(value, Tensor) and value.dim() == 2:
            kept = cells.part_of(value[:, None, None, :])
        else:
            lengths = _rows_of(_column(value, cells.geometry), cells.batch)
            kept = cells.j < lengths[:, :, None, None]
        if self.queries is not None:
            kept = kept & cells.part_of(self.queries[:, None, :, None])
        return kept

    def intervals(self, geometry: Geometry) -> Intervals:
        value = self.keep_or_lengths
        if isinstance(value, Tensor) and value.dim() == 2:
            keys = Intervals.fixed(*runs_of_true(value), geometry)
        else:
            hi = _column(value, geometry).clamp(0, geometry.S)
            keys = Intervals.fixed(torch.zeros_like(hi), hi, geometry)
        queries = self.queries
        if queries is None:
            return keys
        rows_seen = Intervals.between(
            geometry, lambda batch, rows: (0, _rows_of(queries, batch)[:, rows].long() * geometry.S)
        )
        return keys & rows_seen


def _bool_only(who: str, name: str, value: Any, letters: str) -> None:
    if not isinstance(value, Tensor):
        raise SpecError(sentence(who, f"{name} is a {type(value).__name__}", f"it is a bool tensor [{letters}]"))
    if value.dtype == torch.bool:
        return
    todo = "Use .bool() if 1 means keep; add a float mask to the scores with hw.Bias(tensor)."
    raise SpecError(
        sentence(
            who,
            f"{name} is {value.dtype}",
            "a mask of numbers is ambiguous, a keep-mask is bool with True = may attend",
            axes(name, value, letters),
            todo,
        )
    )


def _fits(who: str, name: str, value: Tensor, want: Sequence[int], letters: str) -> None:
    if tuple(value.shape) == tuple(want):
        return
    wanted = ",".join(f"{a}={n}" for a, n in zip(letters.split(), want, strict=True))
    raise ShapeError(
        sentence(who, f"{name} does not fit the call", f"it must be [{wanted}]", axes(name, value, letters))
    )


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
        if key_offsets is not None and len(key_offsets) != len(offsets):
            raise ShapeError(
                sentence(
                    "Documents.from_offsets",
                    f"{len(offsets) - 1} query documents, {len(key_offsets) - 1} key documents",
                    "both sides hold the same documents",
                )
            )
        return cls(ids, None if key_offsets is None else _ids_from("key_offsets", key_offsets))

    def __post_init__(self) -> None:
        for name in ("ids", "key_ids"):
            value = getattr(self, name)
            if value is None and name == "key_ids":
                continue
            if not isinstance(value, Tensor) or value.is_floating_point() or value.dtype == torch.bool:
                found = value.dtype if isinstance(value, Tensor) else type(value).__name__
                raise SpecError(sentence("Documents", f"{name} is {found}", "ids are an integer tensor"))
            if value.dim() not in (1, 2):
                raise ShapeError(
                    sentence("Documents", f"{name} has {value.dim()} axes", "ids are [T] or [B,T]", axes(name, value, ""))
                )

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return any(t is not None and t.dim() == 2 for t in (self.ids, self.key_ids))

    def _both(self) -> tuple[Tensor, Tensor]:
        """ids [B or 1, T] and key ids [B or 1, S]."""
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
        b = max(ids.shape[0], key_ids.shape[0])
        if b == 0:
            return Intervals.everything(geometry, exact=False)
        lo, hi, exact = runs_of_equal(ids.expand(b, -1).long(), key_ids.expand(b, -1).long())

        def bounds(batch: slice, rows: slice) -> tuple[Tensor, Tensor]:
            return _rows_of(lo, batch)[:, rows], _rows_of(hi, batch)[:, rows]

        return Intervals(bounds, exact)


def _ids_from(name: str, offsets: Tensor) -> Tensor:
    good = (
        isinstance(offsets, Tensor)
        and offsets.dim() == 1
        and len(offsets) >= 1
        and not offsets.is_floating_point()
        and offsets.dtype != torch.bool
        and int(offsets[0]) == 0
        and bool((offsets[1:] >= offsets[:-1]).all())
    )
    if not good:
        raise SpecError(
            sentence("Documents.from_offsets", f"{name} is {offsets}", "offsets are integers that rise from 0, [0,3,3,8]")
        )
    lengths = offsets[1:] - offsets[:-1]
    return torch.repeat_interleave(torch.arange(len(lengths), device=offsets.device), lengths.long())


@dataclass(frozen=True, eq=False)
class Chunks(Mask):
    """Query and key lie in the same chunk: ``floor((pos_i - start) / size) == floor((j - start) / size)``.

    Args:
        size: tokens in a chunk.
        start: where chunk 0 begins, an int or an integer tensor [B] (Llama 4 in transformers counts from the left
            padding).

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 4, 4)
        >>> (hw.Pattern(x, x, mask=hw.Causal() & hw.Chunks(2))[0, 0] > 0).int()
        tensor([[1, 0, 0, 0],
                [1, 1, 0, 0],
                [0, 0, 1, 0],
                [0, 0, 1, 1]], dtype=torch.int32)
    """

    size: int
    start: int | Tensor = 0

    def __post_init__(self) -> None:
        if isinstance(self.size, bool) or not isinstance(self.size, int) or self.size < 1:
            raise SpecError(sentence("Chunks", f"size is {self.size!r}", "a chunk holds at least 1 token"))
        _int_vector("Chunks", "start", self.start, None)

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return isinstance(self.start, Tensor)

    def check(self, geometry: Geometry) -> None:
        _int_vector("Chunks", "start", self.start, geometry)

    def _chunk(self, at: Tensor, start: Tensor) -> Tensor:
        return torch.div(at - start, self.size, rounding_mode="floor")

    def keep(self, cells: Cells) -> Tensor:
        start = _rows_of(_column(self.start, cells.geometry), cells.batch)[:, :, None, None]
        return self._chunk(cells.pos, start) == self._chunk(cells.j, start)

    def intervals(self, geometry: Geometry) -> Intervals:
        start = _column(self.start, geometry)

        def ends(batch: slice, rows: slice) -> tuple[Tensor | int, Tensor | int]:
            origin = _rows_of(start, batch)
            lo = self._chunk(geometry.positions(batch, rows), origin) * self.size + origin
            return lo, lo + self.size

        return Intervals.between(geometry, ends)


@dataclass(frozen=True, eq=False)
class Blocks(Mask):
    """A map of square tiles: cell (i, j) is visible where ``keep[..., i // size, j // size]``.

    Args:
        keep: bool [nq, nk], [H, nq, nk] or [B, H, nq, nk] (B or H may be 1), nq = ceil(T / size), nk = ceil(S / size).
        size: rows and keys of a tile.

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

    def __init__(self, keep: Tensor, size: int) -> None:
        object.__setattr__(self, "keep_tiles", keep)
        object.__setattr__(self, "size", size)
        _bool_only("Blocks", "keep", keep, "nq nk")
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise SpecError(sentence("Blocks", f"size is {size!r}", "a tile has at least 1 row"))
        if keep.dim() not in (2, 3, 4):
            raise ShapeError(
                sentence("Blocks", f"keep has {keep.dim()} axes", "it is [nq,nk], [H,nq,nk] or [B,H,nq,nk]")
            )

    def _full(self) -> Tensor:
        return self.keep_tiles.reshape((1,) * (4 - self.keep_tiles.dim()) + tuple(self.keep_tiles.shape))

    @property
    def per_head(self) -> bool:  # type: ignore[override]
        return self._full().shape[1] > 1

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return self._full().shape[0] > 1

    def check(self, geometry: Geometry) -> None:
        b, h, nq, nk = self._full().shape
        want_q, want_k = -(-geometry.T // self.size), -(-geometry.S // self.size)
        if (nq, nk) != (want_q, want_k) or b not in (1, geometry.B) or h not in (1, geometry.H):
            raise ShapeError(
                sentence(
                    "Blocks",
                    f"keep does not fit T={geometry.T}, S={geometry.S} in tiles of {self.size}",
                    f"it must be [nq={want_q},nk={want_k}], with H={geometry.H} or B={geometry.B} before it if they vary",
                    axes("keep", self.keep_tiles, "B H nq nk"),
                )
            )

    def keep(self, cells: Cells) -> Tensor:
        tiles = self._full()
        if tiles.shape[0] > 1:
            tiles = tiles[cells.batch]
        if tiles.shape[1] > 1:
            tiles = tiles[:, cells.heads]
        rows = tiles.index_select(2, cells.i[:, 0] // self.size)
        return rows.index_select(3, cells.j // self.size)


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
        _bool_only("Dense", "keep", keep, "B H T S")

    @property
    def per_head(self) -> bool:  # type: ignore[override]
        return self.keep_cells.dim() >= 3 and self.keep_cells.shape[-3] > 1

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return self.keep_cells.dim() == 4 and self.keep_cells.shape[0] > 1

    def check(self, geometry: Geometry) -> None:
        broadcastable("Dense", "keep", self.keep_cells, geometry)

    def keep(self, cells: Cells) -> Tensor:
        return cells.part_of(self.keep_cells)


def broadcastable(who: str, name: str, value: Tensor, geometry: Geometry) -> None:
    """Raises ShapeError where a tensor does not broadcast to [B, H, T, S]."""
    want = (geometry.B, geometry.H, geometry.T, geometry.S)
    shape = (1,) * (4 - value.dim()) + tuple(value.shape)
    if len(shape) == 4 and all(a in (1, n) for a, n in zip(shape, want, strict=True)):
        return
    raise ShapeError(
        sentence(
            who,
            f"{name} does not broadcast to the pattern",
            f"each axis is 1 or that of [B={want[0]},H={want[1]},T={want[2]},S={want[3]}]",
            axes(name, value, "B H T S"),
        )
    )


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
        if not callable(self.fn):
            raise SpecError(sentence("Rule", f"fn is a {type(self.fn).__name__}", "it is called with (b, h, i, j)"))

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
