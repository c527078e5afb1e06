"""Running means of what observers answer, for ``observe(..., reduce="mean")``.

Every number is a mean over the things that it is about, each counted once, however they fall into calls and batch rows:

    Entropy, LogSumExp, MaxLogit, MassOn, MassWhere   real queries
    Received                                          real keys
    Offsets                                           at each distance, the queries that have a visible key there
    Map                                               pooled maps, each weighing as much as it has real queries
    Segments                                          batch rows with a real query: an answer is a sum over a sequence

Where there is none of them the mean is NaN; of Offsets it is 0, as in one call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.observers import (
    Entropy,
    LogSumExp,
    Map,
    MassOn,
    MassWhere,
    MaxLogit,
    Observer,
    Offsets,
    Received,
    Segments,
    named,
)
from headwise.spec import Mask, Padding

__all__ = ["Average", "Summed", "check_averageable"]

_OF_QUERIES = (Entropy, LogSumExp, MaxLogit, MassOn, MassWhere)
_OF_KEYS = (Received,)
_OF_PATTERNS = (Offsets, Map, Segments)


def check_averageable(observers: Sequence[Any]) -> None:
    """Raises SpecError where an observer's answers have no mean (indices, crops, a user's own objects)."""
    for name, observer in named(observers).items():
        if not isinstance(observer, (*_OF_QUERIES, *_OF_KEYS, *_OF_PATTERNS)):
            raise SpecError(
                sentence(
                    "observe",
                    f'{name!r} cannot be averaged, and reduce="mean" was asked for',
                    "LogSumExp, MaxLogit, Entropy, MassOn, MassWhere, Received, Offsets, Map and Segments can",
                )
            )


class _Mean:
    """A sum and a count, per head (and per what else is left of the answer's axes)."""

    def __init__(self, of_none: float) -> None:
        self.total: Tensor | float = 0.0
        self.count: Tensor | float = 0.0
        self.of_none = of_none

    def add(self, total: Tensor, count: Tensor) -> None:
        self.total = self.total + total
        self.count = self.count + count

    def value(self) -> Tensor:
        count = torch.as_tensor(
            self.count, dtype=torch.float64, device=self.count.device if isinstance(self.count, Tensor) else "cpu"
        )
        return torch.where(count > 0, self.total / count, self.of_none).float()


class Summed(NamedTuple):
    """What one answer adds to a mean: its sum over batch rows and queries or keys, and how many these are."""

    site: str
    observer: str
    total: Tensor
    number: Tensor


class Average:
    """Means over calls: one number a head and answer entry, whatever the length and number of the calls."""

    def __init__(self, observers: Sequence[Any]) -> None:
        self._observers: dict[str, Observer] = named(observers)
        self._means: dict[str, dict[str, _Mean]] = {}

    def asked(self) -> list[Any]:
        """What to ask: the observers, but for those whose answers of single calls do not add up."""
        return [observer.sums() if isinstance(observer, Offsets) else observer for observer in self._observers.values()]

    def sums(self, site: str, answers: Mapping[str, Any], lse: Tensor, mask: Mask | None) -> list[Summed]:
        """What the answers of one run of a site add to the means; an empty row (lse -inf) is no row."""
        rows = lse != float("-inf")  # [B, H, T]
        return [
            Summed(site, name, *_summed(self._observers[name], answer, rows, mask)) for name, answer in answers.items()
        ]

    def add(self, call: Sequence[Summed]) -> None:
        """Takes in a call that finished."""
        for site, name, total, count in call:
            of_none = 0.0 if isinstance(self._observers[name], Offsets) else float("nan")
            self._means.setdefault(site, {}).setdefault(name, _Mean(of_none)).add(total, count)

    def means(self) -> dict[str, dict[str, Tensor]]:
        """For each site the mean of each answer: [H], Offsets [H, R], Map [H, h, w], Segments [H, Sq, Sk]."""
        return {site: {name: mean.value() for name, mean in found.items()} for site, found in self._means.items()}


def _summed(observer: Observer, answer: Any, rows: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor]:
    """The sum of an answer over its batch rows and queries (or keys), and how many it is a sum of."""
    if isinstance(observer, Offsets):
        return answer.total.double().sum(0), answer.rows.double().sum(0)
    answer = answer.double()
    if isinstance(observer, _OF_QUERIES):
        return torch.where(rows, answer, 0.0).sum((0, 2)), rows.sum((0, 2))
    if isinstance(observer, _OF_KEYS):
        keys = _real_keys(mask, answer)
        return torch.where(keys[:, None], answer, 0.0).sum((0, 2)), keys.sum().expand(answer.shape[1])
    if isinstance(observer, Map):
        rows = rows[..., observer.rows_of or slice(None)]
    queries = rows.sum(-1)[..., None, None]
    weight = queries if isinstance(observer, Map) else (queries > 0).long()
    return torch.where(weight > 0, answer * weight, 0.0).sum(0), weight.expand_as(answer).sum(0)


def _real_keys(mask: Mask | None, answer: Tensor) -> Tensor:
    """Which keys the model's padding mask calls real: bool [B, S]."""
    real = torch.ones(answer.shape[0], answer.shape[-1], dtype=torch.bool, device=answer.device)
    for part in mask.parts() if mask is not None else ():
        if isinstance(part, Padding) and isinstance(part.keep_or_lengths, Tensor) and part.keep_or_lengths.dim() == 2:
            real = real & part.keep_or_lengths
    return real
