"""Tests of the kernels hold for each instruction set: what HEADWISE_ISA names must be what runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def forced() -> None:
    """A test that was to run on one instruction set must not pass on another."""
    wanted = os.environ.get("HEADWISE_ISA")
    if wanted:
        import headwise._native as kernels

        assert kernels.isa() == wanted


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Tests set the number of threads; what it was comes back."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
