"""What every test run needs before its first import."""

from __future__ import annotations

import importlib.util
import os

import pytest
from hypothesis import HealthCheck, settings

# The real models come out of installed packages; nothing may ask the network for them.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

# The package whole and first: pytest would otherwise import a module that is given by its path a second time, and a
# ShapeError of the one copy is not caught by the other's.
import headwise  # noqa: F401

# Warnings are errors. Where nothing could compile the kernels, the suite runs without them and knows it; a process that
# tests what is said of that sets this back.
if importlib.util.find_spec("headwise._native") is None:
    os.environ.setdefault("HEADWISE_WITHOUT_NATIVE", "1")


# No example fails for what else the machine does: neither its own time nor that of drawing it is limited.
settings.register_profile("suite", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")


def pytest_itemcollected(item: pytest.Item) -> None:
    """An example runs as a reader pastes it, in a fresh namespace, and not beside what its module imports."""
    if isinstance(item, pytest.DoctestItem):
        item.dtest.globs = {"__name__": "__main__"}
