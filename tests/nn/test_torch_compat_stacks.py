"""The drop-in place inside torch's own encoder, decoder and transformer, in every mode of theirs."""

from __future__ import annotations

import contextlib
import copy
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.errors import SpecError
from headwise.nn import torch_compat
from headwise.nn.torch_compat import MultiheadAttention

F64 = torch.float64
M, H, B, T, S = 12, 2, 3, 5, 7
MODES = ["train", "eval", "no_grad", "inference_mode"]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def encoder(layers: int = 3, **options: Any) -> nn.TransformerEncoder:
    options = {"dropout": 0.0, "batch_first": True, "dtype": F64, **options}
    quiet = bool(options.get("norm_first")) or not options["batch_first"]  # torch warns that it cannot nest then
    return nn.TransformerEncoder(
        nn.TransformerEncoderLayer(M, H, 16, **options), layers, enable_nested_tensor=not quiet
    )


def padding(length: int) -> Tensor:
    return torch.arange(length) >= torch.tensor([[length], [length - 2], [2]])


@contextlib.contextmanager
def mode(model: nn.Module, name: str) -> Iterator[None]:
    """One of the modes, without the warning that nested tensors are a prototype of torch's."""
    model.train(name == "train")
    context: Any = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}.get(name, torch.enable_grad)
    with context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")
        yield


class Count:
    """How often any of a model's attention modules was called, and their output projections."""

    def __init__(self, model: nn.Module) -> None:
        self.calls: list[str] = []
        for name, part in model.named_modules():
            if isinstance(part, nn.MultiheadAttention):
                part.register_forward_hook(lambda *_, name=name: self.calls.append(name))
                part.out_proj.register_forward_hook(lambda *_, name=name: self.calls.append(f"{name}.out_proj"))


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("masked", ["none", "padding", "cells", "heads", "both"])
@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"batch_first": False}], ids=["post", "pre", "TBM"])
def test_an_encoder_is_torchs(name: str, masked: str, options: dict[str, Any]) -> None:
    """A1.13, A1.14, A3.49: the same numbers at every real token in every mode, and every module called once."""
    theirs = encoder(**options)
    ours = torch_compat.replace(copy.deepcopy(theirs))
    x = draw(B, T, M) if theirs.layers[0].self_attn.batch_first else draw(B, T, M).transpose(0, 1)
    said: dict[str, Any] = {}
    if masked in ("padding", "both"):
        said["src_key_padding_mask"] = padding(T)
    if masked in ("cells", "both"):
        said["mask"] = torch.ones(T, T).triu(1).bool()
    if masked == "heads":
        hidden = draw(B * H, T, T, seed=3) > 0.8
        hidden[..., 0] = False
        said["mask"] = hidden
    with mode(theirs, "train"):
        want = theirs(x, **said)
    with mode(ours, name):
        got = ours(x, **said)
        count = Count(ours)
        again = ours(x, **said)
    real = ~padding(T) if "src_key_padding_mask" in said else torch.ones(B, T).bool()
    real = real if theirs.layers[0].self_attn.batch_first else real.T
    torch.testing.assert_close(got[real], want[real], rtol=0, atol=1e-11)
    torch.testing.assert_close(again[real], want[real], rtol=0, atol=1e-11)
    assert len(count.calls) == 6


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("built", ["around ours", "replaced"])
def test_padded_in_inference_it_is_torchs_to_the_last_row(nested: bool, built: str) -> None:
    """A1.14: where torch's encoder hands nested tensors down, they are read as what they are."""
    theirs = nn.TransformerEncoder(encoder().layers[0], 2, enable_nested_tensor=nested)
    if built == "replaced":
        ours = torch_compat.replace(copy.deepcopy(theirs))
    else:
        ours = nn.TransformerEncoder(torch_compat.replace(copy.deepcopy(theirs.layers[0])), 2, None, nested)
        ours.load_state_dict(theirs.state_dict())
    x = draw(B, T, M)
    seen: list[bool] = []
    for model in (theirs, ours):
        model.layers[0].linear1.register_forward_pre_hook(lambda _, args: seen.append(args[0].is_nested))
    with mode(theirs, "no_grad"):
        want = theirs(x, src_key_padding_mask=padding(T))
    with mode(ours, "no_grad"):
        got = ours(x, src_key_padding_mask=padding(T))
    assert seen[-1] is nested
    torch.testing.assert_close(got, want, rtol=0, atol=1e-11)


@pytest.mark.parametrize("made", ["replaced", "constructed"])
def test_an_empty_row_poisons_no_encoder(made: str) -> None:
    """A1.1, A1.4: in training and in inference, where torch gives NaN."""
    model = encoder(2)
    if made == "replaced":
        torch_compat.replace(model)
    else:
        for layer in model.layers:
            layer.self_attn = MultiheadAttention(M, H, batch_first=True, dtype=F64)
    x = draw(1, 4, M)
    said = {
        "mask": torch.eye(4).bool().logical_not(),
        "src_key_padding_mask": torch.tensor([[False, False, True, True]]),
    }
    results = []
    for name in MODES:
        with mode(model, name):
            results.append(model(x, **said))
    for got in results:
        assert bool(torch.isfinite(got).all())
        torch.testing.assert_close(got[:, :2], results[0][:, :2], rtol=0, atol=1e-12)
    for gradient in torch.autograd.grad(results[0][:, :2].square().sum(), list(model.parameters())):
        assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("batch_first", [True, False])
def test_a_transformer_is_torchs(name: str, batch_first: bool) -> None:
    """Encoder, decoder and the attention between them; gradients too."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor is True")
        theirs = nn.Transformer(M, H, 2, 2, 16, dropout=0.0, batch_first=batch_first, dtype=F64)
    ours = torch_compat.replace(copy.deepcopy(theirs))
    assert sum(type(part) is MultiheadAttention for part in ours.modules()) == 6
    source, target = draw(B, S, M), draw(B, T, M, seed=1)
    if not batch_first:
        source, target = source.transpose(0, 1), target.transpose(0, 1)
    said = {
        "tgt_mask": nn.Transformer.generate_square_subsequent_mask(T, dtype=F64),
        "tgt_is_causal": True,
        "src_key_padding_mask": padding(S),
        "memory_key_padding_mask": padding(S),
    }
    outs = []
    for model in (theirs, ours):
        with mode(model, name):
            outs.append(model(source, target, **said))
    torch.testing.assert_close(outs[1], outs[0], rtol=0, atol=1e-11)
    if outs[0].requires_grad:
        grads = [
            torch.autograd.grad(out.square().sum(), list(m.parameters()))
            for out, m in zip(outs, (theirs, ours), strict=True)
        ]
        for want, got in zip(*grads, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-10)


def test_replacing_keeps_every_object_and_goes_back() -> None:
    theirs = encoder(2)
    before = {name: id(part) for name, part in [*theirs.named_modules(), *theirs.named_parameters()]}
    hooks = [part._forward_pre_hooks.copy() for part in theirs.modules()]
    assert torch_compat.replace(torch_compat.replace(theirs)) is theirs
    assert [type(layer.self_attn) for layer in theirs.layers] == [MultiheadAttention] * 2
    assert {name: id(part) for name, part in [*theirs.named_modules(), *theirs.named_parameters()]} == before
    assert torch_compat.restore(theirs) is theirs
    assert [type(layer.self_attn) for layer in theirs.layers] == [nn.MultiheadAttention] * 2
    assert [part._forward_pre_hooks for part in theirs.modules()] == hooks


def test_a_class_of_the_users_own_is_left_alone() -> None:
    class Own(nn.MultiheadAttention):
        pass

    assert type(torch_compat.replace(Own(8, 2))) is Own
    assert type(torch_compat.replace(nn.MultiheadAttention(8, 2))) is MultiheadAttention


@pytest.mark.parametrize("name", MODES)
def test_an_adapter_in_place_of_the_output_projection_is_heard(name: str) -> None:
    """A3.50: torch's module reads out_proj's weight and never calls it, so LoRA on it does nothing there."""
    import peft

    model = torch_compat.replace(encoder(2))
    adapted = peft.get_peft_model(copy.deepcopy(model), peft.LoraConfig(r=2, target_modules=["out_proj"]))
    x = draw(B, T, M)
    with mode(adapted, name):
        same = adapted(x)
        for weight_name, weight in adapted.named_parameters():
            if "lora_B" in weight_name:
                weight.data.copy_(draw(*weight.shape))
        heard = adapted(x)
    with mode(model, name):
        torch.testing.assert_close(same, model(x), rtol=0, atol=1e-11)
    assert float((heard - same).detach().abs().max()) > 1e-3


# looking at a whole stack


def test_every_layer_of_a_stack_can_be_asked() -> None:
    """A3.48: the answers of three layers, the bits of the output unchanged."""
    model = torch_compat.replace(encoder(3)).eval()
    x, hidden = draw(B, T, M), padding(T)
    with mode(model, "no_grad"):
        plain = model(x, src_key_padding_mask=hidden, mask=torch.zeros(T, T).bool())
        with torch_compat.observe(model, hw.Received(), hw.Entropy()) as seen:
            got = model(x, src_key_padding_mask=hidden, mask=torch.zeros(T, T).bool())
            assert len(seen) == 3
            model(x)
    assert torch.equal(got, plain)
    assert list(seen) == [f"layers.{n}.self_attn{run}" for run in ("", "#1") for n in range(3)]
    received = seen["layers.0.self_attn"]["received"]
    assert bool((received.transpose(1, 2)[hidden] == 0).all())
    first = model.layers[0].self_attn(x, x, x, key_padding_mask=hidden, average_attn_weights=False)[1]
    torch.testing.assert_close(received, first.sum(2).detach(), rtol=0, atol=1e-12)
    assert seen["layers.2.self_attn"]["entropy"].shape == (B, H, T)


def test_observers_see_their_own_thread_and_their_own_model() -> None:
    model, other = torch_compat.replace(encoder(1)), torch_compat.replace(encoder(1))
    x = draw(B, T, M)
    with torch_compat.observe(model, hw.Entropy()) as seen, torch_compat.observe(model, hw.MaxLogit()) as also:
        thread = threading.Thread(target=model, args=(x,))
        thread.start()
        thread.join()
        other(x)
        assert not seen
        model(x)
    model(x)
    assert {name: list(answers) for name, answers in seen.items()} == {"layers.0.self_attn": ["entropy"]}
    assert {name: list(answers) for name, answers in also.items()} == {"layers.0.self_attn": ["max_logit"]}


def test_there_must_be_something_to_ask() -> None:
    for model, asked, text in (
        (encoder(1), [hw.Entropy()], "holds no MultiheadAttention of headwise; .*replace"),
        (torch_compat.replace(encoder(1)), [], "no observer was given"),
    ):
        with pytest.raises(SpecError, match=text), torch_compat.observe(model, *asked):
            pass
