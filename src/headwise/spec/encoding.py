"""A spec as words, numbers and tensors: what an operator of torch can be handed, and torch.compile can follow.

The words say what is where, in the order of reading; ints, floats and tensors stand apart, so that a number which
changes from call to call stays a symbol for the compiler, and a tensor stays a tensor of its graph. ``Causal() &
Window(2, 0)`` is ``"And [2 Causal 'end Window i i"`` with the ints 2 and 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from headwise.spec.attention import AttentionSpec
from headwise.spec.distance import Alibi, RelativeBias, T5Bias
from headwise.spec.masks import And, Mask, Or
from headwise.spec.positions import Causal, Chunks, Prefix, Window
from headwise.spec.scores import Bias, GridBias, Rules, SoftCap
from headwise.spec.spans import Spans
from headwise.spec.sparse import Global, Strided, Tree
from headwise.spec.tokens import Documents, Padding
from headwise.spec.written import Blocks, Dense

__all__ = ["FIELDS", "Encoded", "decode", "encode", "unencodable"]

#: What each class holds, in the order of its constructor, a rule's parameter first. One that is not here, or holds a
#: function, has no encoding.
FIELDS: dict[type, tuple[str, ...]] = {
    And: ("masks",),
    Or: ("masks",),
    Causal: ("align",),
    Window: ("before", "after"),
    Prefix: ("lengths",),
    Chunks: ("size", "start"),
    Padding: ("keep_or_lengths", "queries"),
    Documents: ("ids", "key_ids"),
    Blocks: ("keep_tiles", "size", "align"),
    Dense: ("keep_cells",),
    Global: ("tokens",),
    Strided: ("step",),
    Tree: ("parents",),
    Spans: ("start", "stop"),
    SoftCap: ("cap",),
    Alibi: ("slopes", "positions", "key_positions"),
    RelativeBias: ("table", "zero"),
    T5Bias: ("weights", "bidirectional", "max_distance"),
    Bias: ("tensor",),
    GridBias: ("table", "height", "width"),
}
_NAMED = {kind.__name__: kind for kind in FIELDS}


class Encoded(NamedTuple):
    """A spec without its gate, which is applied outside of the operator.

    Attributes:
        words: class names and kinds of values.
        ints, floats: the numbers, in order.
        conditions: tensors that say what is visible and where things stand, of the mask, the score rules and q_start.
        parameters: tensors that may carry a gradient, one of a score rule, and then the sinks.
    """

    words: str
    ints: list[int]
    floats: list[float]
    conditions: list[Tensor]
    parameters: list[Tensor]


def unencodable(spec: AttentionSpec) -> str:
    """What of a spec has no encoding, as the first half of a sentence; "" where all of it has one."""
    for part in () if spec.mask is None else spec.mask.parts() if isinstance(spec.mask, Mask) else (spec.mask,):
        if type(part) not in FIELDS:
            return f"the mask holds a {type(part).__name__}"
    if not isinstance(spec.scores, (tuple, list)):
        return "scores is no tuple"
    for rule in spec.scores:
        if type(rule) not in FIELDS or not isinstance(rule, Rules):
            return f"scores hold a {type(rule).__name__}"
    for name in ("scale", "q_start", "sinks", "dropout"):
        value, kinds = getattr(spec, name), (int, float, Tensor) if name in ("q_start", "sinks") else (int, float)
        if value is not None and not isinstance(value, kinds):
            return f"{name} is a {type(value).__name__}"
    heads = spec.kv_heads
    if heads is not None and not (isinstance(heads, (tuple, list)) and all(isinstance(n, int) for n in heads)):
        return "kv_heads is no list of ints"
    return ""


def encode(spec: AttentionSpec) -> Encoded:
    """Writes a spec down; only plain steps, which torch.compile traces."""
    into = Encoded("", [], [], [], [])
    words = [
        _written(spec.mask, into, into.conditions),
        _written(tuple(spec.scores), into, into.parameters),
        _written(spec.scale, into, into.conditions),
        _written(spec.q_start, into, into.conditions),
        _written(None if spec.kv_heads is None else tuple(spec.kv_heads), into, into.conditions),
        _written(spec.sinks, into, into.parameters),
        _written(spec.dropout, into, into.conditions),
    ]
    return Encoded(" ".join(words), *into[1:])


def _written(value: Any, into: Encoded, tensors: list[Tensor]) -> str:
    """The words of a value in the order of reading; without calls in calls, of which a compiler has few to spare."""
    words: list[str] = []
    left = [(value, tensors)]
    while left:
        value, tensors = left.pop()
        if value is None:
            words.append("-")
        elif isinstance(value, Tensor):
            tensors.append(value)
            words.append("t")
        elif isinstance(value, str):
            words.append(f"'{value}")
        elif isinstance(value, bool):
            words.append("yes" if value else "no")
        elif isinstance(value, int):
            into.ints.append(value)
            words.append("i")
        elif isinstance(value, float):
            into.floats.append(value)
            words.append("f")
        elif isinstance(value, tuple):
            words.append(f"[{len(value)}")
            left += [(one, tensors) for one in reversed(value)]
        else:
            kind = type(value)
            words.append(kind.__name__)
            held = [
                (getattr(value, name), tensors if n == 0 else into.conditions) for n, name in enumerate(FIELDS[kind])
            ]
            left += reversed(held)
    return " ".join(words)


def decode(encoded: Encoded) -> AttentionSpec:
    """The spec that was written down."""
    words, ints, floats = iter(encoded.words.split(" ")), iter(encoded.ints), iter(encoded.floats)
    conditions, parameters = iter(encoded.conditions), iter(encoded.parameters)

    def read(tensors: Iterator[Tensor]) -> Any:
        word = next(words)
        if word == "-":
            return None
        if word == "t":
            return next(tensors)
        if word in ("yes", "no"):
            return word == "yes"
        if word == "i":
            return next(ints)
        if word == "f":
            return next(floats)
        if word[0] == "'":
            return word[1:]
        if word[0] == "[":
            return tuple(read(tensors) for _ in range(int(word[1:])))
        kind = _NAMED[word]
        return kind(*(read(conditions if n else tensors) for n in range(len(FIELDS[kind]))))

    return AttentionSpec(
        mask=read(conditions),
        scores=read(parameters),
        scale=read(conditions),
        q_start=read(conditions),
        kv_heads=read(conditions),
        sinks=read(parameters),
        dropout=read(conditions),
    )
