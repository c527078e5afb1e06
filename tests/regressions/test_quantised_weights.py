"""Weights quantised by torchao look like float tensors of an nn.Linear; to read or cut them ended in its own error.

The class below is one of that kind: it knows the product, and raises NotImplementedError for what else is done to it.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from zoo import Zoo

import headwise as hw
from headwise.models.projections import projections
from headwise.nn import convert, torch_compat
from headwise.nn.torch_compat import MultiheadAttention

REFUSED = r"is a .*test_quantised_weights.Quantised; .*[dD]equantise it first"


class Quantised(Tensor):
    """Eight bits and a scale a row, with the face of a float tensor."""

    @staticmethod
    def __new__(cls, numbers: Tensor, scale: Tensor) -> Any:
        return Tensor._make_wrapper_subclass(cls, numbers.shape, dtype=scale.dtype, device=numbers.device)

    def __init__(self, numbers: Tensor, scale: Tensor) -> None:
        self.numbers, self.scale = numbers, scale

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return "Quantised()"

    def dequantise(self) -> Tensor:
        return self.numbers * self.scale

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.nn.functional.linear:
            return func(args[0], args[1].dequantise(), *args[2:])
        return super().__torch_function__(func, types, args, kwargs or {})

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.ops.aten.detach.default:
            return cls(args[0].numbers, args[0].scale)
        raise NotImplementedError(f"Quantised dispatch: attempting to run unimplemented operator {func}")


def quantise(*linears: Any) -> None:
    for linear in linears:
        weight = linear.weight.detach()
        scale = weight.abs().amax(-1, keepdim=True) / 127
        quantised = Quantised((weight / scale).round().to(torch.int8), scale)
        linear.weight = nn.Parameter(quantised, requires_grad=False)


def quantised_model(*parts: str) -> Any:
    model = Zoo().model("llama")
    for layer in model.model.layers:
        quantise(*(getattr(layer.self_attn, part) for part in parts))
    return model


def state_of(model: nn.Module) -> list[Any]:
    return [
        (name, {key: id(tensor) for key, tensor in part._parameters.items()}, sorted(vars(part)))
        for name, part in model.named_modules()
    ]


READERS: dict[str, Any] = {
    "projections": lambda model: projections(model, 0),
    "ov": lambda model: hw.heads.ov(model, 0, 1),
    "qk": lambda model: hw.heads.qk(model, 0, 1),
    "copying": hw.heads.copying,
    "composition": lambda model: hw.heads.composition(model, "q"),
    "virtual": lambda model: hw.heads.virtual(model, (0, 1), (1, 2)),
    "contributions": lambda model: hw.heads.contributions(model, **Zoo().batch("llama")),
    "attribution": lambda model: hw.heads.attribution(model, **Zoo().batch("llama")),
    "prune": lambda model: hw.prune(model, {0: [1]}),
    "to_gqa": lambda model: hw.to_gqa(model, 1),
}


@pytest.mark.parametrize("parts", [("q_proj", "k_proj", "v_proj", "o_proj"), ("k_proj",), ("v_proj",)], ids="".join)
@pytest.mark.parametrize("reader", READERS)
def test_whatever_reads_weights_of_heads_refuses_them_by_name(reader: str, parts: tuple[str, ...]) -> None:
    model = quantised_model(*parts)
    before = state_of(model)
    with pytest.raises(hw.UnsupportedError, match=rf"the weight of model.layers.\d.self_attn.\w+ {REFUSED}"):
        READERS[reader](model)
    assert state_of(model) == before


def test_a_quantised_head_of_a_language_model() -> None:
    """Heads are read as ever; what goes through the unembedding is refused."""
    model = Zoo().model("llama")
    quantise(model.lm_head)
    assert hw.heads.ov(model, 0, 1).shape == (32, 32)
    for ask in (lambda: hw.heads.copying(model), lambda: hw.heads.ov(model, 0, 1, between="tokens")):
        with pytest.raises(hw.UnsupportedError, match=f"the weight of the unembedding {REFUSED}"):
            ask()


def test_a_quantised_model_is_used_observed_and_tabled() -> None:
    plain = Zoo().model("llama")
    model = quantised_model("q_proj", "k_proj", "v_proj", "o_proj")
    batch = Zoo().batch("llama", "left")
    want = Zoo().result(model, batch)
    model = hw.use(model)
    torch.testing.assert_close(Zoo().result(model, batch), want, rtol=1e-5, atol=1e-4)
    assert not torch.allclose(want, Zoo().result(plain, batch), atol=1e-6)
    with hw.observe(model, hw.Entropy()) as seen, torch.no_grad():
        model(**batch)
    assert seen["entropy"].shape == (2, 2, 4, 10)
    table = hw.head_table(model, None, [[5, 6, 7, 5, 6, 7]], random_tokens=False)
    assert "entropy" in table.columns
    assert "contribution" not in table.columns


def test_states_and_weights_that_are_handed_over() -> None:
    layer = hw.MultiHeadAttention(16, 4)
    quantise(layer.q_proj)
    state = dict(layer.state_dict())
    for ask in (
        lambda: convert.to_state(state, "llama"),
        lambda: convert.from_state(state, "llama"),
        lambda: convert.to_torch(layer),
        lambda: convert.rope_pairing(state["q_proj.weight"], 4, "halves", "neighbours"),
    ):
        with pytest.raises(hw.UnsupportedError, match=rf"weight {REFUSED}"):
            ask()
    x = torch.randn(1, 4, 3, 4)
    with pytest.raises(hw.UnsupportedError, match=f"w_o {REFUSED.replace('dD', 'D')}"):
        hw.attend(x, x, x, observe=[hw.Contribution(state["q_proj.weight"])])


def test_layers_whose_linears_are_quantised_call_them() -> None:
    x = torch.randn(2, 5, 16)
    sizes = {"kv_rank": 8, "nope_dim": 4, "rope_dim": 2, "v_dim": 4}
    for layer in (hw.MultiHeadAttention(16, 4), hw.nn.LatentAttention(16, 4, **sizes), MultiheadAttention(16, 4)):
        linears = [part for part in layer.modules() if type(part) is nn.Linear]
        quantise(*linears)
        with torch.no_grad():
            found = layer(x, x, x)[0] if isinstance(layer, MultiheadAttention) else layer(x)
            for part in linears:
                part.weight = nn.Parameter(part.weight.dequantise())
            want = layer(x, x, x)[0] if isinstance(layer, MultiheadAttention) else layer(x)
        torch.testing.assert_close(found, want, rtol=1e-5, atol=1e-5)
    layer = hw.nn.LatentAttention(16, 4, **sizes, form="absorbed")
    quantise(layer.kv_b_proj)
    with pytest.raises(hw.SpecError, match="is wrapped, quantised or has hooks"):
        layer(x)
    assert torch_compat.replace(nn.MultiheadAttention(16, 4)).out_proj.weight is not None
