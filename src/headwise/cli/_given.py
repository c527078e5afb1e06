"""What several subcommands are given: a dtype by name."""

from __future__ import annotations

from typing import Any

from headwise.errors import SpecError, sentence

__all__ = ["dtype_of"]


def dtype_of(who: str, name: str) -> Any:
    """The torch dtype of a name."""
    import torch

    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if name not in known:
        raise SpecError(sentence(who, f"--dtype is {name!r}", f"it is one of {', '.join(known)}"))
    return known[name]
