"""Models in use under torch.compile: one whole graph where transformers has one itself, and observed all the same."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.exc import Unsupported

import headwise as hw

# Sinks, windows, chunks, caps, biases, cross attention: what reaches the attention function in one graph.
FAMILIES = ("llama", "gpt2", "gemma2", "gpt_oss", "llama4", "modernbert", "t5", "vit")


@pytest.fixture(autouse=True)
def _nothing_compiled_before() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def gradients(model: Any, run: Any, batch: dict[str, Tensor]) -> list[Tensor]:
    output = run(**batch)
    found = output.logits if "logits" in output else output.last_hidden_state
    found = found[batch["attention_mask"].bool()]  # rows of padding are nobody's: uncompiled, they are not computed
    return list(torch.autograd.grad(found.square().mean(), [p for p in model.parameters() if p.requires_grad][:4]))


def whole(model: Any, batch: dict[str, Tensor], zoo: Any) -> None:
    """Compiles a model into one graph and compares with what it does uncompiled."""
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    wanted = zoo.result(model, batch)
    torch.testing.assert_close(zoo.result(compiled, batch), wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_model_is_one_graph(name: str, zoo: Any) -> None:
    model = hw.use(zoo.model(name))
    batch = zoo.batch(name, "none" if name == "vit" else "left")
    whole(model, batch, zoo)


def test_it_trains_as_one_graph(zoo: Any) -> None:
    model = hw.use(zoo.model("llama"))
    batch = zoo.batch("llama", "right")
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    for found, wanted in zip(gradients(model, compiled, batch), gradients(model, model, batch), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))


def test_a_float_mask_of_the_users(zoo: Any) -> None:
    model = hw.use(zoo.model("llama"))
    least = torch.finfo(torch.float32).min
    mask = torch.where(torch.ones(10, 10).tril() > 0, torch.linspace(0, 1, 10), least).expand(2, 1, 10, 10)
    batch = {**zoo.batch("llama"), "attention_mask": mask}
    whole(model, batch, zoo)


def test_whoever_watches_a_compiled_model_sees_it(zoo: Any) -> None:
    """Compiled unwatched, then watched, then unwatched again."""
    model = hw.use(zoo.model("llama"))
    batch = zoo.batch("llama", "left")
    with hw.observe(model, hw.Entropy()) as wanted:
        plain = zoo.result(model, batch)
    compiled = torch.compile(model, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(zoo.result(compiled, batch), plain, rtol=1e-5, atol=1e-4)
        with hw.observe(model, hw.Entropy()) as seen:
            zoo.result(compiled, batch)
        torch.testing.assert_close(seen["entropy"], wanted["entropy"], rtol=1e-5, atol=1e-5)
    torch._dynamo.reset()
    whole = torch.compile(model, backend="eager", fullgraph=True)
    with hw.observe(model, hw.Entropy()), pytest.raises(Unsupported):
        zoo.result(whole, batch)


def test_weights_that_are_asked_for_are_given(zoo: Any) -> None:
    model = hw.use(zoo.model("llama"))
    batch = zoo.batch("llama")
    compiled = torch.compile(model, backend="eager")
    zoo.result(compiled, batch)
    with torch.no_grad():
        found, wanted = (run(**batch, output_attentions=True).attentions for run in (compiled, model))
    assert len(found) == len(wanted) == 2
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
