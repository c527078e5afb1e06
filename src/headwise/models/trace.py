"""One run of a model, kept so that every pattern of it can be asked for afterwards."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from headwise.errors import SpecError, sentence
from headwise.models.sites import find_sites, refuse_if_outside, resolve_sites
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
        sites: the attention modules that ran, in their order; a module that ran n times is ``site``, ``site#1``, ...
    """

    def __init__(self, output: Any, patterns: dict[str, Pattern]) -> None:
        self.output = output
        self._patterns = patterns

    @property
    def sites(self) -> list[str]:
        """The runs that were kept, in order."""
        return list(self._patterns)

    def pattern(self, layer: str | int) -> Pattern:
        """The attention pattern of one site.

        Args:
            layer: a name of ``trace.sites``, or an index into it.

        Returns:
            The pattern, never stored: index it, reduce it.

        Raises:
            SpecError: no such site ran.
        """
        return self._patterns[resolve_sites("trace", self.sites, [layer])[0]]

    def __repr__(self) -> str:
        return f"Trace({len(self._patterns)} sites)"


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
    watcher = _Tracing(model, {module: name for name, module in find_sites(model).items()})
    with held(model), watched(watcher), torch.no_grad():
        output = model(*args, **batch)
    if not watcher.patterns:
        raise SpecError(sentence("trace", "the forward ran no attention", "a trace keeps the patterns of one forward"))
    return Trace(output, watcher.patterns)
