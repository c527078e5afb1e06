"""Padding in a model in use: its rows are computed as transformers computes them, and enter no statistic.

Two masks describe one call. The mask of the run is what transformers' own implementations apply: a query that is
padding attends to whatever its mask row says, because convolutions, poolers and resamplers read the output there. The
mask of the statistics hides the rows that are padding besides, by ``Padding(S, queries=real)``.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from headwise.models.edit import Call
from headwise.models.library import transformers
from headwise.observers import Entropy
from headwise.ops import Attended, attend
from headwise.pattern import Pattern
from headwise.plan import make_plan
from headwise.spec import AttentionSpec, Bias, Dense, Mask, Padding
from headwise.spec.geometry import Geometry
from headwise.spec.masks import And
from headwise.tracing import recorded

__all__ = [
    "attend_real_queries",
    "mask_of_run",
    "mask_of_statistics",
    "options_of_run",
    "rows_without_keys",
    "runs_on_sdpa",
    "spread_evenly",
]


def attend_real_queries(call: Call, questions: Sequence[Sequence[Any]]) -> tuple[Attended, list[Attended]]:
    """One call, and what its watchers are shown of it: the same call with the rows of padding empty.

    Args:
        call: what the model's attention was called with.
        questions: the observers of each watcher; those of two watchers may share a name.

    Returns:
        The call as it ran, and for each watcher what it is shown, with the answers to its questions.
    """
    if call.real_queries is None:
        # The first watcher's questions ride along, the others ask the same pattern.
        ran = attend(call.q, call.k, call.v, **call.options, observe=questions[0] if questions else ())
        return ran, [ran if n == 0 else _asked(ran, asked) for n, asked in enumerate(questions)]
    entropies = [Entropy()] if any(isinstance(one, Entropy) for asked in questions for one in asked) else []
    ran = attend(call.q, call.k, call.v, **call.options, observe=entropies)
    shown = _without_padding(ran, call) if questions else ran
    return ran, [_asked(shown, asked) for asked in questions]


def _asked(attended: Attended, observers: Sequence[Any]) -> Attended:
    return replace(attended, seen=attended.pattern.ask(*observers))


def _without_padding(ran: Attended, call: Call) -> Attended:
    """A call with the rows of padding empty; what the forward pass found out about the other rows is kept."""
    assert call.real_queries is not None
    padding = ~call.real_queries[:, None, :]
    stats = ran.pattern.facts()
    stats.max_logit.masked_fill_(padding, float("-inf"))
    stats.peak.masked_fill_(padding, 0.0)
    stats.log_total.masked_fill_(padding, 0.0)
    entropy = ran.seen["entropy"].masked_fill(padding, 0.0) if "entropy" in ran.seen else None
    pattern = ran.pattern
    spec = AttentionSpec(**{**pattern.options, "mask": mask_of_statistics(call)})
    plan = make_plan("observe", pattern.q, pattern.k, pattern.v, spec, draw=False)
    return replace(
        ran, pattern=Pattern.of_plan(plan, stats, entropy), lse=ran.lse.detach().masked_fill(padding, float("-inf"))
    )


def mask_of_statistics(call: Call) -> Mask | None:
    """The mask of a call with the rows of padding empty."""
    mask: Mask | None = call.options["mask"]
    if call.real_queries is None:
        return mask
    rows = Padding(call.k.shape[2], queries=call.real_queries)
    return rows if mask is None else mask & rows


def mask_of_run(mask: Mask | None) -> tuple[Mask | None, Tensor | None]:
    """Takes a mask of the statistics apart.

    Args:
        mask: the mask of a pattern that was observed or traced.

    Returns:
        The mask of the run, and which queries are real tokens, bool [B, T]; None = all.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.models.padding import mask_of_run
        >>> mask_of_run(hw.Causal() & hw.Padding(2, queries=torch.tensor([[True, False]])))
        (Causal(align='end'), tensor([[ True, False]]))
    """
    if mask is None:
        return None, None
    members = mask.masks if isinstance(mask, And) else (mask,)
    rows = [part.queries for part in members if isinstance(part, Padding) and part.queries is not None]
    others = [part for part in members if not (isinstance(part, Padding) and part.queries is not None)]
    if not rows:
        return mask, None
    (real,) = rows
    if not others:
        return None, real
    return others[0] if len(others) == 1 else And(tuple(others)), real


def options_of_run(pattern: Pattern) -> dict[str, Any]:
    """The options of a pattern that was traced, as the run had them: padding attends to what its mask row says."""
    options = pattern.options
    return {**options, "mask": mask_of_run(options["mask"])[0]}


def _runs_on_sdpa(attention: type[nn.Module]) -> bool:
    if attention not in _RUNS_ON_SDPA:
        kind = transformers("use").PreTrainedModel
        beside = vars(sys.modules[attention.__module__]).values()
        models: list[Any] = [one for one in beside if isinstance(one, type) and issubclass(one, kind)]
        _RUNS_ON_SDPA[attention] = any(model._supports_sdpa for model in models) or not models
    return _RUNS_ON_SDPA[attention]


_RUNS_ON_SDPA: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()

#: Whether transformers' sdpa runs a class of attention: whether a model of the same file says that it does, since
#: transformers writes one file for each model type (``PreTrainedModel._supports_sdpa``). A constant to torch.compile.
runs_on_sdpa: Callable[[type[nn.Module]], bool] = torch.compiler.assume_constant_result(_runs_on_sdpa)


def rows_without_keys(mask: Mask, query: Tensor, key: Tensor, q_start: int | Tensor | None) -> Tensor | None:
    """The queries to which a mask shows no key.

    Args:
        mask: of the run; one that is not written out is the same for all heads.
        query: [B, H, T, D].
        key: [B, Hk, S, D].
        q_start: position of query 0; None = S - T.

    Returns:
        bool [B, T], or [B, H or 1, T, 1] for a mask that is written out; None where every query sees a key.
    """
    if isinstance(mask, Dense):
        empty = ~mask.keep_cells.any(-1, keepdim=True)
        empty = empty[(None,) * (4 - empty.dim())]
        return empty if recorded(empty) or bool(empty.any()) else None
    B, T, S = query.shape[0], query.shape[2], key.shape[2]
    geometry = Geometry(B, 1, 1, T, S, 1, 1, S - T if q_start is None else q_start, query.device)
    intervals = mask.intervals(geometry)
    first, stop = intervals.bounds(slice(0, B), slice(0, T))
    empty = (first >= stop).all(-1).expand(B, -1)
    if not intervals.exact:
        zeros = torch.zeros((B, 1, max(T, S), 1), dtype=torch.float32, device=query.device)
        pattern = Pattern(zeros[:, :, :T], zeros[:, :, :S], mask=mask, q_start=q_start)
        empty = pattern.facts().max_logit[:, 0] == float("-inf")
    return empty if bool(empty.any()) else None


def spread_evenly(mask: Mask, empty: Tensor | None, keys: int, dtype: torch.dtype) -> tuple[Mask, tuple[Bias, ...]]:
    """Shows every key to some rows, with scores that are all equal.

    Where transformers hides by adding a number, a row that is hidden whole keeps equal scores, because
    ``score + finfo(dtype).min`` is ``finfo(dtype).min`` for any usual score: its output is the mean of all values.
    Scores are float32 or float64 here, beside which the smallest number of float16 is too small for that, so the
    smallest number of their own dtype is added.

    Args:
        mask: of the run.
        empty: the rows: bool [B, T], or [B, H or 1, T, 1] beside a mask that is written out; None = none.
        keys: S.
        dtype: of the operands.

    Returns:
        The mask, and what to add to the scores.
    """
    if empty is None:
        return mask, ()
    if empty.dim() == 4:
        assert isinstance(mask, Dense)
        shown: Mask = Dense(mask.keep_cells | empty)
    else:
        shown = mask | Padding(keys, queries=empty)
    rows = empty if empty.dim() == 4 else empty[:, None, :, None]
    wide = torch.promote_types(dtype, torch.float32)
    lowest = torch.zeros(rows.shape, dtype=wide, device=rows.device)
    return shown, (Bias(lowest.masked_fill_(rows, torch.finfo(wide).min)),)
