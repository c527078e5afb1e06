"""Whatever a program has told torch, the numbers are the same: every case once under each setting, bit for bit.

What is compared with is the same call under torch's own defaults, which the other tests here hold to the definition.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import pytest
import torch
from native_here import NATIVE

import headwise as hw
from headwise.errors import UnsupportedError
from headwise.testing import CASES, Call, questions

Setting = Callable[[], AbstractContextManager[Any]]
NAMES = list(CASES)


@contextlib.contextmanager
def dtype(which: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(which)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def device(which: str) -> Iterator[None]:
    torch.set_default_device(which)
    try:
        yield
    finally:
        torch.set_default_device(None)


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def denormals_flushed() -> Iterator[None]:
    there = torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)
    assert there, "this processor cannot flush them, so nothing was tried"


@contextlib.contextmanager
def other_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        yield
    finally:
        torch.set_num_threads(before)


DEFAULTS: dict[str, Setting] = {
    "default dtype bfloat16": lambda: dtype(torch.bfloat16),
    "default dtype float64": lambda: dtype(torch.float64),
    "default device meta": lambda: device("meta"),
}
OTHERS: dict[str, Setting] = {
    "default dtype float16": lambda: dtype(torch.float16),
    "inside torch.device": lambda: torch.device("meta"),
    "deterministic algorithms": deterministic,
    "denormals flushed": denormals_flushed,
    "other threads": other_threads,
    "no gradient": torch.no_grad,
    "inference mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "random numbers forked": torch.random.fork_rng,
}
BACKENDS = [NATIVE, "blocked", "reference", "sdpa"]


def tensors(found: Any) -> Iterator[torch.Tensor]:
    """The tensors of an answer, in order."""
    if isinstance(found, torch.Tensor):
        yield found
    elif isinstance(found, dict):
        for one in found.values():
            yield from tensors(one)
    elif isinstance(found, tuple):
        for one in found:
            yield from tensors(one)
    elif dataclasses.is_dataclass(found):
        yield from tensors(tuple(vars(found).values()))


def numbers(call: Call, backend: str, derivatives: bool) -> dict[str, Any]:
    """All that can be asked of a call: output, lse, answers on the way and of a pattern of its own, gradients."""
    asked = questions(call)
    got = call.run(backend, asked)
    found: dict[str, Any] = {"out": got.out, "lse": got.lse, "seen": got.seen}
    if backend in ("native", "blocked"):  # a pattern chooses for itself, so once
        options = {key: value for key, value in call.options.items() if key not in ("dropout", "gate")}
        pattern = hw.Pattern(call.q, call.k, call.v, **options)
        found["pattern"] = pattern.ask(*asked)
        found["facts"] = tuple(pattern.facts())
        found["cells"] = (
            pattern[:, :, : pattern.shape[2] // 2],
            pattern.map(2, 3),
            pattern.offsets(4),
            pattern.top_keys(2),
        )
    if derivatives and torch.is_grad_enabled():
        call, leaves = call.fresh()
        out = call.run(backend).out
        # Outside of autocast, as torch says: inside, its own backward, which is the reference's, rounds to half.
        with torch.autocast("cpu", enabled=False):
            found["gradients"] = torch.autograd.grad(out.sum(), list(leaves.values()), allow_unused=True)
    return found


def run(name: str, backend: str) -> dict[str, Any] | None:
    """The numbers of a case whose operands and options are made here and now; None where the backend refuses it."""
    case = CASES[name]
    torch.manual_seed(0)
    try:
        return numbers(case.make(torch.float32), backend, case.gradients)
    except UnsupportedError:
        return None


@cache
def plain(name: str, backend: str) -> dict[str, Any] | None:
    return run(name, backend)


def same(name: str, backend: str, setting: Setting) -> None:
    expected = plain(name, backend)
    with setting():
        found = run(name, backend)
    assert (found is None) == (expected is None), name
    for what in found or {}:
        pairs = zip(tensors(found[what]), tensors(expected[what]), strict=True)
        for one, other in pairs:
            assert (one.dtype, one.device) == (other.dtype, other.device), f"{name}: {what}"
            assert torch.equal(one.nan_to_num(7, 8, 9), other.nan_to_num(7, 8, 9)), f"{name}: {what}"


@pytest.mark.xdist_group("state of torch")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("setting", DEFAULTS)
def test_no_default_of_a_program_changes_a_number(setting: str, backend: str) -> None:
    for name in NAMES if backend == "native" else NAMES[:: 3 if backend == "blocked" else 5]:
        same(name, backend, DEFAULTS[setting])


@pytest.mark.xdist_group("state of torch")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("setting", OTHERS)
def test_no_mode_changes_a_number(setting: str, backend: str) -> None:
    for name in NAMES[::11]:
        same(name, backend, OTHERS[setting])


def test_the_comparison_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    plain("causal", "blocked")
    whole = CASES["causal"].make
    monkeypatch.setattr(type(CASES["causal"]), "make", lambda self, dtype: whole(dtype).to(torch.float64))
    with pytest.raises(AssertionError, match="causal: out"):
        same("causal", "blocked", torch.no_grad)
