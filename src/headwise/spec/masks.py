"""What a mask is: a set of cells that may be attended to. True means "may attend"; masks combine with ``&`` and ``|``.

Every mask is a small frozen value. It says the same thing twice: ``keep(cells)`` is its definition, cell by cell, and
``intervals(geometry)`` is the same set as runs of keys, which is what lets a backend skip what nobody sees.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.spec.checks import FAR, int_vector, is_integer, of_class, whole_number
from headwise.spec.geometry import Cells, Geometry
from headwise.spec.intervals import Intervals, joined
from headwise.spec.picture import picture_of

__all__ = ["DEPTH", "And", "Mask", "Or"]

DEPTH = 64  #: masks inside masks, at most: what walks through them calls itself that often, and so do pickle and copy


class Mask:
    """Base of all masks: a set of cells (b, h, i, j) that may be attended to.

    Example:
        >>> import headwise as hw
        >>> hw.Causal() & hw.Window(before=2)
        Causal(align='end') & Window(before=2, after=None)
    """

    per_head = False  # True where heads may differ, so that a chunk of few heads skips more
    per_batch = False  # the same for batch rows
    by_position = False  # True where a query's row follows from its position, wherever in a text the call begins
    never_ahead = False  # True where no query sees a key after its own position, whatever the sizes
    _depth = 0  # how many masks lie inside each other below this one

    def keep(self, cells: Cells) -> Tensor:
        """The definition: bool, broadcastable to the cells' shape."""
        raise NotImplementedError

    def intervals(self, geometry: Geometry) -> Intervals:
        """Runs of keys that hold every visible cell."""
        return Intervals.everything(geometry, exact=False)

    def check(self, geometry: Geometry) -> None:
        """Raises ShapeError where the mask does not fit the call."""

    def sizes(self) -> dict[str, int]:
        """The sizes of a call that the mask's tensors tell, by NOTATION's letters."""
        return {}

    def show(
        self,
        T: int | None = None,
        S: int | None = None,
        *,
        q_start: int | Tensor | None = None,
        batch: int = 0,
        head: int = 0,
        height: int = 24,
        width: int = 64,
    ) -> None:
        """Prints which keys (across) each query (down) may attend to.

        A full character is visible, a dot is hidden. More queries or keys than fit are put together: the shade of a
        character is about the share of its cells that are visible, found from a few of them, so a picture of any
        length costs what a picture of this size costs.

        Args:
            T: queries; None = as many as the mask's tensors say, or as there are keys, or 16.
            S: keys; None = as many as the mask's tensors say, or as there are queries.
            q_start: position of query 0, an int or integer [B]; None = S - T.
            batch: the batch row to show.
            head: the query head to show.
            height: lines at most.
            width: characters of a line at most.

        Raises:
            ShapeError: the mask does not fit T and S.
            SpecError: a size, or a batch row or head that the mask does not have.

        Example:
            >>> import torch, headwise as hw
            >>> (hw.Causal() & hw.Window(before=2)).show(4, S=7)
            ·███···
            ··███··
            ···███·
            ····███
            >>> hw.Causal().show(1_000_000, height=3, width=12)
            ▓▒▒░········
            ████▓▒▒░····
            ████████▓▒▒░
            1000000 queries down, 1000000 keys across; one character is 333334 x 83334
        """
        told = self.sizes()
        if isinstance(q_start, Tensor) and is_integer(q_start) and q_start.dim() == 0:
            q_start = int(q_start)
        for name, value, least in (
            ("T", T, 0),
            ("S", S, 0),
            ("batch", batch, 0),
            ("head", head, 0),
            ("height", height, 1),
            ("width", width, 1),
            ("q_start", None if isinstance(q_start, Tensor) else q_start, -FAR),
        ):
            if value is not None:
                whole_number("show", name, value, least, FAR)
        T = T if T is not None else told.get("T", S if S is not None else told.get("S", 16))
        S = S if S is not None else told.get("S", T)
        starts = len(q_start) if isinstance(q_start, Tensor) and q_start.dim() else None
        B, H = told.get("B", starts or batch + 1), told.get("H", head + 1)
        for name, at, count in (("batch", batch, B), ("head", head, H)):
            if at >= count:
                raise SpecError(sentence("show", f"{name} is {at}", f"the mask holds {count} of them, from 0"))
        device = next((tensor.device for tensor in self.tensors()), torch.device("cpu"))
        start = q_start if q_start is not None else S - T
        geometry = Geometry(B, H, H, T, S, 1, 1, start.long() if isinstance(start, Tensor) else start, device)
        int_vector("show", "q_start", start, geometry)
        self.check(geometry)
        print(picture_of(self, geometry, batch, head, height, width))  # noqa: T201  (what it is for)

    def of_text(self) -> Mask:
        """The mask of a call whose queries are the tokens of all keys.

        What a tensor says of this call's queries alone is taken from one of the keys, or left out.
        """
        return self

    def parts(self) -> tuple[Mask, ...]:
        """The single masks that this one combines; a single mask is its own only part."""
        return (self,)

    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the mask holds; they are not copied."""
        kinds: list[tuple[Mask, Any]] = [(part, type(part)) for part in self.parts()]
        held = (getattr(part, name) for part, kind in kinds for name in _names(kind))
        return tuple(value for value in held if isinstance(value, Tensor))

    def mapped(self, fn: Callable[[Tensor], Tensor]) -> Mask:
        """The same mask over other tensors: each that it holds is replaced by ``fn`` of it."""
        return with_tensors(self, fn)

    def __bool__(self) -> bool:
        """A mask is neither true nor false: ``a and b`` would be b alone."""
        rule = "Python's and, or and not ask for one truth, and would drop a mask without a word"
        raise SpecError(sentence("mask", "a mask was asked whether it is true", rule, todo="Combine with & and |."))

    def __and__(self, other: Mask) -> Mask:
        return _combined(And, self, _a_mask(other, "&"))

    def __or__(self, other: Mask) -> Mask:
        return _combined(Or, self, _a_mask(other, "|"))

    def __rand__(self, other: Any) -> Mask:
        return _a_mask(other, "&") & self

    def __ror__(self, other: Any) -> Mask:
        return _a_mask(other, "|") | self


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    """The names of a class's fields."""
    return tuple(field.name for field in fields(kind))


def with_tensors(value: Any, fn: Callable[[Tensor], Tensor]) -> Any:
    """A frozen value with each of its tensors replaced by ``fn`` of it; the value itself stays as it was."""
    fresh = copy.copy(value)
    for field in fields(value):
        held = getattr(value, field.name)
        if isinstance(held, Tensor):
            object.__setattr__(fresh, field.name, fn(held))
    return fresh


def _combined(kind: type[_Combined], one: Mask, other: Mask) -> Mask:
    """Two masks as one. What either of them combines in the same way lies side by side there, not in each other."""
    members = one.masks if type(one) is kind else (one,)
    return kind(members + (other.masks if type(other) is kind else (other,)))


def _a_mask(value: Any, sign: str) -> Mask:
    if isinstance(value, Mask):
        return value
    what, made = of_class(value, Mask, "mask") or (f"{sign} got a {type(value).__name__}", "")
    todo = f"Write {made}." if made else "Wrap a bool tensor in hw.Dense(keep), True = may attend."
    raise SpecError(sentence("mask", what, "masks combine with masks", todo=todo))


@dataclass(frozen=True, eq=False)
class _Combined(Mask):
    masks: tuple[Mask, ...]

    def __post_init__(self) -> None:
        try:
            masks = tuple(self.masks)
            depth = 1 + max([mask._depth for mask in masks])
        except (TypeError, ValueError, AttributeError):  # nothing to iterate, nothing in it, or something else in it
            what, rule = (
                "it was given nothing to combine, or something that is no mask",
                "it combines one or more masks",
            )
            raise SpecError(sentence(type(self).__name__, what, rule, todo="Combine with & and |.")) from None
        object.__setattr__(self, "masks", masks)
        object.__setattr__(self, "_depth", depth)
        if depth > DEPTH:
            what = f"masks combined by & and | lie inside each other {depth} deep"
            todo = "Write the cells out in hw.Dense(keep), or the condition in hw.Rule(fn)."
            raise SpecError(
                sentence("mask", what, f"at most {DEPTH} do; many joined by & alone, or by | alone, are one", todo=todo)
            )

    @property
    def per_head(self) -> bool:  # type: ignore[override]
        return any(mask.per_head for mask in self.masks)

    @property
    def per_batch(self) -> bool:  # type: ignore[override]
        return any(mask.per_batch for mask in self.masks)

    @property
    def by_position(self) -> bool:  # type: ignore[override]
        return all(mask.by_position for mask in self.masks)

    def check(self, geometry: Geometry) -> None:
        for mask in self.masks:
            mask.check(geometry)

    def sizes(self) -> dict[str, int]:
        return {letter: size for mask in reversed(self.masks) for letter, size in mask.sizes().items()}

    def parts(self) -> tuple[Mask, ...]:
        found: list[Mask] = []
        left: list[Mask] = [self]
        while left:
            mask = left.pop()
            if isinstance(mask, _Combined):
                left += reversed(mask.masks)
            else:
                found += mask.parts()
        return tuple(found)

    def mapped(self, fn: Callable[[Tensor], Tensor]) -> Mask:
        return type(self)(tuple(mask.mapped(fn) for mask in self.masks))


class And(_Combined):
    """Cells that every one of the masks keeps; written ``a & b``.

    Example:
        >>> import headwise as hw
        >>> isinstance(hw.Causal() & hw.Window(3), hw.spec.And)
        True
    """

    @property
    def never_ahead(self) -> bool:  # type: ignore[override]
        return any(mask.never_ahead for mask in self.masks)

    def keep(self, cells: Cells) -> Tensor:
        kept = self.masks[0].keep(cells)
        for mask in self.masks[1:]:
            kept = kept & mask.keep(cells)
        return kept

    def intervals(self, geometry: Geometry) -> Intervals:
        return joined([mask.intervals(geometry) for mask in self.masks], operator.and_)

    def __repr__(self) -> str:
        return " & ".join(f"({m})" if isinstance(m, Or) else str(m) for m in self.masks)


class Or(_Combined):
    """Cells that at least one of the masks keeps; written ``a | b``.

    Example:
        >>> import headwise as hw
        >>> hw.Causal() | hw.Prefix(4)  # a prefix LM
        Causal(align='end') | Prefix(lengths=4)
    """

    @property
    def never_ahead(self) -> bool:  # type: ignore[override]
        return all(mask.never_ahead for mask in self.masks)

    def keep(self, cells: Cells) -> Tensor:
        kept = self.masks[0].keep(cells)
        for mask in self.masks[1:]:
            kept = kept | mask.keep(cells)
        return kept

    def intervals(self, geometry: Geometry) -> Intervals:
        return joined([mask.intervals(geometry) for mask in self.masks], operator.or_)

    def __repr__(self) -> str:
        return " | ".join(f"({m})" if isinstance(m, And) else str(m) for m in self.masks)
