"""One call outside and inside of hw.everywhere(): what torch gives is the definition, in every respect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import headwise as hw


@dataclass
class Outcome:
    """What a call gave: its output and the gradients of its operands, or its error."""

    out: Tensor | None = None
    grads: Sequence[Tensor | None] = ()
    error: Exception | None = None


def outcome(call: Callable[..., Tensor], operands: Sequence[Tensor], inside: Any = nullcontext) -> Outcome:
    """Runs a call, and differentiates the sum of its squares where it can be."""
    try:
        with inside():
            out = call(*operands)
        leaves = [x for x in operands if x.requires_grad]
        wanted = out.square().sum() if out.requires_grad else None
        grads = () if wanted is None else torch.autograd.grad(wanted, leaves, allow_unused=True)
        return Outcome(out, grads)
    except Exception as error:  # noqa: BLE001  # its kind is what is compared
        return Outcome(error=error)


def fresh(operands: Sequence[Tensor], dtype: torch.dtype | None = None) -> list[Tensor]:
    """The same numbers as leaves of their own; floats by way of a dtype as float64, if one is named."""
    found = []
    for x in operands:
        plain = x.detach()
        if dtype is not None and plain.is_floating_point():
            plain = plain.to(dtype if plain.dtype != torch.float64 else torch.float64).double()
        found.append(plain.requires_grad_(x.requires_grad))
    return found


def same(call: Callable[..., Tensor], operands: Sequence[Tensor], computed_in: torch.dtype | None = None) -> str:
    """Asks that a call gives inside of the block what it gives outside: form, numbers, gradients, kinds of errors.

    A number may be twice as far from the result in float64 as torch's farthest is, and sixteen roundings of the call's
    largest number: so many follow one another in sums over the eight keys, queries or channels of these calls.

    Args:
        call: of operands.
        operands: tensors; gradients of those that want one are compared.
        computed_in: the dtype that autocast casts operands to.

    Returns:
        "" if all is the same, else what is not.
    """
    theirs, ours = outcome(call, operands), outcome(call, operands, hw.everywhere)
    if theirs.error is not None or ours.error is not None:
        kinds = type(theirs.error), type(ours.error)
        return "" if kinds[0] is kinds[1] else f"torch's error is {theirs.error!r}, ours {ours.error!r}"
    assert theirs.out is not None and ours.out is not None
    for name in ("shape", "dtype", "requires_grad", "layout", "device"):
        want, got = getattr(theirs.out, name), getattr(ours.out, name)
        if want != got:
            return f"{name} is {got}, torch's {want}"
    if theirs.out.stride() != ours.out.stride():
        return f"strides are {ours.out.stride()}, torch's {theirs.out.stride()}"
    exact = outcome(call, fresh(operands, computed_in or theirs.out.dtype))
    if exact.out is None:
        return f"not computed in float64: {exact.error!r}"
    numbers = zip((ours.out, *ours.grads), (theirs.out, *theirs.grads), (exact.out, *exact.grads), strict=True)
    largest = max(
        [float(x.detach().abs().max()) for x in (exact.out, *exact.grads) if x is not None and x.numel()] + [0]
    )
    rounding = 16 * torch.finfo(theirs.out.dtype).eps * largest
    for n, (got, want, truth) in enumerate(numbers):
        name = "the output" if n == 0 else f"the gradient of operand {n - 1}"
        if got is None or want is None or truth is None:
            if (got is None) != (want is None):
                return f"{name} is {'not ' if got is None else ''}there"
            continue
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"{name} is {got.dtype} {list(got.shape)}, torch's {want.dtype} {list(want.shape)}"
        if got.numel() == 0:
            continue
        error, theirs_error = (float((x.detach().double() - truth.detach()).abs().max()) for x in (got, want))
        allowed = 2 * theirs_error + rounding
        if not error <= allowed:
            return f"{name} is {error:.3g} off, {allowed:.3g} are allowed"
    return ""
