"""The short way of plain calls: it is taken, it has the bits of the long way, and everything else goes the long way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import headwise as hw
from headwise import ops
from headwise.backends import TABLE

pytestmark = pytest.mark.skipif(
    all(backend.name != "native" for backend in TABLE), reason="built without native kernels: nothing is quick"
)

PLAIN: dict[str, dict[str, Any]] = {
    "nothing": {},
    "causal": {"mask": hw.Causal()},
    "window": {"mask": hw.Window(2, 1)},
    "window without limits": {"mask": hw.Window()},
    "window of all there is": {"mask": hw.Window(2**70, 2**70)},
    "q_start": {"mask": hw.Causal(), "q_start": 1},
    "empty rows": {"mask": hw.Window(0, 0), "q_start": -2},
    "scale": {"scale": 0.3},
    "named": {"backend": "native"},
}


def operands(T: int = 5, S: int = 7, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 4, T, 8), (2, 2, S, 8), (2, 2, S, 6)
    q, k, v = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return q, k, v


def long(*args: Any, **options: Any) -> Tensor:
    return hw.attend(*args, **options).out


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PLAIN)
def test_it_has_the_bits_of_the_long_way(name: str, dtype: torch.dtype) -> None:
    for T, S in ((5, 7), (1, 7), (7, 5)):
        args = operands(T, S, dtype)
        assert torch.equal(hw.attention(*args, **PLAIN[name]), long(*args, **PLAIN[name]))
        heads_last = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in args]
        assert torch.equal(hw.attention(*heads_last, **PLAIN[name]), long(*args, **PLAIN[name]))


@pytest.mark.parametrize("name", [name for name in PLAIN if name != "window of all there is"])
def test_it_is_taken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ops, "make_plan", lambda *_: pytest.fail("a plain call was planned"))
    hw.attention(*operands(), **PLAIN[name])


class _Looking(TorchDispatchMode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def _seen() -> Tensor:
    with _Looking():
        return hw.attention(*operands())


FULL: dict[str, Callable[[], Any]] = {
    "a gradient": lambda: hw.attention(*(x.requires_grad_() for x in operands())),
    "another mask": lambda: hw.attention(*operands(), mask=hw.Causal() & hw.Window(2)),
    "top-left": lambda: hw.attention(*operands(), mask=hw.Causal(align="start")),
    "a rule": lambda: hw.attention(*operands(), scores=(hw.SoftCap(2.0),)),
    "sinks": lambda: hw.attention(*operands(), sinks=torch.zeros(4)),
    "a gate": lambda: hw.attention(*operands(), gate=torch.ones(4)),
    "dropout": lambda: hw.attention(*operands(), dropout=0.5),
    "uneven groups": lambda: hw.attention(*operands(), kv_heads=(0, 0, 0, 1)),
    "a backend": lambda: hw.attention(*operands(), backend="blocked"),
    "float64": lambda: hw.attention(*(x.double() for x in operands())),
    "strides": lambda: hw.attention(*(x.mT.contiguous().mT for x in operands())),
    "no keys": lambda: hw.attention(*operands(S=0)),
    "positions for each sequence": lambda: hw.attention(*operands(), q_start=torch.tensor([0, 1])),
    "a parameter": lambda: hw.attention(torch.nn.Parameter(operands()[0], False), *operands()[1:]),
    "somebody who sees every operation": _seen,
}


@pytest.mark.parametrize("name", FULL)
def test_all_else_is_planned(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = []
    make_plan = ops.make_plan
    monkeypatch.setattr(ops, "make_plan", lambda *args: planned.append(args) or make_plan(*args))
    FULL[name]()
    assert planned


@pytest.mark.parametrize(
    "wrong",
    [
        lambda q, k, v: hw.attention(q, k[:, :0], v[:, :0]),
        lambda q, k, v: hw.attention(q[0], k, v),
        lambda q, k, v: hw.attention(q, k, v[:, :, :3]),
        lambda q, k, v: hw.attention(q, k[..., :3], v),
        lambda q, k, v: hw.attention(q, k[:1], v[:1]),
        lambda q, k, v: hw.attention(q, k.half(), v),
        lambda q, k, v: hw.attention(q.long(), k.long(), v.long()),
        lambda q, k, v: hw.attention(q.to_sparse(), k, v),
        lambda q, k, v: hw.attention(q, k, v, scale=float("inf")),
        lambda q, k, v: hw.attention(q, k, v, scale=True),
        lambda q, k, v: hw.attention(q, k, v, q_start=True),
        lambda q, k, v: hw.attention(q, k, v, q_start=2**60),
        lambda q, k, v: hw.attention(q, k, v, dropout=False),
        lambda q, k, v: hw.attention(q, k, v, scores=None),
        lambda q, k, v: hw.attention(q, k, v, scores=torch.ones(2)),
        lambda q, k, v: hw.attention(q, None, v),
    ],
)
def test_what_is_wrong_is_said_by_the_long_way(wrong: Callable[..., Any]) -> None:
    with pytest.raises(hw.errors.HeadwiseError, match=r"^attention: "):
        wrong(*operands())


def test_a_tensor_that_is_only_remembered_to_be_negative() -> None:
    q, k, v = operands()
    negative = torch.complex(k, -k).conj().imag
    assert negative.is_neg()
    assert torch.equal(hw.attention(q, negative, v), hw.attention(q, k.clone(), v))
