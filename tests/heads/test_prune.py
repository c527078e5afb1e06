"""Pruned models compute what ablated ones do, of every family, and a refusal leaves no trace."""

from __future__ import annotations

import copy
import pickle
import warnings
from typing import Any

import peft
import pytest
import torch
from torch import nn
from zeroed import CUTTABLE, close, output_of, zeroed

import headwise as hw
from headwise.errors import SpecError, UnsupportedError
from headwise.models.projections import kept_heads, projections
from headwise.models.surgery import Change, apply

#: Which heads go: the same number everywhere, uneven numbers (and groups, where there are any), all heads of a layer.
CUTS = {
    "even": {0: [0, 1], 1: [2, 3]},
    "uneven": {0: [2], -1: [0, 3]},
    "one layer": {0: [1, 2]},
    "emptied": {0: [0, 1, 2, 3], -1: [1]},
}
GENERATORS = ("llama", "mistral", "gemma3", "gpt2", "gpt_neox", "t5", "bart", "whisper")


def sizes(model: nn.Module) -> dict[str, int]:
    return {site: projections(model, site).heads for site in hw.sites(model)}


def positive(model: nn.Module, cut: dict[int, list[int]]) -> dict[int, list[int]]:
    n = len(hw.sites(model))
    return {layer % n: heads for layer, heads in cut.items()}


def snapshot(model: nn.Module) -> Any:
    """Everything about a model that pruning could leave changed."""
    state = model.state_dict(keep_vars=True)
    tensors = {name: tensor for name, tensor in state.items() if isinstance(tensor, torch.Tensor)}
    found: list[Any] = [
        (name, tensor.clone(), id(tensor) if isinstance(tensor, nn.Parameter) else 0)
        for name, tensor in tensors.items()
    ]
    for name, module in model.named_modules():
        plain = {key: value for key, value in vars(module).items() if isinstance(value, (int, float, str, tuple))}
        found.append((name, plain, sorted(vars(module)), len(module._forward_pre_hooks)))
    found.append(model.config.to_dict())
    found.append(model.config._attn_implementation)
    return found


def same(a: Any, b: Any) -> bool:
    return len(a) == len(b) and all(
        torch.equal(x[1], y[1]) and x[0] == y[0] and x[2] == y[2]
        if isinstance(x, tuple) and isinstance(x[1], torch.Tensor)
        else x == y
        for x, y in zip(a, b, strict=True)
    )


@pytest.mark.parametrize("cut", list(CUTS))
@pytest.mark.parametrize("name", CUTTABLE)
def test_pruned_is_ablated(name: str, cut: str, zoo: Any) -> None:
    model = zoo.model(name)
    heads = positive(model, CUTS[cut])
    wanted_of = zeroed(model, heads)
    assert hw.prune(model, CUTS[cut]) is model
    assert list(sizes(model).values()) == [4 - len(heads.get(layer, [])) for layer in range(len(hw.sites(model)))]
    batch = zoo.batch(name, "left" if cut in ("even", "uneven") else "right")
    wanted = zoo.result(wanted_of, batch)
    other = zoo.result(hw.use(wanted_of), batch)
    close(zoo.result(model, batch), wanted, other)
    close(zoo.result(hw.use(model), batch), wanted, other)
    whole = zoo.model(name)
    with hw.ablate(whole, heads):
        close(zoo.result(whole, batch), wanted, other)


@pytest.mark.parametrize("name", CUTTABLE)
def test_the_control_notices_a_head(name: str, zoo: Any) -> None:
    model, batch = zoo.model(name), zoo.batch(name)
    with pytest.raises(AssertionError):
        close(zoo.result(zeroed(model, {0: [1]}), batch), zoo.result(model, batch))


@pytest.mark.parametrize("name", CUTTABLE)
def test_the_weights_are_gone(name: str, zoo: Any) -> None:
    model = zoo.model(name)
    before = sum(parameter.numel() for parameter in model.parameters())
    p = projections(model, 0)
    one = {part.name: part.linear for part in (p.q, p.k, p.v, p.o)}
    of_site = sum(linear.weight.numel() for linear in one.values())
    biases = sum(linear.bias.numel() for name, linear in one.items() if linear.bias is not None and name != p.o.name)
    hw.prune(model, {0: [0, 1]})  # of grouped heads a whole group
    after = sum(parameter.numel() for parameter in model.parameters())
    assert before - after == (of_site + biases) // 2
    out = output_of(model, hw.sites(model)[0])
    assert (out.in_features if isinstance(out, nn.Linear) else out.nx) == 16
    assert "16" in repr(out)


@pytest.mark.parametrize("name", ["gpt2", "bert", "roberta"])
@pytest.mark.parametrize("cut", [{1: [0, 2]}, {1: [0, 1, 2, 3], 0: [3]}, {0: [0, 1, 2, 3], 3: [1]}])
def test_cross_attention(name: str, cut: dict[int, list[int]], zoo: Any) -> None:
    options = {"add_cross_attention": True, **({} if name == "gpt2" else {"is_decoder": True})}
    model = zoo.model(name, **options)
    batch = zoo.batch(name, "right")
    states = torch.randn(2, 7, 32, generator=torch.Generator().manual_seed(0))
    keep = torch.ones(2, 7, dtype=torch.int64)
    keep[1, 5:] = 0
    more = {"encoder_hidden_states": states, "encoder_attention_mask": keep}
    wanted = zoo.result(zeroed(model, cut), batch, **more)
    hw.prune(model, cut)
    close(zoo.result(model, batch, **more), wanted)
    close(zoo.result(hw.use(model), batch, **more), wanted)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("cut", ["uneven", "emptied"])
@pytest.mark.parametrize("name", GENERATORS)
def test_generation_with_a_cache(name: str, cut: str, beams: int, zoo: Any) -> None:
    model = zoo.model(name)
    batch = zoo.batch(name, "none" if name == "whisper" else "left")
    options = {"max_new_tokens": 12, "num_beams": beams, "do_sample": False, "pad_token_id": 0}
    reference = zeroed(model, positive(model, CUTS[cut]))
    wanted = reference.generate(**batch, **options)
    hw.prune(model, CUTS[cut])
    assert torch.equal(model.generate(**batch, **options), wanted)
    assert torch.equal(hw.use(model).generate(**batch, **options), wanted)


@pytest.mark.parametrize(
    ("name", "layer"), [("llama", 0), ("gemma3", 0), ("gpt2", 0), ("t5", 2), ("t5", 3), ("bart", 2), ("whisper", 3)]
)
def test_each_step_of_a_cache_is_the_whole(name: str, layer: int, zoo: Any) -> None:
    """An emptied first layer still tells the model how many tokens the cache holds, and T5 where the query stands."""
    model = hw.prune(zoo.model(name), {layer: [0, 1, 2, 3], -1: [0]})
    batch = zoo.batch(name)
    given = "decoder_input_ids" if "decoder_input_ids" in batch else "input_ids"
    ids = batch.pop(given)
    with torch.no_grad():
        whole = model(**{**batch, given: ids}).logits
        cache, steps = None, []
        for step in range(ids.shape[1]):
            out = model(**{**batch, given: ids[:, step : step + 1]}, cache=cache, use_cache=True)
            cache = out.cache
            steps.append(out.logits)
            assert cache.get_seq_length() == step + 1
    close(torch.cat(steps, 1), whole)


def test_numbers_are_those_of_now_and_the_first_ones_are_kept(zoo: Any) -> None:
    once, twice = zoo.model("gpt2"), zoo.model("gpt2")
    hw.prune(once, {0: [0, 2], 1: [3]})
    hw.prune(hw.prune(twice, {0: [0]}), {0: [1], 1: [3]})
    assert projections(twice, 0).original_heads == (1, 3)
    assert kept_heads(twice.transformer.h[0].attn) == kept_heads(once.transformer.h[0].attn)
    assert twice.config.headwise_heads == once.config.headwise_heads
    for name, tensor in once.state_dict().items():
        assert torch.equal(tensor, twice.state_dict()[name])
    with pytest.raises(SpecError, match="has no head 2; it has 2 heads, 0 to 1"):
        hw.prune(twice, {0: [2]})


def test_a_layer_may_be_emptied_later(zoo: Any) -> None:
    model, batch = zoo.model("t5"), zoo.batch("t5", "right")
    wanted = zoo.result(zeroed(model, {0: [0, 1, 2, 3], 1: [2]}), batch)
    hw.prune(hw.prune(model, {0: [1], 1: [2]}), {0: [0, 1, 2]})
    close(zoo.result(model, batch), wanted)
    with pytest.raises(SpecError, match="has no head 0; it has no heads"):
        hw.prune(model, {0: [0]})


def test_uneven_groups(zoo: Any) -> None:
    model = hw.prune(zoo.model("llama"), {0: [1], 1: [0, 1]})
    assert kept_heads(model.model.layers[0].self_attn) == ((0, 2, 3), (0, 1, 1), (0, 1))
    assert kept_heads(model.model.layers[1].self_attn) == ((2, 3), (0, 0), (1,))
    assert model.model.layers[1].self_attn.num_key_value_groups == 2
    assert model.model.layers[1].self_attn.k_proj.weight.shape == (8, 32)
    assert zoo.in_use(model)


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_what_only_headwise_can_run_stays_in_use(name: str, zoo: Any) -> None:
    model, batch = zoo.model(name), zoo.batch(name)
    wanted = zoo.result(zeroed(model, {0: [1]}), batch)
    hw.prune(model, {0: [1]})
    with hw.observe(model, hw.Entropy()):
        zoo.result(model, batch)
    for one in (model, copy.deepcopy(model)):
        with pytest.raises(UnsupportedError, match=r"^restore: the heads that are left in .* headwise;"):
            hw.restore(one)
        assert zoo.in_use(one)
        close(zoo.result(one, batch), wanted)
    for other in ("sdpa", "eager"):
        model.set_attn_implementation(other)
        with pytest.raises(UnsupportedError, match=f"pruned and runs on '{other}'"):
            zoo.result(model, batch)
        close(zoo.result(hw.use(model), batch), wanted)


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert"])
def test_others_go_on_and_off_as_ever(name: str, zoo: Any) -> None:
    model, batch = hw.prune(zoo.model(name), {0: [0, 1], 1: [0, 1, 2, 3]}), zoo.batch(name)
    assert not zoo.in_use(model)
    assert not zoo.in_use(hw.restore(hw.use(model)))
    for other in ("sdpa", "eager"):
        model.set_attn_implementation(other)
        close(zoo.result(model, batch), zoo.result(hw.use(copy.deepcopy(model)), batch))


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "t5"])
def test_copies_and_pickles(name: str, zoo: Any) -> None:
    model, batch = zoo.model(name), zoo.batch(name, "right")
    hw.prune(model, {0: [0, 1, 2, 3], 1: [1]})
    wanted = zoo.result(model, batch)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(zoo.result(hw.use(other), batch), zoo.result(hw.use(model), batch))
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
        assert not torch.allclose(zoo.result(other, batch), wanted)
        close(zoo.result(model, batch), wanted)


@pytest.mark.parametrize("name", ["llama", "gpt2", "t5"])
def test_an_emptied_layer_is_a_site_that_does_not_run(name: str, zoo: Any) -> None:
    model = zoo.model(name)
    sites = hw.sites(model)
    hw.prune(model, {0: [0, 1, 2, 3]})
    assert hw.sites(model) == sites
    with hw.observe(model, hw.Entropy()) as seen:
        zoo.result(model, zoo.batch(name))
    assert seen[sites[1]]["entropy"].shape[1] == 4
    heads = model(**zoo.batch(name), output_attentions=True)
    weights = heads.attentions if "attentions" in heads else heads.encoder_attentions
    assert [w.shape[1] for w in weights] == [0, 4]


def test_ablating_a_pruned_model(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    wanted = zoo.result(zeroed(model, {0: [1, 2], 1: [0, 1, 3]}), batch)
    hw.prune(model, {0: [1], 1: [0, 1]})
    with hw.ablate(model, {0: [1], 1: [1]}):
        close(zoo.result(model, batch), wanted)


@pytest.mark.parametrize("name", ["llama", "gpt2", "t5"])
def test_dtype_device_and_requires_grad_stay(name: str, zoo: Any) -> None:
    model = zoo.model(name).to(torch.bfloat16)
    frozen = output_of(model, hw.sites(model)[0])
    frozen.weight.requires_grad_(False)
    batch = zoo.batch(name)
    whole = zeroed(model, {0: [0, 3]})
    rounded, wanted = zoo.result(whole, batch), zoo.result(whole.float(), batch)
    hw.prune(model, {0: [0, 3]})
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert [name for name, p in model.named_parameters() if not p.requires_grad] == [
        name for name, p in model.named_parameters() if p is frozen.weight
    ]
    unit = torch.finfo(torch.bfloat16).eps * wanted.abs().max()
    assert (zoo.result(model, batch) - wanted).abs().max() < 2 * (rounded - wanted).abs().max() + unit


@pytest.mark.parametrize("name", ["llama", "gpt2", "gpt_neox", "t5"])
def test_gradients_are_those_of_the_heads_that_stay(name: str, zoo: Any) -> None:
    model, batch = zoo.model(name), zoo.batch(name)
    batch["labels"] = batch.get("decoder_input_ids", batch["input_ids"])
    whole = zeroed(model, {0: [2], 1: [0, 1, 2, 3]})
    with torch.inference_mode():  # what is made there could not be trained
        hw.prune(model, {0: [2], 1: [0, 1, 2, 3]})
    for one in (whole, model):
        one.train()
        for module in one.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            if isinstance(getattr(module, "dropout", None), float):
                module.dropout = 0.0
        one(**batch).loss.backward()
    was, now = projections(whole, 0), projections(model, 0)
    for h, old in enumerate(now.original_heads):
        for part, other in ((now.q, was.q), (now.o, was.o)):
            # the rows of a gradient lie as those of its weight
            with torch.no_grad():
                mine, theirs = (
                    copy.copy(x.linear.weight.grad if isinstance(x.linear, nn.Linear) else x.linear.weight.grad.T)
                    for x in (part, other)
                )
            found, wanted = (
                (mine[:, part.rows[h]], theirs[:, other.rows[old]])
                if part.outward
                else (mine[part.rows[h]], theirs[other.rows[old]])
            )
            torch.testing.assert_close(found, wanted, rtol=1e-3, atol=2e-5 * float(wanted.abs().max()) + 1e-7)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    before = float(model(**batch).loss.detach())
    for _ in range(5):
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    assert float(model(**batch).loss.detach()) < before


def test_hooks_stay(zoo: Any) -> None:
    model, shapes = zoo.model("llama"), []
    handle = model.model.layers[0].self_attn.q_proj.register_forward_hook(
        lambda *told: shapes.append(told[2].shape[-1])
    )
    guarded = model.model.layers[0].self_attn.register_forward_pre_hook(lambda *told: None)
    hw.prune(model, {0: [1]})
    zoo.result(model, zoo.batch("llama"))
    assert shapes == [24]
    handle.remove()
    guarded.remove()
    zoo.result(model, zoo.batch("llama"))
    assert shapes == [24]


REFUSALS = {
    "no such layer": ("llama", {2: [0]}, SpecError, "there is no site 2"),
    "no such head": ("llama", {0: [1, 4]}, SpecError, "has no head 4; it has 4 heads, 0 to 3"),
    "negative": ("bert", {0: [-1]}, SpecError, "has no head -1"),
    "no numbers": ("gpt2", {0: "1"}, SpecError, "they are a list of numbers"),
    "nothing": ("gpt2", {0: []}, SpecError, "no head was chosen"),
    "a list": ("gpt2", [0], SpecError, "it is {layer: [head, ...]}"),
    "all": ("gpt2", {0: [0, 1, 2, 3], 1: [0, 1, 2, 3]}, SpecError, "these are all heads of the model"),
    "family": ("opt", {0: [0]}, UnsupportedError, "is a OPTAttention; how the weights of its heads lie is not known"),
    "latent": ("deepseek_v3", {0: [0]}, UnsupportedError, "is a DeepseekV3Attention"),
}


@pytest.mark.parametrize("why", list(REFUSALS))
def test_refusals(why: str, zoo: Any) -> None:
    name, heads, kind, words = REFUSALS[why]
    model = zoo.model(name)
    before = snapshot(model)
    with pytest.raises(kind) as error:
        hw.prune(model, heads)
    text = str(error.value)
    assert words in text
    assert text.startswith("prune: ")
    assert "\n" not in text
    assert same(snapshot(model), before)


def _wrapped(model: Any) -> str:
    class Wrapped(nn.Module):
        def __init__(self, base: nn.Linear) -> None:
            super().__init__()
            self.base, self.weight, self.bias = base, base.weight, base.bias

    model.model.layers[0].self_attn.v_proj = Wrapped(model.model.layers[0].self_attn.v_proj)
    return "Wrapped; heads are cut out of plain Linear and Conv1D layers only"


def _low_rank(model: Any) -> str:
    peft.inject_adapter_in_model(peft.LoraConfig(target_modules=["q_proj"], r=2), model)
    return "q_proj is a peft.tuners.lora.layer.Linear; heads"


def _dynamic(model: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that it will move this elsewhere
        torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, inplace=True)
    return "q_proj is a torch.ao.nn.quantized.dynamic.modules.linear.Linear"


def _computed(model: Any) -> str:
    nn.utils.parametrizations.orthogonal(model.model.layers[0].self_attn.k_proj)
    return "ParametrizedLinear; heads"


def _quantised(model: Any) -> str:
    linear = model.model.layers[0].self_attn.o_proj
    linear.weight = nn.Parameter(linear.weight.detach().to(torch.int8), requires_grad=False)
    return "the weight of model.layers.0.self_attn.o_proj is computed or quantised"


def _tied(model: Any) -> str:
    model.model.layers[1].self_attn.q_proj.weight = model.model.layers[0].self_attn.q_proj.weight
    return "q_proj shares its weights"


def _same_layer(model: Any) -> str:
    model.model.layers[1].self_attn.o_proj = model.model.layers[0].self_attn.o_proj
    return "o_proj shares its weights"


@pytest.mark.parametrize(
    "spoil", [_wrapped, _low_rank, _dynamic, _computed, _quantised, _tied, _same_layer], ids=lambda fn: fn.__name__
)
def test_weights_that_cannot_be_cut(spoil: Any, zoo: Any) -> None:
    model = zoo.model("llama")
    words = spoil(model)
    before = snapshot(model)
    with pytest.raises(UnsupportedError) as error:
        hw.prune(model, {0: [0], 1: [1]})
    assert words in str(error.value)
    assert same(snapshot(model), before)


@pytest.mark.parametrize("call", [1, 5, 9])
def test_no_memory_left(call: int, zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = zoo.model("bert")
    before, calls, own = snapshot(model), [], torch.Tensor.index_select

    def failing(*args: Any) -> torch.Tensor:
        calls.append(1)
        if len(calls) == call:
            raise MemoryError
        return own(*args)

    monkeypatch.setattr(torch.Tensor, "index_select", failing)
    with pytest.raises(MemoryError):
        hw.prune(model, {0: [0], 1: [1]})
    assert same(snapshot(model), before)


def test_assignments_are_undone_where_one_fails() -> None:
    class Stubborn:
        def __setattr__(self, name: str, value: Any) -> None:
            raise KeyError(name)

    linear = nn.Linear(2, 3)
    weight = linear.weight
    with pytest.raises(KeyError):
        apply(
            [
                Change(linear, "weight", nn.Parameter(torch.zeros(1, 2))),
                Change(linear, "out_features", 1),
                Change(linear, "note", "x"),
                Change(Stubborn(), "y", 0),
            ]
        )
    assert linear.weight is weight
    assert linear.out_features == 3
    assert not hasattr(linear, "note")


def test_the_snapshot_notices(zoo: Any) -> None:
    model = zoo.model("bert")
    before = snapshot(model)
    assert same(snapshot(model), before)
    hw.prune(model, {0: [0]})
    assert not same(snapshot(model), before)
