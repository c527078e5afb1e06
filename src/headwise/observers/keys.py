"""Questions about keys and distances: received mass, offsets, top keys, norm-based contributions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, UnsupportedError, axes, sentence
from headwise.observers.protocol import Accumulator, Frame, Observer, Tile, Whole
from headwise.products import all_finite
from headwise.spec.geometry import Geometry, span
from headwise.tracing import plain

__all__ = ["Contribution", "Contributions", "OffsetSums", "Offsets", "Received", "TopKeys", "TopKeysFound"]


class _Received:
    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.total = frame.zeros(frame.geometry.S)

    def see(self, tile: Tile) -> None:
        b, h = self.frame.at(tile.cells)
        self.total[b, h, tile.cells.keys] += tile.p.sum(-2)

    def merge(self, other: _Received) -> None:
        self.total += other.total

    def result(self) -> Tensor:
        return self.total


@dataclass(frozen=True, eq=False, kw_only=True)
class Received(Observer):
    """``received[b,h,j] = sum_i p_ij``: the attention that each key received.

    Returns:
        [B, H, S].

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.attend(x, x, x, mask=hw.Causal(), observe=[hw.Received()]).seen["received"]
        tensor([[[1.5000, 0.5000]]])
    """

    def begin(self, frame: Frame) -> Accumulator:
        return _Received(frame)

    def define(self, whole: Whole) -> Tensor:
        return whole.p.sum(-2)


def _count(name: str, field: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SpecError(sentence(name, f"{field} is {value!r}", f"it is an int of at least {least}"))


def diagonal_sums(tile: Tensor) -> Tensor:
    """Sums [..., n, m] along ``i - j`` = m-1 .. -(n-1)... as [..., n + m - 1], entry e holds ``j - i + n - 1 = e``.

    The rows, last first, are laid into a buffer one element too narrow, so that each row starts one place further.
    """
    n, m = tile.shape[-2:]
    buffer = torch.zeros((*tile.shape[:-2], n, n + m), dtype=tile.dtype, device=tile.device)
    buffer[..., :m] = tile.flip(-2)
    flat = buffer.flatten(-2)[..., : n * (n + m - 1)]
    return flat.unflatten(-1, (n, n + m - 1)).sum(-2)


class _Offsets:
    """Sums and counts of p along diagonals; entry e of the tables is offset d = e - after."""

    def __init__(self, frame: Frame, limit: int, after: int) -> None:
        self.frame, self.limit, self.after = frame, limit, after
        self.total = frame.zeros(limit + after + 1)
        self.seen = frame.zeros(limit + after + 1)

    def see(self, tile: Tile) -> None:
        cells = tile.cells
        q_start = cells.geometry.q_start
        b, h = self.frame.at(cells)
        if isinstance(q_start, int):
            self._see(tile, slice(0, span(cells.batch)), b, h, q_start)
            return
        for row, at in enumerate(range(b.start, b.stop)):
            start = int(q_start[cells.batch.start + row])
            self._see(tile, slice(row, row + 1), slice(at, at + 1), h, start)

    def _see(self, tile: Tile, part: slice, b: slice, h: slice, q_start: int) -> None:
        rows, keys = tile.cells.rows, tile.cells.keys
        first, last = q_start + rows.start, q_start + rows.stop - 1  # positions of the tile's queries
        lo = max(keys.start, first - self.limit)
        hi = min(keys.stop, last + self.after + 1)
        if lo >= hi:
            return
        near = slice(lo - keys.start, hi - keys.start)
        sums = diagonal_sums(tile.p[part, :, :, near])
        if tile.visible is None:
            ones = torch.ones((1, 1, span(rows), hi - lo), dtype=sums.dtype, device=sums.device)
            counts = diagonal_sums(ones)
        else:
            seen = tile.visible[part] if tile.visible.shape[0] > 1 else tile.visible
            seen = seen.expand(-1, -1, span(rows), span(keys))  # a mask may be one row or one column for all
            counts = diagonal_sums(seen[..., near].to(sums.dtype))
        # Entry e holds keys at j - pos = (lo - first) + e - (n - 1), so d = pos - j falls as e rises.
        width = sums.shape[-1]
        top = first - lo + span(rows) - 1  # d of entry 0
        d_low, d_high = max(-self.after, top - width + 1), min(self.limit, top)
        if d_low > d_high:
            return
        entries = slice(top - d_high, top - d_low + 1)
        places = slice(d_low + self.after, d_high + self.after + 1)
        self.total[b, h, places] += sums[..., entries].flip(-1)
        self.seen[b, h, places] += counts[..., entries].flip(-1)

    def merge(self, other: _Offsets) -> None:
        self.total += other.total
        self.seen += other.seen

    def result(self) -> Tensor:
        return self.sums().mean()

    def sums(self) -> OffsetSums:
        return OffsetSums(self.total, self.seen)


class _OffsetsSummed(_Offsets):
    def result(self) -> OffsetSums:  # type: ignore[override]
        return self.sums()


class OffsetSums(NamedTuple):
    """What the means of ``Offsets`` are made of; sums of several calls add up, means do not.

    Attributes:
        total: sum of p over the queries whose key at that distance exists and is visible, [B, H, after + limit + 1].
        rows: how many queries those are, in the same dtype.
    """

    total: Tensor
    rows: Tensor

    def mean(self) -> Tensor:
        """``total / rows``, 0 where there is none."""
        return torch.where(self.rows > 0, self.total / self.rows.clamp(min=1), 0.0)


@dataclass(frozen=True, eq=False)
class Offsets(Observer):
    """How attention falls with distance: entry ``after + d`` is the mean of ``p[i, pos_i - d]``.

    The mean runs over the queries whose key at that distance exists and is visible; it is 0 where there is none.

    Args:
        limit: the largest distance behind the query, d = limit.
        after: the largest distance ahead of it, d = -after.

    Returns:
        [B, H, after + limit + 1].

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.attend(x, x, x, mask=hw.Causal(), observe=[hw.Offsets(limit=1)]).seen["offsets"]
        tensor([[[0.7500, 0.5000]]])
    """

    limit: int
    after: int = 0

    def __post_init__(self) -> None:
        _count("Offsets", "limit", self.limit, 0)
        _count("Offsets", "after", self.after, 0)

    def begin(self, frame: Frame) -> Accumulator:
        return _Offsets(frame, self.limit, self.after)

    def define(self, whole: Whole) -> Tensor:
        return self.define_sums(whole).mean()

    def sums(self) -> Observer:
        """The same question under the same name, answered by the sums and counts that its means are made of.

        Returns:
            An observer whose answer is an ``OffsetSums``.

        Example:
            >>> import torch, headwise as hw
            >>> x = torch.zeros(1, 1, 2, 4)
            >>> hw.attend(x, x, x, mask=hw.Causal(), observe=[hw.Offsets(limit=1).sums()]).seen["offsets"].rows
            tensor([[[2., 1.]]])
        """
        return _SumsOfOffsets(self, name=self.name or "offsets")

    def define_sums(self, whole: Whole) -> OffsetSums:
        """The definition of the sums, on the whole pattern in plain torch."""
        geometry = whole.geometry
        cells = geometry.whole()
        distance = cells.pos - cells.j
        totals, counts = [], []
        for d in range(-self.after, self.limit + 1):
            here = whole.visible & (distance == d)
            totals.append(torch.where(here, whole.p, 0.0).sum((-2, -1)))
            counts.append(here.sum((-2, -1)).to(whole.p.dtype).expand_as(totals[-1]))
        return OffsetSums(torch.stack(totals, dim=-1), torch.stack(counts, dim=-1))


@dataclass(frozen=True, eq=False)
class _SumsOfOffsets(Observer):
    """``Offsets`` before the division."""

    question: Offsets

    def begin(self, frame: Frame) -> Accumulator:
        return _OffsetsSummed(frame, self.question.limit, self.question.after)

    def define(self, whole: Whole) -> OffsetSums:
        return self.question.define_sums(whole)


class TopKeysFound(NamedTuple):
    """The keys that each query attends to most.

    Attributes:
        values: probabilities [B, H, T, k], largest first; 0 where fewer than k keys are visible.
        indices: keys int64 [B, H, T, k]; -1 where fewer than k keys are visible.
    """

    values: Tensor
    indices: Tensor


def _top(p: Tensor, keys: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of the last axis, ties to the lower key; hidden cells come in as p = -1, and keys broadcast to p.

    torch.topk takes any of several equal values, so rows whose runner-up equals their last winner are sorted in full.
    """
    values, found = p, keys.expand(p.shape)
    if p.shape[-1] > k:
        values, where = p.topk(k + 1, dim=-1)
        tied = (values[..., k] == values[..., k - 1]) & (values[..., k] >= 0)
        values, found = values[..., :k], found.gather(-1, where[..., :k])
        if bool(tied.any()):
            values[tied], found[tied] = _ranked(p[tied], keys.expand(p.shape)[tied], k)
    return _ranked(values, found, k)


def _ranked(values: Tensor, keys: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The first k by falling value, then by rising key."""
    by_key = keys.argsort(dim=-1, stable=True)
    values, keys = values.gather(-1, by_key), keys.gather(-1, by_key)
    by_value = values.argsort(dim=-1, descending=True, stable=True)[..., :k]
    return values.gather(-1, by_value), keys.gather(-1, by_value)


class _TopKeys:
    def __init__(self, frame: Frame, k: int) -> None:
        self.frame, self.k = frame, k
        self.values = frame.zeros(frame.geometry.T, k).fill_(-1)
        self.keys = frame.zeros(frame.geometry.T, k, dtype=torch.int64).fill_(-1)

    def see(self, tile: Tile) -> None:
        b, h = self.frame.at(tile.cells)
        rows = tile.cells.rows
        p, keys = tile.p, tile.cells.j
        if tile.visible is not None:
            p = p.masked_fill(~tile.visible, -1)
        values, found = _top(p, keys, self.k)
        found = torch.where(values < 0, -1, found)
        self.values[b, h, rows], self.keys[b, h, rows] = _top(
            torch.cat([self.values[b, h, rows], values], -1), torch.cat([self.keys[b, h, rows], found], -1), self.k
        )

    def merge(self, other: _TopKeys) -> None:
        both = torch.cat([self.values, other.values], -1), torch.cat([self.keys, other.keys], -1)
        self.values, self.keys = _top(*both, self.k)

    def result(self) -> TopKeysFound:
        return TopKeysFound(torch.where(self.keys < 0, 0.0, self.values), self.keys)


@dataclass(frozen=True, eq=False)
class TopKeys(Observer):
    """The k keys that each query attends to most, largest first, ties to the lower key.

    A row of NaN has values of NaN, and which of its keys they name is not said.

    Args:
        k: how many, at least 1. Where fewer keys are visible: value 0, index -1.

    Returns:
        TopKeysFound: .values [B, H, T, k], .indices int64 [B, H, T, k].

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.attend(x, x, x, mask=hw.Causal(), observe=[hw.TopKeys(2)]).seen["top_keys"].indices
        tensor([[[[ 0, -1],
                  [ 0,  1]]]])
    """

    k: int

    def __post_init__(self) -> None:
        _count("TopKeys", "k", self.k, 1)

    def begin(self, frame: Frame) -> Accumulator:
        return _TopKeys(frame, self.k)

    def define(self, whole: Whole) -> TopKeysFound:
        ranked = torch.where(whole.visible, whole.p, -1.0)
        missing = max(0, self.k - whole.geometry.S)
        ranked = torch.nn.functional.pad(ranked, (0, missing), value=-1.0)
        values, indices = ranked.sort(dim=-1, descending=True, stable=True)
        values, indices = values[..., : self.k], indices[..., : self.k]
        hidden = values < 0
        return TopKeysFound(torch.where(hidden, 0.0, values), torch.where(hidden, -1, indices))


class Contributions(NamedTuple):
    """Norm-based contributions of one head to the residual stream.

    Attributes:
        by_key: [B, H, S], sum over queries.
        by_query: [B, H, T], sum over keys.
    """

    by_key: Tensor
    by_query: Tensor


def _value_norms(v: Tensor, w_o: Tensor, heads: slice, of: int) -> Tensor:
    """``||v_j W_O^h||`` for v [b, h, m, E] and w_o [M, of*E], through the E x E Gram matrix of each head: [b, h, m]."""
    width = v.shape[-1]
    per_head = w_o.detach().double().unflatten(1, (of, width))[:, heads]  # M, h, E
    gram = torch.einsum("mhe,mhf->hef", per_head, per_head)
    wide = v.double()
    norms = torch.linalg.vecdot(wide @ gram, wide).clamp(min=0).sqrt()
    if not all_finite(v):  # the Gram matrix makes inf - inf of a value whose norm is inf
        direct = torch.einsum("bhme,Mhe->bhmM", wide, per_head).norm(dim=-1)
        norms = torch.where(torch.isfinite(v).all(-1), norms, direct)
    return norms.to(v.dtype)


class _Contribution:
    def __init__(self, frame: Frame, w_o: Tensor) -> None:
        self.frame, self.w_o = frame, w_o
        self.by_key, self.by_query = frame.zeros(frame.geometry.S), frame.zeros(frame.geometry.T)
        self.norms = frame.zeros(frame.geometry.S)
        self.known = frame.zeros(frame.geometry.S, dtype=torch.bool)

    def see(self, tile: Tile) -> None:
        assert tile.v is not None  # check() refuses a pattern without values
        b, h = self.frame.at(tile.cells)
        place = (b, h, tile.cells.keys)
        if not bool(self.known[place].all()):
            self.norms[place] = _value_norms(tile.v, self.w_o, tile.cells.heads, tile.cells.geometry.H)
            self.known[place] = True
        norms = self.norms[place]
        # A hidden value may hold anything: it must not meet its zero probability.
        mass = tile.p * norms[..., None, :]
        if tile.visible is not None and not bool(torch.isfinite(norms).all()):
            mass = torch.where(tile.visible, mass, 0.0)
        self.by_key[b, h, tile.cells.keys] += mass.sum(-2)
        self.by_query[b, h, tile.cells.rows] += mass.sum(-1)

    def merge(self, other: _Contribution) -> None:
        self.by_key += other.by_key
        self.by_query += other.by_query

    def result(self) -> Contributions:
        return Contributions(self.by_key, self.by_query)


@dataclass(frozen=True, eq=False)
class Contribution(Observer):
    """Attention weighted by what it carries: ``p_ij * ||v_j W_O^h||``.

    Args:
        w_o: the output projection's weight, float [M, H * E] (``o_proj.weight``).

    Returns:
        Contributions: .by_key [B, H, S] (sum over queries), .by_query [B, H, T] (sum over keys).

    Source: Kobayashi et al. 2020, "Attention is Not Only a Weight" (arXiv 2004.10102).

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> v = torch.tensor([[[[3.0, 4.0], [0.0, 0.0]]]])
        >>> hw.attend(x, x, v, observe=[hw.Contribution(torch.eye(2))]).seen["contribution"].by_key
        tensor([[[5., 0.]]])
    """

    w_o: Tensor = None  # type: ignore[assignment]  # so that leaving it out is said in a sentence

    reads_values: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.w_o is None:
            what = "w_o was not given"
            rule = "it weighs attention by the norm of what the output projection makes of each value"
            todo = "Write hw.Contribution(layer.o_proj.weight), float [M, H * E]."
            raise SpecError(sentence("Contribution", what, rule, todo=todo))

    def check(self, geometry: Geometry, has_values: bool) -> None:
        if not isinstance(self.w_o, Tensor) or self.w_o.dim() != 2 or self.w_o.shape[1] != geometry.H * geometry.E:
            shown = axes("w_o", self.w_o, "M H*E") if isinstance(self.w_o, Tensor) else type(self.w_o).__name__
            raise ShapeError(
                sentence(
                    "Contribution",
                    f"{shown} does not fit the call",
                    f"w_o is [M,H*E={geometry.H * geometry.E}], the weight of the output projection",
                )
            )
        if not plain(self.w_o):
            what = f"w_o is a {type(self.w_o).__module__}.{type(self.w_o).__name__}"
            todo = "Dequantise it first."
            raise UnsupportedError(sentence("Contribution", what, "its columns are read head by head", todo=todo))
        if not has_values:
            raise SpecError(
                sentence("Contribution", "this pattern has no values", "it weighs p with v", todo="Give v to Pattern.")
            )

    def begin(self, frame: Frame) -> Accumulator:
        return _Contribution(frame, self.w_o)

    def define(self, whole: Whole) -> Contributions:
        assert whole.v is not None
        per_head = self.w_o.detach().to(whole.v.dtype).unflatten(1, (whole.geometry.H, whole.geometry.E))
        carried = torch.einsum("bhse,mhe->bhsm", whole.v, per_head).norm(dim=-1)
        mass = torch.where(whole.visible, whole.p * carried[..., None, :], 0.0)
        return Contributions(mass.sum(-2), mass.sum(-1))
