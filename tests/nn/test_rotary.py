"""Rotary embeddings: against complex numbers, against transformers' own, and whoever does the turning."""

from __future__ import annotations

import cmath
import dataclasses
import itertools
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

import headwise as hw
from headwise.nn import Axes, DynamicNTK, Linear, Llama3, LongRope, Rotary, Yarn
from headwise.nn.rotating import rotated

F64 = torch.float64


def turned(x: Tensor, at: list[list[float]], speeds: list[float], pairs: list[tuple[int, int]]) -> Tensor:
    """The definition: pair k of the token at position t, as a complex number, times exp(i t w_k)."""
    out = x.clone()
    for b, h, t in itertools.product(*map(range, x.shape[:3])):
        for k, (first, second) in enumerate(pairs):
            z = complex(x[b, h, t, first], x[b, h, t, second]) * cmath.exp(1j * at[b][t] * speeds[k])
            out[b, h, t, first], out[b, h, t, second] = z.real, z.imag
    return out


@pytest.mark.parametrize(("width", "D"), [(None, 6), (6, 6), (4, 7), (2, 5)])
@pytest.mark.parametrize("pairing", ["halves", "neighbours"])
def test_equals_complex_numbers(pairing: Any, width: int | None, D: int) -> None:
    x = torch.randn(2, 3, 5, D, dtype=F64)
    W = D if width is None else width
    pairs = [(k, k + W // 2) if pairing == "halves" else (2 * k, 2 * k + 1) for k in range(W // 2)]
    speeds = [100.0 ** (-2 * k / W) for k in range(W // 2)]
    rotary = Rotary(width, base=100.0, pairing=pairing)
    want = turned(x, [[7, 8, 9, 10, 11]] * 2, speeds, pairs)
    torch.testing.assert_close(rotary.rotate(x, 7), want, atol=1e-12, rtol=0)
    torch.testing.assert_close(rotary.rotate(x, torch.arange(7, 12)), want, atol=1e-12, rtol=0)
    at = torch.tensor([[0, 0, 5, 2, 1], [-3, 2, 40, 1, 1]])
    torch.testing.assert_close(rotary.rotate(x, at), turned(x, at.tolist(), speeds, pairs), atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("width", "D"), [(64, 64), (24, 64), (2, 3), (18, 19), (34, 34)])
@pytest.mark.parametrize("pairing", ["halves", "neighbours"])
def test_every_way_of_turning_is_the_definition(pairing: Any, width: int, D: int, dtype: torch.dtype) -> None:
    """Kernels, torch, in place, strided: the float64 turn of the same numbers, rounded to the dtype."""
    x = torch.randn(2, 5, 3, D).to(dtype).transpose(1, 2)
    rotary = Rotary(width, pairing=pairing)
    want = rotary.rotate(x.double(), 11)
    # A rounding of the result, and of float32: of the two products, their sum and the angle's cosine and sine.
    allowed = torch.finfo(dtype).eps / 2 * want.abs() + 4 * torch.finfo(torch.float32).eps * x.double().abs().amax()
    own = rotary.rotate(x, 11)
    cos, sin = rotary.angles(11, x)
    plain = torch.vmap(lambda row: rotated(row[None], cos, sin, pairing, False)[0])(x)  # torch's own operations
    again = x.clone()
    inplace = rotary.rotate(again, 11, inplace=True)
    for name, got in (("own", own), ("torch", plain), ("inplace", inplace)):
        assert got.dtype == dtype
        assert bool(((got.double() - want).abs() <= allowed).all()), name
    assert torch.equal(inplace, own)


def test_in_place_is_in_place_and_is_seen() -> None:
    x = torch.randn(1, 2, 4, 8)
    wanted = (x.requires_grad_() * 1).clone()
    kept = wanted.detach().clone()
    loss = (wanted * wanted).sum()
    with torch.no_grad():
        done = Rotary().rotate(wanted, 3, inplace=True)
    if done is wanted:  # by the kernels
        assert not torch.equal(wanted, kept)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()
    expanded = torch.randn(1, 1, 4, 8).expand(1, 3, 4, 8)
    before = expanded.clone()
    assert torch.equal(Rotary().rotate(expanded, 3, inplace=True), Rotary().rotate(before, 3))
    assert torch.equal(expanded, before), "one row that is read as three heads was turned three times"


def test_hooks_see_what_the_projection_gave() -> None:
    layer = hw.MultiHeadAttention(16, 2, rotary=Rotary()).eval()
    seen: list[Tensor] = []
    layer.q_proj.register_forward_hook(lambda *args: seen.append(args[2]))
    x = torch.randn(1, 5, 16)
    with torch.no_grad():
        layer(x)
        assert torch.equal(seen[0], nn.functional.linear(x, layer.q_proj.weight, layer.q_proj.bias))


@pytest.mark.parametrize("pairing", ["halves", "neighbours"])
def test_gradients(pairing: Any) -> None:
    rotary = Rotary(4, pairing=pairing)
    x = torch.randn(2, 1, 3, 5, dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: rotary.rotate(x, 5), x)
    assert torch.autograd.gradgradcheck(lambda x: rotary.rotate(x, 5) ** 2, x)
    single = x.detach().float().requires_grad_()
    (rotary.rotate(single, 5) * torch.arange(5.0)).sum().backward()
    (rotary.rotate(x, 5) * torch.arange(5.0)).sum().backward()
    torch.testing.assert_close(single.grad.double(), x.grad)
    hessian = torch.func.jacrev(torch.func.jacrev(lambda x: (rotary.rotate(x, 5) ** 3).sum()))(x.detach()[:1])
    assert hessian.shape == (1, 1, 3, 5, 1, 1, 3, 5)


def test_angles_are_exact_far_out() -> None:
    """float32 angles are off by 0.06 at a million tokens; ours are worked out in float64."""
    start = 1_000_000
    cos, _ = Rotary(64).angles(start, torch.zeros(1, 1, 2, 64))
    exact = torch.tensor([[cmath.exp(1j * (start + t) * 1e4 ** (-k / 32)).real for k in range(32)] for t in range(2)])
    torch.testing.assert_close(cos, exact, atol=1e-7, rtol=0)


# --- against transformers ------------------------------------------------------------------------------------------

SCALED: dict[str, dict[str, Any]] = {
    "default": {},
    "partial": {"rope_type": "linear", "factor": 1.0, "partial_rotary_factor": 0.5},
    "linear": {"rope_type": "linear", "factor": 3.0},
    "dynamic": {"rope_type": "dynamic", "factor": 2.5},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64},
    "yarn, mscale": {
        "rope_type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32, "mscale": 0.7,
        "mscale_all_dim": 1.0, "beta_fast": 16.0, "beta_slow": 2.0,
    },
    "yarn, not truncated": {
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "truncate": False,
        "attention_factor": 1.5,
    },
    "llama3": {
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "longrope": {
        "rope_type": "longrope", "short_factor": [1.0 + k / 8 for k in range(8)],
        "long_factor": [2.0 + k for k in range(8)], "original_max_position_embeddings": 64, "factor": 4.0,
    },
}  # fmt: skip


def llama(name: str) -> LlamaConfig:
    parameters = {"rope_type": "default", "rope_theta": 500.0, **SCALED[name]}
    return LlamaConfig(hidden_size=64, num_attention_heads=4, max_position_embeddings=256, rope_parameters=parameters)


@pytest.mark.parametrize("length", [5, 64, 65, 256, 300])
@pytest.mark.parametrize("name", list(SCALED))
def test_scalings_equal_transformers(name: str, length: int) -> None:
    config = llama(name)
    theirs = LlamaRotaryEmbedding(config)
    x = torch.zeros(1, 1, length, 16)
    cos, sin = theirs(x, torch.arange(length)[None])
    ours = Rotary.from_config(config)
    got = ours.angles(0, x)
    # Their angle t w is float32: w is rounded (from a power and a quotient, some units), and so is the product.
    allowed = 4 * torch.finfo(torch.float32).eps * (torch.arange(length)[:, None] + 1)
    for mine, other in zip(got, (cos, sin), strict=True):
        assert bool(((mine - other[0, :, : mine.shape[-1]]).abs() <= allowed).all())
    turned_q, _ = apply_rotary_pos_emb(q := torch.randn(1, 2, length, 2 * got[0].shape[-1]), q, cos, sin)
    torch.testing.assert_close(ours.rotate(q, 0), turned_q, atol=float(allowed.max()) * 4, rtol=0)


def test_every_scaling_of_transformers_is_known_or_refused_by_name() -> None:
    known = {"linear", "dynamic", "yarn", "llama3", "longrope"}
    for name in ROPE_INIT_FUNCTIONS:
        if name not in known:
            with pytest.raises(hw.SpecError, match=f"there is no scaling '{name}'; known are default, linear"):
                Rotary.from_parameters({"rope_type": name, "factor": 2.0}, 64)
    assert known <= set(ROPE_INIT_FUNCTIONS)


def as_halves(angles: Tensor) -> Tensor:
    """Cosines of W/2 pairs as transformers' modules give them: once for each half."""
    return torch.cat((angles, angles), -1)


@pytest.mark.parametrize(
    ("kind", "sections", "layout"),
    [("qwen2_vl", [8, 4, 4], "blocks"), ("qwen3_vl", [6, 5, 5], "interleaved")],
)
def test_axes_of_texts_equal_transformers(kind: str, sections: list[int], layout: Any) -> None:
    from transformers import Qwen2VLTextConfig, Qwen3VLTextConfig
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLRotaryEmbedding
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

    kinds: dict[str, Any] = {
        "qwen2_vl": (Qwen2VLTextConfig, Qwen2VLRotaryEmbedding),
        "qwen3_vl": (Qwen3VLTextConfig, Qwen3VLTextRotaryEmbedding),
    }
    config_of, module = kinds[kind]
    parameters = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": sections}
    config = config_of(hidden_size=128, num_attention_heads=4, head_dim=32, rope_parameters=parameters)
    at = torch.randint(0, 50, (3, 2, 7))
    want = module(config)(torch.zeros(1), at)
    got = Rotary(axes=Axes(tuple(sections), layout)).angles(at, torch.zeros(2, 4, 7, 32))
    for mine, other in zip(got, want, strict=True):
        torch.testing.assert_close(as_halves(mine), other, atol=2e-5, rtol=0)


@pytest.mark.parametrize(("kind", "layout"), [("qwen2_vl", "own"), ("pixtral", "alternating")])
def test_axes_of_images_equal_transformers(kind: str, layout: Any) -> None:
    from transformers import PixtralVisionConfig
    from transformers.models.pixtral.modeling_pixtral import PixtralVisionRotaryEmbedding
    from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
    from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLVisionRotaryEmbedding

    rows, columns = torch.meshgrid(torch.arange(3), torch.arange(5), indexing="ij")
    places = torch.stack((rows.flatten(), columns.flatten()))
    config: Any
    if kind == "pixtral":
        config = PixtralVisionConfig(hidden_size=128, num_attention_heads=4)
        want = PixtralVisionRotaryEmbedding(config)(torch.zeros(1), places.T)
    else:
        config = Qwen2VLVisionConfig(embed_dim=128, num_heads=4)
        config.num_attention_heads = 4
        want = Qwen2VLVisionRotaryEmbedding(config)(torch.zeros(1), places.T)
    rotary = Rotary(base=config.rope_parameters["rope_theta"], axes=Axes((8, 8), layout))
    got = rotary.angles(places, torch.zeros(1, 4, 15, 32))
    for mine, other in zip(got, want, strict=True):
        torch.testing.assert_close(as_halves(mine), other.reshape(15, -1), atol=2e-5, rtol=0)


# --- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Rotary(7), "width is 7"),
        (lambda: Rotary(0), "width is 0"),
        (lambda: Rotary(base=-1.0), "base is -1.0"),
        (lambda: Rotary(pairing="pairs"), "pairing is 'pairs'; it is 'halves' or 'neighbours'"),  # type: ignore[arg-type]
        (lambda: Rotary(scaling={"rope_type": "yarn"}), "Rotary.from_parameters"),  # type: ignore[arg-type]
        (lambda: Rotary(8, axes=Axes((1, 2))), "axes have 3 pairs, width 8 has 4"),
        (lambda: Axes(()), "how many pairs"),
        (lambda: Axes((2, 3), "alternating"), "equal numbers of pairs"),
        (lambda: Axes((2, 2), "rows"), "layout is 'rows'; it is 'blocks', "),  # type: ignore[arg-type]
        (lambda: Linear(0.0), "factor is 0.0; numbers here are finite and above 0"),
        (lambda: Rotary.from_parameters({"rope_type": "yarm"}, 8), "Did you mean 'yarn'"),
        (lambda: Rotary.from_parameters({"rope_type": "llama3", "factor": 2.0}, 8), "there is no low_freq_factor"),
        (lambda: Rotary(16).rotate(torch.zeros(1, 1, 2, 8), 0), "width is 16, heads are 8 wide"),
        (lambda: Rotary().rotate(torch.zeros(1, 1, 2, 7), 0), "heads are 7 wide"),
        (lambda: Rotary().rotate(torch.zeros(1, 1, 2, 8), torch.arange(3)), r"positions is \[3\]"),
        (lambda: Rotary(axes=Axes((2, 2))).rotate(torch.zeros(1, 1, 2, 8), 0), "every axis has positions of its own"),
        (lambda: Rotary(scaling=LongRope((1.0,), (1.0,), 8)).rotate(torch.zeros(1, 1, 2, 8), 0), "there are 1 factors"),
        (lambda: hw.MultiHeadAttention(32, 4, rotary=Rotary(16)), "width is 16, heads are 8 wide"),
        (lambda: hw.MultiHeadAttention(32, 4, rotary=Rotary), r"Write rotary=.*Rotary\("),
        (lambda: hw.MultiHeadAttention(32, 4)(torch.zeros(1, 2, 32), positions=torch.arange(2)), "positions was given"),
        (
            lambda: hw.MultiHeadAttention(32, 4, rotary=Rotary())(torch.zeros(1, 2, 32), torch.zeros(1, 3, 32)),
            "a context was given; a rotary embedding compares positions of one sequence",
        ),
    ],
)
def test_bad_input(make: Any, said: str) -> None:
    with pytest.raises(hw.HeadwiseError, match=said):
        make()


def test_values_are_compared_by_value_and_can_be_changed() -> None:
    assert Rotary(8, scaling=Yarn(4.0, 64)) == Rotary(8, scaling=Yarn(4.0, 64))
    assert hash(Rotary(scaling=LongRope([1.0], [1.0], 8))) == hash(Rotary(scaling=LongRope((1.0,), (1.0,), 8)))  # type: ignore[arg-type]
    changed = dataclasses.replace(Rotary(8), pairing="neighbours", scaling=DynamicNTK(2.0, 8))
    assert changed != Rotary(8)
    assert Llama3(8.0, 1.0, 4.0, 8192) != Llama3(8.0, 1.0, 4.0, 4096)
