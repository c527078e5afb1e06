"""A cache in pages: rows that begin alike share memory, and caches share one pool of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Self

from headwise.errors import SpecError, sentence
from headwise.nn.any_cache import Cache, Form
from headwise.nn.pool import PagePool
from headwise.spec import Paged

__all__ = ["PagedCache"]


class PagedCache(Cache):
    """Keys and values in pages of a pool, found through a table, as a server of many texts keeps them.

    A page holds ``page_size`` tokens. Rows that went on from the same row (`reorder`), and copies of a cache
    (``copy.copy``), share their pages; a page is copied only when one of those who share it writes into it. Pages that
    nobody reads are used again, those of a cache that is let go too. Caches of one `PagePool` share its memory.

    `append` returns gathered copies; `appending`, and so a module, hands the pages on as they lie, `headwise.Paged`. A
    deep copy and a file have a pool of their own. Gradients are refused: what is written in place carries none.

    Args:
        page_size: tokens a page; None = that of ``pages``, or 16.
        pages: the pool; None = one of its own, which grows.

    Raises:
        SpecError: if page_size is no whole number of at least 1, or not that of the pool, or pages is no pool.

    Source:
        Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving with PagedAttention".

    Example:
        >>> import torch
        >>> from headwise.nn.paged import PagedCache
        >>> cache = PagedCache(page_size=4)
        >>> k, v = cache.append(torch.zeros(1, 2, 6, 8), torch.zeros(1, 2, 6, 8))
        >>> cache.reorder([0, 0, 0])  # three beams, the same two pages
        >>> cache.stored()[0].table.tolist(), cache.pool.used
        ([[0, 1], [0, 1], [0, 1]], 2)
        >>> k, v = cache.append(torch.zeros(3, 2, 1, 8), torch.zeros(3, 2, 1, 8))
        >>> cache.pool.used  # the second page is now three
        4
    """

    def __init__(self, page_size: int | None = None, pages: PagePool | None = None) -> None:
        if pages is not None and not isinstance(pages, PagePool):
            rule = "it is the pool that the pages come from"
            todo = "Use PagePool(page_size=16, limit=...) for a number of pages."
            raise SpecError(sentence("PagedCache", f"pages is {pages!r}", rule, todo=todo))
        if pages is not None and page_size not in (None, pages.page_size):
            raise SpecError(
                sentence(
                    "PagedCache",
                    f"page_size is {page_size!r}, the pages of the pool hold {pages.page_size} tokens",
                    "a cache has the pages of its pool",
                    todo="Leave page_size out.",
                )
            )
        self.pool = PagePool(16 if page_size is None else page_size) if pages is None else pages
        self._table, self._length = _no_pages(), 0

    @property
    def page_size(self) -> int:
        """P, how many tokens a page holds."""
        return self.pool.page_size

    @property
    def length(self) -> int:
        return self._length

    def _reset(self) -> None:
        self._keep(_no_pages(), 0, self._table)

    def _keep(self, table: Tensor, length: int, left: Tensor) -> None:
        """Has another table, and gives back the pages of the old one that it does without."""
        self._table, self._length = table, length
        self.pool.release(left)

    def __del__(self) -> None:
        if "_table" in vars(self):
            self.pool.release(self._table)

    def __copy__(self) -> Self:
        other = type(self)(pages=self.pool)
        self.pool.share(self._table)
        other._table, other._length = self._table, self._length
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        made = type(self).__new__(type(self))
        made.__setstate__(self.__getstate__())
        return made

    def __getstate__(self) -> dict[str, Any]:
        pool, table = self.pool.only(self._table, self._length)
        return {"pool": pool, "_table": table, "_length": self._length}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def _options(self) -> tuple[str, ...]:
        return (f"page_size={self.page_size}",)

    def _forms(self) -> tuple[Form, Form] | None:
        pools = self.pool.tensors()
        if pools is None or not self._length:
            return None
        shape = (len(self._table), pools[0].shape[1], self._length)
        k, v = (Form((*shape, pool.shape[3]), pool.dtype, pool.device) for pool in pools)
        return k, v

    def _pages(self, table: Tensor, length: int) -> tuple[Paged, Paged]:
        pools = self.pool.tensors()
        assert pools is not None
        keys, values = (Paged._trusted(pool, table, length) for pool in pools)
        return keys, values

    def _read(self) -> tuple[Paged, Paged]:
        return self._pages(self._table, self._length)

    def _grown(self, k: Tensor, v: Tensor) -> Iterator[tuple[Paged, Paged]]:
        self._refuse_gradients(k, v)
        table = self._table if self._length else torch.empty(len(k), 0, dtype=torch.int32, device="cpu")
        longer, taken, left = self.pool.extend(table, self._length, k, v)
        stop = self._length + k.shape[2]
        try:
            yield self._pages(longer, stop)
        except BaseException:
            self.pool.release(taken)
            raise
        self._keep(longer, stop, left)

    def _crop(self, kept: int) -> None:
        columns = -(-kept // self.page_size)
        self._keep(self._table[:, :columns].clone(), kept, self._table[:, columns:])

    def _reorder(self, rows: Tensor) -> None:
        table = self._table.index_select(0, rows.cpu())
        self.pool.share(table)
        self._keep(table, self._length, self._table)


def _no_pages() -> Tensor:
    return torch.empty(0, 0, dtype=torch.int32, device="cpu")
