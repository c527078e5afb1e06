"""Weights that come from other libraries and go back: the layers compute the same."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn

import headwise as hw
from headwise.errors import ShapeError, SpecError, UnsupportedError
from headwise.nn import Rotary
from headwise.nn.convert import LAYOUTS, from_state, from_torch, rope_pairing, to_state, to_torch
from headwise.nn.torch_compat import MultiheadAttention

F64 = torch.float64
B, T, S, M, H = 2, 5, 7, 16, 4


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def filled(module: nn.Module) -> Any:
    """A module in float64 whose weights are all different numbers."""
    module = module.double().eval()
    for n, weight in enumerate(module.parameters()):
        weight.data.copy_(draw(*weight.shape, seed=20 + n) * 0.4)
    return module


def near(got: Tensor, want: Tensor) -> None:
    assert got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=1e-11, atol=1e-12)


# torch


@pytest.mark.parametrize("kind", [nn.MultiheadAttention, MultiheadAttention])
@pytest.mark.parametrize(
    "options", [{}, {"bias": False}, {"kdim": 6, "vdim": 6}, {"kdim": 6, "vdim": 9, "dropout": 0.1}]
)
def test_torch_and_back(kind: type[nn.MultiheadAttention], options: dict[str, Any]) -> None:
    theirs = filled(kind(M, H, batch_first=True, **options))
    ours = from_torch(theirs)
    q, k, v = draw(B, T, M), draw(B, S, theirs.kdim, seed=1), draw(B, S, theirs.vdim, seed=2)
    want = theirs(q, k, v, need_weights=False)[0]
    near(ours(q, (k, v)), want)
    back = to_torch(ours, batch_first=False)
    near(back(*(x.transpose(0, 1) for x in (q, k, v)), need_weights=False)[0].transpose(0, 1), want)
    assert {key: value.tolist() for key, value in back.state_dict().items()} == {
        key: value.tolist() for key, value in theirs.state_dict().items()
    }
    assert (ours.dropout, ours.training, back.dropout, back.training) == (theirs.dropout, False) * 2
    for layer in (ours, back):  # copies: the weights of the one are not those of the other
        next(layer.parameters()).data.zero_()
    near(theirs(q, k, v, need_weights=False)[0], want)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"add_bias_kv": True}, r"'bias_k' cannot be converted; a learned key behind all others"),
        ({"add_zero_attn": True}, "add_zero_attn cannot be converted"),
    ],
)
def test_what_four_projections_cannot_say(options: dict[str, bool], text: str) -> None:
    with pytest.raises(UnsupportedError, match=text):
        from_torch(nn.MultiheadAttention(8, 2, **options))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kv_heads": 2}, "2 key heads for 4 query heads"),
        ({"head_dim": 8}, "heads of width 8"),
        ({"scale": 1.0}, "a scale of its own"),
        ({"mask": hw.Causal()}, "a mask"),
        ({"scores": (hw.SoftCap(30.0),)}, "score rules"),
        ({"sinks": "off-by-one"}, "sinks"),
        ({"qk_norm": "rms"}, "norms of queries and keys"),
        ({"rotary": Rotary()}, "rotary positions"),
        ({"gate": "head"}, "gates"),
        ({"out_bias": False}, "only some projections have a bias; torch's layer has a bias everywhere"),
    ],
)
def test_what_torchs_layer_cannot_say(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UnsupportedError, match=f"to_torch: .*{text}"):
        to_torch(hw.MultiHeadAttention(M, H, **options))


# transformers


def test_llama_mistral_qwen2() -> None:
    """Grouped heads and rotary positions, and biases on some projections."""
    from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding
    from transformers.models.mistral.modeling_mistral import MistralAttention
    from transformers.models.qwen2.modeling_qwen2 import Qwen2Attention

    sizes: dict[str, Any] = {"hidden_size": M, "num_attention_heads": H, "num_key_value_heads": 2}
    for kind, config, bias in (
        (LlamaAttention, transformers.LlamaConfig(**sizes), False),
        (MistralAttention, transformers.MistralConfig(**sizes, head_dim=4, sliding_window=None), False),
        (Qwen2Attention, transformers.Qwen2Config(**sizes), True),
    ):
        theirs = filled(kind(config, 0))
        x = draw(B, T, M)
        turns = LlamaRotaryEmbedding(config)(x, torch.arange(T)[None])
        want = theirs(x, turns, None)[0]
        state = from_state(theirs.state_dict(), "llama")
        ours = hw.MultiHeadAttention(
            M, H, 2, bias=bias, out_bias=False, rotary=Rotary.from_config(config), mask=hw.Causal(), dtype=F64
        )
        ours.load_state_dict(state)
        causal = torch.full((T, T), float("-inf"), dtype=F64).triu(1)[None, None]
        torch.testing.assert_close(ours(x), theirs(x, turns, causal)[0], rtol=1e-6, atol=1e-6)  # cosines in float32
        assert float((want - ours(x)).detach().abs().max()) > 1e-3
        again = copy.deepcopy(theirs)
        again.load_state_dict({key: value * 0 for key, value in theirs.state_dict().items()})
        again.load_state_dict(to_state(ours.state_dict(), "llama"))
        near(again(x, turns, None)[0], want)


def test_norms_and_sinks_come_along() -> None:
    from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention
    from transformers.models.qwen3.modeling_qwen3 import Qwen3Attention

    sizes: dict[str, Any] = {"hidden_size": M, "num_attention_heads": H, "num_key_value_heads": 2, "head_dim": 8}
    x, still = draw(B, T, M), (torch.ones(1, T, 8, dtype=F64), torch.zeros(1, T, 8, dtype=F64))
    norms = filled(Qwen3Attention(transformers.Qwen3Config(**sizes, rms_norm_eps=1e-5), 0))
    ours = hw.MultiHeadAttention(M, H, 2, 8, bias=False, qk_norm="rms", norm_eps=1e-5, dtype=F64)
    ours.load_state_dict(from_state(norms.state_dict(), "llama"))
    # transformers takes the norm in float32
    torch.testing.assert_close(ours(x), norms(x, still, None)[0], rtol=1e-5, atol=1e-5)
    config = transformers.GptOssConfig(**sizes, attn_implementation="eager")
    sinks = filled(GptOssAttention(config, 0))
    ours = hw.MultiHeadAttention(M, H, 2, 8, sinks=True, dtype=F64)
    ours.load_state_dict(from_state(sinks.state_dict(), "llama"))
    half = tuple(x[..., :4] for x in still)
    near(ours(x), sinks(x, half, None)[0])
    with pytest.raises(UnsupportedError, match="bert: 'sinks' cannot be converted; this layout has no sinks"):
        to_state(ours.state_dict(), "bert")


def returns(theirs: Any, ours: hw.MultiHeadAttention, layout: str, run: Any, *inputs: Tensor) -> None:
    """Ours computes what theirs does with its weights, and theirs again with ours."""
    want = run(theirs)
    ours.load_state_dict(from_state(theirs.state_dict(), layout))
    near(ours(*inputs), want)
    state = to_state(ours.state_dict(), layout)
    rest = {key: value for key, value in theirs.state_dict().items() if key in LAYOUTS[layout].beside}
    again = copy.deepcopy(theirs)
    for weight in again.parameters():
        weight.data.zero_()
    again.load_state_dict({**state, **rest})
    near(run(again), want)


@pytest.mark.parametrize("cross", [False, True])
def test_gpt2(cross: bool) -> None:
    from transformers.models.gpt2.modeling_gpt2 import GPT2Attention

    config = transformers.GPT2Config(n_embd=M, n_head=H, n_positions=8)
    theirs = filled(GPT2Attention(config, is_cross_attention=cross))
    x, y = draw(B, T, M), draw(B, S, M, seed=1)
    ours = hw.MultiHeadAttention(M, H, dtype=F64)
    if cross:
        returns(theirs, ours, "gpt2 cross", lambda m: m(x, encoder_hidden_states=y)[0], x, y)
    else:
        full = torch.zeros(1, 1, T, T, dtype=F64)
        returns(theirs, ours, "gpt2", lambda m: m(x, attention_mask=full)[0], x)
        old = {**theirs.state_dict(), "bias": torch.ones(1, 1, 8, 8).tril(), "masked_bias": torch.tensor(-1e4)}
        assert from_state(old, "gpt2").keys() == ours.state_dict().keys()


def test_bert_and_vit() -> None:
    from transformers.models.bert.modeling_bert import BertAttention
    from transformers.models.vit.modeling_vit import ViTAttention

    config = transformers.BertConfig(hidden_size=M, num_attention_heads=H)
    bert, x = filled(BertAttention(config)), draw(B, T, M)

    def attention(m: Any) -> Tensor:
        return m.output.dense(m.self(x)[0])  # what stands behind is the residual and its norm

    returns(bert, hw.MultiHeadAttention(M, H, dtype=F64), "bert", attention, x)
    vit = filled(ViTAttention(transformers.ViTConfig(hidden_size=M, num_attention_heads=H, attn_implementation="sdpa")))
    returns(vit, hw.MultiHeadAttention(M, H, dtype=F64), "llama", lambda m: m(x)[0], x)
    # checkpoints, and transformers before 5.20, write it with BERT's names
    names = dict(zip(LAYOUTS["llama"].names, LAYOUTS["vit"].names, strict=True))
    old = {f"{names[key.split('.')[0]]}.{key.split('.')[1]}": value for key, value in vit.state_dict().items()}
    assert {k: v.tolist() for k, v in from_state(old, "vit").items()} == {
        k: v.tolist() for k, v in vit.state_dict().items()
    }


def test_t5() -> None:
    """Scale 1, and heads whose widths do not add up to M."""
    from transformers.models.t5.modeling_t5 import T5Attention

    config = transformers.T5Config(d_model=M, d_kv=6, num_heads=H)
    theirs, x, y = filled(T5Attention(config)), draw(B, T, M), draw(B, S, M, seed=1)
    ours = hw.MultiHeadAttention(M, H, head_dim=6, bias=False, scale=1.0, dtype=F64)
    returns(theirs, ours, "t5", lambda m: m(x, key_value_states=y)[0], x, y)
    with pytest.raises(UnsupportedError, match=r"t5: 'relative_attention_bias.weight' cannot be .* a score rule"):
        from_state(T5Attention(config, has_relative_attention_bias=True).state_dict(), "t5")


def test_timm() -> None:
    """One packed Linear, heads inside its thirds."""
    state = {"qkv.weight": draw(3 * M, M), "qkv.bias": draw(3 * M, seed=1)}
    state |= {"proj.weight": draw(M, M, seed=2), "proj.bias": draw(M, seed=3)}
    ours, x = hw.MultiHeadAttention(M, H, dtype=F64), draw(B, T, M, seed=4)
    ours.load_state_dict(from_state(state, "timm"))
    q, k, v = (x @ state["qkv.weight"].T + state["qkv.bias"]).reshape(B, T, 3, H, M // H).permute(2, 0, 3, 1, 4)
    p = (q @ k.mT / (M // H) ** 0.5).softmax(-1)
    near(ours(x), (p @ v).transpose(1, 2).reshape(B, T, M) @ state["proj.weight"].T + state["proj.bias"])
    assert {k: v.tolist() for k, v in to_state(ours.state_dict(), "timm").items()} == {
        k: v.tolist() for k, v in state.items()
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_goes_both_ways_on_plain_dicts(layout: str) -> None:
    state = {f"{name}.{kind}": draw(*([M, M] if kind == "weight" else [M]), seed=n) for n, (name, kind) in enumerate(
        (name, kind) for name in ("q_proj", "k_proj", "v_proj", "o_proj") for kind in ("weight", "bias")
    )}  # fmt: skip
    for bare in (state, {key: value for key, value in state.items() if "bias" not in key}):
        given = dict(bare)
        there = to_state(given, layout)
        back = from_state(there, layout)
        assert list(back) == list(bare)
        assert all(torch.equal(back[key], bare[key]) for key in bare)
        assert given.keys() == bare.keys()  # what was handed in stays as it is


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda s: from_state(s, "gpt3"), SpecError, "from_state: there is no layout 'gpt3'; known are torch, llama"),
        (lambda s: to_state(s, "gpt3"), SpecError, "to_state: there is no layout 'gpt3'"),
        (lambda s: from_state(s, "bert"), SpecError, "'self.query.weight' is missing; the state holds q_proj"),
        (lambda s: from_state({**s, "rel": s["q_proj.weight"]}, "llama"), UnsupportedError, "'rel' cannot be"),
        (lambda s: to_state({k: v for k, v in s.items() if k != "k_proj.bias"}, "gpt2"), UnsupportedError, "2 of them"),
        (lambda s: to_state({**s, "k_proj.weight": s["k_proj.weight"][:8]}, "torch"), UnsupportedError, "of one size"),
        (lambda s: from_state({"qkv.weight": torch.zeros(8, 4), "proj.weight": torch.zeros(4, 4)}, "timm"),
         ShapeError, "8 rows; it packs 3"),
    ],
)  # fmt: skip
def test_errors_are_one_sentence(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call(dict(hw.MultiHeadAttention(M, H).state_dict()))
    assert "\n" not in str(caught.value)


# rotary pairings


@pytest.mark.parametrize("width", [8, 4, 6])
@pytest.mark.parametrize(("there", "back"), [("halves", "neighbours"), ("neighbours", "halves")])
def test_a_layer_under_the_other_pairing_computes_the_same(width: int, there: Any, back: Any) -> None:
    layer = filled(hw.MultiHeadAttention(M, H, 2, 8, rotary=Rotary(width=width, pairing=there)))
    other = hw.MultiHeadAttention(M, H, 2, 8, rotary=Rotary(width=width, pairing=back), dtype=F64)
    state = layer.state_dict()
    for name, heads in (("q_proj", H), ("k_proj", 2)):
        for kind in ("weight", "bias"):
            key = f"{name}.{kind}"
            turned = rope_pairing(state[key], heads, there, back, width)
            assert torch.equal(rope_pairing(turned, heads, back, there, width), state[key])
            assert torch.equal(
                turned.unflatten(0, (heads, 8))[:, width:], state[key].unflatten(0, (heads, 8))[:, width:]
            )
            state[key] = turned
    x = draw(B, T, M)
    wrong = layer(x)
    other.load_state_dict(layer.state_dict())
    assert float((other(x) - wrong).detach().abs().max()) > 1e-3  # without it, it is another layer
    other.load_state_dict(state)
    near(other(x), layer(x))


def test_the_pairing_of_llamas_own_files() -> None:
    """transformers' conversion script writes it as a view and a transpose."""
    weight = draw(H * 8, M)
    theirs = weight.view(H, 4, 2, M).transpose(1, 2).reshape(H * 8, M)
    assert torch.equal(rope_pairing(weight, H, "neighbours", "halves"), theirs)
    assert torch.equal(rope_pairing(weight, H, "halves", "halves"), weight)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"heads": 3}, ShapeError, "8 rows cannot be cut into 3 heads"),
        ({"rotary_dim": 3}, ShapeError, "rotary_dim is 3; it is even, at least 2 and at most D=4"),
        ({"rotary_dim": 6}, ShapeError, "rotary_dim is 6"),
        ({"new": "pairs"}, SpecError, 'new is \'pairs\'; it is "halves" or "neighbours"'),
    ],
)
def test_pairings_that_cannot_be(options: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        rope_pairing(torch.zeros(8, 2), **{"heads": 2, "old": "halves", "new": "neighbours", **options})
