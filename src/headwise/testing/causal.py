"""Whether a position of a model's output sees a later one of its input: by changing what is later, and by gradient."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import ShapeError, SpecError, UnsupportedError, axes, sentence

__all__ = ["Causality", "Leak", "check_causal"]

_WHO = "check_causal"
_ROUNDINGS = 32
_SIZES = (1.0, 30.0, 1000.0)  # of the changes, in standard deviations of the input: small ones saturate nothing


class Leak(AssertionError):
    """An output that depends on a later input.

    Attributes:
        i: the first such position of the output.
        j: the first later position of the input that it depends on.
        by: how much the output changed, or how large the derivative is.
        method: "perturbation" or "gradient".
        mode: "eval" or "training".
    """

    def __init__(self, i: int, j: int, by: float, method: str, mode: str) -> None:
        how = f"it changes by {by:.3g} with it" if method == "perturbation" else f"the derivative is {by:.3g}"
        what = f"output position {i} depends on input position {j} ({how}; by {method}, in {mode})"
        super().__init__(sentence(_WHO, what, "a causal module's output depends on its own and earlier positions only"))
        self.i, self.j, self.by, self.method, self.mode = i, j, by, method, mode


@dataclass(frozen=True)
class Causality:
    """What `check_causal` looked at and found clean.

    Attributes:
        length: T, the positions of the input.
        positions: how many of the T - 1 places between them were tried.
        methods: "perturbation", and "gradient" where one reaches the input.
        modes: "eval", and "training" where it computes something else.
    """

    length: int
    positions: int
    methods: tuple[str, ...]
    modes: tuple[str, ...]

    def __str__(self) -> str:
        tried = f"{self.positions} of {self.length - 1} places"
        return (
            f"causal over {self.length} positions: {tried}, by {' and '.join(self.methods)}, in {', '.join(self.modes)}"
        )


def check_causal(module: nn.Module, *inputs: Any, places: int = 256, seed: int = 0, **named: Any) -> Causality:
    """Raises where an output position of a module depends on a later input position; names the first that does.

    For each place between two positions everything behind it is changed, three times and by more each time, and the
    outputs before it are compared; then the derivative of those outputs by what is behind is looked at. A change sees
    what no gradient passes (an argmax, a rounding); a gradient sees what is too small for a change to show. Token ids
    are changed to other ids, their gradient is that of the embedding that reads them.

    It is done in eval, and in training where the module computes something else there (a batch norm over time), then
    with the same dropped cells each time. Modes, buffers, gradients and torch's generator stay as they were.

    Args:
        module: maps floats [B, T, M] or token ids [B, T] to [B, T, ...]; or to an output of transformers with
            ``logits`` or ``last_hidden_state``, or a tuple whose first is such a tensor.
        *inputs: of the module; the first is the one whose positions are looked at. A leak that begins at some length
            needs an example that is longer.
        places: how many places are tried at most, evenly spread; each costs three forward passes and a backward.
        seed: of the changes.
        **named: keywords for the module.

    Returns:
        Causality: what was looked at.

    Raises:
        Leak: an AssertionError with ``i``, ``j``, ``by``, ``method``, ``mode``.
        SpecError: the input is no floats or ids, or has fewer than two positions.
        ShapeError: the output does not begin with [B, T].
        UnsupportedError: two runs on one input differ (dropout that eval does not end).

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.testing import check_causal
        >>> layer, x = hw.MultiHeadAttention(16, 2, mask=hw.Causal()), torch.randn(1, 6, 16)
        >>> print(check_causal(layer, x))
        causal over 6 positions: 5 of 5 places, by perturbation and gradient, in eval
        >>> check_causal(hw.MultiHeadAttention(16, 2), x)
        Traceback (most recent call last):
        headwise.testing.causal.Leak: check_causal: output position 0 depends on input position 1 (...
    """
    if not isinstance(module, nn.Module):
        raise SpecError(sentence("check_causal", f"module is a {type(module).__name__}", "it is a torch.nn.Module"))
    x = _sequence(inputs)
    T = x.shape[1]
    if not isinstance(places, int) or places < 1:
        raise SpecError(sentence(_WHO, f"places is {places!r}", "it is an int of at least 1"))
    cuts = sorted({1 + round(n * (T - 2) / max(1, min(places, T - 1) - 1)) for n in range(min(places, T - 1))})
    methods, modes = ["perturbation"], []
    with torch.random.fork_rng(), _modes_kept(module):
        subject = _Subject(module, inputs[1:], named, seed)
        _in_mode(module, training=False)
        base = subject.run(x)
        _check_output(x, base)
        _check_sameness(module, subject, x, base)
        for mode in ("eval", "training"):
            _in_mode(module, training=mode == "training")
            if mode == "training" and _distance(subject.run(x), base) == 0:
                continue
            modes.append(mode)
            if _Search(subject, x, mode).look(cuts) and "gradient" not in methods:
                methods.append("gradient")
    return Causality(T, len(cuts), tuple(methods), tuple(modes))


def _sequence(inputs: Sequence[Any]) -> Tensor:
    x = inputs[0] if inputs else None
    if not isinstance(x, Tensor) or x.dtype == torch.bool or x.dim() < 2 or x.is_complex():
        what = axes("the first input", x, "") if isinstance(x, Tensor) else f"the first input is {x!r}"
        raise SpecError(sentence(_WHO, what, "it is floats [B,T,M] or token ids [B,T]"))
    if x.shape[0] == 0 or x.shape[1] < 2:
        rule = "there is something to look at from two positions on"
        raise SpecError(sentence(_WHO, axes("the first input", x, ""), rule, todo="Give a longer example."))
    return x.detach()


def _check_output(x: Tensor, out: Tensor) -> None:
    if tuple(out.shape[:2]) != tuple(x.shape[:2]):
        shapes = f"{axes('input', x, '')}, {axes('output', out, '')}"
        raise ShapeError(sentence(_WHO, "input and output differ in [B,T]", "position i gives position i", shapes))


def _check_sameness(module: nn.Module, subject: _Subject, x: Tensor, base: Tensor) -> None:
    away = max(_distance(subject.run(x), base), _distance(subject.run(x, draw=1), base))
    if away == 0:
        return
    drops = [f"{name or type(part).__name__}" for name, part in module.named_modules() if _drops(part)]
    named = f" ({', '.join(drops[:3])})" if drops else ""
    what = f"two runs on the same input differ by {away:.3g}, in eval"
    rule = f"dropout, or whatever else is random{named}, hides what an output depends on"
    raise UnsupportedError(sentence(_WHO, what, rule, todo="Make it end in eval, or set its probability to 0."))


def _drops(part: nn.Module) -> bool:
    return isinstance(part, nn.modules.dropout._DropoutNd) or bool(getattr(part, "dropout", 0) or False)


def _distance(one: Tensor, other: Tensor) -> float:
    """The largest distance; NaN at the same place is the same, NaN at another is inf."""
    if one.shape != other.shape:
        return torch.inf
    one, other = one.detach().double(), other.detach().double()
    same = (one == other) | (one.isnan() & other.isnan())
    away = torch.where(same, 0.0, (one - other).abs())
    return float(torch.where(away.isnan(), torch.inf, away).max()) if away.numel() else 0.0


@contextmanager
def _modes_kept(module: nn.Module) -> Iterator[None]:
    before = [(part, part.training) for part in module.modules()]
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def _in_mode(module: nn.Module, *, training: bool) -> None:
    """Puts a module into a mode; dropout that is a module of its own stays off."""
    for part in module.modules():
        part.training = training and not isinstance(part, nn.modules.dropout._DropoutNd)


@dataclass
class _Subject:
    """A module that is called on changed inputs; nothing of it is written to."""

    module: nn.Module
    rest: Sequence[Any]
    named: dict[str, Any]
    seed: int

    def run(self, x: Tensor, draw: int = 0) -> Tensor:
        """The output, without gradient."""
        with torch.no_grad():
            return self._call(x, draw).detach()

    def graph(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The output, and the leaves that it may be differentiated by: the input, or what embeddings make of it."""
        if x.is_floating_point():
            leaf = x.clone().requires_grad_()
            with torch.enable_grad():
                return self._call(leaf, 0), [leaf]
        with torch.enable_grad(), _embedded(self.module, x) as leaves:
            return self._call(x, 0), leaves

    def _call(self, x: Tensor, draw: int) -> Tensor:
        torch.manual_seed(self.seed + draw)
        # Parameters without gradients, and copies of the buffers, which a batch norm writes to.
        held = {name: p.detach() for name, p in self.module.named_parameters()}
        held |= {name: b.detach().clone() for name, b in self.module.named_buffers()}
        return _tensor(torch.func.functional_call(self.module, held, (x, *self.rest), self.named))


def _tensor(out: Any) -> Tensor:
    """The tensor [B, T, ...] of what a module returns."""
    for name in ("logits", "last_hidden_state"):
        found = out.get(name) if isinstance(out, dict) else getattr(out, name, None)
        if isinstance(found, Tensor):
            return found
    found = out[0] if isinstance(out, (tuple, list)) and out else out
    if not isinstance(found, Tensor):
        what = f"the module returns a {type(out).__name__}"
        raise SpecError(sentence(_WHO, what, "it returns a tensor [B,T,...], or an output with logits"))
    return found


@contextmanager
def _embedded(module: nn.Module, ids: Tensor) -> Iterator[list[Tensor]]:
    """Collects what embeddings make of the ids, cut off there so that a gradient ends in it."""
    leaves: list[Tensor] = []
    here = threading.get_ident()

    def cut(_: nn.Module, given: Any, out: Tensor) -> Tensor | None:
        if threading.get_ident() == here and given and given[0].shape == ids.shape and torch.equal(given[0], ids):
            leaves.append(out.detach().requires_grad_())
            return leaves[-1].clone()  # a model may scale what it was given in place
        return None

    hooks = [part.register_forward_hook(cut) for part in module.modules() if isinstance(part, nn.Embedding)]
    try:
        yield leaves
    finally:
        for hook in hooks:
            hook.remove()


@dataclass
class _Search:
    """The search for the first leak of a module in one mode."""

    subject: _Subject
    x: Tensor
    mode: str
    base: Tensor = field(init=False)
    others: list[Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.base = self.subject.run(self.x)
        generator = torch.Generator(device="cpu").manual_seed(self.subject.seed)
        self.others = [self._other(size, generator) for size in _SIZES]

    def look(self, cuts: Sequence[int]) -> bool:
        """Tries each place; returns whether a gradient reached the input. Raises `Leak`."""
        out, leaves = self.subject.graph(self.x)
        leaves = leaves if out.requires_grad else []
        before = 0
        for cut in cuts:
            self._changed(cut)
            if leaves:
                self._derived(out, leaves, before, cut)
            before = cut
        return bool(leaves)

    def _other(self, size: float, generator: torch.Generator) -> Tensor:
        """Another input, different at every position."""
        if self.x.is_floating_point():
            noise = torch.randn(self.x.shape, generator=generator, dtype=torch.float64, device="cpu").to(self.x.device)
            spread = float(self.x.double().std()) or 1.0
            return (self.x.double() + size * spread * noise).to(self.x.dtype)
        kinds = max(2, self._vocabulary())
        shift = torch.randint(1, kinds, self.x.shape, generator=generator, dtype=torch.int64, device="cpu").to(
            self.x.device
        )
        return ((self.x + shift) % kinds).to(self.x.dtype)

    def _vocabulary(self) -> int:
        """How many ids there are: as the embedding that reads them says, or as many as were seen."""
        with torch.no_grad(), _read_by(self.subject.module, self.x) as sizes:
            self.subject.run(self.x)
        return min(sizes) if sizes else int(self.x.max()) + 1

    def _mixed(self, other: Tensor, part: slice) -> Tensor:
        mixed = self.x.clone()
        mixed[:, part] = other[:, part]
        return mixed

    def _moved(self, other: Tensor, part: slice, rows: slice) -> Tensor:
        """How far each output position of rows is moved by other inputs at a part, where that is no rounding."""
        out = self.subject.run(self._mixed(other, part))
        pairs = zip(out[:, rows].unbind(1), self.base[:, rows].unbind(1), strict=True)
        away = torch.tensor([_distance(one, same) for one, same in pairs], dtype=torch.float64, device="cpu")
        return torch.where(away > self._rounding(rows), away, 0.0)

    def _rounding(self, rows: slice) -> float:
        if not self.base.is_floating_point():
            return 0.0
        largest = self.base[:, rows].double().nan_to_num(0, 0, 0).abs().max()
        return float(largest) * _ROUNDINGS * torch.finfo(self.base.dtype).eps

    def _changed(self, cut: int) -> None:
        T = self.x.shape[1]
        for other in self.others:
            away = self._moved(other, slice(cut, T), slice(0, cut))
            if bool((away > 0).any()):
                i = int((away > 0).nonzero()[0, 0])
                raise Leak(i, self._first(other, i), float(away[i]), "perturbation", self.mode)

    def _first(self, other: Tensor, i: int) -> int:
        """The first later position that moves output i, by halving: what moves it lies in [i + 1, high]."""
        low, high = i + 1, self.x.shape[1] - 1
        while low < high:
            middle = (low + high) // 2
            if bool(self._moved(other, slice(i + 1, middle + 1), slice(i, i + 1)) > 0):
                high = middle
            else:
                low = middle + 1
        return low

    def _derived(self, out: Tensor, leaves: list[Tensor], before: int, cut: int) -> None:
        generator = torch.Generator(device="cpu").manual_seed(cut)
        rows = out[:, before:cut]
        factor = torch.randn(rows.shape, generator=generator, dtype=torch.float64, device="cpu").to(rows)
        found = torch.autograd.grad((rows * factor).sum(), leaves, retain_graph=True, allow_unused=True)
        for grad in found:
            if grad is None:
                continue
            behind = grad[:, cut:].abs().flatten(2).amax((0, 2)) if grad.dim() > 2 else grad[:, cut:].abs().amax(0)
            seen = (behind != 0).nonzero()
            if len(seen):
                j = int(seen[0, 0])
                raise Leak(self._row(out, leaves, before, cut), cut + j, float(behind[j]), "gradient", self.mode)

    def _row(self, out: Tensor, leaves: list[Tensor], before: int, cut: int) -> int:
        """Which of the outputs between two places it is."""
        for i in range(before, cut):
            found = torch.autograd.grad(out[:, i].abs().sum(), leaves, retain_graph=True, allow_unused=True)
            if any(bool((g[:, cut:] != 0).any()) for g in found if g is not None):
                return i
        return cut - 1


@contextmanager
def _read_by(module: nn.Module, ids: Tensor) -> Iterator[list[int]]:
    """Collects how many ids the embeddings that read the ids know."""
    sizes: list[int] = []
    here = threading.get_ident()

    def note(part: nn.Module, given: Any) -> None:
        if threading.get_ident() == here and given and given[0].shape == ids.shape and torch.equal(given[0], ids):
            sizes.append(part.num_embeddings)  # type: ignore[arg-type]

    parts = [part for part in module.modules() if isinstance(part, nn.Embedding)]
    hooks = [part.register_forward_pre_hook(note) for part in parts]
    try:
        yield sizes
    finally:
        for hook in hooks:
            hook.remove()
