"""Score rules: what happens to ``q.k * scale`` before the softmax, in the order they are given.

Each rule is a small frozen value with its definition (``apply``) and the gradient of it (``pull``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.spec.checks import FAR, broadcastable, takes
from headwise.spec.geometry import Cells, Geometry

__all__ = ["Alibi", "Bias", "RelativeBias", "Rules", "ScoreRule", "SoftCap"]


class Rules:
    """Base of all score rules.

    Example:
        >>> import headwise as hw
        >>> isinstance(hw.SoftCap(30.0), hw.spec.Rules)
        True
    """

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

    def check(self, geometry: Geometry) -> None:
        """Raises ShapeError where the rule does not fit the call."""

    def with_parameter(self, tensor: Tensor) -> Rules:
        """The same rule with its tensor replaced."""
        raise NotImplementedError


def _float_tensor(who: str, name: str, value: Any, letters: str) -> None:
    if isinstance(value, Tensor) and value.is_floating_point():
        return
    found = value.dtype if isinstance(value, Tensor) else type(value).__name__
    todo = "A bool keep-mask goes in mask=hw.Dense(keep)." if who == "Bias" else ""
    raise SpecError(sentence(who, f"{name} is {found}", f"it is a float tensor [{letters}]", todo=todo))


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

    def __post_init__(self) -> None:
        if isinstance(self.cap, bool) or not isinstance(self.cap, (int, float)) or not 0 < self.cap <= 1e30:
            rule = "it is a number above 0 and at most 1e30; a larger one caps nothing"
            raise SpecError(sentence("SoftCap", f"cap is {self.cap!r}", rule))

    def apply(self, score: Tensor, cells: Cells) -> Tensor:
        return torch.tanh(score / self.cap) * self.cap

    def pull(self, grad: Tensor, before: Tensor, after: Tensor, cells: Cells, into: Tensor | None) -> Tensor:
        return grad * (1 - (after / self.cap) ** 2)


@dataclass(frozen=True, eq=False)
class Alibi(Rules):
    """Adds ``-slope[h] * |pos_i - j|``.

    Args:
        slopes: float [H] or [B, H].

    Source: Press et al. 2022, "Train Short, Test Long" (arXiv 2108.12409).

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.Pattern(x, x, scores=(hw.Alibi(torch.tensor([1.0])),))[0, 0]
        tensor([[0.7311, 0.2689],
                [0.2689, 0.7311]])
    """

    slopes: Tensor

    def __post_init__(self) -> None:
        _float_tensor("Alibi", "slopes", self.slopes, "H")

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

    def parameter(self) -> Tensor:
        return self.slopes

    def with_parameter(self, tensor: Tensor) -> Alibi:
        return Alibi(tensor)

    def apply(self, score: Tensor, cells: Cells) -> Tensor:
        slopes = cells.part_of(self.slopes[..., None, None]).to(score.dtype)
        return score - slopes * (cells.pos - cells.j).abs().to(score.dtype)

    def pull(self, grad: Tensor, before: Tensor, after: Tensor, cells: Cells, into: Tensor | None) -> Tensor:
        if into is not None:
            slope = -(grad * (cells.pos - cells.j).abs().to(grad.dtype)).sum((-2, -1))
            if into.dim() == 1:
                into[cells.heads] += slope.sum(0)
            else:
                into[cells.batch, cells.heads] += slope
        return grad


@dataclass(frozen=True, eq=False)
class RelativeBias(Rules):
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

    def __post_init__(self) -> None:
        _float_tensor("RelativeBias", "table", self.table, "H R")
        if self.table.dim() != 2 or self.table.shape[1] < 1:
            raise ShapeError(
                sentence(
                    "RelativeBias",
                    "table has the wrong shape",
                    "it is [H,R], R at least 1",
                    axes("table", self.table, "H R"),
                )
            )
        if isinstance(self.zero, bool) or not isinstance(self.zero, int) or abs(self.zero) > FAR:
            raise SpecError(sentence("RelativeBias", f"zero is {self.zero!r}", "it is an int, the entry of distance 0"))

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

    def _entries(self, cells: Cells) -> Tensor:
        """Which entry each cell reads: int64 [b or 1, n, m]."""
        return (cells.j - cells.pos + self.zero).clamp(0, self.table.shape[1] - 1)[:, 0]

    def apply(self, score: Tensor, cells: Cells) -> Tensor:
        table = self.table[cells.heads].to(score.dtype)
        return score + table[:, self._entries(cells)].movedim(0, 1)

    def pull(self, grad: Tensor, before: Tensor, after: Tensor, cells: Cells, into: Tensor | None) -> Tensor:
        if into is not None:
            entries = self._entries(cells)
            if entries.shape[0] == 1:
                flat = grad.sum(0).flatten(-2)
            else:
                flat = grad.movedim(0, 1).flatten(1)
            into[cells.heads] = into[cells.heads].index_add(1, entries.flatten(), flat)
        return grad


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

    def __post_init__(self) -> None:
        _float_tensor("Bias", "tensor", self.tensor, "B H T S")

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
