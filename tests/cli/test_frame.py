"""What every subcommand has in common: help with an example, one sentence for an error, exit codes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import headwise as hw
from headwise import cli
from headwise.errors import SpecError


def call(*words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as done:
        cli.main(words)
    captured = capsys.readouterr()
    return int(done.value.code or 0), captured.out, captured.err


def test_commands_are_the_files() -> None:
    files = {path.stem for path in Path(cli.__file__).parent.glob("[!_]*.py")}
    assert set(cli.commands()) == files
    assert "info" in files


@pytest.mark.parametrize("name", cli.commands())
def test_help_has_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(name, "--help", capsys=capsys)
    assert (code, err) == (0, "")
    assert f"headwise {name}" in out.split("Example", 1)[1]


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call("--help", capsys=capsys)
    assert code == 0
    assert "Example" in out
    for name in cli.commands():
        assert f"  {name} " in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("--version", capsys=capsys) == (0, f"headwise {hw.__version__}\n", "")


def test_an_unknown_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call("lokk", capsys=capsys)
    assert (code, out) == (2, "")
    assert "lokk" in err


def test_an_error_of_the_library_is_one_sentence(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwise.cli import _machine

    def fail() -> None:
        raise SpecError("info: no\nsuch thing.")

    monkeypatch.setattr(_machine, "facts", fail)
    assert call("info", capsys=capsys) == (2, "", "info: no such thing.\n")


def test_other_errors_keep_their_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    from headwise.cli import _machine

    def fail() -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(_machine, "facts", fail)
    with pytest.raises(ZeroDivisionError):
        cli.main(["info"])


def test_info_says_versions_and_every_backend(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call("info", capsys=capsys)
    assert code == 0
    for word in ("headwise", hw.__version__, "torch", "threads", "reference", "blocked", "sdpa"):
        assert word in out


def test_info_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call("info", "--json", capsys=capsys)
    found = json.loads(out)
    assert code == 0
    assert found["versions"]["headwise"] == hw.__version__
    assert found["backends"]["reference"]["runs"]
    assert not found["backends"]["triton"]["runs"] if "triton" in found["backends"] else True
    assert found["backends"][found["chosen"]]["runs"]
    assert all(backend["reason"] for backend in found["backends"].values())


def test_info_says_which_kernels_run() -> None:
    native = pytest.importorskip("headwise._native", reason="this headwise was built without a compiler")
    wanted = native.isas()[0][0]
    done = subprocess.run(
        [sys.executable, "-m", "headwise", "info", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HEADWISE_ISA": wanted},
    )
    found = json.loads(done.stdout)["native kernels"]
    assert found["in use"] == wanted == "portable"
    assert set(found["on this processor"]) <= set(found["built"])
    assert found["threads"]
    assert "why" not in found


def test_info_names_a_forced_instruction_set_that_is_not_there() -> None:
    pytest.importorskip("headwise._native", reason="this headwise was built without a compiler")
    done = subprocess.run(
        [sys.executable, "-c", "from headwise.cli._machine import _native; print(_native())"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HEADWISE_ISA": "abacus"},
    )
    assert "'in use': 'none'" in done.stdout
    assert "HEADWISE_ISA=abacus" in done.stdout


def test_info_says_how_to_get_kernels_that_are_absent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    hidden = "headwise._native"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == hidden else find(name, *rest))
    code, out, _ = call("info", capsys=capsys)
    assert code == 0
    said = " ".join(out.split())
    assert "absent" in said
    for word in ("compiler", "pip install --force-reinstall", "make native"):
        assert word in said


def test_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headwise", "info", "--help"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Usage: headwise info")
