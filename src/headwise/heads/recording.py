"""One run of a model that norms first, taken apart into what is added to its residual stream."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, UnsupportedError, sentence
from headwise.heads.reading import (
    Norm,
    last_norm,
    module_before,
    module_behind,
    numbered,
    reaches_logits,
    stack_of,
    unembedding,
    wide,
)
from headwise.models.families import STREAMS, factors
from headwise.models.projections import Projections, projections
from headwise.models.sites import find_sites, refuse_if_outside
from headwise.models.using import held
from headwise.models.watch import Watcher, watched
from headwise.ops import Attended

__all__ = ["Recording", "attended", "record"]


class _Taking(Watcher):
    def __init__(self, model: nn.Module, names: dict[nn.Module, str]) -> None:
        super().__init__(model, names)
        self.taken: dict[str, Attended] = {}

    def take(self, site: str, attended: Attended, mask: Any) -> None:
        self.taken[site] = attended


def attended(model: nn.Module, batch: Mapping[str, Any], who: str) -> tuple[Any, dict[str, Attended]]:
    """Runs a model once without gradients: its output, and the attention of each site that ran."""
    refuse_if_outside(who, model)
    watcher = _Taking(model, {module: name for name, module in find_sites(model).items()})
    with held(model), watched(watcher), torch.no_grad():
        output = model(**batch)
    if not watcher.taken:
        raise SpecError(sentence(who, "the forward ran no attention", "there are no heads to speak of"))
    return output, watcher.taken


@dataclass(frozen=True, eq=False)
class Recording:
    """The residual stream of the stack of layers that reaches the logits.

    embedding + what each site adds + what each feed-forward adds = what the last norm reads.

    Attributes:
        layers: the projections of every site of the model.
        stack: the name of the list of layers.
        runs: by site of the stack, its attention.
        embedding: [B, T, M], what the first layer is given, positions included.
        feed_forward: by layer of the stack, what it adds [B, T, M].
        before: by site, what the norm before it divided by, [B, T, 1].
        behind: by site, gain [M] and size [B, T, 1] of the norm over what it adds; only where there is one.
        last: the last norm without its size.
        size: what the last norm divided by, [B, T, 1].
        logits: [B, T, V], what the unembedding gave, before any soft cap.
    """

    layers: list[Projections]
    stack: str
    runs: dict[str, Attended]
    embedding: Tensor
    feed_forward: dict[str, Tensor]
    before: dict[str, Tensor]
    behind: dict[str, tuple[Tensor, Tensor]]
    last: Norm
    size: Tensor
    logits: Tensor

    @property
    def sites(self) -> dict[int, Projections]:
        """The sites of the stack that ran, by their index among all."""
        return {at: p for at, p in enumerate(self.layers) if p.site in self.runs}

    def term(self, added: Tensor, along: Tensor) -> Tensor:
        """What something added to the stream [B, T, M] is worth along a direction that is read behind the last norm."""
        return (added * along).sum(-1) / self.size[..., 0]

    def into_site(self, model: nn.Module, p: Projections, along: Tensor) -> Tensor:
        """A direction behind the last norm [B, T, M], as one that a site's output has before it is added."""
        along = along / self.size * factors(model).residual
        if p.site in self.behind:
            gain, size = self.behind[p.site]
            along = along * gain / size
        return along

    def by_head(self, p: Projections, along: Tensor, mixed: Tensor) -> Tensor:
        """What mixes of values [B, H, T, E] are worth along a direction of a site's output, [H, B, T].

        The direction goes through W_O to each head, where E numbers are enough.
        """
        rows = [((along @ wide(p.o.weight(h))) * mixed[:, h]).sum(-1) for h in range(p.heads)]
        return torch.stack(rows) if rows else along.new_zeros(0, *along.shape[:2])


def record(model: Any, batch: Mapping[str, Any], who: str) -> Recording:
    """Runs a model once and keeps what it adds to the residual stream, O(L T M) memory.

    Raises:
        UnsupportedError: an unknown family, one that norms after it adds, or no unembedding.
    """
    unembedding(model, who)
    layers = [projections(model, site, who) for site in find_sites(model)]
    stack = _stack(model, layers, who)
    here = [p for p in layers if stack_of(p.site) == stack]
    norm = last_norm(model, here[0], who)
    seen = _Seen()
    with ExitStack() as hooks:
        for p in here:
            seen.into(hooks, f"before {p.site}", module_before(model, p, who))
            seen.into(hooks, f"behind {p.site}", module_behind(model, p))
            seen.out_of(hooks, numbered(p.site), _adds_last(model, p))
        seen.into(hooks, "stack", model.get_submodule(numbered(here[0].site)))
        seen.into(hooks, "norm", norm)
        seen.out_of(hooks, "logits", model.get_output_embeddings())
        _, runs = attended(model, batch, who)
    return _told(model, layers, stack, norm, runs, seen.tensors, who)


def _stack(model: nn.Module, layers: list[Projections], who: str) -> str:
    stacks = sorted({stack_of(p.site) for p in layers if reaches_logits(model, p.site)})
    if len(stacks) != 1:
        what = f"{type(model).__name__} has {len(stacks)} lists of layers before its logits: {', '.join(stacks)}"
        raise UnsupportedError(sentence(who, what, "the residual stream of one list is followed"))
    return stacks[0]


def _adds_last(model: nn.Module, p: Projections) -> nn.Module:
    """The module whose output a layer adds after its attention: its feed-forward, or the norm over that."""
    stream = STREAMS[type(p.module).__name__]
    name = stream.behind[1] if stream.behind else stream.feed_forward
    return model.get_submodule(f"{numbered(p.site)}.{name}")


class _Seen:
    """Tensors that went into or came out of modules."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def into(self, hooks: ExitStack, name: str, module: nn.Module | None) -> None:
        if module is not None:

            def take(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                self.tensors[name] = wide(args[0] if args else kwargs["hidden_states"])

            hooks.callback(module.register_forward_pre_hook(take, with_kwargs=True).remove)

    def out_of(self, hooks: ExitStack, name: str, module: nn.Module) -> None:
        def take(_: Any, __: Any, output: Any) -> None:
            self.tensors[name] = wide(output[0] if isinstance(output, tuple) else output)

        hooks.callback(module.register_forward_hook(take).remove)


def _told(
    model: nn.Module,
    layers: list[Projections],
    stack: str,
    norm: nn.Module,
    runs: dict[str, Attended],
    seen: dict[str, Tensor],
    who: str,
) -> Recording:
    by = factors(model)
    here = [p for p in layers if stack_of(p.site) == stack and p.site in runs]
    repeated = [site for site in runs if "#" in site and stack_of(site) == stack]
    if repeated:
        raise UnsupportedError(sentence(who, f"{repeated[0]}: a layer ran twice", "each layer adds to the stream once"))

    def size(module: nn.Module, rows: Tensor) -> tuple[Norm, Tensor]:
        found = Norm.of(module, rows.shape[-1])
        return found, found.sizes(rows, module)

    before = {p.site: size(module_before(model, p, who), seen[f"before {p.site}"])[1] for p in here}
    behind = {}
    for p in here:
        module = module_behind(model, p)
        if module is not None:
            found, divided = size(module, seen[f"behind {p.site}"])
            behind[p.site] = (found.gain, divided)
    last, divided = size(norm, seen["norm"])
    added = {layer: seen[layer] * by.residual for layer in dict.fromkeys(numbered(p.site) for p in here)}
    found_runs = {p.site: runs[p.site] for p in here}
    return Recording(
        layers, stack, found_runs, seen["stack"], added, before, behind, last, divided, seen["logits"] * by.logits
    )
