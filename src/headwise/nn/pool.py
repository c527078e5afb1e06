"""The memory of paged caches: pages, who reads each, and which are free."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.nn.cache import Form

__all__ = ["PagePool"]


class PagePool:
    """Pages of keys and values that caches take, share and give back.

    The memory is made when the first keys come, [pages,Hk,P,D] and [pages,Hk,P,E]; all caches of a pool have their
    heads, widths, dtype and device. It doubles when it is full, unless ``limit`` says where it ends.

    Args:
        page_size: P, how many tokens a page holds.
        limit: how many pages there are, all made at once; None = as many as it takes.

    Raises:
        SpecError: if page_size or limit is no whole number of at least 1.

    Example:
        >>> import torch
        >>> from headwise.nn.paged import PagedCache
        >>> from headwise.nn.pool import PagePool
        >>> pool = PagePool(page_size=2, limit=4)
        >>> one, two = PagedCache(pages=pool), PagedCache(pages=pool)
        >>> _ = one.append(torch.zeros(1, 1, 5, 8), torch.zeros(1, 1, 5, 8))
        >>> pool
        PagePool(page_size=2, limit=4, used=3)
        >>> two.append(torch.zeros(1, 1, 3, 8), torch.zeros(1, 1, 3, 8))
        Traceback (most recent call last):
        headwise.errors.ShapeError: PagePool: 2 more pages are wanted, 1 of 4 is free; ...
    """

    def __init__(self, page_size: int = 16, limit: int | None = None) -> None:
        for name, value in (("page_size", page_size), ("limit", 1 if limit is None else limit)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise SpecError(sentence("PagePool", f"{name} is {value!r}", "it is a whole number of at least 1"))
        self.page_size, self.limit = page_size, limit
        self._keys: Tensor | None = None
        self._values: Tensor | None = None
        self._readers = torch.empty(0, dtype=torch.int64)  # how many rows read each page
        self._free: list[int] = []  # the next one to take comes last
        self._add(limit or 0)

    @property
    def used(self) -> int:
        """How many pages somebody reads."""
        return len(self._readers) - len(self._free)

    def __repr__(self) -> str:
        return f"PagePool(page_size={self.page_size}, limit={self.limit}, used={self.used})"

    def tensors(self) -> tuple[Tensor, Tensor] | None:
        """The pools of keys [pages,Hk,P,D] and of values [pages,Hk,P,E]; None before the first keys came."""
        return None if self._keys is None or self._values is None else (self._keys, self._values)

    def fit(self, k: Tensor, v: Tensor) -> None:
        """Makes the pools for keys and values of this form, or checks that they are what these pools hold.

        Raises:
            ShapeError: if they are not.
        """
        if self._keys is None or self._values is None or not self.used:
            self._keys, self._values = self._made(self._keys, k), self._made(self._values, v)
            return
        for name, new, pool in (("k", k, self._keys), ("v", v, self._values)):
            if Form((new.shape[0], *pool.shape[1:]), pool.dtype, pool.device).takes(new):
                continue
            raise ShapeError(
                sentence(
                    "PagePool",
                    f"the new {name} ({new.dtype}, {new.device}) does not fit the pages ({pool.dtype}, {pool.device})",
                    "all caches of one pool have the same heads, width, dtype and device",
                    f"{axes(f'new {name}', new, 'B Hk S width')}, {axes('pages', pool, 'pages Hk P width')}",
                    "Use another PagePool.",
                )
            )

    def take(self, count: int) -> Tensor:
        """Takes pages that nobody reads, int32 [count]; each has one reader from then on.

        Raises:
            ShapeError: if the pool has a limit and fewer are free; nothing is taken then.
        """
        lacking = count - len(self._free)
        if lacking > 0 and self.limit is not None:
            free = len(self._free)
            raise ShapeError(
                sentence(
                    "PagePool",
                    f"{count} more pages are wanted, {free} of {self.limit} {'is' if free == 1 else 'are'} free",
                    "a pool with a limit does not grow",
                    todo="Let go of a cache of this pool, or make it with a larger limit.",
                )
            )
        if lacking > 0:
            self._add(max(lacking, len(self._readers)))
        taken = torch.tensor([self._free.pop() for _ in range(count)], dtype=torch.int32)
        self.share(taken)
        return taken

    def share(self, pages: Tensor) -> None:
        """Adds a reader to each page of a table, of any shape; one that comes twice gets two."""
        self._readers.index_add_(0, pages.flatten(), torch.ones(pages.numel(), dtype=torch.int64))

    def release(self, pages: Tensor) -> None:
        """Takes a reader from each; pages without one are free."""
        self._readers.index_add_(0, pages.flatten(), torch.ones(pages.numel(), dtype=torch.int64), alpha=-1)
        touched = pages.flatten().unique()
        self._free.extend(touched[self._readers[touched] == 0].flip(0).tolist())

    def shared(self, pages: Tensor) -> Tensor:
        """Which rows of a column of pages [B] have to copy theirs before each of them is written: int64 [n].

        A page with other readers is copied; the last of its readers, if it is a row of this column, keeps it.
        """
        column = pages.tolist()
        readers = dict(zip(column, self._readers[pages].tolist(), strict=True))
        copied = []
        for row, page in enumerate(column):
            if readers[page] > 1:
                readers[page] -= 1
                copied.append(row)
        return torch.tensor(copied, dtype=torch.int64)

    def copy(self, pages: Tensor, to: Tensor) -> None:
        """Copies whole pages onto others."""
        for pool in self.tensors() or ():
            pool[to.to(pool.device)] = pool[pages.to(pool.device)]

    def write(self, table: Tensor, start: int, k: Tensor, v: Tensor) -> None:
        """Writes tokens start, start + 1, ... of each row of a table; k [B,Hk,T,D], v [B,Hk,T,E]."""
        at = torch.arange(start, start + k.shape[2])
        for pool, new in zip(self.tensors() or (), (k, v), strict=True):
            pages = table[:, at // self.page_size].to(pool.device)
            pool[pages, :, (at % self.page_size).to(pool.device)] = new.detach().transpose(1, 2)

    def only(self, table: Tensor, length: int) -> tuple[PagePool, Tensor]:
        """A pool that holds the pages of one table alone, and that table there; slots behind the length are zero."""
        pool = PagePool(self.page_size, self.limit)
        tensors = self.tensors()
        if tensors is None or not table.numel():
            return pool, table
        pages, places = table.unique(return_inverse=True)
        own = places.reshape(table.shape).to(torch.int32)
        unwritten = slice(length - (table.shape[1] - 1) * self.page_size, None)
        if self.limit is None:
            pool._add(len(pages))
        pool._keys, pool._values = (pool._made(None, t.narrow(0, 0, 1)) for t in tensors)
        for made, held in zip((pool._keys, pool._values), tensors, strict=True):
            made[: len(pages)] = held[pages.to(held.device)]
            made[own[:, -1], :, unwritten] = 0
        pool._free = list(range(len(pages), len(pool._readers)))[::-1]
        pool.share(own)
        return pool, own

    def _made(self, pool: Tensor | None, new: Tensor) -> Tensor:
        """A pool for numbers like new ones [B,Hk,S,width], of as many pages as there are; the one there is if it is."""
        shape = (len(self._readers), new.shape[1], self.page_size, new.shape[3])
        if pool is not None and (pool.shape, pool.dtype, pool.device) == (shape, new.dtype, new.device):
            return pool
        with torch.inference_mode(False):  # so that it can be written outside of inference mode, too
            return torch.empty(shape, dtype=new.dtype, device=new.device)

    def _add(self, more: int) -> None:
        """Adds pages, which are free, behind those there are."""
        before = len(self._readers)
        with torch.inference_mode(False):
            self._readers = torch.cat((self._readers, torch.zeros(more, dtype=torch.int64)))
        self._free = [*range(before, before + more)][::-1] + self._free
        for name in ("_keys", "_values"):
            pool = getattr(self, name)
            if pool is not None:
                made = self._made(None, pool)
                made[:before] = pool
                setattr(self, name, made)
