"""A generation as one trace: the pattern of one forward over the text that was written."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    DynamicCache,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

import headwise as hw
from headwise.models import read_trace, tracing

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 64,
    "max_position_embeddings": 64,
}
KEYS = {"pad_token_id": 0, "eos_token_id": None, "bos_token_id": 1}
STEPS = {"max_new_tokens": 7, "do_sample": False, "pad_token_id": 0}


def gpt2() -> Any:
    sizes = {"n_layer": 2, "n_head": 4, "n_embd": 32, "vocab_size": 64, "n_positions": 64}
    return GPT2LMHeadModel(GPT2Config(**sizes, **KEYS))


def llama() -> Any:
    return LlamaForCausalLM(LlamaConfig(**SMALL, **KEYS))


def mistral(window: int = 4) -> Any:
    return MistralForCausalLM(MistralConfig(**SMALL, **KEYS, sliding_window=window))


def t5() -> Any:
    sizes = {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
    return T5ForConditionalGeneration(
        T5Config(**sizes, pad_token_id=0, eos_token_id=63, decoder_start_token_id=1, relative_attention_num_buckets=8)
    )


def sharp(model: Any) -> Any:
    """Weights with rows that differ, so that a wrong key shows."""
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape) * 0.3)
    return model.eval()


def prompt(padded: bool, T: int = 6) -> dict[str, torch.Tensor]:
    ids = torch.randint(3, 60, (2, T))
    real = torch.ones_like(ids)
    if padded:
        ids[0, :2], real[0, :2] = 0, 0
    return {"input_ids": ids, "attention_mask": real}


def forward_over(model: Any, written: hw.models.Trace) -> hw.models.Trace:
    """One forward over what was written, with the positions that generate counts."""
    ids = written.inputs["input_ids"]
    real = written.inputs.get("attention_mask", torch.ones_like(ids))  # generate leaves one of ones out
    positions = (real.cumsum(-1) - 1).clamp(min=0)
    return hw.trace(model, input_ids=ids, attention_mask=real, position_ids=positions)


@pytest.mark.parametrize("padded", [False, True], ids=["full", "left padding"])
@pytest.mark.parametrize("make", [gpt2, llama, mistral])
def test_a_generation_is_one_forward(make: Any, padded: bool) -> None:
    model, given = sharp(make()), prompt(padded)
    written = hw.trace(model.generate, **given, **STEPS)
    assert written.output.shape == (2, 13)
    assert torch.equal(written.inputs["input_ids"], written.output[:, :-1])
    assert all(value.shape == (2, 12) for value in written.inputs.values())
    assert ("attention_mask" in written.inputs) == padded
    whole = forward_over(model, written)
    assert written.sites == whole.sites == hw.sites(model)
    for site in whole.sites:
        found, want = written.pattern(site), whole.pattern(site)
        assert found.shape == want.shape == (2, 4, 12, 12)
        torch.testing.assert_close(found.to_dense(), want.to_dense(), rtol=0, atol=1e-5)
        torch.testing.assert_close(found.facts().lse, want.facts().lse, rtol=0, atol=1e-4)
        torch.testing.assert_close(found.offsets(11), want.offsets(11), rtol=0, atol=1e-5)
        torch.testing.assert_close(found.v, want.v, rtol=0, atol=1e-4)
        assert torch.equal(found.to_dense() > 0, want.to_dense() > 0)


@pytest.mark.parametrize("T", [2, 3, 4, 5])
def test_windows_around_the_length_of_the_prompt(T: int) -> None:
    model = sharp(mistral(window=4))
    written = hw.trace(model.generate, **prompt(False, T), **STEPS)
    whole = forward_over(model, written)
    for n in range(2):
        torch.testing.assert_close(written.pattern(n).to_dense(), whole.pattern(n).to_dense(), rtol=0, atol=1e-5)


@pytest.mark.parametrize("padded", [False, True], ids=["full", "padding"])
def test_an_encoder_and_a_decoder(padded: bool) -> None:
    model, given = sharp(t5()), prompt(padded)
    written = hw.trace(model.generate, **given, **STEPS, min_new_tokens=7)
    assert torch.equal(written.inputs["input_ids"], given["input_ids"])
    assert torch.equal(written.inputs["decoder_input_ids"], written.output[:, :-1])
    whole = hw.trace(model, **given, decoder_input_ids=written.output[:, :-1])
    assert written.sites == whole.sites == hw.sites(model)
    for site in whole.sites:
        found, want = written.pattern(site), whole.pattern(site)
        assert found.shape == want.shape
        torch.testing.assert_close(found.to_dense(), want.to_dense(), rtol=0, atol=1e-5)


def test_nothing_of_the_size_of_the_pattern_is_held() -> None:
    model = sharp(t5())
    written = hw.trace(model.generate, **prompt(False), **STEPS, min_new_tokens=7)
    for site in written.sites:
        p = written.pattern(site)
        if "decoder" in site:
            held = [*(p.options["mask"].tensors()), *(rule.parameter() for rule in p.options["scores"])]
            assert all(x.numel() <= 2 * p.shape[1] * max(p.shape[2:]) for x in held)


def test_what_is_written_while_the_prompt_stays_in_the_cache() -> None:
    """A second turn: the first step of the generation sees keys that an earlier forward made."""
    model = sharp(llama())
    ids = prompt(False)["input_ids"]
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(ids[:, :4], cache=cache)
    written = hw.trace(model.generate, input_ids=ids, cache=cache, **STEPS)
    whole = hw.trace(model, input_ids=written.output[:, :-1])
    p = written.pattern(1)
    assert p.shape == (2, 4, 8, 12)
    torch.testing.assert_close(p.to_dense(), whole.pattern(1).to_dense()[:, :, 4:], rtol=0, atol=1e-5)
    assert torch.equal(written.inputs["input_ids"], written.output[:, 4:-1])


def test_a_generation_in_a_block_beside_watchers_and_in_a_file(tmp_path: Any) -> None:
    model, given = sharp(llama()), prompt(True)
    alone = hw.trace(model.generate, **given, **STEPS)
    with hw.observe(model, hw.Entropy()) as seen, tracing(model) as trace:
        model.generate(**given, **STEPS)
    assert [call["entropy"].shape[-1] for call in seen.calls] == [6] + [1] * 6
    trace.save(tmp_path / "a.safetensors")
    for other in (trace, read_trace(tmp_path / "a.safetensors")):
        for n in range(2):
            torch.testing.assert_close(other.pattern(n).to_dense(), alone.pattern(n).to_dense(), rtol=0, atol=1e-5)
    model.generate(**given, **STEPS)
    assert trace.pattern(0).shape[2] == 12


def test_one_step_is_a_forward() -> None:
    model, given = sharp(gpt2()), prompt(True)
    written = hw.trace(model.generate, given["input_ids"], attention_mask=given["attention_mask"], max_new_tokens=1)
    assert written.pattern(0).shape == (2, 4, 6, 6)


# what is not one pattern


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"num_beams": 3}, "keys of earlier steps have changed since"),
        ({"cache_implementation": "static"}, "writes over the keys of earlier steps"),
        ({"use_cache": False}, "does not attend to the keys before it and its own"),
    ],
    ids=["beams", "static", "no cache"],
)
def test_generations_that_are_not_one_pattern(options: dict[str, Any], text: str) -> None:
    model = sharp(llama())
    with pytest.raises(hw.UnsupportedError, match=rf"trace: model\.layers\.0\.self_attn: .*{text}.*Trace one forward"):
        hw.trace(model.generate, **prompt(False), **STEPS, **options, disable_compile=True)


def test_drafts_that_are_taken_back() -> None:
    model, draft = sharp(llama()), sharp(llama())
    one = {name: x[:1] for name, x in prompt(False).items()}
    with pytest.raises(hw.UnsupportedError, match="trace: "):
        hw.trace(model.generate, **one, **STEPS, assistant_model=draft)


def runs(model: Any, *batches: dict[str, Any]) -> None:
    """Several forwards in one block."""
    with tracing(model), torch.no_grad():
        for batch in batches:
            model(**batch)


def test_forwards_that_belong_to_nobody() -> None:
    model, given = sharp(llama()), prompt(False)
    with pytest.raises(hw.SpecError, match="tracing: the model ran several times"):
        runs(model, given, given)
    with pytest.raises(hw.UnsupportedError, match="does not attend to the keys before it"):
        runs(model, given, prompt(False, 9))
    with pytest.raises(hw.SpecError, match="the forward ran no attention"):
        hw.trace(model.get_input_embeddings)
    with pytest.raises(hw.SpecError, match="trace takes a transformers model"):
        hw.trace(len, [1])


def test_a_mask_that_only_its_cells_tell() -> None:
    model = sharp(llama())
    ids = prompt(False)["input_ids"]
    square = torch.ones(2, 1, 6, 6, dtype=torch.bool).tril()
    square[:, :, 5, 2] = False
    cells = {"input_ids": ids, "attention_mask": square}
    cache = DynamicCache(config=model.config)
    with pytest.raises(hw.UnsupportedError, match="known cell by cell alone"):
        runs(model, {**cells, "cache": cache}, {"input_ids": ids[:, :1], "cache": cache})


def test_padding_in_the_middle_is_several_stretches() -> None:
    model, given = sharp(llama()), prompt(False, 8)
    given["attention_mask"][0, 3:5] = 0
    given["attention_mask"][1, 1] = 0
    written = hw.trace(model.generate, **given, **STEPS)
    whole = forward_over(model, written)
    for n in range(2):
        found, want = written.pattern(n).to_dense(), whole.pattern(n).to_dense()
        torch.testing.assert_close(found, want, rtol=0, atol=1e-5)
        assert not found[0, :, 9:, 3:5].any()
