"""Weights of a model in use took part in no graph: a loss made of them trained nothing, without a word.

They still have no gradient, but whoever asks for one is told.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import headwise as hw
from headwise.nn import torch_compat

FAMILIES = ("llama", "gpt2", "bert", "t5", "gpt_oss", "vit")
WANTED = "a gradient of its attention weights is wanted"


def ran(zoo: Any, name: str, model: nn.Module, **more: Any) -> Any:
    return model(**zoo.batch(name), output_attentions=True, **more)


def last(output: Any) -> Tensor:
    found: Tensor = output.logits if "logits" in output else output.last_hidden_state
    return found


def weights_of(output: Any) -> tuple[Tensor, ...]:
    found: tuple[Tensor, ...] = output.attentions if "attentions" in output else output.decoder_attentions
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_a_loss_made_of_weights_is_refused(name: str, zoo: Any) -> None:
    model = hw.use(zoo.model(name))
    output = ran(zoo, name, model)
    with pytest.raises(hw.UnsupportedError, match=WANTED):
        (last(output).square().mean() + weights_of(output)[-1].square().sum()).backward()
    weights = weights_of(ran(zoo, name, model))[0]
    with pytest.raises(hw.UnsupportedError, match=rf"Attention.*: {WANTED}.*hw.restore\(model\)"):
        torch.autograd.grad(weights.square().sum(), list(model.parameters()), allow_unused=True)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_loss_that_leaves_them_alone_is_as_before(name: str, zoo: Any) -> None:
    """Bits of outputs, weights and gradients; and under no_grad no graph at all."""
    model = hw.use(zoo.model(name))
    plain = last(model(**zoo.batch(name)))
    wanted = torch.autograd.grad(plain.square().mean(), list(model.parameters()), allow_unused=True)
    output = ran(zoo, name, model)
    assert torch.equal(last(output), plain)
    found = torch.autograd.grad(last(output).square().mean(), list(model.parameters()), allow_unused=True)
    for one, other in zip(found, wanted, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)
    with torch.no_grad():
        bare = ran(zoo, name, model)
    assert torch.equal(last(bare), plain)
    for one, other in zip(weights_of(bare), weights_of(output), strict=True):
        assert not one.requires_grad
        assert torch.equal(one, other)


@pytest.mark.parametrize("how", ["retain_grad", "register_hook"])
def test_whoever_waits_for_their_gradient(how: str, zoo: Any) -> None:
    """The gradient of a loss behind the weights, as explanations of a model's output read it, would stay None."""
    model = hw.use(zoo.model("llama"))
    output = ran(zoo, "llama", model)
    weights = weights_of(output)[0]
    weights.retain_grad() if how == "retain_grad" else weights.register_hook(lambda grad: None)
    with pytest.raises(hw.UnsupportedError, match=WANTED):
        last(output).sum().backward()
    output = ran(zoo, "llama", model)
    with pytest.raises(RuntimeError, match="not have been used in the graph"):
        torch.autograd.grad(last(output).sum(), weights_of(output)[0])


def test_zeros_that_torch_sends_to_what_no_loss_uses(zoo: Any) -> None:
    """A reentrant checkpoint hands every output a gradient, zeros where nobody wants one."""
    model = hw.use(zoo.model("llama"))
    embedded = model.get_input_embeddings()(zoo.batch("llama")["input_ids"]).detach().requires_grad_()

    def run(x: Tensor) -> tuple[Tensor, Tensor]:
        output = model(inputs_embeds=x, output_attentions=True, use_cache=False)
        return output.logits, output.attentions[0]

    grads = []
    for reentrant in (True, False):
        logits, weights = checkpoint(run, embedded, use_reentrant=reentrant)
        assert weights.requires_grad
        grads += torch.autograd.grad(logits.sum(), embedded) if not reentrant else ()
        if reentrant:
            logits.sum().backward()
            grads.append(embedded.grad)
    torch.testing.assert_close(*grads, rtol=0, atol=0)


def test_hooks_of_modules_and_changes_in_place(zoo: Any) -> None:
    model = hw.use(zoo.model("bert"))
    seen: list[Any] = []
    for layer in model.encoder.layer:
        layer.attention.self.register_full_backward_hook(lambda *grads: seen.append(grads[2]))
        layer.attention.self.register_forward_hook(lambda module, args, output: (output[0].mul_(1.0), *output[1:]))
    last(ran(zoo, "bert", model)).sum().backward()
    assert len(seen) == 2


def test_modules_carry_the_gradient_of_their_weights(zoo: Any) -> None:
    """Beside torch's: the drop-in module, and torch's own inside of everywhere()."""
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64)
    ours = torch_compat.replace(
        torch_compat.restore(nn.MultiheadAttention(8, 2, batch_first=True, dtype=torch.float64))
    )
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    mask = torch.ones(5, 5).triu(1).bool()
    for average in (True, False):
        grads = []
        for module, inside in ((theirs, False), (ours, False), (theirs, True)):
            parameters = [module.in_proj_weight, module.in_proj_bias]
            block = hw.everywhere() if inside else torch.enable_grad()
            with block:
                weights = module(x, x, x, attn_mask=mask, average_attn_weights=average)[1]
                grads.append(torch.autograd.grad(weights.square().sum(), parameters))
        for found in grads[1:]:
            for one, other in zip(found, grads[0], strict=True):
                torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)
