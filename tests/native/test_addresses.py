"""What is no memory of the kernels' is refused in a sentence, before its address is handed over."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

pytest.importorskip("headwise._native", reason="built without native kernels; make native")

import headwise as hw
from headwise.backends.native import addresses, answers
from headwise.errors import ShapeError

NATIVE = Path(addresses.__file__).parent
SIZE = (1, 2, 3, 4)


def test_a_tensor_is_told_as_it_lies() -> None:
    x = torch.randn(1, 3, 2, 4).transpose(1, 2)
    assert addresses.operand(x, "x", SIZE) == (x.data_ptr(), 24, 4, 8, 0)
    assert addresses.contiguous(x.mT.contiguous(), "x", (1, 2, 4, 3)) != 0
    assert addresses.by_batch(torch.zeros(2, 3, dtype=torch.int64), "x", 2, (3,))[1] == 3
    assert addresses.by_batch(torch.zeros(1, 3, dtype=torch.int64), "x", 2, (3,))[1] == 0
    assert addresses.plane(torch.zeros(3, 1), "x", SIZE, (torch.float32,))[1] == (0, 0, 1, 0)
    assert addresses.contiguous(torch.empty(0), "x", (0,)) in (0, torch.empty(0).data_ptr())


WRONG: dict[str, Callable[[], Any]] = {
    "dtype": lambda: addresses.contiguous(torch.zeros(3, dtype=torch.float64), "x", (3,)),
    "device": lambda: addresses.contiguous(torch.zeros(3, device="meta"), "x", (3,)),
    "size": lambda: addresses.contiguous(torch.zeros(2), "x", (3,)),
    "layout": lambda: addresses.contiguous(torch.zeros(3, 2).T, "x", (2, 3)),
    "dtype of an operand": lambda: addresses.operand(torch.zeros(SIZE, dtype=torch.float64), "x", SIZE),
    "another dtype": lambda: addresses.operand(torch.zeros(SIZE), "x", SIZE, torch.bfloat16),
    "device of an operand": lambda: addresses.operand(torch.zeros(SIZE, device="meta"), "x", SIZE),
    "size of an operand": lambda: addresses.operand(torch.zeros(1, 2, 4, 4), "x", SIZE),
    "axes of an operand": lambda: addresses.operand(torch.zeros(2, 3, 4), "x", SIZE),
    "layout of an operand": lambda: addresses.operand(torch.zeros(1, 2, 4, 3).mT, "x", SIZE),
    "sign": lambda: addresses.operand(torch._neg_view(torch.zeros(SIZE)), "x", SIZE),
    "memory that is freed": lambda: addresses.operand(resized(0), "x", SIZE),
    "memory that is too small": lambda: addresses.operand(resized(4 * 23), "x", SIZE),
    "dtype of a plane": lambda: addresses.plane(torch.zeros(3, 4), "x", SIZE, (torch.bool,)),
    "size of a plane": lambda: addresses.plane(torch.zeros(3, 5), "x", SIZE, (torch.float32,)),
    "axes of a plane": lambda: addresses.plane(torch.zeros(1, 1, 1, 3, 4), "x", SIZE, (torch.float32,)),
    "size of a batch": lambda: addresses.by_batch(torch.zeros(3, 3, dtype=torch.int64), "x", 2, (3,)),
}


def resized(size: int) -> Tensor:
    x = torch.zeros(SIZE)
    x.untyped_storage().resize_(size)
    return x


@pytest.mark.parametrize("what", WRONG)
def test_another_tensor_is_refused(what: str) -> None:
    with pytest.raises(ShapeError, match=r"^native: .*x .*; the kernels read"):
        WRONG[what]()


@pytest.mark.parametrize("freed", ["q", "k", "v"])
@pytest.mark.parametrize("planned", [False, True])
def test_an_operand_whose_memory_was_freed_is_refused(freed: str, planned: bool) -> None:
    """As libraries that shard parameters free it."""
    operands = {name: torch.randn(1, 2, 3, 4) for name in "qkv"}
    operands[freed].untyped_storage().resize_(0)
    options: dict[str, Any] = {"mask": hw.Padding(torch.tensor([2]))} if planned else {}
    with pytest.raises(ShapeError, match=f"native: {freed} lies on cpu, with 0 bytes of memory"):
        hw.attention(**operands, **options, backend="native")


def test_a_fault_of_ours_is_an_error_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "blank", lambda b, h, n, _: answers.Found(*torch.empty(5, b, h, n).bfloat16()))
    x = torch.randn(1, 2, 3, 4)
    with pytest.raises(ShapeError, match=r"a fact of the rows is torch.bfloat16 \[1, 2, 3\].*a fault of headwise"):
        hw.Pattern(x, x).entropy()


def test_no_address_is_taken_elsewhere() -> None:
    """The quick way of plain calls, which has looked at its operands already, is the exception."""
    found = {
        (path.name, getattr(scope, "name", ""))
        for path in NATIVE.glob("*.py")
        for scope in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(scope, ast.FunctionDef)
        for node in ast.walk(scope)
        if isinstance(node, ast.Attribute) and node.attr == "data_ptr"
    }
    checked = {("addresses.py", name) for name in ("_address", "contiguous", "operand")}
    assert found == {*checked, ("__init__.py", "quick")}
