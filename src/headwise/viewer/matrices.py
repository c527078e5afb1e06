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

__all__ = ["given_patterns"]

_RULE = (
    "what is viewed is a trace, a pattern, a model of transformers, attention probabilities [B, H, T, S] (one tensor a "
    "layer, as in output.attentions), or a dict of these by the name of their run"
)


def given_patterns(what: Any) -> dict[str, Pattern]:
    """Patterns of probabilities that were given, by layer.

    The numbers are shown as they are: rows need not sum to 1, as those of a head with a sink do not.

    Args:
        what: a tensor or array [B, H, T, S] or [H, T, S], a list of them, one a layer, or a model's output that holds
            such a list as ``.attentions``.

    Returns:
        ``{"layers.0": pattern, ...}``. They hold the logarithms of what was given, so as much memory as that takes.

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
    if hasattr(what, "attentions") and what.attentions is None:
        todo = "Run the model with output_attentions=True, or look at hw.trace(model, ...), which needs no matrix."
        raise SpecError(sentence("view", f"a {type(what).__name__} holds no attentions", todo=todo))
    found = getattr(what, "attentions", what)
    if _is_array(found):
        found = [found]
    if isinstance(found, (str, bytes)) or not isinstance(found, Sequence) or not found:
        raise SpecError(sentence("view", f"a {type(what).__name__} cannot be viewed", _RULE))
    odd = next((one for one in found if not _is_array(one)), None)
    if odd is not None:
        raise SpecError(sentence("view", f"a {type(what).__name__} that holds a {type(odd).__name__}", _RULE))
    return {f"layers.{n}": _pattern(torch.as_tensor(one), n) for n, one in enumerate(found)}


def _is_array(value: Any) -> bool:
    of_numpy = type(value).__module__.partition(".")[0] == "numpy"
    return isinstance(value, Tensor) or (of_numpy and hasattr(value, "shape"))


def _pattern(p: Tensor, layer: int) -> Pattern:
    name = f"attentions[{layer}]"
    if p.dim() == 3:
        p = p[None]
    if p.dim() != 4:
        raise ShapeError(sentence("view", f"{name} has {p.dim()} axes", "it is [B,H,T,S]", axes(name, p, "")))
    p = p.detach().float()
    if bool((p < 0).any()) or bool(p.isinf().any()):
        raise SpecError(sentence("view", f"{name} holds numbers below 0 or infinite ones", "they are probabilities"))
    B, H, T, S = p.shape
    q, k = p.new_zeros(B, H, T, 1), p.new_zeros(B, H, S, 1)
    pattern = Pattern(q, k, scores=[Bias(p.log())])
    # p = exp(log p - 0) / exp(0): with these facts nothing is normalised, so what was given is what is shown.
    zero = p.new_zeros(B, H, T)
    top = p.amax(-1).log() if S else zero
    return pattern.replaced(facts=RowFacts(top, zero, zero))
