"""Attention over keys and values in pages or in eight bits, which the kernels read as they lie."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.backends.native.addresses import DTYPES, Numbers, contiguous, operand, plane
from headwise.backends.native.classes import classes
from headwise.backends.native.lowering import Lowered, lower, refusal
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
    if 0 in (g.B, g.H, g.T, g.S, g.E) or not (_readable(k) and _readable(v)):
        return None
    if refusal(plan) or classes(plan):  # what is cut is cut for everybody, or observing would change bits
        return None
    lowered = lower(plan, _place(k), _place(v))
    _tell(lowered, k, values=False)
    _tell(lowered, v, values=True)
    out = plan.q.new_empty_strided((g.B, g.H, g.T, g.E), (g.T * g.H * g.E, g.E, g.H * g.E, 1))
    at = operand(out, "out", (g.B, g.H, g.T, g.E), plan.q.dtype)
    lowered.call.forward(at, (0, 0, 0, 0, 0), torch.get_num_threads())
    return out


def _readable(x: Tensor | Stored) -> bool:
    """Whether rows lie side by side on the CPU, and nothing is only remembered about their numbers."""
    if isinstance(x, Tensor):
        return True
    parts = x.tensors()
    plain = all(type(part) is Tensor and part.is_cpu and not part.is_neg() for part in parts)
    return plain and not any(part._is_zerotensor() for part in parts) and parts[0].stride(-1) == 1


def _place(x: Tensor | Stored) -> Numbers | None:
    """Address, strides of batch, head and row, and the dtype that is read; None of a tensor."""
    if isinstance(x, Paged):
        pages, heads, size, width = x.pool.shape
        address, _, head, row, kind = operand(x.pool, "the pool of pages", (pages, heads, size, width))
        return address, 0, head, row, kind
    if isinstance(x, Quantised):
        address, (batch, head, row, _) = plane(x.numbers, "the numbers in eight bits", x.shape, (torch.int8,))
        return address, batch, head, row, DTYPES[x.dtype]
    return None


def _tell(lowered: Lowered, x: Tensor | Stored, values: bool) -> None:
    if isinstance(x, Paged):
        table = x.table.contiguous()
        lowered.held.append(table)
        columns = max(table.shape[1], -(-x.length // x.page_size))
        address = contiguous(table, "the table of pages", (x.shape[0], columns), torch.int32)
        place = (address, table.shape[1], x.page_size, x.pool.stride(0), len(x.pool))
        if not lowered.call.pages(values, *place):
            x.check_pages()  # its owner has changed the table since
    elif isinstance(x, Quantised):
        address, strides = plane(x.scales[..., None], "the scales", (*x.shape[:3], 1), (torch.float32,))
        lowered.call.scales(values, address, *strides[:3])
