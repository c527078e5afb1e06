"""A tensor that headwise makes has the dtype and device that its line says, whatever defaults a program has set."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch.utils._device import _device_constructors

ROOT = Path(__file__).resolve().parents[2] / "src" / "headwise"

# What torch itself gives its default device to, and what else makes a tensor or a generator out of nothing.
MAKERS = {made.__name__ for made in _device_constructors()} | {"Generator", "Tensor", "frombuffer", "from_numpy"}
NO_DTYPE = {"Generator"}  # has none
NO_DEVICE = {"frombuffer", "from_numpy"}  # the memory is there already, the host's
DEFAULTS = {"get_default_dtype", "get_default_device", "set_default_dtype", "set_default_device"}

# Where a line may leave the dtype to the values that it is given, and why.
AS_GIVEN = {
    ("heads/factored.py", "torch.as_tensor(index, device='cpu')"): "an index is a list of ints or of booleans",
    (
        "heads/knock_out.py",
        "torch.as_tensor(edges, device='cpu')",
    ): "floats are refused behind it, of any width",
    ("viewer/axes.py", "torch.as_tensor(image.copy(), device='cpu')"): "an array has a dtype",
    ("viewer/matrices.py", "torch.as_tensor(one.copy(), device='cpu')"): "an array has a dtype",
}


def unnamed(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Calls of torch that make a tensor and leave its dtype or device to a default, each with what is missing."""
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if not (isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"):
            continue
        name, keywords = node.func.attr, {keyword.arg for keyword in node.keywords}
        if name in DEFAULTS:
            yield ast.unparse(node), "nothing may depend on a default"
        # In **options of a module's constructor both are the user's; None there is torch's default, as torch's own.
        if name not in MAKERS or None in keywords:
            continue
        if "dtype" not in keywords and name not in NO_DTYPE:
            yield ast.unparse(node), "dtype"
        if "device" not in keywords and name not in NO_DEVICE:
            yield ast.unparse(node), "device"


def test_every_tensor_that_is_made_names_its_dtype_and_device() -> None:
    found = {
        (str(path.relative_to(ROOT)), call, missing)
        for path in sorted(ROOT.rglob("*.py"))
        for call, missing in unnamed(ast.parse(path.read_text(encoding="utf-8")))
    }
    allowed = {(path, call, "dtype") for path, call in AS_GIVEN}
    assert sorted(found - allowed) == []
    assert sorted(allowed - found) == [], "an exception that is none any more"


@pytest.mark.parametrize(
    ("call", "missing"),
    [
        ("torch.empty((2, 3))", ["dtype", "device"]),
        ("torch.zeros(3, dtype=torch.float32)", ["device"]),
        ("torch.tensor([1.0], device=x.device)", ["dtype"]),
        ("torch.arange(3, device='cpu')", ["dtype"]),
        ("torch.Generator()", ["device"]),
        ("torch.frombuffer(b)", ["dtype"]),
        ("torch.empty(3, **make)", []),
        ("torch.full((), 1.0, dtype=x.dtype, device=x.device)", []),
        ("x.new_empty(3)", []),
        ("torch.get_default_dtype()", ["nothing may depend on a default"]),
    ],
)
def test_the_rule_can_fail(call: str, missing: list[str]) -> None:
    assert [what for _, what in unnamed(ast.parse(call))] == missing


@pytest.mark.parametrize("name", ["empty", "full", "tensor", "as_tensor", "arange", "linspace", "randn", "eye"])
def test_the_makers_are_those_that_torch_has(name: str) -> None:
    assert name in MAKERS
