"""``a and b`` of two masks was b alone, torch's names and texts for tokens gave raw TypeErrors, and chunks through the
cache of a layer that sees ahead gave numbers that depend on where the text is cut."""

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


Q, X = torch.zeros(1, 2, 3, 4), torch.zeros(1, 3, 16)
LAYER = hw.MultiHeadAttention(16, 4)
LATENT = hw.nn.LatentAttention(16, 2, kv_rank=4, nope_dim=4, rope_dim=2, v_dim=4)


@pytest.mark.parametrize("call", [hw.attention, hw.attend, hw.explain, hw.Pattern])
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"is_causal": True}, r"Write mask=headwise.Causal\(\)"),
        ({"attn_mask": None}, r"Write mask=headwise.Dense\(keep\)"),
        ({"key_padding_mask": None}, r"Write mask=headwise.Padding\(~key_padding_mask\)"),
        ({"enable_gqa": True}, "Leave it out"),
        ({"softmax_scale": 1.0}, "Did you mean 'scale'"),
        ({"maks": None}, "Did you mean 'mask'"),
        ({"mask": "causal"}, r"Write hw.Causal\(\)"),
    ],
)
def test_calls_in_the_words_of_torch(call: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(hw.SpecError, match=said):
        call(Q, Q, Q, **options)


@pytest.mark.parametrize("call", [hw.attention, hw.attend, hw.explain, hw.Pattern])
def test_calls_in_the_order_of_torch(call: Any) -> None:
    with pytest.raises(hw.SpecError, match="4 arguments were given without a name; only q, k and v can be"):
        call(Q, Q, Q, torch.ones(3, 3).bool())


@pytest.mark.parametrize("layer", [LAYER, LAYER.attend, LATENT, LATENT.attend, hw.nn.DifferentialAttention(16, 2)])
@pytest.mark.parametrize(
    ("inputs", "options", "said"),
    [
        ((X, X, X), {}, r"3 arguments were given without a name.*Write layer\(x\)"),
        ((X,), {"need_weights": False}, "no option 'need_weights'.*Leave it out: attend"),
        ((X,), {"is_causal": True}, r"Write mask=headwise.Causal\(\)"),
        ((X,), {"past_key_values": None}, "Did you mean 'cache'"),
        ((X,), {"attention_mask": None}, r"Write mask=headwise.Padding\(attention_mask.bool\(\)\)"),
    ],
)
def test_layers_called_as_torchs(layer: Any, inputs: Any, options: dict[str, Any], said: str) -> None:
    with pytest.raises(hw.SpecError, match=said):
        layer(*inputs, **options)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda m, t: hw.trace(m, "a text"), r"trace: the text 'a text' was given.*\*\*tokenizer\(text"),
        (lambda m, t: hw.trace(m, text=["a", "b"]), r"a list of texts was given.*\*\*tokenizer\(text"),
        (lambda m, t: hw.trace(m.generate, "a text"), "the text 'a text' was given"),
        (hw.trace, "a tokenizer, .* was given"),
        (lambda m, t: hw.trace(m, t("a text", return_tensors="pt")), r"Unpack it: hw.trace\(model, \*\*batch\)"),
        (lambda m, t: hw.view(m, "a text"), r"view: 2 arguments .*Write hw.view\(model, tokenizer=tokenizer, text="),
        (lambda m, t: hw.view(m, t, "a text"), r"view: 3 arguments .*Write hw.view\(model, tokenizer=tokenizer, text="),
        (lambda m, t: hw.head_table(m, "a text"), "tokenizer is a str"),
        (lambda m, t: hw.head_table(m, t, text="a text"), "no option 'text'.*Did you mean 'texts'"),
        (lambda m, t: hw.observe(m, hw.Entropy(), layers=[0]).__enter__(), "Did you mean 'sites'"),
        (lambda m, t: hw.load("two-layer", torch_dtype=torch.float32), "Did you mean 'dtype'"),
        (lambda m, t: hw.nn.convert.from_torch(LAYER), "from_torch: the layer is a MultiHeadAttention"),
    ],
)
def test_models_given_text(make: Any, said: str) -> None:
    with pytest.raises(hw.SpecError, match=said):
        make(*hw.load("two-layer"))


def test_a_trace_says_its_sites_and_runs() -> None:
    model, tokenizer = hw.load("two-layer")
    trace = hw.trace(model, **tokenizer("a list of a list", return_tensors="pt"))
    assert repr(trace) == "Trace(2 sites: model.layers.0.self_attn, model.layers.1.self_attn)"
    pattern = trace.pattern(0)
    again = type(trace)(None, {"a": pattern, "a#1": pattern, "b": pattern}, ["a", "b"])
    assert repr(again) == "Trace(2 sites: a, b; 3 runs of them)"


@pytest.mark.parametrize("mask", [None, hw.Window(3), hw.Window(3, 3), hw.Padding(torch.tensor([10]))])
def test_chunks_of_a_layer_that_sees_ahead(mask: Any) -> None:
    layer, x, cache = hw.MultiHeadAttention(16, 2).eval(), torch.randn(1, 10, 16), KVCache()
    with torch.no_grad():
        layer(x[:, :5], mask=mask, cache=cache)
        with pytest.raises(hw.SpecError, match=r"in one call, the first|[Ff]eed the text at once"):
            layer(x[:, 5:], mask=mask, cache=cache)
        assert cache.length == 5
        layer(x[:, 5:6], mask=mask, cache=cache)
        for causal in (hw.Causal(), hw.Causal() | hw.Prefix(2), hw.Window(3, 0), hw.masks.tree([-1, 0])):
            layer(x[:, 6:8], mask=causal, cache=cache)
            cache.crop(6)
