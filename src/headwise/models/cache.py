"""The cache that `generate` keeps the past in: one that does not copy it at every step.

This module is transformers' own kind of class through and through, so it imports transformers; headwise.models imports
it on first use.
"""

from __future__ import annotations

import copy
import inspect
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import (
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    EncoderDecoderCache,
)

from headwise.nn.growing import Growing

__all__ = ["GrowingCache", "give_growing_caches", "take_growing_caches"]


class _Grows:
    """The part that the two kinds of layers share: ``keys`` and ``values`` live in buffers with room behind them.

    transformers' own methods (crop, reset, offload, selecting rows) set ``keys`` and ``values`` and need not know.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._keys, self._values = Growing(), Growing()
        super().__init__(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_keys": copy.copy(self._keys), "_values": copy.copy(self._values)}

    @property
    def keys(self) -> Tensor | None:
        """The keys held, [B,Hk,S,D]: a view of the cache, to be read only."""
        return self._keys.held

    @keys.setter
    def keys(self, tensor: Tensor | None) -> None:
        self._keys.held = tensor

    @property
    def values(self) -> Tensor | None:
        """The values held, [B,Hk,S,E]: a view of the cache, to be read only."""
        return self._values.held

    @values.setter
    def values(self, tensor: Tensor | None) -> None:
        self._values.held = tensor

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Rows (beams) of the batch, in the order that beam search asks for."""
        for part in (self._keys, self._values):
            if part.held is not None and part.held.numel():
                part.take(beam_idx)


class GrowingLayer(_Grows, DynamicLayer):  # type: ignore[misc]  # its base is transformers', which mypy does not follow
    """The cache of one layer that attends to everything before it."""

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Appends keys [B,Hk,T,D] and values [B,Hk,T,E]; returns all of them, [B,Hk,S,D] and [B,Hk,S,E]."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        keys, values = self._keys.extended(key_states), self._values.extended(value_states)
        self.keys, self.values = keys, values
        return keys, values


class GrowingWindowLayer(_Grows, DynamicSlidingWindowLayer):  # type: ignore[misc]  # as above
    """The cache of one layer that attends to its last ``sliding_window`` tokens: it holds that many less one.

    Its buffer holds about two windows, and what is held moves to the front of a new one once a window.
    """

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Appends keys and values; returns the new ones behind those that the first of them may see."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        self.cumulative_length += key_states.shape[-2]
        keys, values = self._keys.extended(key_states), self._values.extended(value_states)
        before = self.sliding_window - 1
        if self.record_past:  # whoever will crop needs what has left the window; crop lets go of it
            self.keys, self.values = keys, values
            seen = before + key_states.shape[-2]
            return _last(keys, seen), _last(values, seen)
        self.keys, self.values = _kept(keys, before), _kept(values, before)
        return keys, values


def _last(tensor: Tensor, n: int) -> Tensor:
    """The last n keys, or all where there are fewer."""
    n = min(n, tensor.shape[-2])
    return tensor.narrow(-2, tensor.shape[-2] - n, n)


def _kept(tensor: Tensor, n: int) -> Tensor:
    """The last n keys; after a long prompt as a copy, so that its buffer does not outlive the call."""
    last = _last(tensor, n)
    return last.clone(memory_format=torch.contiguous_format) if tensor.shape[-2] > 4 * (n + 1) else last


class GrowingCache(DynamicCache):  # type: ignore[misc]  # as above
    """A cache for transformers' models that does not copy the past at every step.

    transformers' ``DynamicCache`` concatenates keys and values at every token, so a text of n tokens costs O(n^2)
    copies. Here they live in buffers that double when they are full: O(n) copies, the same numbers, the same methods
    (crop, beam reordering, batch selection, reset, pickling). Layers with a sliding window hold a window and keep at
    most two. Views that were handed out keep their numbers: cells are written again only if nobody can read them.

    ``generate`` uses it by itself on a model of `headwise.load`, or in use through `headwise.use`, unless the call or
    the model's generation config names a cache of its own. Give it yourself in a loop of your own, or to any other
    model. Layers that hold more than keys and values (state-space, indexed, compressed ones) stay transformers' own.

    While gradients are recorded, and inside torch.compile, keys are concatenated as ``DynamicCache`` does.

    Args:
        ddp_cache_data: keys and values to begin with, as for ``DynamicCache``.
        config: the model's config. It says which layers have a window or hold other states; without it every layer
            holds everything.

    Example:
        >>> import torch, headwise as hw
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> config = LlamaConfig(
        ...     hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, vocab_size=16
        ... )
        >>> model, cache = LlamaForCausalLM(config).eval(), hw.models.GrowingCache(config=config)
        >>> with torch.no_grad():
        ...     for token in range(5):
        ...         _ = model(torch.tensor([[token]]), cache=cache)
        >>> cache.get_seq_length(), cache.layers[0].keys.shape
        (5, torch.Size([1, 2, 5, 4]))
    """

    def __init__(self, ddp_cache_data: Iterable[Any] | None = None, config: Any = None) -> None:
        super().__init__(ddp_cache_data, config=config)
        self._take_layers(self)

    def _take_layers(self, cache: Any) -> None:
        self.layers = [_grown(layer) for layer in cache.layers]
        every = cache.layer_class_to_replicate
        self.layer_class_to_replicate = GrowingLayer if every is DynamicLayer else every


def _grown(layer: Any) -> Any:
    """A layer of ours that holds what one of transformers' holds; any kind but these two stays as it is."""
    made: Any
    if type(layer) is DynamicLayer:
        made = GrowingLayer()
    elif type(layer) is DynamicSlidingWindowLayer:
        made = GrowingWindowLayer(layer.sliding_window)
    else:
        return layer
    for name, value in vars(layer).items():
        setattr(made, name, value)
    return made


def with_growing_layers(cache: Any) -> Any:
    """A cache that transformers made, with layers that grow where it has plain ones; any other as it is.

    The cross-attention half of an encoder-decoder's never grows, and an offloaded one moves every step.
    """
    if isinstance(cache, EncoderDecoderCache):
        cache.self_attention_cache = with_growing_layers(cache.self_attention_cache)
        return cache
    if type(cache) is not DynamicCache or cache.offloading:
        return cache
    made = GrowingCache()
    made._take_layers(cache)
    grows = made.layer_class_to_replicate is GrowingLayer or any(isinstance(layer, _Grows) for layer in made.layers)
    return made if grows else cache


class _PreparesCache:
    """Stands before a model's own ``_prepare_cache_for_generation``, the step of ``generate`` that makes its cache.

    It is what transformers' models override to have a cache of their own. The model is held weakly, so that a model
    that is let go is freed at once; a copied or unpickled model gets one that points to itself.
    """

    def __init__(self, model: nn.Module, lasting: bool) -> None:
        self._model = weakref.ref(model)
        self.lasting = lasting

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._model(), self.lasting)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        model = self._model()
        prepare: Any = getattr(type(model), _HOOK)
        told = inspect.signature(prepare).bind(model, *args, **kwargs).arguments
        config, options = told.get("generation_config"), told.get("model_kwargs", {})
        ours = options.get("cache") is None and getattr(config, "cache_implementation", None) is None
        result = prepare(model, *args, **kwargs)
        if ours and options.get("cache") is not None:
            options["cache"] = with_growing_layers(options["cache"])
        return result


_HOOK = "_prepare_cache_for_generation"


def _generators(model: nn.Module) -> Iterator[nn.Module]:
    """The parts of a model that generate, itself included."""
    return (part for part in model.modules() if hasattr(type(part), _HOOK))


def give_growing_caches(model: nn.Module, *, lasting: bool = False) -> None:
    """Lets ``generate`` of a model, and of its parts, keep the past in a `GrowingCache`.

    Args:
        model: a model; one whose preparation of caches was replaced already stays as it is.
        lasting: whether `take_growing_caches` leaves it so.
    """
    for part in _generators(model):
        if _HOOK not in vars(part):
            setattr(part, _HOOK, _PreparesCache(part, lasting))


def take_growing_caches(model: nn.Module) -> None:
    """Undoes `give_growing_caches`, except where it was to last."""
    for part in _generators(model):
        given = vars(part).get(_HOOK)
        if isinstance(given, _PreparesCache) and not given.lasting:
            delattr(part, _HOOK)
