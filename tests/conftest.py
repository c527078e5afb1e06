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
def same_numbers() -> Iterator[None]:
    """Every test starts from the same state of torch's generator, whatever ran before it."""
    torch.manual_seed(0)
    yield
