"""The text that each token of a model's input stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["names_of", "pieces"]


def pieces(tokenizer: Any, text: str, ids: Sequence[int]) -> tuple[list[str], list[int]]:
    """The stretch of the text that each token stands for.

    Args:
        tokenizer: of transformers, the one that made ``ids`` of ``text``.
        text: the text.
        ids: the token ids, or the first of them.

    Returns:
        One string a token, in a row the text as far as the tokens go (of several tokens that share a character the
        first has it), and the indices of tokens that stand for no text, such as [CLS], by their own name.
    """
    fast = bool(getattr(tokenizer, "is_fast", False))
    made = tokenizer(
        text, truncation=True, max_length=len(ids), return_special_tokens_mask=True, return_offsets_mapping=fast
    )
    names = [str(name) for name in tokenizer.convert_ids_to_tokens(list(ids))]
    special = [i for i, flag in enumerate(made["special_tokens_mask"][: len(ids)]) if flag]
    none = set(special)
    if not fast:
        return [name.replace("\u2581", " ").replace("\u0120", " ") for name in names], special
    found: list[str] = []
    done = 0
    for i, (_, stop) in enumerate(made["offset_mapping"][: len(ids)]):
        # What lies between two tokens (a space that a BERT drops) goes with the second.
        found.append(names[i] if i in none else text[done : max(done, stop)])
        done = max(done, stop) if i not in none else done
    return found, special


def names_of(tokenizer: Any, ids: Sequence[int]) -> tuple[list[str], list[int]]:
    """The text of each token where only the ids are known, and the positions of those that are no text."""
    names = [str(name) for name in tokenizer.convert_ids_to_tokens(list(ids))]
    none = set(tokenizer.all_special_ids)
    special = [at for at, one in enumerate(ids) if one in none]
    if any("\u2581" in name for name in names):  # decoding one token would lose its space
        return [name.replace("\u2581", " ") for name in names], special
    decoded = [tokenizer.decode([one], clean_up_tokenization_spaces=False) for one in ids]
    pairs = zip(ids, names, decoded, strict=True)
    return [name if one in none else text for one, name, text in pairs], special
