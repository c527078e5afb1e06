"""Sets of heads to leave out: those that lead a list, and random ones to compare them with."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from experiments.retrieval.scoring import Head

__all__ = ["CONTROLS", "by_layer", "from_others", "from_same_layers", "several"]

TRIES = 100  #: seeds that are tried for each set that is wanted, where few sets are possible.


def from_others(top: Sequence[Head], heads: Sequence[Head], seed: int) -> list[Head]:
    """As many heads as ``top`` has, from all heads that are not in it, each as likely as any other."""
    others = sorted(set(heads) - set(top))
    return sorted(random.Random(seed).sample(others, len(top)))


def from_same_layers(top: Sequence[Head], heads: Sequence[Head], seed: int) -> list[Head]:
    """For each head of ``top`` another one of its layer; where none is left, of the nearest layer that has one."""
    draw, left, found = random.Random(seed), sorted(set(heads) - set(top)), list[Head]()
    for layer, _ in top:
        nearest = min(abs(other - layer) for other, _ in left)
        found.append(draw.choice([at for at in left if abs(at[0] - layer) == nearest]))
        left.remove(found[-1])
    return sorted(found)


Control = Callable[[Sequence[Head], Sequence[Head], int], list[Head]]
CONTROLS: dict[str, Control] = {"others": from_others, "same layers": from_same_layers}


def several(control: Control, top: Sequence[Head], heads: Sequence[Head], count: int) -> list[list[Head]]:
    """Different random sets of the size of ``top``: ``count`` of them, or fewer where there are not so many.

    Args:
        control: how a seed draws one.
        top: what they are to be compared with.
        heads: all heads of the model.
        count: how many.
    """
    found: list[list[Head]] = []
    for seed in range(TRIES * count):
        drawn = control(top, heads, seed)
        if drawn not in found:
            found.append(drawn)
        if len(found) == count:
            break
    return found


def by_layer(heads: Sequence[Head]) -> dict[int, list[int]]:
    """Heads as `headwise.ablate` takes them.

    Example:
        >>> from experiments.retrieval.sets import by_layer
        >>> by_layer([(3, 1), (0, 2), (3, 0)])
        {3: [1, 0], 0: [2]}
    """
    found: dict[int, list[int]] = {}
    for layer, head in heads:
        found.setdefault(layer, []).append(head)
    return found
