"""A tensor that grows without copying what it holds: what most caches are made of."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

__all__ = ["Growing"]


class Growing:
    """A tensor that grows along its second last axis, without copying what it holds at every step.

    `extended` gives the numbers of ``torch.cat((held, new), -2)`` and copies only what is new while the buffer behind
    ``held`` has room; a full buffer is replaced by one of twice the size, so growing to n keys copies O(n) of them.

    ``held`` may be set to anything. A run of the keys held (the first n, the last n) stays where it is in the buffer;
    any other tensor is copied into a buffer of its own by the next `extended`. No cell is written that somebody else
    can still read, so a view that was handed out keeps its numbers for as long as it lives.

    Example:
        >>> import torch
        >>> from headwise.nn.growing import Growing
        >>> keys = Growing()
        >>> keys.held = keys.extended(torch.zeros(1, 2, 5, 8))
        >>> keys.held = keys.extended(torch.ones(1, 2, 1, 8))
        >>> keys.held.shape, keys.held.stride()
        (torch.Size([1, 2, 6, 8]), (160, 80, 8, 1))
    """

    def __init__(self) -> None:
        self._loose: Tensor | None = None  # what is held while there is no buffer
        self._buffer: Tensor | None = None  # [..., capacity, D]
        self._start = self._length = 0  # which of its cells are held
        self._end = 0  # cells from here on were never handed out

    @property
    def held(self) -> Tensor | None:
        """The tensor so far, [..., S, D], to be read only; None at first."""
        return self._loose if self._buffer is None else self._buffer.narrow(-2, self._start, self._length)

    @held.setter
    def held(self, tensor: Tensor | None) -> None:
        start = self._place(tensor)
        if tensor is None or start is None:
            self._loose, self._buffer = tensor, None
        else:
            self._start, self._length = start, tensor.shape[-2]

    def __getstate__(self) -> dict[str, Any]:
        """A copy and a file hold what is held, not the room behind it: two owners of one buffer would overwrite it."""
        own = self._loose if self._buffer is None else self._buffer.narrow(-2, self._start, self._length).clone()
        return {**vars(Growing()), "_loose": own}

    def extended(self, new: Tensor) -> Tensor:
        """What is held with more behind it; ``held`` stays as it is until it is set.

        Args:
            new: [..., S', D], of the shape, dtype and device held but for S'; any strides.

        Returns:
            [..., S + S', D], the new cells last: a view of the buffer, to be read only; concatenated where gradients
            are recorded, inside torch.compile, and where shapes or dtypes differ, as ``torch.cat`` would.

        Raises:
            RuntimeError: torch.cat's, where shapes do not fit.
        """
        held = self.held
        if held is None or held.shape == (0,):
            # The caller's own tensor may be overwritten or be a view of something large: a copy is kept.
            recorded = torch.is_grad_enabled() and new.requires_grad
            return (new if recorded else new.detach()).clone(memory_format=torch.contiguous_format)
        if not _grows_in_place(held, new):
            return torch.cat((held, new), dim=-2)
        length, more = held.shape[-2], new.shape[-2]
        buffer = self._buffer
        if buffer is None or not self._may_write(buffer, self._start + length, more):
            buffer = self._moved(held, max(length + more, 2 * length))
        end = self._start + length
        # .data does not move the version counter: a Pattern of an earlier step, which watches that counter, does not
        # read the cells written here, and is right to stay valid.
        buffer.data.narrow(-2, end, more).copy_(new)
        self._end = end + more
        return buffer.narrow(-2, self._start, length + more)

    def drop(self, first: int, n: int) -> None:
        """Lets go of n cells behind the first ``first`` ones, which move up to the rest: in place if nobody can see it.

        Args:
            first: how many cells before the gap stay.
            n: how many behind them go.
        """
        held, buffer = self.held, self._buffer
        assert held is not None
        if buffer is None or (first and not self._may_write(buffer, self._start + n, first)):
            behind = held.narrow(-2, first + n, held.shape[-2] - first - n)
            self.held = torch.cat((held.narrow(-2, 0, first), behind), -2)
            return
        if first:
            buffer.data.narrow(-2, self._start + n, first).copy_(held.narrow(-2, 0, first).clone())
        self._start, self._length = self._start + n, self._length - n

    def take(self, rows: Tensor) -> None:
        """Replaces what is held by rows of its first axis, ``held[rows]``; a row that stays where it is is not copied.

        Args:
            rows: which ones, integers [B'].
        """
        self.taken(rows)()

    def taken(self, rows: Tensor) -> Callable[[], None]:
        """Makes `take` ready and changes nothing yet, so that of several tensors all are taken from, or none.

        Args:
            rows: which ones, integers [B'].

        Returns:
            What takes them. It needs no memory any more.
        """
        held, buffer = self.held, self._buffer
        assert held is not None
        # Elsewhere than on a CPU, asking which rows move would cost more than moving them all.
        in_place = held.is_cpu and len(rows) == len(held)
        if buffer is None or not in_place or not self._may_write(buffer, self._start, self._length):
            return functools.partial(setattr, self, "held", held.index_select(0, rows.to(held.device)))
        moved = [(to, held[row].clone()) for to, row in enumerate(rows.tolist()) if to != row]
        return functools.partial(_put, held.data, moved)

    def _moved(self, held: Tensor, size: int) -> Tensor:
        """Moves what is held to the front of a new buffer and returns that."""
        buffer = held.new_empty((*held.shape[:-2], size, held.shape[-1]))
        buffer.narrow(-2, 0, held.shape[-2]).copy_(held)
        self._loose, self._buffer = None, buffer
        self._start, self._length, self._end = 0, held.shape[-2], 0
        return buffer

    def _place(self, tensor: Tensor | None) -> int | None:
        """Where in the buffer a tensor's first key lies; None where the tensor is no run of the buffer's keys."""
        buffer = self._buffer
        if tensor is None or buffer is None or torch.compiler.is_compiling() or tensor.requires_grad:
            return None
        if tensor.stride() != buffer.stride() or tensor.dtype != buffer.dtype:
            return None
        if tensor.shape[:-2] != buffer.shape[:-2] or tensor.shape[-1] != buffer.shape[-1]:
            return None
        if tensor.untyped_storage()._cdata != buffer.untyped_storage()._cdata:
            return None
        start, between = divmod(int(tensor.storage_offset()) - int(buffer.storage_offset()), buffer.stride(-2))
        return None if between or start + tensor.shape[-2] > buffer.shape[-2] else start

    def _may_write(self, buffer: Tensor, first: int, n: int) -> bool:
        """Whether cells first .. first + n - 1 of the buffer exist, can be written, and nobody can see it happen."""
        if first + n > buffer.shape[-2] or (buffer.is_inference() and not torch.is_inference_mode_enabled()):
            return False  # torch lets nobody write a tensor of inference mode outside of it
        return first >= self._end or not _is_read_elsewhere(buffer)


def _grows_in_place(held: Tensor, new: Tensor) -> bool:
    """Whether a buffer can stand for torch.cat: no derivative is recorded, no promotion, no subclass's own meaning."""
    if torch.compiler.is_compiling() or type(new) is not Tensor or type(held) is not Tensor:
        return False
    if held.requires_grad or (new.requires_grad and torch.is_grad_enabled()):
        return False
    same = new.dtype == held.dtype and new.device == held.device and new.dim() == held.dim() >= 3
    return same and new.shape[:-2] == held.shape[:-2] and new.shape[-1] == held.shape[-1]


def _put(rows: Tensor, moved: list[tuple[int, Tensor]]) -> None:
    for to, cells in moved:
        rows[to].copy_(cells)


def _is_read_elsewhere(buffer: Tensor) -> bool:
    """Whether anything but its owner, and the one view its owner is looking through, still reaches a buffer's memory.

    Cells that were handed out may be written again only if not: a tensor or a Pattern that somebody kept would change.
    """
    return not hasattr(torch._C, "_storage_Use_Count") or _sharers(buffer) > _sharers_at_least()


def _sharers(tensor: Tensor) -> int:
    return int(torch._C._storage_Use_Count(tensor.untyped_storage()._cdata))


@functools.cache
def _sharers_at_least() -> int:
    """What `_sharers` says of a buffer and one view: measured, since torch counts its own handles too."""
    buffer = torch.empty(1, 2, 1, device="cpu", dtype=torch.float32)
    view = buffer.narrow(-2, 0, 1)
    return _sharers(view)
