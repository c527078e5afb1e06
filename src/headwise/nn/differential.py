"""Differential attention: each head is the difference of two patterns, so that what both see cancels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import Never

from headwise.elsewhere import not_taken, without_others
from headwise.errors import SpecError, sentence
from headwise.nn.cache import Cache
from headwise.nn.calls import both, check_cache, check_input, output_is_ours, reset, through
from headwise.nn.checking import at_least_one, dropout_of, listed, mask_of, positive
from headwise.nn.rotary import Rotary
from headwise.nn.rules import Held
from headwise.ops import Attended, attend, attention
from headwise.spec import Mask, Stored
from headwise.spec.stored import columns_of, dense_of

__all__ = ["DifferentialAttention"]

_WHO = "DifferentialAttention"
_TODO = "Write layer(x): its queries, keys and values all come from x."


class DifferentialAttention(nn.Module):
    """Differential attention: two softmaxes over the same values, one taken from the other.

        head_h = (1 - l_0) norm((softmax(q1_h k1^T * scale) - l softmax(q2_h k2^T * scale)) v)
        l = exp(a1 . b1) - exp(a2 . b2) + l_0,    l_0 = 0.8 - 0.6 exp(-0.3 depth)

    q1, q2, k1 and k2 have width D, values 2 D; a and b are learned vectors [D] of the layer, and the norm is RMS over
    each head. ``q_proj``, ``k_proj``, ``v_proj`` and ``o_proj`` are ordinary Linears that are really called; the 2 D
    numbers of a head of q_proj are its q1, then its q2.

    Args:
        d_model: M.
        heads: H, differential heads.
        kv_heads: Hk; None = H. It divides H.
        head_dim: D; None = M / (2 H), so that the layer is as large as an ordinary one.
        depth: the number of layers below this one, for l_0.
        rotary: rotary position embedding of all four; None = none.
        mask: what every call hides, such as ``Causal()``.
        bias: whether the projections have a bias.
        norm_eps: of the norm of the heads.
        dropout: probability that a cell of a pattern is dropped, in training only.
        backend: as in `headwise.attention`.
        device: where the parameters are made.
        dtype: of the parameters.

    Raises:
        SpecError: if a number is out of its range.

    Source:
        Ye et al. 2024, "Differential Transformer" (arXiv 2410.05258), section 2.1.

    Example:
        >>> import torch, headwise as hw
        >>> layer = hw.nn.DifferentialAttention(64, 4, depth=2, mask=hw.Causal(), rotary=hw.nn.Rotary())
        >>> layer(torch.randn(2, 5, 64)).shape
        torch.Size([2, 5, 64])
        >>> layer.attend(torch.randn(2, 5, 64)).pattern.shape  # the first of each head, then the second of each
        torch.Size([2, 8, 5, 5])
    """

    def __init__(
        self,
        d_model: int,
        heads: int,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        *,
        depth: int = 0,
        rotary: Rotary | None = None,
        mask: Mask | None = None,
        bias: bool = False,
        norm_eps: float = 1e-5,
        dropout: float = 0.0,
        backend: Any = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        for name, value in (("d_model", d_model), ("heads", heads), ("kv_heads", kv_heads)):
            at_least_one(_WHO, name, value)
        if head_dim is None and d_model % (2 * heads):
            what = f"d_model {d_model} cannot be cut into 2 x {heads} equal halves of heads"
            raise SpecError(sentence(_WHO, what, "2 * heads must divide d_model unless head_dim is given"))
        if heads % kv_heads:
            what = f"{heads} heads cannot share {kv_heads} key/value heads"
            todo = f"Use {listed(n for n in range(1, heads + 1) if heads % n == 0)} key/value heads."
            raise SpecError(sentence(_WHO, what, "kv_heads must divide heads", todo=todo))
        if isinstance(depth, bool) or not isinstance(depth, int) or depth < 0:
            raise SpecError(sentence(_WHO, f"depth is {depth!r}", "it is the number of layers below, at least 0"))
        if rotary is not None and not isinstance(rotary, Rotary):
            raise SpecError(sentence(_WHO, f"rotary is {rotary!r}", "it is a headwise.nn.Rotary or None"))
        mask_of(_WHO, mask)
        self.d_model, self.heads, self.kv_heads, self.depth, self.backend = d_model, heads, kv_heads, depth, backend
        self.head_dim = d_model // (2 * heads) if head_dim is None else at_least_one(_WHO, "head_dim", head_dim)
        self.rotary = None if rotary is None else rotary.fitted(self.head_dim)
        self.dropout, norm_eps = dropout_of(_WHO, dropout), positive(_WHO, "norm_eps", norm_eps)
        make: dict[str, Any] = {"device": device, "dtype": dtype}
        queries, keys = 2 * heads * self.head_dim, 2 * self.kv_heads * self.head_dim
        self.q_proj = nn.Linear(d_model, queries, bias=bias, **make)
        self.k_proj = nn.Linear(d_model, keys, bias=bias, **make)
        self.v_proj = nn.Linear(d_model, keys, bias=bias, **make)
        self.o_proj = nn.Linear(queries, d_model, bias=bias, **make)
        self.lambdas = nn.Parameter(torch.empty(4, self.head_dim, **make))  # a1, b1, a2, b2
        self.head_norm = nn.RMSNorm(2 * self.head_dim, eps=norm_eps, **make)
        self.mask = Held(mask).to(device)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the weights anew: Xavier uniform for the matrices, zero for biases, one for the norm.

        The vectors of lambda are so small that exp(a1 . b1) - exp(a2 . b2) begins near 0.

        Example:
            >>> import headwise as hw
            >>> hw.nn.DifferentialAttention(8, 2).reset_parameters()
        """
        reset(self)
        nn.init.normal_(self.lambdas, std=0.1)

    @property
    def lambda_init(self) -> float:
        """l_0, by the layer's depth."""
        return 0.8 - 0.6 * math.exp(-0.3 * self.depth)

    @property
    def subtracted(self) -> Tensor:
        """l, the share of the second pattern that is taken from the first."""
        a1, b1, a2, b2 = self.lambdas.to(torch.promote_types(self.lambdas.dtype, torch.float32))
        return (a1 @ b1).exp() - (a2 @ b2).exp() + self.lambda_init

    @without_others
    def forward(
        self,
        x: Tensor,
        *others: Never,
        mask: Mask | None = None,
        cache: Cache | None = None,
        positions: Tensor | None = None,
        **names: Never,
    ) -> Tensor:
        """The layer's output.

        Args:
            x: [B,T,M].
            mask: what this call hides beside the module's own mask, over all keys, those in the cache included.
            cache: a `KVCache` or another of headwise.nn's; keys are held as [B,Hk,S,2 D], k1 and k2 side by side.
            positions: of the tokens of x, [T] or [B,T]; None = one after the other, behind those in the cache.

        Returns:
            [B,T,M].

        Raises:
            ShapeError: if x, mask and cache do not fit together in shape, dtype or device.
            SpecError: if the mask is not a mask, or the cache belongs to something else.

        Example:
            >>> import torch, headwise as hw
            >>> layer = hw.nn.DifferentialAttention(32, 2, kv_heads=1)
            >>> layer(torch.randn(1, 3, 32)).shape
            torch.Size([1, 3, 32])
        """
        if others or names:
            raise not_taken(_WHO, type(self).forward, others, names, _TODO)
        with self._operands(x, mask, cache, positions) as (q, k, v, options):
            if options["dropout"]:  # cells drop alike however it is called
                return self._projected(*attention(*_side_by_side(q, k, v), **options).chunk(2, dim=1))
            D = self.head_dim
            k1, k2 = columns_of(k, 0, D), columns_of(k, D, 2 * D)
            first, second = attention(q[..., :D], k1, v, **options), attention(q[..., D:], k2, v, **options)
            return self._projected(first, second)

    @without_others
    def attend(
        self,
        x: Tensor,
        *others: Never,
        mask: Mask | None = None,
        cache: Cache | None = None,
        positions: Tensor | None = None,
        observe: Sequence[Any] = (),
        **names: Never,
    ) -> Attended:
        """The layer's output and whatever is asked of its patterns.

        Args:
            x, mask, cache, positions: as of `forward`.
            observe: observers; they see probabilities before dropout.

        Returns:
            What `headwise.attend` returns, with ``out`` [B,T,M] behind the output projection, and 2 H heads in all
            else: the first pattern of each head, then the second of each.

        Example:
            >>> import torch, headwise as hw
            >>> layer = hw.nn.DifferentialAttention(32, 2)
            >>> layer.attend(torch.randn(1, 3, 32), observe=[hw.Entropy()]).seen["entropy"].shape
            torch.Size([1, 4, 3])
        """
        if others or names:
            raise not_taken(_WHO, type(self).attend, others, names, _TODO)
        with self._operands(x, mask, cache, positions) as (q, k, v, options):
            attended = attend(*_side_by_side(q, k, v), **options, observe=observe)
            return replace(attended, out=self._projected(*attended.out.chunk(2, dim=1)))

    def extra_repr(self) -> str:
        """The sizes, for ``print(module)``."""
        sizes = f"M={self.d_model}, H={self.heads}, Hk={self.kv_heads}, D={self.head_dim}, depth={self.depth}"
        return f"{sizes}, rotary={self.rotary}" if self.rotary else sizes

    @contextmanager
    def _operands(
        self, x: Tensor, mask: Mask | None, cache: Cache | None, positions: Tensor | None
    ) -> Iterator[tuple[Tensor, Tensor | Stored, Tensor | Stored, dict[str, Any]]]:
        """Queries [B,H,T,2D], keys and values [B,Hk,S,2D], and the options of the calls."""
        check_input(_WHO, "x", x, "B T M", self.d_model, self.q_proj)
        shown, mask = self.mask(), mask_of(_WHO, mask)
        check_cache(_WHO, cache)
        if cache is None:
            shown = both(shown, mask)
        else:
            shown, _ = through(_WHO, self, cache, shown, mask, (), x)
        at: int | Tensor = (0 if cache is None else cache.length) if positions is None else positions
        q, k = (self._turned(proj, x, at) for proj in (self.q_proj, self.k_proj))
        v = self.v_proj(x).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2)
        dropout = self.dropout if self.training else 0.0
        options = {"mask": shown, "dropout": dropout, "backend": self.backend}
        if cache is None:
            yield q, k, v, options
            return
        with cache.appending(k, v) as (keys, values):
            yield q, keys, values, options

    def _turned(self, proj: nn.Module, x: Tensor, at: int | Tensor) -> Tensor:
        """[B,heads,T,2D] of one projection, both halves of each head turned."""
        halves = proj(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        if self.rotary is not None:
            halves = self.rotary.rotate(halves, at, inplace=output_is_ours(proj))
        return halves.transpose(1, 2).flatten(2).unflatten(-1, (-1, 2 * self.head_dim)).transpose(1, 2)

    def _projected(self, first: Tensor, second: Tensor) -> Tensor:
        out = first - self.subtracted.to(first.dtype) * second
        out = self.head_norm(out) * (1 - self.lambda_init)
        return self.o_proj(out.transpose(1, 2).flatten(2))


def _side_by_side(q: Tensor, k: Tensor | Stored, v: Tensor | Stored) -> tuple[Tensor, Tensor, Tensor]:
    """Operands of one call over both patterns: the halves become heads of their own, so values are named twice."""
    values = dense_of(v)
    both_q, both_k = (torch.cat(part.chunk(2, -1), dim=1) for part in (q, dense_of(k)))
    return both_q, both_k, torch.cat((values, values), dim=1)
