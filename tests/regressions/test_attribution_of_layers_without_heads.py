"""A layer that lost all of its heads was left out, with its feed-forward and the bias of its output projection."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from zoo import Zoo

import headwise as hw
from headwise.errors import UnsupportedError
from headwise.heads.attribution import attribution, contributions
from headwise.heads.paths import paths

ZOO = Zoo()

ALL = [0, 1, 2, 3]
PRUNED: dict[str, tuple[str, dict[int, list[int]], dict[str, Any]]] = {
    "first layer": ("llama", {0: ALL}, {"attention_bias": True}),
    "last layer": ("llama", {1: ALL}, {"attention_bias": True}),
    "conv1d": ("gpt2", {0: ALL}, {}),
    "and one head": ("gpt2", {0: [2], 1: ALL}, {}),
    "norms behind": ("gemma2", {0: ALL}, {"attention_bias": True, "final_logit_softcapping": None}),
    "a decoder's own": ("whisper", {2: ALL}, {}),
    "its cross attention": ("whisper", {3: ALL}, {}),
    "all of its second layer": ("whisper", {4: ALL, 5: ALL}, {}),
}


def own_logits(model: Any, batch: dict[str, Any]) -> Any:
    ids = batch.get("decoder_input_ids", batch.get("input_ids"))
    with torch.no_grad():
        return model(**batch).logits[:, :-1].gather(-1, ids[:, 1:, None])[..., 0]


@pytest.mark.parametrize("case", PRUNED)
def test_terms_of_pruned_models_sum_to_the_logit(case: str) -> None:
    name, heads, changes = PRUNED[case]
    model, batch = hw.prune(ZOO.model(name, **changes), heads), ZOO.batch(name)
    found = attribution(model, **batch)
    torch.testing.assert_close(found.total[:, :-1], own_logits(model, batch), atol=1e-5, rtol=1e-5)
    assert len(found.feed_forward) == 2
    assert float(found.feed_forward[..., :-1].abs().max(-1).values.min()) > 1e-3
    for layer in (layer for layer, gone in heads.items() if gone == ALL):
        assert bool(found.heads[layer].isnan().all())


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert", "t5"])
def test_a_layer_without_heads_contributes_its_bias(name: str) -> None:
    changes = {"attention_bias": True} if name == "llama" else {}
    model = hw.prune(ZOO.model(name, **changes), {0: ALL})
    found = contributions(model, **ZOO.batch(name))
    assert found.sites == hw.sites(model)
    assert found.of(0).shape == (2, 0, 10, 32)
    assert bool(found.bias(0).any()) == (name != "t5")


def test_a_feed_forward_in_a_layer_without_heads_is_refused_or_left_over() -> None:
    model, batch = hw.prune(ZOO.model("gpt2"), {0: ALL}), ZOO.batch("gpt2")
    with torch.no_grad():
        for parameter in model.transformer.h[1].mlp.parameters():
            parameter.zero_()
    with pytest.raises(UnsupportedError, match=r"paths: the feed-forward of transformer\.h\.0 adds something"):
        paths(model, **batch)
    with torch.no_grad():
        for parameter in model.transformer.h[0].mlp.parameters():
            parameter.zero_()
    found = paths(model, **batch)  # the bias of the layer without heads is all that it adds
    total = found.direct + found.one.nansum((0, 1)) + found.biases
    torch.testing.assert_close(total[:, :-1], own_logits(model, batch), atol=1e-5, rtol=1e-5)
    assert bool(found.two.isnan().all())


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_terms_of_heads_that_are_edited_sum_to_the_logit(how: str) -> None:
    """What an edit makes of a head's output was not what its term was made of."""
    model, batch = ZOO.model("llama"), ZOO.batch("llama")
    with hw.ablate(model, {0: [1], 1: [2]}, how, None if how == "zero" else batch):
        logit, found = own_logits(model, batch), attribution(model, **batch)
    torch.testing.assert_close(found.total[:, :-1], logit, atol=1e-5, rtol=1e-5)
