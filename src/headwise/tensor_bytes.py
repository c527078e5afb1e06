"""The bytes of a tensor, for files and for the wire, without numpy, which torch can be installed without."""

from __future__ import annotations

import ctypes
import sys

import torch
from torch import Tensor

from headwise.errors import ShapeError, sentence

__all__ = ["bytes_of"]


def bytes_of(x: Tensor) -> memoryview:
    """A tensor's numbers as they lie in a file: row by row, little endian.

    Args:
        x: any shape, dtype, device and strides.

    Returns:
        Its bytes. They are the tensor's own memory where it is contiguous and on the CPU of a little-endian machine,
        and keep it alive.

    Raises:
        ShapeError: the tensor is of a subclass that holds no numbers of its own.

    Example:
        >>> import torch
        >>> from headwise.tensor_bytes import bytes_of
        >>> bytes(bytes_of(torch.tensor([1, 256], dtype=torch.int32)))
        b'\\x01\\x00\\x00\\x00\\x00\\x01\\x00\\x00'
    """
    plain = x.detach().resolve_conj().resolve_neg().cpu().contiguous()
    if sys.byteorder == "big":
        plain = plain.view(-1, 1).view(torch.uint8).flip(1)
    if plain.nbytes and not plain.data_ptr():  # a subclass that only wraps others; on "meta" torch refuses above
        what = f"a {type(x).__name__} has no memory of its own"
        raise ShapeError(sentence("bytes_of", what, "what is written is a plain tensor"))
    whole = (ctypes.c_ubyte * plain.nbytes).from_address(plain.data_ptr())
    whole.tensor = plain  # type: ignore[attr-defined]  # whoever reads the bytes keeps the tensor
    return memoryview(whole).cast("B")
