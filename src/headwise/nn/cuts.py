"""Whether a text may be cut where a call begins: what a mask and score rules say of the queries before and behind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from headwise.errors import HeadwiseError, SpecError, sentence
from headwise.spec import And, Causal, Geometry, Mask, Or, Rules
from headwise.spec.geometry import Cells, span
from headwise.tracing import uncompiled

__all__ = ["check_cut"]

AT_ONCE = 2**22  # cells that are asked about at a time


def check_cut(
    who: str, layer: Any, own: Mask | None, mask: Mask | None, scores: Sequence[Rules], before: int, x: Tensor
) -> None:
    """Refuses a call behind others whose output, or theirs, would be another if the text had come at once.

    Two things can make it so: a query of an earlier call would have seen keys that come only now, or a mask counts
    queries, which begin at 0 in every call. A mask that holds tensors for this call's queries (Dense, Spans, Tree) says
    the cells of this call and nothing of others; and so does a call mask of one token, and the lack of any.

    Args:
        who: the layer, for errors.
        layer: the layer, of so many ``heads``.
        own: its mask, which is one for all calls; None = everything is visible.
        mask: what this call hides, the layer's mask included.
        scores: the layer's score rules.
        before: how many tokens came before.
        x: the new tokens [B,T,M].

    Raises:
        SpecError: if the numbers would depend on how the text is cut.
    """
    new = x.shape[1]
    if not before or not new:
        return
    counts = (mask is not None and not mask.by_position) or not all(rule.by_position for rule in scores)
    looks_back = own.never_ahead or _looked_back(layer, own, before, x) if own is not None else new == 1
    looks_back = looks_back or (mask is not None and mask.never_ahead)
    if looks_back and not counts:
        return
    text = _text(mask, before + new, layer.heads, x)
    if counts:
        _check_counting(who, mask, scores, before, text)
    if looks_back or (own is not None and _looks_back(layer, own, before, text)):
        return
    if _sees_ahead(mask, before, text) and (new > 1 or _sees_ahead(own, before, text)):
        tokens = "1 token comes" if new == 1 else f"{new} tokens come in one call"
        what = f"{tokens} behind {before} in the cache, and the mask shows a query later keys"
        rule = "the queries before could not see these, so the numbers would depend on how the text is cut"
        raise SpecError(sentence(who, what, rule, todo=_how_to_cut(mask, before, text)))


@uncompiled("nn: an error is no part of a graph")
def _how_to_cut(mask: Mask | None, before: int, text: Geometry) -> str:
    """What to do about a text that may not be cut behind its first tokens."""
    longer = replace(text, T=2 * text.T, S=2 * text.T)
    if mask is not None and _fits(mask, longer):
        keys = mask.intervals(longer)
        _, stop = keys.hull(slice(0, text.B), slice(0, before))
        if keys.hull(slice(0, text.B), slice(0, stop))[1] <= stop < longer.S:  # no query of these sees further
            return f"Feed at least the first {stop} tokens in one call, the first."
    if mask is not None and any(isinstance(part, Causal) for part in mask.parts()):
        return "Feed the text at once."
    return "Feed the text at once, or add headwise.Causal() to the mask where a query may see no later key."


def _text(mask: Mask | None, length: int, heads: int, x: Tensor) -> Geometry:
    """The call that the text so far would be."""
    heads = heads if mask is None else mask.sizes().get("H", heads)
    return Geometry(x.shape[0], heads, heads, length, length, 1, 1, 0, x.device)


def _fits(part: Mask | Rules, geometry: Geometry) -> bool:
    """Whether what a mask or rule holds has the sizes of a call."""
    try:
        part.check(geometry)
    except HeadwiseError:
        return False
    return True


class _Back(NamedTuple):
    """From which to which length of a text no query of a mask sees a key after its own, or after the first `start`."""

    mask: Mask
    tensors: tuple[Tensor, ...]
    versions: list[int]
    batch: int
    start: int
    stop: int


# By layer, so that a step of decoding asks a number and not the bounds of all tokens before it.
_back: WeakKeyDictionary[Any, _Back] = WeakKeyDictionary()


def _looked_back(layer: Any, own: Mask, before: int, x: Tensor) -> bool:
    """Whether it was found before that a layer's mask shows no query of the text a key of a later call."""
    last = _back.get(layer)
    if last is None or last.mask is not own or last.batch != x.shape[0]:
        return False
    if not last.start <= before <= before + x.shape[1] <= last.stop:
        return False
    return [tensor._version for tensor in last.tensors] == last.versions


@uncompiled("nn: whether the mask lets a text be cut is asked of its numbers")
def _looks_back(layer: Any, own: Mask, before: int, text: Geometry) -> bool:
    """Whether bounds of a layer's mask show no query of the text a key of a later call; False = ask further.

    Of a text twice as long, so that as many steps are spared the question.
    """
    tensors = own.tensors()
    if any(tensor.is_inference() for tensor in tensors):  # they count no versions
        return False
    length = max(text.T, 2 * before, 64)
    if not _all_look_back(own, before, replace(text, T=length, S=length)):
        return False
    _back[layer] = _Back(own, tensors, [tensor._version for tensor in tensors], text.B, before, length)
    return True


def _all_look_back(own: Mask, before: int, text: Geometry) -> bool:
    """Whether bounds show every query of a text only keys up to its own, or among the first."""
    if not _fits(own, text):
        return False
    lo, hi = own.intervals(text).bounds(slice(0, text.B), slice(0, text.T))
    last = torch.arange(1, text.T + 1, dtype=torch.int64, device=hi.device).clamp(min=before)
    return not bool(((hi > last[:, None]) & (lo < hi)).any())


# Bounds are tensors whose numbers decide, which no graph of torch.compile holds.
@uncompiled("nn: whether the mask lets a text be cut is asked of its numbers")
def _sees_ahead(mask: Mask | None, before: int, text: Geometry) -> bool:
    """Whether a query of the text before some token sees a key from there on."""
    asked = None if mask is None else _of_text(mask, text)
    if asked is None:
        return mask is None
    if asked.never_ahead:
        return False
    intervals = asked.intervals(text)
    if intervals.hull(slice(0, text.B), slice(0, before))[1] <= before:
        return False
    if intervals.exact:
        return True
    return any(bool(asked.keep(cells).any()) for cells in _tiles(text, slice(0, before), slice(before, text.S)))


def _of_text(mask: Mask, text: Geometry) -> Mask | None:
    """What a mask says of the queries of the whole text; None where it says only the cells of its own call.

    Where all of several masks must show a cell, one such tells for all of them; where each may, it is left out.
    """
    if isinstance(mask, (And, Or)):
        parts = [_of_text(part, text) for part in mask.masks]
        known = tuple(part for part in parts if part is not None)
        return type(mask)(known) if known and (isinstance(mask, Or) or len(known) == len(parts)) else None
    mask = mask.of_text()
    return mask if _fits(mask, text) else None


@uncompiled("nn: whether a mask or score rule counts queries is asked of its numbers")
def _check_counting(who: str, mask: Mask | None, scores: Sequence[Rules], before: int, text: Geometry) -> None:
    """Refuses what counts queries: in this call, which begins at query 0, it is not what it is in the text."""
    call = replace(text, T=text.T - before, q_start=before)
    for part in () if mask is None else mask.parts():
        if part.by_position or not _fits(part, text):
            continue
        for cells in _tiles(text, slice(before, text.T), slice(0, text.S)):
            if bool((part.keep(cells) != part.keep(_moved(cells, call, before))).any()):
                raise _counts(who, f"the mask {part}", before)
    for rule in scores:
        if rule.by_position or not _fits(rule, text):
            continue
        for cells in _tiles(text, slice(before, text.T), slice(0, text.S)):
            seeded = torch.Generator(device=text.device).manual_seed(0)
            score = torch.randn(cells.shape, generator=seeded, dtype=torch.float32, device=text.device)
            with torch.no_grad():
                found, wanted = (rule.apply(score, at) for at in (_moved(cells, call, before), cells))
            if not torch.equal(found, wanted):
                raise _counts(who, f"the score rule {rule}", before)


def _moved(cells: Cells, call: Geometry, before: int) -> Cells:
    """Cells of the text as those of the call that begins behind some tokens."""
    return replace(cells, geometry=call, rows=slice(cells.rows.start - before, cells.rows.stop - before))


def _counts(who: str, which: str, before: int) -> SpecError:
    what = f"{which} says something else of the queries of this call, behind {before} in the cache, than of the text's"
    rule = "query i of a call is not token i of the text, so the numbers would depend on how the text is cut"
    todo = (
        "Say it by positions (Causal, Window, Strided, Blocks with align='end'), or write this call's cells in a Dense."
    )
    return SpecError(sentence(who, what, rule, todo=todo))


def _tiles(geometry: Geometry, rows: slice, keys: slice) -> Iterator[Cells]:
    """The cells of some rows and keys, a bounded number at a time."""
    step = max(1, AT_ONCE // max(1, geometry.B * geometry.H * span(keys)))
    for start in range(rows.start, rows.stop, step):
        part = slice(start, min(start + step, rows.stop))
        yield Cells(geometry, slice(0, geometry.B), slice(0, geometry.H), part, keys)
