"""Whether a model in use gives what transformers' own attention gives: every output and every gradient, at every
position, padding included."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.masking_utils import AttentionMaskInterface, eager_mask

import headwise as hw

__all__ = ["Difference", "Reference", "compare", "floats", "implementation", "references", "results"]

#: Two of transformers' own implementations agree at a place if they differ by less than this share of the largest.
AGREE = 1e-4
#: A model in use agrees if it differs by less than this share; rounding in peaked rows is amplified layer by layer.
SAME = 1e-3


@dataclass(frozen=True)
class Difference:
    """Where a model in use is furthest from transformers: which tensor, and by which share of its largest value."""

    name: str
    share: float


def floats(value: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """Every floating tensor of a model's output, with the path to it; caches are left out."""
    if isinstance(value, Tensor):
        if value.is_floating_point() and value.numel():
            yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from floats(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for n, part in enumerate(value):
            yield from floats(part, f"{name}[{n}]")


@contextlib.contextmanager
def _eager(empty_rows_see_key_0: bool = False) -> Iterator[None]:
    """The eager path with a mask that its float32 softmax can read in float64 too, where the smallest number is -inf.

    Rows that no key is visible to may see one: whatever depends on such rows is known by the change.
    """

    def mask_of(*args: Any, **kwargs: Any) -> Any:
        mask = eager_mask(*args, **kwargs)
        if mask is None:
            return None
        if mask.dtype == torch.float64:
            mask = mask.clamp(min=torch.finfo(torch.float32).min)
        if empty_rows_see_key_0:
            empty = (mask < -1e4).all(-1)
            mask[..., 0] = mask[..., 0].masked_fill(empty, 0.0)
        return mask

    AttentionMaskInterface.register("eager", mask_of)
    try:
        yield
    finally:
        AttentionMaskInterface.register("eager", eager_mask)


@contextlib.contextmanager
def implementation(model: Any, name: str) -> Iterator[None]:
    """A model on one implementation: "eager", "sdpa", "headwise", or "eager, empty rows see key 0"."""
    if name == "headwise":
        hw.use(model)
        try:
            yield
        finally:
            hw.restore(model)
    elif name == "sdpa":
        model.set_attn_implementation("sdpa")
        try:
            yield
        finally:
            model.set_attn_implementation("eager")
    else:
        with _eager(name != "eager"):
            yield


def results(model: nn.Module, batch: dict[str, Any], weigh: dict[str, Tensor] | None) -> dict[str, Tensor]:
    """Outputs of a model by name; with weights of each output, the gradients of all parameters too.

    Args:
        model: on any implementation.
        batch: what its forward takes.
        weigh: a weight for every place of every output, whose weighted sum is the loss; None = no gradients.
    """
    torch.manual_seed(0)
    if weigh is None:
        with torch.no_grad():
            return {name: value.detach() for name, value in floats(model(**batch))}
    model.zero_grad(set_to_none=True)
    outputs = dict(floats(model(**batch)))
    loss = sum(
        (torch.where(weigh[name] != 0, value, 0) * weigh[name]).sum()
        for name, value in outputs.items()
        if value.requires_grad and name in weigh
    )
    assert isinstance(loss, Tensor), "no output requires a gradient"
    loss.backward()
    gradients = {f"grad {name}": p.grad.detach() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad(set_to_none=True)
    return gradients


@dataclass
class Reference:
    """What transformers gives, and where its own implementations agree on it."""

    values: dict[str, Tensor]
    agreed: dict[str, Tensor]

    @property
    def coverage(self) -> float:
        """The share of all places where transformers agrees with itself."""
        n = sum(place.numel() for place in self.agreed.values())
        return sum(int(place.sum()) for place in self.agreed.values()) / max(n, 1)


def references(one: dict[str, Tensor], other: dict[str, Tensor]) -> Reference:
    """The first of two results, with the places where the second agrees."""
    largest = max((_largest(value) for name, value in one.items() if name.startswith("grad ")), default=0.0)
    agreed = {}
    for name, value in one.items():
        if name not in other or other[name].shape != value.shape:
            agreed[name] = torch.zeros_like(value, dtype=torch.bool)
            continue
        scale = _scale(name, value, largest)
        # An eager path that makes NaN of a row without a visible key has no say about it.
        same = (value - other[name]).abs().le(AGREE * scale) | (value == other[name]) | other[name].isnan()
        same &= value.isfinite()
        if not name.startswith("grad ") and value.dim() > 2:
            same &= same.all(-1, keepdim=True)  # a position agrees as a whole, never by chance in one number
        agreed[name] = same
    return Reference(one, agreed)


def _largest(value: Tensor) -> float:
    finite = value[value.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _scale(name: str, value: Tensor, largest_gradient: float) -> float:
    """The largest value of a tensor; a gradient that is hardly one is measured against those of the whole model."""
    own = _largest(value)
    return max(own, 1e-3 * largest_gradient) if name.startswith("grad ") else own


def compare(ours: dict[str, Tensor], reference: Reference) -> Difference:
    """The largest difference from transformers at the places where transformers agrees with itself."""
    worst = Difference("", 0.0)
    values = reference.values
    largest = max((_largest(value) for name, value in values.items() if name.startswith("grad ")), default=0.0)
    for name, value in values.items():
        places = reference.agreed[name]
        if not bool(places.any()):
            continue
        if name not in ours or ours[name].shape != value.shape:
            return Difference(f"{name} is missing", float("inf"))
        apart = (ours[name] - value)[places].abs()
        share = float(apart.max()) / max(_scale(name, value, largest), 1e-30)
        if not share <= worst.share:  # NaN too
            worst = Difference(name, share)
    return worst
