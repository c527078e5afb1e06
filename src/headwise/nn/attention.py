"""Multi-head attention as a module: four ordinary Linears around `headwise.attention`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import Never, Self

from headwise.elsewhere import near, not_taken, without_others
from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.nn.cache import Cache, KVCache
from headwise.nn.calls import both, check_cache, check_input, output_is_ours, reset, through
from headwise.nn.checking import mask_of
from headwise.nn.config import AttentionConfig
from headwise.nn.presets import PRESETS
from headwise.nn.rules import Held
from headwise.ops import Attended, attend, attention
from headwise.spec import Mask

__all__ = ["MultiHeadAttention"]

_WHO = "MultiHeadAttention"
_TODO = (
    "Write layer(x) for self attention, layer(x, context), or layer(x, (keys, values)); layer(query, key, value) is "
    "headwise.nn.torch_compat.MultiheadAttention."
)


class MultiHeadAttention(nn.Module):
    """Multi-head attention, self or cross, with every option of `AttentionConfig` and a cache.

    For each head h, with g(h) the key/value head that it reads:

        head_h = softmax(q_h k_g(h)^T * scale) v_g(h),    y = [head_1 ... head_H] W_O + b_O

    where q = x W_Q + b_Q and, with c the context (x itself if none is given), k = c W_K + b_K, v = c W_V + b_V. Where
    the config says so q and k are normed, then turned by their positions; rows get sinks; heads are gated.

    ``q_proj``, ``k_proj``, ``v_proj`` and ``o_proj`` are ordinary `torch.nn.Linear` that are really called, so that
    forward hooks, LoRA, pruning and quantisers find them.

    Args:
        d_model: M, the width of the input and the output.
        heads: H, the number of query heads.
        kv_heads: Hk, the number of key/value heads; None = H. It divides H; 1 is multi-query attention.
        head_dim: D, the width of a head; None = M / H, which then has to come out even.
        device: where the parameters are made.
        dtype: of the parameters.
        **options: the other fields of `AttentionConfig`: kdim, vdim, bias, out_bias, dropout, scale, mask, scores,
            rotary, qk_norm, norm_eps, sinks, gate, backend.

    Raises:
        SpecError: if d_model is not a multiple of heads, heads not one of kv_heads, or an option is out of its range.

    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2; Ainslie et al. 2023, "GQA", for kv_heads.

    Example:
        >>> import torch, headwise as hw
        >>> layer = hw.MultiHeadAttention(64, heads=8, kv_heads=2, mask=hw.Causal(), rotary=hw.nn.Rotary())
        >>> x = torch.randn(3, 10, 64)
        >>> layer(x).shape
        torch.Size([3, 10, 64])
        >>> layer.attend(x, observe=[hw.Entropy()]).seen["entropy"].shape
        torch.Size([3, 8, 10])
        >>> layer
        MultiHeadAttention(
          M=64, H=8, Hk=2, D=8, rotary=Rotary(width=8, base=10000.0, pairing='halves', scaling=None, axes=None)
          (q_proj): Linear(in_features=64, out_features=64, bias=True)
          (k_proj): Linear(in_features=64, out_features=16, bias=True)
          (v_proj): Linear(in_features=64, out_features=16, bias=True)
          (o_proj): Linear(in_features=64, out_features=64, bias=True)
          (mask): Held(Causal(align='end'))
          (scores): Held(())
        )
    """

    def __init__(
        self,
        d_model: int | None = None,  # a size that is missing gets a sentence, like an option that is not there
        heads: int | None = None,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        config = AttentionConfig.of(d_model, heads, kv_heads, head_dim, **options)
        self.config = config
        self.d_model, self.heads, self.kv_heads = config.d_model, config.heads, config.kv_heads
        self.head_dim, self.kdim, self.vdim = config.head_dim, config.kdim, config.vdim
        self.dropout, self.scale, self.backend = config.dropout, config.scale, config.backend
        make: dict[str, Any] = {"device": device, "dtype": dtype}
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.q_proj = nn.Linear(self.d_model, queries, bias=config.bias, **make)
        self.k_proj = nn.Linear(self.kdim, keys, bias=config.bias, **make)
        self.v_proj = nn.Linear(self.vdim, keys, bias=config.bias, **make)
        self.o_proj = nn.Linear(queries, self.d_model, bias=config.out_bias, **make)
        if config.gate is not None:
            self.gate_proj = nn.Linear(self.d_model, self.heads if config.gate == "head" else queries, **make)
        if config.qk_norm is not None:
            kind = nn.LayerNorm if config.qk_norm == "layer" else nn.RMSNorm
            wide = config.qk_norm == "rms-wide"
            self.q_norm = kind(queries if wide else self.head_dim, eps=config.norm_eps, **make)
            self.k_norm = kind(keys if wide else self.head_dim, eps=config.norm_eps, **make)
        self.sinks: Tensor | None
        if config.sinks == "learned":
            self.sinks = nn.Parameter(torch.empty(self.heads, **make))
        else:
            zero = None if config.sinks is None else torch.zeros(self.heads, **make)
            self.register_buffer("sinks", zero, persistent=False)
        self.mask = Held(config.mask).to(device)
        self.scores = Held(tuple(config.scores)).to(device)
        self.reset_parameters()

    @classmethod
    def from_config(
        cls, config: AttentionConfig, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """A layer with fresh weights.

        Args:
            config: its sizes and options.
            device: where the parameters are made.
            dtype: of the parameters.

        Example:
            >>> import headwise as hw
            >>> config = hw.nn.AttentionConfig(64, heads=8, qk_norm="rms")
            >>> hw.MultiHeadAttention.from_config(config).q_norm
            RMSNorm((8,), eps=1e-06, elementwise_affine=True)
        """
        options = {field.name: getattr(config, field.name) for field in fields(config)}
        return cls(**options, device=device, dtype=dtype)

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """The attention layer of a published model, with fresh weights.

        What is learned and no part of the layer, such as T5's relative table, comes with ``scores=...``.

        Args:
            name: for example "transformer-base", "bert-base", "gpt2", "llama3-8b"; an unknown name lists all.
            **changes: arguments of the constructor that replace those of the preset.

        Returns:
            A new module.

        Raises:
            SpecError: if there is no preset of that name.

        Example:
            >>> import headwise as hw
            >>> layer = hw.MultiHeadAttention.preset("smollm2-135m")
            >>> layer.heads, layer.kv_heads, layer.head_dim, layer.config.rotary.base
            (9, 3, 64, 100000.0)
        """
        if name not in PRESETS:
            what, rule = f"there is no preset {name!r}", f"known are {', '.join(PRESETS)}"
            raise SpecError(sentence(f"{_WHO}.preset", what, rule, todo=near(name, PRESETS, n=3)))
        return cls(**{**PRESETS[name], **changes})

    def reset_parameters(self) -> None:
        """Draws the weights anew: Xavier uniform for the matrices, zero for biases and sinks, one for norms.

        Example:
            >>> import torch, headwise as hw
            >>> layer = hw.MultiHeadAttention(8, 2)
            >>> layer.reset_parameters()
            >>> bool((layer.o_proj.bias == 0).all())
            True
        """
        reset(self)
        if self.sinks is not None:
            nn.init.zeros_(self.sinks)

    @without_others
    def forward(
        self,
        x: Tensor,
        context: Tensor | tuple[Tensor, Tensor] | None = None,
        *others: Never,
        mask: Mask | None = None,
        cache: Cache | None = None,
        positions: Tensor | None = None,
        **names: Never,
    ) -> Tensor:
        """The layer's output.

        Args:
            x: [B,T,M], where queries come from.
            context: [B,S,kdim], where keys and values come from; two tensors [B,S,kdim] and [B,S,vdim] where they
                come from different ones; None = x (self attention).
            mask: what this call hides beside the module's own mask, such as ``Padding``; over all keys, those held in
                the cache included.
            cache: a `KVCache` or another of headwise.nn's. In self attention the keys of x are appended to it and x
                stands behind what it held, under a mask that lets a text be cut there; in cross attention a `KVCache`
                is filled by the first call and read by the next ones with the same context. It changes only if the
                call succeeds.
            positions: for the rotary embedding, of the tokens of x: [T], [B,T], with several axes [A,B,T]; None = one
                after the other, behind those in the cache.

        Returns:
            [B,T,M].

        Raises:
            ShapeError: if x, context, mask and cache do not fit together in shape, dtype or device.
            SpecError: if the mask is not a mask, or the cache belongs to something else.

        Example:
            >>> import torch, headwise as hw
            >>> layer = hw.MultiHeadAttention(16, 4, mask=hw.Causal()).eval()
            >>> x, cache = torch.randn(1, 6, 16), hw.nn.KVCache()
            >>> with torch.no_grad():
            ...     parts = [layer(x[:, :4], cache=cache), layer(x[:, 4:], cache=cache)]
            ...     torch.allclose(torch.cat(parts, 1), layer(x), atol=1e-6)
            True
        """
        if others or names:
            raise not_taken(_WHO, type(self).forward, others, names, _TODO)
        with self._operands(x, context, mask, cache, positions) as operands:
            return self._projected(attention(**operands), x)

    @without_others
    def attend(
        self,
        x: Tensor,
        context: Tensor | tuple[Tensor, Tensor] | None = None,
        *others: Never,
        mask: Mask | None = None,
        cache: Cache | None = None,
        positions: Tensor | None = None,
        observe: Sequence[Any] = (),
        **names: Never,
    ) -> Attended:
        """The layer's output and whatever is asked of its pattern.

        Args:
            x, context, mask, cache, positions: as of `forward`.
            observe: observers, such as ``[Entropy(), TopKeys(8)]``; they see probabilities before dropout.

        Returns:
            What `headwise.attend` returns, with ``out`` [B,T,M] behind the output projection, the same bits as
            `forward`'s; ``lse`` [B,H,T], ``pattern`` (B,H,T,S) and ``seen`` are those of the heads.

        Raises:
            ShapeError: as `forward`.
            SpecError: as `forward`.

        Example:
            >>> import torch, headwise as hw
            >>> layer = hw.MultiHeadAttention(16, 4)
            >>> seen = layer.attend(torch.randn(2, 5, 16), torch.randn(2, 7, 16), observe=[hw.Received()])
            >>> seen.out.shape, seen.seen["received"].shape, seen.pattern.shape
            (torch.Size([2, 5, 16]), torch.Size([2, 4, 7]), torch.Size([2, 4, 5, 7]))
        """
        if others or names:
            raise not_taken(_WHO, type(self).attend, others, names, _TODO)
        with self._operands(x, context, mask, cache, positions) as operands:
            attended = attend(**operands, observe=observe)
            return replace(attended, out=self._projected(attended.out, x))

    def extra_repr(self) -> str:
        """The sizes, and the options that are not their defaults, for ``print(module)``."""
        config = self.config
        shown = [f"M={self.d_model}, H={self.heads}, Hk={self.kv_heads}, D={self.head_dim}"]
        shown += [f"kdim={self.kdim}, vdim={self.vdim}"] if (self.kdim, self.vdim) != (self.d_model,) * 2 else []
        options = {"dropout": self.dropout, "scale": self.scale}
        options |= {name: getattr(config, name) for name in ("rotary", "qk_norm", "sinks", "gate")}
        shown += [f"{name}={value!r}" for name, value in options.items() if value]
        return ", ".join(shown)

    @contextmanager
    def _operands(
        self, x: Tensor, context: Any, mask: Mask | None, cache: Cache | None, positions: Tensor | None
    ) -> Iterator[dict[str, Any]]:
        """The arguments of `headwise.attention` for one call; the cache keeps what it got if the block succeeds."""
        self._check(x, context, mask, cache, positions)
        own = cache if context is None else None  # of self attention
        at: int | Tensor = (0 if own is None else own.length) if positions is None else positions
        shown, scores = self.mask(), self.scores()
        if own is None:
            shown = both(shown, mask)
        else:
            shown, scores = through(_WHO, self, own, shown, mask, scores, x)
        operands = {
            "q": self._heads_of(x, "q", self.heads, at),
            "mask": shown,
            "scores": scores,
            "scale": self.scale,
            "sinks": self.sinks,
            "dropout": self.dropout if self.training else 0.0,
            "backend": self.backend,
        }
        if self.config.gate == "head":
            operands["gate"] = self.gate_proj(x).sigmoid().transpose(1, 2)
        across = cache if context is not None else None
        if across is not None:
            across.serve(self)
        if isinstance(across, KVCache) and across.holds(context):
            yield {**operands, "k": across.k, "v": across.v}
            return
        keys_from, values_from = context if isinstance(context, tuple) else (x if context is None else context,) * 2
        k = self._heads_of(keys_from, "k", self.kv_heads, at)
        v = self.v_proj(values_from).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2)
        if cache is None:
            yield {**operands, "k": k, "v": v}
            return
        # Positions need no word here: the queries are the last T of the S keys, which is what None means.
        with cache.appending(k, v) as (keys, values):
            yield {**operands, "k": keys, "v": values}
        if isinstance(across, KVCache):
            across.remember(context)

    def _heads_of(self, source: Tensor, name: str, heads: int, at: int | Tensor) -> Tensor:
        """Queries or keys [B,heads,T,D]: projected, normed, turned."""
        last, rotary = getattr(self, f"{name}_proj"), self.config.rotary
        made = last(source)
        if self.config.qk_norm == "rms-wide":
            last = getattr(self, f"{name}_norm")
            made = last(made)
        made = made.unflatten(-1, (heads, -1))
        if self.config.qk_norm in ("rms", "layer"):
            last = getattr(self, f"{name}_norm")
            made = last(made)
        made = made.transpose(1, 2)
        return made if rotary is None else rotary.rotate(made, at, inplace=output_is_ours(last))

    def _projected(self, out: Tensor, x: Tensor) -> Tensor:
        """[B,H,T,D] -> heads side by side, gated -> [B,T,M]."""
        joined = out.transpose(1, 2).flatten(2)
        if self.config.gate == "element":
            joined = joined * self.gate_proj(x).sigmoid()
        return self.o_proj(joined)

    def _check(self, x: Tensor, context: Any, mask: Any, cache: Any, positions: Any) -> None:
        mask_of(_WHO, mask)
        check_cache(_WHO, cache)
        if positions is not None and self.config.rotary is None:
            rule = "positions turn queries and keys, and this layer has no rotary embedding"
            raise SpecError(sentence(_WHO, "positions was given", rule, todo="Leave it out, or say rotary=..."))
        check_input(_WHO, "x", x, "B T M", self.d_model, self.q_proj)
        if context is not None:
            self._check_context(x, context, cache)
        elif (self.kdim, self.vdim) != (self.d_model, self.d_model):
            rule = f"keys come from width {self.kdim}, values from {self.vdim}, queries from {self.d_model}"
            todo = "Pass context."
            raise ShapeError(sentence(_WHO, "no context was given", rule, axes("x", x, "B T M"), todo))
        elif isinstance(cache, KVCache) and cache.is_of_context:
            what = "the cache holds the keys of a context, and no context was given"
            todo = "Pass the context, or another KVCache()."
            raise SpecError(sentence(_WHO, what, "self and cross attention each have a cache of their own", todo=todo))

    def _check_context(self, x: Tensor, context: Any, cache: Any) -> None:
        if self.config.rotary is not None:
            rule = "a rotary embedding compares positions of one sequence, and a context is another"
            raise SpecError(sentence(_WHO, "a context was given", rule, todo="Make the layer without rotary."))
        two = isinstance(context, tuple)
        if two and (len(context) != 2 or cache is not None):
            what = "a cache with two contexts" if len(context) == 2 else f"context has {len(context)} tensors"
            raise SpecError(sentence(_WHO, what, "it is one tensor, or without a cache two: keys' and values'"))
        if cache is not None and not isinstance(cache, KVCache):
            rule = "the keys of a context are remembered whole"
            what = f"a {type(cache).__name__} with a context"
            raise SpecError(sentence(_WHO, what, rule, todo="Use a KVCache()."))
        if not two and self.kdim != self.vdim:
            rule = f"keys come from width {self.kdim}, values from {self.vdim}"
            raise ShapeError(sentence(_WHO, "one context was given", rule, todo="Pass context=(keys, values)."))
        for source, width, linear in zip(
            context if two else (context,), (self.kdim, self.vdim), (self.k_proj, self.v_proj), strict=False
        ):
            check_input(_WHO, "context", source, "B S M", width, linear)
            if source.shape[0] != x.shape[0]:
                what = f"context has {source.shape[0]} batch rows, x has {x.shape[0]}"
                shapes = f"{axes('x', x, 'B T M')}, {axes('context', source, 'B S M')}"
                raise ShapeError(
                    sentence(_WHO, what, "both have the same batch size", shapes, "Expand the smaller one.")
                )
