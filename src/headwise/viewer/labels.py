"""Tokens and numbers as a reader sees them."""

from __future__ import annotations

import unicodedata
from decimal import ROUND_HALF_UP, Decimal

__all__ = ["brief", "columns", "share", "short", "shortened", "visible"]

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


def share(p: float) -> str:
    """A probability: "0.123", "0.0012", "1.2e-5". Halves are rounded up, as the page rounds them.

    Example:
        >>> from headwise.viewer.labels import share
        >>> share(0.1234), share(0.0012), share(1.2e-5), share(0.0)
        ('0.123', '0.0012', '1.2e-5', '0')
    """
    if p == 0:
        return "0"
    if abs(p) >= 0.00995:
        return _fixed(p, 3)
    return _fixed(p, 4) if abs(p) >= 0.000995 else _power(p, 1)


def brief(p: float) -> str:
    """A probability where five characters must do: "0.12", "0.007", "1e-5"."""
    if p == 0:
        return "0"
    if abs(p) >= 0.00995:
        return _fixed(p, 2)
    return _fixed(p, 3) if abs(p) >= 0.0009995 else _power(p, 0)


def short(x: float) -> str:
    """A round number without zeros at its end: "0.4", "5e-5".

    Example:
        >>> from headwise.viewer.labels import short
        >>> short(1.0), short(0.0625), short(0.00005), short(0.0)
        ('1', '0.0625', '5e-5', '0')
    """
    if x == 0:
        return "0"
    size = _rounded(x, 2)
    if abs(x) < 1e-3:
        digits = f"{float(size.scaleb(-size.adjusted())):g}"
        return _signed(x, f"{digits}e{size.adjusted()}")
    return _signed(x, f"{float(size):.15g}")


def _fixed(x: float, places: int) -> str:
    return _signed(x, f"{abs(Decimal(x)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP):f}")


def _power(x: float, places: int) -> str:
    size = _rounded(x, places)
    return _signed(x, f"{size.scaleb(-size.adjusted()):.{places}f}e{size.adjusted()}")


def _rounded(x: float, places: int) -> Decimal:
    """The size of a number with so many digits after its first."""
    size = abs(Decimal(x))
    return size.quantize(Decimal(1).scaleb(size.adjusted() - places), ROUND_HALF_UP)


def _signed(x: float, size: str) -> str:
    """With a minus sign that is as wide as a plus."""
    return f"−{size}" if x < 0 else size
