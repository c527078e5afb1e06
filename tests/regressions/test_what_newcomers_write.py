"""``a and b`` of two masks was b alone, torch's names gave raw TypeErrors, and chunks through the cache of a layer that
sees ahead gave numbers that depend on where the text is cut."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import headwise as hw
from headwise.nn import AttentionConfig, KVCache
from headwise.testing import check_causal


@pytest.mark.parametrize("ask", [lambda a, b: a and b, lambda a, b: a or b, lambda a, b: not a])
def test_masks_have_no_truth(ask: Any) -> None:
    with pytest.raises(hw.SpecError, match=r"Combine with & and \|"):
        ask(hw.Causal(), hw.Window(3))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: hw.MultiHeadAttention(64, num_heads=4), "no option 'num_heads'.* Did you mean 'heads'"),
        (lambda: hw.MultiHeadAttention(embed_dim=64, num_heads=4), "no option 'embed_dim'.* Did you mean 'd_model'"),
        (lambda: hw.MultiHeadAttention(64), "heads is missing"),
        (lambda: hw.MultiHeadAttention(AttentionConfig(64, 4)), r"Write MultiHeadAttention.from_config\(config\)"),  # type: ignore[arg-type]
        (lambda: hw.MultiHeadAttention(64, 4, is_causal=True), r"Write mask=headwise.Causal\(\)"),
        (lambda: hw.MultiHeadAttention(64, 4, batch_first=True), r"x is \[B,T,M\]"),
        (lambda: hw.MultiHeadAttention(64, 4, mask="causal"), r"Write headwise.Causal\(\)"),
        (lambda: check_causal(lambda x: x, torch.zeros(1, 2, 3)), "module is a function"),  # type: ignore[arg-type]
        (lambda: hw.models.TransformersCache(KVCache()), "Give the class, KVCache, or a lambda"),  # type: ignore[arg-type]
    ],
)
def test_names_from_elsewhere(make: Any, said: str) -> None:
    with pytest.raises(hw.SpecError, match=said):
        make()


@pytest.mark.parametrize("mask", [None, hw.Window(3), hw.Window(3, 3), hw.Padding(torch.tensor([10]))])
def test_chunks_of_a_layer_that_sees_ahead(mask: Any) -> None:
    layer, x, cache = hw.MultiHeadAttention(16, 2).eval(), torch.randn(1, 10, 16), KVCache()
    with torch.no_grad():
        layer(x[:, :5], mask=mask, cache=cache)
        with pytest.raises(hw.SpecError, match=r"Add headwise.Causal\(\) to the mask"):
            layer(x[:, 5:], mask=mask, cache=cache)
        assert cache.length == 5
        layer(x[:, 5:6], mask=mask, cache=cache)
        for causal in (hw.Causal(), hw.Causal() | hw.Prefix(2), hw.Window(3, 0), hw.masks.tree([-1, 0])):
            layer(x[:, 6:8], mask=causal, cache=cache)
            cache.crop(6)
