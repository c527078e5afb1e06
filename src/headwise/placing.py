"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from headwise.errors import SpecError, sentence

__all__ = ["replacing"]

_NUMBERS = itertools.count()  # two threads may write beside the same place


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], who: str) -> Iterator[IO[bytes]]:
    """A file that appears whole or not at all: written beside its place, moved there at the end.

    Args:
        path: where it shall be; an older file there stays until the new one is whole. A link stays a link.
        who: refuses, where the place cannot be written.

    Yields:
        A binary file.

    Raises:
        SpecError: the place cannot be written; raised on entering, before any work is lost.

    Example:
        >>> import tempfile, pathlib
        >>> from headwise.placing import replacing
        >>> place = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
        >>> with replacing(place, "example") as file:
        ...     _ = file.write(b"whole")
        >>> place.read_text()
        'whole'
    """
    try:
        place = Path(os.path.realpath(path))  # through a link the file it names is written
        if place.exists() and not place.is_file():  # moving a file onto /dev/null would take the device away
            raise OSError(0, "it is a folder" if place.is_dir() else "it is no ordinary file")
        beside = place.with_name(f".{place.name}.{os.getpid()}.{next(_NUMBERS)}.part")
        file = beside.open("xb")
    except (OSError, TypeError, ValueError) as cause:
        raise _refusal(who, path, cause) from cause
    try:
        try:
            with file:
                yield file
            beside.replace(place)
        except OSError as cause:  # a full disk, a folder that is gone
            raise _refusal(who, path, cause) from cause
    finally:
        beside.unlink(missing_ok=True)


def _refusal(who: str, path: Any, cause: Exception) -> SpecError:
    why = getattr(cause, "strerror", None) or str(cause)
    return SpecError(sentence(who, f"cannot write {path}", why, todo="Name a file in a folder you may write to."))
