"""How a case is written: operands drawn from a seed, a call, and the register of named cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headwise.ops import Attended, attend
from headwise.products import finite_part
from headwise.spec import (
    Mask,
)

__all__ = ["CASES", "PYTHON", "RULES", "SHAPE", "WIDTH", "Build", "Call", "Case", "Draw", "case", "int64", "masked"]


@dataclass(frozen=True, eq=False)
class Call:
    """One call of attention: operands and the keywords of ``hw.attention``.

    Attributes:
        q: queries [B, H, T, D].
        k: keys [B, Hk, S, D].
        v: values [B, Hk, S, E].
        options: keywords, without ``backend`` and ``observe``.

    Example:
        >>> import torch
        >>> from headwise.testing import CASES
        >>> call = CASES["plain"].make(torch.float32)
        >>> call.run("reference").out.shape == call.q.shape
        True
    """

    q: Tensor
    k: Tensor
    v: Tensor
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, backend: Any = None, observe: Any = (), seed: int = 5) -> Attended:
        """Makes the call; the same seed drops the same cells."""
        torch.manual_seed(seed)
        return attend(self.q, self.k, self.v, **self.options, backend=backend, observe=observe)

    def leaves(self) -> dict[str, Tensor]:
        """Every float tensor that may carry a gradient, by name."""
        found = {"q": self.q, "k": self.k, "v": self.v}
        for n, rule in enumerate(self.options.get("scores", ())):
            parameter = rule.parameter()
            if parameter is not None:
                found[f"scores.{n}"] = parameter
        return found | {name: self.options[name] for name in ("sinks", "gate") if name in self.options}

    def over(self, leaves: dict[str, Tensor]) -> Call:
        """The same call with some of its leaves replaced."""
        options = dict(self.options)
        if "scores" in options:
            options["scores"] = tuple(
                rule.with_parameter(leaves[f"scores.{n}"]) if f"scores.{n}" in leaves else rule
                for n, rule in enumerate(options["scores"])
            )
        options |= {name: leaves[name] for name in ("sinks", "gate") if name in leaves}
        return Call(leaves.get("q", self.q), leaves.get("k", self.k), leaves.get("v", self.v), options)

    def to(self, dtype: torch.dtype) -> Call:
        """The same numbers in another dtype."""
        return self.over({name: leaf.detach().to(dtype) for name, leaf in self.leaves().items()})

    def finite(self) -> Call:
        """The same call with 0 for NaN and inf in q, k and v: what they poison says nothing about rounding."""
        return self.over({name: finite_part(getattr(self, name)) for name in "qkv"})

    def fresh(self) -> tuple[Call, dict[str, Tensor]]:
        """The same call over leaves that require a gradient, and those leaves; strides are kept."""
        leaves = {name: leaf.detach().requires_grad_() for name, leaf in self.leaves().items()}
        return self.over(leaves), leaves


def int64(values: Iterable[int]) -> Tensor:
    """An int64 tensor on the CPU, whatever torch's default device is."""
    return torch.tensor([*values], dtype=torch.int64, device="cpu")


class Draw:
    """Numbers of one case: everything comes from one seed, drawn in float64 and rounded once to the dtype.

    Args:
        dtype: of the operands and of every float option.
        seed: of the generator.
    """

    B, H, T, S, D, E = 2, 3, 11, 13, 5, 7

    def __init__(self, dtype: torch.dtype, seed: int) -> None:
        self.dtype = dtype
        self.generator = torch.Generator(device="cpu").manual_seed(seed)

    def normal(self, *shape: int, size: float = 1.0) -> Tensor:
        """Normal numbers times ``size``."""
        return (torch.randn(shape, generator=self.generator, dtype=torch.float64, device="cpu") * size).to(self.dtype)

    def keep(self, *shape: int, share: float = 0.6) -> Tensor:
        """Bools, True with probability ``share``."""
        return torch.rand(shape, generator=self.generator, dtype=torch.float32, device="cpu") < share

    def ints(self, high: int, *shape: int, low: int = 0) -> Tensor:
        """Integers from low to high - 1."""
        return torch.randint(low, high, shape, generator=self.generator, dtype=torch.int64, device="cpu")

    def call(self, *, Hk: int | None = None, fused: bool = False, **changes: Any) -> Call:
        """A call with the usual sizes; capital letters change a size, small ones are options.

        Args:
            Hk: key/value heads; None = H.
            fused: E = D, which torch's fused kernel asks for.
            changes: sizes and options.
        """
        size = {name: changes.pop(name, getattr(self, name)) for name in "BHTSDE"}
        B, H, T, S, D = (size[name] for name in "BHTSD")
        E = D if fused else size["E"]
        heads = H if Hk is None else Hk
        # Queries are stretched until rows are peaked: on flat rows a wrong option hides inside the tolerance.
        q = self.normal(B, H, T, D, size=2.0)
        return Call(q, self.normal(B, heads, S, D), self.normal(B, heads, S, E), changes)


Build = Callable[[Draw], Call]


@dataclass(frozen=True, eq=False)
class Case:
    """A named call.

    Attributes:
        name: what tests call it.
        build: makes the call from drawn numbers.
        exercises: the classes and options that it is there for.
        sdpa: a part of the sentence with which torch's fused kernel refuses it; None = it takes the case.
        native: the same of the native kernels, which refuse float64 as well.
        gradients: False where NaN reaches the output, so that there is nothing to differentiate.
    """

    name: str
    build: Build
    exercises: tuple[Any, ...] = ()
    sdpa: str | None = None
    native: str | None = None
    gradients: bool = True

    def refusal(self, backend: str, dtype: torch.dtype) -> str | None:
        """A part of the sentence with which a backend must refuse the case; None where it must take it."""
        if backend == "native" and dtype == torch.float64:
            return "float64"
        return {"sdpa": self.sdpa, "native": self.native}.get(backend)

    def make(self, dtype: torch.dtype, seed: int = 0) -> Call:
        """The call, its numbers drawn from a seed."""
        return self.build(Draw(dtype, seed))


CASES: dict[str, Case] = {}

WIDTH = "value width"
SHAPE = "neither a rectangle nor a triangle"
RULES = "without a T x S bias"
PYTHON = "only Python knows"


def case(
    name: str, *exercises: Any, sdpa: str | None = None, native: str | None = None, gradients: bool = True
) -> Callable[[Build], Build]:
    """Registers a case under its name; ``sdpa`` and ``native`` are parts of the reason why they must refuse it."""

    def register(build: Build) -> Build:
        assert name not in CASES, name
        CASES[name] = Case(name, build, exercises, sdpa, native, gradients)
        return build

    return register


def masked(name: str, *exercises: Any, **sizes: Any) -> Callable[[Callable[[Draw], Mask]], Callable[[Draw], Mask]]:
    """Two cases of a mask: E != D, and E = D so that nothing but the mask stands in the fused kernel's way."""
    sdpa, rest = (
        sizes.pop("sdpa", SHAPE),
        {"native": sizes.pop("native", None), "gradients": sizes.pop("gradients", True)},
    )

    def register(mask: Callable[[Draw], Mask]) -> Callable[[Draw], Mask]:
        case(name, *exercises, sdpa=WIDTH, **rest)(lambda draw: draw.call(mask=mask(draw), **sizes))
        case(f"{name}, E = D", *exercises, sdpa=sdpa, **rest)(
            lambda draw: draw.call(mask=mask(draw), fused=True, **sizes)
        )
        return mask

    return register
