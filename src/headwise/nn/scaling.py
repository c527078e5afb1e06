"""How the frequencies of rotary embeddings are changed so that a model reads longer texts than it was trained on.

Fields have the names of transformers' ``rope_parameters``. w_k = base^(-2k/W) are the unchanged frequencies.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor
from typing_extensions import Self

from headwise.errors import SpecError, sentence

__all__ = ["SCALINGS", "DynamicNTK", "Linear", "Llama3", "LongRope", "Scaling", "Yarn", "ladder"]


@dataclass(frozen=True)
class Scaling:
    """Base of the scalings: frequencies, and a factor on what is rotated.

    Example:
        >>> from headwise.nn.scaling import Linear, Scaling
        >>> isinstance(Linear(factor=2.0), Scaling)
        True
    """

    by_length: ClassVar[bool] = False  # whether frequencies depend on how long the text is

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))
            elif field.name.startswith("mscale") and value == 0:
                object.__setattr__(self, field.name, None)  # so that checkpoints say that it is not set
            elif not _fits(field.type, value):
                rule = {"bool": "it is True or False"}.get(str(field.type), "numbers here are finite and above 0")
                raise SpecError(sentence(type(self).__name__, f"{field.name} is {value!r}", rule))

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, Any], max_position_embeddings: int | None) -> Self:
        """A scaling from parameters as transformers' configs name them; what it has no field for is left out."""
        given = {field.name: parameters.get(field.name) for field in fields(cls)}
        if "max_position_embeddings" in given:
            given["max_position_embeddings"] = max_position_embeddings
        trained = given.get("original_max_position_embeddings")
        if given.get("factor", 1) is None and max_position_embeddings and trained:
            given["factor"] = max_position_embeddings / trained
        found = {name: value for name, value in given.items() if value is not None}
        missing = [field.name for field in fields(cls) if field.default is MISSING and field.name not in found]
        if missing:
            rule = f"it needs {', '.join(field.name for field in fields(cls) if field.default is MISSING)}"
            raise SpecError(sentence(cls.__name__, f"there is no {' and no '.join(missing)}", rule))
        return cls(**found)

    @property
    def attention(self) -> float:
        """What cosines and sines are multiplied by."""
        return 1.0

    def speeds(self, base: float, width: int, length: Any, device: torch.device) -> Tensor:
        """Frequencies of the W/2 pairs in radians a token, float64 [W/2], for a text of ``length`` tokens."""
        raise NotImplementedError


def _fits(kind: Any, value: Any) -> bool:
    """Whether a field may hold a value: numbers are above 0, and tuples hold such numbers."""
    if value is None or kind == "bool":
        return isinstance(value, bool) if kind == "bool" else "None" in str(kind)
    if "tuple" in str(kind):
        return isinstance(value, tuple) and all(_fits("float", part) for part in value)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf


def ladder(base: Any, width: int, device: torch.device) -> Tensor:
    """The unchanged frequencies base^(-2k/W), float64 [W/2]."""
    exponents = torch.arange(0, width, 2, dtype=torch.float64, device=device) / width
    return torch.as_tensor(base, dtype=torch.float64, device=device) ** -exponents


@dataclass(frozen=True)
class Linear(Scaling):
    """Positions are divided by a factor: ``w_k / factor``.

    Args:
        factor: how many times longer texts may be.

    Source: Chen et al. 2023, "Extending Context Window of Large Language Models via Position Interpolation"
        (arXiv 2306.15595).

    Example:
        >>> import torch
        >>> from headwise.nn.scaling import Linear
        >>> Linear(factor=4.0).speeds(10000.0, 4, None, torch.device("cpu"))
        tensor([0.2500, 0.0025], dtype=torch.float64)
    """

    factor: float

    def speeds(self, base: float, width: int, length: Any, device: torch.device) -> Tensor:
        return ladder(base, width, device) / self.factor


@dataclass(frozen=True)
class DynamicNTK(Scaling):
    """The base grows with the length n of the text, once it is longer than the N trained on.

        base' = base (factor max(n, N) / N - (factor - 1))^(W / (W - 2))

    A key that is in a cache keeps the angles of the length at which it came, as in transformers.

    Args:
        factor: as in the formula.
        max_position_embeddings: N.

    Source: bloc97 and emozilla 2023, "Dynamically Scaled RoPE"; the form is transformers' "dynamic".

    Example:
        >>> import torch
        >>> from headwise.nn.scaling import DynamicNTK
        >>> short, long = (DynamicNTK(2.0, 64).speeds(1e4, 8, n, torch.device("cpu")) for n in (64, 128))
        >>> bool((long[1:] < short[1:]).all())
        True
    """

    factor: float
    max_position_embeddings: int
    by_length: ClassVar[bool] = True

    def speeds(self, base: float, width: int, length: Any, device: torch.device) -> Tensor:
        longest = max(length, self.max_position_embeddings)
        if width == 2:  # the one pair turns at base^0 = 1, whatever the base; the exponent below has no value
            return ladder(base, width, device)
        grown = self.factor * longest / self.max_position_embeddings - (self.factor - 1)
        return ladder(base * grown ** (width / (width - 2)), width, device)


@dataclass(frozen=True)
class Yarn(Scaling):
    """Slow pairs are interpolated, fast ones left alone, with a ramp between.

        w'_k = (1 - g_k) w_k / factor + g_k w_k

    g falls from 1 to 0 between the pairs that turn beta_fast and beta_slow times within the N tokens trained on.

    Args:
        factor: how many times longer texts may be.
        original_max_position_embeddings: N.
        beta_fast: turns from which on pairs are left alone.
        beta_slow: turns below which they are interpolated in full.
        attention_factor: on cosines and sines; None = 0.1 ln(factor) + 1, or with both of the next two their ratio.
        mscale, mscale_all_dim: (0.1 mscale ln(factor) + 1) / (0.1 mscale_all_dim ln(factor) + 1) (DeepSeek).
        truncate: whether the ramp begins and ends at whole pairs.

    Source: Peng et al. 2023, "YaRN" (arXiv 2309.00071), sections 3.2 and 3.4.

    Example:
        >>> from headwise.nn.scaling import Yarn
        >>> round(Yarn(4.0, original_max_position_embeddings=4096).attention, 4)
        1.1386
    """

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True

    @property
    def attention(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        if self.mscale and self.mscale_all_dim:
            return self.sharpened(self.mscale) / self.sharpened(self.mscale_all_dim)
        return self.sharpened(1.0)

    def sharpened(self, by: float) -> float:
        """``0.1 by ln(factor) + 1``: what keeps the softmax as sharp as it was on shorter texts."""
        return 1.0 if self.factor <= 1 else 0.1 * by * math.log(self.factor) + 1.0

    def speeds(self, base: float, width: int, length: Any, device: torch.device) -> Tensor:
        plain = ladder(base, width, device)
        first, last = self._pair(self.beta_fast, base, width), self._pair(self.beta_slow, base, width)
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first, last = max(first, 0), min(last, width - 1)
        pairs = torch.arange(width // 2, dtype=torch.float64, device=device)
        kept = 1 - ((pairs - first) / ((last - first) or 0.001)).clamp(0, 1)
        return plain / self.factor * (1 - kept) + plain * kept

    def _pair(self, turns: float, base: float, width: int) -> float:
        """The pair that turns so often within the length trained on; between two pairs it is no whole number."""
        if base == 1:
            rule = "pairs of one speed have no slow ones to interpolate"
            raise SpecError(sentence("Yarn", "the base is 1", rule, todo="Use another base."))
        return width * math.log(self.original_max_position_embeddings / (turns * 2 * math.pi)) / (2 * math.log(base))


@dataclass(frozen=True)
class Llama3(Scaling):
    """Slow pairs are interpolated, fast ones left alone; between, the share s of what is left alone rises in turns.

        w'_k = (1 - s_k) w_k / factor + s_k w_k,    s_k = (N w_k / 2 pi - low) / (high - low)

    s is cut to 0 .. 1.

    Args:
        factor: how many times longer texts may be.
        low_freq_factor, high_freq_factor: low and high of the formula.
        original_max_position_embeddings: N.

    Source: Llama 3.1's published configuration; the form is transformers' "llama3".

    Example:
        >>> import torch
        >>> from headwise.nn.scaling import Llama3
        >>> Llama3(8.0, 1.0, 4.0, 8192).speeds(5e5, 4, None, torch.device("cpu"))[0].item()
        1.0
    """

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_max_position_embeddings: int

    def speeds(self, base: float, width: int, length: Any, device: torch.device) -> Tensor:
        plain = ladder(base, width, device)
        turns = self.original_max_position_embeddings * plain / (2 * math.pi)
        share = ((turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)).clamp(0, 1)
        return (1 - share) * plain / self.factor + share * plain


@dataclass(frozen=True)
class LongRope(Scaling):
    """A factor of its own for each pair, one list for texts of up to N tokens and one for longer ones: ``w_k / f_k``.

    A key that is in a cache keeps the angles of the length at which it came, as in transformers.

    Args:
        short_factor, long_factor: f_k, W/2 numbers each.
        original_max_position_embeddings: N.
        factor: how many times longer texts may be.
        attention_factor: on cosines and sines; None = sqrt(1 + ln(factor) / ln(N)).

    Source: Ding et al. 2024, "LongRoPE" (arXiv 2402.13753); the form is transformers' "longrope".

    Example:
        >>> import torch
        >>> from headwise.nn.scaling import LongRope
        >>> LongRope((1.0, 1.0), (1.0, 8.0), 16, factor=8.0).speeds(1e4, 4, 17, torch.device("cpu"))
        tensor([1.0000, 0.0013], dtype=torch.float64)
    """

    short_factor: tuple[float, ...]
    long_factor: tuple[float, ...]
    original_max_position_embeddings: int
    factor: float = 1.0
    attention_factor: float | None = None
    by_length: ClassVar[bool] = True

    @property
    def attention(self) -> float:
        if self.attention_factor is not None:
            return self.attention_factor
        if self.factor <= 1:
            return 1.0
        return math.sqrt(1 + math.log(self.factor) / math.log(self.original_max_position_embeddings))

    def speeds(self, base: float, width: int, length: Any, device: torch.device) -> Tensor:
        factors = self.long_factor if length > self.original_max_position_embeddings else self.short_factor
        if len(factors) != width // 2:
            rule = f"the rotated width {width} has {width // 2} pairs, each with a factor of its own"
            raise SpecError(sentence("LongRope", f"there are {len(factors)} factors", rule))
        return ladder(base, width, device) / torch.tensor(factors, dtype=torch.float64, device=device)


# By the names that transformers' configs give them.
SCALINGS: Mapping[str, type[Scaling]] = {
    "linear": Linear,
    "dynamic": DynamicNTK,
    "yarn": Yarn,
    "llama3": Llama3,
    "longrope": LongRope,
}
