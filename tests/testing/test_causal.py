"""check_causal: what is causal passes, what leaks is named by its first leak, and nothing is left changed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.testing import Leak, check_causal

M, T = 16, 12


def example(length: int = T, batch: int = 2) -> Tensor:
    return torch.randn(batch, length, M, generator=torch.Generator().manual_seed(1))


def attention(**options: Any) -> nn.Module:
    torch.manual_seed(0)
    return hw.MultiHeadAttention(M, 4, **options)


class Mixing(nn.Module):
    """A softmax over positions with a mask of its own: row i sees column j where ``sees`` says so."""

    def __init__(self, sees: Callable[[Tensor, Tensor], Tensor], size: float = 1.0) -> None:
        super().__init__()
        self.sees, self.size = sees, size

    def forward(self, x: Tensor) -> Tensor:
        at = torch.arange(x.shape[1])
        score = (self.size * x @ x.mT / M).masked_fill(~self.sees(at[:, None], at), -torch.inf)
        return score.softmax(-1) @ x


# --- clean -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"mask": hw.Causal()},
        {"mask": hw.Causal() & hw.Window(3)},
        {"mask": hw.Causal(), "rotary": hw.nn.Rotary(), "kv_heads": 2},
        {"mask": hw.Causal() & hw.Chunks(5), "scores": (hw.SoftCap(3.0), hw.Alibi(torch.rand(4))), "sinks": "learned"},
        {"mask": hw.Causal(), "backend": "blocked", "gate": "head", "qk_norm": "rms"},
        {"mask": hw.Causal(), "backend": "reference"},
        {"mask": hw.Causal(), "backend": "sdpa"},
        {"mask": hw.Causal(), "dropout": 0.2},
    ],
    ids=", ".join,
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_causal_layer_is_clean(options: dict[str, Any], dtype: torch.dtype) -> None:
    layer = attention(**options).to(dtype)
    found = check_causal(layer, example().to(dtype))
    assert (found.length, found.positions, found.methods) == (T, T - 1, ("perturbation", "gradient"))
    assert found.modes == (("eval", "training") if "dropout" in options else ("eval",))


def test_an_encoder_of_torch_with_and_without_its_mask() -> None:
    layer = nn.TransformerEncoderLayer(M, 4, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    mask = nn.Transformer.generate_square_subsequent_mask(T)
    assert check_causal(encoder, example(), mask=mask, is_causal=True).modes == ("eval", "training")
    with pytest.raises(Leak, match="output position 0 depends on input position 1 "):
        check_causal(encoder, example())


def llama(**changes: Any) -> Any:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.LlamaConfig(
        vocab_size=31, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, **changes
    )
    return transformers.LlamaForCausalLM(config)


def ids(vocabulary: int = 31, length: int = T) -> Tensor:
    return torch.randint(0, vocabulary, (2, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("implementation", ["eager", "sdpa", "headwise"])
def test_llama_is_clean(implementation: str) -> None:
    model = llama(num_key_value_heads=2)
    model = hw.use(model) if implementation == "headwise" else model
    if implementation != "headwise":
        model.set_attn_implementation(implementation)
    found = check_causal(model, ids())
    assert found.methods == ("perturbation", "gradient")


@pytest.mark.parametrize("head", [False, True])
def test_bert_leaks(head: bool) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.BertConfig(
        vocab_size=31, hidden_size=16, intermediate_size=24, num_hidden_layers=1, num_attention_heads=4
    )
    model = transformers.BertForMaskedLM(config) if head else transformers.BertModel(config)
    with pytest.raises(Leak, match=r"output position 0 depends on input position 1 .*in eval") as leak:
        check_causal(model, ids())
    assert (leak.value.i, leak.value.j) == (0, 1)


# --- leaks -------------------------------------------------------------------------------------------------------


def causal(i: Tensor, j: Tensor) -> Tensor:
    return j <= i


class Argmax(nn.Module):
    """Each position is told where the largest number of the whole text stands: no gradient says so."""

    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(1) + x[..., 0].argmax(1)[:, None, None]


class BatchNorm(nn.Module):
    """Statistics over all positions, while it trains."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(M)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.mT).mT


class Far(nn.Module):
    """A mask that was written for eight tokens: later ones see all."""

    def forward(self, x: Tensor) -> Tensor:
        return Mixing(lambda i, j: (j <= i) | (i >= 8))(x)


class One(nn.Module):
    """One position alone sees one later one."""

    def forward(self, x: Tensor) -> Tensor:
        out = x.cumsum(1)
        out[:, 4] += x[:, 9]
        return out


class Faint(nn.Module):
    """A leak that is lost in the rounding of what it is added to."""

    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(1) + 1e-9 * x.sum(1, keepdim=True)


@pytest.mark.parametrize(
    ("module", "i", "j", "method", "mode"),
    [
        (Mixing(lambda i, j: j >= 0), 0, 1, "perturbation", "eval"),
        (Mixing(lambda i, j: j <= i + 1), 0, 1, "perturbation", "eval"),
        (Mixing(lambda i, j: (j <= i) | (j == i + 3)), 0, 3, "perturbation", "eval"),
        (Far(), 8, 9, "perturbation", "eval"),
        (One(), 4, 9, "perturbation", "eval"),
        (Argmax(), 0, None, "perturbation", "eval"),
        (Faint(), 0, 1, "gradient", "eval"),
        (BatchNorm(), 0, 1, "perturbation", "training"),
        (hw.MultiHeadAttention(M, 4), 0, 1, "perturbation", "eval"),
        (hw.MultiHeadAttention(M, 4, mask=hw.Window(2, 1)), 0, 1, "perturbation", "eval"),
        (hw.MultiHeadAttention(M, 4, mask=hw.Causal() | hw.Prefix(5)), 0, 1, "perturbation", "eval"),
    ],
    ids=[
        "none",
        "one further",
        "one of them",
        "far",
        "one",
        "argmax",
        "faint",
        "batch norm",
        "no mask",
        "ahead",
        "prefix",
    ],
)
def test_the_first_leak_is_named(module: nn.Module, i: int, j: int | None, method: str, mode: str) -> None:
    with pytest.raises(Leak) as leak:
        check_causal(module, example())
    found = leak.value
    assert (found.i, found.method, found.mode) == (i, method, mode)
    assert found.j == j if j is not None else found.j > i
    assert found.by > 0
    assert f"output position {i} depends on input position {found.j}" in str(found)
    assert str(found).count(". ") == 0


def test_a_leak_of_ids_that_only_a_gradient_can_tell() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read = nn.Embedding(31, M)
            self.mix = Faint()

        def forward(self, tokens: Tensor) -> Tensor:
            return self.mix(self.read(tokens))

    with pytest.raises(Leak, match="by gradient"):
        check_causal(Model(), ids())


def test_a_shorter_example_does_not_show_it() -> None:
    assert check_causal(Far(), example(8)).positions == 7


def test_a_long_example_is_tried_at_some_places() -> None:
    found = check_causal(Mixing(causal), example(200, 1), places=9)
    assert (found.positions, str(found)[:48]) == (9, "causal over 200 positions: 9 of 199 places, by p")
    with pytest.raises(Leak) as leak:
        check_causal(Mixing(lambda i, j: (j <= i) | (i >= 150)), example(200, 1), places=9)
    assert leak.value.i == 150


# --- what it leaves, and refuses ---------------------------------------------------------------------------------


@pytest.mark.parametrize("leaks", [False, True])
def test_everything_is_as_it_was(leaks: bool) -> None:
    model = nn.Sequential(attention(mask=None if leaks else hw.Causal()), nn.LayerNorm(M), nn.Dropout(0.3))
    model.add_module("norm", nn.BatchNorm1d(T)) if leaks else None
    model.train()
    model[0].eval()
    x = example().requires_grad_()
    model(x).square().sum().backward()
    flags = [part.training for part in model.modules()]
    held = {name: value.clone() for name, value in model.state_dict().items()}
    grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    mine, state = x.grad.clone(), torch.get_rng_state()  # type: ignore[union-attr]
    with pytest.raises(Leak) if leaks else warnings.catch_warnings():
        check_causal(model, x)
    assert [part.training for part in model.modules()] == flags
    assert all(torch.equal(value, held[name]) for name, value in model.state_dict().items())
    assert all(torch.equal(p.grad, grads[n]) for n, p in model.named_parameters() if n in grads)  # type: ignore[arg-type]
    assert torch.equal(x.grad, mine) and torch.equal(torch.get_rng_state(), state)  # type: ignore[arg-type]
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_running_statistics_are_not_moved() -> None:
    model = BatchNorm()
    with pytest.raises(Leak):
        check_causal(model, example())
    assert int(model.norm.num_batches_tracked) == 0
    assert bool((model.norm.running_mean == 0).all())


def test_dropout_that_eval_does_not_end_is_refused_by_name() -> None:
    class Careless(nn.Module):
        dropout = 0.5

        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.dropout(x, self.dropout)

    model = nn.Sequential(Careless(), attention(mask=hw.Causal()))
    with pytest.raises(hw.UnsupportedError, match=r"two runs .* differ by .*dropout.*\(0\).*set its probability to 0"):
        check_causal(model, example())


@pytest.mark.parametrize(
    ("inputs", "options", "error", "text"),
    [
        ((), {}, hw.SpecError, "the first input is None; it is floats"),
        ((torch.zeros(2, 3) > 0,), {}, hw.SpecError, "it is floats .B,T,M. or token ids"),
        ((torch.zeros(3),), {}, hw.SpecError, "it is floats"),
        ((torch.zeros(2, 1, M),), {}, hw.SpecError, "from two positions on.*longer example"),
        ((torch.zeros(2, 5, M),), {"places": 0}, hw.SpecError, "places is 0"),
    ],
)
def test_inputs_that_cannot_be_checked(inputs: Any, options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        check_causal(nn.Identity(), *inputs, **options)


def test_outputs_that_cannot_be_checked() -> None:
    class Pooled(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mean(1)

    class Word(nn.Module):
        def forward(self, x: Tensor) -> str:
            return "yes"

    with pytest.raises(hw.ShapeError, match=r"differ in \[B,T\]"):
        check_causal(Pooled(), example())
    with pytest.raises(hw.SpecError, match="returns a str"):
        check_causal(Word(), example())
