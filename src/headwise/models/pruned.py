"""Pruned models on disk: what the config says of their heads, and a model of that shape before its weights are read."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from headwise.errors import SpecError, UnsupportedError, sentence
from headwise.models.library import transformers
from headwise.models.projections import KEPT, Kept, kept_heads, projections
from headwise.models.sites import find_sites
from headwise.models.surgery import Change, apply, guard, needs_headwise, resized
from headwise.models.using import use

__all__ = ["FIELD", "as_pruned", "class_of_pruned", "described", "said"]

#: The field of a config that names the pruned sites and the heads they have.
FIELD = "headwise_heads"


def said(model: nn.Module, pruned: Mapping[str, Kept]) -> list[Change]:
    """Plans what a model's config is to say of its heads, in our words, and in transformers' own where it has them.

    Args:
        model: the model.
        pruned: what sites will have that are about to be pruned.
    """
    config = getattr(model, "config", None)
    if not isinstance(config, transformers("prune").PreTrainedConfig):
        return []
    left = {site: pruned.get(site) or kept_heads(module) for site, module in find_sites(model).items()}
    told = {
        site: {name: list(numbers) for name, numbers in kept._asdict().items()} for site, kept in left.items() if kept
    }
    return [Change(config, FIELD, told), *_in_plain_words(model, config, left)]


def _in_plain_words(model: nn.Module, config: Any, left: Mapping[str, Kept | None]) -> list[Change]:
    """The config's own fields, where all sites have as many heads, in even groups, and a field says D."""
    found = set()
    for site, kept in left.items():
        try:
            p = projections(model, site, "prune")
        except UnsupportedError:
            return []
        if not p.layout.config or p.module.config is not config or (kept and not kept.even):
            return []
        H, groups = (len(kept.heads), len(kept.groups)) if kept else (p.heads, p.groups)
        found.add((p.layout.config, H, groups, p.head_dim))
    if len(found) != 1:
        return []
    ((names, *numbers),) = found
    fields = {name: number for name, number in zip(names, numbers, strict=True) if name}
    return [Change(config, name, number) for name, number in fields.items()] if _valid(config, fields) else []


def _valid(config: Any, fields: Mapping[str, int]) -> bool:
    """Whether a config with these fields can be read again: some insist that H divides the model's width."""
    with contextlib.suppress(Exception):  # a config refuses with whatever the library that checks it raises
        trial = type(config).from_dict({**config.to_dict(), **fields})
        return all(getattr(trial, name, None) == number for name, number in fields.items())
    return False


def described(config: Any) -> dict[str, Kept]:
    """What a config says of the heads of pruned sites; empty where nothing was pruned.

    Raises:
        SpecError: what it says makes no sense.
    """
    told = getattr(config, FIELD, None) or {}
    try:
        return {str(site): _kept(words) for site, words in told.items()}
    except (AttributeError, KeyError, TypeError, ValueError) as cause:
        rule = "it names for each pruned layer its heads, kv_heads and groups, as hw.prune writes them"
        raise SpecError(sentence("load", f"{FIELD} in the config cannot be read", rule)) from cause


def _kept(words: Mapping[str, Any]) -> Kept:
    kept = Kept(*(tuple(_numbers(words[name])) for name in Kept._fields))
    for numbers in (kept.heads, kept.groups):
        if any(a >= b for a, b in zip((-1, *numbers), numbers, strict=False)):
            raise ValueError("heads and groups are counted from 0 and rise")
    if len(kept.kv_heads) != len(kept.heads) or sorted(set(kept.kv_heads)) != list(range(len(kept.groups))):
        raise ValueError("each query head reads one of the key/value heads, and each of these is read")
    return kept


def _numbers(told: Any) -> list[int]:
    """A list of whole numbers of a size that heads have."""
    if not isinstance(told, list) or not all(type(number) is int and abs(number) < 2**31 for number in told):
        raise TypeError("they are lists of whole numbers")
    return told


def class_of_pruned(kind: Any, config: Any) -> Any:
    """A model class that makes models of the shape that a config describes, their weights still to be read.

    Args:
        kind: the class that the weights were saved from.
        config: the config beside them.

    Returns:
        ``kind`` itself where nothing was pruned; what the other one makes, `as_pruned` gives its own class back.
    """
    left = described(config)
    if not left:
        return kind

    def make(self: Any, config: Any, *args: Any, **kwargs: Any) -> None:
        kind.__init__(self, config, *args, **kwargs)
        _shape(self, left)

    return type(kind.__name__, (kind,), {"__init__": make, "__module__": kind.__module__, "__doc__": kind.__doc__})


def as_pruned(model: Any, kind: Any) -> Any:
    """A loaded model as one of its own class, in use where only headwise can run it."""
    model.__class__ = kind
    return use(model) if needs_headwise(model) else model


def _shape(model: nn.Module, left: Mapping[str, Kept]) -> None:
    """Gives the sites of a new model as many heads as they are to have; which ones they were shows in the weights."""
    changes: list[Change] = []
    guarded = []
    for told, kept in left.items():
        p = projections(model, _site(model, told), "load")
        guarded.append((p.module, p.layout.common_bias))
        if (p.heads, p.groups) == (len(kept.heads), len(kept.groups)):
            changes.append(Change(p.module, KEPT, kept))
        else:
            heads, groups = (
                torch.zeros(n, dtype=torch.int64, device="cpu") for n in (len(kept.heads), len(kept.groups))
            )
            changes += resized(p, heads, groups, kept)
    apply(changes)
    for module, common_bias in guarded:
        guard(module, common_bias)


def _site(model: nn.Module, told: str) -> str:
    """The site that a config means, which may have been saved from a part of the model or from a whole around it."""
    names = list(find_sites(model))
    near = [name for name in names if name.endswith(f".{told}") or told.endswith(f".{name}")]
    if told in names:
        return told
    if len(near) == 1:
        return near[0]
    raise SpecError(
        sentence(
            "load",
            f"the config says that {told} was pruned, and the model has {len(near)} such layers",
            "the folder was written for another model",
        )
    )
