"""DeepSeek-V4 puts an additive bias beside the mask that it is handed: 0.0 read as a bool hid the keys it shows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import tiny_config, tiny_model
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM

import headwise as hw


@pytest.fixture
def model() -> Any:
    return tiny_model(DeepseekV4ForCausalLM, tiny_config(DeepseekV4Config))


IDS = torch.randint(3, 48, (2, 12), generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize("padded", [False, True])
def test_logits_are_those_of_transformers(model: Any, padded: bool) -> None:
    mask = torch.ones_like(IDS)
    mask[1, 8:] = 1 - int(padded)
    with torch.no_grad():
        eager = model(input_ids=IDS, attention_mask=mask).logits[mask.bool()]
        ours = hw.use(model)(input_ids=IDS, attention_mask=mask).logits[mask.bool()]
    assert (ours - eager).abs().max() < 1e-4 * eager.abs().max()


def test_generated_tokens_are_those_of_transformers(model: Any) -> None:
    options = {"max_new_tokens": 8, "min_new_tokens": 8, "do_sample": False}
    eager = model.generate(IDS, **options)
    assert torch.equal(hw.use(model).generate(IDS, **options), eager)


def test_its_compressed_keys_are_observed(model: Any) -> None:
    with torch.no_grad(), hw.observe(model, hw.Entropy()) as seen:
        model(input_ids=IDS)
    model.set_attn_implementation("eager")
    weights = model(input_ids=IDS, output_attentions=True).attentions
    for site, p in zip(hw.sites(model), weights, strict=True):
        textbook = torch.special.entr(p).sum(-1)
        assert torch.allclose(seen[site]["entropy"], textbook, atol=1e-4)
