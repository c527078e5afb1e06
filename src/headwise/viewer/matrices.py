"""Attention probabilities that somebody has already, as patterns: what other tools and other models give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from headwise.backends import RowFacts
from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.pattern import Pattern
from headwise.spec import Bias

__all__ = ["given_patterns", "is_output"]

_ROUNDING = 1e-2  # bfloat16's

#: Where a model's output holds its attentions, and what their sites are called.
_FIELDS = {
    "encoder_attentions": "encoder.layers.{}",
    "attentions": "layers.{}",
    "decoder_attentions": "decoder.layers.{}",
    "cross_attentions": "decoder.layers.{}.cross_attn",
}
_RULE = (
    "what is viewed is a trace, a pattern or a list of them (one a layer), a model of transformers, attention "
    "probabilities [B, H, T, S] (one tensor a layer, as in output.attentions), or a dict of these by the names of runs"
)


def given_patterns(what: Any) -> dict[str, Pattern]:
    """Patterns of probabilities that were given, by layer.

    The numbers are shown as they are: rows need not sum to 1, as those of a head with a sink do not.

    Args:
        what: a tensor or array [B, H, T, S] or [H, T, S], a list of them, one a layer, or a model's output: its
            ``.attentions``, or those of its encoder, its decoder and between them.

    Returns:
        ``{"layers.0": pattern, ...}``. They hold the logarithms of what was given, in float32.

    Raises:
        SpecError: it is none of these, or holds numbers that are no probabilities.
        ShapeError: a matrix has other axes.

    Example:
        >>> import torch
        >>> from headwise.viewer.matrices import given_patterns
        >>> p = torch.tensor([[[[1.0, 0.0], [0.25, 0.75]]]])
        >>> given_patterns([p])["layers.0"].to_dense()
        tensor([[[[1.0000, 0.0000],
                  [0.2500, 0.7500]]]])
    """
    if is_output(what):
        named = {name.format("{}"): getattr(what, field, None) for field, name in _FIELDS.items()}
        layers = {name.format(n): one for name, given in named.items() for n, one in enumerate(given or ())}
        if not layers:
            todo = "Run the model with output_attentions=True, or look at hw.trace(model, ...), which needs no matrix."
            raise SpecError(sentence("view", f"a {type(what).__name__} holds no attentions", todo=todo))
        return {name: _pattern(_read(one, name), name) for name, one in layers.items()}
    found = [what] if _is_array(what) else what
    if isinstance(found, (str, bytes)) or not isinstance(found, Sequence) or not found:
        raise SpecError(sentence("view", f"a {type(what).__name__} cannot be viewed", _RULE))
    odd = next((one for one in found if not _is_array(one)), None)
    if odd is not None:
        raise SpecError(sentence("view", f"a {type(what).__name__} that holds a {type(odd).__name__}", _RULE))
    return {f"layers.{n}": _pattern(_read(one, f"layer {n}"), f"layer {n}") for n, one in enumerate(found)}


def is_output(what: Any) -> bool:
    """Whether this is what a model of transformers returns."""
    return any(hasattr(what, field) for field in _FIELDS)


def _read(one: Any, name: str) -> Tensor:
    """A copy where it is an array: one that cannot be written to is no tensor."""
    try:
        return one if isinstance(one, Tensor) else torch.as_tensor(one.copy(), device="cpu")
    except (TypeError, RuntimeError, ValueError) as cause:
        raise SpecError(
            sentence("view", f"{name} is an array of {one.dtype}", "attention is an array of floats")
        ) from cause


def _is_array(value: Any) -> bool:
    of_numpy = type(value).__module__.partition(".")[0] == "numpy"
    return isinstance(value, Tensor) or (of_numpy and hasattr(value, "shape"))


def _pattern(p: Tensor, name: str) -> Pattern:
    if p.dim() == 3:
        p = p[None]
    if p.dim() != 4:
        raise ShapeError(sentence("view", f"{name} has {p.dim()} axes", "it is [B,H,T,S]", axes(name, p, "")))
    if p.is_complex():
        raise SpecError(sentence("view", f"{name} holds {p.dtype}", "attention is an array of floats"))
    p = p.detach().float()
    if not bool(((p >= 0) & (p <= 1 + _ROUNDING)).all()):
        raise SpecError(sentence("view", f"{name} holds numbers below 0, above 1 or NaN", "they are probabilities"))
    B, H, T, S = p.shape
    q, k = p.new_zeros(B, H, T, 1), p.new_zeros(B, H, S, 1)
    pattern = Pattern(q, k, scores=[Bias(p.log())])
    # p = exp(log p - 0) / exp(0): with these facts nothing is normalised, so what was given is what is shown.
    zero = p.new_zeros(B, H, T)
    top = p.amax(-1).log() if S else zero
    return pattern.replaced(facts=RowFacts(top, zero, zero))
