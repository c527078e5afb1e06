"""What every cache of keys and values is and can do."""

from __future__ import annotations

import copy
import operator
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, UnsupportedError, axes, sentence
from headwise.nn.growing import Growing
from headwise.spec import Mask, Rules, Stored
from headwise.spec.checks import is_integer
from headwise.spec.stored import dense_of

__all__ = ["Cache", "Form"]

_KEY_AXES = "B Hk S D"
_VALUE_AXES = "B Hk S E"


@dataclass(frozen=True)
class Form:
    """What the keys or the values of a cache stay: shape [B,Hk,S,width] but for S, dtype and device."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, tensor: Tensor) -> Form:
        """The form of a tensor [B,Hk,S,width]."""
        return cls(tuple(tensor.shape), tensor.dtype, tensor.device)

    def takes(self, new: Tensor) -> bool:
        """Whether a tensor [B,Hk,S',width] can stand behind one of this form."""
        same_shape = tuple(new.shape[:2]) == self.shape[:2] and new.shape[3] == self.shape[3]
        return same_shape and new.dtype == self.dtype and new.device == self.device


class Cache:
    """Keys and values of the tokens seen so far: what every cache can do, and what `MultiHeadAttention` calls.

    All rows of the batch have one length; a ragged batch is padded on the left by whoever makes it. One cache belongs
    to one module (`serve`) and one batch; an empty one is open to any. Whatever raises leaves the cache as it was.
    ``copy.copy``, ``copy.deepcopy`` and ``pickle`` give caches that go their own way, and a cache begun in inference
    mode goes on outside of it.

    A kind of cache says what it holds (`length`, ``_forms``, ``_read``), how new keys join that (``_grown``), and how
    it is rolled back, reordered and emptied (``_crop``, ``_reorder``, ``_reset``).

    Example:
        >>> import torch
        >>> from headwise.nn.cache import Cache, KVCache
        >>> cache = KVCache()
        >>> isinstance(cache, Cache), cache.length
        (True, 0)
        >>> _ = cache.append(torch.zeros(2, 1, 5, 8), torch.zeros(2, 1, 5, 8))
        >>> cache.crop(-2)  # the last two tokens were a draft, and wrong
        >>> cache.reorder([1, 1])  # both beams go on from row 1
        >>> cache
        KVCache(B=2, Hk=1, S=3, D=8, E=8)
    """

    _serves: weakref.ref[object] | None = None
    _is_appending = False

    @property
    def length(self) -> int:
        """Tokens seen so far, which is the position of the next one; 0 in a new cache."""
        raise NotImplementedError

    @property
    def held(self) -> int:
        """How many keys the next call reads besides its own; `length`, but in a cache that lets tokens go."""
        return self.length

    @property
    def batch(self) -> int | None:
        """B, how many rows are held; None while the cache is empty."""
        forms = self._forms()
        return forms[0].shape[0] if forms is not None and self.length else None

    @property
    def k(self) -> Tensor | None:
        """The keys held, [B,Hk,held,D], to be read only; None while the cache is empty."""
        return dense_of(self._read()[0]) if self.length else None

    @property
    def v(self) -> Tensor | None:
        """The values held, [B,Hk,held,E], to be read only; None while the cache is empty."""
        return dense_of(self._read()[1]) if self.length else None

    def stored(self) -> tuple[Tensor | Stored, Tensor | Stored] | None:
        """Keys and values as they lie, for `headwise.attention`, to be read only; None while the cache is empty.

        The next append may move them.

        Example:
            >>> import torch, headwise as hw
            >>> cache = hw.nn.PagedCache(page_size=4)
            >>> _ = cache.append(torch.zeros(1, 2, 6, 8), torch.zeros(1, 2, 6, 8))
            >>> keys, values = cache.stored()
            >>> keys.table, hw.attention(torch.zeros(1, 4, 1, 8), keys, values).shape
            (tensor([[0, 1]], dtype=torch.int32), torch.Size([1, 4, 1, 8]))
        """
        return self._read() if self.length else None

    def __repr__(self) -> str:
        forms, options = self._forms(), "".join(f"{told}, " for told in self._options())
        if forms is None or not self.length:
            return f"{type(self).__name__}({options}S=0)"
        (b, heads, _, d), e = forms[0].shape, forms[1].shape[3]
        return f"{type(self).__name__}({options}B={b}, Hk={heads}, S={self.length}, D={d}, E={e})"

    def __getstate__(self) -> dict[str, Any]:
        """A copy, a shallow one too, grows on its own, serves nobody yet, and is in no block."""
        parts = {name: part for name, part in vars(self).items() if name not in ("_serves", "_is_appending")}
        return {name: copy.copy(part) if isinstance(part, Growing) else part for name, part in parts.items()}

    def serve(self, module: object) -> None:
        """Notes whose keys these are: what a module calls before it appends, or reads what it had appended.

        One cache for all layers would give each the keys of the others. An empty cache, and so one after `reset`, is
        free for any module, and so is a copy.

        Args:
            module: who appends.

        Raises:
            SpecError: if the keys held are those of another module, which still lives.

        Example:
            >>> import torch
            >>> from headwise.nn.cache import KVCache
            >>> cache, layer, other = KVCache(), torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
            >>> cache.serve(layer)
            >>> _ = cache.append(torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 3, 8))
            >>> cache.serve(other)
            Traceback (most recent call last):
            headwise.errors.SpecError: KVCache: it holds 3 tokens of another Linear; a cache belongs to one module. ...
        """
        served = None if self._serves is None else self._serves()
        if served is module:
            return
        if served is not None and self.length:
            raise SpecError(
                sentence(
                    type(self).__name__,
                    f"it holds {self.length} tokens of another {type(served).__name__}",
                    "a cache belongs to one module",
                    todo="Give each layer a cache of its own, reset() this one, or go on with a copy of it.",
                )
            )
        self._serves = weakref.ref(module)

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Adds keys and values behind those held.

        Args:
            k: keys [B,Hk,S',D], S' new ones, any float dtype; any strides.
            v: values [B,Hk,S',E], of k's dtype and device.

        Returns:
            The keys [B,Hk,S,D] and values [B,Hk,S,E] that the new queries read, S = held + S', the new ones last. They
            may be views of the cache: read only.

        Raises:
            ShapeError: if k and v do not fit each other, or what is held in batch size, heads, widths, dtype or
                device; or if the cache has no room for them.
            SpecError: if they are no tensors of floats, or this cache is in a block of `appending`.
            UnsupportedError: if gradients are recorded and this kind of cache does not carry them.

        Example:
            >>> import torch
            >>> from headwise.nn.cache import KVCache
            >>> cache = KVCache()
            >>> k, v = cache.append(torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 3, 4))
            >>> v.shape
            torch.Size([1, 2, 3, 4])
        """
        with self.appending(k, v) as (keys, values):
            return dense_of(keys), dense_of(values)

    @contextmanager
    def appending(self, k: Tensor, v: Tensor) -> Iterator[tuple[Tensor | Stored, Tensor | Stored]]:
        """Appends for the length of a block and keeps the new keys only if the block succeeds.

        This is what a module uses: a call that fails on its mask, say, leaves the cache at the length it had. Until the
        block ends the cache may be read and copied, and whatever would change it is refused.

        Args:
            k: keys [B,Hk,S',D].
            v: values [B,Hk,S',E].

        Yields:
            Keys and values for `headwise.attention`: as `append` returns them, or as they lie.

        Raises:
            ShapeError: as `append`.
            SpecError: as `append`.
            UnsupportedError: as `append`.

        Example:
            >>> import torch
            >>> from headwise.nn.cache import KVCache
            >>> cache = KVCache()
            >>> with cache.appending(torch.zeros(1, 2, 3, 8), torch.zeros(1, 2, 3, 8)) as (k, v):
            ...     _ = (k.shape, cache.length)
            >>> cache.length
            3
        """
        self._refuse_within("appending")
        self._check(k, v)
        self._is_appending = True
        try:
            yield from self._grown(k, v)
        finally:
            self._is_appending = False
        if not self.length:  # no tokens came: what they would have been like binds nobody
            self._reset()

    def crop(self, length: int) -> None:
        """Keeps the first tokens and forgets the others, as speculative decoding does with a draft that was wrong.

        Args:
            length: how many tokens to keep; negative: how many of the last ones to drop.

        Raises:
            SpecError: if the cache has not seen that many tokens, has let go of what it would need, or is in a block of
                `appending`.

        Example:
            >>> import torch
            >>> from headwise.nn.cache import KVCache
            >>> cache = KVCache()
            >>> _ = cache.append(torch.zeros(1, 2, 6, 8), torch.zeros(1, 2, 6, 8))
            >>> cache.crop(5)
            >>> cache.crop(-2)
            >>> cache.length
            3
        """
        self._refuse_within("crop")
        if isinstance(length, bool) or not isinstance(length, int) or not -self.length <= length <= self.length:
            raise SpecError(
                sentence(
                    f"{type(self).__name__}.crop",
                    f"length is {length!r}, the cache has seen {self.length} tokens",
                    "it says how many tokens stay, or negative how many go",
                    todo=f"Use an int from {-self.length} to {self.length}.",
                )
            )
        kept = length if length >= 0 else self.length + length
        if kept < self.length:
            self._crop(kept)
            if not kept:
                self._reset()

    def reorder(self, rows: Tensor | Sequence[int]) -> None:
        """Takes rows of the batch in a new order, as beam search does; a row may come twice, or not at all.

        Args:
            rows: integers [B'], which row each new one goes on from; B' is the batch size from now on.

        Raises:
            SpecError: if there is no such row, or the cache is in a block of `appending`.

        Example:
            >>> import torch
            >>> from headwise.nn.cache import KVCache
            >>> cache = KVCache()
            >>> _ = cache.append(torch.arange(3.0).reshape(3, 1, 1, 1), torch.zeros(3, 1, 1, 1))
            >>> cache.reorder(torch.tensor([2, 0]))
            >>> cache.k.flatten()
            tensor([2., 0.])
        """
        self._refuse_within("reorder")
        index, forms = self._index_of(rows), self._forms()
        if forms is None:
            return
        batch = forms[0].shape[0]
        if len(index) and not bool(((index >= 0) & (index < batch)).all()):
            raise SpecError(
                sentence(
                    f"{type(self).__name__}.reorder",
                    f"rows reach from {int(index.min())} to {int(index.max())}, the cache has {batch} batch rows",
                    "each names a row that is held",
                    todo=f"Use 0 to {batch - 1}.",
                )
            )
        self._reorder(index)

    def reset(self) -> None:
        """Forgets everything; another batch may come.

        Raises:
            SpecError: if the cache is in a block of `appending`.

        Example:
            >>> import torch
            >>> from headwise.nn.cache import KVCache
            >>> cache = KVCache()
            >>> _ = cache.append(torch.zeros(1, 2, 6, 8), torch.zeros(1, 2, 6, 8))
            >>> cache.reset()
            >>> cache
            KVCache(S=0)
        """
        self._refuse_within("reset")
        self._reset()

    def key_positions(self, new: int) -> Tensor | None:
        """Where the keys that `appending` yields stand, where they are not one run that ends at the last token.

        Args:
            new: T, how many tokens are about to come.

        Returns:
            Positions int64 [S], rising, or None for ``length + new - S .. length + new - 1``.
        """
        return None

    def mask(self, given: Mask | None, scores: Sequence[Rules] = ()) -> Mask | None:
        """The mask of a call, said over the keys that `appending` yields; queries stand last on their axis.

        Args:
            given: the mask that the call asks for; None = everything is visible.
            scores: the score rules that the call asks for.

        Returns:
            The mask to use: the given one, narrowed where the cache lets tokens go.

        Raises:
            SpecError: if a mask or a rule would mean other cells over the keys that are left.
        """
        return given

    def _options(self) -> tuple[str, ...]:
        """What the constructor was told, for ``repr``."""
        return ()

    def _forms(self) -> tuple[Form, Form] | None:
        """What keys and values are; None while that is open."""
        raise NotImplementedError

    def _read(self) -> tuple[Tensor | Stored, Tensor | Stored]:
        """The keys and values held, of a cache that is not empty."""
        raise NotImplementedError

    def _grown(self, k: Tensor, v: Tensor) -> Iterator[tuple[Tensor | Stored, Tensor | Stored]]:
        """Yields, once, what is held with checked k and v behind it; keeps it when it is resumed."""
        raise NotImplementedError

    def _crop(self, kept: int) -> None:
        """Keeps the first tokens, fewer than there are; `_reset` follows where none are kept."""
        raise NotImplementedError

    def _reset(self) -> None:
        """Is empty, and open to any batch."""
        raise NotImplementedError

    def _reorder(self, rows: Tensor) -> None:
        """Takes rows, int64 [B'], of a cache whose form is known."""
        raise NotImplementedError

    def _refuse_within(self, what: str) -> None:
        """Refuses what would change the cache in the midst of a block that will set what it holds."""
        if self._is_appending:
            raise SpecError(
                sentence(
                    f"{type(self).__name__}.{what}",
                    "this cache is in a block of appending",
                    "it keeps what that block appends when the block ends, and changes in no other way before",
                    todo="Let the block end first, or go on with a copy of the cache.",
                )
            )

    def _index_of(self, rows: Tensor | Sequence[int]) -> Tensor:
        """The rows that `reorder` was told, int64 [B']."""
        try:
            index = rows if isinstance(rows, Tensor) else _listed(rows)
        except (TypeError, ValueError, RuntimeError):  # nothing to iterate, no ints, or beyond int64
            index = None
        if index is not None and index.dim() == 1 and is_integer(index):
            return index.long()
        what = f"rows is {rows!r}"
        raise SpecError(sentence(f"{type(self).__name__}.reorder", what, "it is a list of integers, [B']"))

    def _check(self, k: Tensor, v: Tensor) -> None:
        who = type(self).__name__
        for name, new in (("k", k), ("v", v)):
            if not isinstance(new, Tensor) or not new.is_floating_point():
                found = new.dtype if isinstance(new, Tensor) else f"a {type(new).__name__}"
                raise SpecError(sentence(who, f"{name} is {found}", "keys and values are float tensors"))
        fits = k.dim() == 4 and v.dim() == 4 and k.shape[:3] == v.shape[:3]
        if not fits or k.dtype != v.dtype or k.device != v.device:
            raise ShapeError(
                sentence(
                    who,
                    f"k ({k.dtype}, {k.device}) and v ({v.dtype}, {v.device}) do not belong together",
                    "k is [B,Hk,S,D] and v is [B,Hk,S,E] with the same B, Hk, S, dtype and device",
                    f"{axes('k', k, _KEY_AXES)}, {axes('v', v, _VALUE_AXES)}",
                )
            )
        forms = self._forms()
        if forms is None:
            return
        for name, new, held, letters in (("k", k, forms[0], _KEY_AXES), ("v", v, forms[1], _VALUE_AXES)):
            if held.takes(new):
                continue
            raise ShapeError(
                sentence(
                    who,
                    f"the new {name} ({new.dtype}, {new.device}) does not fit the {name} held "
                    f"({held.dtype}, {held.device})",
                    "batch size, heads, width, dtype and device stay what the first append made them",
                    f"{axes(f'new {name}', new, letters)}, {axes(f'held {name}', held, letters)}",
                    "Use a new cache, or reset() this one, for another batch.",
                )
            )

    def _refuse_gradients(self, k: Tensor, v: Tensor) -> None:
        """For caches that write in place or round: what they hold carries no derivative."""
        if torch.is_grad_enabled() and (k.requires_grad or v.requires_grad):
            raise UnsupportedError(
                sentence(
                    type(self).__name__,
                    "gradients are recorded",
                    "this cache would cut them off at its keys and values",
                    todo="Call under torch.no_grad(), or use a KVCache, which carries them.",
                )
            )


def _listed(rows: Sequence[int]) -> Tensor:
    return torch.tensor([_int(row) for row in rows], dtype=torch.int64, device="cpu")


def _int(row: Any) -> int:
    """A whole number; True is none, and neither is 0.9."""
    if isinstance(row, bool) or (isinstance(row, Tensor) and not is_integer(row)):
        raise TypeError
    return operator.index(row)
