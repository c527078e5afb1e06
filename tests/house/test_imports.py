"""Imports point one way, and optional packages load on use.

The layers, lowest first. A module may import from its own layer and from those below it; a lazy import inside a
function counts like any other, since it is the same arrow drawn later.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2] / "src" / "headwise"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("elsewhere", "errors", "placing", "tensor_bytes", "tracing"),
    ("block", "spec"),
    ("products",),
    ("observers",),
    ("plan",),
    ("backends",),
    ("gradients",),
    ("border",),
    ("answering", "indexing", "ops", "pattern", "exporting"),
    ("nn",),
    ("models",),
    ("heads",),
    ("viewer",),
    ("testing",),
    ("cli", "__main__"),
)
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}
# The front door re-exports everything, so whatever imports it imports everything: only its users may.
MAY_IMPORT_THE_FRONT_DOOR = {"cli", "viewer", "heads", "testing", "__main__"}


def modules(root: Path) -> dict[str, Path]:
    """Dotted name below the package (the package itself is "") -> file."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, path: Path, known: set[str]) -> set[str]:
    """Dotted names, below the package, of everything that a module imports from the package."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
            found |= {t.partition(".")[2] for t in targets if t.partition(".")[0] == "headwise"}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = package.split(".") if package else []
                base = base[: len(base) - node.level + 1]
                source = ".".join([*base, node.module or ""]).strip(".")
            elif (node.module or "").partition(".")[0] == "headwise":
                source = (node.module or "").partition(".")[2]
            else:
                continue
            for alias in node.names:
                whole = f"{source}.{alias.name}".strip(".")
                found.add(whole if whole in known else source)
    return found


def faults(root: Path) -> list[str]:
    """Every import that points upwards, from a place that is not a layer, or from one backend to another."""
    known = modules(root)
    found = []
    for name, path in known.items():
        layer = name.partition(".")[0]
        if not name:
            continue
        if layer not in RANK:
            found.append(f"{name}: {layer} is not a layer; add it to LAYERS where it belongs")
            continue
        for target in sorted(imported(name, path, set(known))):
            other = target.partition(".")[0]
            if not target:
                if layer not in MAY_IMPORT_THE_FRONT_DOOR:
                    found.append(f"{name} imports headwise itself; import what it needs from where it is")
            elif other in RANK and RANK[other] > RANK[layer]:
                found.append(f"{name} imports {target}, which is above it")
            elif layer == other == "backends" and _backend(name) and _backend(target) not in ("", _backend(name)):
                found.append(f"{name} imports {target}: backends do not know each other")
    return found


# Parts of backends/ that are no backend: what every backend may share.
SHARED_BY_BACKENDS = {"compiled", "observing", "protocol", "tiling", "worker"}


def _backend(name: str) -> str:
    """Which backend a module belongs to; "" for the table and for what is shared."""
    part = name.split(".")[1] if name.count(".") else ""
    return "" if part in SHARED_BY_BACKENDS else part


def test_imports_point_one_way() -> None:
    assert faults(ROOT) == []


@pytest.mark.parametrize(
    ("files", "fault"),
    [
        ({"spec/masks.py": "from headwise.ops import attention"}, "spec.masks imports ops, which is above it"),
        ({"spec/masks.py": "def f():\n    import headwise.plan"}, "spec.masks imports plan, which is above it"),
        ({"nn/a.py": "from ..models import load"}, "nn.a imports models, which is above it"),
        ({"nn/a.py": "from headwise import models"}, "nn.a imports models, which is above it"),
        ({"nn/a.py": "import headwise as hw"}, "nn.a imports headwise itself"),
        ({"backends/a.py": "from headwise.backends.b import x", "backends/b.py": ""}, "backends do not know"),
        ({"backends/a.py": "from .b import x", "backends/b.py": ""}, "backends do not know each other"),
        ({"misc.py": ""}, "misc is not a layer"),
    ],
)
def test_the_check_can_fail(tmp_path: Path, files: dict[str, str], fault: str) -> None:
    everything = {"__init__.py": "", "ops.py": "", "plan.py": "", "models/__init__.py": "", "nn/__init__.py": ""}
    for name, text in {**everything, **files}.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert any(fault in found for found in faults(tmp_path)), faults(tmp_path)


def test_the_check_lets_good_imports_pass(tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text("from headwise.cli import main")
    (tmp_path / "errors.py").write_text("import torch")
    (tmp_path / "ops.py").write_text("from headwise.errors import HeadwiseError\nfrom .pattern import Pattern")
    (tmp_path / "pattern.py").write_text("def f():\n    from headwise.ops import attend")
    assert faults(tmp_path) == []


def run_fresh(code: str) -> str:
    """Runs code in a new interpreter and gives what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


BLOCK = """
    import sys

    class Block:
        def __init__(self, *names):
            self.names = names
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in self.names:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    def block(*names):
        sys.meta_path.insert(0, Block(*names))
"""


def test_import_headwise_costs_torch_and_nothing_else() -> None:
    heavy = {"transformers", "tokenizers", "safetensors", "gguf", "accelerate", "peft", "typer", "click", "rich"}
    heavy |= {"anywidget", "starlette", "uvicorn", "triton", "pandas", "matplotlib", "PIL", "jaxtyping", "beartype"}
    heavy |= {"torch._inductor", "torch._dynamo"}
    torch_alone = set(run_fresh("import sys, torch; print(*sys.modules)").split())
    ours = set(run_fresh("import sys, torch, headwise; print(*sys.modules)").split())
    assert "headwise.ops" in ours
    assert sorted((ours - torch_alone) & heavy) == []
    third_party = {name.partition(".")[0] for name in ours - torch_alone} - set(sys.stdlib_module_names)
    assert {name for name in third_party if not name.startswith("_")} <= {"headwise", "torch", "typing_extensions"}


def test_without_transformers_the_rest_works_and_load_says_what_to_install() -> None:
    said = run_fresh(
        BLOCK
        + """
    block("transformers", "gguf", "tokenizers", "safetensors", "accelerate")
    import torch, headwise as hw
    x = torch.zeros(1, 1, 2, 4)
    hw.attend(x, x, x, observe=[hw.Entropy()])
    try:
        hw.load("smollm2")
    except hw.errors.UnavailableError as error:
        assert isinstance(error, ImportError)
        print(error)
    """
    )
    assert "transformers" in said
    assert "pip install" in said
    assert "\n" not in said


@pytest.mark.parametrize("absent", ["typer", "rich"])
def test_without_its_packages_the_command_line_says_what_to_install(absent: str) -> None:
    code = textwrap.dedent(BLOCK) + f"block({absent!r})\nfrom headwise.cli import main\nmain(['look'])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == (
        f"headwise: the command line needs {absent}, which is not installed; without it there are only headwise "
        "info and headwise --version. In a checkout of headwise run: pip install '.[cli]'\n"
    )


@pytest.mark.parametrize(
    ("words", "told"), [(["info"], "reference"), (["info", "--json"], '"backends"'), (["--version"], "headwise 0")]
)
def test_without_its_packages_the_command_line_still_says_what_is_there(words: list[str], told: str) -> None:
    code = f"block('typer', 'rich')\nfrom headwise.cli import main\ntry:\n    main({words!r})\n"
    said = run_fresh(textwrap.dedent(BLOCK) + code + "except SystemExit as done:\n    assert not done.code")
    assert told in said


@pytest.mark.parametrize("name", ["flex", "triton"])
def test_reserved_backends_are_unavailable(name: str) -> None:
    import torch

    import headwise as hw
    from headwise.errors import UnavailableError

    x = torch.zeros(1, 1, 2, 4)
    with pytest.raises(UnavailableError, match=name):
        hw.attention(x, x, x, backend=name)
