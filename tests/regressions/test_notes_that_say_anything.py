"""Notes of a trace may say anything, as a file of any origin brings them: numbers beyond floats, lists in lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.models import Trace, read_trace


def noted(notes: dict[str, Any]) -> Trace:
    x = torch.randn(1, 1, 3, 2)
    trace = Trace(None, {"layer": hw.Pattern(x, x)}, ["layer"])
    trace.notes = notes
    return trace


def head(**changes: Any) -> dict[str, Any]:
    names = ("scores", "chance", "error")
    return {
        "layer": 0,
        "head": 0,
        "site": "layer",
        "kind": "induction",
        "entropy": 1.0,
        **{name: {"induction": 0.5} for name in names},
        **changes,
    }


@pytest.mark.parametrize("beyond", [10**400, -(10**400), 2**1024])
@pytest.mark.parametrize("name", ["entropy", "scores", "chance", "error"])
def test_a_number_beyond_all_floats(name: str, beyond: int, tmp_path: Path) -> None:
    said = head(**{name: beyond if name == "entropy" else {"induction": beyond}})
    trace = read_trace(noted({"heads": [said]}).save(tmp_path / "a.safetensors"))
    with pytest.raises(hw.SpecError, match="view: what the trace says of its heads has no meaning"):
        hw.view(trace)
    hw.view(read_trace(noted({"heads": [head()]}).save(tmp_path / "b.safetensors")))


def test_lists_without_end(tmp_path: Path) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(hw.SpecError, match="save: notes are not JSON"):
        noted({"deep": deep}).save(tmp_path / "a.safetensors")
    while deep:  # let go one by one
        deep = deep[0]
