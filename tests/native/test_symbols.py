"""Each instruction set's object defines one symbol: its table of kernels.

An ordinary inline function that is compiled in two such files is one symbol to the linker, which keeps one body for
both. If that is the AVX-512 one, every other processor dies of it, and only there.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parents[2] / "build" / "native"
BUILT = pytest.mark.skipif(not (BUILD / "build.ninja").is_file(), reason="no kernels in build/native; run: make native")


def compiler() -> str:
    """The C++ compiler that made the kernels."""
    found = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
    assert found
    return found[1]


def instruction_sets() -> list[str]:
    """Those of this build, as the dispatcher sees them."""
    return re.findall(r"X\((\w+)\)", (BUILD / "include" / "headwise" / "isas.h").read_text().split("(X)", 1)[1])


def defined(thing: Path) -> list[str]:
    """The symbols that an object offers to others: everything external, weak ones too."""
    said = subprocess.run(
        [os.environ.get("NM", "nm"), "-g", "-P", str(thing)], capture_output=True, text=True, check=True
    )
    fields = [line.split() for line in said.stdout.splitlines()]
    # U, w and v are what the object asks of others. On macOS every name begins with an underscore.
    return sorted(name.removeprefix("_") for name, kind, *_ in fields if kind not in "Uwv")


def fault(thing: Path, isa: str) -> str | None:
    """What is wrong with the object of an instruction set."""
    found, wanted = defined(thing), [f"headwise_kernels_{isa}"]
    return None if found == wanted else f"{thing.name} defines {', '.join(found)}; it may define {wanted[0]} alone"


@BUILT
def test_each_instruction_set_defines_its_table_and_nothing_else() -> None:
    assert "portable" in instruction_sets()
    for isa in instruction_sets():
        (thing,) = (BUILD / "CMakeFiles" / f"headwise_{isa}.dir").rglob("*.o")
        assert fault(thing, isa) is None


TABLE = """
    {}
    namespace {{ int twice(int x) {{ return {}; }} }}
    using Take = int (*)(int);
    extern "C" const Take headwise_kernels_planted;
    const Take headwise_kernels_planted = twice;
"""


@BUILT
@pytest.mark.parametrize(
    ("before", "body", "also"),
    [
        ("", "x + x", None),
        ("static int add(int a, int b) { return a + b; }", "add(x, x)", None),
        ("inline __attribute__((noinline)) int add(int a, int b) { return a + b; }", "add(x, x)", "add"),
        ("int count = 0;", "x + x", "count"),
        ("#include <vector>\nstatic std::vector<int> kept;", "(kept.push_back(x), kept[0] + x)", "vector"),
    ],
)
def test_a_second_symbol_is_seen(tmp_path: Path, before: str, body: str, also: str | None) -> None:
    source, thing = tmp_path / "planted.cpp", tmp_path / "planted.o"
    source.write_text(TABLE.format(before, body))
    subprocess.run([compiler(), "-std=c++17", "-O1", "-c", str(source), "-o", str(thing)], check=True)
    said = fault(thing, "planted")
    assert said is None if also is None else also in str(said), said
