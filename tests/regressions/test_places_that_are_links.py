"""What is written through a link is the file that it names; a pipe is no trace and is not waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import headwise as hw
from headwise.models import read_trace


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    q = torch.zeros(1, 1, 3, 4)
    target, link = tmp_path / "target.svg", tmp_path / "link.svg"
    target.write_text("older")
    link.symlink_to(target)
    hw.view(hw.Pattern(q, q)).save(link)
    assert link.is_symlink() and target.read_text().startswith("<svg")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.safetensors")
    with pytest.raises(hw.SpecError, match="it is no ordinary file"):
        read_trace(tmp_path / "pipe.safetensors")
