"""Colours of probabilities and of the paper they are drawn on, for pictures that no browser draws."""

from __future__ import annotations

import math
from functools import lru_cache

import torch
from torch import Tensor

from headwise.viewer.sheet import Colour

__all__ = ["PAPERS", "SCALES", "STOPS", "coloured", "ink_on", "ramp", "scaled"]

#: The ramps by their name in the page, where the same stand. Lightness rises or falls all the way; a difference is blue
#: and orange, its middle is the paper.
STOPS: dict[str, tuple[str, ...]] = {
    "light": ("#ffffff", "#dbe9f6", "#9ecae1", "#4a98c9", "#1f6cb0", "#123f85", "#0a1c4a"),
    "dark": ("#10141b", "#152f55", "#1a567f", "#2b8089", "#5aab82", "#b5cf6b", "#fff3b0"),
    "lightApart": ("#0b2f66", "#2166ac", "#7fb2d6", "#ffffff", "#f2b36b", "#b85c07", "#6b2f00"),
    "darkApart": ("#c9e6ff", "#6cb4ff", "#235a94", "#10141b", "#8a4a0c", "#f39a3c", "#ffe3bd"),
}

#: Ink, softer ink, lines and the paper itself.
PAPERS: dict[str, dict[str, str]] = {
    "light": {"ink": "#1a1f27", "soft": "#5b6675", "line": "#aab3c0", "surface": "#ffffff"},
    "dark": {"ink": "#e8ecf2", "soft": "#98a4b3", "line": "#4a5462", "surface": "#171b22"},
}

SCALES = ("linear", "sqrt", "log")

_STEPS = 1024
_DECADES = 1e4  # four decades fit into the logarithm, which passes through 0

_TO_CONES = torch.tensor(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
     [0.0883024619, 0.2817188376, 0.6299787005]], dtype=torch.float64, device="cpu")  # fmt: skip
_TO_LAB = torch.tensor(
    [[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099],
     [0.0259040371, 0.7827717662, -0.808675766]], dtype=torch.float64, device="cpu")  # fmt: skip


def rgb(text: str) -> Colour:
    """``#rrggbb`` as three numbers."""
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


@lru_cache(maxsize=4)
def ramp(dark: bool, diverging: bool) -> Tensor:
    """The colours from t = 0 to t = 1, uint8 [1024, 3]; equal steps in OKLab look equal."""
    stops = STOPS[("dark" if dark else "light") + ("Apart" if diverging else "")]
    lab = _oklab(torch.tensor([rgb(stop) for stop in stops], dtype=torch.int64, device="cpu"))
    x = torch.arange(_STEPS, dtype=torch.float64, device="cpu") / (_STEPS - 1) * (len(stops) - 1)
    at = x.floor().long().clamp(max=len(stops) - 2)
    mixed = lab[at] + (lab[at + 1] - lab[at]) * (x - at)[:, None]
    return _from_oklab(mixed)


def _oklab(colours: Tensor) -> Tensor:
    x = colours.double() / 255
    linear = torch.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
    return (linear @ _TO_CONES.T) ** (1 / 3) @ _TO_LAB.T


def _from_oklab(lab: Tensor) -> Tensor:
    cones = (lab @ torch.linalg.inv(_TO_LAB).T) ** 3
    linear = (cones @ torch.linalg.inv(_TO_CONES).T).clamp(min=0)
    x = torch.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return (255 * x.clamp(0, 1)).round().to(torch.uint8)


def scaled(share: Tensor, scale: str) -> Tensor:
    """From a share of the largest value, 0 to 1, to a place on the ramp, 0 to 1."""
    share = share.clamp(0, 1)
    if scale == "sqrt":
        return share.sqrt()
    return torch.log1p(_DECADES * share) / math.log1p(_DECADES) if scale == "log" else share


def coloured(values: Tensor, most: float, scale: str, *, dark: bool, diverging: bool) -> Tensor:
    """The colour of each value of 0 to ``most``, or of ``-most`` to ``most`` where they diverge; uint8 [..., 3]."""
    share = (values.double() / most).nan_to_num(0.0)
    t = scaled(share.abs(), scale)
    if diverging:
        t = 0.5 + 0.5 * share.sign() * t
    return ramp(dark, diverging)[(t * (_STEPS - 1)).round().long()]


def ink_on(colour: Colour) -> Colour:
    """Black or white, whichever can be read better on a colour; the contrast is 4.5 at least."""
    linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in (part / 255 for part in colour)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return (0, 0, 0) if luminance > 0.179 else (255, 255, 255)
