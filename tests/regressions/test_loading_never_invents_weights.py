"""A folder whose weights lacked some of the model's loaded without a word, those weights random."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import headwise as hw
from headwise.errors import SpecError

SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}


def saved(folder: Path, changed: Any = None, **more: Any) -> Path:
    """A small Llama in a folder, its weights changed."""
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SMALL, intermediate_size=32, **more))
    model.save_pretrained(folder)
    weights = folder / "model.safetensors"
    if changed is not None:
        found = load_file(weights)
        changed(found)
        save_file(found, weights, metadata={"format": "pt"})
    return folder


def told(folder: Path) -> str:
    with pytest.raises(SpecError) as caught:
        hw.load(folder)
    message = str(caught.value)
    assert message.startswith(f"load: {folder} ")
    assert "\n" not in message
    return message


def test_weights_that_are_missing_are_named(tmp_path: Path) -> None:
    folder = saved(tmp_path, lambda found: found.pop("model.layers.1.self_attn.k_proj.weight"))
    assert "lacks 1 of the model's weights: model.layers.1.self_attn.k_proj.weight; " in told(folder)


def test_many_missing_weights_are_counted(tmp_path: Path) -> None:
    folder = saved(tmp_path, lambda found: [found.pop(key) for key in list(found) if "layers.1." in key])
    assert "lacks 9 of the model's weights: model.layers.1.input_layernorm.weight, " in told(folder)
    assert told(folder).count("model.layers.1.") == 3


def test_weights_of_another_shape_are_named(tmp_path: Path) -> None:
    name = "model.layers.0.self_attn.q_proj.weight"
    folder = saved(tmp_path, lambda found: found.update({name: torch.zeros(16, 32)}))
    message = told(folder)
    assert name in message
    assert "[16,32]" in message
    assert "[32,32]" in message


def test_weights_that_are_tied_or_ignored_are_not_missing(tmp_path: Path) -> None:
    folder = saved(tmp_path, tie_word_embeddings=True)
    assert "lm_head.weight" not in load_file(folder / "model.safetensors")
    model, _ = hw.load(folder)
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_a_broken_tokenizer_is_one_sentence(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    (folder / "tokenizer.json").write_text("{ this is no json")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    assert "holds a tokenizer that cannot be read (JSONDecodeError: " in told(folder)
