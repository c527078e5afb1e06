"""The memory of paged caches: pages, who reads each, and which are free."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.nn.any_cache import Form

__all__ = ["PagePool"]


class PagePool:
    """Pages of keys and values that caches take, share and give back.

    The memory is made when the first keys come, [pages,Hk,P,D] and [pages,Hk,P,E]; all caches of a pool have their
    heads, widths, dtype and device. It doubles when it is full, unless ``limit`` says where it ends.

    Caches of one pool may work in threads of their own: one at a time asks for pages and writes them. Pages that are
    given back wait in a queue until somebody counts or asks for pages, since a cache may be let go at any point, in the
    midst of the pool's own work, by the garbage collector.

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
        self._pools: tuple[Tensor, Tensor] | None = None
        self._readers = torch.empty(0, dtype=torch.int64, device="cpu")  # how many rows read each page
        self._free: list[int] = []  # the next one to take comes last
        self._make_queue()

    def _make_queue(self) -> None:
        self._alone = threading.RLock()
        self._left: deque[Tensor] = deque()  # pages given back and not yet counted

    def __getstate__(self) -> dict[str, Any]:
        """A copy and a file have a lock and a queue of their own."""
        with self._alone:
            self._settle()
            return {name: part for name, part in vars(self).items() if name not in ("_alone", "_left")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        with torch.inference_mode(False):  # a file that is read in inference mode gives tensors that stay unwritable
            self._readers = self._readers.clone()
            if self._pools is not None:
                self._pools = self._pools[0].clone(), self._pools[1].clone()
        self._make_queue()

    @property
    def used(self) -> int:
        """How many pages somebody reads."""
        with self._alone:
            self._settle()
            return len(self._readers) - len(self._free)

    def __repr__(self) -> str:
        return f"PagePool(page_size={self.page_size}, limit={self.limit}, used={self.used})"

    def tensors(self) -> tuple[Tensor, Tensor] | None:
        """The pools of keys [pages,Hk,P,D] and of values [pages,Hk,P,E]; None before the first keys came."""
        return self._pools

    def extend(self, table: Tensor, start: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Writes tokens start, start + 1, ... of the rows of a table, which stays as it is.

        Slots behind the rows' length are written in place in a page that one row alone reads; any other is copied.

        Args:
            table: int32 [B, n], n = ceil(start / P).
            start: how many tokens the rows have.
            k: keys [B,Hk,T,D].
            v: values [B,Hk,T,E].

        Returns:
            The table of the longer rows, int32 [B, ceil((start + T) / P)]; the pages that were taken for it, and those
            of the old one that it does without. Who keeps the longer rows releases the latter, else the former.

        Raises:
            ShapeError: if k and v are not of this pool's form, or a limit leaves too few pages; nothing is taken then.
        """
        with self._alone:
            self._settle()
            self._fit(k, v)
            copied = self._shared(table[:, start // self.page_size]) if start % self.page_size and k.shape[2] else []
            added = -(-(start + k.shape[2]) // self.page_size) - table.shape[1]
            taken = self._take(len(copied) + len(table) * added)
            try:
                left, own, fresh = taken[:0], taken[: len(copied)], taken[len(copied) :]
                longer = torch.cat((table, fresh.reshape(len(table), added)), 1)
                if copied:
                    left = table[copied, -1]
                    longer[copied, table.shape[1] - 1] = own
                    self._copy(left, own)
                self._write(longer, start, k, v)
            except BaseException:
                self.release(taken)
                raise
            return longer, taken, left

    def share(self, pages: Tensor) -> None:
        """Adds a reader to each page of a table, of any shape; one that comes twice gets two."""
        with self._alone:
            self._readers.index_add_(0, pages.flatten(), torch.ones(pages.numel(), dtype=torch.int64, device="cpu"))

    def release(self, pages: Tensor) -> None:
        """Takes a reader from each; pages without one are free. It cannot fail, and may be called at any point."""
        self._left.append(pages)

    def only(self, table: Tensor, length: int) -> tuple[PagePool, Tensor]:
        """A pool that holds the pages of one table alone, and that table there; slots behind the length are zero."""
        pool = PagePool(self.page_size, self.limit)
        with self._alone:
            if self._pools is None or not table.numel():
                return pool, table
            pages, places = table.unique(return_inverse=True)
            own = places.reshape(table.shape).to(torch.int32)
            unwritten = slice(length - (table.shape[1] - 1) * self.page_size, None)
            with torch.inference_mode(False):
                pool._readers = torch.zeros(len(pages), dtype=torch.int64, device="cpu")
                keys, values = (held[pages.to(held.device)] for held in self._pools)
            for made in (keys, values):
                made[own[:, -1].to(made.device), :, unwritten] = 0
        pool._pools = keys, values
        pool.share(own)
        return pool, own

    def _settle(self) -> None:
        """Counts what was given back."""
        while self._left:
            touched, times = self._left[0].flatten().unique(return_counts=True)
            readers = self._readers[touched] - times
            free = touched[readers == 0].flip(0).tolist()
            self._readers[touched] = readers
            self._free += free
            self._left.popleft()

    def _take(self, count: int) -> Tensor:
        """Takes pages that nobody reads, int32 [count]; each has one reader from then on."""
        lacking = count - len(self._free)
        if self.limit is None:
            more = max(lacking, len(self._readers))
        else:
            more = self.limit - len(self._readers)  # all at once
            if lacking > more:
                free = len(self._free) + more
                raise ShapeError(
                    sentence(
                        "PagePool",
                        f"{count} more pages are wanted, {free} of {self.limit} {'is' if free == 1 else 'are'} free",
                        "a pool with a limit does not grow",
                        todo="Let go of a cache of this pool, or make it with a larger limit.",
                    )
                )
        if lacking > 0:
            self._add(more)
        at = len(self._free) - count
        taken = torch.tensor(self._free[at:][::-1], dtype=torch.int32, device="cpu")
        self.share(taken)
        del self._free[at:]
        return taken

    def _fit(self, k: Tensor, v: Tensor) -> None:
        """Makes the pools for keys and values of this form, or checks that they are what these pools hold."""
        if self._pools is None or not self.used:
            keys, values = (None, None) if self._pools is None else self._pools
            self._pools = self._made(keys, k), self._made(values, v)
            return
        for name, new, pool in zip("kv", (k, v), self._pools, strict=True):
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

    def _shared(self, pages: Tensor) -> list[int]:
        """Which rows of a column of pages [B] have to copy theirs before each of them is written.

        A page with other readers is copied; the last of its readers, if it is a row of this column, keeps it.
        """
        column = pages.tolist()
        readers = dict(zip(column, self._readers[pages].tolist(), strict=True))
        copied = []
        for row, page in enumerate(column):
            if readers[page] > 1:
                readers[page] -= 1
                copied.append(row)
        return copied

    def _copy(self, pages: Tensor, to: Tensor) -> None:
        """Copies whole pages onto others."""
        for pool in self._pools or ():
            pool[to.to(pool.device)] = pool[pages.to(pool.device)]

    def _write(self, table: Tensor, start: int, k: Tensor, v: Tensor) -> None:
        """Writes tokens start, start + 1, ... of each row of a table; k [B,Hk,T,D], v [B,Hk,T,E]."""
        at = torch.arange(start, start + k.shape[2], device="cpu", dtype=torch.int64)
        for pool, new in zip(self._pools or (), (k, v), strict=True):
            pages = table[:, at // self.page_size].to(pool.device)
            pool[pages, :, (at % self.page_size).to(pool.device)] = new.detach().transpose(1, 2)

    def _made(self, pool: Tensor | None, new: Tensor, more: int = 0) -> Tensor:
        """A pool for numbers like new ones [B,Hk,S,width], of as many pages as there are; the one there is if it is."""
        shape = (len(self._readers) + more, new.shape[1], self.page_size, new.shape[3])
        if pool is not None and (pool.shape, pool.dtype, pool.device) == (shape, new.dtype, new.device):
            return pool
        with torch.inference_mode(False):  # so that it can be written outside of inference mode, too
            return torch.empty(shape, dtype=new.dtype, device=new.device)

    def _add(self, more: int) -> None:
        """Adds pages, which are free, behind those there are."""
        before, pools = len(self._readers), self._pools
        with torch.inference_mode(False):
            readers = torch.cat((self._readers, torch.zeros(more, dtype=torch.int64, device="cpu")))
        if pools is not None:
            keys, values = (self._made(None, pool, more) for pool in pools)
            for made, pool in zip((keys, values), pools, strict=True):
                made[:before] = pool
            self._pools = keys, values
        self._readers = readers
        self._free = [*range(before, before + more)][::-1] + self._free
