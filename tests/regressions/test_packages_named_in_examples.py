"""Docstrings say hw.nn.KVCache, and after `import headwise as hw` alone there was no hw.nn."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("name", ["nn.KVCache", "models.Trace", "spec.And", "MultiHeadAttention"])
def test_a_package_is_there_after_the_import_alone(name: str) -> None:
    code = f"import sys, headwise as hw; assert 'headwise.nn' not in sys.modules; print(hw.{name}.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == name.rpartition(".")[2], done.stderr
