"""One run of a model, kept so that every pattern of it can be asked for afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from headwise.errors import SpecError, sentence
from headwise.models.sites import find_sites, in_order, refuse_if_outside, resolve_sites
from headwise.models.using import held
from headwise.models.watch import Watcher, watched
from headwise.ops import Attended
from headwise.pattern import Pattern
from headwise.spec import Mask

__all__ = ["Trace", "trace"]


class Trace:
    """What ``hw.trace`` keeps of one forward: q, k, v and the mask of each site, O(T) memory.

    Attributes:
        output: what the model returned.
        sites: the attention modules that ran, in the order of ``hw.sites(model)``; a module that ran n times is
            ``site``, ``site#1``, ...
    """

    def __init__(self, output: Any, patterns: Mapping[str, Pattern], names: Sequence[str]) -> None:
        self.output = output
        self._names = list(names)
        self._patterns = in_order(patterns, self._names)

    @property
    def sites(self) -> list[str]:
        """The runs that were kept, by site in the order of ``hw.sites(model)``, then by run."""
        return list(self._patterns)

    def pattern(self, layer: str | int) -> Pattern:
        """The attention pattern of one site.

        Args:
            layer: an index into ``hw.sites(model)``, whether or not every site ran, and for a site that ran several
                times its first run; or a name of ``trace.sites``, ``"site#1"`` for the second run.

        Returns:
            The pattern, never stored: index it, reduce it.

        Raises:
            SpecError: the model has no such site, or it did not run in this forward.

        Example:
            >>> import torch, headwise as hw
            >>> from transformers import GPT2Config, GPT2LMHeadModel
            >>> model = GPT2LMHeadModel(
            ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
            ... ).eval()
            >>> trace = hw.trace(model, input_ids=torch.arange(6)[None])
            >>> trace.sites
            ['transformer.h.0.attn', 'transformer.h.1.attn']
            >>> trace.pattern(1)[0, 0, 0:1, 0:3]  # layer 1, head 0: its first token sees itself alone
            tensor([[1., 0., 0.]])
            >>> trace.pattern("transformer.h.1.attn").top_keys(2).indices.shape
            torch.Size([1, 2, 6, 2])
        """
        if isinstance(layer, str) and layer in self._patterns:
            return self._patterns[layer]
        (site,) = resolve_sites("trace", self._names, [layer])
        if site not in self._patterns:
            raise SpecError(
                sentence(
                    "trace",
                    f"site {site!r} did not run in this forward",
                    "a trace keeps the patterns of one forward",
                    todo="trace.sites lists what ran.",
                )
            )
        return self._patterns[site]

    def __repr__(self) -> str:
        return f"Trace({len(self._patterns)} runs)"


class _Tracing(Watcher):
    def __init__(self, model: nn.Module, names: dict[nn.Module, str]) -> None:
        super().__init__(model, names)
        self.patterns: dict[str, Pattern] = {}

    def take(self, site: str, attended: Attended, mask: Mask | None) -> None:
        self.patterns[site] = attended.pattern


def trace(model: nn.Module, *args: Any, **batch: Any) -> Trace:
    """Runs a model once, without gradients, and keeps what its patterns are made of.

    Args:
        model: a transformers model; one that is not in use is used for the run and restored.
        args: positional inputs of the model.
        batch: keyword inputs, ``**tokenizer(text, return_tensors="pt")``.

    Returns:
        The trace: ``.sites``, ``.pattern(layer)``, ``.output``.

    Raises:
        UnsupportedError: the model's attention does not go through transformers' attention interface.
        SpecError: the forward ran no attention.

    Example:
        >>> import torch, headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> trace = hw.trace(model, input_ids=torch.arange(6)[None])
        >>> trace.pattern(1).shape
        torch.Size([1, 2, 6, 6])
    """
    refuse_if_outside("trace", model)
    found = find_sites(model)
    watcher = _Tracing(model, {module: name for name, module in found.items()})
    with held(model), watched(watcher), torch.no_grad():
        output = model(*args, **batch)
    if not watcher.patterns:
        raise SpecError(sentence("trace", "the forward ran no attention", "a trace keeps the patterns of one forward"))
    return Trace(output, watcher.patterns, list(found))
