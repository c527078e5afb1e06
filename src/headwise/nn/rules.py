"""Masks and score rules as parts of a module, so that the tensors inside them move, train and are saved with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

from torch import Tensor, nn

from headwise.errors import SpecError, axes, sentence

__all__ = ["Held"]

_Rule = TypeVar("_Rule")


class Held(nn.Module):
    """Holds one mask, score rule or tuple of them; calling it gives it back with the module's own tensors inside.

    A rule is a frozen value that may hold tensors (slopes, a table, document ids). Left alone, ``module.to(device)``,
    an optimiser or ``state_dict`` would not see them. Here each `nn.Parameter` in a rule becomes a parameter and each
    other tensor a buffer that is moved but not saved, since whoever built the module knows it already.

    Raises:
        SpecError: a tensor in a rule was computed from one that requires a gradient.

    Example:
        >>> import torch
        >>> from dataclasses import dataclass
        >>> from torch import nn
        >>> from headwise.nn.rules import Held
        >>> @dataclass(frozen=True, eq=False)
        ... class Table:
        ...     table: torch.Tensor
        >>> held = Held((Table(nn.Parameter(torch.zeros(2, 5))),)).to(torch.float64)
        >>> [name for name, _ in held.named_parameters()], held()[0].table.dtype
        (['rule_0_table'], torch.float64)
    """

    def __init__(self, rules: Any) -> None:
        super().__init__()
        self._rules = rules
        for name, tensor in _tensors(rules, "rule"):
            if not tensor.is_leaf:
                what = f"{name} was computed from another tensor, of which it wants a gradient"
                rule = "what a module holds outlives the graph of that computation"
                todo = "Give the rule an nn.Parameter, or a detached tensor."
                raise SpecError(sentence("module", what, rule, axes(name, tensor, ""), todo))
            if isinstance(tensor, nn.Parameter):
                self.register_parameter(name, tensor)
            else:
                self.register_buffer(name, tensor, persistent=False)

    def forward(self) -> Any:
        """The rules, with the tensors that this module holds now."""
        if any(getattr(self, name) is not tensor for name, tensor in _tensors(self._rules, "rule")):
            self._rules = _rebuilt(self._rules, "rule", lambda name: getattr(self, name))
        return self._rules

    def extra_repr(self) -> str:
        """What is held, for ``print(module)``."""
        return repr(self._rules)


def _parts(rule: Any) -> list[tuple[str, Any]]:
    if isinstance(rule, tuple | list):
        return [(str(n), part) for n, part in enumerate(rule)]
    if is_dataclass(rule) and not isinstance(rule, type):
        return [(field.name, getattr(rule, field.name)) for field in fields(rule) if field.init]
    return []


def _tensors(rule: Any, path: str) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in a rule, with a name that says where it sits."""
    for name, part in _parts(rule):
        here = f"{path}_{name}"
        if isinstance(part, Tensor):
            yield here, part
        else:
            yield from _tensors(part, here)


def _rebuilt(rule: _Rule, path: str, tensor: Callable[[str], Tensor]) -> _Rule:
    """The same rule around other tensors."""
    new: dict[str, Any] = {}
    for name, part in _parts(rule):
        here = f"{path}_{name}"
        new[name] = tensor(here) if isinstance(part, Tensor) else _rebuilt(part, here, tensor)
    if not new:
        return rule
    if isinstance(rule, tuple | list):
        return type(rule)(new.values())
    return _like(rule, new)


def _like(rule: _Rule, values: dict[str, Any]) -> _Rule:
    """A frozen value of the same type with some fields changed.

    Not by dataclasses.replace: a field need not be named like the argument that it came from (``Dense(keep)``), and
    what was checked once need not be checked on another device. Nothing but fields comes along, so what a rule may have
    remembered on the side is left behind; fields that are no arguments are worked out anew.
    """
    made: _Rule = object.__new__(type(rule))
    all_fields = fields(rule)  # type: ignore[arg-type]
    for field in all_fields:
        if hasattr(rule, field.name):
            object.__setattr__(made, field.name, values.get(field.name, getattr(rule, field.name)))
    if not all(field.init for field in all_fields):
        made.__post_init__()  # type: ignore[attr-defined]
    return made
