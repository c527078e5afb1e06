"""Every error of the library: one base, four kinds, one builder of messages; and the two warnings.

A message says who refuses, what is wrong (with names and numbers), the rule, the shapes by axis, and what to do:

    attention: k has 6 heads, q has 8; the key heads must divide the query heads. q [B=2,H=8,T=128,D=64], ...
    Use 1, 2, 4 or 8 key heads.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any

__all__ = [
    "HeadwiseError",
    "LeftOutWarning",
    "ShapeError",
    "SpecError",
    "SpeedWarning",
    "UnavailableError",
    "UnsupportedError",
    "axes",
    "sentence",
    "warn",
]


class HeadwiseError(Exception):
    """Base of every error that headwise raises on purpose.

    Example:
        >>> import headwise as hw
        >>> try:
        ...     hw.Causal(align="top")
        ... except hw.HeadwiseError as error:
        ...     print(error)
        Causal: align is 'top'; align is "end" (last with last) or "start" (top-left).
    """


class ShapeError(HeadwiseError, ValueError):
    """Shapes, dtypes or devices that do not fit together.

    Example:
        >>> import torch, headwise as hw
        >>> q, k = torch.zeros(1, 1, 2, 4), torch.zeros(1, 1, 2, 3)
        >>> hw.attention(q, k, k)
        Traceback (most recent call last):
        headwise.errors.ShapeError: attention: k has width 3, q has 4; queries and keys share the width D. q ...
    """


class SpecError(HeadwiseError, ValueError):
    """An option, name or value that has no meaning here.

    Example:
        >>> import headwise as hw
        >>> hw.TopKeys(0)
        Traceback (most recent call last):
        headwise.errors.SpecError: TopKeys: k is 0; ...
    """


class UnsupportedError(HeadwiseError, NotImplementedError):
    """Meaningful, but the backend or model asked for cannot do it exactly.

    Attributes:
        reasons: for each backend that was considered, one sentence that says why it refuses.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.attention(x, x, x, sinks=torch.zeros(1), backend="sdpa")
        Traceback (most recent call last):
        headwise.errors.UnsupportedError: attention: backend 'sdpa' refuses; torch's kernel has no sinks.
    """

    def __init__(self, message: str, reasons: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.reasons: dict[str, str] = dict(reasons or {})


class UnavailableError(HeadwiseError, ImportError):
    """Something that is not installed on this machine, or does not exist yet.

    Example:
        >>> import torch, headwise as hw
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> hw.attention(x, x, x, backend="triton")
        Traceback (most recent call last):
        headwise.errors.UnavailableError: attention: backend 'triton' is not available; ...
    """


class SpeedWarning(RuntimeWarning):
    """Said once when the numbers are right and take far longer than they could.

    Example:
        >>> import warnings
        >>> from headwise.errors import SpeedWarning
        >>> warnings.filterwarnings("ignore", category=SpeedWarning)
    """


class LeftOutWarning(UserWarning):
    """Said once a model when some of its layers are none that headwise can run or see, and stay as they are.

    Example:
        >>> import warnings
        >>> from headwise.errors import LeftOutWarning
        >>> warnings.filterwarnings("ignore", category=LeftOutWarning)
    """


def warn(message: str, category: type[Warning]) -> None:
    """Gives a warning that points at the line that called headwise, or the module of torch that did."""
    frame, level = sys._getframe(1), 2
    ours = ("headwise.", "torch.", "contextlib")
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(ours):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def sentence(who: str, what: str, rule: str = "", shapes: str = "", todo: str = "") -> str:
    """Builds an error message: ``who: what; rule. shapes. todo``.

    Example:
        >>> from headwise.errors import sentence
        >>> sentence(
        ...     "Map", "height is 0", "height and width count cells, so both are at least 1", todo="Use 64."
        ... )
        'Map: height is 0; height and width count cells, so both are at least 1. Use 64.'
    """
    parts = [f"{who}: {what}" + (f"; {rule}" if rule else "")]
    if shapes:
        parts.append(shapes)
    text = " ".join(part if part.endswith(".") else f"{part}." for part in parts)
    return f"{text} {todo}" if todo else text


def axes(name: str, value: Any, letters: str) -> str:
    """Writes a shape with its axis letters, ``q [B=2,H=8,T=128,D=64]``.

    Example:
        >>> import torch
        >>> from headwise.errors import axes
        >>> axes("q", torch.zeros(2, 8, 128, 64), "B H T D")
        'q [B=2,H=8,T=128,D=64]'
        >>> axes("q", torch.zeros(2, 8), "B H T D")
        'q [2,8]'
    """
    shape = tuple(value.shape)
    names = letters.split()
    if len(names) != len(shape):
        return f"{name} [{','.join(str(n) for n in shape)}]"
    return f"{name} [{','.join(f'{a}={n}' for a, n in zip(names, shape, strict=True))}]"
