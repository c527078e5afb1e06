"""One run of a model, taken apart: what its heads mixed, and what is added to its residual stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.block import Members
from headwise.errors import UnsupportedError, sentence
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
from headwise.models.sites import find_sites, site_and_run
from headwise.models.trace import trace
from headwise.models.using import held
from headwise.pattern import Pattern

__all__ = ["Recording", "mixes", "record"]


class _Passed:
    """Tensors that went into or came out of modules, by name; those of a second time as ``name#1``, and so on.

    Only what runs in the context that joined ``_recording`` is kept: a hook fires in every thread.
    """

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._times: dict[str, int] = {}

    def into(self, hooks: ExitStack, name: str, module: nn.Module | None) -> None:
        if module is not None:

            def take(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
                self._keep(name, args[0] if args else kwargs["hidden_states"])

            hooks.callback(module.register_forward_pre_hook(take, with_kwargs=True).remove)

    def out_of(self, hooks: ExitStack, name: str, module: nn.Module) -> None:
        def take(_: Any, __: Any, output: Any) -> None:
            self._keep(name, output[0] if isinstance(output, tuple) else output)

        hooks.callback(module.register_forward_hook(take).remove)

    def _keep(self, name: str, tensor: Tensor) -> None:
        if not any(passed is self for passed in _recording.here()):
            return
        time = self._times.get(name, 0)
        self._times[name] = time + 1
        self.tensors[f"{name}#{time}" if time else name] = tensor.detach()

    def of_heads(self, hooks: ExitStack, layers: Sequence[Projections]) -> None:
        """What output projections are given: heads' mixes of values behind dropout, gates and edits.

        A module without heads has nothing to give one, and may leave it out; that it ran shows in what it returns.
        """
        for p in layers:
            if p.heads:
                self.into(hooks, p.site, p.o.linear)
            else:
                self.out_of(hooks, p.site, p.module)

    def mixed(self, layers: Sequence[Projections]) -> dict[str, Tensor]:
        """These, head by head, [B, H, T, E], by run of a site."""
        of = {p.site: p for p in layers}
        found = {}
        for run, features in self.tensors.items():
            p = of.get(site_and_run(run, of)[0])
            if p is not None:
                z = features if p.heads else features[..., :0]
                found[run] = z[..., p.o.rows.to(z.device)].movedim(-2, 1)
        return found


_recording: Members[_Passed] = Members("headwise_recordings")


def mixes(model: nn.Module, layers: Sequence[Projections], batch: Mapping[str, Any]) -> tuple[Any, dict[str, Tensor]]:
    """Runs a model once without gradients: its output, and what the heads mixed, [B, H, T, E] by run of a site."""
    passed = _Passed()
    with _recording.joined(passed), ExitStack() as hooks:
        passed.of_heads(hooks, layers)
        with held(model), torch.no_grad():
            output = model(**batch)
    return output, passed.mixed(layers)


@dataclass(frozen=True, eq=False)
class Recording:
    """The residual stream of the stack of layers that reaches the logits.

    embedding + what each site adds + what each feed-forward adds = what the last norm reads.

    Attributes:
        layers: the projections of every site of the model.
        stack: the name of the list of layers.
        mixed: by site of the stack that ran, what its heads mixed [B, H, T, E]; H may be 0.
        patterns: by site that has heads and ran, its pattern.
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
    mixed: dict[str, Tensor]
    patterns: dict[str, Pattern]
    embedding: Tensor
    feed_forward: dict[str, Tensor]
    before: dict[str, Tensor]
    behind: dict[str, tuple[Tensor, Tensor]]
    last: Norm
    size: Tensor
    logits: Tensor

    @property
    def sites(self) -> dict[int, Projections]:
        """The sites of the stack that ran, by their index among all; also those that lost all of their heads."""
        return {at: p for at, p in enumerate(self.layers) if p.site in self.mixed}

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
    passed = _Passed()
    with _recording.joined(passed), ExitStack() as hooks:
        passed.of_heads(hooks, here)
        for p in here:
            passed.into(hooks, f"before {p.site}", module_before(model, p, who))
            passed.into(hooks, f"behind {p.site}", module_behind(model, p))
        for layer, p in {numbered(p.site): p for p in here}.items():
            passed.out_of(hooks, layer, _adds_last(model, p))
        passed.into(hooks, "stack", model.get_submodule(numbered(here[0].site)))
        passed.into(hooks, "norm", norm)
        passed.out_of(hooks, "logits", model.get_output_embeddings())
        traced = trace(model, **batch)
    patterns = {run: traced.pattern(run) for run in traced.sites}
    return _told(model, layers, here, passed, patterns, who)


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


def _told(
    model: nn.Module,
    layers: list[Projections],
    here: list[Projections],
    passed: _Passed,
    patterns: dict[str, Pattern],
    who: str,
) -> Recording:
    by, mixed = factors(model), passed.mixed(here)
    seen = {name: wide(tensor) for name, tensor in passed.tensors.items()}
    repeated = [run for run in mixed if "#" in run]
    if repeated:
        raise UnsupportedError(sentence(who, f"{repeated[0]}: a layer ran twice", "each layer adds to the stream once"))

    def size(module: nn.Module, rows: Tensor) -> tuple[Norm, Tensor]:
        found = Norm.of(module, rows.shape[-1])
        return found, found.sizes(rows, module)

    ran = [p for p in here if p.site in mixed]
    before = {p.site: size(module_before(model, p, who), seen[f"before {p.site}"])[1] for p in ran}
    behind = {}
    for p in ran:
        module = module_behind(model, p)
        if module is not None:
            found, divided = size(module, seen[f"behind {p.site}"])
            behind[p.site] = (found.gain, divided)
    last, divided = size(last_norm(model, here[0], who), seen["norm"])
    # every layer of the stack, whatever its heads do: a layer adds its feed-forward without them as well
    added = {layer: seen[layer] * by.residual for layer in dict.fromkeys(numbered(p.site) for p in here)}
    stack = stack_of(here[0].site)
    logits = seen["logits"] * by.logits
    return Recording(layers, stack, mixed, patterns, seen["stack"], added, before, behind, last, divided, logits)
