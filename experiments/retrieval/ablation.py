"""What the loss gains on random repeats and on natural text when heads are left out."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from experiments.induction.measures import losses_by_token
from experiments.retrieval.scoring import Head
from experiments.retrieval.sets import CONTROLS, by_layer, several
from headwise.heads.random_tokens import Sample

__all__ = ["MEASURES", "Inputs", "alone", "copied", "losses", "rises", "spread", "summary"]

#: What is measured, nats a token: second and later repeats of random tokens; their first; natural text; those of its
#: tokens that followed the token before them earlier in the window, which induction can tell; and its other tokens.
MEASURES = ("repeats", "first", "text", "copied", "fresh")
ALONE = 3  #: samples on which heads are left out one by one.


@dataclass(frozen=True, eq=False)
class Inputs:
    """What losses are measured on.

    Attributes:
        sample: random tokens, repeated; others than those that heads are scored on.
        text: int64 [N, T], windows of natural text.
        reference: batches whose mean output takes a head's place where it is not zero; text and repeats of their own.
    """

    sample: Sample
    text: Tensor
    reference: list[Tensor]


def copied(ids: Tensor) -> Tensor:
    """Whether the pair of each token [N, T] and the one before it came earlier in the row; bool [N, T].

    Example:
        >>> import torch
        >>> from experiments.retrieval.ablation import copied
        >>> copied(torch.tensor([[1, 2, 3, 1, 2, 1, 1]])).int().tolist()
        [[0, 0, 0, 0, 1, 0, 0]]
    """
    same = ids[:, :, None] == ids[:, None]
    pairs = same[:, 1:, 1:] & same[:, :-1, :-1]
    earlier = torch.ones(pairs.shape[1:], dtype=torch.bool).tril(-1)
    return torch.nn.functional.pad((pairs & earlier).any(-1), (1, 0), value=False)


def losses(model: Any, inputs: Inputs) -> dict[str, Tensor]:
    """Mean losses of each row by measure, float64 [rows], nats a token."""
    text = losses_by_token(model, inputs.text, batch=4).double()
    seen = copied(inputs.text)
    known = torch.ones_like(seen)
    known[:, 0] = False  # nothing tells the first token
    return {
        **_of_repeats(model, inputs.sample),
        "text": _mean(text, known),
        "copied": _mean(text, known & seen),
        "fresh": _mean(text, known & ~seen),
    }


def _of_repeats(model: Any, sample: Sample) -> dict[str, Tensor]:
    once, size = sample.first, sample.tokens.shape[1]
    found = losses_by_token(model, sample.ids, batch=16).double()
    return {"repeats": found[:, once + size :].mean(1), "first": found[:, max(once, 1) : once + size].mean(1)}


def _mean(values: Tensor, where: Tensor) -> Tensor:
    """The mean of each row over some of its places, weighed so that the mean over rows is that over all places."""
    return torch.where(where, values, 0.0).sum(1) * len(where) / where.sum()


def rises(
    model: Any,
    inputs: Inputs,
    rankings: Mapping[str, Sequence[Head]],
    sizes: Sequence[int],
    draws: int,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """How much more each measure is without the heads that lead a list, and without random ones.

    Args:
        model: in use.
        inputs: what is measured.
        rankings: lists of all heads; random sets are drawn beside those of the first, and for the middle size some have
            their mean put in their place too.
        sizes: how many heads are left out.
        draws: random sets of each kind.
        say: is told of progress.

    Returns:
        ``whole``: losses with all heads; ``sets``: one entry a set, rises in nats a token.
    """
    whole = losses(model, inputs)
    told: dict[str, Any] = {"whole": {name: round(float(x.mean()), 4) for name, x in whole.items()}, "sets": []}
    first = next(iter(rankings))

    def add(size: int, ranking: str, which: str, heads: Sequence[Head], how: str = "zero") -> None:
        more = _without(model, inputs, whole, heads, how)
        told["sets"].append({"size": size, "ranking": ranking, "set": which, "how": how, "heads": heads, **more})

    for size in sizes:
        for ranking, order in rankings.items():
            for how in ("zero", "mean"):
                add(size, ranking, "top", order[:size], how)
        top, heads = rankings[first][:size], rankings[first]
        for name, control in CONTROLS.items():
            for drawn in several(control, top, heads, draws):
                add(size, first, name, drawn)
        say(f"{size} heads: {told['sets'][-1]}")
    middle = sizes[len(sizes) // 2]
    for drawn in several(CONTROLS["others"], rankings[first][:middle], rankings[first], draws // 2):
        add(middle, first, "others", drawn, "mean")
    return told


def alone(model: Any, sample: Sample, heads: Sequence[Head]) -> dict[Head, float]:
    """How much the loss of later repeats rises without each head, one at a time, nats a token.

    Args:
        model: in use.
        sample: its first `ALONE` rows are read, as there are many heads.
        heads: left out in turn.
    """
    few = Sample(sample.tokens[:ALONE], sample.ids[:ALONE], sample.repeats)

    def lost(left_out: Sequence[Head]) -> float:
        with hw.ablate(model, by_layer(left_out)) if left_out else contextlib.nullcontext():
            return float(_of_repeats(model, few)["repeats"].mean())

    whole = lost([])
    return {head: lost([head]) - whole for head in heads}


def _without(model: Any, inputs: Inputs, whole: dict[str, Tensor], heads: Sequence[Head], how: str) -> dict[str, float]:
    """The rise of each measure, and of the repeats its standard error over samples."""
    reference = inputs.reference if how == "mean" else None
    with hw.ablate(model, by_layer(heads), how=how, reference=reference) if heads else contextlib.nullcontext():
        more = {name: x - whole[name] for name, x in losses(model, inputs).items()}
    told = {name: round(float(x.mean()), 4) for name, x in more.items()}
    return {**told, "repeats_error": round(float(more["repeats"].std() / len(more["repeats"]) ** 0.5), 4)}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Number, mean, median, standard deviation, least and most."""
    return {
        "n": len(values),
        "mean": round(statistics.fmean(values), 4),
        "median": round(statistics.median(values), 4),
        "sd": round(statistics.stdev(values), 4) if len(values) > 1 else 0.0,
        "min": round(min(values), 4),
        "max": round(max(values), 4),
    }


def summary(sets: Sequence[dict[str, Any]], measures: Sequence[str]) -> list[dict[str, Any]]:
    """A row for each size, list, kind of set and way of leaving out, with the spread of each measure over its sets."""
    kinds = dict.fromkeys((one["size"], one["ranking"], one["set"], one["how"]) for one in sets)
    rows = []
    for kind in kinds:
        same = [one for one in sets if (one["size"], one["ranking"], one["set"], one["how"]) == kind]
        row: dict[str, Any] = dict(zip(("size", "ranking", "set", "how"), kind, strict=True))
        rows.append(row | {name: spread([one[name] for one in same]) for name in measures})
    return rows
