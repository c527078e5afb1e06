"""What the tree looks like: small files with names that say something, pinned names, documents that run."""

from __future__ import annotations

import doctest
import importlib.metadata
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import headwise as hw
from headwise.backends import TABLE

REPO = Path(__file__).resolve().parents[2]
ROOT = REPO / "src" / "headwise"
CODE = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "examples", "experiments", "native")
    for path in (REPO / folder).rglob("*")
    if path.suffix in {".py", ".cpp", ".h", ".inl"}
)
MAX_LINES = 500
SAYS_NOTHING = {"utils", "util", "common", "misc", "helpers", "helper", "stuff", "tools"}

# The names that other people's checks call.
PINNED = """
    attention attend explain Pattern
    Causal Window Prefix Padding Documents Chunks Blocks Dense Rule
    SoftCap Alibi RelativeBias Bias ScoreRule
    LogSumExp MaxLogit Entropy Received Offsets TopKeys MassOn MassWhere Segments Map Crop Contribution
    MultiHeadAttention
    load use restore sites everywhere observe trace
    head_table ablate importance prune
    view
""".split()

PATTERN_METHODS = "entropy received offsets top_keys mass_on mass_where segments map to_dense shape".split()

OPTIONS = {
    "mask": None,
    "scores": (),
    "scale": None,
    "q_start": None,
    "kv_heads": None,
    "sinks": None,
    "dropout": 0.0,
    "gate": None,
    "backend": None,
}


def public() -> list[str]:
    return [name for name in hw.__all__ if not name.startswith("__") and not inspect.ismodule(getattr(hw, name))]


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(REPO)))
def test_files_are_small_and_named(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MAX_LINES, f"{path.relative_to(REPO)} has {lines} lines; cut it where it has a joint"
    assert path.stem not in SAYS_NOTHING, "a file is named after what it does"


def test_every_language_is_looked_at() -> None:
    assert {path.suffix for path in CODE} == {".py", ".cpp", ".h", ".inl"}


@pytest.mark.parametrize("name", PINNED)
def test_pinned_names_exist(name: str) -> None:
    assert hasattr(hw, name)
    assert name in hw.__all__


def test_all_is_true() -> None:
    assert [name for name in hw.__all__ if not hasattr(hw, name)] == []
    assert len(set(hw.__all__)) == len(hw.__all__)


@pytest.mark.parametrize("name", ["attention", "attend", "explain"])
def test_signature_of_the_op(name: str) -> None:
    parameters = inspect.signature(getattr(hw, name)).parameters
    options = {**OPTIONS, "observe": ()} if name != "attention" else OPTIONS
    assert list(parameters)[:3] == ["q", "k", "v"]
    assert {key: parameters[key].default for key in list(parameters)[3:]} == options
    assert all(parameters[key].kind is inspect.Parameter.KEYWORD_ONLY for key in options)


@pytest.mark.parametrize("name", PATTERN_METHODS)
def test_pattern_has_its_methods(name: str) -> None:
    assert hasattr(hw.Pattern, name)


@pytest.mark.parametrize("name", public())
def test_public_names_are_explained_with_an_example(name: str) -> None:
    thing = getattr(hw, name)
    text = inspect.getdoc(thing)
    assert text, f"headwise.{name} has no docstring"
    assert len(text.splitlines()[0]) > 10
    assert doctest.DocTestParser().get_examples(text), f"the docstring of headwise.{name} has no example"


def test_examples_run_in_a_fresh_namespace(tmp_path: Path) -> None:
    page = tmp_path / "page.py"
    page.write_text('def one():\n    """One.\n\n    >>> one()\n    1\n    """\n    return 1\n')
    words = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-c", str(REPO / "pyproject.toml"), str(page)]
    done = subprocess.run(words, cwd=REPO, capture_output=True, text=True, check=False)
    assert "NameError: name 'one' is not defined" in done.stdout
    page.write_text(page.read_text().replace(">>> one()", ">>> from page import one\n    >>> one()"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, cwd=REPO, capture_output=True, text=True, check=False, env=environment)
    assert "1 passed" in done.stdout


def test_the_backends_are_named_in_their_order() -> None:
    line = re.sub(r"\s+", " ", (hw.attention.__doc__ or "").split("backend: ")[1])
    named = re.findall(r'"(\w+)"', line.partition(" or ")[0])
    assert named == ["native", *(backend.name for backend in TABLE if backend.name != "native")]


def test_advice_to_install_headwise_is_advice_that_works() -> None:
    """The package is on no index: it is installed out of its source tree."""
    files = [REPO / "pyproject.toml", *(path for path in CODE if path.is_relative_to(ROOT))]
    advice = [line for path in files for line in path.read_text().splitlines() if "pip install" in line]
    assert len(advice) >= 4
    assert not [line for line in advice if re.search(r"pip install[^.]*\bheadwise\b", line)]


def test_typed_marker_is_shipped() -> None:
    assert (ROOT / "py.typed").is_file()


def test_versions_agree() -> None:
    assert hw.__version__ == importlib.metadata.version("headwise")


def test_runtime_dependencies_are_torch() -> None:
    needs = [line for line in importlib.metadata.requires("headwise") or [] if "extra ==" not in line]
    assert sorted(re.split("[>=<]", line)[0].replace("_", "-") for line in needs) == ["torch", "typing-extensions"]
    assert not any("==" in line or "<" in line for line in needs), "a user's torch is not ours to replace"
