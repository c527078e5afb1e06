"""What an observer sees and must answer: tiles of exact probabilities, in any cut and order."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.spec.checks import of_class
from headwise.spec.geometry import Cells, Geometry, span

__all__ = ["Accumulator", "Answered", "Frame", "NotAskedError", "Observer", "Tile", "Whole", "named"]


@dataclass(frozen=True, eq=False)
class Tile:
    """One rectangle of the pattern, exact: probabilities are made with the row's final log-sum-exp.

    Attributes:
        cells: where it lies; ``cells.batch``, ``.heads``, ``.rows``, ``.keys`` are slices of the whole pattern,
            ``cells.b``, ``.h``, ``.i``, ``.j``, ``.pos`` index tensors.
        p: probabilities [b, h, n, m], before dropout; 0 where hidden.
        logits: scores after scale and rules [b, h, n, m]; -inf where hidden.
        visible: bool, broadcastable to [b, h, n, m]; None where every cell is visible.
        peak: the number subtracted from each whole row before the exponential [b, h, n]; 0 for an empty row.
        log_total: log of the row's sum of exponentials after that [b, h, n]; 0 for an empty row, so that
            ``log p = (logits - peak) - log_total`` loses nothing at large logits.
        lse: log-sum-exp of each whole row [b, h, n], nats, sink included; -inf for an empty row.
        max_logit: largest score of each whole row [b, h, n], real keys only; -inf for an empty row.
        v: values of the tile's keys [b, h, m, E]; None where the pattern has none or no observer reads them.
    """

    cells: Cells
    p: Tensor
    logits: Tensor
    visible: Tensor | None
    peak: Tensor
    log_total: Tensor
    lse: Tensor
    max_logit: Tensor
    v: Tensor | None = None

    def copied(self) -> Tile:
        """The same tile in tensors of its own."""
        held = {field.name: getattr(self, field.name) for field in fields(self)}
        own: dict[str, Any] = {name: x.clone() for name, x in held.items() if isinstance(x, Tensor)}
        return replace(self, **own)


@dataclass(frozen=True, eq=False)
class Whole:
    """The whole pattern as the reference forms it, [B, H, T, S]: what an observer's definition is written on."""

    geometry: Geometry
    p: Tensor
    logits: Tensor
    visible: Tensor
    peak: Tensor
    log_total: Tensor
    lse: Tensor
    max_logit: Tensor
    v: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Frame:
    """The part of a pattern that is asked about.

    Accumulators hold the frame's batch rows and heads, ``at`` says where a tile falls in them; queries and keys keep
    their place in the whole pattern.
    """

    geometry: Geometry
    batch: slice
    heads: slice
    rows: slice
    keys: slice
    dtype: torch.dtype

    @property
    def b(self) -> int:
        """Batch rows in the frame."""
        return span(self.batch)

    @property
    def h(self) -> int:
        """Query heads in the frame."""
        return span(self.heads)

    def zeros(self, *shape: int, dtype: torch.dtype | None = None) -> Tensor:
        """Zeros [b, h, *shape] in the frame's dtype and device."""
        return torch.zeros((self.b, self.h, *shape), dtype=dtype or self.dtype, device=self.geometry.device)

    def at(self, cells: Cells) -> tuple[slice, slice]:
        """Where a tile's batch rows and heads fall in the frame's tensors."""
        b, h = cells.batch.start - self.batch.start, cells.heads.start - self.heads.start
        return slice(b, b + span(cells.batch)), slice(h, h + span(cells.heads))


@runtime_checkable
class Accumulator(Protocol):
    """The protocol of an observer at work; a user's own observer is any object with these three methods.

    Each run (and each attention site of a model) works on a deep copy of the object that was given.
    """

    def see(self, tile: Tile) -> None:
        """Takes in one tile; tiles come in any cut and order, each visible cell exactly once."""

    def merge(self, other: Any) -> None:
        """Takes in what another accumulator of the same question has seen."""

    def result(self) -> Any:
        """The answer."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Observer:
    """Base of the questions that headwise can answer about a pattern.

    Args:
        name: the key of the answer in ``seen``; None = the class name in snake case.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.attend(x, x, x, observe=[hw.Entropy(name="nats")]).seen["nats"]
        tensor([[[0.6931, 0.6931]]])
    """

    name: str | None = None

    reads_values: ClassVar[bool] = False  # True where the answer needs tile.v

    def check(self, geometry: Geometry, has_values: bool) -> None:
        """Raises where the question does not fit the call."""

    def rows(self, geometry: Geometry) -> slice:
        """The queries that the question is about."""
        return slice(0, geometry.T)

    def keys(self, geometry: Geometry) -> slice:
        """The keys that the question is about."""
        return slice(0, geometry.S)

    def begin(self, frame: Frame) -> Accumulator:
        """A fresh accumulator for one frame."""
        raise NotImplementedError

    def define(self, whole: Whole) -> Any:
        """The definition, on the whole pattern in plain torch."""
        raise NotImplementedError

    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors that the question holds."""
        return tuple(value for value in vars(self).values() if isinstance(value, Tensor))


class Answered(dict[str, Any]):
    """Answers by the name of their observer; a name that nobody has is an error that lists those there are.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.attend(x, x, x, observe=[hw.Entropy(), hw.TopKeys(1)]).seen["entrop"]
        Traceback (most recent call last):
        headwise.observers.protocol.NotAskedError: observe: nothing is named 'entrop'; a key is an observer, entropy...
    """

    def __missing__(self, key: Any) -> Any:
        rule = f"a key is an observer, {', '.join(self)}" if self else "no observer was given"
        raise NotAskedError(
            sentence("observe", f"nothing is named {key!r}", rule, todo="" if self else "Write observe=[hw.Entropy()].")
        )


class NotAskedError(SpecError, KeyError):
    """A name that no answer has; a KeyError too, as of any mapping."""

    __str__ = Exception.__str__  # a KeyError would show its sentence in quotation marks


def named(observers: Sequence[Any]) -> dict[str, Any]:
    """Observers by the key of their answer.

    Raises:
        SpecError: something is no observer, or two have the same name.
    """
    if isinstance(observers, (str, Mapping)) or not isinstance(observers, Sequence):
        observers = [observers]
    found: dict[str, Any] = {}
    for observer in observers:
        if isinstance(observer, type) or not isinstance(observer, (Observer, Accumulator)):
            kinds = (Observer, Accumulator)
            what, made = of_class(observer, kinds, "observer") or (f"{observer!r} is no observer", "")
            rule = "an observer is one of headwise's (hw.Entropy(), ...) or an object with see, merge and result"
            raise SpecError(sentence("observe", what, rule, todo=f"Write {made}." if made else ""))
        name = getattr(observer, "name", None)
        if isinstance(observer, Observer) and not (name is None or (isinstance(name, str) and name)):
            raise SpecError(sentence("observe", f"name is {name!r}", "the key of an answer is a word, or None"))
        if not isinstance(name, str):
            name = re.sub(r"(?<!^)(?=[A-Z])", "_", type(observer).__name__).lower()
        if name in found:
            raise SpecError(
                sentence(
                    "observe",
                    f"two observers are named {name!r}",
                    "each answer has one key",
                    todo='Give one a name: hw.Entropy(name="second").',
                )
            )
        found[name] = observer
    return found


def start(observer: Any, frame: Frame) -> Accumulator:
    """A fresh accumulator of a built-in or a user's observer."""
    if isinstance(observer, Observer):
        return observer.begin(frame)
    fresh: Accumulator = copy.deepcopy(observer)
    return fresh
