"""Batches that a model is run on: what the caller may give, what of them is real, and running it."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, sentence

__all__ = ["as_batches", "ids_of", "in_mode", "mask_of_queries", "next_tokens", "rows_of", "run", "trainable"]


@dataclass(eq=False)
class _Held:
    """The modes of a model's modules before somebody changed them, and how many there are that did."""

    modes: dict[nn.Module, bool]
    count: int = 0


_lock = threading.Lock()
_modes: weakref.WeakKeyDictionary[nn.Module, _Held] = weakref.WeakKeyDictionary()


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
        _check_batch(who, name, batch)
        if not isinstance(batch, (Mapping, Tensor)):
            raise SpecError(
                sentence(
                    who, f"a batch of {name} is a {type(batch).__name__}", "a batch is a mapping, or input_ids [B,T]"
                )
            )
    if not batches:
        raise SpecError(sentence(who, f"{name} is empty", "there is nothing to run the model on"))
    return batches


def _check_batch(who: str, name: str, batch: Any) -> None:
    """Raises SpecError where a batch's token ids are none: lists, floats, no rows or no tokens."""
    ids = batch if isinstance(batch, Tensor) else batch.get("input_ids") if isinstance(batch, Mapping) else None
    if ids is None:
        return
    shown = f"{list(ids.shape)} of {ids.dtype}" if isinstance(ids, Tensor) else f"a {type(ids).__name__}"
    if isinstance(ids, Tensor) and ids.dim() == 2 and ids.numel() and not (ids.is_floating_point() or ids.is_complex()):
        return
    raise SpecError(
        sentence(
            who,
            f"input_ids of a batch of {name} are {shown}",
            "they are a tensor of whole numbers [B,T], with a row and a token at least",
            todo='Give tokenizer(texts, return_tensors="pt", padding=True).',
        )
    )


def rows_of(model: nn.Module, batch: Any) -> int:
    """Number of examples in a batch: the rows of the model's main input, else the most that any input has."""
    if isinstance(batch, Tensor):
        return len(batch)
    main = batch.get(getattr(model, "main_input_name", "input_ids"))
    inputs = [main] if isinstance(main, Tensor) else [x for x in batch.values() if isinstance(x, Tensor) and x.dim()]
    return max(map(len, inputs), default=1)


def mask_of_queries(batch: Any) -> Tensor | None:
    """Which tokens are real of those that the output is about, [B, T]: the decoder's, where there are two sequences."""
    if isinstance(batch, Tensor):
        return None
    beside = any(str(name).startswith("decoder_") for name in batch)
    mask: Tensor | None = batch.get("decoder_attention_mask" if beside else "attention_mask")
    return mask


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


def trainable(batch: Any) -> Any:
    """A batch that autograd can keep: tensors made in inference mode are copied, which is done outside of it."""
    if isinstance(batch, Tensor):
        return batch.clone() if batch.is_inference() else batch
    if not any(isinstance(value, Tensor) and value.is_inference() for value in batch.values()):
        return batch
    return {name: trainable(value) if isinstance(value, Tensor) else value for name, value in batch.items()}


def is_causal_lm(model: nn.Module) -> bool:
    """Whether a model predicts the tokens that it is given, each from those before it."""
    can_generate = getattr(model, "can_generate", None)
    config = getattr(model, "config", None)
    return callable(can_generate) and bool(can_generate()) and not getattr(config, "is_encoder_decoder", False)


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
    with _lock:
        held = _modes.setdefault(model, _Held({module: module.training for module in model.modules()}))
        held.count += 1
        model.train(training)
    try:
        yield
    finally:
        with _lock:
            held.count -= 1
            if not held.count:  # the last of several threads gives back what the first one found
                del _modes[model]
                for module, before in held.modes.items():
                    module.training = before


def run(model: nn.Module, batch: Any) -> Any:
    """The model's output on a batch."""
    return model(input_ids=batch) if isinstance(batch, Tensor) else model(**batch)
