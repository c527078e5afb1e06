"""Any cache of headwise as a cache of transformers.

This module is transformers' own kind of class, like headwise.models.cache; headwise.models imports it on first use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import CacheLayerMixin, DynamicCache, DynamicLayer, DynamicSlidingWindowLayer

from headwise.errors import HeadwiseError, SpecError, UnsupportedError, sentence
from headwise.nn.cache import Cache
from headwise.nn.ring import RingCache
from headwise.nn.static import StaticCache

__all__ = ["CacheLayer", "TransformersCache"]


class CacheLayer(CacheLayerMixin):  # type: ignore[misc]  # its base is transformers', which mypy does not follow
    """The cache of one layer: a cache of headwise, called the way transformers calls its own.

    Args:
        cache: the cache, empty.
        window: the layer's own ``sliding_window``, the query's key included; None = it attends to everything before it.
    """

    is_croppable = True

    def __init__(self, cache: Cache, window: int | None = None) -> None:
        # Not the base's, which would set `keys` and `values`: here they are read from the cache.
        if isinstance(cache, RingCache) and cache.sinks:
            raise UnsupportedError(
                sentence(
                    "TransformersCache",
                    f"{cache!r} has sinks",
                    "a mask of transformers is made for one run of keys, so it can say neither the place nor the"
                    " padding of keys before a gap",
                    todo=f"Use RingCache({cache.window}) here; sinks work in hw.MultiHeadAttention.",
                )
            )
        self.cache, self.window = cache, window
        self.is_initialized = False

    @property
    def is_sliding(self) -> bool:
        """Whether the layer lets tokens go, so that its masks are made for the last ones."""
        return isinstance(self.cache, RingCache)

    @property
    def keys(self) -> Tensor | None:
        """The keys held, [B,Hk,held,D], to be read only; None while there are none."""
        return self.cache.k

    @property
    def values(self) -> Tensor | None:
        """The values held, [B,Hk,held,E], to be read only; None while there are none."""
        return self.cache.v

    def __repr__(self) -> str:
        return f"CacheLayer({self.cache!r})"

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Notes that the layer is in use."""
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Appends keys [B,Hk,T,D] and values [B,Hk,T,E]; returns those that the T queries read."""
        self.refuse_wide_calls(key_states.shape[-2])
        read = self.cache.append(key_states, value_states)
        self.lazy_initialization(key_states, value_states)
        return read

    def refuse_wide_calls(self, new: int) -> None:
        """A ring hides by letting go. Of tokens that come in one call, only the layer's own mask can hide some.

        Args:
            new: how many tokens come.

        Raises:
            UnsupportedError: if they come to a ring and the layer's mask would show them more than the ring.
        """
        if not isinstance(self.cache, RingCache) or new == 1:
            return
        ring = self.cache.window
        if (self.window is not None and self.window <= ring) or self.cache.held + new <= ring:
            return
        own = "no window" if self.window is None else f"a window of {self.window}"
        raise UnsupportedError(
            sentence(
                "TransformersCache",
                f"{new} tokens come in one call behind {self.cache.held} held, in a layer of {own}",
                f"its mask would let a query see more than the {ring} tokens of the ring",
                todo=f"Let the tokens come one by one (generate(..., prefill_chunk_size=1)), or use RingCache(n) with n"
                f" at least {self.cache.held + new if self.window is None else self.window}, or a model's config whose"
                " layers have a window.",
            )
        )

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """How many keys `update` will return, and where the first of them stands."""
        return self.cache.held + query_length, self.cache.length - self.cache.held

    def get_seq_length(self) -> int:
        """Tokens seen so far."""
        return self.cache.length

    def get_max_length(self) -> int:
        """How many tokens fit; -1 = any number."""
        return self.cache.capacity if isinstance(self.cache, StaticCache) else -1

    def crop(self, tokens_to_remove: int) -> None:
        """Forgets the last ``-tokens_to_remove`` tokens."""
        if tokens_to_remove > 0:
            raise SpecError(
                sentence(
                    "TransformersCache.crop",
                    f"tokens_to_remove is {tokens_to_remove}",
                    "transformers says with a negative number how many tokens go",
                    todo=f"Use crop({-tokens_to_remove}).",
                )
            )
        if tokens_to_remove:
            self.cache.crop(tokens_to_remove)

    def reset(self) -> None:
        """Forgets everything."""
        self.cache.reset()
        self.is_initialized = False

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Rows (beams) of the batch, in the order that beam search asks for."""
        self.cache.reorder(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row ``repeats`` times, side by side."""
        self.cache.reorder(
            torch.arange(self.cache.batch or 0, device="cpu", dtype=torch.int64).repeat_interleave(repeats)
        )

    def batch_select_indices(self, indices: Tensor) -> None:
        """Some rows of the batch."""
        if self.cache.batch is not None:
            self.cache.reorder(torch.arange(self.cache.batch, device="cpu", dtype=torch.int64)[indices.cpu()])

    def offload(self) -> None:
        """Refused: a cache stays where it is."""
        raise UnsupportedError(
            sentence(
                "TransformersCache",
                "offload() was called",
                "keys stay on the device that they came from",
                todo="Use transformers' DynamicCache(offloading=True).",
            )
        )

    prefetch = offload


class TransformersCache(DynamicCache):  # type: ignore[misc]  # as above
    """Caches of headwise, one a layer, for ``generate`` or any call of a transformers model.

    The tokens and logits are those of transformers' ``DynamicCache``, but for what the kind of cache means: a
    `QuantisedCache` rounds, and a `RingCache(window)` in a layer without a window, or with a wider one, is the model
    with that window. A ring's prompt that no mask of the model would hide enough of is refused, not approximated, and
    so are sinks, of which transformers' masks know nothing. Every other cache holds all tokens of every layer; where a
    layer has a window its own mask applies it.

    Layers that hold more than keys and values (state-space, indexed, compressed ones) stay transformers' own. In an
    encoder-decoder: ``EncoderDecoderCache(TransformersCache(make), TransformersCache(make))``.

    Args:
        make: gives a new, empty cache for a layer each time it is called. Caches may share a `PagePool`.
        config: the model's config. It says which layers have a window or hold other states; without it layers are made
            as they come, and none is known to have a window.

    Raises:
        SpecError: if ``make`` gives no cache, or not a new one.
        UnsupportedError: if it gives a ring with sinks; later, if a ring cannot be exact.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.models.adapter import TransformersCache
        >>> from headwise.nn.paged import PagedCache
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> sizes = {"hidden_size": 8, "intermediate_size": 8, "vocab_size": 16, "eos_token_id": None}
        >>> config = LlamaConfig(num_hidden_layers=1, num_attention_heads=2, **sizes)
        >>> cache = TransformersCache(lambda: PagedCache(page_size=3), config)
        >>> _ = LlamaForCausalLM(config).generate(torch.tensor([[1, 2, 3]]), cache=cache, max_new_tokens=4)
        >>> cache
        TransformersCache(layers=[CacheLayer(PagedCache(page_size=3, B=1, Hk=2, S=6, D=4, E=4))])
    """

    layers: list[Any]

    def __init__(self, make: Callable[[], Cache], config: Any = None) -> None:
        if not callable(make):
            what, rule = f"make is {make!r}", "it gives a new cache for each layer"
            todo = f"Give the class, {type(make).__name__}, or a lambda." if isinstance(make, Cache) else ""
            raise SpecError(sentence("TransformersCache", what, rule, todo=todo))
        super().__init__(config=config)
        self._make = make
        if config is None:
            self.layer_class_to_replicate = self._layer
        else:
            layers, self.layers = self.layers, []
            for layer in layers:
                self.layers.append(self._taken(layer))

    def __getstate__(self) -> dict[str, Any]:
        """Where all layers are made, what made them need not go into a file."""
        state = dict(vars(self))
        if self.layer_class_to_replicate is None:
            del state["_make"]
        return state

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        """As transformers' own. It is asked before a call reaches any layer, so a ring refuses the whole call here."""
        for layer in self._ours():
            layer.refuse_wide_calls(query_length)
        sizes: tuple[int, int] = super().get_mask_sizes(query_length, layer_idx)
        return sizes

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Appends to one layer; where that fails, the layers before it forget the call too."""
        try:
            read: tuple[Tensor, Tensor] = super().update(key_states, value_states, layer_idx, *args, **kwargs)
        except HeadwiseError:
            length = self.get_seq_length(layer_idx)
            for layer in self._ours()[:layer_idx]:
                layer.cache.crop(min(length, layer.cache.length))
            raise
        return read

    def _ours(self) -> list[CacheLayer]:
        return [layer for layer in self.layers if isinstance(layer, CacheLayer)]

    def _taken(self, layer: Any) -> Any:
        """Our layer in the place of one of transformers'."""
        if type(layer) is DynamicLayer:
            return self._layer()
        return self._layer(layer.sliding_window) if type(layer) is DynamicSlidingWindowLayer else layer

    def _layer(self, window: int | None = None) -> CacheLayer:
        cache = self._make()
        is_taken = any(layer.cache is cache for layer in self._ours())
        if not isinstance(cache, Cache) or cache.length or is_taken:
            raise SpecError(
                sentence(
                    "TransformersCache",
                    f"make() gave {cache!r}" + (" for a second layer" if is_taken else ""),
                    "it gives a new, empty cache of headwise each time",
                    todo="Write lambda: hw.nn.KVCache(), for example.",
                )
            )
        return CacheLayer(cache, window)
