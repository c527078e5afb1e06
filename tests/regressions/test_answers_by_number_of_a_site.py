"""NOTATION says that a layer is a site's name or its index, and answers took the name alone."""

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import headwise as hw


def test_an_index_is_that_of_the_model_whatever_is_watched():
    config = LlamaConfig(
        num_hidden_layers=3,
        num_attention_heads=2,
        num_key_value_heads=1,
        hidden_size=8,
        intermediate_size=8,
        vocab_size=16,
    )
    model = LlamaForCausalLM(config).eval()
    names = hw.sites(model)
    with hw.observe(model, hw.Entropy(), sites=[1, 2]) as seen:
        model(torch.arange(6)[None])
    assert torch.equal(seen[1]["entropy"], seen[names[1]]["entropy"])
    assert torch.equal(seen.calls[0][-1]["entropy"], seen[names[2]]["entropy"])
    with pytest.raises(hw.SpecError, match=r"nothing is named 'model\.layers\.0\.self_attn'"):
        seen[0]
    with pytest.raises(hw.SpecError, match="there is no site 3; the model has 3 sites"):
        seen[3]
