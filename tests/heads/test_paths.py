"""Paths through attention-only models sum to the logits, each against the product of its dense matrices in float64."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.errors import SpecError, UnsupportedError
from headwise.heads.paths import paths

IDS = torch.tensor([[5, 9, 3, 5, 9, 7, 3], [8, 8, 2, 6, 8, 1, 4]])


def attention_only(zoo: Any, name: str, layers: int = 2) -> Any:
    """A tiny model in float64 whose feed-forwards add nothing and whose norms have gains and shifts."""
    changes: dict[str, Any] = {"n_layer": layers} if name == "gpt2" else {"num_hidden_layers": layers}
    if name == "gemma2":
        changes["final_logit_softcapping"] = None
    if name == "granite":
        changes |= {"residual_multiplier": 0.5, "embedding_multiplier": 3.0, "logits_scaling": 4.0}
    model = zoo.model(name, **changes).double()
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for module in model.modules():
            if type(module).__name__.endswith("MLP"):
                for parameter in module.parameters():
                    parameter.zero_()
            elif "Norm" in type(module).__name__:
                for parameter in module.parameters():
                    parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def own_logits(model: Any, ids: Tensor) -> Tensor:
    with torch.no_grad():
        logits = model(ids).logits[:, :-1]
    return logits.gather(-1, ids[:, 1:, None])[..., 0]


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2", "gpt_neox", "granite"])
def test_paths_of_two_layers_are_all_there_is(zoo: Any, name: str) -> None:
    model = attention_only(zoo, name)
    found = paths(model, input_ids=IDS)
    assert found.two.shape == (2, 4, 2, 4, 2, 7)
    own = own_logits(model, IDS)
    torch.testing.assert_close(found.logit[:, :-1], own, atol=1e-6, rtol=1e-6)  # eager softmax is float32
    # LayerNorm keeps float64, the RMSNorms of transformers work in float32
    tolerance = 1e-12 if name in ("gpt2", "gpt_neox") else 1e-6
    assert float(found.rest[:, :-1].abs().max()) < tolerance * float(own.abs().max())
    assert float(found.two[0, :, 1, :, :, :-1].abs().max()) > 1e-3
    assert bool(found.two[1].isnan().all() and found.two[:, :, 0].isnan().all() and found.one[..., -1].isnan().all())


class Dense:
    """A Llama taken apart by hand: eager patterns, sizes by hooks, every head an [T, M] -> [T, M] map."""

    def __init__(self, model: Any) -> None:
        self.sizes: dict[nn.Module, Tensor] = {}
        self.added: dict[nn.Module, Tensor] = {}
        for module in model.modules():
            if "RMSNorm" in type(module).__name__:
                module.register_forward_hook(self.note)
            elif type(module).__name__.endswith("MLP"):
                module.register_forward_hook(lambda module, _args, out: self.added.__setitem__(module, out))
        model.set_attn_implementation("eager")
        with torch.no_grad():
            self.patterns = model(IDS, output_attentions=True).attentions
        self.model = model

    def note(self, module: Any, args: tuple[Tensor], _out: Tensor) -> None:
        self.sizes[module] = (args[0].square().mean(-1, keepdim=True) + module.variance_epsilon).sqrt()

    def head(self, layer: int, head: int, x: Tensor) -> Tensor:
        block = self.model.model.layers[layer]
        norm, attention = block.input_layernorm, block.self_attn
        rows = slice(8 * head, 8 * head + 8)
        W_V = attention.v_proj.weight.detach()[8 * (head // 2) : 8 * (head // 2) + 8]
        values = x / self.sizes[norm] * norm.weight.detach() @ W_V.T
        return self.patterns[layer][:, head] @ values @ attention.o_proj.weight.detach()[:, rows].T

    def logits(self, x: Tensor) -> Tensor:
        norm = self.model.model.norm
        rows = (x / self.sizes[norm] * norm.weight.detach()) @ self.model.lm_head.weight.detach().T
        return rows[:, :-1].gather(-1, IDS[:, 1:, None])[..., 0]


def test_each_path_and_what_is_left_of_three_layers(zoo: Any) -> None:
    model = attention_only(zoo, "llama", layers=3)
    found = paths(model, input_ids=IDS)
    dense = Dense(model)
    E = model.model.embed_tokens.weight.detach()[IDS]

    def check(ours: Tensor, own: Tensor) -> None:
        torch.testing.assert_close(ours[..., :-1], own, atol=1e-6, rtol=1e-6)

    check(found.direct, dense.logits(E))
    for layer, head in itertools.product(range(3), range(4)):
        check(found.one[layer, head], dense.logits(dense.head(layer, head, E)))
    for (l1, l2), h1, h2 in itertools.product(((0, 1), (0, 2), (1, 2)), (0, 3), (1, 2)):
        check(found.two[l1, h1, l2, h2], dense.logits(dense.head(l2, h2, dense.head(l1, h1, E))))
    through_three = sum(
        dense.logits(dense.head(2, h3, dense.head(1, h2, dense.head(0, h1, E))))
        for h1, h2, h3 in itertools.product(range(4), repeat=3)
    )
    check(found.rest, through_three)  # type: ignore[arg-type]
    assert float(found.biases[:, :-1].abs().max()) == 0.0


def test_differences_of_logits(zoo: Any) -> None:
    model = attention_only(zoo, "gpt2")
    right, wrong = torch.tensor([5, 9]), torch.tensor([7, 7])
    found = paths(model, right, wrong, input_ids=IDS)
    one, two = paths(model, right, input_ids=IDS), paths(model, wrong, input_ids=IDS)
    for ours, a, b in zip(vars(found).values(), vars(one).values(), vars(two).values(), strict=True):
        torch.testing.assert_close(ours, a - b, equal_nan=True)


def test_feed_forwards_are_refused_or_left_over(zoo: Any) -> None:
    model = zoo.model("llama").double()
    with pytest.raises(UnsupportedError, match=r"the feed-forward of model\.layers\.0 adds something.*ignore"):
        paths(model, input_ids=IDS)
    found = paths(model, feed_forward="ignore", input_ids=IDS)
    dense = Dense(model)
    first, second = (dense.added[layer.mlp] for layer in model.model.layers)
    of_feed_forwards = dense.logits(first + second) + sum(dense.logits(dense.head(1, h, first)) for h in range(4))
    assert float(of_feed_forwards.abs().max()) > 0.1
    torch.testing.assert_close(found.rest[:, :-1], of_feed_forwards, atol=1e-5, rtol=1e-5)


def test_refusals(zoo: Any) -> None:
    with pytest.raises(SpecError, match="feed_forward is 'no'"):
        paths(zoo.model("llama"), feed_forward="no", input_ids=IDS)
    model = attention_only(zoo, "llama")
    with hw.ablate(model, {0: [1]}), pytest.raises(SpecError, match=r"^paths: heads of .*layers\.0.* are edited"):
        paths(model, input_ids=IDS)
    with pytest.raises(UnsupportedError, match="reads another stack"):
        paths(zoo.model("t5"), feed_forward="ignore", **zoo.batch("t5"))
    with pytest.raises(UnsupportedError, match="has no unembedding"):
        paths(zoo.model("bert"), input_ids=IDS)
