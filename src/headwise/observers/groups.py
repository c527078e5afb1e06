"""Questions about chosen sets of cells: mass on targets, mass where labels agree, mass between segments."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.observers.protocol import Accumulator, Frame, Observer, Tile, Whole
from headwise.spec.checks import is_integer, rows_of
from headwise.spec.geometry import Geometry

__all__ = ["MassOn", "MassWhere", "Segments"]


def _integers(who: str, name: str, value: object, letters: str) -> None:
    if not is_integer(value):
        found = value.dtype if isinstance(value, Tensor) else type(value).__name__
        raise SpecError(sentence(who, f"{name} is {found}", f"it is an integer tensor [{letters}] or [B,{letters}]"))


def _per_token(who: str, name: str, value: Tensor, length: int, letter: str, geometry: Geometry) -> None:
    if tuple(value.shape) in ((length,), (geometry.B, length)):
        return
    raise ShapeError(
        sentence(
            who,
            f"{name} does not fit the call",
            f"it is [{letter}={length}] or [B={geometry.B},{letter}={length}]",
            axes(name, value, f"B {letter}"),
        )
    )


def _batched(value: Tensor, axes_without_batch: int) -> Tensor:
    return value if value.dim() > axes_without_batch else value[None]


class _RowMass:
    """Mass of each row on some of its cells; ``pick(tile) -> [b, h, n]`` says on which."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.total = frame.zeros(frame.geometry.T)

    def pick(self, tile: Tile) -> Tensor:
        raise NotImplementedError

    def see(self, tile: Tile) -> None:
        b, h = self.frame.at(tile.cells)
        self.total[b, h, tile.cells.rows] += self.pick(tile)

    def merge(self, other: _RowMass) -> None:
        self.total += other.total

    def result(self) -> Tensor:
        return self.total


class _MassOn(_RowMass):
    def __init__(self, frame: Frame, targets: Tensor) -> None:
        super().__init__(frame)
        self.targets = _batched(targets, 2).to(frame.geometry.device)

    def pick(self, tile: Tile) -> Tensor:
        keys = tile.cells.keys
        targets = rows_of(self.targets, tile.cells.batch)[:, tile.cells.rows].long()
        inside = (targets >= keys.start) & (targets < keys.stop)
        if not bool(inside.any()):
            return tile.p.new_zeros(tile.p.shape[:-1])
        where = torch.where(inside, targets - keys.start, 0)[:, None].expand(*tile.p.shape[:-1], -1)
        return torch.where(inside[:, None], tile.p.gather(-1, where), 0.0).sum(-1)


@dataclass(frozen=True, eq=False)
class MassOn(Observer):
    """``sum_k p[i, targets[i, k]]``: how much each query attends to the keys that it is given.

    Args:
        targets: integer [T, K] or [B, T, K], keys; -1 = none. A key listed twice counts twice.

    Returns:
        [B, H, T].

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.attend(x, x, x, observe=[hw.MassOn(torch.tensor([[0], [-1]]))]).seen["mass_on"]
        tensor([[[0.5000, 0.0000]]])
    """

    targets: Tensor

    def __post_init__(self) -> None:
        _integers("MassOn", "targets", self.targets, "T,K")

    def check(self, geometry: Geometry, has_values: bool) -> None:
        shape = tuple(self.targets.shape)
        if len(shape) not in (2, 3) or shape[-2] != geometry.T or (len(shape) == 3 and shape[0] != geometry.B):
            raise ShapeError(
                sentence(
                    "MassOn",
                    "targets does not fit the call",
                    f"it is [T={geometry.T},K] or [B={geometry.B},T={geometry.T},K]",
                    axes("targets", self.targets, "B T K"),
                )
            )
        if self.targets.numel() and not (int(self.targets.min()) >= -1 and int(self.targets.max()) < geometry.S):
            raise SpecError(
                sentence(
                    "MassOn",
                    f"targets run from {int(self.targets.min())} to {int(self.targets.max())}",
                    f"a target is a key 0 to S - 1 = {geometry.S - 1}, or -1 for none",
                )
            )

    def begin(self, frame: Frame) -> Accumulator:
        return _MassOn(frame, self.targets)

    def define(self, whole: Whole) -> Tensor:
        geometry = whole.geometry
        targets = _batched(self.targets, 2).long().expand(geometry.B, -1, -1)
        chosen = torch.zeros((geometry.B, geometry.T, geometry.S + 1), dtype=whole.p.dtype, device=whole.p.device)
        where = torch.where(targets < 0, geometry.S, targets)
        chosen.scatter_add_(-1, where, torch.ones_like(where, dtype=chosen.dtype))
        chosen = chosen[:, None, :, : geometry.S]
        return torch.where(chosen > 0, whole.p * chosen, 0.0).sum(-1)


class _MassWhere(_RowMass):
    def __init__(self, frame: Frame, q_labels: Tensor, k_labels: Tensor) -> None:
        super().__init__(frame)
        self.q_labels = _batched(q_labels, 1).to(frame.geometry.device)
        self.k_labels = _batched(k_labels, 1).to(frame.geometry.device)

    def pick(self, tile: Tile) -> Tensor:
        cells = tile.cells
        q = rows_of(self.q_labels, cells.batch)[:, None, cells.rows, None]
        k = rows_of(self.k_labels, cells.batch)[:, None, None, cells.keys]
        same = (q == k) & (q >= 0) & (cells.j < cells.pos)
        return torch.where(same, tile.p, 0.0).sum(-1)


@dataclass(frozen=True, eq=False)
class MassWhere(Observer):
    """Mass on the keys before the query (``j < pos_i``) whose label equals the query's.

    Duplicate-token attention is ``MassWhere(ids, ids)``; induction is ``MassWhere(ids, shifted)`` with
    ``shifted[j] = ids[j - 1]`` and ``shifted[0] = -1``: the key that followed an earlier copy of the query's token.

    Args:
        q_labels: integer [T] or [B, T]; a negative label matches nothing.
        k_labels: integer [S] or [B, S].

    Returns:
        [B, H, T].

    Source: Olsson et al. 2022 (arXiv 2209.11895) for the two readings.

    Example:
        >>> import torch, headwise as hw
        >>> x, ids = torch.zeros(1, 1, 3, 4), torch.tensor([5, 6, 5])
        >>> hw.attend(x, x, x, observe=[hw.MassWhere(ids, ids)]).seen["mass_where"]
        tensor([[[0.0000, 0.0000, 0.3333]]])
    """

    q_labels: Tensor
    k_labels: Tensor

    def __post_init__(self) -> None:
        _integers("MassWhere", "q_labels", self.q_labels, "T")
        _integers("MassWhere", "k_labels", self.k_labels, "S")

    def check(self, geometry: Geometry, has_values: bool) -> None:
        _per_token("MassWhere", "q_labels", self.q_labels, geometry.T, "T", geometry)
        _per_token("MassWhere", "k_labels", self.k_labels, geometry.S, "S", geometry)

    def begin(self, frame: Frame) -> Accumulator:
        return _MassWhere(frame, self.q_labels, self.k_labels)

    def define(self, whole: Whole) -> Tensor:
        cells = whole.geometry.whole()
        q, k = _batched(self.q_labels, 1)[:, None, :, None], _batched(self.k_labels, 1)[:, None, None, :]
        return torch.where((q == k) & (q >= 0) & (cells.j < cells.pos), whole.p, 0.0).sum(-1)


class _Segments:
    def __init__(self, frame: Frame, q_ids: Tensor, k_ids: Tensor) -> None:
        self.frame = frame
        self.q_ids = _batched(q_ids, 1).to(frame.geometry.device).long()
        self.k_ids = _batched(k_ids, 1).to(frame.geometry.device).long()
        self.total = frame.zeros(_groups(q_ids), _groups(k_ids))

    def see(self, tile: Tile) -> None:
        b, h = self.frame.at(tile.cells)
        shared = self.q_ids.shape[0] == 1 and self.k_ids.shape[0] == 1
        parts = [(slice(0, tile.p.shape[0]), b)] if shared else []
        if not shared:
            parts = [(slice(r, r + 1), slice(at, at + 1)) for r, at in enumerate(range(b.start, b.stop))]
        for part, place in parts:
            at = slice(tile.cells.batch.start + part.start, tile.cells.batch.start + part.stop)
            q = rows_of(self.q_ids, at)[0, tile.cells.rows]
            k = rows_of(self.k_ids, at)[0, tile.cells.keys]
            self._add(tile.p[part], q, k, self.total[place, h])

    def _add(self, p: Tensor, q: Tensor, k: Tensor, total: Tensor) -> None:
        if k.numel() == 0:
            return  # the tile of a row block that sees no key
        # A tile meets few groups, so its columns are summed by a product with their one-hot table; but a NaN row must
        # not reach groups whose keys it does not see, and a product would carry it there.
        names, k_of = k.unique(return_inverse=True)
        if bool(p.isnan().any()):
            by_group = p.new_zeros((*p.shape[:-1], len(names))).index_add_(-1, k_of, p)
        else:
            by_group = p @ torch.nn.functional.one_hot(k_of, len(names)).to(p.dtype)
        real_q, real_k = q >= 0, names >= 0
        rows = p.new_zeros((*total.shape[:-1], int(real_k.sum())))
        rows.index_add_(-2, q[real_q], by_group[..., real_q, :][..., real_k])
        total.index_add_(-1, names[real_k], rows)

    def merge(self, other: _Segments) -> None:
        self.total += other.total

    def result(self) -> Tensor:
        return self.total


def _groups(ids: Tensor) -> int:
    return int(ids.max()) + 1 if ids.numel() and int(ids.max()) >= 0 else 0


@dataclass(frozen=True, eq=False)
class Segments(Observer):
    """``sum of p_ij over i in query group a and j in key group c``: word maps, sentences, speakers.

    Args:
        q_ids: integer [T] or [B, T], the group of each query, 0 and up; -1 = none.
        k_ids: integer [S] or [B, S], the group of each key.

    Returns:
        [B, H, Sq, Sk], Sq and Sk one more than the largest id.

    Example:
        >>> import torch, headwise as hw
        >>> x, words = torch.zeros(1, 1, 3, 4), torch.tensor([0, 0, 1])
        >>> hw.attend(x, x, x, observe=[hw.Segments(words, words)]).seen["segments"]
        tensor([[[[1.3333, 0.6667],
                  [0.6667, 0.3333]]]])
    """

    q_ids: Tensor
    k_ids: Tensor

    def __post_init__(self) -> None:
        _integers("Segments", "q_ids", self.q_ids, "T")
        _integers("Segments", "k_ids", self.k_ids, "S")

    def check(self, geometry: Geometry, has_values: bool) -> None:
        _per_token("Segments", "q_ids", self.q_ids, geometry.T, "T", geometry)
        _per_token("Segments", "k_ids", self.k_ids, geometry.S, "S", geometry)

    def begin(self, frame: Frame) -> Accumulator:
        return _Segments(frame, self.q_ids, self.k_ids)

    def define(self, whole: Whole) -> Tensor:
        geometry = whole.geometry
        out = whole.p.new_zeros((geometry.B, geometry.H, _groups(self.q_ids), _groups(self.k_ids)))
        for b in range(geometry.B):
            q, k = (
                rows_of(_batched(self.q_ids, 1), slice(b, b + 1))[0],
                rows_of(_batched(self.k_ids, 1), slice(b, b + 1))[0],
            )
            for c in range(out.shape[-1]):
                rows = whole.p[b][..., k == c].sum(-1)
                for a in range(out.shape[-2]):
                    out[b, :, a, c] = rows[:, q == a].sum(-1)
        return out
