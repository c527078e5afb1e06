"""An ImportError in the native package itself turned the kernels off without a word, and skipped their tests."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import headwise

ROOT = Path(headwise.__file__).parent

PLANT = """
    import importlib.abc, importlib.util, sys

    class Planted(importlib.abc.MetaPathFinder, importlib.abc.Loader):
        def find_spec(self, name, path=None, target=None):
            if name == {module!r}:
                return importlib.util.spec_from_loader(name, self, is_package=name.endswith(".native"))
        def exec_module(self, module):
            raise {error}

    sys.meta_path.insert(0, Planted())
    import torch
    try:
        import headwise as hw
    except ImportError as error:
        print(type(error).__name__, error)
    else:
        x = torch.zeros(1, 1, 2, 4)
        print("imported;", hw.explain(x, x, x).chosen)
"""


def imported(module: str, error: str) -> str:
    """What a fresh process prints that imports headwise with an error in one of its modules."""
    code = textwrap.dedent(PLANT).format(module=module, error=error)
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_fault_in_the_python_around_the_kernels() -> None:
    pytest.importorskip("headwise._native", reason="this headwise was built without a compiler")
    said = imported("headwise.backends.native.turning", "ImportError(\"cannot import name 'nubmers'\")")
    assert said == "ImportError cannot import name 'nubmers'"


def test_a_module_that_it_needs_and_does_not_find() -> None:
    pytest.importorskip("headwise._native", reason="this headwise was built without a compiler")
    said = imported("headwise.backends.native.answers", "ModuleNotFoundError(\"No module 'x'\", name='x')")
    assert said == "ModuleNotFoundError No module 'x'"


def test_a_compiled_module_that_does_not_load() -> None:
    said = imported("headwise._native", "ImportError('libgomp.so.1: cannot open shared object file')")
    assert said.startswith(
        "UnavailableError headwise: its compiled module headwise._native does not load (libgomp.so.1"
    )
    said = imported("headwise._native", "ModuleNotFoundError(\"No module named 'x'\", name='x')")
    assert said == "ModuleNotFoundError No module named 'x'"


def test_only_its_absence_leaves_the_kernels_out() -> None:
    said = imported(
        "headwise._native", "ModuleNotFoundError(\"No module named 'headwise._native'\", name=module.__name__)"
    )
    assert said == "imported; sdpa"


def caught_imports_of_ours(source: str) -> list[int]:
    """Lines of imports of headwise whose failure is caught and may be taken for an absence."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Try):
            continue
        caught = {
            name.id
            for handler in node.handlers
            for name in ast.walk(handler.type or ast.Name("Exception"))
            if isinstance(name, ast.Name)
        }
        if not caught & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}:
            continue
        for line in (line for statement in node.body for line in ast.walk(statement)):
            names = (
                [line.module or ""]
                if isinstance(line, ast.ImportFrom)
                else [alias.name for alias in line.names]
                if isinstance(line, ast.Import)
                else []
            )
            if any(name.partition(".")[0] == "headwise" for name in names) or (
                isinstance(line, ast.ImportFrom) and line.level
            ):
                found.append(line.lineno)
    return found


def test_no_import_of_ours_is_caught_anywhere_else() -> None:
    assert caught_imports_of_ours(
        "try:\n    from headwise.ops import x\nexcept (ImportError, OSError):\n    x = None"
    ) == [2]
    assert caught_imports_of_ours("try:\n    import headwise.ops\nexcept:\n    pass") == [2]
    assert caught_imports_of_ours("try:\n    import numpy\nexcept ImportError:\n    pass") == []
    found = {
        path.relative_to(ROOT).as_posix(): caught_imports_of_ours(path.read_text("utf-8"))
        for path in ROOT.rglob("*.py")
    }
    assert {name for name, lines in found.items() if lines} == {"backends/compiled.py"}
