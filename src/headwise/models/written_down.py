"""The options of a pattern as JSON: numbers and words where they stand, tensors by name, classes by a fixed table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.spec import AttentionSpec, Mask, Rules
from headwise.spec.encoding import FIELDS, unencodable

__all__ = ["DEPTH", "read_down", "write_down"]

DEPTH = 64  #: masks inside masks: what follows a mask calls itself that often, and a file must not overflow a stack.

_NAMED = {kind.__name__: kind for kind in FIELDS}
_OPTIONS = ("mask", "scores", "scale", "q_start", "kv_heads", "sinks")


def write_down(who: str, options: dict[str, Any], keep: Callable[[Tensor], str]) -> dict[str, Any]:
    """Options of ``Pattern.options`` as JSON.

    Args:
        who: the function that asks, for the message.
        options: mask, scores, scale, q_start, kv_heads and sinks.
        keep: takes a tensor and names it.

    Raises:
        SpecError: a mask or score rule that is a function of Python, or too many masks inside masks.

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
    return {name: _written(who, options[name], keep, 0) for name in _OPTIONS}


def _written(who: str, value: Any, keep: Callable[[Tensor], str], depth: int) -> Any:
    if depth > 2 * DEPTH:  # a mask and the tuple that holds it are two steps
        raise SpecError(sentence(who, "masks lie inside masks too deeply", f"a file holds them {DEPTH} deep"))
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Tensor):
        # An expanded axis is written once: what the model made of one row takes the room of one row.
        once = value
        for axis, step in enumerate(value.stride()):
            once = once.narrow(axis, 0, min(1, value.shape[axis])) if step == 0 else once
        return {"tensor": keep(once), "shape": list(value.shape)}
    if isinstance(value, (tuple, list)):
        return [_written(who, one, keep, depth + 1) for one in value]
    held = [_written(who, getattr(value, name), keep, depth + 1) for name in FIELDS[type(value)]]
    return {"kind": type(value).__name__, "holds": held}


def read_down(written: Any, tensor: Callable[[str], Tensor]) -> AttentionSpec:
    """The options that ``write_down`` wrote; each class is found in a table and makes its own checks.

    Args:
        written: JSON of any origin.
        tensor: gives the tensor of a name.

    Raises:
        ValueError: it is none of ``write_down``'s; HeadwiseErrors are such as well.
        Exception: whatever a class raises that is made of values which it never expected.

    Example:
        >>> from headwise.models.written_down import read_down
        >>> mask = {"kind": "Window", "holds": [3, None]}
        >>> written = {name: None for name in ("scores", "scale", "q_start", "kv_heads", "sinks")}
        >>> read_down({**written, "mask": mask, "scores": []}, {}.get).mask
        Window(before=3, after=None)
    """
    if not isinstance(written, dict) or set(written) != set(_OPTIONS):
        raise ValueError("its options are not those of a pattern")
    spec = AttentionSpec(**{name: _read(written[name], tensor, 0) for name in _OPTIONS})
    if unencodable(spec) or not isinstance(spec.mask, (Mask, type(None))):
        raise ValueError("its options have other kinds than those of a pattern")
    return spec


def _read(value: Any, tensor: Callable[[str], Tensor], depth: int) -> Any:
    if depth > 2 * DEPTH:
        raise ValueError(f"masks lie inside masks more than {DEPTH} deep")
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return tuple(_read(one, tensor, depth + 1) for one in value)
    if set(value) == {"tensor", "shape"}:
        return tensor(value["tensor"]).expand(value["shape"])
    kind, holds = value["kind"], value["holds"]
    if kind not in _NAMED or len(holds) != len(FIELDS[_NAMED[kind]]):
        raise ValueError(f"it names a kind of mask or score rule that does not exist, {str(kind)[:40]!r}")
    held = [_read(one, tensor, depth + 1) for one in holds]
    if FIELDS[_NAMED[kind]] == ("masks",) and not _are_masks(held[0]):
        raise ValueError("it combines what are no masks")
    made: Mask | Rules = _NAMED[kind](*held)
    return made


def _are_masks(held: Any) -> bool:
    return isinstance(held, Sequence) and len(held) > 0 and all(isinstance(one, Mask) for one in held)
