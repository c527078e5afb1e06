"""The border to C++: the one place where a tensor becomes an address.

The kernels know addresses, sizes and strides, and believe them. So every tensor that they are pointed to, one of our
own making too, is looked at here first: its dtype, its device, its sizes, how it lies, and that its memory is there.
One that is not what the kernels take it for is an error, and nothing is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.errors import ShapeError, sentence

__all__ = ["BIASES", "DTYPES", "NOTHING", "Numbers", "Strides4", "by_batch", "contiguous", "operand", "plane"]

Numbers = tuple[int, int, int, int, int]  # an operand: its address, strides of batch, head and row, and dtype
Strides4 = tuple[int, int, int, int]  # of batch, head, row and column; 0 where an axis broadcasts

NOTHING: Numbers = (0, 0, 0, 0, 0)  # an operand that is not there
DTYPES = {torch.float32: 0, torch.bfloat16: 1, torch.float16: 2}  # as of call.h
BIASES = tuple(DTYPES)
_SIZES = (4, 2, 2)  # bytes of a number of each


def operand(x: Tensor, what: str, shape: tuple[int, int, int, int], dtype: torch.dtype | None = None) -> Numbers:
    """Address, strides of batch, head and row, and dtype of a tensor whose last axis is contiguous.

    Args:
        x: the tensor.
        what: its name, for the error.
        shape: the sizes that the call says it has.
        dtype: what it holds; None = any dtype of the kernels.

    Raises:
        ShapeError: it is another tensor than the call says.
    """
    found, strides = x.dtype, x.stride()
    kind = DTYPES.get(found)
    if kind is None or x.shape != shape or (dtype is not None and found is not dtype):
        raise _wrong(x, what, BIASES if dtype is None else (dtype,), shape, "its last axis contiguous")
    batch, head, row, column = strides
    B, H, n, m = shape
    if column != 1 and m > 1:
        raise _wrong(x, what, (found,), shape, "its last axis contiguous")
    if B and H and n and m and x.is_cpu and not x.is_neg():
        # As `_address`, in few steps: a call has four operands, and a small one takes microseconds.
        memory, address = x.untyped_storage(), x.data_ptr()
        last = (B - 1) * batch + (H - 1) * head + (n - 1) * row + m
        if address and address + last * _SIZES[kind] <= memory.data_ptr() + memory.nbytes():
            return address, batch, head, row, kind
    return _address(x, what, _extent(shape, strides)), batch, head, row, kind


def contiguous(x: Tensor, what: str, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> int:
    """The address of a contiguous tensor of a dtype and a shape; ShapeError where it is another."""
    if x.dtype is not dtype or x.shape != shape or not x.is_contiguous() or not x.is_cpu:
        raise _wrong(x, what, (dtype,), shape, "contiguous, on the CPU")
    return x.data_ptr() or _address(x, what, x.numel())


def by_batch(
    x: Tensor, what: str, batch: int, shape: tuple[int, ...], dtype: torch.dtype = torch.int64
) -> tuple[int, int]:
    """Address and batch stride of a contiguous tensor [*shape], [1, *shape] or [batch, *shape]; else ShapeError.

    The stride is 0 where every batch row reads the same.
    """
    own = x.dim() > len(shape) and x.shape[0] > 1
    address = contiguous(x, what, (batch, *shape) if own else (1, *shape)[-x.dim() :], dtype)
    return address, x.stride(0) if own else 0


def plane(
    x: Tensor, what: str, shape: tuple[int, int, int, int], dtypes: Sequence[torch.dtype]
) -> tuple[int, Strides4]:
    """Address and strides of a tensor of some dtype that broadcasts to a shape; ShapeError where it does not."""
    size = (1,) * (4 - x.dim()) + tuple(x.shape)
    if x.dtype not in dtypes or len(size) > 4 or any(n not in (1, m) for n, m in zip(size, shape, strict=True)):
        raise _wrong(x, what, dtypes, shape, "or axes of 1")
    batch, head, row, column = x.stride() if size == shape and x.dim() == 4 else x.expand(shape).stride()
    return _address(x, what, _extent(tuple(x.shape), x.stride())), (batch, head, row, column)


def _extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to the last, both counted; 0 where there is none."""
    if 0 in shape:
        return 0
    if len(shape) == 4:
        (B, H, n, m), (b, h, i, j) = shape, strides
        return 1 + (B - 1) * b + (H - 1) * h + (n - 1) * i + (m - 1) * j
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def _address(x: Tensor, what: str, extent: int) -> int:
    """The address of memory that is there, and whose numbers are the tensor's."""
    address = x.data_ptr() if x.is_cpu and not x.is_neg() else 0
    size = x.element_size()
    if extent and (not address or (x.storage_offset() + extent) * size > x.untyped_storage().nbytes()):
        found = f"{what} lies on {x.device}, with {x.untyped_storage().nbytes() if x.is_cpu else 0} bytes of memory"
        if x.is_neg():
            found = f"the numbers of {what} are those in memory times -1"
        rule = f"the kernels read its {extent} numbers of {size} bytes from memory of the CPU"
        todo = "Was its storage freed or resized? Give attention a tensor that has its numbers."
        raise ShapeError(sentence("native", found, rule, todo=todo))
    return address


def _wrong(x: Tensor, what: str, dtypes: Sequence[torch.dtype], shape: Sequence[int], layout: str) -> ShapeError:
    found = f"{what} is {x.dtype} {list(x.shape)} with strides {list(x.stride())} on {x.device}"
    kinds = " or ".join(str(dtype) for dtype in dtypes)
    rule = f"the kernels read it as {kinds} {list(shape)}, {layout}"
    todo = 'This is a fault of headwise: please report it. backend="blocked" computes the call meanwhile.'
    return ShapeError(sentence("native", found, rule, todo=todo))
