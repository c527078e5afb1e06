"""The forward of an attention module that lost all of its heads."""

from __future__ import annotations

import inspect
import weakref
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from headwise.models.projections import Projections

__all__ = ["Emptied"]

#: What transformers' attention modules call the states that cross attention reads.
_SOURCES = ("key_value_states", "encoder_hidden_states")
#: What they call the cache.
_CACHES = ("cache", "layer_past", "past_key_values")


class Emptied:
    """Stands before a module's own forward, which cannot cut zero features into heads.

    The heads' sum is 0, so what is left is the bias of the output projection. Dropout is left out: a constant has
    nothing to drop. The cache is given one number a token, because models ask it how many tokens it holds.

    The module is held weakly, so that a model that is let go is freed at once; a copied or unpickled module gets one
    that points to itself.
    """

    def __init__(self, module: nn.Module, p: Projections | None = None) -> None:
        self._module = weakref.ref(module)
        self._names = tuple(inspect.signature(type(module).forward).parameters)[1:]
        self.output: str | None = None
        self.hands_bias_on = False
        if p is not None:
            self.output = None if p.layout.o.startswith("^") else p.layout.o
            self.hands_bias_on = p.layout.common_bias

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._module(),), {"output": self.output, "hands_bias_on": self.hands_bias_on}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """What the module would return: its output, a position bias where it hands one on, weights of no head."""
        module: Any = self._module()
        told = {**dict(zip(self._names, args, strict=False)), **kwargs}
        hidden: Tensor = told["hidden_states"]
        source = next((told[name] for name in _SOURCES if name in self._names and told.get(name) is not None), None)
        cache = next((told[name] for name in _CACHES if told.get(name) is not None), None)
        past = cache.get_seq_length(module.layer_idx) if cache is not None and source is None else 0
        past = past.clone() if isinstance(past, Tensor) else past
        keys = _remembered(module, cache, hidden, source)
        weights = hidden.new_zeros(hidden.shape[0], 0, hidden.shape[1], keys)
        out = self._bias_alone(module, hidden)
        if not self.hands_bias_on:
            return out, weights
        bias = told.get("position_bias")
        if bias is None and module.has_relative_attention_bias:
            bias = module.compute_bias(hidden.shape[1], keys, device=hidden.device, past_seen_tokens=past)
        return out, bias, weights

    def _bias_alone(self, module: nn.Module, hidden: Tensor) -> Tensor:
        nothing = hidden[..., :0]
        if self.output is None:
            return nothing
        linear: Any = module.get_submodule(self.output)
        if isinstance(linear, nn.Linear):
            return linear(nothing)
        return torch.zeros_like(hidden) + linear.bias  # transformers' Conv1D cannot take zero features


def _remembered(module: Any, cache: Any, hidden: Tensor, source: Tensor | None) -> int:
    """Lets a cache know of the tokens; returns how many keys the module would have read."""
    states = hidden if source is None else source
    if cache is None:
        return states.shape[1]
    if hasattr(cache, "is_updated"):  # one cache for self attention and one for cross attention
        if source is None:
            cache = cache.self_attention_cache
        elif cache.is_updated.get(module.layer_idx):
            return int(cache.cross_attention_cache.layers[module.layer_idx].keys.shape[-2])
        else:
            cache.is_updated[module.layer_idx] = True
            cache = cache.cross_attention_cache
    one = states.new_zeros(*states.shape[:2], 1, 1).transpose(1, 2)
    keys, _ = cache.update(one, one, module.layer_idx)
    return int(keys.shape[-2])
