"""Pruning curves: the loss against the share of heads that are gone."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.heads.ablate import zeroed
from headwise.heads.batches import as_batches, in_mode
from headwise.heads.importance import Loss, importance, mean_loss
from headwise.models.edit import count_of
from headwise.models.sites import find_sites, refuse_if_outside, sites

__all__ = ["Curve", "Point", "pruning_curve"]


@dataclass(frozen=True)
class Point:
    """One point of a curve.

    Attributes:
        removed: number of heads that are gone.
        share: their share of all heads.
        loss: the mean loss without them.
        heads: which they are, as ``hw.prune`` and ``hw.ablate`` take them.
    """

    removed: int
    share: float
    loss: float
    heads: dict[str, list[int]]


@dataclass(frozen=True)
class Curve:
    """Loss against heads removed.

    Attributes:
        points: by number of heads removed, from none.
        total: number of heads of the model.
        iterative: whether the heads were weighed anew after each step.
    """

    points: tuple[Point, ...]
    total: int
    iterative: bool

    def keeping(self, share: float) -> Point:
        """The last point that keeps at least a share of the heads."""
        if not 0 < share <= 1:
            raise SpecError(sentence("keeping", f"share is {share}", "it is a share of the heads, above 0, at most 1"))
        return next(point for point in reversed(self.points) if point.removed <= _within(1 - share, self.total))


def pruning_curve(
    model: nn.Module,
    batches: Any,
    loss: Loss | None = None,
    *,
    evaluate: Any = None,
    shares: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    iterative: bool = False,
    method: str = "gradient",
    normalise: bool = True,
    scores: Tensor | None = None,
) -> Curve:
    """Removes heads from the least important on and measures the loss at each step; the model stays as it is.

    Args:
        model: a transformers model; one that is not in use is used for the duration. It runs as in eval mode.
        batches: what the heads are weighed on, as of ``hw.importance``.
        loss: as of ``hw.importance``.
        evaluate: batches that the loss is measured on; None = the same.
        shares: of all heads, to be removed at each step, rising; of the fractions of a head none is removed.
        iterative: weigh the heads that are left anew after each step (one importance a step) rather than once.
        method: of ``hw.importance``.
        normalise: of ``hw.importance``: compare heads by their share in their layer, as Michel et al. do; False
            compares them over all layers as they are, which may lose less.
        scores: float [L, H], those with low scores go first; None = ``hw.importance``.

    Returns:
        The curve; ``curve.points[i].heads`` can be pruned.

    Raises:
        SpecError: shares that do not rise between 0 and 1; scores together with iterative; a loss without gradient.
        ShapeError: scores of another shape than the model's heads.

    Source: Michel, Levy, Neubig 2019 (arXiv 1905.10650), section 4.

    Example:
        >>> import torch
        >>> from headwise.heads import pruning_curve
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8))
        >>> curve = pruning_curve(model, torch.randint(0, 16, (4, 8)), shares=(0.25, 0.5))
        >>> [point.removed for point in curve.points]
        [0, 1, 2]
    """
    refuse_if_outside("pruning_curve", model)
    weighed = as_batches("pruning_curve", "batches", batches)
    measured = weighed if evaluate is None else as_batches("pruning_curve", "evaluate", evaluate)
    _check(shares, iterative, scores)
    names = sites(model)
    if scores is not None:
        _check_scores(model, scores)
    found = importance(model, weighed, loss, method=method, normalise=normalise) if scores is None else scores
    total = int(found.isfinite().sum())
    if not total:
        raise SpecError(
            sentence("pruning_curve", "no head has a finite score", "heads are taken out from the lowest score on")
        )
    gone: dict[str, list[int]] = {}
    points: list[Point] = []
    with in_mode(model, training=False):
        for share in (0.0, *shares):
            more = _within(share, total) - sum(map(len, gone.values()))
            if iterative and points and more:
                with _without(model, gone):
                    found = importance(model, weighed, loss, method=method, normalise=normalise)
            gone = _with_lowest(gone, found, names, more)
            with _without(model, gone):
                value = mean_loss("pruning_curve", model, measured, loss)
            removed = sum(map(len, gone.values()))
            points.append(Point(removed, removed / total, value, {site: list(which) for site, which in gone.items()}))
    return Curve(tuple(points), total, iterative)


def _within(share: float, total: int) -> int:
    """How many whole heads a share of all is; a share that was meant to be whole may lie a rounding below."""
    return int(share * total + 1e-6)


def _check_scores(model: nn.Module, scores: Any) -> None:
    """Raises ShapeError unless there is a score for each head, and for none that is not there."""
    counts = [count_of(module) for module in find_sites(model).values()]
    fits = (
        isinstance(scores, Tensor) and scores.is_floating_point() and scores.dim() == 2 and len(scores) == len(counts)
    )
    fits = fits and not bool(scores.isinf().any())
    for row, H in zip(scores, counts, strict=True) if fits else ():
        fits = fits and (H is None or (len(row) >= H and not bool(row[H:].isfinite().any())))
    if not fits:
        most = max((H for H in counts if H is not None), default=None)
        shown = axes("scores", scores, "L H") if isinstance(scores, Tensor) else type(scores).__name__
        rule = f"they are finite float [L={len(counts)},H={most}], NaN where a layer has no such head"
        raise ShapeError(sentence("pruning_curve", "scores do not fit the model", rule, shown))


def _check(shares: Any, iterative: bool, scores: Tensor | None) -> None:
    listed = isinstance(shares, Sequence) and all(isinstance(share, (int, float)) for share in shares)
    rising = listed and all(a < b for a, b in zip((0.0, *shares), (*shares, 1.0), strict=True))
    if not rising or not shares:
        raise SpecError(
            sentence(
                "pruning_curve",
                f"shares are {list(shares) if listed else repr(shares)}",
                "they rise, each above 0 and below 1",
                todo="Try (0.2, 0.4, 0.6).",
            )
        )
    if iterative and scores is not None:
        raise SpecError(
            sentence("pruning_curve", "scores were given, and iterative=True", "an iterative curve weighs heads itself")
        )


def _without(model: nn.Module, heads: dict[str, list[int]]) -> contextlib.AbstractContextManager[Any]:
    return zeroed(model, heads) if heads else contextlib.nullcontext()


def _with_lowest(gone: dict[str, list[int]], found: Tensor, names: Sequence[str], more: int) -> dict[str, list[int]]:
    """The heads that are gone and the lowest of those that are left."""
    left = found.clone()
    for site, heads in gone.items():
        left[names.index(site), heads] = torch.nan
    order = left.flatten().nan_to_num(nan=torch.inf).argsort(stable=True)[:more]
    chosen = {site: list(heads) for site, heads in gone.items()}
    for at in order.tolist():
        chosen.setdefault(names[at // found.shape[1]], []).append(at % found.shape[1])
    return {site: sorted(heads) for site, heads in sorted(chosen.items(), key=lambda item: names.index(item[0]))}
