"""Running a model while its heads are asked, site by site, and keeping only sums of what they answer."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headwise.heads.texts import check_reads_tokens, reads_two_texts, start_of_decoder
from headwise.models.sites import find_sites, in_order, refuse_if_outside, site_and_run
from headwise.models.trace import trace
from headwise.models.using import held
from headwise.models.watch import Watcher, watched
from headwise.ops import Attended
from headwise.spec import Mask

__all__ = ["Run", "Watch", "body", "forward", "handed", "layers_of", "runs_of", "watch"]


@dataclass(frozen=True)
class Run:
    """One run of an attention module in a forward of its model.

    Attributes:
        name: of the run, "site", "site#1", ...
        site: name of the module.
        layer: as of `layers_of`.
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


def layers_of(runs: Iterable[str], sites: Sequence[str]) -> dict[str, int]:
    """The layer that each run of a forward counts as, the one rule of all tables of heads.

    It is the index of the run's site in ``hw.sites(model)``. Where some site runs several times (ALBERT), each run
    counts as a layer: it is then the place of the run among all, by site and then by run.

    Args:
        runs: names of all runs of a forward.
        sites: ``hw.sites(model)``.
    """
    ordered = list(in_order(dict.fromkeys(runs), sites))
    once = set(ordered) <= set(sites)
    return {run: sites.index(run) if once else place for place, run in enumerate(ordered)}


def _few_tokens(who: str, model: Any) -> dict[str, Any]:
    """A batch of the fewest tokens, of two sequences differently many."""
    check_reads_tokens(who, model)
    device = next(model.parameters()).device
    if not reads_two_texts(model):
        return {"input_ids": torch.zeros(1, 3, dtype=torch.int64, device=device)}
    start = start_of_decoder(who, model)
    read, said = (torch.full((1, n), start, device=device, dtype=torch.int64) for n in (3, 2))
    return {"input_ids": read, "decoder_input_ids": said}


def runs_of(who: str, model: nn.Module, batch: dict[str, Any] | None = None) -> dict[str, Run]:
    """What runs in a forward, by name; told from the shapes, so the two sequences of a batch differ in length.

    Args:
        who: the function that asks, for the message.
        model: a transformers model that reads tokens.
        batch: one row of tokens, and of other length for the decoder beside an encoder; None = a few tokens.
    """
    refuse_if_outside(who, model)
    batch = _few_tokens(who, model) if batch is None else batch
    names = list(find_sites(model))
    tokens, decoded = (batch[key].shape[1] if key in batch else None for key in ("input_ids", "decoder_input_ids"))
    kinds = {(tokens, tokens): "self", (decoded, decoded): "self", (decoded, tokens): "cross"}
    traced = trace(model, **batch)
    layers, found = layers_of(traced.sites, names), {}
    for name in traced.sites:
        B, H, T, S = traced.pattern(name).shape
        kind = kinds.get((T, S), "other") if B == 1 else "other"
        site = site_and_run(name, names)[0]
        found[name] = Run(name, site, layers[name], kind, H, decoded == T)
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


class _Handing(Watcher):
    """Asks modules what is wanted now, and hands on what they answer."""

    def __init__(
        self,
        model: nn.Module,
        names: dict[nn.Module, str],
        asked: Callable[[], Sequence[Any]],
        handed: Callable[[str, Attended], None],
    ) -> None:
        super().__init__(model, names)
        self._asked, self._handed = asked, handed

    def observers(self) -> Sequence[Any]:
        return self._asked()

    def take(self, site: str, attended: Attended, mask: Mask | None) -> None:
        self._handed(site, attended)


@contextlib.contextmanager
def handed(model: nn.Module, take: Callable[[str, Attended], None]) -> Iterator[None]:
    """For the duration hands on the attention of every run of a site, by its name; none of it is kept."""
    names = {module: name for name, module in find_sites(model).items()}
    with held(model), watched(_Handing(model, names, tuple, take)):
        yield


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

    def asked_of(self, site: str) -> Sequence[Any]:
        """What a site is asked now."""
        return self.asked.get(site, ())

    def taken(self, run: str, attended: Attended) -> None:
        """Hands on what a run answered, where it was asked."""
        if run in self.runs and self.runs[run].site in self.asked:
            self.take(self.runs[run], attended)


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
        for site, module in find_sites(model).items():  # each apart: sites are asked different questions
            asked = functools.partial(watch.asked_of, site)
            stack.enter_context(watched(_Handing(part, {module: site}, asked, watch.taken)))
        yield
