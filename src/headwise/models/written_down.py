"""The options of a pattern as JSON: numbers and words where they stand, tensors by name, classes by a fixed table."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.spec import AttentionSpec, Bias, Dense, Mask, Rules
from headwise.spec.encoding import FIELDS, unencodable
from headwise.spec.masks import DEPTH
from headwise.spec.scores import Compact

__all__ = ["AXES", "PARTS", "RULES", "read_down", "write_down"]

PARTS, RULES = 64, 8  #: masks and score rules of a pattern, at most: each tile of cells goes through all of them
AXES = 8  #: of a tensor, at most

_NAMED = {kind.__name__: kind for kind in FIELDS}
_OPTIONS = ("mask", "scores", "scale", "q_start", "kv_heads", "sinks")
_IN_PLACE = (Dense, Bias)  # read where they lie, so that expanded axes take no room; each must be one of the pattern's


def write_down(who: str, options: dict[str, Any], keep: Callable[[Tensor], str]) -> dict[str, Any]:
    """Options of ``Pattern.options`` as JSON.

    Args:
        who: the function that asks, for the message.
        options: mask, scores, scale, q_start, kv_heads and sinks.
        keep: takes a tensor and names it.

    Raises:
        SpecError: a mask or score rule that is a function of Python, or too many of them.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.models.written_down import write_down
        >>> x = torch.zeros(1, 1, 2, 4)
        >>> p = hw.Pattern(x, x, mask=hw.Causal() & hw.Window(3))
        >>> write_down("save", p.options, lambda tensor: "a")["mask"]
        {'kind': 'And', 'holds': [[{'kind': 'Causal', 'holds': ['end']}, {'kind': 'Window', 'holds': [3, None]}]]}
    """
    what = unencodable(AttentionSpec(**options))
    if what:
        rule = "a file holds numbers and tensors, and what only a function of Python knows is neither"
        raise SpecError(sentence(who, what, rule, todo="Write the mask out in hw.Dense(keep), a rule in hw.Bias."))
    mask, scores = options["mask"], options["scores"]
    for what, count, most in (
        ("masks", 0 if mask is None else len(mask.parts()), PARTS),
        ("score rules", len(scores), RULES),
    ):
        if count > most:
            todo = "Write them out in one: hw.Dense(keep), hw.Bias(tensor)."
            raise SpecError(sentence(who, f"a pattern has {count:,} {what}", f"a file holds up to {most}", todo=todo))
    return {name: _written(options[name], keep) for name in _OPTIONS}


def _written(value: Any, keep: Callable[[Tensor], str]) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Tensor):
        # An expanded axis is written once: what the model made of one row takes the room of one row.
        once = value
        for axis, step in enumerate(value.stride()):
            once = once.narrow(axis, 0, min(1, value.shape[axis])) if step == 0 else once
        return {"tensor": keep(once), "shape": list(value.shape)}
    if isinstance(value, (tuple, list)):
        return [_written(one, keep) for one in value]
    held = [_written(getattr(value, name), keep) for name in FIELDS[type(value)]]
    return {"kind": type(value).__name__, "holds": held}


def read_down(written: Any, tensor: Callable[[str], Tensor], room: int) -> AttentionSpec:
    """The options that ``write_down`` wrote; each class is found in a table and makes its own checks.

    What is declared is counted before it is made: masks, score rules, expanded axes, tables of distances.

    Args:
        written: JSON of any origin.
        tensor: gives the tensor of a name.
        room: the numbers that one tensor may have which the file does not hold as such.

    Raises:
        ValueError: it is none of ``write_down``'s; HeadwiseErrors are such as well.
        Exception: whatever a class raises that is made of values which it never expected.

    Example:
        >>> from headwise.models.written_down import read_down
        >>> mask = {"kind": "Window", "holds": [3, None]}
        >>> written = {name: None for name in ("scores", "scale", "q_start", "kv_heads", "sinks")}
        >>> read_down({**written, "mask": mask, "scores": []}, {}.get, room=1000).mask
        Window(before=3, after=None)
    """
    if not isinstance(written, dict) or set(written) != set(_OPTIONS):
        raise ValueError("its options are not those of a pattern")
    reading = _Reading(tensor, room)
    spec = AttentionSpec(**{name: reading.value(written[name]) for name in _OPTIONS})
    if unencodable(spec) or not isinstance(spec.mask, (Mask, type(None))):
        raise ValueError("its options have other kinds than those of a pattern")
    return spec


class _Reading:
    """The options of one pattern being read."""

    def __init__(self, tensor: Callable[[str], Tensor], room: int) -> None:
        self.tensor, self.room = tensor, room
        self.left: dict[type[Mask | Rules], int] = {Mask: PARTS, Rules: RULES}

    def value(self, written: Any, depth: int = 0, in_place: bool = False) -> Any:
        """What JSON says: a number or word, a tensor, a mask or rule, or a list of those."""
        if depth > 2 * DEPTH:  # a mask and the list that holds it are two steps
            raise ValueError(f"masks lie inside masks more than {DEPTH} deep")
        if written is None or isinstance(written, (bool, int, float, str)):
            return written
        if isinstance(written, list):
            return tuple(self.value(one, depth + 1) for one in written)
        if set(written) == {"tensor", "shape"}:
            return self.expanded(self.tensor(written["tensor"]), written["shape"], in_place)
        return self.made(written["kind"], written["holds"], depth)

    def expanded(self, held: Tensor, shape: Any, in_place: bool) -> Tensor:
        """A tensor with the axes of 1 that the file says were longer."""
        if shape == list(held.shape):
            return held
        if not isinstance(shape, list) or len(shape) > AXES or not all(type(n) is int and n > 0 for n in shape):
            raise ValueError("a shape of it is no list of sizes")
        if not in_place:
            self.check_room(math.prod(shape))
        return held.expand(shape)

    def made(self, kind: Any, holds: Any, depth: int) -> Mask | Rules:
        """A mask or score rule of the table."""
        if kind not in _NAMED or len(holds) != len(FIELDS[_NAMED[kind]]):
            raise ValueError(f"it names a kind of mask or score rule that does not exist, {str(kind)[:40]!r}")
        what = _NAMED[kind]
        if FIELDS[what] != ("masks",):
            self.count(Mask if issubclass(what, Mask) else Rules)
        made: Mask | Rules = what(*(self.value(one, depth + 1, what in _IN_PLACE) for one in holds))
        if isinstance(made, Compact):
            self.check_room(made.entries_written())
        return made

    def count(self, base: type[Mask | Rules]) -> None:
        """Refuses one mask or score rule too many."""
        self.left[base] -= 1
        if self.left[base] < 0:
            raise ValueError(f"a pattern of it has more than {PARTS} masks or {RULES} score rules")

    def check_room(self, numbers: int) -> None:
        """Refuses what would be made larger than the file pays for."""
        if numbers > self.room:
            raise ValueError(f"it declares {numbers:,} numbers in one tensor, and has room for {self.room:,}")
