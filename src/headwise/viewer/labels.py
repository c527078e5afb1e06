"""Tokens and numbers as a reader sees them."""

from __future__ import annotations

import unicodedata

__all__ = ["brief", "columns", "short", "shortened", "visible"]

_SIGNS = {"\n": "⏎", "\r": "␍", "\t": "⇥", "\x7f": "␡", "\xa0": "⍽"}


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
