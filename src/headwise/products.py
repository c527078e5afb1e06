"""Matrix products that read only what is visible: a hidden operand may hold NaN or inf and never reaches a result."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from headwise.tracing import readable

__all__ = ["all_finite", "as_given", "finite_part", "may_be_extreme", "visible_product"]


_AS_IT_IS = contextlib.nullcontext()


def as_given(device: torch.device) -> contextlib.AbstractContextManager[Any]:
    """Switches autocast off: a product here has the precision of its operands, whatever surrounds the call."""
    if device.type != "meta" and torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return _AS_IT_IS


def all_finite(*tensors: Tensor | None) -> bool:
    """Whether no tensor holds a NaN or an infinity; False where that cannot be seen.

    The sum of finite numbers is finite unless it overflows, so one cheap pass settles nearly every case.
    """
    for tensor in tensors:
        if tensor is None or tensor.numel() == 0:
            continue
        plain = tensor.detach()
        if not readable(plain):
            return False
        if not bool(torch.isfinite(plain.sum(dtype=_at_least_float32(plain)))) and not bool(
            torch.isfinite(plain).all()
        ):
            return False
    return True


def may_be_extreme(q: Tensor, k: Tensor, scale: float) -> bool:
    """Whether scores may hold NaN or inf: an operand does, or ``scale * q.k`` could leave float32.

    By Cauchy and Schwarz no score is larger than the product of the two tensors' norms, which one pass over each gives.
    """
    if not (readable(q) and readable(k)):
        return True
    norms = [torch.linalg.vector_norm(x.detach(), dtype=_at_least_float32(x)) for x in (q, k)]
    bound = abs(scale) * float(norms[0]) * float(norms[1])
    return not bound < (1e300 if q.dtype == torch.float64 else 1e38)


def _at_least_float32(x: Tensor) -> torch.dtype:
    return x.dtype if x.element_size() >= 4 else torch.float32


def finite_part(tensor: Tensor) -> Tensor:
    """The tensor with 0 in place of NaN and inf."""
    return torch.where(torch.isfinite(tensor), tensor, torch.zeros((), dtype=tensor.dtype, device=tensor.device))


def visible_product(weight: Tensor, visible: Tensor, x: Tensor) -> Tensor:
    """``sum over visible j of weight[..., i, j] * x[..., j, :]``, as IEEE would add it, for x with NaN or inf.

    Args:
        weight: [..., n, m], 0 where hidden.
        visible: bool [..., n, m].
        x: [..., m, width].
    """
    out = weight @ finite_part(x)
    seen = visible.to(out.dtype)
    plus, minus = (x == float("inf")).to(out.dtype), (x == float("-inf")).to(out.dtype)
    up, down = (weight > 0).to(out.dtype), (weight < 0).to(out.dtype)
    rises, falls = up @ plus + down @ minus > 0, up @ minus + down @ plus > 0
    nothing_times_inf = ((weight == 0) & visible).to(out.dtype) @ (plus + minus) > 0
    nan = (seen @ torch.isnan(x).to(out.dtype) > 0) | (rises & falls) | nothing_times_inf
    inf = torch.full((), float("inf"), dtype=out.dtype, device=out.device)
    out = torch.where(rises, inf, torch.where(falls, -inf, out))
    return torch.where(nan, torch.full_like(inf, float("nan")), out)
