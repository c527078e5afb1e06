"""The attention layers of published models, as arguments of `MultiHeadAttention`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwise.spec import Causal, SoftCap, Window

__all__ = ["PRESETS"]

_CAUSAL = {"mask": Causal()}
_LLAMA = {"bias": False, **_CAUSAL}

# Widths, head counts, biases, masks, caps and sinks are the published ones; where a model's attention dropout is
# published too, it is here. What happens to q and k before the product (rotary embedding, norms) is not part of it.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    # Vaswani et al. 2017, table 3: projections are matrices, without bias.
    "transformer-base": {"d_model": 512, "heads": 8, "bias": False},
    "transformer-big": {"d_model": 1024, "heads": 16, "bias": False},
    "bert-base": {"d_model": 768, "heads": 12, "dropout": 0.1},
    "bert-large": {"d_model": 1024, "heads": 16, "dropout": 0.1},
    "minilm-l6": {"d_model": 384, "heads": 12, "dropout": 0.1},
    "vit-base": {"d_model": 768, "heads": 12},
    # T5 folds 1/sqrt(D) into its initialisation; its relative table is learned and comes with `scores`.
    "t5-small": {"d_model": 512, "heads": 8, "bias": False, "scale": 1.0, "dropout": 0.1},
    "gpt2": {"d_model": 768, "heads": 12, "dropout": 0.1, **_CAUSAL},
    "gpt2-xl": {"d_model": 1600, "heads": 25, "dropout": 0.1, **_CAUSAL},
    # Multi-query: one key and value head for all queries.
    "falcon-7b": {"d_model": 4544, "heads": 71, "kv_heads": 1, **_LLAMA},
    "gemma-2b": {"d_model": 2048, "heads": 8, "kv_heads": 1, "head_dim": 256, **_LLAMA},
    "llama-7b": {"d_model": 4096, "heads": 32, **_LLAMA},
    # Grouped queries.
    "llama3-8b": {"d_model": 4096, "heads": 32, "kv_heads": 8, **_LLAMA},
    "smollm2-135m": {"d_model": 576, "heads": 9, "kv_heads": 3, **_LLAMA},
    "mistral-7b": {"d_model": 4096, "heads": 32, "kv_heads": 8, "bias": False, "mask": Window(4095, 0)},
    "qwen2-0.5b": {"d_model": 896, "heads": 14, "kv_heads": 2, "out_bias": False, **_CAUSAL},
    # The layers that see everything; every other layer has Window(4095, 0).
    "gemma2-9b": {
        "d_model": 3584, "heads": 16, "kv_heads": 8, "head_dim": 256, "scores": (SoftCap(50.0),), **_LLAMA,
    },
    "gpt-oss-20b": {"d_model": 2880, "heads": 64, "kv_heads": 8, "head_dim": 64, "sinks": True, **_CAUSAL},
}  # fmt: skip
