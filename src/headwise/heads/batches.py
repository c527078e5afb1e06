"""Batches that a model is run on: what the caller may give, what of them is real, and running it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, sentence

__all__ = ["as_batches", "ids_of", "in_mode", "next_tokens", "rows_of", "run"]


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


def rows_of(model: nn.Module, batch: Any) -> int:
    """Number of examples in a batch: the rows of the model's main input, else the most that any input has."""
    if isinstance(batch, Tensor):
        return len(batch)
    main = batch.get(getattr(model, "main_input_name", "input_ids"))
    inputs = [main] if isinstance(main, Tensor) else [x for x in batch.values() if isinstance(x, Tensor) and x.dim()]
    return max(map(len, inputs), default=1)


def ids_of(who: str, inputs: Mapping[str, Any]) -> Tensor:
    """The token ids of a batch."""
    ids = inputs.get("input_ids")
    if not isinstance(ids, Tensor) or ids.dim() != 2:
        what = f"a batch has no input_ids but {', '.join(map(str, inputs)) or 'nothing'}"
        if ids is not None:
            what = f"input_ids are {list(ids.shape) if isinstance(ids, Tensor) else type(ids).__name__}"
        raise SpecError(
            sentence(
                who,
                what,
                "a language model predicts input_ids, a tensor [B,T]",
                todo='Give tokenizer(texts, return_tensors="pt", padding=True), or labels.',
            )
        )
    return ids


def next_tokens(ids: Tensor, mask: Tensor | None) -> Tensor:
    """Labels of a language model: each real token that follows a real one, -100 elsewhere.

    Args:
        ids: int64 [B, T].
        mask: [B, T], 1 = a real token; None = all are.

    Returns:
        int64 [B, T]; the entry at t is to be predicted from the tokens before it, so the first is always -100.
    """
    real = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()
    labels = torch.full_like(ids, -100)
    labels[:, 1:] = ids[:, 1:].masked_fill(~(real[:, 1:] & real[:, :-1]), -100)
    return labels


@contextlib.contextmanager
def in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """Train or eval mode for the duration, each module's own mode after."""
    modes = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, before in modes:
            module.training = before


def run(model: nn.Module, batch: Any) -> Any:
    """The model's output on a batch."""
    return model(input_ids=batch) if isinstance(batch, Tensor) else model(**batch)
