"""everywhere() around whole models that never heard of headwise: torch's stacks, vision transformers, U-Nets."""

from __future__ import annotations

import copy
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headwise as hw

# where torch's op and what its modules call are computed
HERE = [sys.modules[f"headwise.models.{name}"] for name in ("dot_product", "nested", "fused_layers")]

F64 = torch.float64
MODES = ["train", "eval", "no_grad"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each attention that went through headwise: whether its weights were asked for."""
    found: list[str] = []

    def counted(name: str) -> None:
        real = getattr(HERE[0], name)

        def counting(*operands: Tensor, **options: Any) -> Any:
            found.append(name)
            return real(*operands, **options)

        for module in HERE:
            monkeypatch.setattr(module, name, counting, raising=False)

    counted("attention")
    counted("with_weights")
    return found


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def grad(mode: str) -> Any:
    return torch.no_grad() if mode == "no_grad" else nullcontext()


def same(model: nn.Module, run: Callable[[nn.Module], Tensor], calls: list[str], count: int) -> None:
    """Output and gradients of a model inside the block are torch's own, in every mode, with so many calls."""
    for mode in MODES:
        model.train(mode == "train")
        results = []
        for inside in (nullcontext, hw.everywhere):
            calls.clear()
            with grad(mode), inside():
                out = run(model)
            assert len(calls) == (count if inside is hw.everywhere else 0), mode
            found = [out]
            if out.requires_grad:
                found += torch.autograd.grad(out.square().sum(), list(model.parameters()))
            results.append(found)
        for want, got in zip(*results, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-9)


# nn.MultiheadAttention that is asked for weights


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize(
    "form", ["plain", "causal", "hint", "bool masks", "float masks", "mask a head", "one sequence", "TBM"]
)
def test_weights_are_torchs(mode: str, average: bool, form: str, calls: list[str]) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(
        12, 2, batch_first=form != "TBM", add_bias_kv=form == "TBM", add_zero_attn=form == "plain", dtype=F64
    ).train(mode == "train")
    q, k = draw(3, 5, 12).requires_grad_(), draw(3, 5, 12, seed=1)
    causal = torch.ones(5, 5).triu(1).bool()
    padding = torch.arange(5) >= torch.tensor([[5], [4], [2]])
    minus = torch.zeros(5, 5, dtype=F64).masked_fill(causal, float("-inf"))
    heads = draw(6, 5, 5, seed=2)
    said: dict[str, Any] = {
        "causal": {"attn_mask": causal, "is_causal": True},
        "hint": {"attn_mask": causal.T, "is_causal": True},  # torch looks at the mask alone
        "bool masks": {"attn_mask": causal, "key_padding_mask": padding},
        "float masks": {"attn_mask": minus, "key_padding_mask": draw(3, 5, seed=3)},
        "mask a head": {"attn_mask": heads},
    }.get(form, {})
    if form == "one sequence":
        q, k = q[0], k[0]
    results = []
    for inside in (nullcontext, hw.everywhere):
        with grad(mode), inside():
            out, weights = layer(q, k, k, average_attn_weights=average, **said)
        found = [out, weights]
        if out.requires_grad:
            loss = out.square().sum() + (weights * draw(*weights.shape, seed=4)).sum()
            found += torch.autograd.grad(loss, [q, *layer.parameters()])
        results.append(found)
    for want, got in zip(*results, strict=True):
        assert got.shape == want.shape
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11)
    assert calls == ["with_weights"]


def test_weights_inside_are_those_before_dropout() -> None:
    layer, x = nn.MultiheadAttention(12, 2, dropout=0.5, batch_first=True, dtype=F64), draw(2, 40, 12)
    with hw.everywhere():
        out, weights = layer(x, x, x)
        layer.eval()
        still, same_weights = layer(x, x, x)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 40, dtype=F64))
    torch.testing.assert_close(weights, same_weights, rtol=0, atol=1e-12)
    assert float((out - still).detach().abs().max()) > 0.01


def test_a_causal_flag_without_a_mask_stays_refused_in_torchs_words() -> None:
    layer, x = nn.MultiheadAttention(12, 2, dtype=F64), draw(5, 1, 12)
    for inside in (nullcontext, hw.everywhere):
        with inside(), pytest.raises(RuntimeError, match="Need attn_mask if specifying the is_causal hint"):
            layer(x, x, x, is_causal=True)
    with hw.everywhere():
        assert layer(x, x, x, need_weights=False)[1] is None  # nothing is left behind by the call that failed


def test_blocks_inside_blocks_and_the_functional_under_another_name(calls: list[str]) -> None:
    forward = F.multi_head_attention_forward
    layer, x = nn.MultiheadAttention(12, 2, dtype=F64), draw(5, 1, 12)
    weights = (layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0, layer.out_proj.weight, None)
    want = forward(x, x, x, 12, 2, *weights)
    with hw.everywhere(), hw.everywhere():
        got = forward(x, x, x, 12, 2, *weights)
    assert calls == ["with_weights"]
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_an_empty_row_is_zero_where_torch_gives_nan() -> None:
    layer, x = nn.MultiheadAttention(12, 2, batch_first=True, dtype=F64), draw(1, 4, 12)
    hidden = torch.zeros(4, 4).bool()
    hidden[1] = True
    assert bool(layer(x, x, x, attn_mask=hidden)[0][0, 1].isnan().all())
    with hw.everywhere():
        out, weights = layer(x, x, x, attn_mask=hidden)
    assert bool((weights[0, 1] == 0).all())
    torch.testing.assert_close(out[0, 1], layer.out_proj.bias)


def test_another_thread_keeps_torchs_own_and_its_fused_path(calls: list[str]) -> None:
    layer, x = nn.MultiheadAttention(12, 2, batch_first=True, dtype=F64).eval(), draw(2, 4, 12)
    native: list[str] = []

    class Names(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            native.append(str(func))
            return func(*args, **(kwargs or {}))

    def run() -> None:
        with torch.no_grad(), Names():
            layer(x, x, x)

    with hw.everywhere():
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        assert native == ["aten._native_multi_head_attention.default"]
        run()
    assert "aten._native_multi_head_attention.default" not in native[1:]
    assert calls == ["with_weights"]


# whole models


@pytest.mark.parametrize("batch_first", [True, False])
def test_transformer(batch_first: bool, calls: list[str]) -> None:
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor is True")
        model = nn.Transformer(12, 2, 2, 2, 16, dropout=0.0, batch_first=batch_first, dtype=F64)
    source, target = draw(3, 7, 12), draw(3, 5, 12, seed=1)
    causal = nn.Transformer.generate_square_subsequent_mask(5, dtype=F64)
    flip = (lambda x: x) if batch_first else (lambda x: x.transpose(0, 1))
    same(model, lambda m: m(flip(source), flip(target), tgt_mask=causal, tgt_is_causal=True), calls, 6)


class Attention(nn.Module):
    """As vision transformers write it: one packed projection, and the fused op behind a switch."""

    def __init__(self, width: int, heads: int, fused_attn: bool, qk_norm: bool) -> None:
        super().__init__()
        self.heads, self.fused_attn = heads, fused_attn
        self.qkv = nn.Linear(width, 3 * width)
        norm = nn.LayerNorm if qk_norm else nn.Identity
        self.q_norm, self.k_norm = norm(width // heads), norm(width // heads)
        self.proj = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0)
        else:
            x = ((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)).softmax(-1) @ v
        return self.proj(x.transpose(1, 2).reshape(b, n, c))


class VisionTransformer(nn.Module):
    """Patches, a class token, register tokens, blocks, and a head that pools by attention with a learned query."""

    def __init__(self, width: int = 24, heads: int = 3, registers: int = 4, fused_attn: bool = True) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.cls_token = nn.Parameter(torch.randn(1, 1, width))
        self.reg_token = nn.Parameter(torch.randn(1, registers, width))
        self.pos_embed = nn.Parameter(torch.randn(1, 9, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.attn = nn.ModuleList(Attention(width, heads, fused_attn, n == 1) for n in range(2))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width)) for _ in range(2))
        self.latent = nn.Parameter(torch.randn(1, 1, width))
        self.pool = nn.MultiheadAttention(width, heads, batch_first=True)
        self.registers = registers

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = x + self.pos_embed
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), self.reg_token.expand(len(x), -1, -1), x], 1)
        for n in range(2):
            x = x + self.attn[n](self.norms[2 * n](x))
            x = x + self.mlp[n](self.norms[2 * n + 1](x))
        rest = x[:, 1 + self.registers :]
        pooled, weights = self.pool(self.latent.expand(len(x), -1, -1), rest, rest)
        return torch.cat([x[:, 0], pooled[:, 0], weights[:, 0]], 1)


def test_a_vision_transformer(calls: list[str]) -> None:
    """Two blocks by the op, one pooling head that asks for weights."""
    torch.manual_seed(0)
    model = VisionTransformer().double()
    image = draw(2, 3, 12, 12)
    same(model, lambda m: m(image), calls, 3)
    assert sorted(calls) == ["attention", "attention", "with_weights"]
    plain = copy.deepcopy(model)
    for attention in plain.attn:
        attention.fused_attn = False
    torch.testing.assert_close(plain(image), model(image), rtol=1e-9, atol=1e-10)


class CrossAttention(nn.Module):
    """As diffusion models write it: projections without bias, heads split by reshape, text or pixels as the context."""

    def __init__(self, width: int, context: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(context, width, bias=False)
        self.to_v = nn.Linear(context, width, bias=False)
        self.to_out = nn.ModuleList([nn.Linear(width, width), nn.Dropout(0.0)])

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        context = x if context is None else context
        q, k, v = (
            y.view(len(y), -1, self.heads, y.shape[-1] // self.heads).transpose(1, 2)
            for y in (self.to_q(x), self.to_k(context), self.to_v(context))
        )
        if mask is not None:
            mask = ((1 - mask.to(x.dtype)) * -10000.0)[:, None, None, :].expand(-1, self.heads, -1, -1)
        x = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=0.0, is_causal=False)
        return self.to_out[1](self.to_out[0](x.transpose(1, 2).reshape(len(x), -1, self.to_q.out_features)))


class UNet(nn.Module):
    """Down, a middle with one wide head over pixels, up with a skip; self and cross attention at each size."""

    def __init__(self, width: int = 16, text: int = 12) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.norms = nn.ModuleList(nn.GroupNorm(4, width) for _ in range(3))
        self.pixels = nn.ModuleList(CrossAttention(width, width, heads) for heads in (4, 1, 2))
        self.words = nn.ModuleList(CrossAttention(width, text, heads) for heads in (4, 1, 2))
        self.down = nn.Conv2d(width, width, 3, 2, 1)
        self.last = nn.Conv2d(2 * width, 3, 3, padding=1)

    def block(self, n: int, x: Tensor, text: Tensor, mask: Tensor) -> Tensor:
        b, c, height, width = x.shape
        y = self.norms[n](x).permute(0, 2, 3, 1).reshape(b, height * width, c)
        y = y + self.pixels[n](y)
        y = y + self.words[n](y, text, mask)
        return x + y.reshape(b, height, width, c).permute(0, 3, 1, 2)

    def forward(self, x: Tensor, text: Tensor, mask: Tensor) -> Tensor:
        wide = self.block(0, self.first(x), text, mask)
        deep = self.block(1, self.down(wide), text, mask)
        up = self.block(2, F.interpolate(deep, scale_factor=2.0), text, mask)
        return self.last(torch.cat([up, wide], 1))


def test_a_u_net(calls: list[str]) -> None:
    torch.manual_seed(0)
    model = UNet().double()
    image, text = draw(2, 3, 8, 8), draw(2, 7, 12, seed=1)
    mask = (torch.arange(7) < torch.tensor([[7], [3]])).long()
    same(model, lambda m: m(image, text, mask), calls, 6)
    spoiled = text.clone()
    spoiled[1, 3:] += 1
    torch.testing.assert_close(model(image, spoiled, mask), model(image, text, mask))  # the mask was heard


def test_a_u_net_in_channels_last_and_half_precision(calls: list[str]) -> None:
    torch.manual_seed(0)
    model = UNet().to(torch.bfloat16).to(memory_format=torch.channels_last).eval()
    image = draw(2, 3, 8, 8).to(torch.bfloat16).to(memory_format=torch.channels_last)
    text, mask = draw(2, 7, 12, seed=1).to(torch.bfloat16), torch.ones(2, 7).long()
    exact = copy.deepcopy(model).double()(image.double(), text.double(), mask)
    with torch.no_grad():
        theirs = model(image, text, mask)
        with hw.everywhere():
            ours = model(image, text, mask)
    assert len(calls) == 6
    error = [float((x.double() - exact).abs().max().detach()) for x in (ours, theirs)]
    assert error[0] <= 2 * error[1] + torch.finfo(torch.bfloat16).eps
