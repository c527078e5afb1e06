"""A cache of keys and values that grows as tokens come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence

__all__ = ["KVCache"]

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
        self._k: Tensor | None = None
        self._v: Tensor | None = None
        self._length = 0
        self._source: tuple[Tensor, int] | None = None

    @property
    def length(self) -> int:
        """The number of keys held, S; 0 in a new cache."""
        return self._length

    @property
    def k(self) -> Tensor | None:
        """The keys held, [B,Hk,S,D]; None while the cache is empty."""
        return None if self._k is None or not self._length else self._k.narrow(2, 0, self._length)

    @property
    def v(self) -> Tensor | None:
        """The values held, [B,Hk,S,E]; None while the cache is empty."""
        return None if self._v is None or not self._length else self._v.narrow(2, 0, self._length)

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
            >>> cache = KVCache()
            >>> with cache.appending(torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 3, 8)) as (k, v):
            ...     _ = (k.shape, cache.length)
            >>> cache.length
            3
        """
        self._check(k, v)
        length = self._length + k.shape[2]
        keys = _extend(self._k, self._length, k)
        values = _extend(self._v, self._length, v)
        yield keys.narrow(2, 0, length), values.narrow(2, 0, length)
        # Nothing above wrote a cell below self._length, so until here the cache is unchanged to every reader.
        self._k, self._v, self._length = keys, values, length

    def holds(self, source: Tensor) -> bool:
        """Whether the keys held were projected from this very tensor, unchanged since; used for cross attention.

        Raises:
            SpecError: if the cache holds keys, but of something else: other words cannot be appended to a context.

        Example:
            >>> KVCache().holds(torch.zeros(1, 3, 16))
            False
        """
        if self._source is None and not self._length:
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


def _extend(held: Tensor | None, length: int, new: Tensor) -> Tensor:
    """A tensor whose first keys are those held and whose next are the new; the same one while it has room."""
    total = length + new.shape[2]
    if torch.is_grad_enabled() and (new.requires_grad or (held is not None and held.requires_grad)):
        return new if held is None or not length else torch.cat((held.narrow(2, 0, length), new), dim=2)
    new = new.detach()
    if held is None or not length:
        # The caller's own tensor may be overwritten or be a view of something large: the cache keeps a copy.
        return new.clone(memory_format=torch.contiguous_format)
    if held.shape[2] < total or held.requires_grad:
        room = new.new_empty((*held.shape[:2], max(total, 2 * length), held.shape[3]))
        room.narrow(2, 0, length).copy_(held.detach().narrow(2, 0, length))
        held = room
    # .data does not move the version counter. The cells written were never handed out (or by a call that failed), so
    # a Pattern of an earlier step, which watches that counter, is right to stay valid.
    held.data.narrow(2, length, new.shape[2]).copy_(new)
    return held
