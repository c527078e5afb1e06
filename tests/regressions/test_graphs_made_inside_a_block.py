"""torch.compile, torch.export, torch.jit and torch.fx inside everywhere() crashed, or made graphs nobody can run."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headwise as hw

sdpa = F.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def torchscript_is_deprecated() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # torch's own code asks sizes
        yield


class Causal(nn.Module):
    def forward(self, q: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q, q, None, 0.0, True)


class Masked(nn.Module):
    def forward(self, q: Tensor) -> Tensor:
        mask = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).tril() | (q[:1, :1, :1, :1] > 100.0)
        out = sdpa(q, q, q, attn_mask=mask)
        return out.view(q.shape[0] * q.shape[1], q.shape[2], q.shape[3])


class Weights(nn.Module):
    def __init__(self, need_weights: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.need_weights = need_weights

    def forward(self, x: Tensor) -> Tensor:
        out, weights = self.attention(x, x, x, need_weights=self.need_weights)
        return out if weights is None else torch.cat([out, weights], -1)


def stack() -> nn.Module:
    return nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0), 2)


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "op": (Causal, (2, 3, 5, 8)),
    "mask": (Masked, (2, 3, 5, 8)),
    "module": (lambda: Weights(False), (2, 5, 16)),
    "weights": (lambda: Weights(True), (2, 5, 16)),
    "encoder": (stack, (2, 5, 16)),
}
of_every_model = pytest.mark.parametrize("name", MODELS)


def model_and_input(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    make, shape = MODELS[name]
    return make().eval(), torch.randn(shape)


def close(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@of_every_model
@pytest.mark.parametrize("grad", [False, True])
def test_compiled_whole_and_called_inside(name: str, grad: bool) -> None:
    model, x = model_and_input(name)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    with torch.set_grad_enabled(grad):
        want = model(x)
        with hw.everywhere():
            got = compiled(x)
        close(got, want)
        assert got.stride() == want.stride()
        close(compiled(x), want)  # outside again: made again, or torch's own
        with hw.everywhere():
            close(compiled(x), want)
        if grad and want.requires_grad:
            pairs = [torch.autograd.grad(out.square().sum(), list(model.parameters())) for out in (got, want)]
            for a, b in zip(*pairs, strict=True):
                torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_what_is_compiled_inside_goes_through_headwise() -> None:
    graphs: list[Any] = []

    def keep(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph

    compiled = torch.compile(lambda q: sdpa(q, q, q), fullgraph=True, backend=keep)
    q = torch.randn(2, 3, 5, 8)
    with hw.everywhere():
        close(compiled(q), sdpa(q, q, q))
    close(compiled(q), sdpa(q, q, q))
    names = [[str(node.target) for node in graph.graph.nodes if node.op == "call_function"] for graph in graphs]
    assert any("headwise.attention" in name for name in names[0])
    assert not any("headwise" in name for name in names[1])


@pytest.mark.parametrize("whole", [False, True])
def test_a_block_opened_in_compiled_code(whole: bool) -> None:
    def opens(q: Tensor) -> Tensor:
        with hw.everywhere():
            return F.scaled_dot_product_attention(q, q, q) + 1

    q = torch.randn(2, 3, 5, 8)
    compiled = torch.compile(opens, backend="aot_eager", fullgraph=whole)
    if whole:
        sentence = "everywhere: the block is opened inside a compiled function"
        with pytest.raises(torch._dynamo.exc.Unsupported, match=sentence):
            compiled(q)
    else:
        close(compiled(q), opens(q))


@of_every_model
@pytest.mark.parametrize("strict", [False, True])
def test_exported(name: str, strict: bool) -> None:
    model, x = model_and_input(name)
    want = model(x)
    with hw.everywhere():
        program = torch.export.export(model, (x,), strict=strict)
    close(program.module()(x), want)


@of_every_model
@pytest.mark.parametrize("how", ["script", "trace"])
def test_torchscript(name: str, how: str) -> None:
    if name == "mask" and how == "script":
        pytest.skip("a name of the op that is no name in torch: TorchScript knows it outside of the block only")
    model, x = model_and_input(name)
    make = torch.jit.script if how == "script" else lambda m: torch.jit.trace(m, (x,), check_trace=False)
    want, before = model(x), make(model)
    with hw.everywhere():
        close(before(x), want)
        made = make(model)
        close(made(x), want)
    close(made(x + 0), want)


def test_scripted_first_inside_a_block() -> None:
    """In a fresh process: TorchScript keeps what it once compiled."""
    code = """
import torch, headwise as hw, warnings
warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
stack, x = torch.nn.TransformerEncoder(layer, 2).eval(), torch.randn(2, 5, 16)
attention = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()
with hw.everywhere():
    one, two = torch.jit.script(stack), torch.jit.script(attention)
assert torch.allclose(one(x), stack(x), atol=1e-5)
assert torch.allclose(two(x, x, x)[0], attention(x, x, x)[0], atol=1e-5)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@of_every_model
def test_traced_by_make_fx(name: str) -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    model, x = model_and_input(name)
    with torch.no_grad():
        want = model(x)
        with hw.everywhere():
            made = make_fx(model)(x)
        close(made(x), want)


def test_traced_by_fx() -> None:
    model, q = Causal(), torch.randn(2, 3, 5, 8)
    with hw.everywhere():
        made = torch.fx.symbolic_trace(model)
        close(made(q), model(q))
    close(made(q), model(q))
