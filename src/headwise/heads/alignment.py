"""Tokens of a text and the words they belong to, through the tokenizer's offsets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise.errors import SpecError, UnsupportedError, sentence
from headwise.heads.annotations import Span

__all__ = ["Aligned", "Encoded", "aligned", "encoded"]


@dataclass(frozen=True, eq=False)
class Aligned:
    """A text in tokens, and which word each token is of.

    Words that share a token are one: what a head gives to it, it gives to all of them.

    Attributes:
        ids: int64 [1, T].
        word_of: int64 [T], the number of each token's word; -1 for special tokens and blanks.
        number: for each word that was given, the number of the word it is now.
    """

    ids: Tensor
    word_of: Tensor
    number: tuple[int, ...]

    @property
    def words(self) -> int:
        """How many there are."""
        return self.number[-1] + 1 if self.number else 0


@dataclass(frozen=True, eq=False)
class Encoded:
    """A text in tokens, and where each comes from.

    Attributes:
        ids: int64 [T].
        offsets: the characters of each token, half open.
        pieces: which stretch of the text, as the tokenizer splits it first, each token is of; None = a special token.
    """

    ids: Tensor
    offsets: list[tuple[int, int]]
    pieces: list[int | None]


def encoded(who: str, tokenizer: Any, text: str, special: bool = True) -> Encoded:
    """Tokenizes a text.

    Args:
        who: the function that asks, for messages.
        tokenizer: a fast tokenizer.
        text: the text.
        special: add special tokens.

    Raises:
        UnsupportedError: a tokenizer that does not say where its tokens stand.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise UnsupportedError(
            sentence(
                who,
                f"{type(tokenizer).__name__} does not say where its tokens stand in the text",
                "words are found by a fast tokenizer's offsets",
                todo="Load it as a fast one, AutoTokenizer.from_pretrained(..., use_fast=True).",
            )
        )
    # verbose=False: a text that is too long for the model is our business, and gets a sentence of its own.
    found = tokenizer(text, add_special_tokens=special, return_offsets_mapping=True, verbose=False)
    offsets = [(int(start), int(stop)) for start, stop in found["offset_mapping"]]
    return Encoded(torch.tensor(found["input_ids"], dtype=torch.int64, device="cpu"), offsets, found.word_ids())


def aligned(who: str, tokenizer: Any, text: str, words: Sequence[Span], name: str) -> Aligned:
    """Tokenizes a text and gives each token its word.

    Args:
        who: the function that asks, for messages.
        tokenizer: a fast tokenizer.
        text: the text.
        words: spans in order that do not overlap.
        name: of the text, for messages.

    Returns:
        The tokens with their words.

    Raises:
        SpecError: a word that no token is of.
        UnsupportedError: a tokenizer that does not say where its tokens stand.
    """
    found = encoded(who, tokenizer, text)
    at = [-1] * len(text)
    for n, word in enumerate(words):
        at[word.start : word.stop] = [n] * (word.stop - word.start)
    joined = [False] * len(words)  # to the word before
    first = [-1] * len(found.ids)
    reached: set[int] = set()
    for place in reversed(range(len(first))):
        here = [n for n in at[slice(*found.offsets[place])] if n >= 0]
        reached.update(here)
        if here:
            first[place] = here[0]
            joined[here[0] + 1 : here[-1] + 1] = [True] * (here[-1] - here[0])
        elif found.pieces[place] is not None and found.pieces[place] in found.pieces[place + 1 : place + 2]:
            first[place] = first[place + 1]  # a space that could not be merged with the word behind it
    lost = next((n for n in range(len(words)) if n not in reached), None)
    if lost is not None:
        what = f"word {lost + 1} of {name}, {text[slice(*words[lost])]!r}, has no token"
        raise SpecError(sentence(who, what, f"each word is one or more tokens of {type(tokenizer).__name__}"))
    number, count = [], -1
    for apart in (not together for together in joined):
        count += apart
        number.append(count)
    return Aligned(
        found.ids[None],
        torch.tensor([number[n] if n >= 0 else -1 for n in first], dtype=torch.int64, device="cpu"),
        tuple(number),
    )
