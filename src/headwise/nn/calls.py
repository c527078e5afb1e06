"""What the layers do alike at every call: check their input, join masks, say a call over the keys of a cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.nn.cache import Cache
from headwise.nn.cuts import check_cut
from headwise.spec import Alibi, Causal, Mask, Rules
from headwise.tracing import plain

__all__ = ["both", "bypassable", "check_cache", "check_input", "output_is_ours", "reset", "through"]


def check_input(who: str, name: str, x: Any, letters: str, width: int, linear: nn.Module) -> None:
    """Checks what a projection reads, before it does."""
    if not isinstance(x, Tensor):
        raise SpecError(sentence(who, f"{name} is a {type(x).__name__}", "it is a torch tensor"))
    if x.dim() != 3 or x.shape[-1] != width:
        todo = f"Use {name}[None] for a single sequence." if x.dim() == 2 and x.shape[-1] == width else ""
        what = f"{name} has {x.dim()} axes and width {x.shape[-1] if x.dim() else 0}"
        rule = f"{name} is [{letters.replace(' ', ',')}] with M={width}"
        raise ShapeError(sentence(who, what, rule, axes(name, x, letters), todo))
    # A quantised or wrapped projection may take what its own weight does not tell; only a plain weight is compared.
    weight = getattr(linear, "weight", None)
    if not isinstance(weight, Tensor) or not weight.is_floating_point():
        return
    same_device = x.device == weight.device
    if not same_device or (x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type)):
        what = f"{name} is {x.dtype} on {x.device}, the weights are {weight.dtype} on {weight.device}"
        todo = f"Convert with {name}.to({str(weight.device)!r}, {weight.dtype})."
        raise ShapeError(sentence(who, what, "they agree in dtype and device", axes(name, x, letters), todo))


def output_is_ours(module: nn.Module) -> bool:
    """Whether nobody but us can hold what a module gave: an ordinary one, that nothing was put around or behind."""
    plain = type(module) in (nn.Linear, nn.RMSNorm, nn.LayerNorm) and "forward" not in vars(module)
    return plain and not module._forward_hooks and not nn.modules.module._global_forward_hooks


def bypassable(module: nn.Module) -> bool:
    """Whether reading a Linear's weight is as good as calling it: nothing waits for the call, and nothing makes it."""
    waiting = (module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    everywhere = nn.modules.module._global_forward_pre_hooks
    linear = type(module) is nn.Linear and plain(module.weight)  # of a quantised one only the product is known
    return linear and output_is_ours(module) and not any(waiting) and not everywhere


def reset(layer: nn.Module) -> None:
    """Draws a layer's own parts anew: Xavier uniform for matrices, zero for biases, one for norms."""
    for module in layer.children():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, (nn.RMSNorm, nn.LayerNorm)):
            module.reset_parameters()


def both(own: Mask | None, given: Mask | None) -> Mask | None:
    """What neither mask hides."""
    if own is None or given is None:
        return given if own is None else own
    return own & given


def check_cache(who: str, cache: Any) -> None:
    """Checks that a cache is one."""
    if cache is not None and not isinstance(cache, Cache):
        rule = "it is one of headwise.nn's, such as KVCache()"
        raise SpecError(sentence(who, f"cache is a {type(cache).__name__}", rule, todo="One a layer."))


def through(
    who: str, layer: Any, cache: Cache, own: Mask | None, given: Mask | None, scores: tuple[Rules, ...], x: Tensor
) -> tuple[Mask | None, tuple[Rules, ...]]:
    """Mask and score rules of a call of self attention, said over the keys that its cache will give.

    Args:
        who: the layer, for errors.
        layer: whose keys the cache holds from now on, of as many ``heads``.
        cache: what it will append to.
        own: the layer's mask.
        given: what the call hides beside it.
        scores: the layer's rules.
        x: the tokens that come, [B,T,M].

    Raises:
        SpecError: if they would mean other cells there, or the cache holds the keys of another layer.
    """
    cache.serve(layer)
    mask, new = both(own, given), x.shape[1]
    if mask is not None and any(isinstance(part, Causal) and part.align == "start" for part in mask.parts()):
        rule = "it puts the first query of every call at position 0, but cached queries stand behind the keys held"
        raise SpecError(sentence(who, 'Causal(align="start") with a cache', rule, todo="Use Causal()."))
    check_cut(who, layer, own, mask, scores, cache.length, x)
    keys_at = cache.key_positions(new)
    if keys_at is not None:  # distances are those of the text, not those between the keys that are left
        at = torch.arange(cache.length, cache.length + new, device=keys_at.device, dtype=torch.int64)
        scores = tuple(
            replace(rule, positions=at, key_positions=keys_at)
            if isinstance(rule, Alibi) and rule.key_positions is None and rule.positions is None
            else rule
            for rule in scores
        )
    return cache.mask(mask, scores), scores
