"""Attention over keys and values in pages or in eight bits, which the kernels read as they lie."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.backends.native.lowering import DTYPES, Lowered, Numbers, lower, numbers, refusal
from headwise.plan import Plan
from headwise.spec import Paged, Quantised, Stored

__all__ = ["stored"]


def stored(plan: Plan, k: Tensor | Stored, v: Tensor | Stored) -> Tensor | None:
    """The output of a plan over keys or values that are stored; nobody asks for a gradient or an answer.

    Args:
        plan: the call, with blanks in place of what is stored.
        k, v: the operands, as they were given.

    Returns:
        [B, H, T, E]; None where the kernels cannot read them as they lie, or refuse the plan.
    """
    g = plan.geometry
    if 0 in (g.B, g.H, g.T, g.S, g.E) or not (_readable(k) and _readable(v)) or refusal(plan):
        return None
    lowered = lower(plan, _place(k), _place(v))
    _tell(lowered, k, values=False)
    _tell(lowered, v, values=True)
    out = plan.q.new_empty_strided((g.B, g.H, g.T, g.E), (g.T * g.H * g.E, g.E, g.H * g.E, 1))
    lowered.call.forward(numbers(out), (0, 0, 0, 0, 0), torch.get_num_threads())
    return out


def _readable(x: Tensor | Stored) -> bool:
    """Whether the last axis lies side by side, and nothing is only remembered about the numbers."""
    if isinstance(x, Tensor):
        return True
    held = x.pool if isinstance(x, Paged) else x.numbers if isinstance(x, Quantised) else None
    return held is not None and type(held) is Tensor and held.stride(-1) == 1 and not held.is_neg()


def _place(x: Tensor | Stored) -> Numbers | None:
    """Address, strides of batch, head and row, and the dtype that is read; None of a tensor."""
    if isinstance(x, Paged):
        return x.pool.data_ptr(), 0, x.pool.stride(1), x.pool.stride(2), DTYPES[x.dtype]
    if isinstance(x, Quantised):
        batch, head, row, _ = x.numbers.stride()
        return x.numbers.data_ptr(), batch, head, row, DTYPES[torch.float32]
    return None


def _tell(lowered: Lowered, x: Tensor | Stored, values: bool) -> None:
    if isinstance(x, Paged):
        table = x.table.contiguous()
        lowered.held.append(table)
        lowered.call.pages(values, table.data_ptr(), table.stride(0), x.page_size, x.pool.stride(0))
    elif isinstance(x, Quantised):
        lowered.call.scales(values, x.scales.data_ptr(), *x.scales.stride())
