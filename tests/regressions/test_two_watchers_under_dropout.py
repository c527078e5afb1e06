"""Each watcher of a module ran attention anew and drew a seed, so that with two of them later layers dropped others."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest
import torch
import transformers

import headwise as hw
from headwise.models import padding


def model_in_training() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        attention_dropout=0.5,
        pad_token_id=0,
    )
    return hw.use(transformers.LlamaForCausalLM(config).train())


@pytest.mark.parametrize("watchers", [1, 2, 3])
def test_any_number_of_watchers_leaves_output_gradient_and_generator_as_they_are(watchers: int) -> None:
    model, ids = model_in_training(), torch.arange(1, 9)[None]

    def run() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        torch.manual_seed(7)
        model.zero_grad()
        logits = model(ids).logits
        logits.square().sum().backward()
        return logits.detach(), model.model.layers[0].self_attn.q_proj.weight.grad.clone(), torch.get_rng_state()

    plain = run()
    with ExitStack() as stack:
        seen = [stack.enter_context(hw.observe(model, hw.Entropy(), hw.Received())) for _ in range(watchers)]
        watched = run()
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    assert all(torch.equal(seen[0]["received"], other["received"]) for other in seen)


def test_attention_runs_once_for_all_watchers(monkeypatch: pytest.MonkeyPatch) -> None:
    model, runs = model_in_training(), []
    real = padding.attend
    monkeypatch.setattr(padding, "attend", lambda *args, **options: runs.append(1) or real(*args, **options))
    with hw.observe(model, hw.Entropy()), hw.observe(model, hw.Received()), hw.observe(model, hw.TopKeys(1)):
        model(torch.arange(1, 9)[None])
    assert len(runs) == 3  # one a layer


def test_a_trace_beside_a_watcher() -> None:
    model, ids = model_in_training(), torch.arange(1, 9)[None]
    with hw.observe(model, hw.Entropy()) as seen:
        trace = hw.trace(model, input_ids=ids)
    torch.testing.assert_close(trace.pattern(2).entropy(), seen["entropy"][2])
