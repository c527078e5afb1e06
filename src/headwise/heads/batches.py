"""Batches that a model is run on: what the caller may give, and running it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor, nn

from headwise.errors import SpecError, sentence

__all__ = ["as_batches", "run"]


def as_batches(who: str, name: str, given: Any) -> list[Any]:
    """A batch, or several, as a list.

    Args:
        who: the function that asks, for the message.
        name: of its argument.
        given: a batch is a mapping of the model's inputs, as a tokenizer returns, or its input_ids [B, T]; or a list of
            them.

    Raises:
        SpecError: it is none of these, or empty.
    """
    several = [given] if isinstance(given, (Mapping, Tensor)) else given
    if several is None or isinstance(several, str) or not isinstance(several, Iterable):
        raise SpecError(
            sentence(
                who,
                f"{name} is {type(given).__name__}",
                "it is a batch, {'input_ids': ..., ...} or input_ids [B,T], or a list of batches",
                todo='Give tokenizer(texts, return_tensors="pt", padding=True).',
            )
        )
    batches = list(several)
    for batch in batches:
        if not isinstance(batch, (Mapping, Tensor)):
            raise SpecError(
                sentence(
                    who, f"a batch of {name} is a {type(batch).__name__}", "a batch is a mapping, or input_ids [B,T]"
                )
            )
    if not batches:
        raise SpecError(sentence(who, f"{name} is empty", "there is nothing to run the model on"))
    return batches


def run(model: nn.Module, batch: Any) -> Any:
    """The model's output on a batch."""
    return model(input_ids=batch) if isinstance(batch, Tensor) else model(**batch)
