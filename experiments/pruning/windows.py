"""Stretches of text that models are weighed and measured on: one a document, so that no two follow each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from experiments.texts import Document

__all__ = ["batched", "stretches"]

CHARACTERS = 8  #: read for each token wanted; English takes about 4.


def stretches(tokenizer: Any, documents: Sequence[Document], count: int, length: int) -> Tensor:
    """The first line that begins in the second half of each document and what follows it, [count, length] of ids.

    Args:
        tokenizer: of the model; its special tokens are counted in.
        documents: in the order in which they are taken; those that are too short are left out.
        count: how many.
        length: in tokens.

    Raises:
        ValueError: there are too few documents of that length.
    """
    found: list[list[int]] = []
    for one in documents:
        text = one.text[len(one.text) // 2 :]
        text = text[text.find("\n") + 1 :][: CHARACTERS * length]
        ids = tokenizer(text, truncation=True, max_length=length)["input_ids"]
        if len(ids) == length:
            found.append(ids)
        if len(found) == count:
            return torch.tensor(found)
    raise ValueError(f"{len(found)} documents have {length} tokens in their second half, {count} are wanted")


def batched(windows: Tensor, rows: int) -> list[dict[str, Tensor]]:
    """The windows [N, T] as batches of so many rows."""
    return [{"input_ids": part, "attention_mask": torch.ones_like(part)} for part in windows.split(rows)]
