"""Which part of a pattern is meant: indices of cells, stretches of batch rows and heads."""

from __future__ import annotations

import operator
from typing import Any

from headwise.errors import SpecError, sentence

__all__ = ["forwards", "parts_of", "place", "stretch"]


def parts_of(index: Any, shape: tuple[int, ...]) -> list[int | slice]:
    """An index of a pattern of shape (B, H, T, S) as four, each an int that is there or a slice.

    Raises:
        SpecError: it has no meaning; one that is not there is an IndexError too.

    Example:
        >>> from headwise.indexing import parts_of
        >>> parts_of((0, ..., -1), (1, 2, 3, 4))
        [0, slice(None, None, None), slice(None, None, None), 3]
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    dots = [at for at, part in enumerate(parts) if part is Ellipsis]
    if len(dots) == 1:
        parts[dots[0] : dots[0] + 1] = [slice(None)] * (5 - len(parts))
    parts += [slice(None)] * (4 - len(parts))
    if len(parts) > 4:
        raise SpecError(sentence("Pattern", f"{len(parts)} indices", "a pattern has the axes b, h, row, col"))
    for axis, (part, n, letter) in enumerate(zip(parts, shape, "BHTS", strict=True)):
        if isinstance(part, slice):
            ends = [_integer(end) for end in (part.start, part.stop, part.step) if end is not None]
            if None in ends or (part.step is not None and part.step < 1):
                raise SpecError(sentence("Pattern", f"index {part!r}", "a slice has int ends and runs forwards"))
            continue
        at = _integer(part)
        if at is None:
            raise SpecError(sentence("Pattern", f"index {part!r}", "each of b, h, row, col is an int or a slice"))
        if not -n <= at < n:
            raise _OutOfRange(sentence("Pattern", f"index {at} on axis {letter}", f"{letter} is {n}"))
        parts[axis] = at % n
    return parts


def _integer(value: Any) -> int | None:
    """An int, or what stands for one; None for anything else, bools included."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def stretch(name: str, part: Any, n: int) -> slice:
    """Some of n batch rows or heads as a slice with both ends set."""
    if part is None:
        return slice(0, n)
    ends = (part.start, part.stop) if isinstance(part, slice) else (part,)
    if not isinstance(part, slice) or any(end is not None and _integer(end) is None for end in ends):
        raise SpecError(sentence("Pattern", f"{name} is {part!r}", "it is a slice with int ends, or None for all"))
    if part.step not in (None, 1):
        raise SpecError(sentence("Pattern", f"{name} is {part!r}", "a part is one stretch, so its step is 1"))
    return forwards(part, n)


def place(name: str, at: Any, n: int) -> slice:
    """One of n batch rows or heads as a slice."""
    found = _integer(at)
    if found is None or not -n <= found < n:
        raise SpecError(sentence("Pattern", f"{name} is {at!r}", f"it is one of {n}, an int from 0"))
    return slice(found % n, found % n + 1)


class _OutOfRange(SpecError, IndexError):
    """An index that the pattern does not have; an IndexError too, so that a loop over an axis ends."""


def forwards(part: slice, n: int) -> slice:
    """The contiguous stretch that a slice falls in."""
    start, stop, _ = part.indices(n)
    return slice(start, max(start, stop))
