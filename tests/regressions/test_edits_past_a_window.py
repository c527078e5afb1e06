"""Where a cache keeps a window alone, edges and resampled outputs were looked up by places in its buffer."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from zoo import Zoo

import headwise as hw

WINDOWED = ("mistral", "gemma3", "gpt_oss")


def stepped(model: Any, ids: Tensor, masks: list[Tensor] | None = None) -> Tensor:
    """Logits of five tokens at once and then one at a time, over the model's own cache."""
    cuts = [slice(0, 5), *(slice(at, at + 1) for at in range(5, ids.shape[1]))]
    found, cache = [], None
    for n, cut in enumerate(cuts):
        more = {} if masks is None else {"attention_mask": masks[n]}
        out = model(input_ids=ids[:, cut], cache=cache, use_cache=True, **more)
        found.append(out.logits)
        cache = out.cache
    return torch.cat(found, 1)


@pytest.mark.parametrize("family", WINDOWED)
@pytest.mark.parametrize("edges", [[(3, 1)], [(9, 8), (12, 10)]])
def test_edges_are_positions_of_the_text(family: str, edges: list[tuple[int, int]]) -> None:
    zoo = Zoo()
    model, ids = hw.use(zoo.model(family)), zoo.batch(family, length=14)["input_ids"]
    with torch.no_grad(), hw.knock_out(model, {0: [0, 1], 1: [2]}, edges):
        whole = model(input_ids=ids, use_cache=False).logits
        steps = stepped(model, ids)
    torch.testing.assert_close(steps, whole, rtol=0, atol=5e-5 * float(whole.abs().max()))
    with torch.no_grad():
        assert float((model(input_ids=ids, use_cache=False).logits - whole).abs().max()) > 1e-3


@pytest.mark.parametrize("family", WINDOWED)
def test_resampled_outputs_are_those_of_the_position(family: str) -> None:
    zoo = Zoo()
    model, ids = hw.use(zoo.model(family)), zoo.batch(family, length=14)["input_ids"]
    with torch.no_grad(), hw.ablate(model, {0: [0, 1], 1: [2]}, how="resample", reference=ids.flip(1)):
        whole = model(input_ids=ids, use_cache=False).logits
        steps = stepped(model, ids)
    torch.testing.assert_close(steps, whole, rtol=0, atol=5e-5 * float(whole.abs().max()))


def test_a_mask_of_the_users_own_places_steps_too() -> None:
    zoo = Zoo()
    model, ids = hw.use(zoo.model("llama")), zoo.batch("llama", length=14)["input_ids"]
    causal = torch.ones(14, 14, dtype=torch.bool).tril()
    masks = [causal[None, None, 0:5, :5], *(causal[None, None, at : at + 1, : at + 1] for at in range(5, 14))]
    with torch.no_grad(), hw.knock_out(model, {0: [0, 1], 1: [2]}, [(3, 0), (7, 3)]):
        whole = model(input_ids=ids, attention_mask=causal[None, None], use_cache=False).logits
        steps = stepped(model, ids, masks)
    torch.testing.assert_close(steps, whole, rtol=0, atol=5e-5 * float(whole.abs().max()))
