"""A step of fine-tuning on headwise, each layer computed again on the way back, while heads are watched."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw


def step(model: Any, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of next tokens, padding left out on both sides of a step, and every parameter's gradient."""
    model.zero_grad()
    real = batch["attention_mask"].bool()
    labels = batch["input_ids"].masked_fill(~(real & real.roll(1, -1)), -100)
    loss = model(**batch, labels=labels, use_cache=False).loss
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss"])
def test_watched_and_checkpointed_it_has_the_gradients_of_eager(
    family: str, reentrant: bool, side: str, zoo: Any
) -> None:
    model, batch = zoo.model(family), zoo.batch(family, side)
    model.train()
    model.set_attn_implementation("eager")
    loss, wanted = step(model, batch)
    hw.use(model)
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    with hw.observe(model, hw.MaxLogit(), hw.Entropy()) as seen:
        found_loss, found = step(model, batch)
    torch.testing.assert_close(found_loss, loss, rtol=1e-5, atol=0)
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-5 * float(gradient.abs().max()))
    for answer in ("max_logit", "entropy"):  # of the first run of a layer; the second is no other call
        assert seen[answer].shape[0] == len(hw.sites(model))
        assert bool(torch.isfinite(seen[answer][:, batch["attention_mask"].bool()[:, None].expand(-1, 4, -1)]).all())
        assert not seen[answer].requires_grad
