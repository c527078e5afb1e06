"""A file appears whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headwise.errors import SpecError
from headwise.placing import replacing


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    place.write_text("older")
    with pytest.raises(TypeError), replacing(place, "view") as file:
        file.writelines([b"half" * 100_000, "no bytes"])  # type: ignore[list-item]
    assert place.read_text() == "older"
    assert list(tmp_path.iterdir()) == [place]
    with replacing(place, "view") as file:
        file.write(b"newer")
        assert place.read_text() == "older"
    assert place.read_text() == "newer"
    assert list(tmp_path.iterdir()) == [place]
    assert place.stat().st_mode & 0o777 == 0o666 & ~umask()


def test_a_place_that_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "page.html"
    with pytest.raises(SpecError, match=r"view: cannot write .*No such file"), replacing(nowhere, "view"):
        pytest.fail("no work is begun")
    with pytest.raises(SpecError, match=r"look: .*it is a folder"), replacing(tmp_path, "look"):
        pass
    with pytest.raises(SpecError, match="no ordinary file"), replacing("/dev/null", "view"):
        pass
    with pytest.raises(SpecError, match="null"), replacing(tmp_path / "a\0b", "view"):
        pass
