"""What several subcommands are given: a dtype by name, a text in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwise.errors import SpecError, sentence

__all__ = ["dtype_of", "text_in"]


def dtype_of(who: str, name: str) -> Any:
    """The torch dtype of a name."""
    import torch

    known = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
    if name not in known:
        raise SpecError(sentence(who, f"--dtype is {name!r}", f"it is one of {', '.join(known)}"))
    return known[name]


def text_in(who: str, path: Path) -> str:
    """The text of a UTF-8 file."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as cause:
        raise SpecError(sentence(who, f"cannot read {path}", cause.strerror or str(cause))) from cause
    except UnicodeDecodeError as cause:
        what = f"{path} is no UTF-8 text: byte {cause.object[cause.start]:#04x} at position {cause.start}"
        raise SpecError(sentence(who, what, todo="Convert it: iconv -f latin1 -t utf-8.")) from cause
