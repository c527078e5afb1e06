"""The scores of a table of heads: what each counts, when it makes a label, and who described it."""

from __future__ import annotations

from typing import NamedTuple

from headwise.heads.scores import BROAD, KINDS, lift

__all__ = ["SCORES", "Score", "clears"]


class Score(NamedTuple):
    """One score of the table; its chance level and the ends of its interval stand beside it.

    Attributes:
        name: of the column.
        title: for people.
        means: what it counts.
        source: where it was described.
        margin: a head gets the label where its lift over chance is at least this; None = no label.
        least: or where the score itself is at least this; None = the margin says.
        above: or where the score itself is more than this; None = the margin says.
    """

    name: str
    title: str
    means: str
    source: str
    margin: float | None = None
    least: float | None = None
    above: float | None = None


def _kind(name: str, kind: str) -> Score:
    found = KINDS[kind]
    return Score(name, found.title, found.means, found.source, found.margin)


_SCORES = (
    Score("entropy", "entropy", "nats; chance is its maximum", "Clark et al. 2019"),
    Score("relative_entropy", "broad", KINDS["broad"].means, KINDS["broad"].source, least=BROAD),
    Score("confidence", "confidence", "the largest probability on a word", "Voita et al. 2019"),
    Score(
        "positional", "positional", "queries whose most attended key stands at the best offset", "Voita et al. 2019",
        least=0.9,
    ),
    _kind("previous_token", "previous_token"),
    _kind("next_token", "next_token"),
    _kind("first_token", "first_token"),
    _kind("separator", "separator"),
    _kind("locality", "local"),
    _kind("duplicate_token", "duplicate_token"),
    _kind("induction", "induction"),
    Score(
        "prefix_matching", "prefix matching", "random repeats: keys that followed earlier copies of the query's token",
        "Olsson et al. 2022", margin=0.25,
    ),
    Score(
        "copying", "copying", "random repeats: whether it raises the tokens it attends to, -1 to 1",
        "Olsson et al. 2022", margin=0.05,
    ),
    Score("ov_copying", "OV copying", "eigenvalues of W_E W_OV W_U, -1 to 1", "Elhage et al. 2021"),
    Score("contribution", "contribution", "its share of the norms that its layer moves", "Kobayashi et al. 2020"),
    Score("retrieval", "retrieval", "share of a needle's tokens that it copies", "Wu et al. 2024", above=0.1),
)  # fmt: skip
SCORES: dict[str, Score] = {score.name: score for score in _SCORES}  #: by name, in the order of the table's columns.

_ERRORS = 3  # standard errors that a score has to lie above chance for a label


def clears(score: Score, value: float, chance: float, error: float) -> bool:
    """Whether a score makes a label: it lies 3 standard errors above chance, and clears it by its margin.

    Where a score has a bound of its own, ``least`` or ``above``, that stands for the margin. Entropy over its maximum
    has a chance level of 1, which nothing exceeds: there the error counts from `BROAD`.

    Example:
        >>> from headwise.heads.columns import SCORES, clears
        >>> clears(SCORES["induction"], 0.3, 0.01, 0.02), clears(SCORES["induction"], 0.3, 0.01, 0.2)
        (True, False)
    """
    if score.name == "relative_entropy":
        return value - _ERRORS * error >= BROAD if error < float("inf") else False
    if value - chance < _ERRORS * error or value <= chance:
        return False
    if score.least is not None:
        return value >= score.least
    if score.above is not None:
        return value > score.above
    return score.margin is not None and lift(value, chance) >= score.margin
