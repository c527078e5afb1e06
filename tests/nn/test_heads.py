"""Kinds of heads: against the layers of transformers' models with the same weights, and against their formulas."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.nn import AttentionConfig, DifferentialAttention, KVCache, LatentAttention, Rotary

F64 = torch.float64
CLOSE = {"atol": 2e-5, "rtol": 2e-5}


def drawn(module: nn.Module, size: float = 0.3) -> nn.Module:
    """The module with normal weights, so that rows are peaked and norms and biases count."""
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.normal_(parameter, 0.5 if parameter.dim() == 1 else 0.0, size)
    return module.eval()


def causal(T: int) -> Tensor:
    return torch.full((T, T), -torch.inf).triu(1)[None, None]


# --- layers of transformers ----------------------------------------------------------------------------------------


def _llama(**more: Any) -> tuple[Any, Any, Any, dict[str, Any]]:
    from transformers import LlamaConfig
    from transformers.models.llama import modeling_llama as m

    config = LlamaConfig(
        hidden_size=48, num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=8, **more
    )
    return config, m.LlamaAttention, m.LlamaRotaryEmbedding, {"bias": False}


def _qwen3() -> tuple[Any, Any, Any, dict[str, Any]]:
    from transformers import Qwen3Config
    from transformers.models.qwen3 import modeling_qwen3 as m

    config = Qwen3Config(hidden_size=48, num_attention_heads=6, num_key_value_heads=2, head_dim=12, num_hidden_layers=1)
    return config, m.Qwen3Attention, m.Qwen3RotaryEmbedding, {"bias": False, "qk_norm": "rms"}


def _olmo2() -> tuple[Any, Any, Any, dict[str, Any]]:
    from transformers import Olmo2Config
    from transformers.models.olmo2 import modeling_olmo2 as m

    config = Olmo2Config(hidden_size=48, num_attention_heads=6, num_key_value_heads=2)
    return config, m.Olmo2Attention, m.Olmo2RotaryEmbedding, {"bias": False, "qk_norm": "rms-wide", "norm_eps": 1e-5}


def _cohere() -> tuple[Any, Any, Any, dict[str, Any]]:
    from transformers import CohereConfig
    from transformers.models.cohere import modeling_cohere as m

    config = CohereConfig(hidden_size=48, num_attention_heads=6, num_key_value_heads=2)
    return config, m.CohereAttention, m.CohereRotaryEmbedding, {"bias": False, "pairing": "neighbours"}


def _gpt_oss() -> tuple[Any, Any, Any, dict[str, Any]]:
    from transformers import GptOssConfig
    from transformers.models.gpt_oss import modeling_gpt_oss as m

    config = GptOssConfig(
        hidden_size=48, num_attention_heads=6, num_key_value_heads=2, head_dim=8, layer_types=["full_attention"],
        num_hidden_layers=1,
    )  # fmt: skip
    return config, m.GptOssAttention, m.GptOssRotaryEmbedding, {"bias": True, "sinks": "learned"}


LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}  # fmt: skip
LAYERS = {
    "llama": _llama,
    "llama, scaled": lambda: _llama(rope_parameters=LLAMA3),
    "qwen3: norms": _qwen3,
    "olmo2: wide norms": _olmo2,
    "cohere: neighbours": _cohere,
    "gpt-oss: sinks": _gpt_oss,
}


def alike(theirs: nn.Module, config: Any, options: dict[str, Any]) -> hw.MultiHeadAttention:
    """Our layer with the sizes, rotary embedding and weights of one of transformers'."""
    options = dict(options)
    rotary = dataclasses.replace(Rotary.from_config(config), pairing=options.pop("pairing", "halves"))
    sizes = (config.hidden_size, config.num_attention_heads, config.num_key_value_heads, theirs.head_dim)
    ours = hw.MultiHeadAttention(*sizes, mask=hw.Causal(), rotary=rotary, **options).eval()  # type: ignore[arg-type]
    ours.load_state_dict(theirs.state_dict())
    return ours


@pytest.mark.parametrize("name", list(LAYERS))
def test_equals_the_layer_of_transformers(name: str) -> None:
    config, kind, rope, options = LAYERS[name]()
    config._attn_implementation = "eager"
    theirs = drawn(kind(config, 0))
    ours = alike(theirs, config, options)
    x = torch.randn(2, 11, 48)
    with torch.no_grad():
        want = theirs(x, position_embeddings=rope(config)(x, torch.arange(11)[None]), attention_mask=causal(11))[0]
        torch.testing.assert_close(ours(x), want, **CLOSE)
        cache = KVCache()
        parts = [ours(part, cache=cache) for part in x.split([4, 1, 1, 5], dim=1)]
        torch.testing.assert_close(torch.cat(parts, 1), want, **CLOSE)
        changed = dataclasses.replace(ours.config, rotary=None)
        other = hw.MultiHeadAttention.from_config(changed).eval()
        other.load_state_dict(theirs.state_dict())
        assert (other(x) - want).abs().max() > 1e-2, "the rotary embedding changes nothing here"


BY_LENGTH = {
    "dynamic": {"rope_type": "dynamic", "rope_theta": 100.0, "factor": 4.0},
    "longrope": {
        "rope_type": "longrope", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 8,
        "short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [1.0, 3.0, 5.0, 9.0],
    },
}  # fmt: skip


@pytest.mark.parametrize("pieces", [[14], [5, 9], [8, 1, 1, 1, 3], [1] * 14], ids=str)
@pytest.mark.parametrize("name", list(BY_LENGTH))
def test_frequencies_that_change_with_length_equal_transformers(name: str, pieces: list[int]) -> None:
    """Past 8 tokens frequencies change; keys in the cache keep those they came with, there and here."""
    from transformers import DynamicCache

    config, kind, rope, options = _llama(rope_parameters=BY_LENGTH[name])
    config._attn_implementation = "eager"
    theirs, table = drawn(kind(config, 0)), rope(config)
    ours = alike(theirs, config, options)
    x = torch.randn(2, 14, 48)
    cache, past, start = KVCache(), DynamicCache(), 0
    with torch.no_grad():
        for part in x.split(pieces, dim=1):
            T = part.shape[1]
            at = torch.arange(start, start + T)
            mask = causal(start + T)[:, :, start:]
            want = theirs(part, position_embeddings=table(part, at[None]), attention_mask=mask, cache=past)[0]
            torch.testing.assert_close(ours(part, cache=cache), want, **CLOSE)
            start += T


# --- options by their formulas -------------------------------------------------------------------------------------


def test_softmax_off_by_one() -> None:
    layer = drawn(hw.MultiHeadAttention(12, 3, sinks="off-by-one", dtype=F64))
    assert "sinks" not in layer.state_dict()
    assert not any(name == "sinks" for name, _ in layer.named_parameters())
    x = torch.randn(2, 5, 12, dtype=F64)
    q, k, v = (p(x).unflatten(-1, (3, 4)).transpose(1, 2) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    e = (q @ k.mT / 2).exp()
    heads = e / (1 + e.sum(-1, keepdim=True)) @ v
    torch.testing.assert_close(layer(x), layer.o_proj(heads.transpose(1, 2).flatten(2)), atol=1e-12, rtol=0)


@pytest.mark.parametrize("gate", ["head", "element"])
def test_gated_heads(gate: Any) -> None:
    layer = drawn(hw.MultiHeadAttention(12, 3, gate=gate, dtype=F64))
    plain = hw.MultiHeadAttention(12, 3, dtype=F64).eval()
    plain.load_state_dict({k: v for k, v in layer.state_dict().items() if not k.startswith("gate")})
    x = torch.randn(2, 5, 12, dtype=F64)
    kept: list[Tensor] = []
    plain.o_proj.register_forward_pre_hook(lambda _, args: kept.append(args[0]))
    plain(x)
    share = layer.gate_proj(x).sigmoid()
    wide = share.repeat_interleave(4, -1) if gate == "head" else share
    want = layer.o_proj(kept[0] * wide)
    torch.testing.assert_close(layer(x), want, atol=1e-12, rtol=0)
    torch.testing.assert_close(layer.attend(x).out, want, atol=1e-12, rtol=0)


def test_layer_norms_of_queries_and_keys() -> None:
    layer = drawn(hw.MultiHeadAttention(12, 3, qk_norm="layer", bias=False, dtype=F64))
    x = torch.randn(2, 5, 12, dtype=F64)
    pattern = layer.attend(x).pattern
    q, k = (n(p(x).unflatten(-1, (3, 4))) for n, p in ((layer.q_norm, layer.q_proj), (layer.k_norm, layer.k_proj)))
    want = torch.einsum("bthd,bshd->bhts", q, k).div(2).softmax(-1)
    torch.testing.assert_close(pattern.to_dense(), want, atol=1e-12, rtol=0)


def test_keys_and_values_from_widths_of_their_own() -> None:
    theirs = nn.MultiheadAttention(12, 3, kdim=7, vdim=5, batch_first=True, bias=False, dtype=F64)
    ours = hw.MultiHeadAttention(12, 3, kdim=7, vdim=5, bias=False, dtype=F64)
    with torch.no_grad():
        for name in "qkv":
            getattr(ours, f"{name}_proj").weight.copy_(getattr(theirs, f"{name}_proj_weight"))
        ours.o_proj.load_state_dict(theirs.out_proj.state_dict())
    x, k, v = (torch.randn(2, n, m, dtype=F64) for n, m in ((4, 12), (6, 7), (6, 5)))
    torch.testing.assert_close(ours(x, (k, v)), theirs(x, k, v)[0], atol=1e-12, rtol=0)
    with pytest.raises(hw.ShapeError, match=r"Pass context=\(keys, values\)"):
        ours(x, k)
    with pytest.raises(hw.SpecError, match="a cache with two contexts"):
        ours(x, (k, v), cache=KVCache())


def test_a_config_holds_all_numbers_and_makes_the_same_layer() -> None:
    config = AttentionConfig(24, 6, 2, qk_norm="rms", rotary=Rotary(), gate="head", sinks=True)  # type: ignore[arg-type]
    assert (config.head_dim, config.kdim, config.vdim, config.out_bias, config.sinks) == (4, 24, 24, True, "learned")
    assert config.rotary is not None
    assert config.rotary.width == 4
    one, two = (hw.MultiHeadAttention.from_config(config) for _ in range(2))
    two.load_state_dict(one.state_dict())
    x = torch.randn(1, 3, 24)
    assert torch.equal(one(x), two(x))
    assert one.config.qk_norm == config.qk_norm


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"num_heads": 4}, "there is no option 'num_heads'.* Did you mean 'heads'"),
        ({"is_causal": True}, r"Write mask=headwise.Causal\(\)"),
        ({"qk_norm": "rsm"}, "Did you mean 'rms'"),
        ({"gate": "heads"}, "Did you mean 'head'"),
        ({"sinks": 1.0}, "sinks is 1.0; it is 'learned' or 'off-by-one'"),
        ({"kdim": 0}, "kdim is 0"),
    ],
)
def test_bad_options(options: dict[str, Any], said: str) -> None:
    with pytest.raises(hw.SpecError, match=said):
        hw.MultiHeadAttention(8, 2, **options)


# --- latent --------------------------------------------------------------------------------------------------------


def deepseek(q_rank: int | None) -> tuple[nn.Module, LatentAttention, Tensor, Tensor]:
    """A layer of DeepSeek-V3 as transformers has it, ours with its weights, an input and its output."""
    from transformers import DeepseekV3Config
    from transformers.models.deepseek_v3 import modeling_deepseek_v3 as m

    parameters = {
        "rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 1.0,
        "mscale_all_dim": 1.0,
    }  # fmt: skip
    config = DeepseekV3Config(
        hidden_size=48, num_attention_heads=4, num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=q_rank,
        qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10, rope_parameters=parameters,
    )  # fmt: skip
    config._attn_implementation = "eager"
    theirs = drawn(m.DeepseekV3Attention(config, 0))
    rotary = dataclasses.replace(Rotary.from_parameters(config.rope_parameters, 8), pairing="neighbours")
    ours = LatentAttention(
        48, 4, kv_rank=16, q_rank=q_rank, nope_dim=12, rope_dim=8, v_dim=10, rotary=rotary, scale=theirs.scaling,
        mask=hw.Causal(),
    ).eval()  # fmt: skip
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(2, 7, 48)
    table = m.DeepseekV3RotaryEmbedding(config)(x, torch.arange(7)[None])
    with torch.no_grad():
        return theirs, ours, x, theirs(x, position_embeddings=table, attention_mask=causal(7))[0]


@pytest.mark.parametrize("form", ["expanded", "absorbed", None])
@pytest.mark.parametrize("q_rank", [None, 24])
def test_latent_attention_equals_deepseeks(q_rank: int | None, form: Any) -> None:
    _, ours, x, want = deepseek(q_rank)
    ours.form = form
    with torch.no_grad():
        torch.testing.assert_close(ours(x), want, **CLOSE)
        torch.testing.assert_close(ours.attend(x).out, want, **CLOSE)
        cache = KVCache()
        parts = [ours(part, cache=cache) for part in x.split([4, 1, 1, 1], dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), want, **CLOSE)
    assert cache.k is not None
    assert cache.k.shape == (2, 1, 7, 24), "more than the latents is remembered"


def test_both_forms_have_one_pattern_and_one_gradient() -> None:
    layers = [LatentAttention(24, 3, kv_rank=8, nope_dim=6, rope_dim=4, v_dim=5, form=f, dtype=F64) for f in FORMS]
    layers[1].load_state_dict(drawn(layers[0]).state_dict())
    x = torch.randn(2, 5, 24, dtype=F64, requires_grad=True)
    one, two = (layer.attend(x, mask=hw.Causal(), observe=[hw.Entropy()]) for layer in layers)
    torch.testing.assert_close(one.pattern.to_dense(), two.pattern.to_dense(), atol=1e-12, rtol=0)
    torch.testing.assert_close(one.seen["entropy"], two.seen["entropy"], atol=1e-12, rtol=0)
    grads = [
        torch.autograd.grad(a.out.square().sum(), [x, *layer.parameters()])
        for a, layer in zip((one, two), layers, strict=True)
    ]
    for mine, other in zip(*grads, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-10, rtol=0)


FORMS: tuple[Any, Any] = ("expanded", "absorbed")


def test_decoding_absorbs_and_hooks_are_honoured() -> None:
    layer = LatentAttention(64, 8, kv_rank=16, nope_dim=16, rope_dim=4, v_dim=16).eval()
    assert layer._absorbs(1, 100)
    assert not layer._absorbs(100, 100)
    calls: list[int] = []
    handle = layer.kv_b_proj.register_forward_hook(lambda *_: calls.append(1))
    assert not layer._absorbs(1, 100)
    with torch.no_grad():
        layer(torch.randn(1, 1, 64))
    assert calls == [1]
    handle.remove()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LatentAttention(8, 2, kv_rank=0), "LatentAttention: kv_rank is 0"),
        (lambda: LatentAttention(8, 2, kv_rank=4, form="absorb"), "Did you mean 'absorbed'"),  # type: ignore[arg-type]
        (lambda: LatentAttention(8, 2, kv_rank=4, rope_dim=4, rotary=Rotary(8)), "width is 8, heads are 4 wide"),
        (lambda: LatentAttention.preset("deepseek-v4"), "Did you mean 'deepseek-v"),
        (lambda: LatentAttention(8, 2, kv_rank=4)(torch.zeros(2, 8)), r"Use x\[None\]"),
        (lambda: LatentAttention(8, 2, kv_rank=4, mask=hw.Causal), "the class Causal is no mask"),  # type: ignore[arg-type]
        (lambda: DifferentialAttention(12, 4), "cannot be cut into 2 x 4 equal halves"),
        (lambda: DifferentialAttention(16, 4, depth=-1), "depth is -1"),
        (lambda: DifferentialAttention(16, 4, kv_heads=3), "4 heads cannot share 3 key/value heads"),
    ],
)
def test_bad_layers(make: Any, said: str) -> None:
    with pytest.raises(hw.HeadwiseError, match=said):
        make()


# --- differential --------------------------------------------------------------------------------------------------


def test_differential_attention_equals_diff_llamas() -> None:
    from transformers import DiffLlamaConfig
    from transformers.models.diffllama import modeling_diffllama as m

    config = DiffLlamaConfig(hidden_size=48, num_attention_heads=8, num_key_value_heads=4, head_dim=6)
    config._attn_implementation = "eager"
    theirs = drawn(m.DiffLlamaAttention(config, 3))
    ours = DifferentialAttention(
        48, 4, 2, 6, depth=3, mask=hw.Causal(), rotary=Rotary(), norm_eps=config.rms_norm_eps
    ).eval()
    with torch.no_grad():
        for name, heads in (
            ("q", 4),
            ("k", 2),
            ("v", 2),
        ):  # their halves are heads h and h + H/2, ours lie side by side
            weight = getattr(theirs, f"{name}_proj").weight.view(2, heads, 6, 48).transpose(0, 1).reshape(-1, 48)
            getattr(ours, f"{name}_proj").weight.copy_(weight)
        ours.o_proj.weight.copy_(theirs.o_proj.weight)
        ours.lambdas.copy_(torch.stack([theirs.lambda_q1, theirs.lambda_k1, theirs.lambda_q2, theirs.lambda_k2]))
        x = torch.randn(2, 7, 48)
        table = m.DiffLlamaRotaryEmbedding(config)(x, torch.arange(7)[None])
        want = theirs(x, table, attention_mask=causal(7))[0]
        torch.testing.assert_close(ours(x), want, **CLOSE)
        torch.testing.assert_close(ours.attend(x).out, want, **CLOSE)
        cache = KVCache()
        parts = [ours(part, cache=cache) for part in x.split([3, 1, 3], dim=1)]
    torch.testing.assert_close(torch.cat(parts, 1), want, **CLOSE)


def test_differential_patterns_are_the_two_of_each_head() -> None:
    layer = drawn(DifferentialAttention(16, 2, dtype=F64))
    x = torch.randn(1, 5, 16, dtype=F64)
    pattern = layer.attend(x).pattern.to_dense()
    q, k = (p(x).view(1, 5, 2, 2, 4).permute(3, 0, 2, 1, 4) for p in (layer.q_proj, layer.k_proj))
    want = torch.cat([(a @ b.mT / 2).softmax(-1) for a, b in zip(q, k, strict=True)], dim=1)
    torch.testing.assert_close(pattern, want, atol=1e-12, rtol=0)
    v = layer.v_proj(x).view(1, 5, 2, 8).transpose(1, 2)
    heads = nn.functional.rms_norm(
        (want[:, :2] - layer.subtracted * want[:, 2:]) @ v, (8,), layer.head_norm.weight, 1e-5
    )
    out = layer.o_proj((heads * (1 - layer.lambda_init)).transpose(1, 2).flatten(2))
    torch.testing.assert_close(layer(x), out, atol=1e-6, rtol=0)  # its lambda is worked out in float32
