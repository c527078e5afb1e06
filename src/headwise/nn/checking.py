"""Checks that layers share, each with its one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from headwise.elsewhere import near
from headwise.errors import SpecError, sentence
from headwise.spec import Mask
from headwise.spec.checks import of_class

__all__ = ["at_least_one", "dropout_of", "listed", "mask_of", "one_of", "positive", "scale_of"]


def listed(items: Iterable[Any]) -> str:
    """A, B or C."""
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def at_least_one(who: str, name: str, value: Any) -> int:
    """A size."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SpecError(sentence(who, f"{name} is {value!r}", "it is a whole number of at least 1"))
    return value


def one_of(who: str, name: str, value: Any, known: tuple[str, ...]) -> None:
    """An option that is a word."""
    if value not in known:
        rule = f"it is {listed(map(repr, known))}"
        raise SpecError(sentence(who, f"{name} is {value!r}", rule, todo=near(value, known)))


def dropout_of(who: str, value: Any) -> float:
    """A probability that leaves something."""
    if not _is_number(value) or not 0.0 <= value < 1.0:
        raise SpecError(sentence(who, f"dropout is {value!r}", "it is a probability, at least 0 and below 1"))
    return float(value)


def scale_of(who: str, value: Any) -> float | None:
    """What q.k is multiplied by, or None."""
    if value is None:
        return None
    if not _is_number(value) or not math.isfinite(value):
        raise SpecError(sentence(who, f"scale is {value!r}", "it is a finite number, or None for 1/sqrt(D)"))
    return float(value)


def positive(who: str, name: str, value: Any) -> float:
    """A finite number above 0."""
    if not _is_number(value) or not 0.0 < value < math.inf:
        raise SpecError(sentence(who, f"{name} is {value!r}", "it is a finite number above 0"))
    return float(value)


def mask_of(who: str, value: Any) -> Mask | None:
    """A mask, or None."""
    if value is None or isinstance(value, Mask):
        return value
    shown = type(value).__name__
    todo = ""
    if shown in ("Tensor", "Parameter"):
        todo = "Wrap a boolean keep-tensor in headwise.Dense, key padding in headwise.Padding."
    elif isinstance(value, (bool, str)):
        todo = "Write headwise.Causal() for the usual one."
    what, made = of_class(value, Mask, "mask") or (f"mask is a {shown}", "")
    rule = "a mask is one of headwise's, in which True means may attend"
    raise SpecError(sentence(who, what, rule, todo=f"Write {made}." if made else todo))


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
