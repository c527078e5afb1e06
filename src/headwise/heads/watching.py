"""Running a model while its heads are asked, site by site, and keeping only sums of what they answer."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headwise.models.sites import find_sites, refuse_if_outside, site_and_run
from headwise.models.trace import trace
from headwise.models.using import held
from headwise.models.watch import Watcher, watched
from headwise.ops import Attended
from headwise.spec import Mask

__all__ = ["Run", "Watch", "body", "forward", "runs_of", "watch"]


@dataclass(frozen=True)
class Run:
    """One run of an attention module in a forward of its model.

    Attributes:
        name: of the run, "site", "site#1", ...
        site: name of the module.
        layer: index of the site in ``hw.sites(model)``.
        kind: "self" = from a sequence to itself, "cross" = from the decoder's to the encoder's, "other".
        heads: number of query heads.
        decoding: whether its queries are those of the decoder of an encoder-decoder model.
    """

    name: str
    site: str
    layer: int
    kind: str
    heads: int
    decoding: bool


def runs_of(who: str, model: nn.Module, batch: dict[str, Any]) -> dict[str, Run]:
    """What runs in a forward, by name; told from the shapes, so the two sequences of a batch differ in length."""
    refuse_if_outside(who, model)
    names = list(find_sites(model))
    tokens, decoded = (batch[key].shape[1] if key in batch else None for key in ("input_ids", "decoder_input_ids"))
    kinds = {(tokens, tokens): "self", (decoded, decoded): "self", (decoded, tokens): "cross"}
    traced = trace(model, **batch)
    found = {}
    for name in traced.sites:
        B, H, T, S = traced.pattern(name).shape
        kind = kinds.get((T, S), "other") if B == 1 else "other"
        site = site_and_run(name, names)[0]
        found[name] = Run(name, site, names.index(site), kind, H, decoded == T)
    return found


def body(model: nn.Module) -> nn.Module:
    """The model without its head over the vocabulary, where all attention is in there: logits are of no use here."""
    inner: nn.Module = getattr(model, "base_model", model)
    return inner if len(find_sites(inner)) == len(find_sites(model)) else model


def forward(model: nn.Module, batch: dict[str, Any]) -> None:
    """Runs a model for what its heads do; keys and values of the past are not kept."""
    known = inspect.signature(model.forward).parameters
    with torch.no_grad():
        model(**batch, **({"use_cache": False} if "use_cache" in known else {}))


Take = Callable[[Run, Attended], None]


class _Site(Watcher):
    """Asks one module."""

    def __init__(self, model: nn.Module, module: nn.Module, name: str, watch: Watch) -> None:
        super().__init__(model, {module: name})
        self.name, self.watch = name, watch

    def observers(self) -> Sequence[Any]:
        return self.watch.asked.get(self.name, ())

    def take(self, site: str, attended: Attended, mask: Mask | None) -> None:
        if self.name in self.watch.asked and site in self.watch.runs:
            self.watch.take(self.watch.runs[site], attended)


class Watch:
    """What is asked of which site now, and who takes the answers; both may change between forwards.

    Attributes:
        runs: what runs in a forward, by name.
        asked: observers by the name of their site; a site that is not there is not asked.
        take: called after each run of a site that is asked.
    """

    def __init__(self, runs: dict[str, Run], take: Take) -> None:
        self.runs, self.take = runs, take
        self.asked: dict[str, Sequence[Any]] = {}


@contextlib.contextmanager
def watch(model: nn.Module, part: nn.Module, watch: Watch) -> Iterator[None]:
    """Watches a part of a model for the duration.

    Args:
        model: its sites have the names of ``watch``.
        part: the module whose forward will be called, the model or its body.
        watch: what is asked.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(held(model))
        for name, module in find_sites(model).items():
            stack.enter_context(watched(_Site(part, module, name, watch)))
        yield
