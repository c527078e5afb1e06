"""Checks that masks and score rules share, each with its one sentence."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.spec.geometry import Geometry

__all__ = [
    "FAR",
    "bool_only",
    "broadcastable",
    "column",
    "fits",
    "float_tensor",
    "int_vector",
    "ints_of",
    "is_integer",
    "of_class",
    "rows_of",
    "takes",
    "whole_number",
]


def is_integer(value: Any) -> bool:
    """Whether something is a tensor of integers (bool is none, complex neither)."""
    return isinstance(value, Tensor) and value.dtype in _INTEGERS


_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

FAR = 2**40  #: a position, width or length beyond is as good as infinite, and sums of a few still fit int64.


def whole_number(who: str, name: str, value: Any, least: int, most: int | None = None, rule: str = "") -> None:
    """Checks an int (True is none) and its limits; ``rule`` where they say more than two numbers do.

    Example:
        >>> from headwise.spec.checks import whole_number
        >>> whole_number("Tiles", "size", 0, 1, 8)
        Traceback (most recent call last):
        headwise.errors.SpecError: Tiles: size is 0; it is an int from 1 to 8.
    """
    fits = isinstance(value, int) and not isinstance(value, bool) and least <= value
    if fits and (most is None or value <= most):
        return
    limits = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise SpecError(sentence(who, f"{name} is {value!r}", rule or f"it is an int {limits}"))


def ints_of(who: str, name: str, value: Any) -> Tensor:
    """Checks an integer tensor, or a sequence of ints, of which it makes one."""
    if isinstance(value, Tensor):
        if is_integer(value):
            return value
        raise SpecError(sentence(who, f"{name} is {value.dtype}", "it is an integer tensor"))
    try:
        return torch.tensor([operator.index(n) for n in value], dtype=torch.int64, device="cpu")
    except (TypeError, ValueError, RuntimeError):  # nothing to iterate, no ints, or beyond int64
        raise SpecError(sentence(who, f"{name} is {value!r}", "it is a list or tensor of ints")) from None


def int_vector(who: str, name: str, value: Any, geometry: Geometry | None) -> None:
    """Checks an int, or an integer tensor [B]."""
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0 and name == "lengths":
            raise SpecError(sentence(who, f"{name} is {value}", "it counts keys, so it is at least 0"))
        return
    if not isinstance(value, Tensor) or not is_integer(value) or value.dim() != 1:
        found = axes(name, value, "B") + f" of {value.dtype}" if isinstance(value, Tensor) else repr(value)
        raise SpecError(sentence(who, f"{name} is {found}", "it is an int, or an integer tensor [B]"))
    if geometry is not None and value.shape[0] != geometry.B:
        raise ShapeError(
            sentence(
                who,
                f"{name} has {value.shape[0]} entries, the batch has {geometry.B} rows",
                "it holds one number a batch row",
                axes(name, value, "B"),
            )
        )


def bool_only(who: str, name: str, value: Any, letters: str) -> None:
    """Checks that a mask is a bool tensor: one of numbers is ambiguous, so it is refused."""
    if not isinstance(value, Tensor):
        raise SpecError(sentence(who, f"{name} is a {type(value).__name__}", f"it is a bool tensor [{letters}]"))
    if value.dtype == torch.bool:
        return
    todo = "Use .bool() if 1 means keep; add a float mask to the scores with hw.Bias(tensor)."
    raise SpecError(
        sentence(
            who,
            f"{name} is {value.dtype}",
            "a mask of numbers is ambiguous, a keep-mask is bool with True = may attend",
            axes(name, value, letters),
            todo,
        )
    )


def float_tensor(who: str, name: str, value: Any, letters: str) -> None:
    """Checks that a parameter is a float tensor."""
    if isinstance(value, Tensor) and value.is_floating_point():
        return
    found = value.dtype if isinstance(value, Tensor) else type(value).__name__
    todo = "A bool keep-mask goes in mask=hw.Dense(keep)." if who == "Bias" else ""
    raise SpecError(sentence(who, f"{name} is {found}", f"it is a float tensor [{letters}]", todo=todo))


def fits(who: str, name: str, value: Tensor, want: Sequence[int], letters: str) -> None:
    """Checks a shape exactly."""
    if tuple(value.shape) == tuple(want):
        return
    wanted = ",".join(f"{a}={n}" for a, n in zip(letters.split(), want, strict=True))
    raise ShapeError(
        sentence(who, f"{name} does not fit the call", f"it must be [{wanted}]", axes(name, value, letters))
    )


def broadcastable(who: str, name: str, value: Tensor, geometry: Geometry) -> None:
    """Raises ShapeError where a tensor does not broadcast to [B, H, T, S]."""
    want = (geometry.B, geometry.H, geometry.T, geometry.S)
    shape = (1,) * (4 - value.dim()) + tuple(value.shape)
    if len(shape) == 4 and all(a in (1, n) for a, n in zip(shape, want, strict=True)):
        return
    raise ShapeError(
        sentence(
            who,
            f"{name} does not broadcast to the pattern",
            f"each axis is 1 or that of [B={want[0]},H={want[1]},T={want[2]},S={want[3]}]",
            axes(name, value, "B H T S"),
        )
    )


def column(value: int | Tensor, geometry: Geometry) -> Tensor:
    """An int or a tensor [B] as int64 [B or 1, 1]."""
    if isinstance(value, int):
        # torch.full, which a tracer sees as an operation; a tensor made from data would be a constant of its own.
        return torch.full((1, 1), max(-FAR, min(value, FAR)), dtype=torch.int64, device=geometry.device)
    return torch.as_tensor(value, dtype=torch.int64, device=geometry.device).reshape(-1, 1)


def of_class(value: Any, base: Any, what: str) -> tuple[str, str] | None:
    """For a class where an object of ``base`` belongs: what is wrong, and how one of its objects is written.

    The second is "" where the class is none of ``base``; for anything but a class there is nothing to say, None.

    Example:
        >>> import headwise as hw
        >>> from headwise.spec.checks import of_class
        >>> of_class(hw.Causal, hw.spec.Mask, "mask")
        ('the class Causal is no mask', 'Causal()')
        >>> of_class(hw.Dense, hw.spec.Mask, "mask")
        ('the class Dense is no mask', 'Dense(...)')
        >>> of_class(int, hw.spec.Mask, "mask")
        ('the class int is no mask', '')
    """
    if not isinstance(value, type):
        return None
    try:
        inspect.signature(value).bind()
    except (TypeError, ValueError):
        arguments = "..."
    else:
        arguments = ""
    return f"the class {value.__name__} is no {what}", (
        f"{value.__name__}({arguments})" if issubclass(value, base) else ""
    )


def takes(who: str, fn: Any, arguments: str) -> None:
    """Checks that something can be called with so many arguments, where its signature is known."""
    if not callable(fn):
        raise SpecError(sentence(who, f"fn is a {type(fn).__name__}", f"it is called with ({arguments})"))
    if torch.compiler.is_compiling():  # a compiler does not follow the look at a signature; the call itself will tell
        return
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # a builtin does not say what it takes
        return
    try:
        signature.bind(*arguments.split(", "))
    except TypeError:
        raise SpecError(sentence(who, f"fn takes {signature}", f"it is called with ({arguments})")) from None


def rows_of(tensor: Tensor, batch: slice) -> Tensor:
    """The batch rows of a tensor whose first axis is the batch, or 1 for all of it."""
    return tensor[batch] if tensor.shape[0] > 1 else tensor


def batch_of(*tensors: Tensor) -> int:
    """The batch rows of tensors [b or 1, ...] that broadcast against each other; b may be 0."""
    return next((len(tensor) for tensor in tensors if len(tensor) != 1), 1)
