"""The kernels' forward at sizes, strides and neighbours that the conformance cases do not have.

Long enough to be cut: lanes of a vector (up to 16), rows of a tile, blocks of keys (128 or 256), stretches of split
keys (1,024). Whatever memory an output is given holds NaN before, so that a number that is not written is seen.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.testing import Call, Draw, allowed, far, fused, three_op, within

pytest.importorskip("headwise._native", reason="no native kernels here: there was no compiler; run: make native")

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
DTYPES = {"f32": F32, "bf16": BF16, "f16": F16}
by_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
NAN = float("nan")


@pytest.fixture(autouse=True)
def outputs_begin_as_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("new_empty", "new_empty_strided"):
        make = getattr(Tensor, name)
        monkeypatch.setattr(
            Tensor, name, lambda self, *size, make=make, **options: make(self, *size, **options).fill_(NAN)
        )


def outputs(call: Call, observe: Any = ()) -> list[Tensor]:
    """Everything that the forward writes."""
    got = call.run("native", observe)
    return [got.out, got.lse, *got.seen.values()]


def right(call: Call) -> None:
    """Output and log-sum-exp are those of the reference in float64, within what torch's own forms need."""
    exact = call.to(torch.float64).run("reference")
    got = call.run("native")
    forms = [form for form in (three_op(call)[0], fused(call)) if form is not None]
    within(got.out, exact.out, allowed(exact.out, forms, call.q.dtype), "out")
    within(got.lse, exact.lse, allowed(exact.lse, [three_op(call.to(F32))[1]], F32), "lse")


# --- sizes -------------------------------------------------------------------------------------------------------

LANES = 16  # the most of any instruction set


@by_dtype
@pytest.mark.parametrize("axis", ["T", "S", "D", "E"])
def test_every_size_up_to_two_vectors_and_one(axis: str, dtype: torch.dtype) -> None:
    usual = {"B": 2, "H": 4, "T": 5, "S": 21, "D": 7, "E": 9}
    for size in range(1 if axis == "D" else 0, 2 * LANES + 2):
        for Hk in (4, 2):
            call = Draw(dtype, size).call(**(usual | {axis: size}), Hk=Hk, mask=hw.Causal())
            if size and axis != "E":
                right(call)
                continue
            got, exact = call.run("native"), call.to(torch.float64).run("reference")
            within(got.out, exact.out, 3e-2 if dtype != F32 else 1e-5, "out")
            within(got.lse, exact.lse, 1e-5, "lse")


@by_dtype
@pytest.mark.parametrize("T", [1, 2, 15, 16, 17, 23, 24, 25, 63, 241])
@pytest.mark.parametrize("S", [127, 128, 129, 255, 256, 257, 513])
def test_around_tiles_and_blocks(T: int, S: int, dtype: torch.dtype) -> None:
    right(Draw(dtype, T).call(B=1, H=2, Hk=1, T=T, S=S, D=16, E=16, mask=hw.Causal() if T % 2 else None))


@by_dtype
@pytest.mark.parametrize("T", [1, 4, 8, 9, 64, 65])
@pytest.mark.parametrize("S", [1023, 2047, 2048, 2049, 3333])
def test_around_stretches_of_split_keys(T: int, S: int, dtype: torch.dtype) -> None:
    right(Draw(dtype, S).call(B=1, H=2, Hk=1, T=T, S=S, D=8, E=8, sinks=torch.zeros(2)))


@by_dtype
@pytest.mark.parametrize("width", [80, 96, 100, 128, 256, 575, 576])
def test_wide_heads(width: int, dtype: torch.dtype) -> None:
    right(Draw(dtype, width).call(B=1, H=2, Hk=1, T=9, S=33, D=width, E=width - 1))
    right(Draw(dtype, width).call(B=8, H=2, Hk=1, T=2, S=33, D=width - 1, E=width))  # enough rows to know torch by


# --- strides -----------------------------------------------------------------------------------------------------


def shifted(x: Tensor) -> Tensor:
    """The same numbers one element further, where no vector is aligned, with NaN all around."""
    room = torch.full((x.numel() + 2,), NAN, dtype=x.dtype)
    room[1:-1] = x.flatten()
    return room[1:-1].view(x.shape)


def apart(x: Tensor) -> Tensor:
    """The same numbers with NaN between the rows."""
    room = torch.full((*x.shape[:-1], x.shape[-1] + 3), NAN, dtype=x.dtype)
    room[..., 1:-2] = x
    return room[..., 1:-2]


LAYOUTS = {
    "misaligned": shifted,
    "rows apart": apart,
    "heads side by side": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "batch inside": lambda x: x.transpose(0, 2).contiguous().transpose(0, 2),
    "last axis not contiguous": lambda x: x.mT.contiguous().mT,
    "every second row": lambda x: torch.stack([x, x * NAN], 3).flatten(2, 3)[:, :, ::2],
}


@by_dtype
@pytest.mark.parametrize("T", [3, 37])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_do_not_change_a_bit(layout: str, T: int, dtype: torch.dtype) -> None:
    call = Draw(dtype, 1).call(H=4, Hk=2, T=T, S=141, D=19, E=21, mask=hw.Causal())
    moved = Call(*(LAYOUTS[layout](x) for x in (call.q, call.k, call.v)), call.options)
    assert torch.equal(moved.q, call.q)
    for a, b in zip(outputs(moved, [hw.Entropy()]), outputs(call, [hw.Entropy()]), strict=True):
        assert far(a, b) == 0


def test_numbers_that_torch_only_remembers_to_negate() -> None:
    x = torch.randn(1, 2, 5, 4, 2)
    lazy = torch.view_as_complex(x).conj().imag
    assert lazy.is_neg()
    bias = torch.view_as_complex(torch.randn(5, 5, 2)).conj().imag
    for options in ({}, {"scores": (hw.Bias(bias),)}):
        want = hw.attention(*[lazy.resolve_neg()] * 3, **options, backend="reference")
        within(hw.attention(lazy, lazy, lazy, **options, backend="native"), want, 1e-5, "out")
        within(hw.attention(lazy, lazy, lazy, **options), want, 1e-5, "out")


@pytest.mark.parametrize("T", [3, 37])
def test_options_that_broadcast_are_read_in_place(T: int) -> None:
    draw = Draw(F32, 2)
    S = 141
    bias = draw.normal(3, S * 2)[:, None, ::2]  # [H, 1, S], every second number
    keep = draw.keep(2, T, S).transpose(1, 2).contiguous().transpose(1, 2)[:, None]
    slopes = draw.normal(4, 6)[::2, ::2]
    options = {
        "mask": hw.Dense(keep) & hw.Prefix(139),
        "scores": (hw.Bias(bias), hw.Alibi(slopes), hw.Bias(draw.normal(2, 1, 1, 1).expand(2, 1, T, 1))),
        "sinks": draw.normal(6)[::2],
    }
    right(draw.call(T=T, S=S, **options))


# --- what the bits do not depend on ------------------------------------------------------------------------------

CALLS = {
    "causal": lambda d: d.call(B=2, H=4, Hk=2, T=301, S=301, D=24, E=24, mask=hw.Causal()),
    "one token, split keys": lambda d: d.call(B=2, H=4, Hk=2, T=1, S=4100, D=24, E=24, mask=hw.Causal()),
    "a few tokens, split keys": lambda d: d.call(B=1, H=4, Hk=2, T=7, S=5001, D=24, sinks=d.normal(4)),
    "window": lambda d: d.call(B=2, T=509, S=509, D=16, mask=hw.Causal() & hw.Window(50, 0)),
    "padding": lambda d: d.call(B=3, T=130, S=300, mask=hw.Padding(torch.tensor([300, 1, 0]))),
    "holes": lambda d: d.call(B=3, T=130, S=300, mask=hw.Padding(d.keep(3, 300, share=0.5))),
    "a mask written out": lambda d: d.call(T=130, S=300, mask=hw.Dense(d.keep(2, 3, 130, 300)), q_start=0),
    "uneven groups": lambda d: d.call(H=5, Hk=3, T=130, S=300, kv_heads=(2, 0, 2, 2, 0), mask=hw.Causal()),
    "everything": lambda d: d.call(
        H=6,
        Hk=3,
        T=130,
        S=300,
        mask=(hw.Causal() & hw.Window(80, None)) | hw.Prefix(9),
        scores=(hw.SoftCap(4.0), hw.Alibi(d.normal(6, size=0.1)), hw.RelativeBias(d.normal(6, 40), 30)),
        sinks=d.normal(6),
        dropout=0.2,
    ),
}
by_call = pytest.mark.parametrize("name", CALLS)


@by_dtype
@by_call
def test_any_number_of_threads(name: str, dtype: torch.dtype) -> None:
    call = CALLS[name](Draw(dtype, 0))
    first = None
    for threads in (1, 2, 3, 4, 7):
        torch.set_num_threads(threads)
        found = outputs(call, [hw.Entropy(), hw.MaxLogit()])
        first = first or found
        assert all(far(a, b) == 0 for a, b in zip(found, first, strict=True)), threads


@by_dtype
@pytest.mark.parametrize("name", [name for name in CALLS if name != "everything"])
def test_any_neighbours_in_the_batch(name: str, dtype: torch.dtype) -> None:
    """Dropout apart, which counts batch rows, a sequence is computed in a batch as it is alone."""
    call = CALLS[name](Draw(dtype, 0))
    whole = outputs(call, [hw.Entropy()])
    for b in range(len(call.q)):
        at = slice(b, b + 1)
        options = dict(call.options)
        mask = options.get("mask")
        if isinstance(mask, (hw.Padding, hw.Dense)):
            options["mask"] = mask.mapped(lambda x, at=at: x[at])
        alone = outputs(Call(call.q[at], call.k[at], call.v[at], options), [hw.Entropy()])
        assert all(far(x[at], y) == 0 for x, y in zip(whole, alone, strict=True))


@by_dtype
@by_call
def test_asking_for_the_entropy_changes_no_bit(name: str, dtype: torch.dtype) -> None:
    call = CALLS[name](Draw(dtype, 0))
    for a, b in zip(outputs(call), outputs(call, [hw.Entropy()]), strict=False):
        assert far(a, b) == 0


@by_dtype
def test_the_quick_way_is_the_long_way(dtype: torch.dtype) -> None:
    from headwise.backends import quick

    for T, S, before, after, mask in [
        (5, 9, None, None, None),
        (37, 37, None, 0, hw.Causal()),
        (1, 3000, None, 0, hw.Causal()),
        (40, 33, 3, 2, hw.Window(3, 2)),
    ]:
        call = Draw(dtype, 0).call(H=4, Hk=2, T=T, S=S, D=16, E=24)
        found = quick(call.q, call.k, call.v, None, before, after, None)
        long = hw.attend(call.q, call.k, call.v, mask=mask, backend="native").out
        assert found is not None and far(found, long) == 0
        assert found.stride() == long.stride() == (T * 4 * 24, 24, 4 * 24, 1)
        found = quick(call.q, call.k, call.v, 0.3, before, after, -2)
        long = hw.attend(call.q, call.k, call.v, mask=mask, scale=0.3, q_start=-2, backend="native").out
        assert found is not None and far(found, long) == 0


def test_the_quick_way_leaves_alone_what_it_cannot_be_sure_of() -> None:
    from headwise.backends import quick

    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 3)
    assert quick(q, k, v, None, None, None, None) is not None
    lazy = torch.view_as_complex(torch.randn(2, 2, 7, 8, 2)).conj().imag
    for operands in [
        (q[0], k, v),
        (q.double(), k.double(), v.double()),
        (q.bfloat16(), k, v),
        (q[:1], k, v),
        (q, k[:, :1], v),
        (q[:, :3], k, v),
        (q, k[..., :7], v),
        (q, k, v[:, :, :6]),
        (q.mT.contiguous().mT, k, v),
        (q, lazy, v),
        (q[:, :, :0], k, v),
        (q, k[:, :, :0], v[:, :, :0]),
        (q, k, v[..., :0]),
        (torch.randn(1, 1, 2, 577), torch.randn(1, 1, 2, 577), torch.randn(1, 1, 2, 4)),
        (q.to("meta"), k.to("meta"), v.to("meta")),
        (q.to_sparse(), k, v),
    ]:
        assert quick(*operands, None, None, None, None) is None
    for scale, start in [(True, None), (float("inf"), None), (NAN, None), ("1", None), (None, 2**50)]:
        assert quick(q, k, v, scale, None, None, start) is None


# --- numbers that are not finite ---------------------------------------------------------------------------------


@by_dtype
@pytest.mark.parametrize("T", [3, 67])
@pytest.mark.parametrize("poison", [NAN, float("inf"), -float("inf")])
@pytest.mark.parametrize("hides", ["band", "run", "runs", "written", "bias"])
def test_what_is_hidden_is_never_read(hides: str, poison: float, T: int, dtype: torch.dtype) -> None:
    S, draw = 301, Draw(dtype, 4)
    gone = torch.arange(S) % 7 == 3 if hides in ("runs", "written", "bias") else torch.arange(S) >= 250
    options: dict[str, Any] = {
        "band": {"mask": hw.Causal(), "q_start": 250 - T},
        "run": {"mask": hw.Padding(torch.tensor([250, 250]))},
        "runs": {"mask": hw.Padding((~gone).expand(2, S) & (torch.arange(S) < 210)) | hw.Prefix(0)},
        "written": {"mask": hw.Dense(~gone)},
        "bias": {"scores": (hw.Bias(torch.zeros(S, dtype=dtype).masked_fill(gone, -float("inf"))), hw.SoftCap(9.0))},
    }[hides]
    call = draw.call(H=4, Hk=2, T=T, S=S, D=16, E=20, **options)
    k, v = call.k.clone(), call.v.clone()
    k[:, :, gone], v[:, :, gone] = poison, poison
    spoiled = Call(call.q, k, v, call.options)
    for a, b in zip(outputs(spoiled, [hw.Entropy()]), outputs(call, [hw.Entropy()]), strict=True):
        assert bool(torch.isfinite(b).all())
        assert far(a, b) == 0


@by_dtype
@pytest.mark.parametrize("T", [3, 67])
@pytest.mark.parametrize("poison", [NAN, float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["q", "k", "v"])
def test_what_is_seen_reaches_those_that_see_it(where: str, poison: float, T: int, dtype: torch.dtype) -> None:
    call = Draw(dtype, 6).call(H=4, Hk=2, T=T, S=301, D=16, E=20, mask=hw.Causal())
    spoiled = {name: getattr(call, name).clone() for name in "qkv"}
    spoiled[where][1, 1, min(290, T - 2) if where == "q" else 299, 5] = poison
    bad = Call(*spoiled.values(), call.options)
    got, exact = bad.run("native", [hw.Entropy()]), bad.to(torch.float64).run("reference", [hw.Entropy()])
    assert not bool(torch.isfinite(exact.out).all()) or (where == "k" and poison != NAN)
    pairs = [(got.out, exact.out), (got.lse, exact.lse), (got.seen["entropy"], exact.seen["entropy"])]
    for a, b in pairs:
        within(a, b, 5e-2 if dtype != F32 else 1e-4, where)


# --- several threads of Python -----------------------------------------------------------------------------------


def test_threads_of_python_do_not_meet() -> None:
    calls = [CALLS[name](Draw(F32, n)) for n, name in enumerate(CALLS) if name != "everything"]
    torch.set_num_threads(2)
    wanted = [outputs(call) for call in calls]
    wrong: list[int] = []

    def work(n: int) -> None:
        for turn in range(6):
            at = (n + turn) % len(calls)
            if any(far(a, b) != 0 for a, b in zip(outputs(calls[at]), wanted[at], strict=True)):
                wrong.append(at)

    crew = [threading.Thread(target=work, args=(n,)) for n in range(5)]
    for thread in crew:
        thread.start()
    for thread in crew:
        thread.join()
    assert wrong == []
