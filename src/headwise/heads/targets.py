"""Which logits are asked about, and the direction of the residual stream that each of them reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.heads.batches import next_tokens
from headwise.heads.reading import Side, unembedding
from headwise.heads.recording import Recording

__all__ = ["Asked", "logits_asked"]

_WHOLE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class Asked(NamedTuple):
    """Logits, or differences of two, at some places of a run.

    Attributes:
        along: the direction [B, T, M] that the logit reads of the stream divided by the last norm's size, and what is
            added to it whatever the stream holds, [B, T].
        logit: as the model gave it, before any soft cap, [B, T].
        nothing: places where nothing is asked, bool [B, T].
    """

    along: Side
    logit: Tensor
    nothing: Tensor


def logits_asked(
    model: nn.Module,
    run: Recording,
    batch: Mapping[str, Any],
    targets: Tensor | None,
    wrong: Tensor | None,
    who: str,
) -> Asked:
    """Reads targets, and ids to subtract the logit of, as `attribution` takes them.

    Raises:
        ShapeError: another shape, or ids that the vocabulary does not have.
        SpecError: no targets, and no text to take them from; logits of some places only.
    """
    places, told = run.embedding.shape[1], run.logits.shape[1]
    if places != told:
        what = f"the model gave logits at {told} of {places} places"
        raise SpecError(sentence(who, what, "they are wanted at all of them", todo="Leave out logits_to_keep."))
    part = "decoder_" if getattr(model.config, "is_encoder_decoder", False) else ""
    text, mask = (batch.get(f"{part}{name}") for name in ("input_ids", "attention_mask"))
    if targets is None:
        ids = _next(text, mask, run.logits, f"{part}input_ids", who)
    else:
        ids = _ids(targets, mask, run.logits, "targets", who)
    W_U = unembedding(model, who)
    at = ids.clamp(min=0)
    reader, logit, nothing = Side(W_U.weight[at], W_U.bias[at]), _at(run.logits, at), ids < 0
    if wrong is not None:
        ids = _ids(wrong, mask, run.logits, "wrong", who)
        at = ids.clamp(min=0)
        reader = Side(reader.weight - W_U.weight[at], reader.bias - W_U.bias[at])
        logit, nothing = logit - _at(run.logits, at), nothing | (ids < 0)
    return Asked(run.last.into(reader), logit, nothing)


def _at(logits: Tensor, ids: Tensor) -> Tensor:
    return logits.gather(-1, ids[..., None])[..., 0]


def _next(text: Tensor | None, mask: Tensor | None, logits: Tensor, name: str, who: str) -> Tensor:
    """The next token at each place of a text that has one, [B, T]; -1 elsewhere."""
    B, T, _ = logits.shape
    if text is None:
        raise SpecError(sentence(who, f"no targets and no {name}", f"the next tokens are those of {name}"))
    if text.shape != (B, T):
        rule = "the next tokens are those of the text whose logits are asked for"
        raise SpecError(sentence(who, f"no targets, and logits [B={B},T={T}]", rule, axes(name, text, "B T")))
    ids = torch.full_like(text, -1)
    ids[:, :-1] = next_tokens(text, mask)[:, 1:].clamp(min=-1)
    return ids


def _ids(targets: Any, mask: Tensor | None, logits: Tensor, name: str, who: str) -> Tensor:
    """Ids that were given, as [B, T], -1 where nothing is asked."""
    B, T, V = logits.shape
    rule = f"{name} are token ids below {V}, [B={B},T={T}] with -1 for none, or [B={B}]"
    if not isinstance(targets, Tensor):
        raise SpecError(sentence(who, f"{name} is a {type(targets).__name__}", f"{rule}, in a tensor of int64"))
    if targets.shape not in ((B, T), (B,)) or targets.dtype not in _WHOLE or bool((targets >= V).any()):
        raise ShapeError(sentence(who, f"{name} do not fit", rule, axes(name, targets, "B T")))
    if targets.dim() == 2:
        return targets.long()
    place = torch.arange(T, device=targets.device, dtype=torch.int64)
    last = (
        torch.full((B,), T - 1, device=targets.device, dtype=torch.int64)
        if mask is None
        else (place * mask.bool()).argmax(-1)
    )
    return torch.where(place == last[:, None], targets.long()[:, None], -1)
