"""What several directories of tests share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

# native_here and small, and zoo, which stand there, are read by tests of several directories.
sys.path[:0] = [str(Path(__file__).parent / folder) for folder in ("conformance", "models")]


@pytest.fixture(autouse=True)
def fresh_compiler() -> Iterator[None]:
    """No test inherits what others compiled: transformers wraps every forward in one function, and torch compiles one
    function only so many times before it refuses."""
    yield
    seen = sys.modules.get("torch._dynamo.utils")
    if seen is not None and seen.counters["frames"]:
        torch._dynamo.reset()
        seen.counters.clear()


@pytest.fixture(autouse=True)
def same_numbers() -> Iterator[None]:
    """Every test starts from the same state of torch's generator, whatever ran before it."""
    torch.manual_seed(0)
    yield
