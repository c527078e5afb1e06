"""The attention layers of published models, as arguments of `MultiHeadAttention`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwise.nn.rotary import Rotary
from headwise.nn.scaling import Llama3, Yarn
from headwise.spec import Causal, SoftCap, Window

__all__ = ["PRESETS"]

_CAUSAL = {"mask": Causal()}
_LLAMA = {"bias": False, **_CAUSAL}

# Widths, head counts, biases, masks, caps, sinks, norms and rotary embeddings are the published ones; where a model's
# attention dropout is published too, it is here.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    # Vaswani et al. 2017, table 3: projections are matrices, without bias.
    "transformer-base": {"d_model": 512, "heads": 8, "bias": False},
    "transformer-big": {"d_model": 1024, "heads": 16, "bias": False},
    "bert-base": {"d_model": 768, "heads": 12, "dropout": 0.1},
    "bert-large": {"d_model": 1024, "heads": 16, "dropout": 0.1},
    "minilm-l6": {"d_model": 384, "heads": 12, "dropout": 0.1},
    "vit-base": {"d_model": 768, "heads": 12},
    "vit-22b": {"d_model": 6144, "heads": 48, "bias": False, "qk_norm": "layer"},
    # T5 folds 1/sqrt(D) into its initialisation; its relative table is learned and comes with `scores`.
    "t5-small": {"d_model": 512, "heads": 8, "bias": False, "scale": 1.0, "dropout": 0.1},
    "gpt2": {"d_model": 768, "heads": 12, "dropout": 0.1, **_CAUSAL},
    "gpt2-xl": {"d_model": 1600, "heads": 25, "dropout": 0.1, **_CAUSAL},
    # Brown et al. 2020, table 2.1; every other layer of theirs has a banded mask besides.
    "gpt3": {"d_model": 12288, "heads": 96, "dropout": 0.1, **_CAUSAL},
    "gpt-j-6b": {
        "d_model": 4096, "heads": 16, "rotary": Rotary(64, pairing="neighbours"), **_LLAMA,
    },
    # Multi-query: one key and value head for all queries (Shazeer 2019). The first is transformer-base with one.
    "mqa": {"d_model": 512, "heads": 8, "kv_heads": 1, "bias": False},
    "falcon-7b": {"d_model": 4544, "heads": 71, "kv_heads": 1, "rotary": Rotary(), **_LLAMA},
    "gemma-2b": {"d_model": 2048, "heads": 8, "kv_heads": 1, "head_dim": 256, "rotary": Rotary(), **_LLAMA},
    "llama-7b": {"d_model": 4096, "heads": 32, "rotary": Rotary(), **_LLAMA},
    # Grouped queries.
    "llama3-8b": {"d_model": 4096, "heads": 32, "kv_heads": 8, "rotary": Rotary(base=500_000.0), **_LLAMA},
    "llama3.1-8b": {
        "d_model": 4096, "heads": 32, "kv_heads": 8,
        "rotary": Rotary(base=500_000.0, scaling=Llama3(8.0, 1.0, 4.0, 8192)), **_LLAMA,
    },
    "smollm2-135m": {"d_model": 576, "heads": 9, "kv_heads": 3, "rotary": Rotary(base=100_000.0), **_LLAMA},
    "mistral-7b": {
        "d_model": 4096, "heads": 32, "kv_heads": 8, "bias": False, "mask": Window(4095, 0), "rotary": Rotary(),
    },
    "qwen2-0.5b": {
        "d_model": 896, "heads": 14, "kv_heads": 2, "out_bias": False, "rotary": Rotary(base=1e6), **_CAUSAL,
    },
    "qwen3-0.6b": {
        "d_model": 1024, "heads": 16, "kv_heads": 8, "head_dim": 128, "qk_norm": "rms", "rotary": Rotary(base=1e6),
        **_LLAMA,
    },
    # The layers that see everything; every other layer has Window(4095, 0).
    "gemma2-9b": {
        "d_model": 3584, "heads": 16, "kv_heads": 8, "head_dim": 256, "scores": (SoftCap(50.0),), "rotary": Rotary(),
        **_LLAMA,
    },
    "gpt-oss-20b": {
        "d_model": 2880, "heads": 64, "kv_heads": 8, "head_dim": 64, "sinks": "learned",
        "rotary": Rotary(base=150_000.0, scaling=Yarn(32.0, 4096, truncate=False)), **_CAUSAL,
    },
}  # fmt: skip
