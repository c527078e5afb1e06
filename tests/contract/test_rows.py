"""No row of USER_CASES is forgotten: each is held by a test or a benchmark, or says why it is not."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "contract"), str(TESTS.parent)]

from rows import EXPECTED, ROWS, Bench, Held, NotYet  # noqa: E402

import headwise as hw  # noqa: E402


def written_in(path: Path) -> dict[str, str]:
    """Every test of a file, with its docstring."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return {
        node.name: ast.get_docstring(node) or ""
        for node in nodes
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def named() -> dict[str, list[str]]:
    """For each row the tests of tests/contract whose docstrings name it."""
    found: dict[str, list[str]] = {}
    for path in sorted((TESTS / "contract").glob("test_*.py")):
        for name, text in written_in(path).items() if path.name != "test_rows.py" else ():
            for row in re.findall(r"\bA\d+\.\d+\b", text):
                found.setdefault(row, []).append(f"contract/{path.name}::{name}")
    return found


NAMED = named()


def missing(row: str) -> str:
    """Why a row is not held; "" where it is."""
    match ROWS.get(row):
        case Held(elsewhere=()):
            return "" if NAMED.get(row) else f"no test of tests/contract names {row}"
        case Held(elsewhere=places):
            gone = [place for place in places if place.split("::")[1] not in written_in(TESTS / place.split("::")[0])]
            return f"{gone} do not exist" if gone else ""
        case Bench(named=text):
            from benchmarks.cases import BENCHES

            return "" if any(text in name for name in BENCHES) else f"no benchmark is named {text!r}"
        case NotYet(why=why):
            return "" if len(why) > 20 else "it says no reason"
    return "it has neither a test nor a reason"


@pytest.mark.parametrize("row", EXPECTED)
def test_a_row_is_held_or_says_why_not(row: str) -> None:
    assert missing(row) == ""


def test_no_other_row_is_in_the_table() -> None:
    assert sorted(set(ROWS) - set(EXPECTED)) == []


def test_a_row_that_nobody_holds_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing("A1.999") == "it has neither a test nor a reason"
    wrong = {"A1.1": Held(("house/test_tree.py::test_nothing",)), "A4.67": Bench("nothing"), "A5.81": NotYet("no")}
    for row, holder in wrong.items():
        monkeypatch.setitem(ROWS, row, holder)
        assert missing(row)
    monkeypatch.setitem(NAMED, "A1.2", [])
    assert missing("A1.2")


def test_what_is_said_not_to_be_here_is_not_here() -> None:
    """A reason that has become untrue is a row without a test."""
    for holder in ROWS.values():
        if isinstance(holder, NotYet):
            gone = re.findall(r"hw\.(\w+) is not in this version", holder.why)
            assert [name for name in gone if hasattr(hw, name)] == []
