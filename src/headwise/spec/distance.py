"""Score rules that follow from how far a key is from its query: ALiBi's slopes, and tables of distances."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.spec.checks import FAR, float_tensor, is_integer, whole_number
from headwise.spec.geometry import Cells, Geometry
from headwise.spec.scores import Compact, Rules, TableRule
from headwise.tracing import followed, readable

__all__ = ["Alibi", "RelativeBias", "T5Bias"]


@dataclass(frozen=True, eq=False)
class Alibi(Rules):
    """Adds ``-slope[h] * |pos_i - j|``, or with positions of your own ``-slope[h] * |positions_i - key_positions_j|``.

    It looks both ways; with ``Causal()`` it is the published rule for language models.

    Args:
        slopes: float [H] or [B, H]; ``slopes_of(heads)`` are the published ones.
        positions: where the queries stand, int or finite float [T] or [B, T], for packed documents that restart, or a
            ring whose keys are not neighbours. None = at pos_i = q_start + i.
        key_positions: where the keys stand, [S] or [B, S]. None = where ``positions`` says (then S = T), or at j.

    Source: Press et al. 2022, "Train Short, Test Long" (arXiv 2108.12409).

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.Pattern(x, x, scores=(hw.Alibi(torch.tensor([1.0])),))[0, 0]
        tensor([[0.7311, 0.2689],
                [0.2689, 0.7311]])
        >>> hw.Pattern(x, x, scores=(hw.Alibi(torch.tensor([1.0]), positions=torch.tensor([0, 0])),))[0, 0]
        tensor([[0.5000, 0.5000],
                [0.5000, 0.5000]])
    """

    slopes: Tensor
    positions: Tensor | None = None
    key_positions: Tensor | None = None
    by_position = True

    @staticmethod
    def slopes_of(heads: int) -> Tensor:
        """The published slopes: for H heads, H a power of two, ``2 ** (-8 h / H)`` for h = 1 .. H.

        For another H: those of the power of two below, then every second one of the power of two above.

        Args:
            heads: query heads, H.

        Returns:
            float32 [H].

        Source: Press et al. 2022 (arXiv 2108.12409), section 3 and its published code.

        Example:
            >>> import headwise as hw
            >>> hw.Alibi.slopes_of(4)
            tensor([0.2500, 0.0625, 0.0156, 0.0039])
            >>> hw.Alibi.slopes_of(3)
            tensor([0.0625, 0.0039, 0.2500])
        """
        whole_number("Alibi.slopes_of", "heads", heads, 1)
        below = 2 ** (heads.bit_length() - 1)
        slopes = [2.0 ** (-8 * (h + 1) / below) for h in range(below)]
        between = [2.0 ** (-4 * (h + 1) / below) for h in range(0, 2 * below, 2)]
        return torch.tensor((slopes + between)[:heads], dtype=torch.float32, device="cpu")

    def __post_init__(self) -> None:
        float_tensor("Alibi", "slopes", self.slopes, "H")
        for name, value, letter in (("positions", self.positions, "T"), ("key_positions", self.key_positions, "S")):
            if value is None:
                continue
            if not is_integer(value) and not (isinstance(value, Tensor) and value.is_floating_point()):
                found = value.dtype if isinstance(value, Tensor) else type(value).__name__
                rule = f"they are an int or float tensor [{letter}] or [B,{letter}]"
                raise SpecError(sentence("Alibi", f"{name} is {found}", rule))
            if value.requires_grad:
                rule = "positions carry no gradient"
                raise SpecError(sentence("Alibi", f"{name} requires one", rule, todo=f"Give {name}.detach()."))

    def check(self, geometry: Geometry) -> None:
        if tuple(self.slopes.shape) not in ((geometry.H,), (geometry.B, geometry.H)):
            raise ShapeError(
                sentence(
                    "Alibi",
                    "slopes does not fit the call",
                    f"it is [H={geometry.H}] or [B={geometry.B},H={geometry.H}]",
                    axes("slopes", self.slopes, "B H"),
                )
            )
        keys = self.positions if self.key_positions is None else self.key_positions
        for name, value, letter, count in (
            ("positions", self.positions, "T", geometry.T),
            ("positions" if self.key_positions is None else "key_positions", keys, "S", geometry.S),
        ):
            if value is None:
                continue
            if tuple(value.shape) not in ((count,), (geometry.B, count)):
                alone = self.key_positions is None and letter == "S"
                raise ShapeError(
                    sentence(
                        "Alibi",
                        f"{name} does not fit the {'keys' if letter == 'S' else 'queries'} of the call",
                        f"it is [{letter}={count}] or [B={geometry.B},{letter}={count}]",
                        axes(name, value, f"B {letter}"),
                        "Give key_positions for the keys where T and S differ." if alone else "",
                    )
                )
            if not readable(value):
                continue
            if value.is_floating_point():
                if not bool(torch.isfinite(value).all()):
                    raise SpecError(sentence("Alibi", f"{name} holds NaN or inf", "a position is a finite number"))
            elif bool((value.long().abs() > _WHOLE).any()):  # as int64: a narrow dtype cannot hold the bound
                rule = f"differences of positions are exact up to {_WHOLE} on either side of 0"
                raise SpecError(sentence("Alibi", f"{name} holds a number beyond", rule))

    def parameter(self) -> Tensor:
        return self.slopes

    def with_parameter(self, tensor: Tensor) -> Alibi:
        return replace(self, slopes=tensor)

    def conditions(self) -> tuple[Tensor, ...]:
        return tuple(at for at in (self.positions, self.key_positions) if at is not None)

    def mapped(self, fn: Callable[[Tensor], Tensor]) -> Alibi:
        queries, keys = (None if at is None else fn(at) for at in (self.positions, self.key_positions))
        return Alibi(self.slopes, queries, keys)

    def _distances(self, cells: Cells, dtype: torch.dtype) -> Tensor:
        """How far each key is from its query, [b or 1, 1, n, m]; whole numbers are subtracted as such."""
        keys = self.positions if self.key_positions is None else self.key_positions
        pos, j = cells.pos, cells.j
        if self.positions is not None:
            pos = _exact(cells.part_of(_by_sequence(self.positions)[:, None, :, None]), dtype)
        if keys is not None:
            j = _exact(cells.part_of(_by_sequence(keys)[:, None, None, :]), dtype)
        return (pos - j).abs().to(dtype)

    def apply(self, score: Tensor, cells: Cells) -> Tensor:
        slopes = cells.part_of(self.slopes[..., None, None]).to(score.dtype)
        return score - slopes * self._distances(cells, score.dtype)

    def pull(self, grad: Tensor, before: Tensor, after: Tensor, cells: Cells, into: Tensor | None) -> Tensor:
        if into is not None:
            slope = -(grad * self._distances(cells, grad.dtype)).sum((-2, -1))
            if into.dim() == 1:
                into[cells.heads] += slope.sum(0)
            else:
                into[cells.batch, cells.heads] += slope
        return grad


def _by_sequence(at: Tensor) -> Tensor:
    """Positions [n] or [B, n] as [B or 1, n]."""
    return at if at.dim() == 2 else at[None]


def _exact(at: Tensor, dtype: torch.dtype) -> Tensor:
    """Positions in what their differences are taken in."""
    return at.to(torch.promote_types(at.dtype, dtype)) if at.is_floating_point() else at.long()


@dataclass(frozen=True, eq=False)
class RelativeBias(TableRule):
    """Adds ``table[h, clamp(j - pos_i + zero, 0, R - 1)]``: one number a head and distance.

    Args:
        table: float [H, R].
        zero: the entry for a key at the query's own position.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> table = torch.tensor([[0.0, 9.0, 0.0]])  # distance -1, 0, 1
        >>> hw.Pattern(x, x, scores=(hw.RelativeBias(table, zero=1),))[0, 0].round(decimals=3)
        tensor([[1., 0.],
                [0., 1.]])
    """

    table: Tensor
    zero: int
    by_position = True

    @staticmethod
    def t5(weights: Tensor, bidirectional: bool, max_distance: int = 128) -> T5Bias:
        """The bias of T5: near distances have a number each, further ones share it, logarithmically more of them.

        Of the buckets (half of them for each side, where it looks both ways) one half is for the distances 0, 1, 2 ...
        each, and ``d`` beyond falls in ``half + floor(half * log(d / half) / log(max_distance / half))``, at most the
        last one.

        Args:
            weights: float [buckets, H], the ``relative_attention_bias.weight`` of a model; gradient reaches it.
            bidirectional: True for an encoder; False for a decoder, where all keys ahead share bucket 0.
            max_distance: from which distance on there is one bucket, at most 2**20.

        Returns:
            A rule whose parameter is the weights: given as an nn.Parameter to a module's ``scores``, they train.

        Source: Raffel et al. 2020, "T5" (arXiv 1910.10683), section 2.1 and its published code.

        Example:
            >>> import torch, headwise as hw
            >>> q, k = torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 5, 1)
            >>> rule = hw.RelativeBias.t5(torch.arange(4.0)[:, None], bidirectional=False, max_distance=8)
            >>> hw.Pattern(q, k, scores=(rule,))[0, 0].log().diff().round()  # buckets 3, 2, 2, 1 and 0
            tensor([[-1.,  0., -1., -1.]])
        """
        return T5Bias(weights, bidirectional, max_distance)

    def __post_init__(self) -> None:
        float_tensor("RelativeBias", "table", self.table, "H R")
        if self.table.dim() != 2 or self.table.shape[1] < 1:
            raise ShapeError(
                sentence(
                    "RelativeBias",
                    "table has the wrong shape",
                    "it is [H,R], R at least 1",
                    axes("table", self.table, "H R"),
                )
            )
        rule = f"it is an int from {-FAR} to {FAR}, the entry of distance 0"
        whole_number("RelativeBias", "zero", self.zero, -FAR, FAR, rule)

    def check(self, geometry: Geometry) -> None:
        if self.table.shape[0] != geometry.H:
            raise ShapeError(
                sentence(
                    "RelativeBias",
                    f"table has {self.table.shape[0]} rows, there are {geometry.H} heads",
                    "it holds one row a query head",
                    axes("table", self.table, "H R"),
                )
            )

    def parameter(self) -> Tensor:
        return self.table

    def with_parameter(self, tensor: Tensor) -> RelativeBias:
        return RelativeBias(tensor, self.zero)

    def by_head(self, tensor: Tensor) -> Tensor:
        return tensor

    def entries(self, cells: Cells) -> Tensor:
        return (cells.j - cells.pos + self.zero).clamp(0, self.table.shape[1] - 1)[:, 0]


@dataclass(frozen=True, eq=False)
class T5Bias(Compact):
    """Adds the number of a distance's bucket; ``RelativeBias.t5`` says which it is, and makes it.

    Example:
        >>> import torch, headwise as hw
        >>> rule = hw.RelativeBias.t5(torch.arange(4.0)[:, None], bidirectional=False, max_distance=8)
        >>> rule.basic().table  # 8 keys behind the query up to its own
        tensor([[3., 3., 3., 3., 3., 2., 2., 1., 0.]])
    """

    weights: Tensor
    bidirectional: bool
    max_distance: int
    by_position = True

    def __post_init__(self) -> None:
        who, weights = "RelativeBias.t5", self.weights
        float_tensor(who, "weights", weights, "buckets H")
        if not isinstance(self.bidirectional, bool):
            rule = "it is True for an encoder, False for a decoder"
            raise SpecError(sentence(who, f"bidirectional is {self.bidirectional!r}", rule))
        sides = 2 if self.bidirectional else 1
        if weights.dim() != 2 or weights.shape[0] < 2 * sides or weights.shape[0] % sides:
            even = ", an even number" if self.bidirectional else ""
            rule = f"it is [buckets,H], at least {2 * sides} buckets{even}"
            raise ShapeError(sentence(who, "weights does not fit", rule, axes("weights", weights, "buckets H")))
        own = weights.shape[0] // sides // 2
        rule = f"it is an int above {own}, up to where each distance has a bucket of its own, and at most {_ONE_BUCKET}"
        whole_number(who, "max_distance", self.max_distance, own + 1, _ONE_BUCKET, rule)

    def check(self, geometry: Geometry) -> None:
        if self.weights.shape[1] != geometry.H:
            what = f"weights are of {self.weights.shape[1]} heads, there are {geometry.H}"
            shapes = axes("weights", self.weights, "buckets H")
            raise ShapeError(sentence("RelativeBias.t5", what, "a bucket holds one number a query head", shapes))

    def parameter(self) -> Tensor:
        return self.weights

    def with_parameter(self, tensor: Tensor) -> T5Bias:
        return T5Bias(tensor, self.bidirectional, self.max_distance)

    def entries_written(self) -> int:
        return self.weights.shape[1] * (self.max_distance * (2 if self.bidirectional else 1) + 1)

    def places(self) -> Tensor:
        """The bucket of every distance there is, from the furthest behind on: int64 [R]."""
        follows = followed(self.weights)  # what is made there is no tensor to keep
        find = _t5_places.__wrapped__ if follows else _t5_places
        return find(self.weights.shape[0], self.bidirectional, self.max_distance, self.weights.device)

    def entries(self, cells: Cells) -> Tensor:
        buckets = self.places()  # looked up and not worked out a cell: rounding may not depend on where a cell lies
        return buckets[(cells.j - cells.pos + self.max_distance).clamp(0, len(buckets) - 1)[:, 0]]

    def basic(self) -> RelativeBias:
        return RelativeBias(self.written(), self.max_distance)


_WHOLE = 2**52  # the difference of two such numbers is a whole number in float64, and fits int64
_ONE_BUCKET = 2**20  # from here on there is one bucket at the latest


@functools.lru_cache(maxsize=8)
def _t5_places(buckets: int, bidirectional: bool, max_distance: int, device: torch.device) -> Tensor:
    """The bucket of every distance; each tile of a call asks for the same ones."""
    ahead = max_distance if bidirectional else 0
    with torch.inference_mode(False):  # who differentiates may ask for those that were found in inference mode
        offsets = torch.arange(-max_distance, ahead + 1, dtype=torch.int64, device=device)
        each = buckets // (2 if bidirectional else 1)
        return _t5_bucket(offsets.abs(), each, max_distance) + torch.where(offsets > 0, each, 0)


def _t5_bucket(distance: Tensor, buckets: int, max_distance: int) -> Tensor:
    """The bucket of a distance of one side, int64; in float32, as T5 counts them."""
    own = buckets // 2
    share = torch.log(distance.clamp(min=1).float() / own) / math.log(max_distance / own)
    further = own + (share * (buckets - own)).long()
    return torch.where(distance < own, distance, further.clamp(max=buckets - 1))
