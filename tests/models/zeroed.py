"""What pruning is compared with: the same model whose output projections have zeros for the heads that are gone."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

import headwise as hw

#: The families that heads can be cut out of; every one of these tiny models has 4 query heads a layer.
LLAMAS = (
    "llama", "mistral", "mixtral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3", "smollm3", "granite", "starcoder2",
)  # fmt: skip
OTHERS = ("gpt2", "gpt_neox", "bert", "roberta", "distilbert", "t5", "bart", "whisper", "vit")
CUTTABLE = (*LLAMAS, *OTHERS)

_OUTPUTS = ("o_proj", "c_proj", "dense", "out_lin", "out_proj", "o")


def output_of(model: nn.Module, site: str) -> Any:
    """The output projection of a site, found by its name."""
    module = model.get_submodule(site)
    inside = [getattr(module, name) for name in _OUTPUTS if hasattr(module, name)]
    return inside[0] if inside else model.get_submodule(site.rpartition(".")[0]).output.dense  # type: ignore[union-attr]


def zeroed(model: Any, heads: Mapping[int, Sequence[int]], of: int = 4) -> Any:
    """A copy of an unpruned model of so many heads a layer in which some contribute nothing."""
    copied = copy.deepcopy(model)
    sites = hw.sites(copied)
    for layer, gone in heads.items():
        linear = output_of(copied, sites[layer])
        columns = linear.weight if isinstance(linear, nn.Linear) else linear.weight.T
        for head in gone:
            with torch.no_grad():
                columns[:, head * columns.shape[1] // of : (head + 1) * columns.shape[1] // of] = 0
    return copied


def close(found: Tensor, wanted: Tensor, other: Tensor | None = None) -> None:
    """Equal but for the rounding of sums in another order; ``other`` is ``wanted``, summed in yet another one."""
    rounding = 0.0 if other is None else 2 * float((other - wanted).abs().max())
    torch.testing.assert_close(found, wanted, rtol=0, atol=rounding + 1e-5 * float(wanted.abs().max()))
