"""Makes the blocked backend cut its calls into many small tiles."""

from __future__ import annotations

import pytest

from headwise.backends import observing, tiling


def small_tiles(
    monkeypatch: pytest.MonkeyPatch, rows: int = 4, keys: int = 5, scratch: int = 64, keep: int | None = None
) -> None:
    """Sets how large blocks and tiles may be; ``keep=0`` makes a survey go twice over every block of rows."""
    monkeypatch.setattr(tiling, "ROWS", rows)
    monkeypatch.setattr(tiling, "KEYS", keys)
    monkeypatch.setattr(tiling, "SCRATCH", scratch)
    if keep is not None:
        monkeypatch.setattr(observing, "KEEP", keep)
