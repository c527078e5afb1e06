"""How every head scores on random repeats and on the needle test, which heads lead, and how far the two lists agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from headwise.heads.retrieval import retrieval_scores

__all__ = ["THRESHOLD", "Head", "agreement", "as_table", "ranked", "scored"]

THRESHOLD = 0.1  #: Wu et al.: above it a head is a retrieval head.

Head = tuple[int, int]  #: layer, head


def scored(
    model: Any, tokenizer: Any, lengths: Sequence[int], depths: Sequence[float], needles: int, seed: int
) -> dict[str, Any]:
    """Prefix matching and retrieval of every head, and how much it attends to the token before, as induction needs.

    Args:
        model: a causal language model.
        tokenizer: of the model.
        lengths: of the prompts of the needle test, tokens.
        depths: of its needles.
        needles: how many of the library's needles.
        seed: of both.

    Returns:
        ``prefix_matching``, ``retrieval`` and ``previous_token``: tables [L][H]; beside each of the first two what a
        head without preferences gets, the mean over heads; of the needle test also how many runs there were and the
        share that the model answered.
    """
    from headwise.heads.retrieval import NEEDLES

    table = hw.head_table(model, tokenizer, tokens=64, contribution=False, seed=seed)
    needle = retrieval_scores(model, tokenizer, lengths=lengths, depths=depths, needles=NEEDLES[:needles], seed=seed)
    matched, before = (
        {(row["layer"], row["head"]): row[name] for row in table.rows} for name in ("prefix_matching", "previous_token")
    )
    chance = [row["prefix_matching_chance"] for row in table.rows]
    any_head = next(iter(needle.values()))
    return {
        "prefix_matching": as_table(matched),
        "prefix_matching_chance": round(sum(chance) / len(chance), 4),
        "previous_token": as_table(before),
        "retrieval": as_table({head: found.score for head, found in needle.items()}),
        "retrieval_chance": round(sum(found.chance for found in needle.values()) / len(needle), 4),
        "retrieval_runs": any_head.n,
        "retrieval_answered": round(any_head.answered, 4),
        "retrieval_lengths": list(lengths),
        "retrieval_depths": list(depths),
    }


def as_table(scores: Mapping[Head, float]) -> list[list[float]]:
    """Values by head as a table [L][H], to four places."""
    layers = 1 + max(layer for layer, _ in scores)
    return [[round(scores[at], 4) for at in sorted(scores) if at[0] == layer] for layer in range(layers)]


def ranked(table: Sequence[Sequence[float]]) -> list[Head]:
    """All heads, the highest score first; of equals the earlier.

    Example:
        >>> from experiments.retrieval.scoring import ranked
        >>> ranked([[0.1, 0.5], [0.5, 0.3]])
        [(0, 1), (1, 0), (1, 1), (0, 0)]
    """
    heads = [(layer, head) for layer, row in enumerate(table) for head in range(len(row))]
    return sorted(heads, key=lambda at: -table[at[0]][at[1]])


def agreement(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]], sizes: Sequence[int]
) -> dict[str, Any]:
    """How far two scores agree on which heads lead.

    Args:
        first, second: tables [L][H].
        sizes: of the lists that are compared.

    Returns:
        ``shared``: for each size how many heads both lists hold, and how many two random lists would share;
        ``rank_correlation``: Spearman's, over all heads.
    """
    lists = ranked(first), ranked(second)
    total = len(lists[0])
    shared = [
        {"size": size, "heads": len(set(lists[0][:size]) & set(lists[1][:size])), "chance": round(size**2 / total, 3)}
        for size in sizes
    ]
    ranks = torch.stack([_ranks(torch.tensor([x for row in table for x in row])) for table in (first, second)])
    return {"shared": shared, "rank_correlation": round(float(torch.corrcoef(ranks)[0, 1]), 4)}


def _ranks(values: Tensor) -> Tensor:
    """Ranks from the lowest up, equals sharing the mean of theirs."""
    below = (values[:, None] > values).sum(1).double()
    return below + (values[:, None] == values).sum(1).double() / 2
