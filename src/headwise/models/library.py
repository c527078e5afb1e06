"""Where transformers comes from: loaded on first use, and one clear error where it is missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from headwise.errors import UnavailableError, sentence

__all__ = ["transformers"]


def transformers(who: str, part: str = "") -> ModuleType:
    """Imports transformers, or one module of it.

    Args:
        who: the function that needs it, for the message.
        part: a module inside it, ``"masking_utils"``; empty = the package itself.

    Returns:
        The module.

    Raises:
        UnavailableError: transformers is not installed, or has no such module.
    """
    name = f"transformers.{part}" if part else "transformers"
    try:
        return importlib.import_module(name)
    except ImportError as cause:
        raise UnavailableError(
            sentence(
                who,
                f"{name} cannot be imported ({cause})",
                "whole models are read through transformers 5.24 or newer",
                todo='Install it: pip install "transformers>=5.24".',
            )
        ) from cause
