"""Keys and values that are kept otherwise than as one tensor: in pages, or in eight bits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headwise.errors import ShapeError, axes, sentence

__all__ = ["Paged", "Quantised", "Stored", "columns_of", "dense_of"]


class Stored:
    """Base: keys [B,Hk,S,D] or values [B,Hk,S,E], which `headwise.attention` takes in place of a tensor.

    The native kernels read them as they lie; for whoever cannot, and for gradients, `dense` makes the tensor.

    Example:
        >>> import torch, headwise as hw
        >>> pool = torch.randn(4, 2, 16, 8)
        >>> isinstance(hw.Paged(pool, torch.zeros(1, 1, dtype=torch.int32), 5), hw.spec.Stored)
        True
    """

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, Hk, S, width)."""
        raise NotImplementedError

    @property
    def dtype(self) -> torch.dtype:
        """Of the numbers that are meant."""
        raise NotImplementedError

    @property
    def device(self) -> torch.device:
        """Where they lie."""
        raise NotImplementedError

    def tensors(self) -> tuple[Tensor, ...]:
        """What it is made of, the numbers first."""
        raise NotImplementedError

    def dense(self) -> Tensor:
        """The tensor [B,Hk,S,width] that is meant."""
        raise NotImplementedError

    def columns(self, start: int, stop: int) -> Stored:
        """The same tokens' numbers [start, stop) of their width, nothing copied."""
        raise NotImplementedError

    def _within(self, start: int, stop: int) -> slice:
        """Some columns that are there."""
        if not 0 <= start <= stop <= self.shape[3]:
            what, rule = f"columns {start} to {stop}", f"a token has {self.shape[3]} numbers"
            raise ShapeError(sentence(type(self).__name__, what, rule))
        return slice(start, stop)

    def blank(self) -> Tensor:
        """A tensor of this shape, dtype and device without memory of its own and without meaning."""
        return torch.empty((), dtype=self.dtype, device=self.device).expand(self.shape)


@dataclass(frozen=True, eq=False)
class Paged(Stored):
    """Tokens in pages of a pool: token j of row b is slot j % P of page ``table[b, j // P]``.

    Args:
        pool: [pages, Hk, P, width].
        table: int32 [B, n], the pages of each row in order, n = ceil(length / P) or more; on the CPU.
        length: S, tokens a row, a whole number of at least 0; slots behind them are never read.

    Raises:
        ShapeError: if the pool or the table has another shape, the table lies elsewhere or names a page that is not
            there, or the length is no such number.

    Source:
        Kwon et al. 2023, "Efficient Memory Management for Large Language Model Serving with PagedAttention"
        (arXiv 2309.06180).

    Example:
        >>> import torch, headwise as hw
        >>> pool, table = torch.randn(3, 1, 2, 4), torch.tensor([[2, 0]], dtype=torch.int32)
        >>> keys = hw.Paged(pool, table, length=3)
        >>> torch.equal(keys.dense()[0, 0], torch.stack((pool[2, 0, 0], pool[2, 0, 1], pool[0, 0, 0])))
        True
        >>> q = torch.randn(1, 2, 1, 4)
        >>> torch.equal(hw.attention(q, keys, keys), hw.attention(q, keys.dense(), keys.dense()))
        True
    """

    pool: Tensor
    table: Tensor
    length: int

    def __post_init__(self) -> None:
        pool, table = self.pool, self.table
        if not isinstance(pool, Tensor) or pool.dim() != 4 or not pool.shape[2] or not pool.is_floating_point():
            shown = axes("pool", pool, "pages Hk P W") if isinstance(pool, Tensor) else f"pool is {pool!r}"
            raise ShapeError(sentence("Paged", shown, "a pool is [pages,Hk,P,width] of floats, P at least 1"))
        if isinstance(self.length, bool) or not isinstance(self.length, int) or self.length < 0:
            raise ShapeError(sentence("Paged", f"length is {self.length!r}", "it counts tokens, an int of at least 0"))
        least = -(-self.length // pool.shape[2])
        if not isinstance(table, Tensor) or table.dtype != torch.int32 or table.dim() != 2 or table.shape[1] < least:
            shown = f"{axes('table', table, 'B n')} of {table.dtype}" if isinstance(table, Tensor) else repr(table)
            rule = (
                f"it is int32 [B,n], a page for every {pool.shape[2]} of {self.length} tokens, so n is {least} or more"
            )
            raise ShapeError(sentence("Paged", f"the table is {shown}", rule, axes("pool", pool, "pages Hk P W")))
        if not table.is_cpu:
            what = f"the table is on {table.device}"
            raise ShapeError(sentence("Paged", what, "it is on the CPU, wherever the pool is", todo="Use table.cpu()."))
        self.check_pages()

    def check_pages(self) -> None:
        """Looks whether every page that the table names is there, which a table that is written later may not keep.

        Raises:
            ShapeError: if one is not.
        """
        used, pages = self.table[:, : -(-self.length // self.page_size)], len(self.pool)
        if used.numel() and not 0 <= int(used.min()) <= int(used.max()) < pages:
            what = f"the table names pages {int(used.min())} to {int(used.max())}"
            raise ShapeError(sentence("Paged", what, f"the pool has pages 0 to {pages - 1}"))

    @classmethod
    def _trusted(cls, pool: Tensor, table: Tensor, length: int) -> Paged:
        """Of parts that fit, unchecked: whoever made the table itself need not look through it at every token."""
        made = object.__new__(cls)
        vars(made).update(pool=pool, table=table, length=length)
        return made

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return len(self.table), self.pool.shape[1], self.length, self.pool.shape[3]

    @property
    def dtype(self) -> torch.dtype:
        return self.pool.dtype

    @property
    def device(self) -> torch.device:
        return self.pool.device

    @property
    def page_size(self) -> int:
        """P, tokens a page."""
        return self.pool.shape[2]

    def tensors(self) -> tuple[Tensor, ...]:
        return self.pool, self.table

    def dense(self) -> Tensor:
        self.check_pages()  # the table may have been changed since
        pages = -(-self.length // self.page_size)
        table = self.table[:, :pages].flatten().to(self.pool.device)
        # Heads first, so that the pages of a row come out side by side: one copy, seen as [B,Hk,S,width].
        picked = self.pool.transpose(0, 1).index_select(1, table)
        whole = picked.view(picked.shape[0], len(self.table), pages * self.page_size, picked.shape[3])
        return whole.transpose(0, 1).narrow(2, 0, self.length)

    def columns(self, start: int, stop: int) -> Paged:
        return self._trusted(self.pool[..., self._within(start, stop)], self.table, self.length)


@dataclass(frozen=True, eq=False)
class Quantised(Stored):
    """Tokens in eight bits: a number is its int8 times the scale of its (row, head, token).

    Args:
        numbers: int8 [B,Hk,S,width].
        scales: float32 [B,Hk,S].
        dtype: of the numbers that are meant, which is that of the queries.

    Raises:
        ShapeError: if numbers and scales do not belong together, or lie on two devices.

    Example:
        >>> import torch, headwise as hw
        >>> numbers, scales = torch.tensor([[[[127, -64]]]], dtype=torch.int8), torch.tensor([[[0.5]]])
        >>> hw.Quantised(numbers, scales).dense()
        tensor([[[[ 63.5000, -32.0000]]]])
    """

    numbers: Tensor
    scales: Tensor
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        numbers, scales = self.numbers, self.scales
        if not isinstance(numbers, Tensor) or numbers.dtype != torch.int8 or numbers.dim() != 4:
            shown = f"{axes('numbers', numbers, 'B Hk S W')} of {numbers.dtype}" if isinstance(numbers, Tensor) else ""
            raise ShapeError(sentence("Quantised", shown or f"numbers is {numbers!r}", "they are int8 [B,Hk,S,width]"))
        if not isinstance(scales, Tensor) or scales.dtype != torch.float32 or scales.shape != numbers.shape[:3]:
            shown = f"{axes('scales', scales, 'B Hk S')} of {scales.dtype}" if isinstance(scales, Tensor) else ""
            rule = f"they are float32, one a token and head: {list(numbers.shape[:3])}"
            raise ShapeError(sentence("Quantised", shown or f"scales is {scales!r}", rule))
        if numbers.device != scales.device:
            what = f"numbers are on {numbers.device}, scales on {scales.device}"
            raise ShapeError(sentence("Quantised", what, "both lie on one device"))

    @property
    def shape(self) -> tuple[int, int, int, int]:
        B, Hk, S, W = self.numbers.shape
        return B, Hk, S, W

    @property
    def device(self) -> torch.device:
        return self.numbers.device

    def tensors(self) -> tuple[Tensor, ...]:
        return self.numbers, self.scales

    def dense(self) -> Tensor:
        wide = torch.float64 if self.dtype == torch.float64 else torch.float32
        return (self.numbers.to(wide) * self.scales.to(wide)[..., None]).to(self.dtype)

    def columns(self, start: int, stop: int) -> Quantised:
        return replace(self, numbers=self.numbers[..., self._within(start, stop)])


def dense_of(x: Tensor | Stored) -> Tensor:
    """Keys or values as a tensor, however they are kept."""
    return x.dense() if isinstance(x, Stored) else x


def columns_of(x: Tensor | Stored, start: int, stop: int) -> Tensor | Stored:
    """Numbers [start, stop) of each key or value, kept as they are and nothing copied."""
    return x.columns(start, stop) if isinstance(x, Stored) else x[..., start:stop]
