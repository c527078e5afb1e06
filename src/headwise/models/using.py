"""Putting a model on headwise in place, and back."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator
from typing import Any, TypeVar

from torch import nn

from headwise.errors import SpecError, UnsupportedError, sentence
from headwise.models.library import transformers
from headwise.models.register import NAME, register
from headwise.models.sites import refuse_if_outside, say_left_out
from headwise.models.surgery import needs_headwise

__all__ = ["held", "restore", "use"]

Model = TypeVar("Model", bound=nn.Module)


class _Record:
    """What a config said before, and who put it on headwise: models may share a config, and be watched meanwhile."""

    def __init__(self, config: Any) -> None:
        self.config = config
        self.before: str | None = config._attn_implementation_internal
        self.users: weakref.WeakSet[Any] = weakref.WeakSet()


#: By id; a record holds its config, so an id is never that of another one.
_records: dict[int, _Record] = {}
_lock = threading.RLock()


def _configs(model: nn.Module) -> Iterator[Any]:
    """Every config of a model that says how attention runs: those of its parts and those nested in them."""
    kind = transformers("use").PreTrainedConfig
    seen: set[int] = set()
    todo = [config for part in model.modules() if isinstance(config := getattr(part, "config", None), kind)]
    while todo:
        config = todo.pop()
        if id(config) in seen:
            continue
        seen.add(id(config))
        yield config
        nested = [getattr(config, name, None) for name in getattr(config, "sub_configs", {})]
        todo += [part for part in nested if isinstance(part, kind)]


def use(model: Model) -> Model:
    """Lets a transformers model run its attention through headwise, in place.

    The weights, the modules and their hooks stay as they are; what changes is which function the model's attention
    modules call, the mask they are given, and that ``generate`` keeps the past in a `GrowingCache` unless it is told
    otherwise. Doing it again changes nothing.

    ``model(..., output_attentions=True)`` gives the exact weights of a call. A gradient that is asked of them is an
    UnsupportedError, raised in ``backward``: the output does not come from them. Setting
    ``model.config.output_attentions`` while the model is in use is a ValueError of transformers' own, which allows that
    flag to its eager path alone: set it before, or give the keyword to the call.

    Args:
        model: a transformers model (``PreTrainedModel``), or a part of one.

    Returns:
        The same model.

    Raises:
        UnsupportedError: some or all of its attention does not go through transformers' attention interface. The model
            is unchanged then.
        UnavailableError: transformers is not installed.

    Example:
        >>> import torch, headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> before = model(torch.arange(6)[None]).logits
        >>> after = hw.use(model)(torch.arange(6)[None]).logits
        >>> torch.allclose(before, after, atol=1e-5)
        True
    """
    _join(model, model)
    say_left_out("use", model)
    from headwise.models.cache import give_growing_caches

    give_growing_caches(model)
    return model


def _join(model: nn.Module, user: object) -> None:
    """Puts every config of a model on headwise on behalf of a user: the model itself, or somebody who watches it."""
    register()
    refuse_if_outside("use", model)
    with _lock:
        for config in _configs(model):
            record = _records.get(id(config))
            now = config._attn_implementation_internal
            if record is None:
                if now == NAME:
                    continue  # loaded or copied with our name: there is nothing to go back to
                record = _records[id(config)] = _Record(config)
            elif now != NAME:
                record.before = now  # somebody chose another implementation since: that is what to go back to
            record.users.add(user)
            config._attn_implementation_internal = NAME
        _mark_continuous_batching(model)


def _leave(model: nn.Module, user: object) -> None:
    """Takes a user off; the last one off puts a config back to what it said before."""
    with _lock:
        for config in _configs(model):
            record = _records.get(id(config))
            if record is None:
                continue
            record.users.discard(user)
            if not record.users:
                if config._attn_implementation_internal == NAME:
                    config._attn_implementation_internal = record.before
                del _records[id(config)]
        _mark_continuous_batching(model)


def _refuse_continuous_batching(*args: Any, **kwargs: Any) -> Any:
    """Stands in place of a model's ``init_continuous_batching`` while it runs its attention through headwise."""
    raise UnsupportedError(
        sentence(
            "continuous batching",
            "the model runs its attention through headwise now",
            "transformers batches continuously over pages of its own, with paged attention of its own",
            todo="Close the blocks of hw.observe, hw.trace or hw.ablate that are open on it, and hw.restore(model).",
        )
    )


_BATCHING = "init_continuous_batching"


def _mark_continuous_batching(model: nn.Module) -> None:
    """Lets the parts of a model refuse continuous batching while they are on headwise, and no longer."""
    for part in model.modules():
        if not hasattr(type(part), _BATCHING):
            continue
        config: Any = part.config
        marked = vars(part).get(_BATCHING) is _refuse_continuous_batching
        if config._attn_implementation_internal == NAME:
            setattr(part, _BATCHING, _refuse_continuous_batching)
        elif marked:
            delattr(part, _BATCHING)


class _Hold:
    """Somebody who watches a model."""


@contextlib.contextmanager
def held(model: nn.Module) -> Iterator[None]:
    """Keeps a model on headwise for the duration, whatever other threads or blocks do with it meanwhile."""
    hold = _Hold()
    _join(model, hold)
    try:
        yield
    finally:
        _leave(model, hold)


def restore(model: Model) -> Model:
    """Takes a model off headwise again: each of its configs says what it said before, and `use`'s cache is gone.

    A model of `headwise.load` keeps the cache that it came with.

    Args:
        model: a model; one that is not in use stays as it is.

    Returns:
        The same model.

    Raises:
        SpecError: it is no module.
        UnsupportedError: it was pruned (`headwise.prune`) so that only headwise can run it.

    Example:
        >>> import headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16, n_positions=8))
        >>> before = model.config._attn_implementation
        >>> hw.restore(hw.use(model)).config._attn_implementation == before
        True
    """
    if not isinstance(model, nn.Module):
        raise SpecError(sentence("restore", f"got a {type(model).__name__}", "restore takes a model"))
    site = needs_headwise(model)
    if site is not None:
        raise UnsupportedError(
            sentence(
                "restore",
                f"the heads that are left in {site} can only be run by headwise",
                "transformers knows neither uneven groups nor a bias made for heads that are gone",
                todo="The model stays in use.",
            )
        )
    _leave(model, model)
    from headwise.models.cache import take_growing_caches

    take_growing_caches(model)
    with _lock:
        for config in _configs(model):
            if id(config) not in _records and config._attn_implementation_internal == NAME:
                config._attn_implementation_internal = "sdpa" if _fused_by_default(model) else "eager"
        _mark_continuous_batching(model)
    return model


def _fused_by_default(model: nn.Module) -> bool:
    """What transformers would have chosen for a model that was loaded or copied with our name."""
    return all(bool(getattr(part, "_supports_sdpa", True)) for part in model.modules())
