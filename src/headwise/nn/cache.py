"""The cache that grows as tokens come."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.nn.any_cache import Cache, Form
from headwise.nn.context import Context
from headwise.nn.growing import Growing

__all__ = ["Cache", "KVCache"]


class KVCache(Cache):
    """Keys and values of the tokens seen so far, for decoding or for a prompt in chunks.

    Appending S' keys to a cache of length n gives n + S' keys; the queries that come with them stand at positions
    n .. n + S' - 1, so ``cache.length`` before the append is the q_start of the call.

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
        self._source: Context | None = None

    @property
    def length(self) -> int:
        """The number of keys held, S; 0 in a new cache."""
        return 0 if self._k.held is None else self._k.held.shape[2]

    def holds(self, source: Tensor) -> bool:
        """Whether the keys held were projected from this very tensor, unchanged since; used for cross attention.

        A tensor of inference mode does not count what is written into it; its numbers are compared.

        Raises:
            SpecError: if the cache holds keys, but of something else: other words cannot be appended to a context.

        Example:
            >>> import torch, headwise as hw
            >>> hw.nn.KVCache().holds(torch.zeros(1, 3, 16))
            False
        """
        if self._source is None and not self.length:
            return False
        if self._source is None or not self._source.is_still(source):
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
        self._source = Context.of(source)

    @property
    def is_of_context(self) -> bool:
        """Whether the keys held come from a context (cross attention) and so never grow."""
        return self._source is not None

    def _reset(self) -> None:
        self._k, self._v, self._source = Growing(), Growing(), None

    def _forms(self) -> tuple[Form, Form] | None:
        k, v = self._k.held, self._v.held
        return None if k is None or v is None else (Form.of(k), Form.of(v))

    def _read(self) -> tuple[Tensor, Tensor]:
        k, v = self._k.held, self._v.held
        assert k is not None
        assert v is not None
        return k, v

    def _grown(self, k: Tensor, v: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        keys, values = self._k.extended(k), self._v.extended(v)
        yield keys, values
        # Nothing above wrote a cell of what is held, so until here the cache is unchanged to every reader.
        self._k.held, self._v.held = keys, values

    def _crop(self, kept: int) -> None:
        self._refuse_context("crop")
        k, v = self._read()
        self._k.held, self._v.held = k.narrow(2, 0, kept), v.narrow(2, 0, kept)

    def _reorder(self, rows: Tensor) -> None:
        self._refuse_context("reorder")
        for take in [part.taken(rows) for part in (self._k, self._v)]:
            take()

    def _refuse_context(self, what: str) -> None:
        if self.is_of_context:
            raise SpecError(
                sentence(
                    f"KVCache.{what}",
                    "this cache holds the keys of a context",
                    "they are those of one context tensor and stay as they are",
                    todo="Change the context, and fill a new KVCache() from it.",
                )
            )
