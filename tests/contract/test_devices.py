"""Tensors are made where the operands are: seen on devices that are not there, by tensors that have a shape alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import headwise as hw
from headwise.errors import UnsupportedError

# What the operator tells its own backward pass, and the seed, are two numbers that Python reads: always on the CPU.
OF_PYTHON = {"headwise::attention", "headwise::seed"}


class Made(TorchDispatchMode):
    """Remembers where every tensor was made, and by what."""

    def __init__(self) -> None:
        super().__init__()
        self.by: dict[str, set[str]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for x in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(x, Tensor) and not (func._schema.name in OF_PYTHON and x.dtype == torch.int64):
                self.by.setdefault(x.device.type, set()).add(func._schema.name)
        return out


@pytest.fixture(params=["cuda", "cpu", "meta"])
def device(request: pytest.FixtureRequest) -> Iterator[str]:
    with FakeTensorMode(allow_non_fake_inputs=False) if request.param != "meta" else nullcontext():
        yield request.param


def operands(device: str, *, grad: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((1, 4, 9, 16), (1, 2, 9, 16), (1, 2, 9, 6))
    q, k, v = (torch.randn(shape, device=device, requires_grad=grad) for shape in shapes)
    return q, k, v


def skip_where_torch_cannot(device: str) -> None:
    if device == "cuda" and not torch.backends.cuda.is_built():
        pytest.skip("torch built for CPUs makes no parameter there, and ends the process in any backward pass")


def whole(*shape: int, device: str) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64, device=device)


OPTIONS: dict[str, Callable[[str], dict[str, Any]]] = {
    "nothing": lambda on: {},
    "causal": lambda on: {"mask": hw.Causal()},
    "window": lambda on: {"mask": hw.Window(3, 0) | hw.Prefix(2)},
    "strided": lambda on: {"mask": hw.Strided(2)},
    "chunks": lambda on: {"mask": hw.Chunks(3)},
    "documents": lambda on: {"mask": hw.Documents(whole(9, device=on))},
    "padding": lambda on: {"mask": hw.Padding(torch.ones(1, 9, dtype=torch.bool, device=on))},
    "blocks": lambda on: {"mask": hw.Blocks(torch.ones(3, 3, dtype=torch.bool, device=on), 3)},
    "rules": lambda on: {"scores": (hw.SoftCap(3.0), hw.Alibi(torch.ones(4, device=on)))},
    "table": lambda on: {
        "scores": (hw.RelativeBias.t5(torch.ones(4, 4, device=on), bidirectional=False, max_distance=8),)
    },
    "sinks": lambda on: {"sinks": torch.ones(4, device=on)},
    "dropout": lambda on: {"dropout": 0.1},
    "gate": lambda on: {"gate": torch.ones(4, device=on)},
    "starts": lambda on: {"mask": hw.Causal(), "q_start": whole(1, device=on)},
}


@pytest.mark.parametrize("options", OPTIONS)
def test_attention_makes_tensors_where_its_operands_are(options: str, device: str) -> None:
    q, k, v = operands(device)
    made = OPTIONS[options](device)
    with Made() as seen:
        out = hw.attention(q, k, v, **made)
    assert (out.device.type, out.shape) == (device, (1, 4, 9, 6))
    assert set(seen.by) == {device}, seen.by


def test_derivatives_are_made_there_too(device: str) -> None:
    skip_where_torch_cannot(device)
    q, k, v = operands(device, grad=True)
    with Made() as seen:
        found = torch.autograd.grad(hw.attention(q, k, v, mask=hw.Causal()).sum(), (q, k, v))
    assert [(x.device.type, x.shape) for x in found] == [(device, x.shape) for x in (q, k, v)]
    assert set(seen.by) == {device}, seen.by


def test_attend_knows_its_output_and_lse(device: str) -> None:
    q, k, v = operands(device)
    with Made() as seen:
        got = hw.attend(q, k, v, mask=hw.Causal())
    assert [(x.device.type, x.shape) for x in (got.out, got.lse)] == [(device, (1, 4, 9, 6)), (device, (1, 4, 9))]
    assert (got.pattern.shape, got.seen, set(seen.by)) == ((1, 4, 9, 9), {}, {device}), seen.by


def test_a_module_makes_tensors_where_it_is(device: str) -> None:
    skip_where_torch_cannot(device)
    module = hw.MultiHeadAttention(16, 2, mask=hw.Causal(), device=device)
    x = torch.randn(1, 5, 16, device=device)
    with Made() as seen:
        out = module(x)
    assert (out.device.type, out.shape, set(seen.by)) == (device, x.shape, {device}), seen.by


QUESTIONS: dict[str, Callable[[str], Any]] = {
    "lse": lambda on: hw.LogSumExp(),
    "max": lambda on: hw.MaxLogit(),
    "entropy": lambda on: hw.Entropy(),
    "received": lambda on: hw.Received(),
    "offsets": lambda on: hw.Offsets(3),
    "top keys": lambda on: hw.TopKeys(2),
    "mass on": lambda on: hw.MassOn(whole(9, 1, device=on)),
    "mass where": lambda on: hw.MassWhere(whole(9, device=on), whole(9, device=on)),
    "segments": lambda on: hw.Segments(whole(9, device=on), whole(9, device=on)),
    "map": lambda on: hw.Map(3, 3),
    "crop": lambda on: hw.Crop(slice(0, 3), slice(0, 3)),
    "contribution": lambda on: hw.Contribution(torch.randn(6, 24, device=on)),
}
METHODS: dict[str, Callable[[hw.Pattern], Any]] = {
    "ask": lambda p: p.ask(hw.Entropy()),
    "map": lambda p: p.map(3, 3),
    "entropy": lambda p: p.entropy(),
    "received": lambda p: p.received(),
    "offsets": lambda p: p.offsets(3),
    "top_keys": lambda p: p.top_keys(2),
    "index": lambda p: p[0, 0, 1],
    "to_dense": lambda p: p.to_dense(),
    "settle": lambda p: p.settle(),
    "facts": lambda p: p.facts(),
    "reach": lambda p: p.reach(0),
    "stretches": lambda p: p.stretches(0),
}
SAYS = r"(attend|Pattern): a \w*Tensor \[1, \d, 9, 16\] on {}(:0)? has a shape and no numbers; "


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_about_tensors_without_numbers_is_refused(question: str, device: str) -> None:
    q, k, v = operands(device)
    asked = QUESTIONS[question](device)
    with pytest.raises(UnsupportedError, match=SAYS.format(device)):
        hw.attend(q, k, v, mask=hw.Causal(), observe=[asked])
    with pytest.raises(UnsupportedError, match=SAYS.format(device)):
        hw.Pattern(q, k, v, mask=hw.Causal()).ask(asked)


@pytest.mark.parametrize("method", METHODS)
def test_a_pattern_of_tensors_without_numbers_has_a_shape_alone(method: str, device: str) -> None:
    q, k, _ = operands(device)
    with Made() as seen:
        pattern = hw.Pattern(q, k, mask=hw.Causal())
        assert pattern.shape == (1, 4, 9, 9)
        with pytest.raises(UnsupportedError, match=SAYS.format(device)):
            METHODS[method](pattern)
    assert set(seen.by) <= {device}, seen.by
