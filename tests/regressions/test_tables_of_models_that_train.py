"""T5's and Swin's tables were written out once, when the rule was made: a module held a piece of a dead graph.

The table was missing from named_parameters(), a second backward() and a deepcopy raised. Now the table itself is the
rule's parameter, and a module refuses a tensor that was computed from another.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw

F64 = torch.float64

MAKE: dict[str, Any] = {
    "t5, both ways": (8, lambda table: hw.RelativeBias.t5(table, True, 5)),
    "t5, backwards": (5, lambda table: hw.RelativeBias.t5(table, False, 6)),
    "grid": (15, lambda table: hw.Bias.grid(table, 2, 3)),
    "grid with a class token": (12, lambda table: hw.Bias.grid(table, 1, 5)),
}
each = pytest.mark.parametrize("name", MAKE)


def made(name: str, dtype: torch.dtype = torch.float32) -> tuple[hw.MultiHeadAttention, nn.Parameter]:
    torch.manual_seed(0)
    count, rule = MAKE[name]
    table = nn.Parameter(torch.randn(count, 2, dtype=dtype))
    return hw.MultiHeadAttention(8, 2, scores=(hw.SoftCap(9.0), rule(table)), dtype=dtype), table


@each
def test_two_steps_of_training(name: str) -> None:
    """The same two steps by the definition, in float64."""
    (layer, table), (exact, wanted) = made(name), made(name, F64)
    exact.load_state_dict(layer.state_dict())
    assert any(held is table for _, held in layer.named_parameters())
    x = torch.randn(3, 6, 8)
    for model in (layer, exact):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(2):
            optimiser.zero_grad()
            model(x.to(next(model.parameters()).dtype)).square().mean().backward()
            optimiser.step()
    before = made(name)[1]
    assert (table - before).abs().max() > 1e-3
    torch.testing.assert_close(table.to(F64), wanted, atol=1e-5, rtol=1e-5)


@each
def test_copies_and_casts(name: str) -> None:
    layer, table = made(name)
    x = torch.randn(2, 6, 8)
    twin = copy.deepcopy(layer)
    assert torch.equal(twin(x), layer(x))
    assert not any(held is table for held in twin.parameters())
    assert set(layer.state_dict()) == set(twin.state_dict())
    assert layer.to(F64)(x.to(F64)).dtype == F64
    torch.testing.assert_close(layer(x.to(F64)).float(), twin(x), atol=1e-5, rtol=1e-5)
    low = twin.to(torch.bfloat16)
    torch.testing.assert_close(low(x.bfloat16()).double(), layer(x.to(F64)), atol=0.05, rtol=0.05)


@each
@pytest.mark.parametrize("backend", ["blocked", "native"])
@pytest.mark.parametrize("dtype", [torch.float32, F64, torch.bfloat16])
def test_gradient_of_a_table_of_its_own_dtype(name: str, backend: str, dtype: torch.dtype) -> None:
    count, rule = MAKE[name]
    generator = torch.Generator().manual_seed(4)
    q = torch.randn(2, 2, 6, 4, generator=generator)
    table = torch.randn(count, 2, generator=generator).to(dtype).requires_grad_()

    def gradient(q: Tensor, backend: str) -> tuple[Tensor, ...]:
        found = hw.attend(q, q, q, scores=(rule(table),), backend=backend)
        return torch.autograd.grad(found.out.square().sum() + found.lse.sum(), table)

    (found,), (wanted,) = gradient(q, backend), gradient(q.double(), "reference")
    assert found.dtype == dtype
    loose = 2e-2 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(found.double(), wanted.double(), atol=loose, rtol=loose)


@each
def test_first_and_second_derivatives(name: str) -> None:
    count, rule = MAKE[name]
    q, table = (torch.randn(shape, dtype=F64).requires_grad_() for shape in ((1, 2, 6, 2), (count, 2)))

    def f(q: Tensor, table: Tensor) -> Tensor:
        return hw.attention(q, q, q, scores=(rule(table),), backend="blocked")

    assert torch.autograd.gradcheck(f, (q, table))
    assert torch.autograd.gradgradcheck(f, (q, table))


@each
def test_compiled(name: str) -> None:
    count, rule = MAKE[name]
    q, table = torch.randn(1, 2, 6, 4), torch.randn(count, 2).requires_grad_()

    def f(q: Tensor, table: Tensor) -> Tensor:
        return hw.attention(q, q, q, scores=(rule(table),)).sin()

    compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(q, table), f(q, table))
    (found,), (wanted,) = (torch.autograd.grad(g(q, table).sum(), table) for g in (compiled, f))
    torch.testing.assert_close(found, wanted)


def test_a_module_refuses_what_was_computed() -> None:
    table = nn.Parameter(torch.randn(2, 5))
    with pytest.raises(hw.SpecError, match=r"rule_0_table was computed from another tensor.* Give the rule an nn\.Par"):
        hw.MultiHeadAttention(8, 2, scores=(hw.RelativeBias(table * 2, 1),))
    hw.MultiHeadAttention(8, 2, scores=(hw.RelativeBias((table * 2).detach(), 1),))
