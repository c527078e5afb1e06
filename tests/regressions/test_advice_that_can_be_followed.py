"""What an error tells people to do works where it is said, and is not said where it cannot.

A model was told to use `model.get_decoder()` whose decoder is the model itself, BLOOM and MPT to run inside
`hw.everywhere()`, which cannot reach them, and whoever asked for answers or pruned was told so, too.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import headwise as hw
from headwise.errors import LeftOutWarning, SpecError, UnsupportedError
from headwise.models.sites import find_sites
from headwise.nn import torch_compat

IDS = torch.arange(5)[None]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64, "pad_token_id": 0}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity(level)


def built(config: str, **sizes: Any) -> Any:
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(getattr(transformers, config)(**sizes)).eval()


OWN_SOFTMAX = {
    "bloom": ("BloomConfig", {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "mpt": (
        "MptConfig",
        {"vocab_size": 64, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 32, "expansion_ratio": 2},
    ),
}


def refused(call: Any, *args: Any, **kwargs: Any) -> str:
    with pytest.raises(UnsupportedError) as refusal:
        call(*args, **kwargs)
    return str(refusal.value)


@pytest.mark.parametrize("family", OWN_SOFTMAX)
def test_models_with_a_softmax_of_their_own_are_not_sent_to_everywhere(family: str) -> None:
    model = built(OWN_SOFTMAX[family][0], **OWN_SOFTMAX[family][1])
    for call in (hw.use, hw.sites, hw.importance):
        args = (model, IDS) if call is hw.importance else (model,)
        assert "everywhere" not in refused(call, *args)
    told = refused(hw.trace, model, input_ids=IDS)
    assert "hw.view(model(**batch, output_attentions=True).attentions)" in told
    view = hw.view(model(input_ids=IDS, output_attentions=True).attentions)  # what it was told to do
    assert "8 heads" in repr(view)


def test_only_whoever_runs_a_model_is_sent_to_everywhere() -> None:
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
    assert "inside `with hw.everywhere():`" in refused(hw.use, model)
    assert "everywhere" not in refused(hw.sites, model)
    assert "everywhere" not in refused(hw.prune, model, {0: [0]})


class Mixer(torch.nn.Module):
    """A module of somebody's own, whose name says nothing of attention."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(x, x, x)


def test_a_module_of_somebodys_own_on_torchs_op_is_sent_to_everywhere() -> None:
    model, x = torch.nn.Sequential(Mixer()), torch.randn(1, 2, 5, 8)
    assert "inside `with hw.everywhere():`" in refused(hw.use, model)
    with hw.everywhere():  # what it was told to do
        ours = model(x)
    torch.testing.assert_close(ours, model(x))
    assert "everywhere" not in refused(hw.use, torch.nn.Sequential(torch.nn.Linear(2, 2)))


def test_a_part_that_is_named_is_no_model_with_strays() -> None:
    class Beside(transformers.GPT2PreTrainedModel):
        """A text model beside an attention of its own."""

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.text = transformers.GPT2Model(config)
            self.pooled_attention = torch.nn.MultiheadAttention(8, 2)

    model = Beside(transformers.GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8))
    told = refused(hw.use, model)
    assert told.endswith("Give the part that goes through, model.text.")
    hw.use(model.text)
    assert len(hw.sites(model.text)) == 2


def test_continuous_batching_is_told_who_is_in_the_way() -> None:
    model = built("GPT2Config", n_layer=1, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
    before = sorted(vars(model))
    with hw.observe(model, hw.Entropy()):
        told = refused(model.generate_batch, [[1, 2, 3]])
    assert "Close the blocks of hw.observe" in told
    assert sorted(vars(model)) == before
    assert "hw.restore(model)" in refused(hw.use(model).generate_batch, [[1, 2, 3]])
    assert sorted(vars(hw.restore(model))) == before


def test_a_text_that_was_cut_inside_of_its_prefix() -> None:
    """It was told to add Causal() to a mask that holds it, which with `&` hides the prefix without a word."""
    layer, x = hw.MultiHeadAttention(32, heads=4, mask=hw.masks.prefix_lm(4)).eval(), torch.randn(1, 6, 32)

    def in_pieces(first: int) -> torch.Tensor:
        cache = hw.nn.KVCache()
        with torch.no_grad():
            return torch.cat([layer(x[:, :first], cache=cache), layer(x[:, first:], cache=cache)], 1)

    with pytest.raises(SpecError, match=r"Feed at least the first 4 tokens in one call, the first\.$"):
        in_pieces(2)
    with torch.no_grad():
        torch.testing.assert_close(in_pieces(4), layer(x))  # what it was told to do
    layer = hw.MultiHeadAttention(32, heads=4, mask=hw.Window(2, 2)).eval()
    with pytest.raises(SpecError, match=r"Feed the text at once, or add headwise\.Causal\(\)"):
        in_pieces(4)


def test_only_a_module_with_torchs_attention_is_to_be_replaced() -> None:
    for module, advice in (
        (torch.nn.Linear(2, 2), "none of torch.nn's"),
        (torch.nn.MultiheadAttention(4, 2), "replace"),
    ):
        with pytest.raises(SpecError, match=advice), torch_compat.observe(module, hw.Entropy()):
            pass


def test_contribution_says_what_it_weighs_by() -> None:
    with pytest.raises(SpecError, match=r"Write hw\.Contribution\(layer\.o_proj\.weight\)"):
        hw.Contribution()


def test_a_gguf_whose_tokenizer_lacks_a_field(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf", reason="the GGUF file is written with the package gguf")
    path = tmp_path / "tiny.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(1)
    writer.add_context_length(16)
    writer.add_embedding_length(8)
    writer.add_feed_forward_length(16)
    writer.add_head_count(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(4)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "a", "b", "c"])
    shapes = {
        "token_embd.weight": (4, 8), "output_norm.weight": (8,), "output.weight": (4, 8),
        "blk.0.attn_norm.weight": (8,),
        "blk.0.ffn_norm.weight": (8,), "blk.0.attn_q.weight": (8, 8), "blk.0.attn_k.weight": (8, 8),
        "blk.0.attn_v.weight": (8, 8), "blk.0.attn_output.weight": (8, 8), "blk.0.ffn_gate.weight": (16, 8),
        "blk.0.ffn_up.weight": (16, 8), "blk.0.ffn_down.weight": (8, 16),
    }  # fmt: skip
    for name, shape in shapes.items():
        writer.add_tensor(name, torch.ones(shape).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(SpecError) as refusal:
        hw.load(str(path))
    assert "the tokenizer in" in str(refusal.value)
    assert "it lacks tokenizer.ggml.scores" in str(refusal.value)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, gguf_file="tiny.gguf")  # what it was told to do
    hw.use(model)


# layers without a softmax

LINEAR = {"linear_num_value_heads": 2, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
HYBRIDS: dict[str, tuple[str, dict[str, Any], int]] = {
    "qwen3_next": (
        "Qwen3NextConfig",
        {
            **SIZES, **LINEAR, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48, "num_experts": 2,
            "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "num_experts_per_tok": 1,
            "layer_types": ["linear_attention", "full_attention"],
        },
        1,
    ),
    "lfm2": (
        "Lfm2Config",
        {**SIZES, "num_key_value_heads": 2, "intermediate_size": 48, "layer_types": ["conv", "full_attention"]},
        1,
    ),
    "jamba": (
        "JambaConfig",
        {
            **SIZES, "num_key_value_heads": 2, "intermediate_size": 48, "num_experts": 1, "mamba_d_state": 4,
            "attn_layer_period": 2, "attn_layer_offset": 1, "mamba_dt_rank": 4, "use_mamba_kernels": False,
        },
        1,
    ),
    "bamba": (
        "BambaConfig",
        {
            **SIZES, "num_key_value_heads": 2, "intermediate_size": 48, "attn_layer_indices": [1], "mamba_n_heads": 4,
            "mamba_d_head": 16, "mamba_d_state": 8,
        },
        1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", HYBRIDS)
def test_layers_without_a_softmax_are_named(family: str) -> None:
    config, sizes, softmax = HYBRIDS[family]
    model = built(config, **sizes)
    assert len(find_sites(model)) == softmax
    with pytest.warns(LeftOutWarning, match=r"sites: .* mix tokens without a softmax: model\.layers\.0\."):
        hw.sites(model)
    with pytest.warns(LeftOutWarning, match=r"observe: ") as told, hw.observe(model, hw.Entropy()):
        pass
    assert [Path(warning.filename) for warning in told] == [Path(__file__)]
    with pytest.warns(LeftOutWarning, match=r"use: "):
        hw.use(model)
    with warnings.catch_warnings(record=True) as again:  # once for each function
        warnings.simplefilter("always")
        hw.use(model)
        hw.sites(model)
    assert not again


def test_a_model_without_any_softmax_is_told_so() -> None:
    model = built("MambaConfig", vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=4)
    assert "mix tokens without a softmax, as backbone.layers.0.mixer (MambaMixer) does" in refused(hw.use, model)


@pytest.mark.parametrize("family", ["llama", "mixtral", "bert", "t5", "whisper", "wav2vec2", "vit", "gpt_oss"])
def test_no_false_alarm(family: str) -> None:
    from zoo import Zoo

    model = Zoo().model(family)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        hw.use(model)
        hw.sites(model)
    assert not told
