"""What a model cannot be run on, said before it runs: text in place of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headwise.errors import SpecError, sentence

__all__ = ["check_inputs"]


def check_inputs(who: str, args: Sequence[Any], batch: Mapping[str, Any]) -> None:
    """Checks what a model is to be run on, as far as every model refuses it.

    Args:
        who: the function that runs it.
        args: positional inputs.
        batch: inputs by name. Those of ``generate`` may be words (``language="en"``), so only ``text`` and the like
            are looked at.

    Raises:
        SpecError: a text, a tokenizer, or a batch that was not unpacked.
    """
    todo = f'Write hw.{who}(model, **tokenizer(text, return_tensors="pt")).'
    read = "a model reads tokens, which its tokenizer makes of a text"
    for value in (*args, *(batch[name] for name in ("text", "texts", "prompt") if name in batch)):
        if _is_text(value):
            what = f"the text {value[:40]!r} was given" if isinstance(value, str) else "a list of texts was given"
            raise SpecError(sentence(who, what, read, todo=todo))
    for value in args:
        if isinstance(value, Mapping):
            what, rule = f"a {type(value).__name__} was given", "the inputs of a model go by name"
            raise SpecError(sentence(who, what, rule, todo=f"Unpack it: hw.{who}(model, **batch)."))
        if hasattr(value, "convert_ids_to_tokens"):
            raise SpecError(sentence(who, f"a tokenizer, {type(value).__name__}, was given", read, todo=todo))


def _is_text(value: Any) -> bool:
    listed = isinstance(value, (list, tuple)) and len(value) > 0
    return isinstance(value, str) or (listed and all(isinstance(part, str) for part in value))
