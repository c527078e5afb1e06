"""A loss for models that have none: how far what a model says of its tokens has drifted from what it said at first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, sentence
from headwise.heads.batches import as_batches, in_mode, mask_of_queries, run

__all__ = ["Drift"]


class Drift:
    """One minus the mean cosine between the last hidden states of a model now and when this was made.

    With y the hidden state of a real token then and y' now, loss = 1 - mean over real tokens of y.y' / (|y| |y'|): 0
    while the model is whole, 1 where nothing is alike. It is at its least there, so its gradient is 0: weigh heads by
    leaving one out.

    Args:
        model: a model with ``last_hidden_state`` or ``hidden_states`` in its output, as it is to be compared with.
        batches: a batch, or a list of them. Only these very batches can be compared later.

    Raises:
        SpecError: the model's output holds no hidden states.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.heads import Drift
        >>> from transformers import BertConfig, BertModel
        >>> model = BertModel(
        ...     BertConfig(
        ...         num_hidden_layers=1,
        ...         hidden_size=8,
        ...         num_attention_heads=2,
        ...         intermediate_size=8,
        ...         vocab_size=16,
        ...     )
        ... )
        >>> ids = torch.arange(6)[None]
        >>> hw.importance(model, ids, Drift(model, ids), method="leave_one_out").shape
        torch.Size([1, 2])
    """

    def __init__(self, model: nn.Module, batches: Any) -> None:
        self.batches: Sequence[Any] = as_batches("Drift", "batches", batches)
        with in_mode(model, training=False), torch.no_grad():
            self._then = {id(batch): _states(run(model, batch)) for batch in self.batches}

    def __call__(self, output: Any, batch: Any) -> Tensor:
        """The loss of one of the batches, a tensor of one element."""
        if id(batch) not in self._then:
            raise SpecError(
                sentence("Drift", "a batch that it was not made with", "it compares with what the model said at first")
            )
        cosine = torch.nn.functional.cosine_similarity(_states(output).float(), self._then[id(batch)].float(), dim=-1)
        mask = mask_of_queries(batch)
        every = mask is None or mask.shape != cosine.shape
        real = torch.ones_like(cosine, dtype=torch.bool) if every else mask.bool()  # type: ignore[union-attr]
        return 1 - cosine[real].mean()


def _states(output: Any) -> Tensor:
    """The last hidden states [B, T, M]."""
    states: Tensor | None = getattr(output, "last_hidden_state", None)
    if states is None and getattr(output, "hidden_states", None):
        states = output.hidden_states[-1]
    if states is None:
        raise SpecError(
            sentence(
                "Drift",
                f"{type(output).__name__} holds no hidden states",
                "what a model says of its tokens is compared",
                todo="Use the model without its head, or set model.config.output_hidden_states = True.",
            )
        )
    return states
