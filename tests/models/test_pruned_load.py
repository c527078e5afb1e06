"""Pruned models are saved and come back: with headwise always, with transformers alone where its config can say so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from zeroed import CUTTABLE, LLAMAS, close, zeroed

import headwise as hw
from headwise.errors import SpecError, UnsupportedError
from headwise.models.projections import kept_heads, projections

#: Half of all heads, whole groups where there are groups; an uneven cut; a whole layer.
CUTS: dict[str, dict[int, list[int]]] = {
    "half": {layer: [0, 1] for layer in range(6)},
    "uneven": {0: [2], -1: [0, 3]},
    "emptied": {0: [0, 1, 2, 3], -1: [1]},
}


def pruned(zoo: Any, name: str, cut: dict[int, list[int]], folder: Path) -> tuple[Any, dict[int, list[int]]]:
    """A pruned model, saved, and what was pruned, by layers that it has."""
    model = zoo.model(name)
    n = len(hw.sites(model))
    heads = {layer % n: gone for layer, gone in cut.items() if layer < n}
    hw.prune(model, heads).save_pretrained(folder)
    return model, heads


@pytest.mark.parametrize("cut", list(CUTS))
@pytest.mark.parametrize("name", CUTTABLE)
def test_loaded_is_pruned_is_ablated(name: str, cut: str, zoo: Any, tmp_path: Path) -> None:
    model, heads = pruned(zoo, name, CUTS[cut], tmp_path)
    again, _ = hw.load(tmp_path)
    assert type(again) is type(model)
    assert zoo.in_use(again) == zoo.in_use(model)
    assert not again.training
    batch = zoo.batch(name, "none" if zoo.families[name].kind in ("vision", "audio") else "left")
    close(zoo.result(again, batch), zoo.result(zeroed(zoo.model(name), heads), batch))
    for site in hw.sites(model):
        assert kept_heads(again.get_submodule(site)) == kept_heads(model.get_submodule(site))
        assert projections(again, site).kv_heads == projections(model, site).kv_heads
    for key, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[key], tensor)
    for one, other in zip(model.modules(), again.modules(), strict=True):
        plain = {key for key, value in vars(one).items() if isinstance(value, (int, float)) and key != "training"}
        assert {key: vars(other)[key] for key in plain} == {key: vars(one)[key] for key in plain}


@pytest.mark.parametrize("name", [*LLAMAS, "vit"])
def test_transformers_alone_loads_what_its_config_can_say(name: str, zoo: Any, tmp_path: Path) -> None:
    model, heads = pruned(zoo, name, CUTS["half"], tmp_path)
    batch = zoo.batch(name)
    alone = type(model).from_pretrained(tmp_path)
    assert (alone.config.num_attention_heads, alone.config.head_dim) == (2, 8)
    assert getattr(alone.config, "num_key_value_heads", 1) == 1
    close(zoo.result(alone, batch), zoo.result(zeroed(zoo.model(name), heads), batch))
    close(zoo.result(hw.use(alone), batch), zoo.result(model, batch))


@pytest.mark.parametrize("name", ["gpt2", "gpt_neox", "bert", "roberta", "distilbert", "t5", "bart", "whisper"])
def test_transformers_alone_refuses_what_no_config_can_say(name: str, zoo: Any, tmp_path: Path) -> None:
    model, _ = pruned(zoo, name, CUTS["half"], tmp_path)
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        type(model).from_pretrained(tmp_path)


@pytest.mark.parametrize("cut", [{0: [0]}, {0: [0], 1: [1]}, {0: [0, 1, 2, 3]}, {0: [0, 2], 1: [0, 1]}])
def test_transformers_alone_refuses_other_shapes(cut: dict[int, list[int]], zoo: Any, tmp_path: Path) -> None:
    """{0: [0], 1: [1]} leaves 3 heads everywhere, in uneven groups."""
    model, heads = pruned(zoo, "llama", cut, tmp_path)
    assert model.config.num_attention_heads == 4
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        type(model).from_pretrained(tmp_path)
    close(
        zoo.result(hw.load(tmp_path)[0], zoo.batch("llama")),
        zoo.result(zeroed(zoo.model("llama"), heads), zoo.batch("llama")),
    )


def test_uneven_groups_in_numbers_that_look_even(zoo: Any, tmp_path: Path) -> None:
    """Three query heads on one key head and one on the other: a config of 4 and 2 would load, and mean 2 and 2."""
    model = zoo.model("llama", num_attention_heads=8)
    heads = {0: [3, 5, 6, 7], 1: [3, 5, 6, 7]}
    wanted = zoo.result(zeroed(model, heads, of=8), zoo.batch("llama"))
    hw.prune(model, heads).save_pretrained(tmp_path)
    assert model.config.num_attention_heads == 8
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        type(model).from_pretrained(tmp_path)
    close(zoo.result(hw.load(tmp_path)[0], zoo.batch("llama")), wanted)
    model.set_attn_implementation("sdpa")  # which would run, and mean 2 and 2
    with pytest.raises(UnsupportedError, match="pruned and runs on 'sdpa'"):
        zoo.result(model, zoo.batch("llama"))


def test_a_number_that_the_config_insists_to_divide(zoo: Any, tmp_path: Path) -> None:
    """Without groups 3 of 4 heads are even, but a Llama's config wants a divisor of 32, where Mistral's does not."""
    for name, H in (("llama", 4), ("mistral", 3)):
        model = zoo.model(name, num_key_value_heads=4)
        wanted = zoo.result(zeroed(model, {0: [1], 1: [3]}), zoo.batch(name))
        hw.prune(model, {0: [1], 1: [3]}).save_pretrained(tmp_path / name)
        assert model.config.num_attention_heads == H
        close(zoo.result(hw.load(tmp_path / name)[0], zoo.batch(name)), wanted)
    close(zoo.result(type(model).from_pretrained(tmp_path / "mistral"), zoo.batch("mistral")), wanted)
    with pytest.raises(RuntimeError, match="ignore_mismatched_sizes"):
        transformers.LlamaForCausalLM.from_pretrained(tmp_path / "llama")


def test_pruned_loaded_and_pruned_again(zoo: Any, tmp_path: Path) -> None:
    pruned(zoo, "qwen2", CUTS["half"], tmp_path)
    model, _ = hw.load(tmp_path)
    assert model.config.num_attention_heads == 2
    hw.prune(model, {1: [0]}).save_pretrained(tmp_path / "again")
    again, _ = hw.load(tmp_path / "again")
    batch = zoo.batch("qwen2", "left")
    close(zoo.result(again, batch), zoo.result(zeroed(zoo.model("qwen2"), {0: [0, 1], 1: [0, 1, 2]}), batch))
    assert projections(again, 1).original_heads == (3,)
    hw.prune(again, {0: [1]}).save_pretrained(tmp_path / "last")
    assert again.config.num_attention_heads == 1
    alone = type(again).from_pretrained(tmp_path / "last")
    close(zoo.result(alone, batch), zoo.result(zeroed(zoo.model("qwen2"), {0: [0, 1, 3], 1: [0, 1, 2]}), batch))


def test_a_part_and_a_whole(zoo: Any, tmp_path: Path) -> None:
    model, _ = pruned(zoo, "llama", CUTS["uneven"], tmp_path / "whole")
    model.model.save_pretrained(tmp_path / "part")
    part, _ = hw.load(tmp_path / "part")
    ids = zoo.batch("llama")["input_ids"]
    with torch.no_grad():
        close(part(ids).last_hidden_state, model.model(ids).last_hidden_state)


def test_another_dtype(zoo: Any, tmp_path: Path) -> None:
    model, _ = pruned(zoo, "gpt2", CUTS["emptied"], tmp_path)
    loaded, _ = hw.load(tmp_path, dtype=torch.bfloat16)
    assert {parameter.dtype for parameter in loaded.parameters()} == {torch.bfloat16}
    found = zoo.result(hw.use(loaded), zoo.batch("gpt2"))
    assert torch.equal(found, zoo.result(hw.use(model.to(torch.bfloat16)), zoo.batch("gpt2")))


def test_generation_after_loading(zoo: Any, tmp_path: Path) -> None:
    _, heads = pruned(zoo, "t5", CUTS["emptied"], tmp_path)
    batch = {"input_ids": zoo.batch("t5")["input_ids"], "max_new_tokens": 8, "do_sample": False}
    assert torch.equal(hw.load(tmp_path)[0].generate(**batch), zeroed(zoo.model("t5"), heads).generate(**batch))


@pytest.mark.xdist_group("smollm2")
def test_a_model_of_a_gguf_file(tmp_path: Path) -> None:
    """Its weights are floats when it is loaded, though transformers calls it quantised and would not save it."""
    model, tokenizer = hw.load("smollm2")
    model.model.layers = model.model.layers[:2]
    model.config.num_hidden_layers = 2
    batch = tokenizer("The river divides the town into two halves.", return_tensors="pt")
    hw.prune(model, {0: [0, 1, 2, 4], 1: [8]}).save_pretrained(tmp_path)
    again, _ = hw.load(tmp_path)
    assert projections(again, 0).kv_heads == (0, 0, 1, 1, 1)
    with torch.no_grad():
        assert torch.equal(again(**batch).logits, model(**batch).logits)


def _without(folder: Path, name: str) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights[name]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def test_weights_that_are_missing_or_of_another_shape_are_still_noticed(zoo: Any, tmp_path: Path) -> None:
    pruned(zoo, "llama", CUTS["uneven"], tmp_path)
    shutil.copytree(tmp_path, tmp_path / "missing")
    _without(tmp_path / "missing", "model.layers.0.self_attn.q_proj.weight")
    with pytest.raises(SpecError, match=r"lacks 1 of the model's weights: model\.layers\.0\.self_attn\.q_proj\.weight"):
        hw.load(tmp_path / "missing")
    config = json.loads((tmp_path / "config.json").read_text())
    told = config["headwise_heads"]["model.layers.0.self_attn"]
    told["heads"], told["kv_heads"] = [0], [0]
    told["groups"] = [0]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(SpecError, match=r"holds in another shape 4 of the model's weights"):
        hw.load(tmp_path)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"model.layers.7.self_attn": {"heads": [0], "kv_heads": [0], "groups": [0]}}, "has 0 such layers"),
        ({"model.layers.0.self_attn": {"heads": [0]}}, "headwise_heads in the config cannot be read"),
        ({"model.layers.0.self_attn": {"heads": [0], "kv_heads": [1], "groups": [0]}}, "cannot be read"),
        ([1], "cannot be read"),
    ],
)
def test_a_description_that_makes_no_sense(told: Any, words: str, zoo: Any, tmp_path: Path) -> None:
    pruned(zoo, "llama", CUTS["uneven"], tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "headwise_heads": told}))
    with pytest.raises(SpecError, match=words) as error:
        hw.load(tmp_path)
    assert "\n" not in str(error.value)


def test_a_family_that_is_not_known(zoo: Any, tmp_path: Path) -> None:
    zoo.model("opt").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    site = hw.sites(zoo.model("opt"))[0]
    told = {site: {"heads": [0], "kv_heads": [0], "groups": [0]}}
    (tmp_path / "config.json").write_text(json.dumps({**config, "headwise_heads": told}))
    with pytest.raises(UnsupportedError, match=r"^load: .* is a OPTAttention"):
        hw.load(tmp_path)
