"""What users of attention libraries suffer from in shapes and features (USER_CASES A3), each as a promise kept here."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise import backends
from headwise.testing import CASES, Call, Draw, define, within

F64 = torch.float64
BACKENDS = ["reference", "blocked"]


def operands(B: int = 2, H: int = 2, T: int = 5, S: int = 7, D: int = 4, Hk: int | None = None) -> Any:
    Hk = H if Hk is None else Hk
    return tuple(torch.randn(B, h, n, D, dtype=F64) for h, n in ((H, T), (Hk, S), (Hk, S)))


def test_weights_are_per_head() -> None:
    """A3.46: [B, H, T, S], never an average that nobody asked for."""
    q, k, v = operands()
    p = hw.attend(q, k, v).pattern
    assert p.shape == (2, 2, 5, 7)
    assert not torch.allclose(p[:, 0], p[:, 1])


def test_every_layer_of_a_stack_can_be_asked() -> None:
    """A3.48: three layers of the library's own module, each asked as it runs."""
    layers = [hw.MultiHeadAttention(8, 2) for _ in range(3)]
    x, seen = torch.randn(1, 5, 8), []
    for layer in layers:
        got = layer.attend(x, observe=[hw.Entropy()])
        x, seen = x + got.out, [*seen, got.seen["entropy"]]
    assert torch.stack(seen).shape == (3, 1, 2, 5)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("grad", [True, False])
def test_hooks_fire_in_every_mode(training: bool, grad: bool) -> None:
    """A3.49: on the attention itself, once a call, gradients or not."""
    layers = nn.Sequential(*(hw.MultiHeadAttention(8, 2) for _ in range(3))).train(training)
    fired: list[str] = []
    for n, layer in enumerate(layers):
        layer.register_forward_hook(lambda *_, n=n: fired.append(f"after {n}"))  # type: ignore[misc]
        layer.register_forward_pre_hook(lambda *_, n=n: fired.append(f"before {n}"))  # type: ignore[misc]
    with torch.set_grad_enabled(grad):
        layers(torch.randn(1, 4, 8))
    assert fired == [f"{when} {n}" for n in range(3) for when in ("before", "after")]


def test_four_ordinary_linears_that_are_called() -> None:
    """A3.50: hooks, adapters and pruners find them; replacing one by something else that maps the same widths works."""
    layer = hw.MultiHeadAttention(8, 4, kv_heads=2)
    names = ["q_proj", "k_proj", "v_proj", "o_proj"]
    fired: list[str] = []
    for name in names:
        linear = getattr(layer, name)
        assert type(linear) is nn.Linear
        linear.register_forward_hook(lambda *_, name=name: fired.append(name))  # type: ignore[misc]
    layer(torch.randn(1, 3, 8))
    assert sorted(fired) == sorted(names)
    layer.q_proj = nn.Sequential(nn.Linear(8, 2), nn.Linear(2, 8))  # type: ignore[assignment]
    layer(torch.randn(1, 3, 8)).sum().backward()
    assert layer.q_proj[0].weight.grad is not None  # type: ignore[index]


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.sdpa is not None][::5])
def test_what_a_kernel_cannot_do_runs_on_a_slower_one(name: str, dtype: torch.dtype) -> None:
    """A3.53: without a backend named, a refusal is a choice and never an error, and warns of nothing."""
    call = CASES[name].make(dtype)
    fastest = next(b.name for b in backends.TABLE if CASES[name].refusal(b.name, dtype) is None)
    assert fastest == "blocked" or (fastest == "native" and dtype == torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        within(call.run(None).out, call.run(fastest).out, 0.0, "out")
    assert hw.explain(call.q, call.k, call.v, **call.options).chosen == fastest


def test_falling_back_to_the_quadratic_form_warns_once_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """A3.53."""
    monkeypatch.setattr(backends, "_warned", set())
    q, k, v = operands()
    weight = torch.ones((), dtype=F64, requires_grad=True)
    rules = (hw.ScoreRule(lambda s, b, h, i, j: s * weight),)
    with pytest.warns(RuntimeWarning, match="whole T x S pattern.*gradient"):
        first = hw.attention(q, k, v, scores=rules)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = hw.attention(q, k, v, scores=rules)
    assert torch.equal(first, second)
    first.sum().backward()
    assert weight.grad is not None
    with pytest.raises(hw.UnsupportedError, match="ScoreRule"):
        hw.attention(q, k, v, scores=rules, backend="blocked")


@pytest.mark.parametrize("shape", [(1, 1, 5, 7), (2, 1, 1, 7), (1, 2, 5, 7), (2, 2, 5, 1), (5, 7), (7,), ()])
@pytest.mark.parametrize("backend", BACKENDS)
def test_additive_biases_of_every_broadcast_shape(shape: tuple[int, ...], backend: str) -> None:
    """A3.55: read with their own strides, never expanded."""
    q, k, v = operands()
    bias = torch.randn(shape, dtype=F64)
    got = hw.attention(q, k, v, scores=(hw.Bias(bias),), backend=backend)
    within(got, torch.softmax(q @ k.mT / 2 + bias, -1) @ v, 1e-13, "out")


@pytest.mark.parametrize("backend", [*BACKENDS, None])
@pytest.mark.parametrize("which", ["bias", "slopes", "table", "sinks"])
def test_gradients_where_only_the_option_needs_one(which: str, backend: Any) -> None:
    """A3.56: q, k and v are plain numbers, as when a bias alone is trained."""
    q, k, v = operands()
    parameter = torch.randn({"bias": (2, 1, 7), "slopes": (2,), "table": (2, 5), "sinks": (2,)}[which], dtype=F64)
    parameter.requires_grad_()
    make = {
        "bias": lambda: {"scores": (hw.Bias(parameter),)},
        "slopes": lambda: {"scores": (hw.Alibi(parameter),)},
        "table": lambda: {"scores": (hw.RelativeBias(parameter, 2),)},
        "sinks": lambda: {"sinks": parameter},
    }
    options: dict[str, Any] = make[which]()
    got = torch.autograd.grad(hw.attention(q, k, v, **options, backend=backend).square().sum(), parameter)[0]
    want = torch.autograd.grad(define(Call(q, k, v, options)).out.square().sum(), parameter)[0]
    within(got, want, 1e-12, which)
    assert float(want.abs().max()) > 1e-3


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_sink_is_one_more_column_that_carries_nothing(backend: str) -> None:
    """A3.58: concatenated and dropped again in float64, output and gradients."""
    q, k, v = (x.requires_grad_() for x in operands())
    sinks = torch.randn(2, dtype=F64, requires_grad=True)
    leaves = (q, k, v, sinks)
    got = hw.attention(q, k, v, sinks=sinks, backend=backend)
    column = sinks[:, None, None].expand(2, 2, 5, 1)
    want = torch.cat([q @ k.mT / 2, column], -1).softmax(-1)[..., :-1] @ v
    within(got, want, 1e-13, "out")
    for a, b in zip(
        torch.autograd.grad(got.square().sum(), leaves), torch.autograd.grad(want.square().sum(), leaves), strict=True
    ):
        within(a, b, 1e-12, "gradient")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_soft_cap_is_really_there(backend: str) -> None:
    """A3.59: equal to tanh in float64, and not equal to no cap."""
    q, k, v = operands()
    got = hw.attention(3 * q, k, v, scores=(hw.SoftCap(1.0),), backend=backend)
    within(got, torch.tanh(3 * q @ k.mT / 2).softmax(-1) @ v, 1e-13, "out")
    assert float((got - hw.attention(3 * q, k, v)).abs().max()) > 0.1


@pytest.mark.parametrize("backend", ["reference", "blocked", "sdpa"])
def test_a_gradient_penalty_trains(backend: str) -> None:
    """A3.61: the derivative of a squared gradient, five tokens, against the definition's."""
    results = []
    call = Draw(F64, 2).call(fused=True, B=1, H=1, T=5, S=5, D=3, mask=hw.Causal())
    for run in (lambda c: c.run(backend).out, lambda c: define(c).out):
        made, leaves = call.fresh()
        (slope,) = torch.autograd.grad(run(made).sum(), leaves["q"], create_graph=True)
        results.append(torch.autograd.grad(slope.square().sum(), list(leaves.values()), allow_unused=True))
    for pair in zip(*results, strict=True):
        found, want = (torch.zeros(1, dtype=F64) if x is None else x for x in pair)
        within(found, want, 1e-11, "second derivative")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("causal", [False, True])
def test_packed_sequences_are_a_loop_over_them(backend: str, causal: bool) -> None:
    """A3.64: lengths 3, 0 and 5 in one row of 8 tokens, no padding, on the CPU and in float64."""
    q, k, v = operands(B=1, T=8, S=8)
    mask: hw.spec.Mask = hw.Documents.from_offsets(torch.tensor([0, 3, 3, 8]))
    got = hw.attend(q, k, v, mask=mask & hw.Causal() if causal else mask, backend=backend)
    for part in (slice(0, 3), slice(3, 3), slice(3, 8)):
        piece = hw.attend(
            *(x[:, :, part] for x in (q, k, v)), mask=hw.Causal() if causal else None, backend="reference"
        )
        within(got.out[:, :, part], piece.out, 1e-13, "out")
        within(got.lse[:, :, part], piece.lse, 1e-13, "lse")


@pytest.mark.parametrize("backend", BACKENDS)
def test_packed_sequences_of_differing_key_lengths(backend: str) -> None:
    """A3.64: queries 1, 2, 0 against keys 4, 0, 3: the document without keys leaves empty rows."""
    q, k, v = operands(B=1, T=3, S=7)
    mask = hw.Documents.from_offsets(torch.tensor([0, 1, 3, 3]), torch.tensor([0, 4, 4, 7]))
    got = hw.attention(q, k, v, mask=mask, backend=backend)
    within(got[:, :, :1], hw.attention(q[:, :, :1], k[:, :, :4], v[:, :, :4]), 1e-13, "out")
    assert bool((got[:, :, 1:] == 0).all())


def test_one_table_of_what_is_supported_and_it_is_true() -> None:
    """A3.66: what explain says of each backend, for every case, is what happens when it is named."""
    for name, case in CASES.items():
        call = case.make(torch.float32)
        said = hw.explain(call.q, call.k, call.v, **call.options)
        assert {"reference", "blocked", "sdpa", "native", "flex", "triton"} <= set(said.reasons), name
        for backend, reason in said.reasons.items():
            if reason == "can run":
                call.run(backend)
                continue
            with pytest.raises((hw.UnsupportedError, hw.UnavailableError)) as error:
                call.run(backend)
            assert reason in str(error.value), name
        assert said.reasons[said.chosen] == "can run", name


def test_nothing_warns_at_import() -> None:
    """A library that warns when it is imported cannot be used under -W error."""
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "error",
            "-c",
            "import headwise, torch; headwise.attention(*[torch.ones(1, 1, 2, 2)] * 3)",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("H", [1, 2, 3, 8])
def test_grouped_and_single_key_heads_are_repeated_ones(backend: str, H: int) -> None:
    """Heads that share keys say what they say with the keys repeated."""
    q, k, v = operands(H=2 * H, Hk=H)
    wide = hw.attention(q, *(x.repeat_interleave(2, 1) for x in (k, v)), mask=hw.Causal(), backend="reference")
    within(hw.attention(q, k, v, mask=hw.Causal(), backend=backend), wide, 1e-13, "grouped")
    one = hw.attention(q, *(x[:, :1].expand(-1, 2 * H, -1, -1) for x in (k, v)), backend="reference")
    within(hw.attention(q, k[:, :1], v[:, :1], backend=backend), one, 1e-13, "one key head")


def test_what_observing_returns_is_detached_and_lse_is_not() -> None:
    q, k, v = (x.requires_grad_() for x in operands())
    got = hw.attend(q, k, v, observe=[hw.Entropy(), hw.TopKeys(2)])
    assert got.out.requires_grad and got.lse.requires_grad
    tensors: list[Tensor] = [got.seen["entropy"], *got.seen["top_keys"], got.pattern.to_dense()]
    assert not any(x.requires_grad for x in tensors)
