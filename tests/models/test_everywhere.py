"""torch's own op inside everywhere(): the same meaning, really through headwise."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headwise as hw
from headwise.errors import UnsupportedError

# where torch's op and what its modules call are computed
HERE = [sys.modules[f"headwise.models.{name}"] for name in ("dot_product", "nested", "fused_layers")]
sdpa = F.scaled_dot_product_attention


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The options of every attention that went through headwise."""
    found: list[dict[str, Any]] = []
    real = hw.attention

    def counting(*operands: Tensor, **options: Any) -> Tensor:
        found.append(options)
        return real(*operands, **options)

    for module in HERE:
        monkeypatch.setattr(module, "attention", counting)
    return found


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


SHAPES = {
    "4-D": ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)),
    "3-D": ((3, 5, 8), (3, 7, 8), (3, 7, 6)),
    "2-D": ((5, 8), (7, 8), (7, 6)),
    "5-D": ((2, 2, 3, 5, 8), (2, 2, 3, 7, 8), (2, 2, 3, 7, 6)),
    "6-D": ((2, 1, 2, 3, 5, 8), (2, 1, 2, 3, 7, 8), (2, 1, 2, 3, 7, 6)),
    "one key head": ((2, 3, 5, 8), (2, 1, 7, 8), (2, 1, 7, 6)),
    "one row of queries": ((1, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)),
    "fewer axes": ((3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)),
    "more queries than keys": ((2, 3, 7, 8), (2, 3, 4, 8), (2, 3, 4, 6)),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.7}, {"is_causal": True, "scale": 2.0}])
def test_shapes_and_options(name: str, options: dict[str, Any], calls: list[Any]) -> None:
    q, k, v = (draw(*shape, seed=i) for i, shape in enumerate(SHAPES[name]))
    want = sdpa(q, k, v, **options)
    with hw.everywhere():
        got = F.scaled_dot_product_attention(q, k, v, **options)
    assert len(calls) == 1
    assert got.shape == want.shape
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(5, 7), (1, 7), (5, 1), (3, 5, 7), (2, 1, 5, 7), (2, 3, 5, 7), (1, 1, 1, 7)])
@pytest.mark.parametrize("form", ["bool", "float", "-inf", "minimum"])
def test_masks_keep_or_are_added(shape: tuple[int, ...], form: str, calls: list[Any]) -> None:
    q, k, v = draw(2, 3, 5, 8), draw(2, 3, 7, 8, seed=1), draw(2, 3, 7, 6, seed=2)
    keep = draw(*shape, seed=3) > -0.3
    mask = {
        "bool": keep,
        "float": draw(*shape, seed=4) * 3,
        "-inf": torch.where(keep, 0.5, float("-inf")),
        "minimum": torch.where(keep, 0.5, torch.finfo(torch.float32).min),
    }[form]
    want = sdpa(q, k, v, attn_mask=mask)
    with hw.everywhere():
        got = sdpa(q, k, v, attn_mask=mask)
    assert len(calls) == 1
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    if shape[-1] > 1 or form != "float":  # one number for a whole row changes nothing
        assert float((got - sdpa(q, k, v)).abs().max()) > 1e-3


@pytest.mark.parametrize("form", ["bool", "float"])
def test_a_mask_beside_causal_means_both(form: str) -> None:
    q, mask = draw(2, 3, 5, 8), draw(5, 5, seed=3)
    given = (mask > -0.5) | torch.eye(5).bool() if form == "bool" else mask
    want = sdpa(q, q, q, attn_mask=given, is_causal=True)
    with hw.everywhere():
        got = sdpa(q, q, q, attn_mask=given, is_causal=True)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    assert float((got - sdpa(q, q, q, is_causal=True)).abs().max()) > 1e-3
    assert float((got - sdpa(q, q, q, attn_mask=given)).abs().max()) > 1e-3


@pytest.mark.parametrize("shape", [(5, 7), (3, 5, 7), (2, 1, 5, 7), (2, 2, 1, 5, 7), (1, 2, 3, 5, 7)])
def test_masks_of_inputs_with_five_axes(shape: tuple[int, ...], calls: list[Any]) -> None:
    q, k, v = draw(2, 2, 3, 5, 8), draw(2, 2, 3, 7, 8, seed=1), draw(2, 2, 3, 7, 6, seed=2)
    mask = draw(*shape, seed=3) * 2
    with hw.everywhere():
        got = sdpa(q, k, v, attn_mask=mask)
    assert len(calls) == 1
    torch.testing.assert_close(got, sdpa(q, k, v, attn_mask=mask), rtol=1e-4, atol=1e-5)


def test_an_empty_row_is_zero_as_torchs() -> None:
    q = draw(1, 1, 3, 4)
    mask = torch.tensor([[True, False, False], [False] * 3, [True] * 3])
    with hw.everywhere():
        got = sdpa(q, q, q, attn_mask=mask)
    assert float(got[0, 0, 1].abs().max()) == 0
    torch.testing.assert_close(got, sdpa(q, q, q, attn_mask=mask), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("lead", [(2,), ()])
def test_grouped_heads(lead: tuple[int, ...], calls: list[Any]) -> None:
    q, k, v = draw(*lead, 6, 5, 8), draw(*lead, 2, 7, 8, seed=1), draw(*lead, 2, 7, 8, seed=2)
    with hw.everywhere():
        got = sdpa(q, k, v, enable_gqa=True)
    assert len(calls) == 1
    torch.testing.assert_close(got, sdpa(q, k, v, enable_gqa=True), rtol=1e-4, atol=1e-5)


def test_dropout_of_everything_gives_torchs_zeros() -> None:
    q, k, v = (torch.randn(1, 2, 5, 4, requires_grad=True) for _ in range(3))
    plain = sdpa(q, k, v, dropout_p=1.0, is_causal=True)
    with hw.everywhere():
        ours = sdpa(q, k, v, dropout_p=1.0, is_causal=True)
    assert torch.equal(ours, plain)
    assert all(not gradient.any() for gradient in torch.autograd.grad(ours.sum(), (q, k, v)))


def test_dropout_is_applied_as_given() -> None:
    q = draw(2, 3, 40, 8)
    with hw.everywhere():
        dropped = sdpa(q, q, q, dropout_p=0.5)
        assert torch.equal(sdpa(q, q, q, dropout_p=0.0), sdpa(q, q, q))
    assert float((dropped - sdpa(q, q, q)).abs().max()) > 0.1


def test_gradients_equal_torchs() -> None:
    operands = [draw(2, 3, 5, 8, seed=i).requires_grad_() for i in range(3)]
    bias = draw(5, 5, seed=4).requires_grad_()
    want = torch.autograd.grad(sdpa(*operands, attn_mask=bias).square().sum(), [*operands, bias])
    with hw.everywhere():
        out = sdpa(*operands, attn_mask=bias)
    got = torch.autograd.grad(out.square().sum(), [*operands, bias])
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda q: sdpa(q, q[:, :2], q[:, :2]),
        lambda q: sdpa(q, q[..., :4], q),
        lambda q: sdpa(q, q, q, attn_mask=torch.ones(5, 5, dtype=torch.int32)),
        lambda q: sdpa(q, q, q, attn_mask=torch.ones(4, 5).bool()),
        lambda q: sdpa(q, q.double(), q),
    ],
)
def test_what_torch_refuses_stays_refused_in_torchs_words(call: Any) -> None:
    q = draw(2, 3, 5, 8)
    with pytest.raises(RuntimeError) as theirs:
        call(q)
    with hw.everywhere(), pytest.raises(RuntimeError) as ours:
        call(q)
    assert type(ours.value) is type(theirs.value)


def test_it_ends_with_the_block_and_after_an_error(calls: list[Any]) -> None:
    q = draw(1, 1, 3, 4)
    with pytest.raises(ZeroDivisionError), hw.everywhere():
        _ = 1 / 0
    sdpa(q, q, q)
    assert calls == []
    assert F.scaled_dot_product_attention is sdpa


def test_a_backend_of_ours_that_calls_torchs_op_reaches_torch(
    calls: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = HERE[0].attention
    monkeypatch.setattr(HERE[0], "attention", lambda *operands, **options: real(*operands, **options, backend="sdpa"))
    q = draw(1, 2, 3, 4)
    with hw.everywhere():
        got = sdpa(q, q, q)
        with hw.everywhere():
            sdpa(q, q, q)
    assert len(calls) == 2
    torch.testing.assert_close(got, sdpa(q, q, q))


def test_another_thread_keeps_torchs_own(calls: list[Any]) -> None:
    q = draw(1, 1, 3, 4)
    with hw.everywhere():
        thread = threading.Thread(target=sdpa, args=(q, q, q))
        thread.start()
        thread.join()
    assert calls == []


def test_tensors_that_are_not_plain_are_refused() -> None:
    class Odd(Tensor):
        pass

    q = draw(1, 1, 3, 4).as_subclass(Odd)
    with (
        hw.everywhere(),
        pytest.raises(UnsupportedError, match="everywhere: got Odd; headwise computes on plain tensors"),
    ):
        sdpa(q, q, q)


# torch's modules


@pytest.mark.parametrize("mode", ["train", "eval", "no_grad"])
@pytest.mark.parametrize("masked", [False, True])
def test_multihead_attention(mode: str, masked: bool, calls: list[Any]) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(16, 4, batch_first=True).train(mode == "train")
    x = draw(2, 6, 16)
    options: dict[str, Any] = {"need_weights": False}
    if masked:
        options["key_padding_mask"] = torch.tensor([[False] * 6, [False] * 4 + [True] * 2])
        options["attn_mask"] = torch.ones(6, 6).triu(1).bool()
    with torch.set_grad_enabled(mode != "no_grad"):
        want = layer(x, x, x, **options)[0]
        with hw.everywhere():
            got = layer(x, x, x, **options)[0]
    assert len(calls) == 1
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # which torch's encoder makes of padding
@pytest.mark.parametrize("mode", ["train", "eval", "no_grad"])
@pytest.mark.parametrize("padded", [False, True])
def test_transformer_encoder(mode: str, padded: bool, calls: list[Any]) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 3).train(mode == "train")
    x = draw(2, 6, 16)
    padding = torch.tensor([[False] * 6, [False] * 4 + [True] * 2]) if padded else None
    with torch.set_grad_enabled(mode != "no_grad"):
        with hw.everywhere():
            got = encoder(x, src_key_padding_mask=padding)
        assert len(calls) == 3
        want = encoder(x, src_key_padding_mask=padding)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_transformer_decoder(calls: list[Any]) -> None:
    torch.manual_seed(0)
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, dropout=0.0, batch_first=True), 2).eval()
    x, memory = draw(2, 5, 16), draw(2, 7, 16, seed=1)
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    want = decoder(x, memory, tgt_mask=causal, tgt_is_causal=True)
    with hw.everywhere():
        got = decoder(x, memory, tgt_mask=causal, tgt_is_causal=True)
    assert len(calls) == 4
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_a_transformers_model_on_sdpa(zoo: Any, calls: list[Any]) -> None:
    model = zoo.model("llama")
    model.set_attn_implementation("sdpa")
    batch = zoo.batch("llama", "right")
    want = zoo.result(model, batch)
    with hw.everywhere():
        got = zoo.result(model, batch)
    assert len(calls) == 2
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
