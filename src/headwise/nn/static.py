"""A cache of one size: its memory is made once, and nothing in it ever moves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeGuard

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, sentence
from headwise.nn.any_cache import Cache, Form

__all__ = ["StaticCache"]


class StaticCache(Cache):
    """Keys and values in one buffer of a size that is said beforehand.

    The memory is made at the first append, [B,Hk,capacity,D] and [B,Hk,capacity,E], and stays where it is, through
    `crop`, `reorder` of as many rows, and `reset` too. What `append` returns is a view of the slots that were written;
    those behind are never read. A view that was handed out keeps its numbers until its slots are written again, after
    a `crop`, a `reorder` or a `reset`: a Pattern made from it then says so.

    Gradients are refused: what is written in place carries none.

    Args:
        capacity: how many tokens there is room for.

    Raises:
        SpecError: if the capacity is no whole number of at least 1.

    Example:
        >>> import torch
        >>> from headwise.nn.static import StaticCache
        >>> cache = StaticCache(capacity=16)
        >>> k, v = cache.append(torch.zeros(1, 2, 5, 8), torch.zeros(1, 2, 5, 8))
        >>> k.shape, cache
        (torch.Size([1, 2, 5, 8]), StaticCache(capacity=16, B=1, Hk=2, S=5, D=8, E=8))
        >>> cache.append(torch.zeros(1, 2, 12, 8), torch.zeros(1, 2, 12, 8))
        Traceback (most recent call last):
        headwise.errors.ShapeError: StaticCache: 12 tokens behind the 5 held pass the capacity of 16; ...
    """

    def __init__(self, capacity: int) -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise SpecError(
                sentence("StaticCache", f"capacity is {capacity!r}", "it counts tokens, a whole number of at least 1")
            )
        self.capacity = capacity
        self._k: Tensor | None = None
        self._v: Tensor | None = None
        self._length = 0
        self._end = 0  # slots from here on were never handed out

    @property
    def length(self) -> int:
        return self._length

    def __getstate__(self) -> dict[str, Any]:
        """A copy and a file hold the slots that were written; the room behind them is made again when it is needed."""
        if not self._length:
            return vars(StaticCache(self.capacity))
        k, v = self._read()
        return {**super().__getstate__(), "_k": k.clone(), "_v": v.clone(), "_end": self._length}

    def _reset(self) -> None:
        self._length = 0

    def _options(self) -> tuple[str, ...]:
        return (f"capacity={self.capacity}",)

    def _forms(self) -> tuple[Form, Form] | None:
        if not self._length:
            return None
        k, v = self._read()
        return Form.of(k), Form.of(v)

    def _read(self) -> tuple[Tensor, Tensor]:
        assert self._k is not None
        assert self._v is not None
        return self._k.narrow(2, 0, self._length), self._v.narrow(2, 0, self._length)

    def _grown(self, k: Tensor, v: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        self._refuse_gradients(k, v)
        start, stop = self._length, self._length + k.shape[2]
        if stop > self.capacity:
            raise ShapeError(
                sentence(
                    "StaticCache",
                    f"{k.shape[2]} tokens behind the {start} held pass the capacity of {self.capacity}",
                    "the buffer never grows",
                    todo=f"Make a StaticCache({stop}), or larger.",
                )
            )
        if not (self._is_room(self._k, k) and self._is_room(self._v, v)):
            # Both anew, though one would do: what was handed out is counted once, for both.
            self._k, self._v, self._end = self._made(k, self._k), self._made(v, self._v), start
        for buffer, new in ((self._k, k), (self._v, v)):
            # Slots that nobody was handed do not move the version counter: a Pattern of the slots before stays valid.
            (buffer.data if start >= self._end else buffer).narrow(2, start, stop - start).copy_(new.detach())
        self._end = max(self._end, stop)
        yield self._k.narrow(2, 0, stop), self._v.narrow(2, 0, stop)
        self._length = stop

    def _is_room(self, buffer: Tensor | None, new: Tensor) -> TypeGuard[Tensor]:
        """Whether a buffer is there, of the full size, for tokens like the new ones, and can be written at any time."""
        if buffer is None or buffer.shape[2] != self.capacity or buffer.is_inference():
            return False
        return Form.of(buffer).takes(new)

    def _made(self, new: Tensor, held: Tensor | None) -> Tensor:
        """A buffer of the full size for tokens like the new ones [B,Hk,S,width], which holds the first of another."""
        b, heads, _, width = new.shape
        with torch.inference_mode(False):  # so that it can be written outside of inference mode, too
            made = torch.empty(b, heads, self.capacity, width, dtype=new.dtype, device=new.device)
        if self._length and held is not None:
            made.narrow(2, 0, self._length).copy_(held.narrow(2, 0, self._length))
        return made

    def _crop(self, kept: int) -> None:
        self._length = kept

    def _reorder(self, rows: Tensor) -> None:
        k, v = (held.index_select(0, rows.to(held.device)) for held in self._read())
        if self._is_room(self._k, k) and self._is_room(self._v, v):
            for buffer, moved in ((self._k, k), (self._v, v)):
                buffer.narrow(2, 0, self._length).copy_(moved)
        else:
            self._k, self._v, self._end = self._made(k, k), self._made(v, v), self._length
