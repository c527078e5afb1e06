"""MultiHeadAttention against the textbook written out, and the promises of its docstring."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.errors import HeadwiseError, ShapeError, SpecError
from headwise.nn import KVCache

F64 = torch.float64
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj"]


def textbook(
    layer: hw.MultiHeadAttention, x: Tensor, context: Tensor | None = None, keep: Tensor | None = None
) -> Tensor:
    """Project, score and scale, mask, softmax, weigh, concatenate and project: one head after the other."""
    source = x if context is None else context
    q, k, v = layer.q_proj(x), layer.k_proj(source), layer.v_proj(source)
    width = layer.head_dim
    heads = []
    for h in range(layer.heads):
        g = h // (layer.heads // layer.kv_heads)
        own, shared = slice(h * width, (h + 1) * width), slice(g * width, (g + 1) * width)
        score = q[..., own] @ k[..., shared].transpose(-1, -2)
        score = score * (1 / math.sqrt(width) if layer.scale is None else layer.scale)
        if keep is not None:
            score = score.masked_fill(~keep, -math.inf)
        if layer.sinks is not None:
            sink = layer.sinks[h].expand(*score.shape[:-1], 1)
            p = torch.cat((score, sink), -1).softmax(-1)[..., :-1]
        else:
            p = score.softmax(-1)
        heads.append(p @ v[..., shared])
    return layer.o_proj(torch.cat(heads, -1))


def causal(t: int, s: int) -> Tensor:
    return torch.ones(t, s, dtype=torch.bool).tril(s - t)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def test_close_can_fail() -> None:
    with pytest.raises(AssertionError):
        close(torch.zeros(1, dtype=F64), torch.full((1,), 1e-9, dtype=F64))


@pytest.mark.parametrize(
    "options",
    [
        {"heads": 6},
        {"heads": 6, "kv_heads": 2},
        {"heads": 6, "kv_heads": 1},
        {"heads": 5, "head_dim": 7},
        {"heads": 6, "bias": False},
        {"heads": 6, "out_bias": False},
        {"heads": 6, "scale": 1.0},
        {"heads": 6, "kv_heads": 3, "sinks": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("cross", [False, True])
def test_equals_the_textbook(options: dict[str, Any], cross: bool) -> None:
    layer = hw.MultiHeadAttention(18, kdim=13 if cross else None, dtype=F64, **options)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(3, 5, 18, dtype=F64)
    context = torch.randn(3, 11, 13, dtype=F64) if cross else None
    close(layer(x, context), textbook(layer, x, context))


@pytest.mark.parametrize("cross", [False, True])
def test_equals_torchs_module(cross: bool) -> None:
    """With the same weights, and masks turned round: True hides there and shows here."""
    theirs = nn.MultiheadAttention(12, 3, kdim=8 if cross else 12, vdim=8 if cross else 12, batch_first=True, dtype=F64)
    ours = hw.MultiHeadAttention(12, 3, kdim=8 if cross else None, dtype=F64)
    for bias in (theirs.in_proj_bias, theirs.out_proj.bias):
        nn.init.normal_(bias)
    if cross:
        weights = [theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight]
    else:
        weights = list(theirs.in_proj_weight.chunk(3))
    with torch.no_grad():
        for name, weight, bias in zip("qkv", weights, theirs.in_proj_bias.chunk(3), strict=True):
            getattr(ours, f"{name}_proj").weight.copy_(weight)
            getattr(ours, f"{name}_proj").bias.copy_(bias)
    ours.o_proj.load_state_dict(theirs.out_proj.state_dict())
    x = torch.randn(2, 5, 12, dtype=F64)
    context = torch.randn(2, 7, 8, dtype=F64) if cross else x
    real = torch.arange(context.shape[1]) < torch.tensor([[context.shape[1]], [4]])
    hidden = torch.rand(5, context.shape[1]) < 0.3
    hidden[:, 0] = False
    want, weights = theirs(x, context, context, ~real, attn_mask=hidden, average_attn_weights=False)
    mask = hw.Padding(real) & hw.Dense(~hidden)
    got = ours.attend(x, context if cross else None, mask=mask)
    close(got.out, want)
    close(got.pattern.to_dense(), weights)


def test_gradients_equal_the_textbooks() -> None:
    layer = hw.MultiHeadAttention(12, 6, 2, sinks=True, mask=hw.Causal(), dtype=F64)
    x = torch.randn(2, 5, 12, dtype=F64, requires_grad=True)
    weight = torch.randn(2, 5, 12, dtype=F64)
    inputs = [x, *layer.parameters()]
    ours = torch.autograd.grad((layer(x) * weight).sum(), inputs)
    theirs = torch.autograd.grad((textbook(layer, x, keep=causal(5, 5)) * weight).sum(), inputs)
    for mine, other in zip(ours, theirs, strict=True):
        close(mine, other)


def test_own_mask_and_the_calls_mask_both_hide() -> None:
    layer = hw.MultiHeadAttention(12, 3, mask=hw.Causal(), dtype=F64)
    x = torch.randn(2, 7, 12, dtype=F64)
    real = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 1, 0]]).bool()
    close(layer(x), textbook(layer, x, keep=causal(7, 7)))
    close(layer(x, mask=hw.Padding(real)), textbook(layer, x, keep=causal(7, 7) & real[:, None]))
    free = hw.MultiHeadAttention(12, 3, dtype=F64)
    free.load_state_dict(layer.state_dict())
    close(free(x, mask=hw.Causal()), layer(x))


def test_train_and_eval_agree_without_dropout() -> None:
    layer = hw.MultiHeadAttention(12, 3, mask=hw.Causal())
    x, real = torch.randn(2, 7, 12), torch.tensor([7, 4])
    trained = layer.train()(x, mask=hw.Padding(real))
    with torch.no_grad():
        assert torch.equal(layer.eval()(x, mask=hw.Padding(real)), trained)


def test_a_row_without_keys_gives_only_the_bias_and_no_nan() -> None:
    layer = hw.MultiHeadAttention(8, 2, mask=hw.Window(1, 0))
    nn.init.normal_(layer.o_proj.bias)
    x = torch.randn(1, 4, 8, requires_grad=True)
    out = layer(x, mask=hw.Padding(torch.tensor([2])))
    assert torch.equal(out[0, 3], layer.o_proj.bias)
    out[:, :2].sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in [x, *layer.parameters()])


class TestProjections:
    """The four Linears are ordinary and are called: what wraps, watches or cuts them takes effect."""

    @pytest.mark.parametrize("training", [True, False])
    @pytest.mark.parametrize("method", ["forward", "attend"])
    def test_each_is_called_once(self, training: bool, method: str) -> None:
        layer = hw.MultiHeadAttention(12, 3).train(training)
        calls: list[str] = []
        for name in PROJECTIONS:
            linear = getattr(layer, name)
            assert type(linear) is nn.Linear
            linear.register_forward_hook(lambda *_, name=name: calls.append(name))
        with torch.set_grad_enabled(training):
            getattr(layer, method)(torch.randn(1, 4, 12))
        assert sorted(calls) == sorted(PROJECTIONS)

    def test_hooks_on_the_module_itself_fire(self) -> None:
        layer = hw.MultiHeadAttention(12, 3).eval()
        seen = []
        layer.register_forward_hook(lambda module, args, out: seen.append(out.shape))
        with torch.no_grad():
            layer(torch.randn(1, 4, 12))
        assert seen == [(1, 4, 12)]

    @pytest.mark.parametrize("name", PROJECTIONS)
    def test_a_hook_that_changes_an_output_changes_the_result(self, name: str) -> None:
        layer, x = hw.MultiHeadAttention(12, 3), torch.randn(1, 4, 12)
        before = layer(x)
        getattr(layer, name).register_forward_hook(lambda module, args, out: out * torch.linspace(1, 3, out.shape[-1]))
        assert not torch.allclose(layer(x), before)

    def test_peft_wraps_all_four(self) -> None:
        peft = pytest.importorskip("peft", reason="peft is a development extra")
        layer, x = hw.MultiHeadAttention(12, 3), torch.randn(1, 4, 12)
        with torch.no_grad():
            before = layer(x)
        config = peft.LoraConfig(target_modules=PROJECTIONS, r=2, init_lora_weights=False)
        wrapped = peft.inject_adapter_in_model(config, layer)
        assert all(hasattr(getattr(wrapped, name), "lora_A") for name in PROJECTIONS)
        out = wrapped(x)
        assert not torch.allclose(out, before)
        out.sum().backward()
        for name in PROJECTIONS:
            assert getattr(wrapped, name).lora_B["default"].weight.grad.abs().sum() > 0

    def test_pruning_takes_effect(self) -> None:
        from torch.nn.utils import prune

        layer, x = hw.MultiHeadAttention(12, 3, bias=False), torch.randn(1, 4, 12)
        prune.l1_unstructured(layer.o_proj, "weight", amount=1.0)
        assert (layer(x) == 0).all()


class TestDropout:
    def test_only_in_training(self) -> None:
        layer, x = hw.MultiHeadAttention(12, 3, dropout=0.5), torch.randn(2, 9, 12)
        layer.eval()
        assert torch.equal(layer(x), layer(x))
        close(layer.double()(x.double()), textbook(layer, x.double()))
        layer.train()
        assert not torch.equal(layer(x.double()), layer(x.double()))

    def test_the_seed_is_torchs(self) -> None:
        layer, x = hw.MultiHeadAttention(12, 3, dropout=0.5), torch.randn(2, 9, 12)
        torch.manual_seed(3)
        first = layer(x)
        torch.manual_seed(3)
        assert torch.equal(layer(x), first)

    def test_what_is_seen_is_before_it(self) -> None:
        layer, x = hw.MultiHeadAttention(12, 3, dropout=0.5), torch.randn(2, 9, 12)
        attended = layer.attend(x, observe=[hw.Segments(torch.zeros(9).long(), torch.zeros(9).long())])
        torch.testing.assert_close(attended.seen["segments"], torch.full((2, 3, 1, 1), 9.0))
        torch.testing.assert_close(attended.pattern[:, :, :, :].sum(-1), torch.ones(2, 3, 9))


class TestAttend:
    def test_output_has_the_bits_of_forward(self) -> None:
        layer, x = hw.MultiHeadAttention(64, 8, 2, mask=hw.Causal()), torch.randn(2, 150, 64)
        for observe in ([], [hw.Entropy()], [hw.Entropy(), hw.TopKeys(3), hw.Map(8, 8)]):
            assert torch.equal(layer.attend(x, observe=observe).out, layer(x))

    def test_what_is_seen_is_the_heads_own(self) -> None:
        layer = hw.MultiHeadAttention(12, 4, 2, dtype=F64)
        x, context = torch.randn(2, 5, 12, dtype=F64), torch.randn(2, 7, 12, dtype=F64)
        attended = layer.attend(x, context, observe=[hw.Received(), hw.LogSumExp()])
        q = layer.q_proj(x).view(2, 5, 4, 3).transpose(1, 2)
        k = layer.k_proj(context).view(2, 7, 2, 3).transpose(1, 2).repeat_interleave(2, 1)
        score = q @ k.transpose(-1, -2) / math.sqrt(3)
        close(attended.lse, score.logsumexp(-1))
        close(attended.seen["log_sum_exp"], score.logsumexp(-1))
        close(attended.seen["received"], score.softmax(-1).sum(-2))
        close(attended.pattern.to_dense(), score.softmax(-1))

    def test_gradients_flow_through_out_and_lse(self) -> None:
        layer, x = hw.MultiHeadAttention(12, 3), torch.randn(1, 4, 12)
        attended = layer.attend(x)
        (attended.out.sum() + attended.lse.sum()).backward()
        assert all(p.grad is not None for p in layer.parameters())


class TestCache:
    @pytest.mark.parametrize("cut", [[1] * 11, [11], [5, 6], [7, 1, 1, 2], [3, 0, 8]], ids=str)
    @pytest.mark.parametrize("mask", [hw.Causal(), hw.Window(3, 0), hw.Causal() & hw.Chunks(4)], ids=str)
    def test_cached_equals_whole(self, cut: list[int], mask: hw.Mask) -> None:
        layer = hw.MultiHeadAttention(12, 6, 2, mask=mask, scores=(hw.Alibi(torch.rand(6)),), sinks=True, dtype=F64)
        x, cache = torch.randn(2, 11, 12, dtype=F64), KVCache()
        parts, start = [], 0
        for n in cut:
            parts.append(layer(x[:, start : start + n], cache=cache))
            start += n
            assert cache.length == start
        close(torch.cat(parts, 1), layer(x))

    def test_cached_equals_whole_with_padding(self) -> None:
        layer = hw.MultiHeadAttention(12, 3, mask=hw.Causal(), dtype=F64)
        x, cache = torch.randn(2, 9, 12, dtype=F64), KVCache()
        real = torch.arange(9) >= torch.tensor([[0], [4]])
        parts = [layer(x[:, t : t + 1], mask=hw.Padding(real[:, : t + 1]), cache=cache) for t in range(9)]
        close(torch.cat(parts, 1), layer(x, mask=hw.Padding(real)))

    def test_without_gradients_in_half_precision(self) -> None:
        layer = hw.MultiHeadAttention(32, 4, mask=hw.Causal(), dtype=torch.bfloat16)
        x, cache = torch.randn(1, 40, 32, dtype=torch.bfloat16), KVCache()
        with torch.no_grad():
            parts = torch.cat([layer(x[:, t : t + 1], cache=cache) for t in range(40)], 1)
            torch.testing.assert_close(parts, layer(x), rtol=0.02, atol=0.02)

    def test_gradients_equal(self) -> None:
        layer = hw.MultiHeadAttention(12, 3, mask=hw.Causal(), dtype=F64)
        x, cache, weight = torch.randn(2, 6, 12, dtype=F64), KVCache(), torch.randn(2, 6, 12, dtype=F64)
        cached = torch.cat([layer(part, cache=cache) for part in x.split(2, 1)], 1)
        parameters = list(layer.parameters())
        ours = torch.autograd.grad((cached * weight).sum(), parameters)
        theirs = torch.autograd.grad((layer(x) * weight).sum(), parameters)
        for mine, other in zip(ours, theirs, strict=True):
            close(mine, other)

    def test_a_pattern_stays_valid_after_later_steps(self) -> None:
        layer, cache = hw.MultiHeadAttention(12, 3, mask=hw.Causal()).eval(), KVCache()
        with torch.no_grad():
            layer(torch.randn(1, 5, 12), cache=cache)
            attended = layer.attend(torch.randn(1, 1, 12), cache=cache)
            before = attended.pattern.to_dense()
            for _ in range(10):
                layer(torch.randn(1, 1, 12), cache=cache)
            assert attended.pattern.shape == (1, 3, 1, 6)
            assert torch.equal(attended.pattern.to_dense(), before)

    def test_cross_attention_projects_its_context_once(self) -> None:
        layer = hw.MultiHeadAttention(12, 3, kdim=8, dtype=F64)
        x, context, cache = torch.randn(2, 4, 12, dtype=F64), torch.randn(2, 7, 8, dtype=F64), KVCache()
        calls = []
        layer.k_proj.register_forward_hook(lambda *_: calls.append(1))
        parts = [layer(x[:, t : t + 1], context, cache=cache) for t in range(4)]
        assert len(calls) == 1
        assert cache.length == 7
        close(torch.cat(parts, 1), layer(x, context))
        with pytest.raises(SpecError, match="another context"):
            layer(x, context.clone(), cache=cache)
        with pytest.raises(ShapeError, match="no context was given"):
            layer(x, cache=cache)

    def test_self_and_cross_do_not_share_a_cache(self) -> None:
        layer, x = hw.MultiHeadAttention(12, 3), torch.randn(2, 4, 12)
        cache = KVCache()
        layer(x, x.clone(), cache=cache)
        with pytest.raises(SpecError, match="a cache of their own"):
            layer(x, cache=cache)
        cache = KVCache()
        layer(x, cache=cache)
        with pytest.raises(SpecError, match="a sequence of its own"):
            layer(x, x.clone(), cache=cache)

    @pytest.mark.parametrize(
        "call",
        [
            {"x": torch.zeros(3, 1, 12)},
            {"x": torch.zeros(2, 1, 12), "mask": hw.Padding(torch.ones(2, 3).bool())},
            {"x": torch.zeros(2, 1, 12), "mask": torch.ones(1, 6).bool()},
            {"x": torch.zeros(2, 1, 12), "mask": hw.Causal(align="start")},
            {"x": torch.zeros(2, 1, 11)},
        ],
        ids=["batch", "mask shape", "mask type", "alignment", "width"],
    )
    def test_a_call_that_fails_leaves_the_cache(self, call: dict[str, Any]) -> None:
        layer, cache, x = hw.MultiHeadAttention(12, 3, mask=hw.Causal()), KVCache(), torch.randn(2, 7, 12)
        with torch.no_grad():
            layer(x[:, :5], cache=cache)
            layer(x[:, 5:6], cache=cache)
            with pytest.raises(HeadwiseError):
                layer(**call, cache=cache)
            assert cache.length == 6
            torch.testing.assert_close(layer(x[:, 6:], cache=cache), layer(x)[:, 6:])


class TestRulesInside:
    """Tensors in masks and scores belong to the module."""

    def test_a_learned_table_is_a_parameter(self) -> None:
        table = nn.Parameter(torch.zeros(3, 9))
        layer = hw.MultiHeadAttention(12, 3, scores=(hw.SoftCap(5.0), hw.RelativeBias(table, 4)))
        assert dict(layer.named_parameters())["scores.rule_1_table"] is table
        before = layer(torch.ones(1, 5, 12) * torch.arange(5.0)[None, :, None])
        before.square().sum().backward()
        assert table.grad is not None
        assert table.grad.abs().sum() > 0
        assert "scores.rule_1_table" in layer.state_dict()

    def test_fixed_tensors_move_and_are_not_saved(self) -> None:
        layer = hw.MultiHeadAttention(12, 3, mask=hw.Causal() & hw.Padding(torch.tensor([3, 5])))
        layer.scores = hw.nn.rules.Held((hw.Alibi(torch.rand(3)),))
        assert set(layer.state_dict()) == {f"{name}.{part}" for name in PROJECTIONS for part in ("weight", "bias")}
        assert layer.double().scores()[0].slopes.dtype == F64
        assert layer.mask().masks[1].keep_or_lengths.dtype == torch.int64
        assert layer.to("meta").scores()[0].slopes.device.type == "meta"
        assert layer.mask().masks[1].keep_or_lengths.device.type == "meta"

    def test_copies_are_their_own(self) -> None:
        table = nn.Parameter(torch.zeros(3, 9))
        layer, x = hw.MultiHeadAttention(12, 3, scores=(hw.RelativeBias(table, 4),)), torch.randn(1, 5, 12)
        other = copy.deepcopy(layer)
        third = pickle.loads(pickle.dumps(layer))
        before = layer(x)
        with torch.no_grad():
            table.add_(torch.linspace(-9, 9, 9))
        assert not torch.equal(layer(x), before)
        assert torch.equal(other(x), before)
        assert torch.equal(third(x), before)
        third.load_state_dict(layer.state_dict(), assign=True)
        assert torch.equal(third(x), layer(x))


class TestConstruction:
    @pytest.mark.parametrize("name", list(hw.nn.presets.PRESETS))
    def test_presets(self, name: str) -> None:
        layer = hw.MultiHeadAttention.preset(name, device="meta")
        assert layer.q_proj.out_features == layer.heads * layer.head_dim
        assert layer.k_proj.out_features == layer.kv_heads * layer.head_dim

    def test_a_preset_runs_and_can_be_changed(self) -> None:
        layer = hw.MultiHeadAttention.preset("bert-base", d_model=48).eval()
        assert (layer.d_model, layer.heads, layer.dropout) == (48, 12, 0.1)
        assert layer(torch.randn(1, 3, 48)).shape == (1, 3, 48)
        assert hw.MultiHeadAttention.preset("llama3-8b", device="meta").kv_heads == 8

    @pytest.mark.parametrize(
        ("make", "says"),
        [
            (lambda: hw.MultiHeadAttention(512, 7), "Use 1, 2, 4 or 8 heads"),
            (lambda: hw.MultiHeadAttention(512, 7), "d_model 512 cannot be cut into 7 equal heads"),
            (lambda: hw.MultiHeadAttention(512, 8, 3), "Use 1, 2, 4 or 8 key/value heads"),
            (lambda: hw.MultiHeadAttention(0, 8), "d_model is 0"),
            (lambda: hw.MultiHeadAttention(8, 0), "heads is 0"),
            (lambda: hw.MultiHeadAttention(8, 2.0), "heads is 2.0"),  # type: ignore[arg-type]
            (lambda: hw.MultiHeadAttention(8, 2, 0), "kv_heads is 0"),
            (lambda: hw.MultiHeadAttention(8, 2, head_dim=-1), "head_dim is -1"),
            (lambda: hw.MultiHeadAttention(8, 2, dropout=1.0), "dropout is 1.0"),
            (lambda: hw.MultiHeadAttention(8, 2, dropout="a"), "dropout is 'a'; it is a probability"),
            (lambda: hw.MultiHeadAttention(8, 2, dropout=True), "dropout is True"),
            (lambda: hw.MultiHeadAttention(8, 2, scale="x"), "scale is 'x'; it is a finite number"),
            (lambda: hw.MultiHeadAttention(8, 2, scale=float("nan")), "scale is nan"),
            (lambda: hw.MultiHeadAttention(8, 2, scores=hw.SoftCap(3.0)), "score rules. Write scores=(SoftCap(cap"),
            (lambda: hw.MultiHeadAttention(8, 2, scores=("x",)), "scores is ('x',); scores is a tuple of score rules"),
            (lambda: hw.MultiHeadAttention(8, 2, mask=hw.Causal), "the class Causal is no mask; a mask is one of"),
            (lambda: hw.MultiHeadAttention(8, 2, mask=hw.Causal), "Write Causal()."),
            (lambda: hw.MultiHeadAttention(8, 2)(torch.zeros(1, 2, 8), mask=hw.Window), "class Window is no mask"),
            (lambda: hw.MultiHeadAttention(8, 2, scores=hw.SoftCap), "the class SoftCap is no score rule"),
            (lambda: hw.MultiHeadAttention(8, 2, scores=(hw.SoftCap,)), "Write scores=(SoftCap(...),)."),
            (lambda: hw.MultiHeadAttention(8, 2, mask=torch.ones(2, 2).bool()), "Wrap a boolean keep-tensor"),
            (lambda: hw.MultiHeadAttention.preset("bert-bas"), "Did you mean 'bert-base'"),
            (lambda: hw.MultiHeadAttention.preset("zzzz"), "known are transformer-base,"),
        ],
    )
    def test_bad_sizes(self, make: Any, says: str) -> None:
        with pytest.raises(SpecError) as caught:
            make()
        assert says in str(caught.value)
        assert str(caught.value).startswith("MultiHeadAttention")

    @pytest.mark.parametrize(
        ("x", "context", "says"),
        [
            (torch.zeros(5, 12), None, "Use x[None]"),
            (torch.zeros(1, 5, 13), None, "x is [B,T,M] with M=12"),
            (torch.zeros(1, 1, 5, 12), None, "x has 4 axes"),
            (torch.zeros(1, 5, 12).double(), None, "x is torch.float64"),
            (torch.zeros(1, 5, 12, device="meta"), None, "on meta"),
            (torch.zeros(2, 5, 12), torch.zeros(3, 5, 12), "context has 3 batch rows, x has 2"),
            (torch.zeros(2, 5, 12), torch.zeros(2, 5, 8), "context is [B,S,M] with M=12"),
            (torch.zeros(2, 5, 12), torch.zeros(2, 5, 12).half(), "context is torch.float16"),
        ],
    )
    def test_bad_inputs(self, x: Tensor, context: Tensor | None, says: str) -> None:
        layer = hw.MultiHeadAttention(12, 3)
        with pytest.raises(ShapeError) as caught:
            layer(x, context)
        assert says in str(caught.value)

    def test_bad_masks_and_caches(self) -> None:
        layer, x = hw.MultiHeadAttention(12, 3), torch.zeros(1, 5, 12)
        with pytest.raises(SpecError, match=r"headwise\.Dense"):
            layer(x, mask=torch.ones(5, 5).bool())
        with pytest.raises(SpecError, match="cache is a list"):
            layer(x, cache=[])
        with pytest.raises(SpecError, match="x is a list"):
            layer([[0.0]])

    def test_zero_lengths(self) -> None:
        layer = hw.MultiHeadAttention(12, 3)
        assert layer(torch.zeros(2, 0, 12)).shape == (2, 0, 12)
        assert layer(torch.zeros(0, 4, 12)).shape == (0, 4, 12)
        out = layer(torch.zeros(2, 4, 12), torch.zeros(2, 0, 12))
        assert torch.equal(out, layer.o_proj.bias.expand(2, 4, 12))

    def test_autocast(self) -> None:
        layer, x = hw.MultiHeadAttention(12, 3), torch.randn(2, 4, 12)
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(x).dtype == torch.bfloat16
