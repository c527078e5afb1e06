"""A model in use gives transformers' outputs at padding too, because models read them.

The rows of padding were emptied in the attention itself, so what stood there in the output was not what transformers
leaves. SigLIP pools the last position, conformers mix padded frames into real ones by convolutions.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import Tensor

import headwise as hw
from headwise.models.padding import mask_of_run, options_of_run, rows_without_keys, spread_evenly

from zoo import GQA, SIZES, T5, sharpen  # isort: skip

#: As a part of the largest entry; float32 rounding on peaked rows reaches 7e-6.
ROUNDING = 2e-5


@pytest.fixture(autouse=True)
def quiet() -> None:
    transformers.logging.set_verbosity_error()


def built(model: str, config: str, sizes: dict[str, Any], by: float = 3.0) -> Any:
    torch.manual_seed(0)
    found = getattr(transformers, model)(getattr(transformers, config)(**sizes)).eval()
    sharpen(found, by)
    return found


def padded(side: str, length: int = 10, missing: int = 4) -> dict[str, Tensor]:
    ids = torch.randint(3, 64, (2, length), generator=torch.Generator().manual_seed(3))
    mask = torch.ones(2, length, dtype=torch.int64)
    mask[1, slice(length - missing, None) if side == "right" else slice(0, missing)] = 0
    return {"input_ids": ids.masked_fill(mask == 0, 0), "attention_mask": mask}


def outputs(model: Any, batch: dict[str, Tensor], name: str) -> tuple[Tensor, dict[str, Tensor]]:
    """An output of the model at every position, and the gradients of a random loss over all of it."""
    model.zero_grad()
    found = model(**batch)[name]
    weight = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    (found * weight).sum().backward()
    return found.detach(), {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def apart(ours: Tensor, theirs: Tensor) -> float:
    return float((ours - theirs).abs().max() / theirs.abs().max())


def assert_same_everywhere(model: Any, batch: dict[str, Tensor], name: str, peer: str = "sdpa") -> None:
    model.set_attn_implementation(peer)
    theirs, their_grads = outputs(model, batch, name)
    ours, our_grads = outputs(hw.use(model), batch, name)
    assert apart(ours, theirs) < ROUNDING
    largest = max(grad.abs().max() for grad in their_grads.values())
    for parameter, grad in their_grads.items():
        assert float((our_grads[parameter] - grad).abs().max() / largest) < ROUNDING, parameter


TEXT = {**SIZES, "intermediate_size": 48, "max_position_embeddings": 16}
CONFORMER = {
    **SIZES, "intermediate_size": 48, "conv_dim": (8, 8), "conv_stride": (4, 4), "conv_kernel": (8, 8),
    "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "conv_depthwise_kernel_size": 3,
}  # fmt: skip
SPEECH = {
    "vocab_size": 64, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "input_feat_per_channel": 8,
    "num_conv_layers": 2, "conv_channels": 16, "max_source_positions": 64, "max_target_positions": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1,
}  # fmt: skip


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("model", "config", "output"),
    [
        ("SiglipTextModel", "SiglipTextConfig", "pooler_output"),  # pools the last position
        ("SiglipTextModel", "SiglipTextConfig", "last_hidden_state"),
        ("Siglip2TextModel", "Siglip2TextConfig", "pooler_output"),
        ("BertModel", "BertConfig", "last_hidden_state"),
    ],
)
def test_encoders_of_text(model: str, config: str, output: str, side: str) -> None:
    assert_same_everywhere(built(model, config, TEXT), padded(side), output)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    ("model", "config", "sizes"),
    [
        ("LlamaForCausalLM", "LlamaConfig", GQA),
        ("MistralForCausalLM", "MistralConfig", {**GQA, "sliding_window": 3}),
        ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 64}),
    ],
)
def test_decoders(model: str, config: str, sizes: dict[str, Any], side: str) -> None:
    """With padding on the left the first rows see no key at all: sdpa gives 0 there, eager the mean of all values."""
    assert_same_everywhere(built(model, config, sizes), padded(side), "logits")


def test_convolutions_between_the_layers() -> None:
    model = built("Wav2Vec2ConformerModel", "Wav2Vec2ConformerConfig", CONFORMER)
    mask = torch.ones(2, 200, dtype=torch.int64)
    mask[1, 120:] = 0
    waves = torch.randn(2, 200, generator=torch.Generator().manual_seed(2))
    assert_same_everywhere(model, {"input_values": waves * mask, "attention_mask": mask}, "last_hidden_state")


def test_an_encoder_of_speech_under_its_decoder() -> None:
    model = built("Speech2TextForConditionalGeneration", "Speech2TextConfig", SPEECH)
    mask = torch.ones(2, 64, dtype=torch.int64)
    mask[1, 40:] = 0
    features = torch.randn(2, 64, 8, generator=torch.Generator().manual_seed(2))
    batch = {
        "input_features": features * mask[..., None],
        "attention_mask": mask,
        "decoder_input_ids": padded("right")["input_ids"],
    }
    assert_same_everywhere(model, batch, "logits", peer="eager")  # there is no sdpa for it
    assert_same_everywhere(model, batch, "encoder_last_hidden_state", peer="eager")


# rows that a mask hides whole


@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_without_keys_beside_a_position_bias(side: str) -> None:
    """sdpa and eager both add the mask to the bias as a number, and both give the mean of all values there."""
    model = built("T5ForConditionalGeneration", "T5Config", T5, by=1.5)
    batch = padded(side)
    batch |= {
        "decoder_input_ids": batch["input_ids"].flip(0),
        "decoder_attention_mask": batch["attention_mask"].flip(0),
    }
    assert_same_everywhere(model, batch, "logits", peer="eager")
    model.set_attn_implementation("sdpa")
    with torch.no_grad():
        theirs = model(**batch).logits
        assert apart(hw.use(model)(**batch).logits, theirs) < ROUNDING


def test_rows_without_keys_under_a_soft_cap() -> None:
    """Only eager runs a soft cap, and it adds every mask as a number."""
    sizes = {**GQA, "head_dim": 8, "sliding_window": 4, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 2}
    assert_same_everywhere(built("Gemma2ForCausalLM", "Gemma2Config", sizes), padded("left"), "logits", peer="eager")


@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_a_float_mask_hides_whole(adds: bool, dtype: torch.dtype) -> None:
    """The dtype's minimum on every key leaves equal scores: the mean of all values, in eager and sdpa alike."""
    model = built("LlamaForCausalLM", "LlamaConfig", GQA)
    lowest = torch.finfo(torch.float32).min
    mask = torch.full((2, 1, 10, 10), lowest).triu(1)
    mask[1, :, :, :4] = lowest  # rows 0 to 3 of sequence 1 see nothing
    if adds:
        mask = torch.where(mask == lowest, mask, torch.randn(mask.shape, generator=torch.Generator().manual_seed(4)))
    model, mask = model.to(dtype), mask.clamp(min=torch.finfo(dtype).min).to(dtype)
    batch = {"input_ids": padded("left")["input_ids"], "attention_mask": mask}
    if dtype == torch.float32:
        assert_same_everywhere(model, batch, "logits", peer="eager")
        # Outputs alone: torch's fused backward forms p from one log-sum-exp, in which -3e38 swallows the count of keys.
        with torch.no_grad():
            ours = model(**batch).logits
            model.set_attn_implementation("sdpa")
            assert apart(ours, model(**batch).logits) < ROUNDING
        return
    with torch.no_grad():  # rounding of the dtype, three times that of the paths that agree with each other
        eager = model(**batch).logits.float()
        model.set_attn_implementation("sdpa")
        sdpa = model(**batch).logits.float()
        assert apart(hw.use(model)(**batch).logits.float(), sdpa) <= 3 * apart(eager, sdpa)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", ["blocked", "reference", None])
def test_rows_without_keys_are_even_in_every_dtype(dtype: torch.dtype, backend: str | None) -> None:
    """In float16 the smallest number is 65504, beside which a score of float32 keeps its differences."""
    q, k, v = torch.randn(3, 1, 2, 6, 16, generator=torch.Generator().manual_seed(0)).to(dtype)
    hidden = hw.Causal() & hw.Padding(torch.arange(6)[None] > 2)
    mask, lowest = spread_evenly(hidden, rows_without_keys(hidden, q, k, None), 6, dtype)
    out = hw.attention(q, k, v, mask=mask, scores=lowest, backend=backend)
    mean = v.double().mean(2, keepdim=True).expand(-1, -1, 3, -1)
    assert float((out[:, :, :3].double() - mean).abs().max()) < torch.finfo(dtype).eps * float(v.abs().max())


# what observers are shown


@pytest.mark.parametrize("side", ["left", "right"])
def test_statistics_leave_padding_out_and_change_no_bit(side: str) -> None:
    model, batch = hw.use(built("LlamaForCausalLM", "LlamaConfig", GQA)), padded(side)
    real = batch["attention_mask"].bool()
    with torch.no_grad():
        alone = model(**batch).logits
        weights = model(**batch, output_attentions=True).attentions
        with hw.observe(model, hw.Entropy(), hw.Received(), hw.LogSumExp(), hw.TopKeys(2)) as seen:
            watched = model(**batch).logits
        trace = hw.trace(model, **batch)
    assert torch.equal(alone, watched)
    assert torch.equal(alone, trace.output.logits)
    p = torch.stack(weights).double() * real[:, None, :, None]
    torch.testing.assert_close(seen["received"].double(), p.sum(-2), atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(seen["entropy"].double(), torch.special.entr(p).sum(-1), atol=1e-5, rtol=1e-5)
    padding = ~real[:, None, :].expand(seen["log_sum_exp"].shape[1:])
    assert bool((seen["log_sum_exp"][:, padding] == -torch.inf).all())
    assert bool((seen["top_keys"].indices[:, padding] == -1).all())
    for layer in range(2):
        dense = trace.pattern(layer).to_dense()
        torch.testing.assert_close(dense.double(), p[layer], atol=1e-6, rtol=1e-4)


def test_a_traced_pattern_says_what_the_run_had() -> None:
    """Patching and freezing give a run its own outputs back, at padding too."""
    model, batch = hw.use(built("BertModel", "BertConfig", TEXT)), padded("right")
    with torch.no_grad():
        alone = model(**batch).last_hidden_state
        trace = hw.trace(model, **batch)
        with hw.patch(model, {0: [0, 2], 1: [1]}, trace):
            patched = model(**batch).last_hidden_state
        with hw.freeze(model, trace), hw.observe(model, hw.LogSumExp()) as seen:
            frozen = model(**batch).last_hidden_state
    assert apart(patched, alone) < ROUNDING
    assert apart(frozen, alone) < ROUNDING
    padding = batch["attention_mask"] == 0
    assert bool((seen["log_sum_exp"].movedim(3, 2)[:, padding] == -torch.inf).all())
    pattern = trace.pattern(0)
    _, real = mask_of_run(pattern.options["mask"])
    assert real is not None and torch.equal(real, ~padding)
    out = hw.attention(pattern.q, pattern.k, pattern.v, **options_of_run(pattern))
    assert float(out[1, :, 7:].abs().max()) > 0


def test_a_generation_that_is_traced_leaves_padding_out() -> None:
    model, batch = hw.use(built("LlamaForCausalLM", "LlamaConfig", GQA)), padded("left")
    with torch.no_grad():
        trace = hw.trace(model.generate, **batch, max_new_tokens=4, eos_token_id=None, do_sample=False)
        whole = {"input_ids": trace.inputs["input_ids"], "attention_mask": trace.inputs["attention_mask"]}
        single = hw.trace(model, **whole)
    for layer in range(2):
        steps, once = trace.pattern(layer), single.pattern(layer)
        torch.testing.assert_close(steps.to_dense(), once.to_dense(), atol=1e-5, rtol=1e-4)
        assert torch.equal(mask_of_run(steps.options["mask"])[1], mask_of_run(once.options["mask"])[1])
