"""Score rules: what happens to ``q.k * scale`` before the softmax, in the order they are given.

Each rule is a small frozen value with its definition (``apply``) and the gradient of it (``pull``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.spec.checks import FAR, broadcastable, float_tensor, takes, whole_number
from headwise.spec.geometry import Cells, Geometry

__all__ = ["Bias", "Compact", "GridBias", "Rules", "ScoreRule", "SoftCap", "TableRule"]


class Rules:
    """Base of all score rules.

    Example:
        >>> import headwise as hw
        >>> isinstance(hw.SoftCap(30.0), hw.spec.Rules)
        True
    """

    by_position = False  # True where what it does to a query's scores follows from its position, or from neither

    def apply(self, score: Tensor, cells: Cells) -> Tensor:
        """The definition: scores [b, h, n, m] -> scores."""
        raise NotImplementedError

    def pull(self, grad: Tensor, before: Tensor, after: Tensor, cells: Cells, into: Tensor | None) -> Tensor:
        """Gradient of the scores before the rule from that after it; adds the parameter's own gradient to ``into``."""
        raise NotImplementedError

    def hidden(self, cells: Cells) -> Tensor | None:
        """Cells that the rule hides for good, whatever later rules do: bool, broadcastable to the cells' shape."""
        return None

    def parameter(self) -> Tensor | None:
        """The tensor that may carry a gradient, if the rule has one."""
        return None

    def conditions(self) -> tuple[Tensor, ...]:
        """Tensors besides the parameter that the rule reads; none of them carries a gradient."""
        return ()

    def mapped(self, fn: Callable[[Tensor], Tensor]) -> Rules:
        """The same rule over other conditions: each is replaced by ``fn`` of it."""
        return self

    def check(self, geometry: Geometry) -> None:
        """Raises ShapeError where the rule does not fit the call."""

    def with_parameter(self, tensor: Tensor) -> Rules:
        """The same rule with its tensor replaced."""
        raise NotImplementedError

    def basic(self) -> Rules:
        """The rule as the kernels know it: itself, or another that says the same."""
        return self

    def pull_basic(self, grad: Tensor) -> Tensor:
        """Gradient of the parameter from that of the basic rule's."""
        return grad


class TableRule(Rules):
    """Base of rules that add a number of a table, one a head and entry; which entry it is, each cell tells."""

    def parameter(self) -> Tensor:
        raise NotImplementedError

    def by_head(self, tensor: Tensor) -> Tensor:
        """The parameter, or its gradient, as a view [H, R]."""
        raise NotImplementedError

    def entries(self, cells: Cells) -> Tensor:
        """Which entry each cell reads: int64 [b or 1, n, m]."""
        raise NotImplementedError

    def added(self, cells: Cells) -> Tensor:
        """What is added to each cell: [b or 1, h, n, m]."""
        return self.by_head(self.parameter())[cells.heads][:, self.entries(cells)].movedim(0, 1)

    def apply(self, score: Tensor, cells: Cells) -> Tensor:
        return score + self.added(cells).to(score.dtype)

    def pull(self, grad: Tensor, before: Tensor, after: Tensor, cells: Cells, into: Tensor | None) -> Tensor:
        if into is not None:
            entries, table = self.entries(cells), self.by_head(into)
            flat = grad.sum(0).flatten(-2) if len(entries) == 1 else grad.movedim(0, 1).flatten(1)
            table[cells.heads] = table[cells.heads].index_add(1, entries.flatten(), flat)
        return grad


class Compact(TableRule):
    """Base of rules over a table [R, H] as models publish it, small enough that many cells share an entry."""

    def by_head(self, tensor: Tensor) -> Tensor:
        return tensor.mT

    def places(self) -> Tensor:
        """The entry that each number of the basic rule is, for any one head: int64."""
        raise NotImplementedError

    def entries_written(self) -> int:
        """How many numbers the basic rule has, of all heads."""
        raise NotImplementedError

    def written(self) -> Tensor:
        """The basic rule's numbers, a head's in the shape of ``places``; float32 where the table is float64."""
        table = self.by_head(self.parameter())
        return (table.float() if table.dtype == torch.float64 else table)[:, self.places()]

    def pull_basic(self, grad: Tensor) -> Tensor:
        table = self.by_head(self.parameter())
        return grad.new_zeros(table.shape).index_add(1, self.places().flatten(), grad.flatten(1)).mT


@dataclass(frozen=True, eq=False)
class SoftCap(Rules):
    """``cap * tanh(score / cap)``: scores stay inside (-cap, cap).

    Source: Gemma 2 (arXiv 2408.00118), section 2.

    Example:
        >>> import torch, headwise as hw
        >>> q = k = torch.full((1, 1, 1, 1), 10.0)
        >>> round(
        ...     hw.attend(q, k, k, scores=(hw.SoftCap(5.0),), observe=[hw.MaxLogit()]).seen["max_logit"].item(),
        ...     4,
        ... )
        5.0
    """

    cap: float
    by_position = True

    def __post_init__(self) -> None:
        if isinstance(self.cap, bool) or not isinstance(self.cap, (int, float)) or not 0 < self.cap <= 1e30:
            rule = "it is a number above 0 and at most 1e30; a larger one caps nothing"
            raise SpecError(sentence("SoftCap", f"cap is {self.cap!r}", rule))

    def apply(self, score: Tensor, cells: Cells) -> Tensor:
        return torch.tanh(score / self.cap) * self.cap

    def pull(self, grad: Tensor, before: Tensor, after: Tensor, cells: Cells, into: Tensor | None) -> Tensor:
        return grad * (1 - (after / self.cap) ** 2)


@dataclass(frozen=True, eq=False)
class Bias(Rules):
    """Adds a tensor; -inf means hidden, and stays hidden through every later rule.

    Args:
        tensor: float, broadcastable to [B, H, T, S]; read in place with its broadcast strides.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.Pattern(x, x, scores=(hw.Bias(torch.tensor([0.0, float("-inf")])),))[0, 0]
        tensor([[1., 0.],
                [1., 0.]])
    """

    tensor: Tensor

    @staticmethod
    def grid(table: Tensor, height: int, width: int) -> GridBias:
        """The bias of a picture's patches, one number a head and offset in rows and columns: Swin's, and BEiT's.

        Patches are numbered row by row. The entry for a key ``dy`` rows above and ``dx`` columns left of its query is
        ``table[(dy + height - 1) * (2 * width - 1) + dx + width - 1]``. With three entries more, token 0 is a class
        token, and they are for the class token as the query, as the key, and as both.

        Args:
            table: float [(2 height - 1) (2 width - 1), H], or three more; gradient reaches it.
            height: rows of patches (of a window).
            width: columns of patches.

        Returns:
            A rule for T = S = height * width, or one more with a class token. The table is its parameter: given as an
            nn.Parameter to a module's ``scores``, it trains.

        Raises:
            ShapeError: the table has another number of entries.

        Source: Liu et al. 2021, "Swin Transformer" (arXiv 2103.14030), equation 4; Bao et al. 2022, "BEiT"
        (arXiv 2106.08254).

        Example:
            >>> import torch, headwise as hw
            >>> q = torch.zeros(1, 1, 4, 1)
            >>> hw.Pattern(q, q, scores=(hw.Bias.grid(torch.arange(9.0)[:, None], 2, 2),))[0, 0, 0].round(
            ...     decimals=2
            ... )
            tensor([0.7000, 0.2600, 0.0300, 0.0100])
        """
        return GridBias(table, height, width)

    def __post_init__(self) -> None:
        float_tensor("Bias", "tensor", self.tensor, "B H T S")

    def check(self, geometry: Geometry) -> None:
        broadcastable("Bias", "tensor", self.tensor, geometry)

    def parameter(self) -> Tensor:
        return self.tensor

    def with_parameter(self, tensor: Tensor) -> Bias:
        return Bias(tensor)

    def apply(self, score: Tensor, cells: Cells) -> Tensor:
        return score + cells.part_of(self.tensor).to(score.dtype)

    def hidden(self, cells: Cells) -> Tensor:
        return cells.part_of(self.tensor) == float("-inf")

    def pull(self, grad: Tensor, before: Tensor, after: Tensor, cells: Cells, into: Tensor | None) -> Tensor:
        if into is not None:
            place = cells.part_of(into)
            place += grad.sum_to_size(place.shape)
        return grad


@dataclass(frozen=True, eq=False)
class GridBias(Compact):
    """Adds the entry of a key's offset in a picture of patches; ``Bias.grid`` says which it is, and makes it.

    Example:
        >>> import torch, headwise as hw
        >>> hw.Bias.grid(torch.arange(9.0)[:, None], 2, 2).basic().tensor[0]
        tensor([[4., 3., 1., 0.],
                [5., 4., 2., 1.],
                [7., 6., 4., 3.],
                [8., 7., 5., 4.]])
    """

    table: Tensor
    height: int
    width: int

    def __post_init__(self) -> None:
        float_tensor("Bias.grid", "table", self.table, "R H")
        for name in ("height", "width"):
            whole_number("Bias.grid", name, getattr(self, name), 1, FAR)
        if self.table.dim() != 2 or self.table.shape[0] not in (self._offsets, self._offsets + 3):
            rule = f"a {self.height} x {self.width} grid has {self._offsets} offsets, and 3 entries more with a class"
            shapes = axes("table", self.table, "R H")
            raise ShapeError(sentence("Bias.grid", "table does not fit", f"{rule} token", shapes))

    @property
    def _offsets(self) -> int:
        return (2 * self.height - 1) * (2 * self.width - 1)

    @property
    def _classes(self) -> int:
        """1 where token 0 is a class token, else 0."""
        return int(self.table.shape[0] > self._offsets)

    @property
    def _tokens(self) -> int:
        return self.height * self.width + self._classes

    def check(self, geometry: Geometry) -> None:
        n, heads = self._tokens, self.table.shape[1]
        if (n, n, heads) == (geometry.T, geometry.S, geometry.H):
            return
        shapes = axes("table", self.table, "R H")
        what = f"the call has H={geometry.H}, T={geometry.T}, S={geometry.S}"
        rule = f"this table is of H={heads}, and a {self.height} x {self.width} grid of T=S={n}"
        raise ShapeError(sentence("Bias.grid", what, rule + (" with its class token" if self._classes else ""), shapes))

    def parameter(self) -> Tensor:
        return self.table

    def with_parameter(self, tensor: Tensor) -> GridBias:
        return GridBias(tensor, self.height, self.width)

    def _entry(self, i: Tensor, j: Tensor) -> Tensor:
        """The entry of query i and key j."""
        q, k = ((token - self._classes).clamp(min=0) for token in (i, j))
        down, along = q // self.width - k // self.width, q % self.width - k % self.width
        entry = (down + self.height - 1) * (2 * self.width - 1) + along + self.width - 1
        if self._classes:
            entry = torch.where(j == 0, self._offsets + 1, entry)
            entry = torch.where(i == 0, self._offsets + 2 * (j == 0), entry)
        return entry

    def entries(self, cells: Cells) -> Tensor:
        return self._entry(cells.i, cells.j)[None]

    def hidden(self, cells: Cells) -> Tensor:
        return self.added(cells) == float("-inf")

    def entries_written(self) -> int:
        return self.table.shape[1] * self._tokens**2

    def places(self) -> Tensor:
        token = torch.arange(self._tokens, device=self.table.device, dtype=torch.int64)
        return self._entry(token[:, None], token)

    def basic(self) -> Bias:
        return Bias(self.written())


@dataclass(frozen=True, eq=False)
class ScoreRule(Rules):
    """A rule that only a function knows; reference and blocked backends only.

    Args:
        fn: ``fn(score, b, h, i, j) -> score``, called a tile at a time on scores [b, h, n, m] and int64 index tensors
            that broadcast to that shape. It must treat each cell alone. A result of -inf hides the cell.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> rule = hw.ScoreRule(lambda score, b, h, i, j: score + (i == j))
        >>> hw.Pattern(x, x, scores=(rule,))[0, 0]
        tensor([[0.7311, 0.2689],
                [0.2689, 0.7311]])
    """

    fn: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]

    def __post_init__(self) -> None:
        takes("ScoreRule", self.fn, "score, b, h, i, j")

    def apply(self, score: Tensor, cells: Cells) -> Tensor:
        out = self.fn(score.clone(), cells.b, cells.h, cells.i, cells.j)
        if not isinstance(out, Tensor) or out.shape != score.shape:
            found = axes("result", out, "b h n m") if isinstance(out, Tensor) else type(out).__name__
            raise ShapeError(
                sentence(
                    "ScoreRule",
                    f"fn returned {found}",
                    "it returns scores of the shape it was given",
                    axes("score", score, "b h n m"),
                )
            )
        return out.to(score.dtype)

    def captures_gradient(self, cells: Cells, dtype: torch.dtype) -> bool:
        """Whether the function reads a tensor that requires a gradient of its own."""
        with torch.enable_grad():
            out = self.apply(torch.zeros(cells.shape, dtype=dtype, device=cells.geometry.device), cells)
        return out.requires_grad

    def pull(self, grad: Tensor, before: Tensor, after: Tensor, cells: Cells, into: Tensor | None) -> Tensor:
        with torch.enable_grad():
            leaf = before.detach().requires_grad_()
            out = self.apply(leaf, cells)
            if not out.requires_grad:
                return torch.zeros_like(grad)
            (found,) = torch.autograd.grad(out, leaf, grad, allow_unused=True)
        return torch.zeros_like(grad) if found is None else found
