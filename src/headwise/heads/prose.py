"""Texts that heads are watched on: English that ships with every Python, or the caller's own file."""

from __future__ import annotations

import re
from pathlib import Path

from headwise.errors import SpecError, sentence

__all__ = ["pages", "prose", "text_in"]

_TOPICS = ("objects", "execmodel", "naming", "assignment", "import", "customization", "attribute-access", "function")


def pages() -> list[str]:
    """Eight pages of Python's own documentation as running text, the same in every run of one Python.

    Example:
        >>> from headwise.heads.prose import pages
        >>> len(pages()), pages()[0][:25]
        (8, 'Objects, values and types')
    """
    from pydoc_data.topics import topics

    found = []
    for name in _TOPICS:
        page = re.sub(r"^[*=~^\"'-]+$", "", topics.get(name, ""), flags=re.MULTILINE)  # the rules below headings
        page = re.sub(r"\*+(\w[^*\n]*)\*+", r"\1", page)  # emphasis
        paragraphs = [" ".join(part.split()) for part in re.split(r"\n\s*\n", page)]
        found.append("\n\n".join(part for part in paragraphs if part))
    return found


def prose() -> str:
    """The pages as one text of about 9,000 tokens.

    Example:
        >>> from headwise.heads.prose import prose
        >>> prose()[:25]
        'Objects, values and types'
    """
    return "\n\n".join(pages())


def text_in(who: str, path: Path) -> str:
    """The text of a UTF-8 file."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as cause:
        raise SpecError(sentence(who, f"cannot read {path}", cause.strerror or str(cause))) from cause
    except UnicodeDecodeError as cause:
        what = f"{path} is no UTF-8 text: byte {cause.object[cause.start]:#04x} at position {cause.start}"
        raise SpecError(sentence(who, what, todo="Convert it: iconv -f latin1 -t utf-8.")) from cause
