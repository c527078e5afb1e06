"""What lies along the queries or the keys of a pattern: the tokens of a text, or the patches of an image."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headwise.errors import SpecError, axes, sentence
from headwise.viewer.sheet import png_of

__all__ = ["Axis", "Grid", "Tokens"]

_LONGEST = 384  # pixels of an image's longer side in the page
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
        image: the picture that the patches were cut from, as the model read it, resized and cropped: a tensor
            [3, h, w] or [h, w, 3] or an array of that shape, uint8 or floats of 0 to 1, or an image of Pillow. Floats
            outside 0 to 1, such as a processor's ``pixel_values[0]``, are stretched from their least to their largest.
            The page shows it under the patches, at most 384 pixels long.

    Raises:
        SpecError: sizes that count no patches, an image that is none.

    Example:
        >>> import torch
        >>> from headwise.viewer import Grid
        >>> len(Grid(24, 24, before=1))
        577
        >>> Grid(2, 2, image=torch.rand(3, 32, 32)).describe()["image"][:22]
        'data:image/png;base64,'
    """

    height: int
    width: int
    before: int = 0
    name: str = "patches"
    image: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, least in (("height", 1), ("width", 1), ("before", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise SpecError(sentence("Grid", f"{name} is {value!r}", f"it counts patches, at least {least}"))
        if len(self) > _MOST:
            raise SpecError(sentence("Grid", f"{len(self):,} patches", f"an axis has at most {_MOST:,} positions"))
        if self.image is not None:
            object.__setattr__(self, "image", _pixels(self.image))

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
        found = {"kind": "grid", "name": self.name, "labels": list(self.labels), "special": list(self.special), **size}
        if self.image is not None:
            found["image"] = "data:image/png;base64," + base64.b64encode(png_of(self.image)).decode("ascii")
        return found


Axis = Tokens | Grid


def _pixels(image: Any) -> Tensor:
    """An image as uint8 [h, w, 3], no larger than a page needs it."""
    found = _tensor(image)
    if found.dim() == 3 and found.shape[0] == 3 and found.shape[2] != 3:
        found = found.movedim(0, 2)
    if found.dim() != 3 or found.shape[2] != 3 or 0 in found.shape:
        raise SpecError(
            sentence("Grid", "the image has other axes", "it is [3,h,w] or [h,w,3]", axes("image", found, ""))
        )
    if found.dtype == torch.uint8:
        found = found.float() / 255
    if not found.is_floating_point() or not bool(found.isfinite().all()):
        what = "the image holds numbers that are not finite" if found.is_floating_point() else f"it is {found.dtype}"
        raise SpecError(sentence("Grid", what, "an image is uint8, or floats of 0 to 1"))
    found = found.float()
    low, high = float(found.min()), float(found.max())
    if low < 0 or high > 1:
        found = (found - low) / max(high - low, 1e-12)
    most = max(found.shape[:2])
    if most > _LONGEST:
        size = [max(1, round(side * _LONGEST / most)) for side in found.shape[:2]]
        found = torch.nn.functional.interpolate(found.movedim(2, 0)[None], size, mode="area")[0].movedim(0, 2)
    return (found * 255).round().to(torch.uint8).contiguous()


def _tensor(image: Any) -> Tensor:
    """A tensor on the CPU of a tensor, an array or an image of Pillow."""
    if isinstance(image, Tensor):
        return image.detach().cpu()
    if callable(getattr(image, "convert", None)) and hasattr(image, "size"):  # Pillow's, which need not be installed
        rgb = image.convert("RGB")
        return torch.frombuffer(bytearray(rgb.tobytes()), dtype=torch.uint8).view(rgb.height, rgb.width, 3)
    if type(image).__module__.partition(".")[0] == "numpy" and hasattr(image, "shape"):
        try:
            return torch.as_tensor(image.copy(), device="cpu")
        except (TypeError, RuntimeError) as cause:
            what = f"the image is an array of {image.dtype}"
            raise SpecError(sentence("Grid", what, "an image is uint8, or floats of 0 to 1")) from cause
    rule = "it is a tensor or array [3,h,w] or [h,w,3], or an image of Pillow"
    raise SpecError(
        sentence("Grid", f"the image is a {type(image).__name__}", rule, todo="Of a file: PIL.Image.open(path).")
    )


def _whole(label: str) -> str:
    """A token without lone surrogates, which no file can hold."""
    return label.encode("utf-8", "replace").decode("utf-8")
