"""A cache of keys and values that grows as tokens come."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence

__all__ = ["Growing", "KVCache"]

_KEY_AXES = "B Hk S D"
_VALUE_AXES = "B Hk S E"


class KVCache:
    """Keys and values of the tokens seen so far, for decoding or for a prompt in chunks.

    Appending S' keys to a cache of length n gives n + S' keys; the queries that come with them stand at positions
    n .. n + S' - 1, so ``cache.length`` before the append is the q_start of the call. One cache belongs to one module
    and one batch of sequences.

    While gradients are not recorded, keys live in a buffer that doubles when it is full, so n tokens cost O(n) copies;
    cells that were handed out are never written again, and a Pattern made from them stays valid. While they are
    recorded, each append concatenates, so that backward reaches every step.

    Example:
        >>> import torch
        >>> from headwise.nn.cache import KVCache
        >>> cache = KVCache()
        >>> k, v = cache.append(torch.zeros(1, 2, 5, 8), torch.zeros(1, 2, 5, 8))
        >>> k, v = cache.append(torch.ones(1, 2, 1, 8), torch.ones(1, 2, 1, 8))
        >>> cache.length, k.shape, cache
        (6, torch.Size([1, 2, 6, 8]), KVCache(B=1, Hk=2, S=6, D=8, E=8))
    """

    def __init__(self) -> None:
        self._k = Growing()
        self._v = Growing()
        self._source: tuple[Tensor, int] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """A copy, a shallow one too, grows on its own."""
        return {**vars(self), "_k": copy.copy(self._k), "_v": copy.copy(self._v)}

    @property
    def length(self) -> int:
        """The number of keys held, S; 0 in a new cache."""
        return 0 if self._k.held is None else self._k.held.shape[2]

    @property
    def k(self) -> Tensor | None:
        """The keys held, [B,Hk,S,D]; None while the cache is empty."""
        return self._k.held if self.length else None

    @property
    def v(self) -> Tensor | None:
        """The values held, [B,Hk,S,E]; None while the cache is empty."""
        return self._v.held if self.length else None

    def __repr__(self) -> str:
        k, v = self.k, self.v
        if k is None or v is None:
            return "KVCache(S=0)"
        return f"KVCache(B={k.shape[0]}, Hk={k.shape[1]}, S={self.length}, D={k.shape[3]}, E={v.shape[3]})"

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds keys and values behind those held.

        Args:
            k: keys [B,Hk,S',D], S' new ones; any strides.
            v: values [B,Hk,S',E], of k's dtype and device.

        Returns:
            All keys [B,Hk,S,D] and all values [B,Hk,S,E], the new ones last. They are views of the cache: read only.

        Raises:
            ShapeError: if k and v do not fit each other, or what is held in batch size, heads, widths, dtype or
                device. The cache is then as it was.

        Example:
            >>> import torch
            >>> from headwise.nn.cache import KVCache
            >>> cache = KVCache()
            >>> k, v = cache.append(torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 3, 4))
            >>> v.shape
            torch.Size([1, 2, 3, 4])
        """
        with self.appending(k, v) as held:
            return held

    @contextmanager
    def appending(self, k: Tensor, v: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Appends for the length of a block and keeps the new keys only if the block succeeds.

        This is what a module uses: a call that fails on its mask, say, leaves the cache at the length it had.

        Args:
            k: keys [B,Hk,S',D].
            v: values [B,Hk,S',E].

        Yields:
            All keys and all values, as `append` returns them.

        Raises:
            ShapeError: as `append`.

        Example:
            >>> import torch
            >>> from headwise.nn.cache import KVCache
            >>> cache = KVCache()
            >>> with cache.appending(torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 3, 8)) as (k, v):
            ...     _ = (k.shape, cache.length)
            >>> cache.length
            3
        """
        self._check(k, v)
        keys, values = self._k.extended(k), self._v.extended(v)
        yield keys, values
        # Nothing above wrote a cell of what is held, so until here the cache is unchanged to every reader.
        self._k.held, self._v.held = keys, values

    def holds(self, source: Tensor) -> bool:
        """Whether the keys held were projected from this very tensor, unchanged since; used for cross attention.

        Raises:
            SpecError: if the cache holds keys, but of something else: other words cannot be appended to a context.

        Example:
            >>> import torch
            >>> from headwise.nn.cache import KVCache
            >>> KVCache().holds(torch.zeros(1, 3, 16))
            False
        """
        if self._source is None and not self.length:
            return False
        if self._source is None or self._source[0] is not source or self._source[1] != _version(source):
            held = "another context" if self._source is not None else "a sequence of its own"
            raise SpecError(
                sentence(
                    "KVCache",
                    f"this cache holds the keys of {held}",
                    "for cross attention a cache belongs to one context tensor, passed unchanged at every step",
                    todo="Pass the same context tensor again, or a new KVCache() for a new context.",
                )
            )
        return True

    def remember(self, source: Tensor) -> None:
        """Notes the context that the keys held were projected from."""
        self._source = (source, _version(source))

    @property
    def is_of_context(self) -> bool:
        """Whether the keys held come from a context (cross attention) and so never grow."""
        return self._source is not None

    def _check(self, k: Tensor, v: Tensor) -> None:
        fits = k.dim() == 4 and v.dim() == 4 and k.shape[:3] == v.shape[:3]
        if not fits or k.dtype != v.dtype or k.device != v.device:
            raise ShapeError(
                sentence(
                    "KVCache",
                    f"k ({k.dtype}, {k.device}) and v ({v.dtype}, {v.device}) do not belong together",
                    "k is [B,Hk,S,D] and v is [B,Hk,S,E] with the same B, Hk, S, dtype and device",
                    f"{axes('k', k, _KEY_AXES)}, {axes('v', v, _VALUE_AXES)}",
                )
            )
        for name, new, held, letters in (("k", k, self.k, _KEY_AXES), ("v", v, self.v, _VALUE_AXES)):
            if held is None:
                continue
            same_shape = new.shape[:2] == held.shape[:2] and new.shape[3] == held.shape[3]
            if not same_shape or new.dtype != held.dtype or new.device != held.device:
                raise ShapeError(
                    sentence(
                        "KVCache",
                        f"the new {name} ({new.dtype}, {new.device}) does not fit the {name} held "
                        f"({held.dtype}, {held.device})",
                        "batch size, heads, width, dtype and device stay what the first append made them",
                        f"{axes(f'new {name}', new, letters)}, {axes(f'held {name}', held, letters)}",
                        "Use a new KVCache() for another batch.",
                    )
                )


def _version(tensor: Tensor) -> int:
    """How often a tensor was written in place; inference tensors do not count."""
    return 0 if tensor.is_inference() else tensor._version


class Growing:
    """A tensor that grows along its second last axis, without copying what it holds at every step.

    `extended` gives the numbers of ``torch.cat((held, new), -2)`` and copies only what is new while the buffer behind
    ``held`` has room; a full buffer is replaced by one of twice the size, so growing to n keys copies O(n) of them.

    ``held`` may be set to anything. A run of the keys held (the first n, the last n) stays where it is in the buffer;
    any other tensor is copied into a buffer of its own by the next `extended`. No cell is written that somebody else
    can still read, so a view that was handed out keeps its numbers for as long as it lives.

    Example:
        >>> import torch
        >>> from headwise.nn.cache import Growing
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

    def take(self, rows: Tensor) -> None:
        """Replaces what is held by rows of its first axis, ``held[rows]``; a row that stays where it is is not copied.

        Args:
            rows: which ones, integers [B'].
        """
        held, buffer = self.held, self._buffer
        assert held is not None
        # Elsewhere than on a CPU, asking which rows move would cost more than moving them all.
        in_place = held.is_cpu and len(rows) == len(held)
        if buffer is None or not in_place or not self._may_write(buffer, self._start, self._length):
            self.held = held.index_select(0, rows.to(held.device))
            return
        moved = [(to, held[row].clone()) for to, row in enumerate(rows.tolist()) if to != row]
        for to, cells in moved:
            held.data[to].copy_(cells)

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
    buffer = torch.empty(1, 2, 1)
    view = buffer.narrow(-2, 0, 1)
    return _sharers(view)
