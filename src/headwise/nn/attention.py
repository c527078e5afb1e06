"""Multi-head attention as a module: four ordinary Linears around `headwise.attention`."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import Self

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.nn.cache import KVCache
from headwise.nn.presets import PRESETS
from headwise.nn.rules import Held
from headwise.ops import Attended, attend, attention
from headwise.spec import Causal, Mask, Rules
from headwise.spec.checks import of_class

__all__ = ["MultiHeadAttention"]

_WHO = "MultiHeadAttention"


class MultiHeadAttention(nn.Module):
    """Multi-head attention, self or cross, with shared key/value heads, a mask, score rules, sinks and a cache.

    For each head h, with g(h) the key/value head that it reads:

        head_h = softmax(q_h k_g(h)^T * scale) v_g(h),    y = [head_1 ... head_H] W_O + b_O

    where q = x W_Q + b_Q and, with c the context (x itself if none is given), k = c W_K + b_K, v = c W_V + b_V.

    ``q_proj``, ``k_proj``, ``v_proj`` and ``o_proj`` are ordinary `torch.nn.Linear` that are really called, so that
    forward hooks, LoRA, pruning and quantisers find them.

    Args:
        d_model: M, the width of the input and the output.
        heads: H, the number of query heads.
        kv_heads: Hk, the number of key/value heads; None = H. It divides H; 1 is multi-query attention.
        head_dim: D, the width of a head; None = M / H, which then has to come out even.
        context_dim: the width of the context in cross attention; None = M.
        bias: whether q_proj, k_proj and v_proj have a bias.
        out_bias: whether o_proj has one; None = as ``bias``.
        dropout: probability that a cell of the pattern is dropped, in training only.
        scale: what q k^T is multiplied by; None = 1/sqrt(D).
        mask: what every call of this layer hides, such as ``Causal()``; the mask of a call narrows it further.
        scores: score rules, applied in order. Parameters inside them are trained with the module.
        sinks: whether each head learns one extra logit in its denominator (``self.sinks`` [H], first 0).
        backend: as in `headwise.attention`.
        device: where the parameters are made.
        dtype: of the parameters.

    Raises:
        SpecError: if d_model is not a multiple of heads, heads not one of kv_heads, or a number is out of its range.

    Source:
        Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2; Ainslie et al. 2023, "GQA", for kv_heads.

    Example:
        >>> import torch, headwise as hw
        >>> layer = hw.MultiHeadAttention(64, heads=8, kv_heads=2, mask=hw.Causal())
        >>> x = torch.randn(3, 10, 64)
        >>> layer(x).shape
        torch.Size([3, 10, 64])
        >>> layer.attend(x, observe=[hw.Entropy()]).seen["entropy"].shape
        torch.Size([3, 8, 10])
        >>> layer
        MultiHeadAttention(
          M=64, H=8, Hk=2, D=8, dropout=0.0
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
        d_model: int,
        heads: int,
        kv_heads: int | None = None,
        head_dim: int | None = None,
        *,
        context_dim: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        dropout: float = 0.0,
        scale: float | None = None,
        mask: Mask | None = None,
        scores: Sequence[Rules] = (),
        sinks: bool = False,
        backend: Any = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.d_model = _at_least_one("d_model", d_model)
        self.heads = _at_least_one("heads", heads)
        self.kv_heads = self.heads if kv_heads is None else _at_least_one("kv_heads", kv_heads)
        self.context_dim = self.d_model if context_dim is None else _at_least_one("context_dim", context_dim)
        if head_dim is None:
            self.head_dim = _divided(self.d_model, self.heads)
        else:
            self.head_dim = _at_least_one("head_dim", head_dim)
        if self.heads % self.kv_heads:
            raise SpecError(
                sentence(
                    _WHO,
                    f"{self.heads} heads cannot share {self.kv_heads} key/value heads",
                    "kv_heads must divide heads",
                    todo=f"Use {_listed(_divisors(self.heads))} key/value heads.",
                )
            )
        if not _is_number(dropout) or not 0.0 <= dropout < 1.0:
            raise SpecError(sentence(_WHO, f"dropout is {dropout!r}", "it is a probability, at least 0 and below 1"))
        if scale is not None and not (_is_number(scale) and math.isfinite(scale)):
            raise SpecError(sentence(_WHO, f"scale is {scale!r}", "it is a finite number, or None for 1/sqrt(D)"))
        if mask is not None and not isinstance(mask, Mask):
            raise SpecError(_not_a_mask(mask))
        if not isinstance(scores, (tuple, list)) or not all(isinstance(rule, Rules) for rule in scores):
            raise SpecError(_not_rules(scores))
        self.dropout = float(dropout)
        self.scale = None if scale is None else float(scale)
        self.backend = backend
        make: dict[str, Any] = {"device": device, "dtype": dtype}
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.q_proj = nn.Linear(self.d_model, queries, bias=bias, **make)
        self.k_proj = nn.Linear(self.context_dim, keys, bias=bias, **make)
        self.v_proj = nn.Linear(self.context_dim, keys, bias=bias, **make)
        out_bias = bias if out_bias is None else out_bias
        self.o_proj = nn.Linear(queries, self.d_model, bias=out_bias, **make)
        self.sinks = nn.Parameter(torch.empty(self.heads, **make)) if sinks else None
        self.mask = Held(mask).to(device)
        self.scores = Held(tuple(scores)).to(device)
        self.reset_parameters()

    @classmethod
    def preset(cls, name: str, **changes: Any) -> Self:
        """The attention layer of a published model, with fresh weights.

        Widths, head counts, biases, mask, soft cap and sinks are the model's; rotary embeddings and norms of q and k
        are not part of this layer.

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
            >>> layer.heads, layer.kv_heads, layer.head_dim
            (9, 3, 64)
        """
        if name not in PRESETS:
            near = difflib.get_close_matches(name, PRESETS, n=3, cutoff=0.4)
            todo = f"Did you mean {_listed([repr(n) for n in near])}?" if near else ""
            raise SpecError(
                sentence(f"{_WHO}.preset", f"there is no preset {name!r}", f"known are {', '.join(PRESETS)}", "", todo)
            )
        return cls(**{**PRESETS[name], **changes})

    def reset_parameters(self) -> None:
        """Draws the weights anew: Xavier uniform for the four matrices, zero for biases and sinks.

        Example:
            >>> import torch, headwise as hw
            >>> layer = hw.MultiHeadAttention(8, 2)
            >>> layer.reset_parameters()
            >>> bool((layer.o_proj.bias == 0).all())
            True
        """
        for linear in (self.q_proj, self.k_proj, self.v_proj, self.o_proj):
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
        if self.sinks is not None:
            nn.init.zeros_(self.sinks)

    def forward(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:
        """The layer's output.

        Args:
            x: [B,T,M], where queries come from.
            context: [B,S,context_dim], where keys and values come from; None = x (self attention).
            mask: what this call hides beside the module's own mask, such as ``Padding``; over all keys, those held in
                the cache included.
            cache: a `KVCache`. In self attention the keys of x are appended to it and x stands behind what it held;
                in cross attention it is filled by the first call and read by the next ones with the same context.
                It changes only if the call succeeds.

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
        with self._operands(x, context, mask, cache) as operands:
            return self._projected(attention(**operands))

    def attend(
        self,
        x: Tensor,
        context: Tensor | None = None,
        *,
        mask: Mask | None = None,
        cache: KVCache | None = None,
        observe: Sequence[Any] = (),
    ) -> Attended:
        """The layer's output and whatever is asked of its pattern.

        Args:
            x: [B,T,M].
            context: [B,S,context_dim]; None = x.
            mask: what this call hides, as in `forward`.
            cache: as in `forward`.
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
        with self._operands(x, context, mask, cache) as operands:
            attended = attend(**operands, observe=observe)
            return replace(attended, out=self._projected(attended.out))

    def extra_repr(self) -> str:
        """The sizes, for ``print(module)``."""
        sizes = f"M={self.d_model}, H={self.heads}, Hk={self.kv_heads}, D={self.head_dim}"
        context = f", context_dim={self.context_dim}" if self.context_dim != self.d_model else ""
        return f"{sizes}{context}, dropout={self.dropout}"

    @contextmanager
    def _operands(
        self, x: Tensor, context: Tensor | None, mask: Mask | None, cache: KVCache | None
    ) -> Iterator[dict[str, Any]]:
        """The arguments of `headwise.attention` for one call; the cache keeps what it got if the block succeeds."""
        self._check(x, context, mask, cache)
        operands = {
            "q": self._split(self.q_proj(x), self.heads),
            "mask": _both(self.mask(), mask),
            "scores": self.scores(),
            "scale": self.scale,
            "sinks": self.sinks,
            "dropout": self.dropout if self.training else 0.0,
            "backend": self.backend,
        }
        if cache is not None and context is not None and cache.holds(context):
            yield {**operands, "k": cache.k, "v": cache.v}
            return
        source = x if context is None else context
        k = self._split(self.k_proj(source), self.kv_heads)
        v = self._split(self.v_proj(source), self.kv_heads)
        if cache is None:
            yield {**operands, "k": k, "v": v}
            return
        if context is None:
            _check_positions(operands["mask"])
        # Positions need no word here: the queries are the last T of the S keys, which is what None means.
        with cache.appending(k, v) as (keys, values):
            yield {**operands, "k": keys, "v": values}
        if context is not None:
            cache.remember(context)

    def _split(self, projected: Tensor, heads: int) -> Tensor:
        """[B,T,heads*D] -> [B,heads,T,D], a view."""
        return projected.unflatten(-1, (heads, -1)).transpose(1, 2)

    def _projected(self, out: Tensor) -> Tensor:
        """[B,H,T,D] -> heads side by side -> [B,T,M]."""
        return self.o_proj(out.transpose(1, 2).flatten(2))

    def _check(self, x: Tensor, context: Tensor | None, mask: Any, cache: KVCache | None) -> None:
        if mask is not None and not isinstance(mask, Mask):
            raise SpecError(_not_a_mask(mask))
        if cache is not None and not isinstance(cache, KVCache):
            raise SpecError(sentence(_WHO, f"cache is a {type(cache).__name__}", "it is a headwise.nn.KVCache"))
        self._check_input("x", x, "B T M", self.d_model, self.q_proj)
        if context is not None:
            self._check_input("context", context, "B S M", self.context_dim, self.k_proj)
            if context.shape[0] != x.shape[0]:
                raise ShapeError(
                    sentence(
                        _WHO,
                        f"context has {context.shape[0]} batch rows, x has {x.shape[0]}",
                        "both have the same batch size",
                        f"{axes('x', x, 'B T M')}, {axes('context', context, 'B S M')}",
                        "Expand the smaller one.",
                    )
                )
        elif self.context_dim != self.d_model:
            raise ShapeError(
                sentence(
                    _WHO,
                    "no context was given",
                    f"this layer reads keys of width {self.context_dim} and queries of width {self.d_model}, so it "
                    "cannot attend to its own input",
                    axes("x", x, "B T M"),
                    "Pass context.",
                )
            )
        elif cache is not None and cache.is_of_context:
            raise SpecError(
                sentence(
                    _WHO,
                    "the cache holds the keys of a context, and no context was given",
                    "self and cross attention each have a cache of their own",
                    todo="Pass the context, or another KVCache().",
                )
            )

    def _check_input(self, name: str, x: Tensor, letters: str, width: int, linear: nn.Module) -> None:
        if not isinstance(x, Tensor):
            raise SpecError(sentence(_WHO, f"{name} is a {type(x).__name__}", "it is a torch tensor"))
        if x.dim() != 3 or x.shape[-1] != width:
            todo = f"Use {name}[None] for a single sequence." if x.dim() == 2 and x.shape[-1] == width else ""
            raise ShapeError(
                sentence(
                    _WHO,
                    f"{name} has {x.dim()} axes and width {x.shape[-1] if x.dim() else 0}",
                    f"{name} is [{letters.replace(' ', ',')}] with M={width}",
                    axes(name, x, letters),
                    todo,
                )
            )
        # A quantised or wrapped projection may take what its own weight does not tell; only a plain weight is compared.
        weight = getattr(linear, "weight", None)
        if not isinstance(weight, Tensor) or not weight.is_floating_point():
            return
        same_device = x.device == weight.device
        if not same_device or (x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type)):
            raise ShapeError(
                sentence(
                    _WHO,
                    f"{name} is {x.dtype} on {x.device}, the weights are {weight.dtype} on {weight.device}",
                    "they agree in dtype and device",
                    axes(name, x, letters),
                    f"Convert with {name}.to({str(weight.device)!r}, {weight.dtype}).",
                )
            )


def _both(own: Mask | None, given: Mask | None) -> Mask | None:
    """What neither mask hides."""
    if own is None or given is None:
        return given if own is None else own
    return own & given


def _check_positions(mask: Any) -> None:
    """Refuses a mask that would count the positions of a cached call from 0 again."""
    if mask is not None and any(isinstance(part, Causal) and part.align == "start" for part in mask.parts()):
        raise SpecError(
            sentence(
                _WHO,
                'Causal(align="start") with a cache',
                "it puts the first query of every call at position 0, but cached queries stand behind the keys held",
                todo="Use Causal().",
            )
        )


def _not_a_mask(value: Any) -> str:
    todo = "Wrap a boolean keep-tensor in headwise.Dense, key padding in headwise.Padding." if _is_tensor(value) else ""
    rule = "a mask is one of headwise's, in which True means may attend"
    what, made = of_class(value, Mask, "mask") or (f"mask is a {type(value).__name__}", "")
    return sentence(_WHO, what, rule, todo=f"Write {made}." if made else todo)


def _not_rules(scores: Any) -> str:
    rules = scores if isinstance(scores, (tuple, list)) else (scores,)
    wrong = next((rule for rule in rules if not isinstance(rule, Rules)), scores)
    what, made = of_class(wrong, Rules, "score rule") or (
        f"scores is {scores!r}",
        repr(scores) if isinstance(scores, Rules) else "",
    )
    return sentence(_WHO, what, "scores is a tuple of score rules", todo=f"Write scores=({made},)." if made else "")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


def _at_least_one(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SpecError(sentence(_WHO, f"{name} is {value!r}", "it is a whole number of at least 1"))
    return value


def _divided(d_model: int, heads: int) -> int:
    if d_model % heads:
        near = sorted(sorted(_divisors(d_model), key=lambda n: abs(n - heads))[:4])
        raise SpecError(
            sentence(
                _WHO,
                f"d_model {d_model} cannot be cut into {heads} equal heads",
                "heads must divide d_model unless head_dim is given",
                todo=f"Use {_listed(near)} heads, or say head_dim=... for heads of a width of their own.",
            )
        )
    return d_model // heads


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _listed(items: Sequence[Any]) -> str:
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
