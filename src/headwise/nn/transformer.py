"""The original Transformer, assembled from `MultiHeadAttention`: encoder, decoder, and the attention between them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.nn.attention import MultiHeadAttention
from headwise.nn.cache import Cache, KVCache
from headwise.nn.checking import at_least_one, one_of
from headwise.nn.config import AttentionConfig
from headwise.spec import Causal, Mask, Padding, Rules, SoftCap
from headwise.spec.checks import is_integer

__all__ = ["Decoder", "DecoderLayer", "Encoder", "EncoderLayer", "FeedForward", "Transformer", "sinusoids"]

Norm = Literal["pre", "post"]


def sinusoids(length: int, d_model: int, start: int = 0) -> Tensor:
    """Sinusoidal position encodings: ``sin(t / 10000^(2k/M))`` at 2k and the cosine of the same at 2k + 1.

    Args:
        length: T.
        d_model: M, even.
        start: position of the first.

    Returns:
        [T,M] float32.

    Source: Vaswani et al. 2017, section 3.5.

    Example:
        >>> from headwise.nn.transformer import sinusoids
        >>> sinusoids(2, 2)
        tensor([[0.0000, 1.0000],
                [0.8415, 0.5403]])
    """
    if d_model % 2:
        raise SpecError(
            sentence("sinusoids", f"d_model is {d_model}", "sines and cosines come in pairs, so it is even")
        )
    speeds = 10_000.0 ** -(torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu") / d_model)
    angles = torch.arange(start, start + length, dtype=torch.float64, device="cpu")[:, None] * speeds
    return torch.stack((angles.sin(), angles.cos()), -1).flatten(1).float()


class FeedForward(nn.Module):
    """Two Linears with a nonlinearity between, token by token: ``relu(x W_1 + b_1) W_2 + b_2``.

    Args:
        d_model: M.
        width: of the layer between.
        activation: the nonlinearity.
        dropout: between the two.
        device: where the parameters are made.
        dtype: of the parameters.

    Source: Vaswani et al. 2017, section 3.3.

    Example:
        >>> import torch
        >>> from headwise.nn.transformer import FeedForward
        >>> FeedForward(8, 32)(torch.zeros(2, 3, 8)).shape
        torch.Size([2, 3, 8])
    """

    def __init__(
        self,
        d_model: int,
        width: int,
        activation: Callable[[Tensor], Tensor] = torch.relu,
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.up = nn.Linear(d_model, width, device=device, dtype=dtype)
        self.down = nn.Linear(width, d_model, device=device, dtype=dtype)
        self.activation, self.dropout = activation, nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """[B,T,M] -> [B,T,M]."""
        return self.down(self.dropout(self.activation(self.up(x))))


class _Layer(nn.Module):
    """Sublayers, each with a norm and a residual connection around it."""

    def __init__(self, config: AttentionConfig, norm: Norm, dropout: float, sublayers: int, **make: Any) -> None:
        super().__init__()
        one_of("Transformer", "norm", norm, ("pre", "post"))
        if (config.kdim, config.vdim) != (config.d_model, config.d_model):
            what = f"keys come from width {config.kdim}, values from {config.vdim}, the model is {config.d_model} wide"
            raise SpecError(sentence("Transformer", what, "a layer of a stack reads what the one below it writes"))
        self.norm = norm
        self.norms = nn.ModuleList(nn.LayerNorm(config.d_model, **make) for _ in range(sublayers))
        self.dropout = nn.Dropout(dropout)

    def _around(self, n: int, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """``x + sublayer(norm(x))``, or as in the paper ``norm(x + sublayer(x))``."""
        if self.norm == "pre":
            return x + self.dropout(sublayer(self.norms[n](x)))
        return self.norms[n](x + self.dropout(sublayer(x)))


class EncoderLayer(_Layer):
    """Self attention, then a feed-forward layer.

    Args:
        config: of the attention.
        d_ff: the width of the feed-forward layer; None = 4 M.
        norm: "post" as in the paper, or "pre", which trains without warm-up.
        dropout: of what each sublayer adds.
        activation: of the feed-forward layer.
        device: where the parameters are made.
        dtype: of the parameters.

    Source: Vaswani et al. 2017, section 3.1; Xiong et al. 2020 (arXiv 2002.04745) for "pre".

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.nn.transformer import EncoderLayer
        >>> EncoderLayer(hw.nn.AttentionConfig(16, 4))(torch.zeros(2, 5, 16)).shape
        torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        config: AttentionConfig,
        d_ff: int | None = None,
        *,
        norm: Norm = "post",
        dropout: float = 0.0,
        activation: Callable[[Tensor], Tensor] = torch.relu,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        make: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(config, norm, dropout, 2, **make)
        self.self_attn = MultiHeadAttention.from_config(config, **make)
        self.feed_forward = FeedForward(config.d_model, _width(config, d_ff), activation, dropout, **make)

    def forward(self, x: Tensor, *, mask: Mask | None = None, cache: Cache | None = None) -> Tensor:
        """The layer's output.

        Args:
            x: [B,T,M].
            mask: what this call hides, such as ``Padding(lengths)``.
            cache: of the self attention, where the layer is causal.

        Returns:
            [B,T,M].
        """
        x = self._around(0, x, lambda y: self.self_attn(y, mask=mask, cache=cache))
        return self._around(1, x, self.feed_forward)


@dataclass
class DecoderCache:
    """What a `DecoderLayer` remembers: its own past, and the keys of the memory.

    Example:
        >>> from headwise.nn.transformer import DecoderCache
        >>> DecoderCache().own
        KVCache(S=0)
    """

    own: Cache = field(default_factory=KVCache)
    memory: KVCache = field(default_factory=KVCache)


class DecoderLayer(_Layer):
    """Causal self attention, attention to the encoder's output, then a feed-forward layer.

    Args:
        config, d_ff, norm, dropout, activation, device, dtype: as of `EncoderLayer`. The self attention hides what
            ``config.mask`` hides and later tokens. What tells positions apart, a rotary embedding or a rule of
            distances, is for self attention only: source and target have none in common.

    Source: Vaswani et al. 2017, section 3.1.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.nn.transformer import DecoderLayer
        >>> DecoderLayer(hw.nn.AttentionConfig(16, 4))(torch.zeros(2, 5, 16), torch.zeros(2, 7, 16)).shape
        torch.Size([2, 5, 16])
    """

    def __init__(
        self,
        config: AttentionConfig,
        d_ff: int | None = None,
        *,
        norm: Norm = "post",
        dropout: float = 0.0,
        activation: Callable[[Tensor], Tensor] = torch.relu,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        make: dict[str, Any] = {"device": device, "dtype": dtype}
        super().__init__(config, norm, dropout, 3, **make)
        causal: Mask = Causal() if config.mask is None else Causal() & config.mask
        self.self_attn = MultiHeadAttention.from_config(replace(config, mask=causal), **make)
        across = replace(config, mask=None, rotary=None, scores=tuple(r for r in config.scores if not _is_placed(r)))
        self.cross_attn = MultiHeadAttention.from_config(across, **make)
        self.feed_forward = FeedForward(config.d_model, _width(config, d_ff), activation, dropout, **make)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """The layer's output.

        Args:
            x: [B,T,M].
            memory: the encoder's output [B,S,M]; with a cache the same tensor at every step.
            mask: what the self attention hides besides.
            memory_mask: what the attention to the memory hides, such as ``Padding(lengths)``.
            cache: for decoding; x then stands behind what it holds.

        Returns:
            [B,T,M].
        """
        own, across = (None, None) if cache is None else (cache.own, cache.memory)
        x = self._around(0, x, lambda y: self.self_attn(y, mask=mask, cache=own))
        x = self._around(1, x, lambda y: self.cross_attn(y, memory, mask=memory_mask, cache=across))
        return self._around(2, x, self.feed_forward)


class Encoder(nn.Module):
    """A stack of `EncoderLayer`; behind layers with "pre" norms stands one more.

    Args:
        config: of the attention of every layer.
        layers: how many.
        norm: "post" or "pre".
        **options: d_ff, dropout, activation, device, dtype of the layers.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.nn.transformer import Encoder
        >>> Encoder(hw.nn.AttentionConfig(16, 4), 2, norm="pre")(torch.zeros(2, 5, 16)).shape
        torch.Size([2, 5, 16])
    """

    def __init__(self, config: AttentionConfig, layers: int, *, norm: Norm = "post", **options: Any) -> None:
        super().__init__()
        at_least_one("Encoder", "layers", layers)
        self.layers = nn.ModuleList(EncoderLayer(config, norm=norm, **options) for _ in range(layers))
        self.norm = _last_norm(config, norm, options)

    def forward(self, x: Tensor, *, mask: Mask | None = None) -> Tensor:
        """[B,T,M] -> [B,T,M]."""
        for layer in self.layers:
            x = layer(x, mask=mask)
        return self.norm(x)


class Decoder(nn.Module):
    """A stack of `DecoderLayer`; behind layers with "pre" norms stands one more.

    Args:
        config, layers, norm, options: as of `Encoder`.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.nn.transformer import Decoder
        >>> Decoder(hw.nn.AttentionConfig(16, 4), 2)(torch.zeros(2, 5, 16), torch.zeros(2, 7, 16)).shape
        torch.Size([2, 5, 16])
    """

    def __init__(self, config: AttentionConfig, layers: int, *, norm: Norm = "post", **options: Any) -> None:
        super().__init__()
        at_least_one("Decoder", "layers", layers)
        self.layers = nn.ModuleList(DecoderLayer(config, norm=norm, **options) for _ in range(layers))
        self.norm = _last_norm(config, norm, options)

    def caches(self) -> list[DecoderCache]:
        """An empty cache for each layer."""
        return [DecoderCache() for _ in self.layers]

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        *,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        caches: list[DecoderCache] | None = None,
    ) -> Tensor:
        """[B,T,M] and the encoder's [B,S,M] -> [B,T,M]."""
        for n, layer in enumerate(self.layers):
            cache = None if caches is None else caches[n]
            x = layer(x, memory, mask=mask, memory_mask=memory_mask, cache=cache)
        return self.norm(x)


class Transformer(nn.Module):
    """The encoder-decoder Transformer over tokens, with sinusoidal positions and one embedding for all three uses.

    Args:
        vocabulary: number of tokens, of the source and the target alike.
        config: of the attention; its ``d_model`` is the model's. A config with a rotary embedding or other positions of
            its own replaces the sinusoids.
        layers: of the encoder, and of the decoder.
        d_ff: the width of the feed-forward layers; None = 4 M.
        norm: "post" as in the paper, or "pre".
        dropout: of embeddings and of what each sublayer adds.
        device: where the parameters are made.
        dtype: of the parameters.

    Source: Vaswani et al. 2017, "Attention Is All You Need" (arXiv 1706.03762), section 3.

    Example:
        >>> import torch, headwise as hw
        >>> model = hw.nn.Transformer(11, hw.nn.AttentionConfig(16, 4), layers=2).eval()
        >>> source, lengths = torch.randint(1, 11, (2, 5)), torch.tensor([5, 3])
        >>> model(source, torch.zeros(2, 4, dtype=torch.long), source_lengths=lengths).shape
        torch.Size([2, 4, 11])
        >>> model.generate(source, start=0, tokens=6, source_lengths=lengths).shape
        torch.Size([2, 6])
    """

    def __init__(
        self,
        vocabulary: int,
        config: AttentionConfig,
        layers: int,
        d_ff: int | None = None,
        *,
        norm: Norm = "post",
        dropout: float = 0.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(config, AttentionConfig):
            what = f"config is a {type(config).__name__}"
            raise SpecError(sentence("Transformer", what, "it is a headwise.nn.AttentionConfig"))
        at_least_one("Transformer", "vocabulary", vocabulary)
        make: dict[str, Any] = {"device": device, "dtype": dtype}
        options: dict[str, Any] = {"d_ff": d_ff, "norm": norm, "dropout": dropout, **make}
        self.config = config
        self.embedding = nn.Embedding(vocabulary, config.d_model, **make)
        self.encoder = Encoder(config, layers, **options)
        self.decoder = Decoder(config, layers, **options)
        self.dropout = nn.Dropout(dropout)
        # Read times sqrt(M) on the way in and as it is on the way out, as in section 3.4.
        nn.init.normal_(self.embedding.weight, std=config.d_model**-0.5)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_lengths: Tensor | None = None,
        target_lengths: Tensor | None = None,
    ) -> Tensor:
        """Scores of the next token at every place of the target.

        Args:
            source: tokens [B,S], integers.
            target: tokens [B,T]; place t may read target[:, : t + 1] and all of the source.
            source_lengths, target_lengths: integers [B]; what lies behind is padding. None = none is.

        Returns:
            Logits [B,T,vocabulary]; of places that are padding, numbers without meaning.

        Raises:
            ShapeError: if the tokens are not [B,S] and [B,T] integers.
        """
        memory, hidden = self._encoded(source, source_lengths)
        own = None if target_lengths is None else Padding(target_lengths)
        x = self.decoder(self._embedded("target", target), memory, mask=own, memory_mask=hidden)
        return x @ self.embedding.weight.T

    @torch.no_grad()
    def generate(self, source: Tensor, *, start: int, tokens: int, source_lengths: Tensor | None = None) -> Tensor:
        """The most likely next token, one after the other, as in eval: nothing is dropped.

        Args:
            source: tokens [B,S].
            start: the token that stands before the first.
            tokens: how many to make.
            source_lengths: integers [B].

        Returns:
            Tokens [B,tokens].
        """
        was_training = self.training
        self.eval()
        try:
            memory, hidden = self._encoded(source, source_lengths)
            caches, last = self.decoder.caches(), torch.full_like(source[:, :1], start)
            made = [source[:, :0]]
            for t in range(tokens):
                x = self.decoder(self._embedded("target", last, t), memory, memory_mask=hidden, caches=caches)
                last = (x @ self.embedding.weight.T).argmax(-1)
                made.append(last)
        finally:
            self.train(was_training)
        return torch.cat(made, 1)

    def _encoded(self, source: Tensor, lengths: Tensor | None) -> tuple[Tensor, Mask | None]:
        mask = None if lengths is None else Padding(lengths)
        return self.encoder(self._embedded("source", source), mask=mask), mask

    def _embedded(self, name: str, tokens: Tensor, start: int = 0) -> Tensor:
        if not isinstance(tokens, Tensor) or tokens.dim() != 2 or not is_integer(tokens):
            found = axes(name, tokens, "B T") if isinstance(tokens, Tensor) else repr(tokens)
            raise ShapeError(sentence("Transformer", f"{name} is {found}", "tokens are integers [B,T]"))
        x = self.embedding(tokens) * math.sqrt(self.config.d_model)
        if self.config.rotary is None and not any(_is_placed(rule) for rule in self.config.scores):
            x = x + sinusoids(tokens.shape[1], self.config.d_model, start).to(x)
        return self.dropout(x)


def _is_placed(rule: Rules) -> bool:
    """Whether a score rule may tell positions apart."""
    return not isinstance(rule, SoftCap)


def _width(config: AttentionConfig, d_ff: int | None) -> int:
    return 4 * config.d_model if d_ff is None else at_least_one("Transformer", "d_ff", d_ff)


def _last_norm(config: AttentionConfig, norm: Norm, options: dict[str, Any]) -> nn.Module:
    if norm == "post":
        return nn.Identity()
    return nn.LayerNorm(config.d_model, device=options.get("device"), dtype=options.get("dtype"))
