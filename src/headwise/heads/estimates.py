"""From sums over queries to a score, its chance level and what is known of its error.

Every query counts once, in whichever text it stands. With x_i and c_i the score and the chance of query i, and texts
t = 1 .. N that hold n_t of the queries:

    score = sum x_i / sum n_t        chance = sum c_i / sum n_t
    interval = score -+ t(0.975, N - 1) * s,   s^2 = N / (N - 1) * sum_t (sum_{i in t} x_i - score n_t)^2 / (sum n_t)^2

Texts are the independent draws, not the queries of one text, which is why the interval is over texts. Where all texts
hold equally many of the queries it is Student's interval over the means of the texts; where they do not, s is the
standard error of a ratio of two sums.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["CONFIDENCE", "Estimate", "Sums", "estimate", "student"]

CONFIDENCE = 0.95  #: of the intervals.


class Sums(NamedTuple):
    """What one text says about one score of the heads of one site, float64 [H] each.

    Attributes:
        number: how many queries show it.
        score: sum of their scores.
        chance: sum of what a head that spreads uniformly over the visible keys scores on them.
        above: sum of the differences, squared.
    """

    number: Tensor
    score: Tensor
    chance: Tensor
    above: Tensor

    @classmethod
    def over(cls, values: Tensor, uniform: Tensor, where: Tensor) -> Sums:
        """Sums of [B, H, T] over batch and queries at chosen places; one chance level may stand for all heads."""
        where = where.expand(values.shape)
        values = torch.where(where, values.double(), 0.0)
        uniform = torch.where(where, uniform.double().expand(values.shape), 0.0)
        number = where.sum((0, 2)).double()
        return cls(number, values.sum((0, 2)), uniform.sum((0, 2)), ((values - uniform) ** 2).sum((0, 2)))


class Estimate(NamedTuple):
    """One score of the heads of one site, float64 [H] each; NaN where nothing shows it.

    Attributes:
        score: mean over all queries of all texts.
        chance: likewise, of a head that spreads uniformly.
        low, high: interval of the score over texts; NaN with fewer than two texts.
        error: standard error of ``score - chance``: the larger of that over texts and that over queries, since queries
            of one text are no independent draws and two texts are few; infinite for a single query.
        number: how many queries the score is a mean over.
    """

    score: Tensor
    chance: Tensor
    low: Tensor
    high: Tensor
    error: Tensor
    number: Tensor


def estimate(texts: Sequence[Sums]) -> Estimate:
    """Puts the texts together.

    Example:
        >>> import torch
        >>> from headwise.heads.estimates import Sums, estimate
        >>> one = torch.ones(1, dtype=torch.float64)
        >>> texts = [Sums(4 * one, 2 * one, one, one), Sums(4 * one, 3 * one, one, one)]
        >>> found = estimate(texts)
        >>> float(found.score), float(found.chance), round(float(found.high - found.score), 4)
        (0.625, 0.25, 1.5883)
    """
    number, score, chance, above = (torch.stack(part) for part in zip(*texts, strict=True))
    total = number.sum(0)
    nothing = total == 0
    per = total.masked_fill(nothing, math.nan)
    mean, level = score.sum(0) / per, chance.sum(0) / per
    seen = (number > 0).sum(0)
    spread = student_errors(score - mean * number, seen, per)
    # 0 texts and 1 text have no spread; what stands there is NaN
    t = torch.tensor(
        [math.nan if n < 2 else student(int(n) - 1) for n in seen.tolist()], dtype=torch.float64, device=spread.device
    )
    half = t.to(spread.device) * spread
    lift = mean - level
    over_texts = student_errors(score - chance - lift * number, seen, per)
    variance = (above.sum(0) / per - lift**2).clamp(min=0) / (per - 1)
    over_queries = torch.where(total > 1, variance.sqrt(), torch.inf)
    return Estimate(mean, level, mean - half, mean + half, torch.fmax(over_texts, over_queries), total)


def student_errors(off: Tensor, texts: Tensor, per: Tensor) -> Tensor:
    """The standard error of a ratio of sums, from what each text's sum is off its share [N, H]; NaN below two texts."""
    several = texts.double().masked_fill(texts < 2, math.nan)
    return ((off**2).sum(0) * several / (several - 1)).sqrt() / per


@functools.cache
def student(freedom: int, confidence: float = CONFIDENCE) -> float:
    """The number that Student's t stays within, on both sides, with a probability.

    Args:
        freedom: degrees of freedom, 1 or more.
        confidence: the probability.

    Example:
        >>> from headwise.heads.estimates import student
        >>> round(student(1), 3), round(student(7), 3), round(student(1000), 3)
        (12.706, 2.365, 1.962)
    """
    low, high = 0.0, math.pi / 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return math.sqrt(freedom) * math.tan(low)


def _within(angle: float, freedom: int) -> float:
    """The probability that t lies within ``sqrt(freedom) * tan(angle)``: a finite sum for whole degrees of freedom."""
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * k / (k + 1)
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
