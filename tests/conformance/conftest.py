"""Small tiles, so that small calls are cut often."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from small import small_tiles


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Blocks of 4 queries, tiles of 5 keys, few heads a chunk."""
    small_tiles(monkeypatch)
    yield
