"""torch.compile: attention inside one whole graph, forward, backward and for any size, and where a graph must end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import Unsupported
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils.checkpoint import checkpoint

import headwise as hw
from headwise.backends import Blocked


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def operands(B: int = 2, T: int = 5, S: int = 7, E: int = 8) -> list[Tensor]:
    generator = torch.Generator().manual_seed(B + 10 * T + 100 * S)
    shapes = (B, 4, T, 8), (B, 2, S, 8), (B, 2, S, E)
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]


def forward_and_backward(f: Callable[..., Tensor], args: tuple[Any, ...]) -> list[Tensor]:
    """The output, and the gradient of each argument that asks for one."""
    leaves = [x for x in args if isinstance(x, Tensor) and x.requires_grad]
    torch.manual_seed(3)
    out = f(*args)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), leaves)]


def whole(f: Callable[..., Tensor], *calls: tuple[Any, ...], tolerance: float = 0, **how: Any) -> None:
    """Compiles a function into one graph and compares with what it does uncompiled."""
    compiled = torch.compile(f, fullgraph=True, **{"backend": "aot_eager", **how})
    for args in calls:
        pairs = zip(forward_and_backward(compiled, args), forward_and_backward(f, args), strict=True)
        for found, wanted in pairs:
            torch.testing.assert_close(found, wanted, rtol=tolerance, atol=tolerance)


BEFORE = hw.Causal() & hw.Window(before=3)  # made outside of every graph
TOLD = torch.tensor([[True] * 7, [False] * 2 + [True] * 5])
MASKED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "none": (lambda: None, ()),
    "made outside": (lambda: BEFORE, ()),
    "handed over": (lambda mask: mask, (hw.Causal(align="start") | hw.Prefix(torch.tensor([1, 3])),)),
    "of tensors in the graph": (
        lambda lengths, ids: hw.Padding(lengths + 1, ids > 0) & hw.Documents(ids[0], TOLD.long()) | hw.Prefix(1),
        (torch.tensor([2, 5]), torch.tensor([[1, 1, 0, 1, 0]] * 2)),
    ),
    "written": (lambda keep: hw.Dense(keep) & hw.Blocks(keep[:3, :4], 2) & hw.Padding(TOLD), (torch.ones(5, 7) > 0,)),
    "chunks": (lambda start: hw.Chunks(3, start) | hw.Window(0, 1), (torch.tensor([0, 1]),)),
}


@pytest.mark.parametrize("name", MASKED)
def test_masks(name: str) -> None:
    made, parts = MASKED[name]
    whole(lambda q, k, v, *parts: hw.attention(q * 2, k, v, mask=made(*parts)).sin(), (*operands(), *parts))


def test_every_other_option_and_its_gradient() -> None:
    def f(q: Tensor, k: Tensor, v: Tensor, *more: Any) -> Tensor:
        slopes, table, bias, sinks, gate, start = more
        rules = [hw.SoftCap(3.0), hw.Alibi(slopes), hw.RelativeBias(table, 1), hw.Bias(bias)]
        rest = {"scale": 0.4, "q_start": start, "kv_heads": [0, 0, 0, 1], "sinks": sinks, "gate": gate}
        return hw.attention(q, k, v, mask=hw.Causal(), scores=rules, dropout=0.3, **rest)

    torch.manual_seed(0)
    shapes = (4,), (4, 3), (5, 7), (4,), (2, 4)
    learned = [torch.randn(shape).requires_grad_() for shape in shapes]
    whole(f, (*operands(E=6), *learned, torch.tensor([1, 2])), tolerance=1e-6)


@pytest.mark.parametrize("backend", ["blocked", "sdpa", "reference"])
def test_a_backend_by_its_name(backend: str) -> None:
    whole(lambda q, k, v: hw.attention(q, k, v, mask=hw.Causal(), backend=backend), tuple(operands(T=7)))


def test_one_graph_for_every_size() -> None:
    """Sizes, positions and widths of windows are symbols: nothing is compiled again for another number."""

    def f(q: Tensor, k: Tensor, v: Tensor, start: int, before: int) -> Tensor:
        return hw.attention(q, k, v, mask=hw.Causal() & hw.Window(before), q_start=start)

    # Numbers that are the same in the first call would be taken for one symbol: none are, but those of the heads.
    calls = [
        (*operands(B, T, S), start, n) for B, T, S, start, n in ((3, 5, 7, 11, 6), (5, 6, 9, 4, 7), (9, 3, 10, 6, 2))
    ]
    for dynamic, seen in ((True, 1), (None, 2)):  # left to itself, torch learns from the second call which sizes change
        torch._dynamo.reset()
        counter = CompileCounterWithBackend("aot_eager")
        whole(f, *calls[:seen], backend=counter, dynamic=dynamic)
        before = counter.frame_count  # torch itself may compile a function twice before it runs it once
        whole(f, *calls, backend=counter, dynamic=dynamic)
        assert counter.frame_count == before > 0


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # of torch, on the way to inductor
def test_inductor() -> None:
    def f(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
        kept = hw.attention(q * 2, k, v.sin(), mask=hw.Causal() & hw.Padding(lengths), dropout=0.4)
        return hw.attention(kept, k, v, mask=hw.Window(2)).cos()

    calls = [(*operands(T=T, S=S), torch.tensor([3, 6])) for T, S in ((5, 7), (4, 8))]
    whole(f, *calls, backend="inductor", dynamic=True, tolerance=1e-5)


def test_a_layer_and_its_parameters() -> None:
    torch.manual_seed(0)
    layer = hw.MultiHeadAttention(16, 4, 2, mask=hw.Causal(), dropout=0.2)
    parameters = dict(layer.named_parameters())

    def f(x: Tensor, lengths: Tensor, *values: Tensor) -> Tensor:
        named = dict(zip(parameters, values, strict=True))
        return torch.func.functional_call(layer, named, (x,), {"mask": hw.Padding(lengths)})

    x = torch.randn(2, 5, 16, requires_grad=True)
    whole(f, (x, torch.tensor([3, 5]), *parameters.values()), tolerance=1e-6)
    compiled = torch.compile(layer.eval(), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), layer(x), rtol=0, atol=0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(compiled(x), layer(x), rtol=0, atol=0)


def test_what_is_checkpointed_drops_the_same_cells_again() -> None:
    def layer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return hw.attention(q.sin(), k, v, mask=hw.Causal(), dropout=0.5)

    whole(lambda q, k, v: checkpoint(layer, q, k, v, use_reentrant=False).cos(), tuple(operands()))


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_derivatives_and_further_axes_inside_of_the_graph(dropout: float) -> None:
    def f(q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
        options: dict[str, Any] = {"mask": hw.Causal() & hw.Padding(lengths), "dropout": dropout}
        return torch.func.grad(lambda q: hw.attention(q, k, v, **options).sin().sum())(q)

    whole(f, (*operands(), torch.tensor([3, 6])))
    if not dropout:
        plain = lambda q, k, v: torch.vmap(lambda q: hw.attention(q, k, v, mask=hw.Causal()))(torch.stack([q, q * 2]))  # noqa: E731
        whole(plain, tuple(operands()))


def test_export() -> None:
    class Model(torch.nn.Module):
        def forward(self, q: Tensor, lengths: Tensor) -> Tensor:
            return hw.attention(q, q, q, mask=hw.Causal() & hw.Padding(lengths)) + 1

    args = (operands()[0].detach(), torch.tensor([3, 5]))
    for strict in (False, True):
        exported = torch.export.export(Model(), args, strict=strict)
        assert "headwise.attention" in exported.graph_module.code
        torch.testing.assert_close(exported.module()(*args), Model()(*args), rtol=0, atol=0)


RULE, SCORE = hw.Rule(lambda b, h, i, j: i >= j), hw.ScoreRule(lambda score, b, h, i, j: score + 1)
# What no graph holds, and a part of the sentence that says so.
OUTSIDE: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "a rule": (lambda x: hw.attention(x, x, x, mask=hw.Causal() & RULE), "the mask holds a Rule"),
    "a rule made inside": (
        lambda x: hw.attention(x, x, x, mask=hw.Rule(lambda b, h, i, j: i >= j)),
        "the mask holds a Rule",
    ),
    "a score rule": (lambda x: hw.attention(x, x, x, scores=(SCORE,)), "scores hold a ScoreRule"),
    "a backend of one's own": (lambda x: hw.attention(x, x, x, backend=Blocked()), "the backend is a Blocked"),
    "offsets": (
        lambda x: hw.attention(x, x, x, mask=hw.Documents.from_offsets(torch.tensor([0, 2, 5]))),
        "make the mask outside of the graph",
    ),
    "attend": (
        lambda x: hw.attend(x, x, x, observe=[hw.Entropy()]).seen["entropy"],
        "attend: a pattern and the answers",
    ),
    "a pattern": (lambda x: hw.Pattern(x, x, mask=hw.Causal())[0, 0], "Pattern: a pattern is no tensor"),
    "explain": (lambda x: x * len(hw.explain(x, x, x).chosen), "explain: an explanation is no tensor"),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_no_graph_holds_ends_it_or_says_so(name: str) -> None:
    f, said = OUTSIDE[name]
    x = operands()[0].detach()
    wanted = f(x * 2) + 1
    torch.testing.assert_close(torch.compile(lambda x: f(x * 2) + 1, backend="eager")(x), wanted, rtol=0, atol=0)
    torch._dynamo.reset()
    with pytest.raises(Unsupported, match=said):
        torch.compile(lambda x: f(x * 2) + 1, backend="eager", fullgraph=True)(x)


WRONG: dict[str, Callable[[Tensor], Tensor]] = {
    "heads": lambda x: hw.attention(x, x[:, :3], x[:, :3]),
    "axes": lambda x: hw.attention(x[0], x, x),
    "dtype": lambda x: hw.attention(x, x.double(), x),
    "lengths": lambda x: hw.attention(x, x, x, mask=hw.Padding(torch.tensor([1, 2, 3]))),
    "backend": lambda x: hw.attention(x, x, x, backend="none"),
    "refusal": lambda x: hw.attention(x, x, x, sinks=torch.zeros(4), backend="sdpa"),
    "scale": lambda x: hw.attention(x, x, x, scale=float("nan")),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_the_same_sentences(name: str) -> None:
    x = operands()[0].detach()
    with pytest.raises(hw.errors.HeadwiseError) as wanted:
        WRONG[name](x)
    with pytest.raises(type(wanted.value)) as found:
        torch.compile(WRONG[name], backend="eager", fullgraph=True)(x)
    assert str(found.value) == str(wanted.value)


def test_errors_that_the_compiler_meets_itself() -> None:
    """What is wrong before there is a tensor to run on is an error of the graph; without one it is the sentence."""
    x = operands()[0].detach()
    for f in (lambda x: hw.attention(x, x, x, gate=torch.ones(3)), lambda x: hw.attention(x, x, x, mask=hw.Window(-1))):
        with pytest.raises(hw.errors.HeadwiseError) as wanted:
            f(x)
        torch._dynamo.reset()
        with pytest.raises(type(wanted.value)) as found:
            torch.compile(f, backend="eager")(x)
        assert str(found.value) == str(wanted.value)
