"""First and second derivatives against finite differences, and log-sum-exp as the thing that joins split keys."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from small import small_tiles
from torch import Tensor

import headwise as hw
from headwise.testing import CASES, Call, Draw, define, far, within

F64 = torch.float64
BACKENDS = ["reference", "blocked"]


def small(name: str) -> Call:
    """A tiny call that has something of everything its name says: finite differences are slow."""
    draw = Draw(F64, 7)
    size: dict[str, Any] = {"B": 1, "H": 2, "T": 3, "S": 4, "D": 2, "E": 1}
    if name == "q, k, v, grouped":
        return draw.call(**{**size, "H": 4}, Hk=2, mask=hw.Causal())
    if name == "uneven groups":
        return draw.call(**{**size, "H": 3}, Hk=2, kv_heads=(0, 1, 1))
    if name == "dropout":
        return draw.call(**size, dropout=0.4, mask=hw.Causal())
    if name == "empty rows":
        return draw.call(**{**size, "T": 5, "S": 3}, mask=hw.Causal() & hw.Dense(draw.keep(1, 1, 5, 3)))
    if name == "bias":
        return draw.call(**size, scores=(hw.Bias(draw.normal(1, 1, 3, 4)), hw.Bias(draw.normal(2, 1, 1))))
    if name == "bias that hides":
        bias = draw.normal(1, 2, 3, 4).masked_fill(~draw.keep(1, 2, 3, 4), -torch.inf)
        return draw.call(**size, scores=(hw.Bias(bias), hw.SoftCap(1.0)))
    if name == "slopes":
        return draw.call(**size, scores=(hw.Alibi(draw.normal(2)),))
    if name == "slopes for each sequence":
        return draw.call(**{**size, "B": 2}, q_start=torch.tensor([0, 2]), scores=(hw.Alibi(draw.normal(2, 2)),))
    if name == "table":
        return draw.call(**size, scores=(hw.RelativeBias(draw.normal(2, 4), zero=2),))
    if name == "table, a start for each sequence":
        return draw.call(
            **{**size, "B": 2}, q_start=torch.tensor([3, 1]), scores=(hw.RelativeBias(draw.normal(2, 4), zero=2),)
        )
    if name == "sinks":
        return draw.call(**size, mask=hw.Causal(), sinks=draw.normal(2))
    if name == "gate":
        return draw.call(**size, gate=draw.normal(1, 2, 3))
    if name == "soft cap and a rule of one's own":
        return draw.call(**size, scores=(hw.SoftCap(1.3), hw.ScoreRule(lambda s, b, h, i, j: s + torch.sin(s) * h)))
    if name == "everything":
        return draw.call(
            **size,
            mask=hw.Causal() | hw.Prefix(2),
            scores=(
                hw.SoftCap(2.0),
                hw.Alibi(draw.normal(2)),
                hw.RelativeBias(draw.normal(2, 3), 1),
                hw.Bias(draw.normal(4)),
            ),
            sinks=draw.normal(2),
            gate=draw.normal(1, 2),
            dropout=0.2,
        )
    raise AssertionError(name)


SMALL = [
    "q, k, v, grouped",
    "uneven groups",
    "dropout",
    "empty rows",
    "bias",
    "bias that hides",
    "slopes",
    "slopes for each sequence",
    "table",
    "table, a start for each sequence",
    "sinks",
    "gate",
    "soft cap and a rule of one's own",
    "everything",
]


@pytest.fixture
def tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two queries and three keys a tile: several tiles even here, and no more than that."""
    small_tiles(monkeypatch, rows=2, keys=3)


def function_of(call: Call, backend: str) -> tuple[Any, tuple[Tensor, ...]]:
    """The call as a function of its leaves: output, and the log-sum-exp of the rows that have one."""
    named = {name: leaf.clone().requires_grad_() for name, leaf in call.leaves().items()}

    def run(*leaves: Tensor) -> tuple[Tensor, Tensor]:
        got = call.over(dict(zip(named, leaves, strict=True))).run(backend)
        alive = got.lse != -torch.inf
        return got.out, torch.where(alive, got.lse, 0.0)

    return run, tuple(named.values())


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [n for n in SMALL if n != "bias that hides"])
def test_first_derivatives(name: str, backend: str, tiles: None) -> None:
    run, leaves = function_of(small(name), backend)
    assert torch.autograd.gradcheck(run, leaves, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_first_derivatives_beside_a_bias_that_hides(backend: str, tiles: None) -> None:
    """Finite differences cannot step from -inf: only q, k and v step; the bias's own gradient is 0 where it hides."""
    call = small("bias that hides")
    run, leaves = function_of(call, backend)
    bias = leaves[3].detach()
    assert torch.autograd.gradcheck(lambda q, k, v: run(q, k, v, bias), leaves[:3])
    out, lse = run(*leaves)
    (grad,) = torch.autograd.grad(out.sum() + lse.sum(), leaves[3])
    assert bool(torch.isfinite(grad).all())
    assert bool((grad[bias == -torch.inf] == 0).all())
    assert float(grad.abs().max()) > 0


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "name", ["q, k, v, grouped", "dropout", "empty rows", "bias", "slopes", "table", "sinks", "gate", "everything"]
)
def test_second_derivatives(name: str, backend: str, tiles: None) -> None:
    call = small(name)
    run, leaves = function_of(call, backend)
    assert torch.autograd.gradgradcheck(run, leaves, atol=1e-6, rtol=1e-4, fast_mode=True)


def test_second_derivatives_of_the_fused_kernel() -> None:
    """torch's own fused op has none; here they come from the reference's."""
    call = CASES["causal, square"].make(F64)
    call = Call(call.q[:1, :1, :3], call.k[:1, :1, :3], call.v[:1, :1, :3], call.options)
    run, leaves = function_of(call, "sdpa")
    assert torch.autograd.gradcheck(run, leaves)
    assert torch.autograd.gradgradcheck(run, leaves, fast_mode=True)


@pytest.mark.parametrize("backend", [*BACKENDS, None])
@pytest.mark.parametrize("name", ["bias", "slopes", "table", "sinks", "gate"])
def test_only_the_option_needs_a_gradient(name: str, backend: str | None, tiny: None) -> None:
    """q, k and v are fixed: the option's gradient is that of the call in which everything is tracked."""
    call = small(name)
    tracked, leaves = call.fresh()
    option = next(n for n in leaves if n not in ("q", "k", "v"))
    exact = torch.autograd.grad(define(tracked).out.square().sum(), leaves[option])[0]
    alone, leaf = call, call.leaves()[option].clone().requires_grad_()
    alone = call.over({option: leaf})
    assert not alone.q.requires_grad
    got = torch.autograd.grad(alone.run(backend).out.square().sum(), leaf)[0]
    within(got, exact, 1e-12, "gradient")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("needs", ["q", "k", "v"])
def test_one_operand_needs_a_gradient(needs: str, backend: str, tiny: None) -> None:
    call = CASES["grouped heads, E != D"].make(F64)
    tracked, leaves = call.fresh()
    exact = torch.autograd.grad(define(tracked).out.square().sum(), leaves[needs])[0]
    leaf = call.leaves()[needs].clone().requires_grad_()
    got = torch.autograd.grad(call.over({needs: leaf}).run(backend).out.square().sum(), leaf)[0]
    within(got, exact, 1e-11, "gradient")


@pytest.mark.parametrize("backend", ["reference", "blocked", "sdpa"])
@pytest.mark.parametrize("through", ["out", "lse", "both"])
def test_output_and_log_sum_exp_alone_and_together(through: str, backend: str, tiny: None) -> None:
    call, leaves = CASES["causal, square"].make(F64).fresh()
    exact, got = define(call), call.run(backend)
    losses = [x.out.sin().sum() * (through != "lse") + (x.lse.sin().sum() * (through != "out")) for x in (exact, got)]
    wanted = torch.autograd.grad(losses[0], list(leaves.values()))
    found = torch.autograd.grad(losses[1], list(leaves.values()), allow_unused=True)
    for a, b in zip(found, wanted, strict=True):
        within(torch.zeros_like(b) if a is None else a, b, 1e-11, through)


@pytest.mark.parametrize("backend", ["reference", "blocked", "sdpa"])
@pytest.mark.parametrize("parts", [2, 3])
def test_split_keys_are_joined_by_log_sum_exp(parts: int, backend: str, tiny: None) -> None:
    """Attention over parts of the keys, weighed by exp(lse - lse of all), is attention over all, with its gradients."""
    call, leaves = CASES["plain"].make(F64).fresh()
    whole = call.run("reference")
    pieces = [
        hw.attend(call.q, k, v, backend=backend)
        for k, v in zip(call.k.tensor_split(parts, 2), call.v.tensor_split(parts, 2), strict=True)
    ]
    lse = torch.logsumexp(torch.stack([piece.lse for piece in pieces]), 0)
    out = sum(piece.out * torch.exp(piece.lse - lse)[..., None] for piece in pieces)
    within(lse, whole.lse, 1e-12, "lse")
    within(out, whole.out, 1e-12, "out")
    names = list(leaves.values())
    for a, b in zip(
        torch.autograd.grad(out.square().sum(), names),
        torch.autograd.grad(whole.out.square().sum(), names),
        strict=True,
    ):
        within(a, b, 1e-11, "gradient through the join")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_hidden_nan_leaves_gradients_bit_equal(backend: str, tiny: None) -> None:
    call = CASES["NaN in hidden keys and values, with all else"].make(F64)
    grads = []
    for made in (call, call.finite()):
        tracked, leaves = made.fresh()
        got = tracked.run(backend)
        alive = got.lse != -torch.inf
        loss = got.out.square().sum() + torch.where(alive, got.lse, 0.0).sum()
        grads.append(torch.autograd.grad(loss, list(leaves.values())))
    for a, b in zip(*grads, strict=True):
        assert bool(torch.isfinite(a).all())
        within(a, b, 1e-13, "gradient")


@pytest.mark.parametrize("backend", BACKENDS)
def test_no_gradient_reaches_what_nobody_sees(backend: str, tiny: None) -> None:
    """Keys and values that every query hides, and queries of empty rows, get exactly 0."""
    call, leaves = CASES["dense with empty rows and unseen keys"].make(F64).fresh()
    got = call.run(backend)
    got.out.square().sum().backward()
    exact = define(call)
    unseen = ~exact.visible.any(2)  # [B, H, S]
    assert bool((leaves["k"].grad[unseen] == 0).all())  # type: ignore[index]
    assert bool((leaves["v"].grad[unseen] == 0).all())  # type: ignore[index]
    assert bool((leaves["q"].grad[~exact.visible.any(-1)] == 0).all())  # type: ignore[index]
    assert far(leaves["q"].grad, torch.zeros_like(leaves["q"])) > 0  # type: ignore[arg-type]


def test_dropped_cells_are_the_same_everywhere_and_follow_the_seed() -> None:
    call = CASES["dropout"].make(F64)
    a, b = (call.run(backend, seed=1).out for backend in BACKENDS)
    within(a, b, 1e-12, "out")
    assert far(a, call.run("reference", seed=2).out) > 0.01
    assert far(a, call.run("reference", seed=1).out) == 0


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_dropout_drops_its_share_and_keeps_the_mean(dropout: float) -> None:
    """Two hundred thousand cells: the share of dropped ones is within five standard deviations."""
    q, k = torch.zeros(1, 4, 256, 2, dtype=F64), torch.zeros(1, 4, 256, 2, dtype=F64)
    v = torch.eye(256, dtype=F64).expand(1, 4, -1, -1)
    torch.manual_seed(11)
    weights = hw.attention(q, k, v, dropout=dropout, backend="blocked") * 256
    cells = weights.numel()
    dropped = float((weights == 0).sum()) / cells
    assert abs(dropped - dropout) < 5 * (dropout * (1 - dropout) / cells) ** 0.5
    assert torch.allclose(weights[weights > 0], torch.tensor(1 / (1 - dropout), dtype=F64))
