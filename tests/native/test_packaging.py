"""What pip builds: the package with its kernels where there is a compiler, without them where there is none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
pytest.importorskip("scikit_build_core", reason="the packages are built with scikit-build-core, of the extra 'dev'")

BUILD = """
import json, sys
from scikit_build_core.build import build_sdist, build_wheel
made = build_sdist(sys.argv[1]) if sys.argv[2] == "sdist" else build_wheel(sys.argv[1], json.loads(sys.argv[3]))
print("made", made)
"""


def build(
    folder: Path, kind: str, environment: dict[str, str] | None = None, settings: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Builds what pip would build, out of this checkout."""
    return subprocess.run(
        [sys.executable, "-c", BUILD, str(folder), kind, json.dumps(settings or {})],
        cwd=REPO,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def run(code: str, wheel: Path) -> str:
    """What code prints in an interpreter that sees the wheel's headwise and not this checkout's."""
    unpacked = wheel.parent / "unpacked"
    with zipfile.ZipFile(wheel) as files:
        files.extractall(unpacked)
    # -S: the checkout is on the path by a line in site-packages, which is then not read.
    path = os.pathsep.join([str(unpacked), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    code = f"import headwise\nassert headwise.__file__.startswith({str(unpacked)!r}), headwise.__file__\n{code}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": path, "HEADWISE_ISA": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def contents(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as files:
        return files.namelist()


NO_COMPILER = {"CXX": str(REPO / "no" / "compiler"), "HEADWISE_REQUIRE_NATIVE": ""}
ATTEND = "import torch; x = torch.ones(1, 2, 8, 4); print(tuple(headwise.attention(x, x, x).shape))\n"
KERNELS = "from headwise.cli._machine import facts; import json; print(json.dumps(facts()['native kernels']))\n"


def test_without_a_compiler_the_package_is_whole_and_says_what_is_absent(tmp_path: Path) -> None:
    done = build(tmp_path, "wheel", NO_COMPILER)
    assert done.returncode == 0, done.stderr
    assert "WITHOUT its native kernels" in done.stdout
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    ours = {str(path.relative_to(REPO / "src")) for path in (REPO / "src").rglob("*.py")} | {"headwise/py.typed"}
    assert ours - set(contents(wheel)) == set()
    assert [name for name in contents(wheel) if name.endswith((".so", ".dylib", ".pyd"))] == []
    shape, kernels = run(ATTEND + KERNELS, wheel).splitlines()
    assert shape == "(1, 2, 8, 4)"
    assert json.loads(kernels)["in use"] == "none"
    assert "pip install --force-reinstall" in json.loads(kernels)["why"]


def test_whoever_asks_for_the_kernels_sees_why_there_are_none(tmp_path: Path) -> None:
    done = build(tmp_path, "wheel", {**NO_COMPILER, "HEADWISE_REQUIRE_NATIVE": "1"})
    assert done.returncode != 0
    assert list(tmp_path.glob("*.whl")) == []
    assert "compiler" in done.stderr + done.stdout


@pytest.mark.skipif(
    not (REPO / "build" / "native" / "build.ninja").is_file(), reason="no compiler here: make native built nothing"
)
def test_with_a_compiler_the_wheel_holds_the_kernels(tmp_path: Path) -> None:
    # What lands where is looked at here, not how fast it is: one instruction set, and no time spent on optimising.
    quick = {
        "cmake.define.HEADWISE_ISAS": "portable",
        "cmake.define.HEADWISE_OPTIMIZE": "-O0",
        "cmake.build-type": "Debug",
    }
    done = build(tmp_path, "wheel", {"HEADWISE_REQUIRE_NATIVE": "1"}, quick)
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    python, abi, platform = wheel.stem.split("-")[2:]
    here = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert (python, abi) == (("cp312", "abi3") if sys.version_info >= (3, 12) else (here, here))
    assert platform != "any"
    (module,) = [name for name in contents(wheel) if name.endswith(".so")]
    assert module.startswith("headwise/_native.")
    shape, kernels = run(ATTEND + KERNELS, wheel).splitlines()
    assert shape == "(1, 2, 8, 4)"
    assert json.loads(kernels)["in use"] == "portable"
    assert json.loads(kernels)["built"] == ["portable"]


def test_the_sources_are_in_the_sdist(tmp_path: Path) -> None:
    done = build(tmp_path, "sdist")
    assert done.returncode == 0, done.stderr
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as files:
        names = {name.partition("/")[2] for name in files.getnames()}
    wanted = {str(path.relative_to(REPO)) for path in (REPO / "native").rglob("*") if path.is_file()}
    wanted |= {"CMakeLists.txt", "pyproject.toml", "LICENSE", "README.md", "src/headwise/__init__.py"}
    assert wanted - names == set()
    assert [name for name in names if name.endswith(".so") or name.startswith(("build/", ".venv/"))] == []
