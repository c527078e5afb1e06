"""What lies along the queries or the keys of a pattern: the tokens of a text, or the patches of an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headwise.errors import SpecError, sentence

__all__ = ["Axis", "Grid", "Tokens"]

_MOST = 2**22  # positions of one axis: a name for each is kept in the page


@dataclass(frozen=True)
class Tokens:
    """The tokens of a text, in a row.

    Args:
        labels: the text of each token. Shown as it is, whatever it holds: no text becomes markup.
        special: positions that are no text, such as [CLS].
        name: what the text is called, "source" or "target".

    Example:
        >>> from headwise.viewer import Tokens
        >>> len(Tokens(["The", " cat", " sat"]))
        3
    """

    labels: Sequence[str]
    special: Sequence[int] = ()
    name: str = "tokens"

    def __post_init__(self) -> None:
        row = isinstance(self.labels, Sequence) and not isinstance(self.labels, str)
        if not row or not all(isinstance(label, str) for label in self.labels):
            raise SpecError(
                sentence("Tokens", "the labels are no sequence of strings", "each token has one string, its text")
            )
        object.__setattr__(self, "labels", tuple(_whole(label) for label in self.labels))
        special = list(self.special) if isinstance(self.special, Sequence) else [None]
        if not isinstance(self.name, str) or not all(type(at) is int for at in special):
            raise SpecError(sentence("Tokens", "special or name does not fit", "special are ints, name is a string"))
        outside = [at for at in self.special if not 0 <= at < len(self.labels)]
        if outside:
            what = f"special position {outside[0]} of {len(self.labels)} tokens"
            raise SpecError(sentence("Tokens", what, "special counts tokens from 0"))

    def __len__(self) -> int:
        return len(self.labels)

    def upto(self, length: int) -> Tokens:
        """The first so many of them."""
        return Tokens(self.labels[:length], [at for at in self.special if at < length], self.name)

    def describe(self) -> dict[str, Any]:
        """As the page reads it."""
        return {"kind": "tokens", "name": self.name, "labels": list(self.labels), "special": list(self.special)}


@dataclass(frozen=True)
class Grid:
    """The patches of an image, row by row, after positions that are no patch.

    Args:
        height: patches down.
        width: patches across.
        before: positions in front of the patches, 1 for a class token.
        name: what the image is called.

    Example:
        >>> from headwise.viewer import Grid
        >>> len(Grid(24, 24, before=1))
        577
    """

    height: int
    width: int
    before: int = 0
    name: str = "patches"

    def __post_init__(self) -> None:
        for field, least in (("height", 1), ("width", 1), ("before", 0)):
            value = getattr(self, field)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise SpecError(sentence("Grid", f"{field} is {value!r}", f"it counts patches, at least {least}"))
        if len(self) > _MOST:
            raise SpecError(sentence("Grid", f"{len(self):,} patches", f"an axis has at most {_MOST:,} positions"))

    def __len__(self) -> int:
        return self.before + self.height * self.width

    @property
    def labels(self) -> tuple[str, ...]:
        """A name a position: "r2 c5" is the patch of row 2 and column 5."""
        front = tuple(f"[{at}]" for at in range(self.before))
        return front + tuple(f"r{r} c{c}" for r in range(self.height) for c in range(self.width))

    @property
    def special(self) -> tuple[int, ...]:
        """Positions that are no patch."""
        return tuple(range(self.before))

    def describe(self) -> dict[str, Any]:
        """As the page reads it."""
        size = {"height": self.height, "width": self.width, "before": self.before}
        return {"kind": "grid", "name": self.name, "labels": list(self.labels), "special": list(self.special), **size}


Axis = Tokens | Grid


def _whole(label: str) -> str:
    """A token without lone surrogates, which no file can hold."""
    return label.encode("utf-8", "replace").decode("utf-8")
