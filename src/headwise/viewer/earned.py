"""How a head came by its letter, in words: its score, its chance level, its lift over chance and what is asked for."""

from __future__ import annotations

from headwise.heads import KINDS, Head
from headwise.heads.scores import BROAD
from headwise.viewer.labels import share, short

__all__ = ["earned", "least_of", "rule_of"]


def least_of(kind: str) -> float | None:
    """The least lift over chance of a head of a kind, of a broad one the least score; None of what is no kind."""
    if kind == "broad":
        return BROAD
    return KINDS[kind].margin if kind in KINDS else None


def rule_of(kind: str) -> str:
    """What a kind asks of a head.

    Example:
        >>> from headwise.viewer.earned import rule_of
        >>> rule_of("induction"), rule_of("broad")
        ('lift over chance at least 0.1', 'score at least 0.8')
    """
    least = least_of(kind)
    if least is None:
        return "no score clears its chance level by its margin"
    return f"{'score' if kind == 'broad' else 'lift over chance'} at least {short(least)}"


def earned(head: Head) -> str:
    """The numbers that a head was called by.

    Example:
        >>> from headwise.heads import Head
        >>> from headwise.viewer.earned import earned
        >>> earned(
        ...     Head(
        ...         0,
        ...         0,
        ...         "attn",
        ...         "induction",
        ...         {"induction": 0.183},
        ...         {"induction": 0.021},
        ...         {"induction": 0.0},
        ...         1.0,
        ...     )
        ... )
        'score 0.183, chance 0.021, lift 0.165 (at least 0.1)'
    """
    least = least_of(head.kind)
    if least is None or head.kind not in head.scores:
        return rule_of(head.kind)
    score, chance = head.scores[head.kind], head.chance[head.kind]
    if head.kind == "broad":
        return f"score {share(score)} (at least {short(least)})"
    lift = share(head.lift(head.kind))
    return f"score {share(score)}, chance {share(chance)}, lift {lift} (at least {short(least)})"
