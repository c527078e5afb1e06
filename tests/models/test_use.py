"""use and restore: all of a model or nothing of it, in place and exactly back."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import headwise as hw
from headwise.errors import SpecError, UnsupportedError
from headwise.models import register, using

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64}
OUTSIDE = {
    "Bloom": {"hidden_size": 32, "n_layer": 1, "n_head": 4, "vocab_size": 64},
    "Falcon": {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "vocab_size": 64},
    "GPTNeo": {
        "hidden_size": 32, "num_layers": 2, "num_heads": 4, "vocab_size": 64,
        "attention_types": [[["global", "local"], 1]],
    },
    "Mpt": {"d_model": 32, "n_heads": 4, "n_layers": 1, "vocab_size": 64},
    "Deberta": SMALL,
    "DebertaV2": SMALL,
    "XLNet": {"d_model": 32, "n_layer": 1, "n_head": 4, "vocab_size": 64, "d_inner": 32},
    "Longformer": {**SMALL, "attention_window": 4},
    "OpenAIGPT": {"n_embd": 32, "n_layer": 1, "n_head": 4, "vocab_size": 64},
    "RoFormer": SMALL,
    "MPNet": SMALL,
    "ConvBert": SMALL,
    "Funnel": {"d_model": 32, "n_head": 4, "d_head": 8, "vocab_size": 64, "block_sizes": [1, 1]},
    "XLM": {"emb_dim": 32, "n_layers": 1, "n_heads": 4, "vocab_size": 64},
    "BigBird": SMALL,
    "Mamba": {"hidden_size": 32, "num_hidden_layers": 1, "vocab_size": 64},
    "ResNet": {"embedding_size": 8, "hidden_sizes": [8, 8], "depths": [1, 1]},
}  # fmt: skip
MIXED = {
    "Sam": {},
    "LongT5": {"d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 4, "vocab_size": 64},
    "PegasusX": {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4,
                 "decoder_attention_heads": 4, "vocab_size": 64},
}  # fmt: skip


def every_config(model: nn.Module) -> dict[int, Any]:
    """What each config of a model says about its attention."""
    return {id(config): config._attn_implementation_internal for config in using._configs(model)}


def built(name: str, sizes: dict[str, Any]) -> Any:
    config = getattr(transformers, f"{name}Config")(**sizes)
    if name == "Sam":
        for part in (config.vision_config, config.mask_decoder_config):
            part.hidden_size, part.num_hidden_layers, part.num_attention_heads = 32, 1, 4
        config.vision_config.output_channels = config.prompt_encoder_config.hidden_size = 32
        config.vision_config.image_size = config.prompt_encoder_config.image_size = 32
        config.vision_config.global_attn_indexes = [0]
    return getattr(transformers, f"{name}Model")(config)


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize(
    "call", [hw.use, hw.sites, hw.trace, lambda model: hw.observe(model, hw.Entropy()).__enter__()]
)
def test_a_model_outside_the_interface_is_refused_and_unchanged(name: str, call: Any) -> None:
    model = built(name, OUTSIDE[name])
    before = every_config(model)
    with pytest.raises(UnsupportedError, match=f"{name}Model does not go through transformers' attention interface; "):
        call(model)
    assert every_config(model) == before
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("name", MIXED)
def test_a_model_that_goes_through_it_in_part_is_refused(name: str) -> None:
    model = built(name, MIXED[name])
    before = every_config(model)
    with pytest.raises(
        UnsupportedError, match=r"has attention outside of .*: \S+ \(\w+\).*its other \d+ attention modules"
    ):
        hw.use(model)
    assert every_config(model) == before


def test_a_module_that_is_no_transformers_model() -> None:
    with pytest.raises(UnsupportedError, match=r"Linear does not go through .* none of its modules asks the interface"):
        hw.use(nn.Linear(2, 2))
    with pytest.raises(UnsupportedError, match=r"its attention is self_attn \(MultiheadAttention\)"):
        hw.use(nn.TransformerEncoderLayer(8, 2))
    with pytest.raises(SpecError, match=r"use: got a str; use takes a transformers model"):
        hw.use("smollm2")  # type: ignore[type-var]


def test_sinks_that_differ_by_token_are_refused_before_anything_runs(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = zoo.model("llama")
    model.config.model_type = "inkling2"
    with pytest.raises(UnsupportedError, match="its attention sinks differ from token to token"):
        hw.use(model)
    assert not zoo.in_use(model)


def test_use_is_in_place_and_idempotent_and_restore_exact(zoo: Any, family: str) -> None:
    model = zoo.model(family)
    before, parameters = every_config(model), list(model.parameters())
    assert hw.use(model) is model
    assert set(every_config(model).values()) == {"headwise"}
    hw.use(hw.use(model))
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert hw.restore(model) is model
    assert every_config(model) == before
    assert hw.restore(model) is model
    assert every_config(model) == before


def test_restore_of_a_model_never_used_does_nothing(zoo: Any) -> None:
    model = zoo.model("llama")
    before = every_config(model)
    hw.restore(model)
    assert every_config(model) == before


def test_each_part_of_a_composite_model_goes_back_to_its_own() -> None:
    config = transformers.CLIPConfig(
        text_config={**SMALL, "intermediate_size": 32, "projection_dim": 8},
        vision_config={**SMALL, "intermediate_size": 32, "image_size": 16, "patch_size": 8},
        projection_dim=8,
    )
    model = transformers.CLIPModel(config).eval()
    model.set_attn_implementation({"text_config": "sdpa", "vision_config": "eager"})
    before = every_config(model)
    assert {"sdpa", "eager"} <= set(before.values())
    batch = {"input_ids": torch.randint(3, 60, (2, 7)), "pixel_values": torch.randn(2, 3, 16, 16)}
    eager = model(**batch).logits_per_image
    hw.use(model)
    assert {site.partition(".")[0] for site in hw.sites(model)} == {"text_model", "vision_model"}
    torch.testing.assert_close(model(**batch).logits_per_image, eager, rtol=1e-4, atol=1e-5)
    hw.restore(model)
    assert every_config(model) == before


def test_a_part_of_a_model_can_be_used_alone(zoo: Any) -> None:
    model = zoo.model("bart")
    encoder = model.get_encoder()
    hw.use(encoder)
    assert zoo.in_use(encoder)
    hw.restore(encoder)
    assert not zoo.in_use(model)


def test_models_that_share_a_config_are_both_restored() -> None:
    config = transformers.LlamaConfig(**SMALL, intermediate_size=32)
    one, two = transformers.LlamaModel(config), transformers.LlamaModel(config)
    before = config._attn_implementation
    hw.use(one)
    hw.use(two)
    hw.restore(one)
    assert config._attn_implementation == "headwise"  # two is still in use
    hw.restore(two)
    assert config._attn_implementation == before


def test_another_implementation_chosen_meanwhile_is_what_restore_goes_back_to(zoo: Any) -> None:
    model = hw.use(zoo.model("llama"))
    model.set_attn_implementation("sdpa")
    assert not zoo.in_use(model)
    hw.restore(model)
    assert model.config._attn_implementation == "sdpa"
    hw.use(model)
    model.set_attn_implementation("eager")
    hw.restore(hw.use(model))
    assert model.config._attn_implementation == "eager"


def test_a_copy_of_a_model_in_use_can_be_restored(zoo: Any) -> None:
    model = hw.use(zoo.model("llama"))
    twin = copy.deepcopy(model)
    assert zoo.in_use(twin)
    hw.restore(twin)
    assert twin.config._attn_implementation == "sdpa"
    assert zoo.in_use(model)


def test_saving_a_model_in_use_does_not_write_our_name(zoo: Any, tmp_path: Path) -> None:
    hw.use(zoo.model("llama")).save_pretrained(tmp_path)
    assert "headwise" not in json.dumps(json.loads((tmp_path / "config.json").read_text()))
    loaded, tokenizer = hw.load(tmp_path)
    assert loaded.config._attn_implementation == "sdpa"
    assert tokenizer is None


def test_the_name_works_where_transformers_takes_names(zoo: Any) -> None:
    register.register()
    config = transformers.LlamaConfig(**SMALL, intermediate_size=32)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="headwise").eval()
    assert zoo.in_use(model)
    assert model(torch.arange(5)[None]).logits.isfinite().all()


@pytest.mark.parametrize(
    "call", [hw.use, hw.restore, hw.sites, hw.trace, lambda x: hw.observe(x, hw.Entropy()).__enter__()]
)
@pytest.mark.parametrize("thing", [3, "x", None])
def test_what_is_no_model_is_refused_by_name(call: Any, thing: Any) -> None:
    with pytest.raises(SpecError, match=rf"\w+: got a {type(thing).__name__}; \w+ takes a .*model"):
        call(thing)


def test_sites_are_names_of_modules_in_their_order(zoo: Any, family: str) -> None:
    model = zoo.model(family)
    found = hw.sites(model)
    names = [name for name, _ in model.named_modules()]
    assert found == [name for name in names if name in found]
    ran = hw.trace(model, **zoo.batch(family)).sites
    assert {site.partition("#")[0] for site in ran} == set(found)


def test_sites_of_well_known_models(zoo: Any) -> None:
    assert hw.sites(zoo.model("llama")) == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    assert hw.sites(zoo.model("bert")) == ["encoder.layer.0.attention.self", "encoder.layer.1.attention.self"]
    assert len(hw.sites(zoo.model("t5"))) == 6
    assert len(hw.sites(zoo.model("albert"))) == 1  # its layers share one module


def test_importing_headwise_loads_no_transformers() -> None:
    code = "import sys, headwise; headwise.models; headwise.use; assert 'transformers' not in sys.modules, 'loaded'"
    code = code.replace("headwise.models; ", "import headwise.models; ")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_transformers_one_clear_error() -> None:
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "import torch, headwise as hw\n"
        "try: hw.use(torch.nn.Linear(2, 2))\n"
        "except hw.UnavailableError as e: print(e)\n"
        "try: hw.load('smollm2')\n"
        "except hw.UnavailableError as e: print(e)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.splitlines()
    assert told[0].startswith("use: transformers cannot be imported")
    assert told[1].startswith("load: transformers cannot be imported")
    assert all('pip install "transformers>=5.24"' in line for line in told)


# Keywords of the attention function

Q = torch.randn(2, 4, 5, 8, generator=torch.Generator().manual_seed(0))


class Module(nn.Module):
    """A module in eval mode, as the attention function sees one."""

    def __init__(self, training: bool = False) -> None:
        super().__init__()
        self.train(training)


def ask(**options: Any) -> torch.Tensor:
    return register.headwise_attention(Module(), Q, Q, Q, options.pop("attention_mask", None), **options)[0]


def test_the_output_is_transposed_and_contiguous() -> None:
    out, weights = register.headwise_attention(Module(), Q, Q, Q, None)
    assert out.shape == (2, 5, 4, 8)
    assert out.is_contiguous()
    assert weights is None


def test_no_mask_means_no_mask_whatever_a_flag_says() -> None:
    module = Module()
    module.is_causal = True
    plain = register.headwise_attention(module, Q, Q, Q, None, is_causal=True)[0]
    assert torch.equal(plain, ask())
    assert float((plain - hw.attention(Q, Q, Q, mask=hw.Causal()).transpose(1, 2)).abs().max()) > 1e-2


@pytest.mark.parametrize(
    ("keywords", "meaning"),
    [
        ({"scaling": 0.9}, {"scale": 0.9}),
        ({"scaling": torch.tensor(0.9)}, {"scale": 0.9}),
        ({"softcap": 0.5}, {"scores": (hw.SoftCap(0.5),)}),
        ({"s_aux": torch.arange(4.0)}, {"sinks": torch.arange(4.0)}),
        ({"sinks": torch.arange(4.0)}, {"sinks": torch.arange(4.0)}),
        ({"position_bias": Q[..., :5] * 2}, {"scores": (hw.Bias(Q[..., :5] * 2),)}),
        ({"softcap": 0.5, "position_bias": Q[..., :5]}, {"scores": (hw.SoftCap(0.5), hw.Bias(Q[..., :5]))}),
        (
            {"indices": torch.tensor([[[0, 2], [1, 1], [4, 0], [3, 2], [2, 4]]] * 2)},
            {"mask": hw.Dense(torch.zeros(2, 1, 5, 5).scatter(
                -1, torch.tensor([[[[0, 2], [1, 1], [4, 0], [3, 2], [2, 4]]]] * 2), 1.0).bool())},
        ),
    ],
)  # fmt: skip
def test_keywords_are_applied(keywords: dict[str, Any], meaning: dict[str, Any]) -> None:
    want = hw.attention(Q, Q, Q, **meaning).transpose(1, 2)
    torch.testing.assert_close(ask(**keywords), want, rtol=1e-5, atol=1e-6)
    assert float((ask() - want).abs().max()) > 1e-2


def test_blocks_that_a_layer_chose() -> None:
    module = Module()
    module.block_size = 2
    chosen = torch.tensor(
        [[[[0, -1], [1, -1], [2, 0], [1, 0], [2, -1]], [[0, 1], [0, -1], [1, -1], [2, 1], [0, 1]]]] * 2
    )
    keep = torch.zeros(2, 2, 5, 4).scatter(-1, chosen.masked_fill(chosen < 0, 3), 1.0)[..., :3].bool()
    keep = keep.repeat_interleave(2, -1)[..., :5].repeat_interleave(2, 1)
    want = hw.attention(Q, Q, Q, mask=hw.Dense(keep)).transpose(1, 2)
    got = register.headwise_attention(module, Q, Q, Q, None, block_indices=chosen)[0]
    torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-6)
    with pytest.raises(UnsupportedError, match="does not say how large a block is"):
        register.headwise_attention(Module(), Q, Q, Q, None, block_indices=chosen)


def test_packed_bounds_keep_sequences_apart() -> None:
    one = Q[:1]
    bounds = torch.tensor([0, 2, 5])
    got = register.headwise_attention(Module(), one, one, one, None, cu_seq_lens_q=bounds, cu_seq_lens_k=bounds)[0]
    torch.testing.assert_close(got[:, 2:], hw.attention(one[:, :, 2:], one[:, :, 2:], one[:, :, 2:]).transpose(1, 2))
    of_a_larger_whole = torch.tensor([0, 2, 9])
    got = register.headwise_attention(Module(), one, one, one, None, cu_seq_lens_q=of_a_larger_whole)[0]
    assert torch.equal(got, hw.attention(one, one, one).transpose(1, 2))


def test_dropout_is_applied_while_training_only() -> None:
    torch.manual_seed(0)
    assert torch.equal(ask(dropout=0.9), ask())
    trained = register.headwise_attention(Module(training=True), Q, Q, Q, None, dropout=0.9)[0]
    assert float((trained - ask()).abs().max()) > 1e-2


def test_learned_queries_of_one_row_meet_keys_of_many() -> None:
    got = register.headwise_attention(Module(), Q[:1], Q, Q, None)[0]
    torch.testing.assert_close(got, hw.attention(Q[:1].expand(2, -1, -1, -1), Q, Q).transpose(1, 2))


def test_an_unknown_keyword_is_refused_and_a_harmless_one_is_not() -> None:
    with pytest.raises(UnsupportedError, match=r"Module: the keyword 'sharpness' reached the attention function; "):
        ask(sharpness=2.0)
    assert torch.equal(ask(sharpness=None, use_cache=True, position_ids=torch.arange(5)), ask())


def test_what_generate_hands_on_is_known_unless_a_module_says_it() -> None:
    """Some models' own `generate` hands all of its options to a forward, down to the attention."""
    assert torch.equal(ask(temperature=2.0, max_new_tokens=3, do_sample=True, streamer=object()), ask())

    class Tempered(Module):
        def forward(self, temperature: float) -> torch.Tensor:
            return register.headwise_attention(self, Q, Q, Q, None, temperature=temperature)[0]

    with pytest.raises(UnsupportedError, match=r"Tempered: the keyword 'temperature' reached the attention function; "):
        Tempered().forward(2.0)


def test_sinks_by_token_are_refused() -> None:
    with pytest.raises(
        UnsupportedError, match=r"its sinks are \[2, 4, 5, 1\], one a token; hw.attention has one sink a head"
    ):
        ask(sinks=torch.zeros(2, 4, 5, 1))
