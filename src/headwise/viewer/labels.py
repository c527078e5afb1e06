"""Tokens and numbers as a reader sees them, and the stretch of the text that each token stands for."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

__all__ = ["brief", "columns", "names_of", "pieces", "short", "shortened", "visible"]

_SIGNS = {"\n": "⏎", "\r": "␍", "\t": "⇥", "\x7f": "␡", "\xa0": "⍽"}


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


def visible(text: str) -> str:
    """A text in which everything can be seen: "⏎" for a new line, "·" for a space at an end, "◌" for nothing.

    Example:
        >>> from headwise.viewer.labels import visible
        >>> visible(" the"), visible("a\\n"), visible(""), visible("\\u202e")
        ('·the', 'a⏎', '◌', '⟨202e⟩')
    """
    if not text.strip(" "):
        return "␣" * len(text) or "◌"
    ahead, behind = len(text) - len(text.lstrip(" ")), len(text) - len(text.rstrip(" "))
    seen = "·" * ahead + "".join(map(_seen, text.strip(" "))) + "·" * behind
    # A lone accent would sit on whatever is drawn before it.
    return f"◌{seen}" if unicodedata.category(seen[0]).startswith("M") else seen


def _seen(character: str) -> str:
    """One character; what shows nothing or turns the text around it is written as its number."""
    if character in _SIGNS:
        return _SIGNS[character]
    code, kind = ord(character), unicodedata.category(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if kind == "Cs":
        return "\ufffd"
    return f"⟨{code:x}⟩" if kind in ("Cc", "Cf", "Cn", "Zl", "Zp") else character


def columns(text: str) -> int:
    """How many columns of a fixed-width font a text takes, about."""
    marks = sum(unicodedata.combining(character) > 0 for character in text)
    return len(text) - marks + sum(unicodedata.east_asian_width(character) in "WF" for character in text)


def shortened(text: str, most: int) -> str:
    """A text of at most so many columns, with an ellipsis where it was cut."""
    if columns(text) <= most:
        return text
    kept = ""
    for character in text:
        if columns(kept + character) > most - 1:
            break
        kept += character
    return kept + "…"


def short(x: float) -> str:
    """A number without zeros at its end: "0.4", "5e-5".

    Example:
        >>> from headwise.viewer.labels import short
        >>> short(1.0), short(0.0625), short(-0.4), short(0.00005), short(0.0)
        ('1', '0.0625', '-0.4', '5e-5', '0')
    """
    if x and abs(x) < 1e-3:
        digits, _, exponent = f"{x:.2e}".partition("e")
        return f"{float(digits):g}e{int(exponent)}"
    return f"{x:.3g}"


def brief(p: float) -> str:
    """A probability where four characters must do: "0.12", "1e-5"."""
    if p == 0 or abs(p) >= 0.00995:
        return f"{p:.2f}" if p else "0"
    digits, _, exponent = f"{p:.0e}".partition("e")
    return f"{digits}e{int(exponent)}"
