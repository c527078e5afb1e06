"""Nested tensors inside everywhere() ended in torch's internal errors, and an encoder's padded rows were not 0."""

from __future__ import annotations

import itertools
import logging
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import headwise as hw

sdpa = F.scaled_dot_product_attention
F64 = torch.float64
LAYOUTS = pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=["strided", "jagged"])


@pytest.fixture(autouse=True)
def torch_says_no_more_than_once() -> Iterator[None]:
    """torch warns that nested tensors are a prototype, and logs at each refusal what its kernels do not take."""
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")
        warnings.filterwarnings("ignore", "enable_nested_tensor is True, but self.use_nested_tensor is False")
        warnings.filterwarnings("ignore", "Converting mask without torch.bool dtype")
        yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One entry for each attention that went through headwise."""
    found: list[str] = []

    def counted(real: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *x, **options: found.append(real.__name__) or real(*x, **options)

    for name in ("dot_product", "nested", "fused_layers"):
        module = sys.modules[f"headwise.models.{name}"]
        monkeypatch.setattr(module, "attention", counted(module.attention))
        if hasattr(module, "with_weights"):
            monkeypatch.setattr(module, "with_weights", counted(module.with_weights))
    return found


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64)


def nested(rows: list[Tensor], layout: Any, offsets: Tensor | None) -> Tensor:
    """Sequences [T_n, H, D] as nested [B, H, T_n, D]."""
    if layout == torch.strided:
        return torch.nested.as_nested_tensor([row.transpose(0, 1).contiguous() for row in rows])
    return torch.nested.nested_tensor_from_jagged(torch.cat(rows), offsets).transpose(1, 2)


def ends(rows: list[Tensor]) -> Tensor:
    return torch.tensor([0, *itertools.accumulate(len(row) for row in rows)])


def outcome(run: Callable[[], Tensor], leaves: list[Tensor], inside: Any) -> Any:
    """Form, rows and gradients of a nested result, or the error."""
    try:
        with inside():
            out = run()
    except Exception as error:  # noqa: BLE001  # its kind is what is compared
        return type(error), str(error)
    rows = out.unbind()
    grads = torch.autograd.grad(sum(row.square().sum() for row in rows), leaves) if leaves else ()
    form: list[Any] = [out.layout, out.dtype, out.is_contiguous(), out.dim()]
    form += [(row.shape[0], row.shape[-1], row.stride()) for row in rows]
    form += [out.values().stride(), out.size(2)] if out.layout == torch.jagged else []
    return form, [*rows, *grads]


def same(run: Callable[[], Tensor], leaves: list[Tensor]) -> Any:
    """Asks that a call gives inside of the block what it gives outside; returns its form or its error."""
    theirs, ours = (outcome(run, leaves, inside) for inside in (nullcontext, hw.everywhere))
    assert ours[0] == theirs[0]
    if isinstance(theirs[1], str):
        assert ours[1] == theirs[1]
        return theirs[0]
    for got, want in zip(ours[1], theirs[1], strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)
    return theirs[0]


@LAYOUTS
@pytest.mark.parametrize(
    "lengths", [([3, 5],) * 2, ([1, 4, 0],) * 2, ([3, 5], [4, 2]), ([3, 5, 2], [4, 0, 2]), ([6],) * 2]
)
@pytest.mark.parametrize("widths", [(2, 8, 8), (3, 4, 6), (1, 1, 1)])
@pytest.mark.parametrize("scale", [None, 0.3])
def test_numbers_gradients_and_form(layout: Any, lengths: Any, widths: Any, scale: Any, calls: list[str]) -> None:
    H, D, E = widths
    rows = [
        [draw(n, H, d, seed=10 * which + i).requires_grad_() for i, n in enumerate(of)]
        for which, (of, d) in enumerate(((lengths[0], D), (lengths[1], D), (lengths[1], E)))
    ]
    at = ends(rows[0])
    at_keys = at if lengths[0] == lengths[1] else ends(rows[1])

    def run() -> Tensor:
        q, k, v = (nested(row, layout, at if n == 0 else at_keys) for n, row in enumerate(rows))
        return sdpa(q, k, v, scale=scale)

    form = same(run, [row for of in rows for row in of])
    assert isinstance(form, list)
    assert calls == ["attention"]


@LAYOUTS
@pytest.mark.parametrize("change", ["causal", "mask", "groups", "dense", "dtypes", "turned", "three axes", "heads"])
def test_what_torch_refuses_or_does_by_itself(layout: Any, change: str) -> None:
    rows = [draw(n, 2, 8, seed=n) for n in (3, 5)]
    at = ends(rows)
    q = k = nested(rows, layout, at)
    options: dict[str, Any] = {}
    if change == "causal":
        options["is_causal"] = True
    elif change == "mask":
        options["attn_mask"] = torch.ones(5, 5).bool()
    elif change == "groups":
        q, options = nested([draw(n, 4, 8, seed=n) for n in (3, 5)], layout, at), {"enable_gqa": True}
    elif change == "dense":
        q = draw(2, 2, 5, 8)
    elif change == "dtypes":
        q = nested([row.float() for row in rows], layout, at)
    elif change == "turned":
        q = k = q.transpose(1, 2)
    elif change == "three axes":
        q = k = torch.nested.as_nested_tensor([row[:, 0] for row in rows], layout=layout)
    else:
        q = nested([draw(n, 3, 8, seed=n) for n in (3, 5)], layout, at)
    same(lambda: sdpa(q, k, k, **options), [])


@LAYOUTS
def test_autocast(layout: Any) -> None:
    rows = [draw(n, 2, 8, seed=n).float() for n in (3, 5)]
    q = nested(rows, layout, ends(rows))
    with torch.autocast("cpu", dtype=torch.bfloat16), hw.everywhere():
        out = sdpa(q, q, q)
    assert out.dtype == torch.bfloat16
    for got, want in zip(out.unbind(), sdpa(q, q, q).unbind(), strict=True):
        torch.testing.assert_close(got.float(), want, rtol=0.02, atol=0.02)


@LAYOUTS
def test_dropout(layout: Any) -> None:
    rows = [draw(n, 2, 8, seed=n) for n in (30, 50)]
    q = nested(rows, layout, ends(rows))
    with hw.everywhere():
        dropped = sdpa(q, q, q, dropout_p=0.5)
    for got, want in zip(dropped.unbind(), sdpa(q, q, q).unbind(), strict=True):
        assert got.shape == want.shape
        assert float((got - want).abs().max()) > 0.1


def test_jagged_outputs_go_on_with_their_inputs() -> None:
    """A residual connection: what comes out is ragged as what went in."""
    rows = [draw(n, 2, 8, seed=n) for n in (3, 5)]
    q = nested(rows, torch.jagged, ends(rows))
    with hw.everywhere():
        total = q + sdpa(q, q, q)
    torch.testing.assert_close(total.values(), (q + sdpa(q, q, q)).values())


# torch's modules


def encoder(act: str, norm_first: bool, mode: str) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        16, 2, 32, dropout=0.0, batch_first=True, norm_first=norm_first, activation=act, dtype=F64
    )
    stack = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(16, dtype=F64) if act == "gelu" else None)
    for parameter in stack.parameters():
        nn.init.normal_(parameter, std=0.3)
    return stack.train(mode == "train")


@pytest.mark.parametrize("mode", ["train", "eval", "no_grad", "inference"])
@pytest.mark.parametrize("act", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("form", ["plain", "right", "left", "causal", "causal and padded", "a layer", "one empty"])
def test_an_encoder_in_every_mode(mode: str, act: str, norm_first: bool, form: str, calls: list[str]) -> None:
    """In inference torch nests what is padded on the right, and its padded rows come out as 0."""
    model = encoder(act, norm_first, mode)
    x = draw(3, 6, 16, seed=5)
    lengths = torch.tensor([6, 3, 0 if form == "one empty" else 2])
    padding = torch.arange(6) >= lengths[:, None]
    options: dict[str, Any] = {} if form in ("plain", "causal") else {"src_key_padding_mask": padding}
    if form == "left":
        options["src_key_padding_mask"] = padding.flip(1)
    if form.startswith("causal"):
        options["src_mask" if form == "a layer" else "mask"] = torch.ones(6, 6).triu(1).bool()
    run = model.layers[0] if form == "a layer" else model
    context = {"no_grad": torch.no_grad, "inference": torch.inference_mode}.get(mode, nullcontext)
    results = []
    for inside in (nullcontext, hw.everywhere):
        calls.clear()
        with context(), inside():
            out = run(x, **options)
        leaves = list(run.parameters())
        grads = torch.autograd.grad(out.square().sum(), leaves) if out.requires_grad else ()
        results.append([out, *grads])
    assert len(calls) == (1 if form == "a layer" else 2)
    assert results[0][0].stride() == results[1][0].stride()
    assert bool(results[1][0].isfinite().all())
    if form == "one empty" and norm_first:  # not nested: torch's fused path gives NaN where no key is left
        numbers = results[0][0].isfinite()
        results = [[x[0][numbers], *x[1:]] for x in results]
    for want, got in zip(*results, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-8, atol=1e-10)
    if form == "right" and mode in ("no_grad", "inference") and act == "relu" and not norm_first:
        assert bool((results[1][0][padding] == 0).all())


@pytest.mark.parametrize("mode", ["train", "eval", "no_grad"])
@pytest.mark.parametrize("average", [True, False])
@LAYOUTS
def test_a_module_on_nested_inputs(mode: str, average: bool, layout: Any, calls: list[str]) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(16, 2, batch_first=True, dtype=F64).train(mode == "train")
    x = torch.nested.as_nested_tensor([draw(n, 16, seed=n) for n in (3, 5, 1)], layout=layout)
    results: list[Any] = []
    for inside in (nullcontext, hw.everywhere):
        with torch.set_grad_enabled(mode != "no_grad"), inside():
            try:
                results.append(layer(x, x, x, average_attn_weights=average))
            except AssertionError as error:
                results.append(str(error))
    if isinstance(results[0], str):
        assert results[0] == results[1]
        return
    (out, weights), (got, found) = results
    assert calls == ["with_weights"]
    for one, other in zip(got.unbind(), out.unbind(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    assert found.shape == weights.shape
    torch.testing.assert_close(found, weights, rtol=1e-10, atol=1e-12)  # those of padding are 0


@pytest.mark.parametrize("mode", ["eval", "no_grad"])
def test_float_masks_are_added_in_inference_too(mode: str) -> None:
    """torch's fused path takes any number but 0 for "hidden"; its plain path, and its documentation, add it."""
    model, x = encoder("relu", False, "eval"), draw(2, 4, 16)
    bias = torch.where(draw(4, 4, seed=1) > 0, -0.5, 0.0).double()
    want = model(x, mask=bias)
    with torch.set_grad_enabled(mode == "eval"), hw.everywhere():
        got = model(x, mask=bias)
    torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)
