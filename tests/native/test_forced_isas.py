"""Every instruction set that this processor has, not only the best of them: the tests of the kernels, run on each."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

kernels = pytest.importorskip(
    "headwise._native", reason="no native kernels here: there was no compiler; run: make native"
)

HERE = Path(__file__).parent
FILES = ["test_forward.py", "test_backward.py", "test_answers.py", "test_subnormals.py"]
OTHERS = [isa for isa, has in kernels.isas() if has and isa != kernels.isa()]


def run_on(isa: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "HEADWISE_ISA": isa},
    )


@pytest.mark.skipif("HEADWISE_ISA" in os.environ, reason="one instruction set is forced already")
@pytest.mark.parametrize("isa", OTHERS)
@pytest.mark.parametrize("name", [name for name in FILES if (HERE / name).exists()])
def test_on(isa: str, name: str) -> None:
    done = run_on(isa, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", str(HERE / name))
    passed = re.search(r"(\d+) passed", done.stdout)
    assert done.returncode == 0 and passed, done.stdout[-5000:] + done.stderr[-2000:]
    assert int(passed[1]) > 20


@pytest.mark.parametrize("isa", [isa for isa, has in kernels.isas() if has])
def test_it_is_named(isa: str) -> None:
    code = """
import torch, headwise as hw
x = torch.zeros(1, 1, 2, 4)
print(hw.explain(x, x, x))
"""
    done = run_on(isa, "-c", code)
    assert f"{isa} kernels" in done.stdout, done.stdout + done.stderr


def test_one_that_is_not_there_is_a_refusal() -> None:
    code = """
import torch, headwise as hw
x = torch.zeros(1, 1, 2, 4)
said = hw.explain(x, x, x)
print(said.chosen)
print(said.reasons["native"])
hw.attention(x, x, x, mask=hw.Causal())
"""
    done = run_on("abacus", "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("sdpa\n")
    assert "HEADWISE_ISA is 'abacus'" in done.stdout
    assert "portable" in done.stdout
