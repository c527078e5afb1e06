"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from headwise.errors import SpecError, sentence

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], who: str = "view") -> Iterator[IO[bytes]]:
    """A file that appears whole or not at all: written beside its place, moved there at the end.

    Args:
        path: where it shall be; an older file there stays until the new one is whole.
        who: refuses, where the place cannot be written.

    Yields:
        A binary file.

    Raises:
        SpecError: the place cannot be written; raised on entering, before any work is lost.

    Example:
        >>> import tempfile, pathlib
        >>> from headwise.viewer import replacing
        >>> place = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
        >>> with replacing(place) as file:
        ...     _ = file.write(b"whole")
        >>> place.read_text()
        'whole'
    """
    place = Path(path)
    try:
        if place.exists() and not place.is_file():  # moving a file onto /dev/null would take the device away
            raise OSError(0, "it is a folder" if place.is_dir() else "it is no ordinary file")
        beside = place.with_name(f".{place.name}.{os.getpid()}.part")
        file = beside.open("xb")
    except (OSError, ValueError) as cause:
        why = getattr(cause, "strerror", None) or str(cause)
        raise SpecError(
            sentence(who, f"cannot write {place}", why, todo="Name a file in a folder you may write to.")
        ) from cause
    try:
        with file:
            yield file
        beside.replace(place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
