"""Nothing of T x S is ever formed outside the reference: the largest tensor of a call grows with T alone."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import torch
from native_here import NATIVE, by_native
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

import headwise as hw

T = 8192


class Largest(TorchDispatchMode):
    """Records the largest storage that any operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_flatten(out)[0]:
            if isinstance(leaf, Tensor):
                self.bytes = max(self.bytes, leaf.untyped_storage().nbytes())
        return out


def operands(n: int = T, requires_grad: bool = False) -> tuple[Tensor, ...]:
    return tuple(torch.randn(1, h, n, 4).requires_grad_(requires_grad) for h in (2, 1, 1))


def limit(n: int = T) -> int:
    """A sixteenth of what one head's pattern takes in float32, and enough for the scratch of a tile."""
    return n * n * 4 // 16


def questions(n: int) -> list[Any]:
    labels = torch.arange(n) % 7
    return [
        hw.LogSumExp(),
        hw.MaxLogit(),
        hw.Entropy(),
        hw.Received(),
        hw.Offsets(64, 2),
        hw.TopKeys(4),
        hw.MassOn(torch.zeros(n, 1, dtype=torch.int64)),
        hw.MassWhere(labels, labels),
        hw.Segments(labels, labels),
        hw.Map(32, 32),
        hw.Crop(slice(100, 120), slice(0, 50)),
        hw.Contribution(torch.randn(8, 8)),
    ]


def test_the_record_can_fail() -> None:
    """The reference forms the pattern, and the record sees it."""
    n = 1024
    with Largest() as largest:
        hw.attention(*operands(n), backend="reference")
    assert largest.bytes >= n * n * 4


MASKS = {
    "none": dict,
    "causal": lambda: {"mask": hw.Causal()},
    "windows and globals": lambda: {"mask": hw.Causal() & (hw.Window(100, 0) | hw.Prefix(5))},
    "documents": lambda: {"mask": hw.Causal() & hw.Documents(torch.arange(T) // 1000)},
    "returning documents": lambda: {"mask": hw.Documents(torch.arange(T) % 3)},
    "padding with holes": lambda: {"mask": hw.Padding(torch.rand(1, T) < 0.5)},
    "chunks": lambda: {"mask": hw.Chunks(700)},
    "blocks": lambda: {"mask": hw.Blocks(torch.rand(2, 64, 64) < 0.3, 128)},
    "rule": lambda: {"mask": hw.Rule(lambda b, h, i, j: (i - j) % 3 == 0)},
    "alibi, table, cap, sinks": lambda: {
        "mask": hw.Causal() & hw.Window(999, 0),
        "scores": (
            hw.SoftCap(5.0),
            hw.Alibi(torch.ones(2)),
            hw.RelativeBias(torch.zeros(2, 9), 8),
            hw.Bias(torch.zeros(T)),
        ),
        "sinks": torch.zeros(2),
    },
}


@pytest.mark.parametrize("backend", ["blocked", NATIVE])
@pytest.mark.parametrize("name", MASKS)
def test_forward(name: str, backend: str) -> None:
    q, k, v = operands()
    options: Any = MASKS[name]()
    if (name, backend) == ("rule", "native"):
        with pytest.raises(hw.UnsupportedError, match="only Python knows"):
            hw.attention(q, k, v, **options, backend=backend)
        return
    with Largest() as largest:
        hw.attention(q, k, v, **options, backend=backend)
    assert largest.bytes <= limit()


@pytest.mark.parametrize("backend", ["blocked", NATIVE])
@pytest.mark.parametrize("name", ["causal", "windows and globals", "alibi, table, cap, sinks"])
def test_backward(name: str, backend: str) -> None:
    q, k, v = operands(requires_grad=True)
    options: Any = MASKS[name]()
    with Largest() as largest:
        hw.attention(q, k, v, **options, backend=backend).square().sum().backward()
    assert largest.bytes <= limit()
    assert bool(torch.isfinite(k.grad).all())  # type: ignore[arg-type]


MEASURE = """
import resource, sys, torch, headwise as hw
n, what = int(sys.argv[1]), sys.argv[2]
q, k, v = (torch.randn(1, h, n, 4) for h in (2, 1, 1))
x = q.requires_grad_() if what == "backward" else q
small = [y[:, :, :64] for y in (x, k, v)]
def run(x, k, v):
    got = hw.attend(x, k, v, mask=hw.Causal(), backend="native", observe=[hw.Received()] if what == "ask" else [])
    if what == "backward":
        got.out.sum().backward()
run(*small)  # what loading and the first call take
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
run(x, k, v)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


@by_native
@pytest.mark.skipif(sys.platform != "linux", reason="macOS counts the peak of resident memory in other units")
@pytest.mark.parametrize("what", ["forward", "backward", "ask"])
def test_what_the_kernels_allocate_themselves(what: str) -> None:
    """Their scratch is no tensor, so the process is measured: a pattern of a head would be 256 MiB."""
    done = subprocess.run([sys.executable, "-c", MEASURE, str(T), what], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= limit()


@pytest.mark.parametrize("backend", ["blocked", NATIVE, "sdpa"])
def test_questions(backend: str) -> None:
    """All of them at once, beside either backend."""
    q, k, v = operands()
    with Largest() as largest:
        got = hw.attend(q, k, v, mask=hw.Causal(), backend=backend, observe=questions(T))
    assert largest.bytes <= limit()
    assert abs(float(got.seen["received"].sum()) - 2 * T) < 1


@pytest.mark.parametrize("backend", ["blocked", NATIVE])
def test_dropout_makes_its_cells_tile_by_tile(backend: str) -> None:
    q, k, v = operands()
    with Largest() as largest:
        hw.attention(q, k, v, mask=hw.Causal() & hw.Window(500, 0), dropout=0.1, backend=backend)
    assert largest.bytes <= limit()


def test_a_pattern_and_explain() -> None:
    q, k, _ = operands()
    with Largest() as largest:
        p = hw.Pattern(q, k, mask=hw.Causal())
        assert p[0, 1, 8000:8010, ::100].shape == (10, 82)
        p.map(16, 16, rows=slice(4000, 6000))
        str(hw.explain(q, k, k, mask=hw.Causal() & hw.Padding(torch.ones(1, T, dtype=torch.bool))))
    assert largest.bytes <= limit()


def test_masks_of_a_million_tokens_cost_next_to_nothing() -> None:
    """Lowering a structured mask and asking for one row's bounds: kilobytes, not a mask."""
    n = 1_000_000
    q = torch.zeros(1, 1, n, 1)
    masks: list[hw.spec.Mask] = [
        hw.Causal() & hw.Window(4095, 0),
        hw.Causal() | hw.Prefix(7),
        hw.Chunks(8192),
        hw.Padding(torch.tensor([999])),
    ]
    for mask in masks:
        with Largest() as largest:
            p = hw.Pattern(q, q, mask=mask)
            p[0, 0, 998:1000, 900:1000]
        assert largest.bytes <= 8 * n
