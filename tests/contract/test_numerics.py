"""What users of attention libraries suffer from in numbers (USER_CASES A2), each as a promise that is kept here."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from native_here import NATIVE, by_native, with_dtypes
from torch import Tensor

import headwise as hw
from headwise.testing import CASES, Call, Draw, allowed, define, fused, spacing, three_op, within

F64, F32 = torch.float64, torch.float32
BACKENDS = ["reference", "blocked", "sdpa"]
DTYPES = [F64, F32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize(("backend", "dtype"), with_dtypes(BACKENDS, DTYPES))
@pytest.mark.parametrize("order", [(0, 2, 1, 3), (2, 0, 1, 3), (1, 0, 2, 3), (2, 1, 0, 3)])
def test_strides_do_not_matter(backend: str, dtype: torch.dtype, order: tuple[int, ...]) -> None:
    """A2.32: operands laid out in any order of batch, head and length, and their gradients, equal contiguous ones."""
    draw = Draw(dtype, 1)
    plain = draw.call(fused=True, T=13, mask=hw.Causal())
    back = [order.index(axis) for axis in range(4)]
    moved = [x.permute(order).contiguous().permute(back) for x in (plain.q, plain.k, plain.v)]
    assert not moved[0].is_contiguous()
    results = []
    for q, k, v in ((plain.q, plain.k, plain.v), moved):
        call, leaves = Call(q, k, v, plain.options).fresh()
        out = call.run(backend).out
        results.append([out, *torch.autograd.grad(out.square().sum(), list(leaves.values()))])
    for a, b in zip(*results, strict=True):
        # A product over other strides may add in another order, which is one rounding and not garbage.
        within(a, b, 8 * spacing(float(b.detach().abs().max()), dtype), f"{backend} {dtype}")


@pytest.mark.parametrize("backend", ["blocked", NATIVE])
def test_a_pattern_of_more_than_two_to_the_32_cells(backend: str) -> None:
    """A2.34: nothing of that size is formed, and rows far beyond the 32-bit border are right."""
    n = 70_000
    assert n * n > 2**32
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 1, n, 4, generator=generator) for _ in range(3))
    got = hw.attend(q, k, v, mask=hw.Causal() & hw.Window(7, 0), backend=backend, observe=[hw.Received()])
    for i in (0, 9, 65_535, 65_536, n - 1):
        near = slice(max(0, i - 7), i + 1)
        p = torch.softmax(k[0, 0, near].double() @ q[0, 0, i].double() / 2, 0)
        within(got.out[0, 0, i], p @ v[0, 0, near].double(), 1e-6, f"row {i}")
        within(got.pattern[0, 0, i, near], p, 1e-6, f"row {i}")
    assert abs(float(got.seen["received"].double().sum()) - n) < 1e-2


@pytest.mark.parametrize(("backend", "dtype"), with_dtypes(BACKENDS, DTYPES[1:]))
@pytest.mark.parametrize("seed", range(3))
def test_the_error_is_bounded_by_what_torch_needs(backend: str, dtype: torch.dtype, seed: int) -> None:
    """A2.35: normal numbers, float64 as the truth, each dtype's error within the stated budget."""
    call = Draw(dtype, seed).call(fused=True, B=1, T=37, S=41, D=16)
    exact = define(call)
    forms = [three_op(call)[0], *([form] if (form := fused(call)) is not None else [])]
    within(call.run(backend).out, exact.out, allowed(exact.out, forms, dtype), f"{backend} {dtype}")


def _formula(*shape: int, phase: float) -> Tensor:
    """Numbers that need no generator: a generator may change, a sine does not."""
    n = math.prod(shape)
    return torch.sin(torch.arange(n, dtype=F64) * 0.7 + phase).reshape(shape)


# Worked out once in float64 by the definition; what they are does not matter, that they stay does.
GOLDEN = {
    "out": [
        0.909297426825682,
        -0.901949669748416,
        0.837972851838161,
        -0.827826469085653,
        0.361867610106814,
        -0.205673362249917,
    ],
    "lse": [
        2.010563755319779,
        1.963583616280065,
        1.911490679547327,
        1.427007379054983,
        1.433809745453034,
        1.554858531366463,
    ],
    "entropy": [0.0, 0.196876846550962, 0.630041045531709, 0.0, 0.443182218590419, 0.752433474639651],
}


@pytest.mark.parametrize(("backend", "dtype"), with_dtypes(BACKENDS, DTYPES))
def test_numbers_stay_what_they_are(backend: str, dtype: torch.dtype) -> None:
    """A2.36: stored numbers of one small call, so that a change between versions of torch or of this is seen."""
    off = {F64: 1e-12, F32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}[dtype]
    q, k, v = (_formula(1, 2, 3, 4, phase=phase).to(dtype) for phase in (0.0, 1.0, 2.0))
    got = hw.attend(q, k, v, mask=hw.Causal(), scale=1.5, backend=backend, observe=[hw.Entropy()])
    for name, found in (("out", got.out[0, :, :, 0]), ("lse", got.lse[0]), ("entropy", got.seen["entropy"][0])):
        within(found.flatten(), torch.tensor(GOLDEN[name], dtype=F64), off * (1 if name == "out" else 4), name)


@pytest.mark.parametrize("backend", [*BACKENDS, NATIVE])
@pytest.mark.parametrize("name", ["causal, square", "grouped heads"])
def test_thirty_backward_passes_are_bit_equal(backend: str, name: str) -> None:
    """A2.37: deterministic by default, with no switch."""
    call = CASES[name].make(F32)
    first = None
    for _ in range(30):
        made, leaves = call.fresh()
        grads = torch.autograd.grad(made.run(backend).out.square().sum(), list(leaves.values()))
        first = first or grads
        assert all(torch.equal(a, b) for a, b in zip(first, grads, strict=True))


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        ("blocked", "every rule in a row"),
        pytest.param("native", "dropout with all else", marks=by_native),
        pytest.param("native", "a start for each sequence, everything that counts", marks=by_native),
        pytest.param("native", "bias that hides, before a soft cap", marks=by_native),
    ],
)
def test_thirty_backward_passes_with_everything_are_bit_equal(backend: str, name: str) -> None:
    """A2.37: biases, tables, slopes and sinks collect from many cells, and do so in one order."""
    call = CASES[name].make(F32)
    first = None
    for _ in range(30):
        made, leaves = call.fresh()
        grads = torch.autograd.grad(made.run(backend).out.square().sum(), list(leaves.values()))
        first = first or grads
        assert all(torch.equal(a, b) for a, b in zip(first, grads, strict=True))


@pytest.mark.parametrize("length", [1, 127, 129, 257])
@pytest.mark.parametrize("size", [16, 31, 128])
def test_random_block_masks_at_odd_lengths(length: int, size: int) -> None:
    """A2.39: forward and backward against dense float64, for every batch row."""
    torch.manual_seed(length * 1000 + size)
    n = -(-length // size)
    keep = torch.rand(2, 2, n, n) < 0.5
    q, k, v = (torch.randn(2, 2, length, 4, dtype=F64, requires_grad=True) for _ in range(3))
    weight = torch.randn(2, 2, length, 4, dtype=F64)
    out = hw.attention(q, k, v, mask=hw.Blocks(keep, size), backend="blocked")
    grads = torch.autograd.grad((out * weight).sum(), (q, k, v))
    cells = keep.repeat_interleave(size, -1).repeat_interleave(size, -2)[..., :length, :length]
    alive = cells.any(-1, keepdim=True)
    scores = (q @ k.mT / 2).masked_fill(~cells & alive, -math.inf)
    want = torch.where(alive, scores.softmax(-1), 0.0) @ v
    within(out, want, 1e-12, "out")
    for a, b in zip(grads, torch.autograd.grad((want * weight).sum(), (q, k, v)), strict=True):
        within(a, b, 1e-11, "gradient")


@pytest.mark.parametrize(("backend", "dtype"), with_dtypes(BACKENDS, DTYPES))
def test_log_sum_exp_is_natural_and_float32(backend: str, dtype: torch.dtype) -> None:
    """A2.41: zero scores on n keys give log n, and two parts merge to the whole."""
    q, k, v = (torch.zeros(1, 1, n, 4, dtype=dtype) for n in (2, 10, 10))
    got = hw.attend(q, k, v, backend=backend).lse
    assert got.dtype == (F64 if dtype == F64 else F32)
    # torch's kernel adds up exponentials of half precision for half-precision operands; its error is below theirs.
    off = {8: 1e-12, 4: 2e-6, 2: 2e-4 if backend == "sdpa" else 2e-6}[dtype.itemsize]
    within(got, torch.full((1, 1, 2), math.log(10), dtype=F64), off, "lse")
    call = CASES["plain"].make(dtype)
    parts = [
        hw.attend(call.q, call.k[:, :, cut], call.v[:, :, cut], backend=backend).lse
        for cut in (slice(0, 6), slice(6, 13))
    ]
    whole = hw.attend(call.q, call.k, call.v, backend=backend).lse
    within(torch.logaddexp(*parts), whole, off, "merge")


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("backend", ["reference", "blocked", None])
def test_a_padded_sequence_says_what_it_says_alone(backend: Any, side: str) -> None:
    """A2.45: within 1e-5 in float32, and exact zeros where there is padding."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 9, 8) for _ in range(3))
    real = torch.arange(9) >= 4 if side == "left" else torch.arange(9) < 5
    keep = torch.stack([real, torch.ones(9, dtype=torch.bool)])
    mask = hw.Causal() & hw.Padding(keep, queries=keep)
    got = hw.attend(q, k, v, mask=mask, backend=backend, observe=[hw.Received()])
    alone = hw.attend(
        *(x[:1, :, real] for x in (q, k, v)), mask=hw.Causal(), backend="reference", observe=[hw.Received()]
    )
    within(got.out[:1, :, real], alone.out, 1e-6, "out")
    within(got.seen["received"][:1, :, real], alone.seen["received"], 1e-5, "received")
    assert bool((got.out[0, :, ~real] == 0).all())
    assert bool((got.seen["received"][0, :, ~real] == 0).all())
