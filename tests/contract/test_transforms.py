"""torch.func and forward mode through attention: derivatives of derivatives, further axes, randomness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacrev, jvp, vmap

import headwise as hw

CAUSAL = hw.Causal()
# torch loads its forward-mode rules by way of torch.jit.script, which it deprecates itself.
by_jit = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
by_backend = pytest.mark.parametrize("backend", [None, "blocked", "reference"])


def operands() -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 5)
    q, k, v = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return q, k, v


def of_query(backend: str | None, **options: Any) -> Callable[..., Tensor]:
    """A number that attention makes of its queries."""
    _, k, v = operands()
    return lambda q, k=k, v=v: hw.attention(q, k, v, backend=backend, **options).sin().sum()


def by_autograd(f: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The derivative as ordinary autograd finds it, itself differentiable."""

    def derivative(x: Tensor) -> Tensor:
        x = x if x.requires_grad else x.clone().requires_grad_()
        return torch.autograd.grad(f(x), x, create_graph=True)[0]

    return derivative


def stacked(f: Callable[..., Tensor], *many: Tensor) -> Tensor:
    return torch.stack([f(*one) for one in zip(*many, strict=True)])


def close(found: Tensor, wanted: Tensor) -> None:
    torch.testing.assert_close(found.detach(), wanted.detach(), rtol=1e-10, atol=1e-11)


@by_backend
def test_derivatives_of_any_order(backend: str | None) -> None:
    q = operands()[0]
    f, g = of_query(backend, mask=CAUSAL), of_query("reference", mask=CAUSAL)
    close(grad(f)(q), by_autograd(g)(q))
    second, wanted = grad(lambda q: grad(f)(q).cos().sum()), by_autograd(lambda q: by_autograd(g)(q).cos().sum())
    close(second(q), wanted(q))
    close(grad(lambda q: second(q).sin().sum())(q), by_autograd(lambda q: wanted(q).sin().sum())(q))


@by_backend
def test_the_second_derivative_may_be_by_another_operand(backend: str | None) -> None:
    q, k, v = operands()

    def size(v: Tensor) -> Tensor:
        return grad(lambda q: hw.attention(q, k, v, mask=CAUSAL, backend=backend).sin().sum())(q).cos().sum()

    def wanted(v: Tensor) -> Tensor:
        return by_autograd(lambda q: hw.attention(q, k, v, mask=CAUSAL, backend="reference").sin().sum())(q).cos().sum()

    close(grad(size)(v), by_autograd(wanted)(v))


@by_backend
def test_an_axis_more_and_derivatives_along_it(backend: str | None) -> None:
    q, k, v = operands()
    f, many = of_query(backend, mask=CAUSAL), torch.stack([q, q * 2, q + 1])
    close(vmap(f)(many), stacked(f, many))
    close(vmap(grad(f))(many), stacked(by_autograd(f), many))
    close(grad(lambda many: vmap(f)(many).sum())(many), stacked(by_autograd(f), many))
    second = lambda d: d(lambda q: d(f)(q).cos().sum())  # noqa: E731
    close(vmap(second(grad))(many), stacked(second(by_autograd), many))
    keys = torch.stack([k, k, k * 3], -1)
    attention = lambda q, k: hw.attention(q, k, v, mask=CAUSAL, backend=backend)  # noqa: E731
    found = vmap(attention, in_dims=(1, -1), out_dims=2)(many.movedim(0, 1), keys)
    close(found, stacked(attention, many, keys.movedim(-1, 0)).movedim(0, 2))


@by_backend
def test_the_axis_may_run_through_a_mask(backend: str | None) -> None:
    q, k, v = operands()
    many, lengths = torch.stack([q, q * 2, q + 1]), torch.tensor([[3, 6], [1, 2], [6, 6]])
    slopes = torch.arange(4.0, dtype=torch.float64)

    def f(q: Tensor, n: Tensor) -> Tensor:
        options: dict[str, Any] = {"mask": CAUSAL & hw.Padding(n), "scores": (hw.Alibi(slopes),), "q_start": n}
        return hw.attention(q, k, v, **options, backend=backend).sin().sum()

    close(vmap(f)(many, lengths), stacked(f, many, lengths))
    wanted = [by_autograd(lambda q, n=n: f(q, n))(q) for q, n in zip(many, lengths, strict=True)]
    close(vmap(grad(f))(many, lengths), torch.stack(wanted))


@by_backend
def test_jacobians(backend: str | None) -> None:
    q, k, v = (x[:1, :1, :2] for x in operands())
    f = lambda q: hw.attention(q, k, v, backend=backend)  # noqa: E731
    close(jacrev(f)(q), torch.autograd.functional.jacobian(f, q))
    total = lambda q: f(q).sin().sum()  # noqa: E731
    close(jacrev(jacrev(total))(q), torch.autograd.functional.hessian(total, q))


@by_backend
@pytest.mark.parametrize("randomness", ["same", "different"])
def test_dropout_is_random_along_the_axis_as_vmap_was_told(backend: str | None, randomness: str) -> None:
    q, k, v = operands()
    f = lambda q: hw.attention(q, k, v, dropout=0.5, backend=backend)  # noqa: E731
    torch.manual_seed(0)
    first, second = vmap(f, randomness=randomness)(torch.stack([q, q]))
    assert torch.equal(first, second) == (randomness == "same")
    torch.manual_seed(0)
    close(first, f(q))
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(f)(torch.stack([q, q]))


@by_jit
@pytest.mark.parametrize("backend", [None, "blocked"])
def test_forward_mode_is_refused_where_it_would_be_lost(backend: str | None) -> None:
    q, k, v = operands()
    f = lambda q: hw.attention(q, k, v, backend=backend)  # noqa: E731
    with pytest.raises(hw.errors.UnsupportedError, match='Ask for backend="reference"'):
        jvp(f, (q,), (q,))
    with forward_ad.dual_level(), pytest.raises(hw.errors.UnsupportedError, match="forward-mode"):
        f(forward_ad.make_dual(q, q))
    with forward_ad.dual_level():
        close(f(q), f(q))


@by_jit
def test_the_reference_has_forward_mode() -> None:
    q, k, v = (x[:1, :1, :2] for x in operands())
    f = lambda q: hw.attention(q, k, v, backend="reference")  # noqa: E731
    wanted = torch.autograd.functional.jacobian(f, q).flatten(4).matmul(q.flatten()).reshape(q.shape)
    close(jvp(f, (q,), (q,))[1], wanted)
    with forward_ad.dual_level():
        close(forward_ad.unpack_dual(f(forward_ad.make_dual(q, q))).tangent, wanted)
    total = lambda q: f(q).sin().sum()  # noqa: E731
    close(hessian(total)(q), torch.autograd.functional.hessian(total, q))


def test_functions_of_the_users_are_refused_clearly() -> None:
    q, k, v = operands()
    rule = hw.Rule(lambda b, h, i, j: i >= j)
    with pytest.raises(hw.errors.UnsupportedError, match="the mask holds a Rule"):
        grad(lambda q: hw.attention(q, k, v, mask=rule).sum())(q)
    found = grad(lambda q: hw.attention(q, k, v, mask=rule, backend="reference").sum())(q)
    close(found, by_autograd(lambda q: hw.attention(q, k, v, mask=rule).sum())(q))
