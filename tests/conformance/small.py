"""Makes the blocked backend cut its calls into many small tiles."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from headwise.backends import blocked, tiling


def small_tiles(monkeypatch: pytest.MonkeyPatch, rows: int = 4, keys: int = 5, scratch: int = 64) -> None:
    """Sets how large blocks and tiles may be, in globals and in defaults."""
    new = {"ROWS": rows, "KEYS": keys, "SCRATCH": scratch}
    old = {name: getattr(tiling, name) for name in new}
    functions = {id(f): f for m in (tiling, blocked) for _, f in inspect.getmembers(m, inspect.isfunction)}
    for f in functions.values():
        if f.__defaults__:
            patched: tuple[Any, ...] = tuple(
                next((new[name] for name in new if value is old[name] or value == old[name]), value)
                for value in f.__defaults__
            )
            monkeypatch.setattr(f, "__defaults__", patched)
    for module in (tiling, blocked):
        for name, value in new.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
