"""Fewer key/value heads: what they are made of, that they are saved, and that training goes on."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from zeroed import LLAMAS, close

import headwise as hw
from headwise.errors import SpecError, UnsupportedError


def by_loops(weight: Tensor, groups: int, how: str) -> Tensor:
    """The new rows, head by head; weight [4 * 8, ...]."""
    share = 4 // groups
    rows = []
    for g in range(groups):
        heads = [weight[(g * share + n) * 8 : (g * share + n + 1) * 8] for n in range(share)]
        rows.append(sum(heads) / share if how == "mean" else heads[0])
    return torch.cat(rows)


def repeated(model: Any, groups: int) -> Any:
    """The same model with one key/value head a query head, each group's repeated: it must compute the same."""
    copied = copy.deepcopy(model)
    for layer in copied.model.layers:
        attention = layer.self_attn
        for linear in (attention.k_proj, attention.v_proj):
            for name, old in list(linear.named_parameters()):
                heads = old.detach().unflatten(0, (groups, 8)).repeat_interleave(4 // groups, 0).flatten(0, 1)
                setattr(linear, name, torch.nn.Parameter(heads))
        attention.num_key_value_groups = 1
    return copied


@pytest.mark.parametrize("how", ["mean", "first"])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("name", LLAMAS)
def test_the_new_heads(name: str, groups: int, how: str, zoo: Any, tmp_path: Path) -> None:
    model = zoo.model(name, num_key_value_heads=4)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    assert hw.to_gqa(model, groups, how) is model
    for key, tensor in model.state_dict().items():
        made = "self_attn.k_proj" in key or "self_attn.v_proj" in key
        torch.testing.assert_close(tensor, by_loops(before[key], groups, how) if made else before[key])
    wanted = zoo.result(repeated(model, groups), zoo.batch(name, "left"))
    close(zoo.result(model, zoo.batch(name, "left")), wanted)
    model.save_pretrained(tmp_path)
    close(zoo.result(type(model).from_pretrained(tmp_path), zoo.batch(name, "left")), wanted)
    close(zoo.result(hw.use(hw.load(tmp_path)[0]), zoo.batch(name, "left")), wanted)


def test_one_kind_of_heads_stays_what_it_is(zoo: Any) -> None:
    """Where all heads of a group were equal already, their mean and their first give the same model."""
    model = hw.to_gqa(zoo.model("llama", num_key_value_heads=4), 2)
    wanted = zoo.result(model, zoo.batch("llama"))
    for how in ("mean", "first"):
        whole = repeated(model, 2)
        whole.config = copy.deepcopy(whole.config)
        for module in whole.modules():
            if hasattr(module, "config"):
                module.config = whole.config
        close(zoo.result(hw.to_gqa(whole, 2, how), zoo.batch("llama")), wanted)


def test_random_is_drawn_by_its_seed(zoo: Any) -> None:
    made = []
    for seed in (0, 0, 1):
        model = zoo.model("qwen2", num_key_value_heads=4, initializer_range=0.5)
        state = torch.get_rng_state()
        hw.to_gqa(model, 1, "random", seed)
        made.append(torch.cat([layer.self_attn.k_proj.weight.flatten() for layer in model.model.layers]))
        assert torch.equal(torch.get_rng_state(), state)
        assert not model.model.layers[0].self_attn.v_proj.bias.any()
    assert torch.equal(made[0], made[1])
    assert not torch.equal(made[0], made[2])
    assert 0.4 < float(made[0].detach().std()) < 0.6


def test_half_precision_is_pooled_in_float32(zoo: Any) -> None:
    model = zoo.model("llama", num_key_value_heads=4).to(torch.bfloat16)
    before = model.model.layers[0].self_attn.k_proj.weight.detach().clone()
    hw.to_gqa(model, 1)
    found = model.model.layers[0].self_attn.k_proj.weight
    assert torch.equal(found, by_loops(before.double(), 1, "mean").to(torch.bfloat16))


def test_converted_and_then_pruned(zoo: Any, tmp_path: Path) -> None:
    model = hw.to_gqa(zoo.model("llama", num_key_value_heads=4), 2)
    hw.prune(model, {0: [0, 1], 1: [1]}).save_pretrained(tmp_path)
    close(zoo.result(hw.load(tmp_path)[0], zoo.batch("llama")), zoo.result(model, zoo.batch("llama")))


def _pruned(zoo: Any) -> Any:
    return hw.prune(zoo.model("llama", num_key_value_heads=4), {0: [1]})


def _tied(zoo: Any) -> Any:
    model = zoo.model("llama", num_key_value_heads=4)
    model.model.layers[1].self_attn.k_proj = model.model.layers[0].self_attn.k_proj
    return model


@pytest.mark.parametrize(
    ("make", "options", "kind", "words"),
    [
        ("llama", (3,), SpecError, "groups is 3 and model.layers.0.self_attn has 2 key/value heads"),
        ("llama", (2,), SpecError, "divides that number and is less. Use 1."),
        ("llama", (0,), SpecError, "groups is 0"),
        ("llama", (True,), SpecError, "groups is True"),
        ("llama", (1, "median"), SpecError, "how is 'median'"),
        ("gpt2", (2,), UnsupportedError, "transformer.h.0.attn is a GPT2Attention"),
        ("bert", (2,), UnsupportedError, "is a BertSelfAttention"),
        ("t5", (2,), UnsupportedError, "is a T5Attention"),
        ("vit", (2,), UnsupportedError, "is a ViTAttention"),
        ("opt", (2,), UnsupportedError, "is a OPTAttention"),
        (_pruned, (2,), UnsupportedError, "model.layers.0.self_attn was pruned"),
        (_tied, (2,), UnsupportedError, "k_proj shares its weights"),
    ],
)
def test_refusals(make: Any, options: Any, kind: Any, words: str, zoo: Any) -> None:
    model = zoo.model(make) if isinstance(make, str) else make(zoo)
    before = {name: (parameter, parameter.clone()) for name, parameter in model.named_parameters()}
    config = model.config.to_dict()
    with pytest.raises(kind) as error:
        hw.to_gqa(model, *options)
    assert words in str(error.value)
    assert str(error.value).startswith("to_gqa: ")
    assert "\n" not in str(error.value)
    assert model.config.to_dict() == config
    for name, parameter in model.named_parameters():
        assert parameter is before[name][0]
        assert torch.equal(parameter, before[name][1])


def test_uptraining_is_a_loop_of_adamw(zoo: Any) -> None:
    model = hw.to_gqa(zoo.model("llama", num_key_value_heads=4), 1)
    other = copy.deepcopy(model)
    batches = [zoo.batch("llama", "right"), {**zoo.batch("llama", "left", length=7)}]
    losses = hw.heads.uptrain(model, batches, steps=3, lr=1e-3)
    optimizer = torch.optim.AdamW(other.parameters(), lr=1e-3, weight_decay=0.0)
    other.train()
    for step in range(3):
        batch = batches[step % 2]
        log_p = other(**batch).logits.double().log_softmax(-1)
        real = batch["attention_mask"].bool()
        told = [
            -log_p[b, i, batch["input_ids"][b, i + 1]]
            for b in range(2)
            for i in range(real.shape[1] - 1)
            if real[b, i] and real[b, i + 1]
        ]
        loss = torch.stack(told).mean()
        assert losses[step] == pytest.approx(float(loss.detach()), rel=1e-4)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(other.parameters(), 1.0)
        assert float(norm) > 1
        optimizer.step()
    for one, same in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(one, same, rtol=0, atol=2e-5)
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_uptraining_learns(zoo: Any) -> None:
    model = hw.use(hw.to_gqa(zoo.model("llama", num_key_value_heads=4), 1))
    frozen = model.model.embed_tokens.weight.requires_grad_(False)
    before = frozen.clone()
    losses = hw.heads.uptrain(model, zoo.batch("llama")["input_ids"], steps=20, lr=3e-3)
    assert len(losses) == 20
    assert losses[-1] < 0.7 * losses[0]
    assert torch.equal(frozen, before)


@pytest.mark.parametrize(
    ("name", "batches", "steps", "words"),
    [
        ("llama", [], 1, "batches is empty"),
        ("llama", torch.ones(1, 4, dtype=torch.int64), 0, "steps is 0"),
        ("llama", torch.ones(2, 1, dtype=torch.int64), 1, "no token that follows another"),
        ("bert", torch.ones(1, 4, dtype=torch.int64), 1, "BertModel gives no logits"),
    ],
)
def test_uptraining_refuses(name: str, batches: Any, steps: int, words: str, zoo: Any) -> None:
    model = zoo.model(name)
    with pytest.raises(SpecError, match=words):
        hw.heads.uptrain(model, batches, steps)
    assert not model.training


def test_uptraining_gives_back_each_modules_mode(zoo: Any) -> None:
    model = zoo.model("llama").train()
    model.model.layers[0].eval()
    modes = [module.training for module in model.modules()]
    hw.heads.uptrain(model, zoo.batch("llama")["input_ids"], steps=1)
    assert [module.training for module in model.modules()] == modes


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"lr": -1.0}, "lr is -1.0"),
        ({"batches": {"labels": torch.zeros(1, 3, dtype=torch.int64)}}, "a batch has no input_ids but labels"),
        ({"frozen": True}, "no parameter of LlamaForCausalLM requires a gradient"),
    ],
)
def test_uptraining_refuses_what_it_cannot_train(zoo: Any, change: dict[str, Any], told: str) -> None:
    model = zoo.model("llama")
    options = {"batches": zoo.batch("llama")["input_ids"], "steps": 1, **change}
    model.requires_grad_(not options.pop("frozen", False))
    with pytest.raises(SpecError, match=told):
        hw.heads.uptrain(model, **options)
