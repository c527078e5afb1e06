"""The drop-in place for torch.nn.MultiheadAttention: torch's numbers, for every argument that it has."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.errors import HeadwiseError, ShapeError, SpecError, UnsupportedError
from headwise.nn import torch_compat
from headwise.nn.torch_compat import MultiheadAttention

F64 = torch.float64
M, H, B, T, S = 12, 2, 3, 5, 7
NAN, INF = float("nan"), float("inf")


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = F64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64).to(dtype)


def pair(seed: int = 0, **options: Any) -> tuple[nn.MultiheadAttention, MultiheadAttention]:
    """Torch's layer and ours with the same weights, none of them 0."""
    options = {"batch_first": True, "dtype": F64, **options}
    theirs = nn.MultiheadAttention(M, H, **options)
    for number, weight in enumerate(theirs.parameters()):
        weight.data.copy_(draw(*weight.shape, seed=seed + 10 + number) * 0.5)
    ours = MultiheadAttention(M, H, **options)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def inputs(layer: nn.MultiheadAttention, kind: str) -> list[Tensor]:
    """Query, key and value in the layer's layout; kinds are self, cross and one (sequence)."""
    if kind == "self":
        x = draw(B, T, M)
        x = x if layer.batch_first else x.transpose(0, 1)
        return [x, x, x]
    q, k, v = draw(B, T, M), draw(B, S, layer.kdim, seed=1), draw(B, S, layer.vdim, seed=2)
    if kind == "one":
        return [q[0], k[0], v[0]]
    return [x if layer.batch_first else x.transpose(0, 1) for x in (q, k, v)]


def masks(kind: str, form: str) -> dict[str, Tensor]:
    """A key_padding_mask and an attn_mask that leave no row empty."""
    t, s = (T, T) if kind == "self" else (T, S)
    b = 1 if kind == "one" else B
    padding = draw(b, s, seed=3) > 0.8
    cells = draw(t, s, seed=4) > 0.8
    heads = draw(b * H, t, s, seed=5) > 0.8
    for hidden in (padding, cells, heads):
        hidden[..., 1] = False
    minus = {True: lambda m: torch.zeros(m.shape, dtype=F64).masked_fill(m, -INF), False: lambda m: m}
    said = {
        "none": {},
        "padding": {"key_padding_mask": padding},
        "cells": {"attn_mask": cells},
        "heads": {"attn_mask": heads},
        "both": {"key_padding_mask": padding, "attn_mask": heads},
        "-inf": {"key_padding_mask": minus[True](padding), "attn_mask": minus[True](cells)},
        "added": {"key_padding_mask": draw(b, s, seed=6), "attn_mask": draw(b * H, t, s, seed=7)},
    }[form]
    if kind == "one" and "key_padding_mask" in said:
        said["key_padding_mask"] = said["key_padding_mask"][0]
    return said


FORMS = ["none", "padding", "cells", "heads", "both", "-inf", "added"]
OPTIONS = {
    "plain": {},
    "sequence first": {"batch_first": False},
    "no bias": {"bias": False},
    "bias_kv": {"add_bias_kv": True},
    "zero": {"add_zero_attn": True},
    "bias_kv and zero": {"add_bias_kv": True, "add_zero_attn": True, "batch_first": False},
    "kdim": {"kdim": 8},
    "vdim": {"vdim": 10, "bias": False},
    "all": {"kdim": 8, "vdim": 10, "add_bias_kv": True, "add_zero_attn": True, "batch_first": False},
}
# Keys of another width than the queries come from elsewhere.
CASES = [
    (name, kind)
    for name, options in OPTIONS.items()
    for kind in ("self", "cross", "one")
    if kind != "self" or not {"kdim", "vdim"} & options.keys()
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_numbers_are_torchs(name: str, kind: str, form: str) -> None:
    """A1.13, A1.17: output, weights and all gradients, with and without weights, in every form a mask may have."""
    theirs, ours = pair(**OPTIONS[name])
    results = []
    for layer in (theirs, ours):
        given = [x.clone().requires_grad_() for x in inputs(layer, kind)]
        if kind == "self":
            given = given[:1] * 3
        out, weights = layer(*given, average_attn_weights=False, **masks(kind, form))
        alone, nothing = layer(*given, need_weights=False, **masks(kind, form))
        mean = layer(*given, **masks(kind, form))[1]
        assert nothing is None
        loss = out.square().sum() + (weights * draw(*weights.shape, seed=9)).sum() + alone.sin().sum()
        wanted = [*dict.fromkeys(given), *layer.parameters()]
        results.append([out, weights, mean, alone, *torch.autograd.grad(loss, wanted)])
    for want, got in zip(*results, strict=True):
        assert got.shape == want.shape
        torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-11)
    assert torch.equal(results[1][0], results[1][3])  # asking for weights changes no bit of the output


@pytest.mark.parametrize("mode", ["train", "eval", "no_grad", "inference_mode"])
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("weights", [True, False])
def test_one_contract_for_every_path(mode: str, fast: bool, weights: bool) -> None:
    """A1.1, A1.4: an empty row gives 0, whatever switch stands how, and no gradient becomes NaN through it."""
    _, layer = pair(dropout=0.0)
    layer.train(mode == "train")
    x = draw(1, 4, M)
    band = torch.ones(4, 4).tril().bool() & torch.ones(4, 4).triu(-1).bool()
    padding = torch.tensor([[False, False, True, True]])
    context: Any = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}.get(mode, torch.enable_grad)
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with context():
            out, p = layer(x, x, x, key_padding_mask=padding, attn_mask=~band, need_weights=weights)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    torch.testing.assert_close(out[0, 3], layer.out_proj.bias.detach(), rtol=0, atol=0)
    assert p is None or bool((p[0, 3] == 0).all())
    if out.requires_grad:
        loss = out[:, :2].square().sum() + (0 if p is None else p[:, :2].square().sum())
        for gradient in torch.autograd.grad(loss, list(layer.parameters())):
            assert bool(torch.isfinite(gradient).all())


@pytest.mark.parametrize("weights", [True, False])
def test_a_row_without_keys_is_zero(weights: bool) -> None:
    """A1.2."""
    _, layer = pair()
    hidden = torch.zeros(T, T).bool()
    hidden[2] = True
    x = draw(B, T, M).requires_grad_()
    out, p = layer(x, x, x, attn_mask=hidden, need_weights=weights)
    assert bool((out[:, 2] == layer.out_proj.bias).all())
    assert p is None or bool((p[:, 2] == 0).all())
    assert bool(torch.isfinite(torch.autograd.grad(out.sum(), x)[0]).all())


@pytest.mark.parametrize("poison", [NAN, INF])
@pytest.mark.parametrize("form", ["bool", "-inf", "cells"])
@pytest.mark.parametrize("weights", [True, False])
def test_hidden_keys_and_values_are_never_read(poison: float, form: str, weights: bool) -> None:
    """A1.6: what stands in a padded key or value does not reach the result."""
    _, layer = pair()
    q, k, v = draw(B, T, M), draw(B, S, M, seed=1), draw(B, S, M, seed=2)
    hidden = torch.arange(S) >= 4
    said: dict[str, Any] = {
        "bool": {"key_padding_mask": hidden.expand(B, S)},
        "-inf": {"key_padding_mask": torch.zeros(B, S, dtype=F64).masked_fill(hidden, -INF)},
        "cells": {"attn_mask": hidden.expand(T, S)},
    }[form]
    clean = layer(q, k, v, need_weights=weights, **said)
    k[:, 4:], v[:, 5:] = poison, poison
    spoiled = layer(q, k, v, need_weights=weights, **said)
    torch.testing.assert_close(spoiled[0], clean[0], rtol=0, atol=1e-14)
    if weights:
        torch.testing.assert_close(spoiled[1], clean[1], rtol=0, atol=1e-14)
    loss = spoiled[0].sum() + (spoiled[1].square().sum() if weights else 0)
    assert bool(torch.isfinite(torch.autograd.grad(loss, layer.in_proj_weight)[0][:M]).all())  # through the queries


@pytest.mark.parametrize("lengths", [(5, 5), (1, 6), (6, 4)])
@pytest.mark.parametrize("extra", [{}, {"add_bias_kv": True, "add_zero_attn": True}])
@pytest.mark.parametrize("padded", [False, True])
def test_causal_is_enough_by_itself(lengths: tuple[int, int], extra: dict[str, bool], padded: bool) -> None:
    """A1.8, A1.11: torch's top-left rule; appended keys stay visible to every query."""
    theirs, ours = pair(**extra)
    t, s = lengths
    q, k = draw(B, t, M), draw(B, s, M, seed=1)
    written = torch.ones(t, s).triu(1).bool()
    padding = torch.zeros(B, s).bool()
    padding[0, s // 2 + 1 :] = True
    said = {"key_padding_mask": padding} if padded else {}
    want = theirs(q, k, k, attn_mask=written, **said)
    for got in (ours(q, k, k, is_causal=True, **said), ours(q, k, k, attn_mask=written, is_causal=True, **said)):
        torch.testing.assert_close(got[0], want[0], rtol=0, atol=1e-12)
        torch.testing.assert_close(got[1], want[1], rtol=0, atol=1e-12)
    if t == 1 and not extra:
        one = ours(q, k[:, :1], k[:, :1])[0]
        torch.testing.assert_close(ours(q, k, k, is_causal=True)[0], one, rtol=0, atol=1e-12)


def test_returned_weights_are_before_dropout_and_dropout_is_for_training() -> None:
    """A1.30, A1.31."""
    _, layer = pair(dropout=0.5)
    x = draw(B, 40, M)
    out, p = layer(x, x, x)
    torch.testing.assert_close(p.sum(-1), torch.ones(B, 40, dtype=F64))
    layer.eval()
    still, same = layer(x, x, x)
    torch.testing.assert_close(p, same, rtol=0, atol=1e-12)
    assert torch.equal(still, layer(x, x, x)[0])
    assert float((out - still).detach().abs().max()) > 0.05
    layer.train()
    torch.manual_seed(3)
    first = layer(x, x, x, need_weights=False)[0]
    torch.manual_seed(3)
    assert torch.equal(first, layer(x, x, x, need_weights=True)[0])


def test_dropout_of_everything_leaves_the_bias() -> None:
    theirs, ours = pair(dropout=1.0)
    x = draw(B, T, M)
    torch.testing.assert_close(ours(x, x, x)[0], theirs(x, x, x)[0])


def test_weights_of_each_head_carry_second_derivatives() -> None:
    """A3.46: one pattern a head where it is asked for; a loss on the pattern trains it."""
    theirs, ours = pair()
    found = []
    for layer in (theirs, ours):
        x = draw(1, T, M).requires_grad_()
        p = layer(x, x, x, average_attn_weights=False)[1]
        assert p.shape == (1, H, T, T)
        (first,) = torch.autograd.grad(p.square().sum(), x, create_graph=True)
        found.append([first, *torch.autograd.grad(first.square().sum(), x)])
    for want, got in zip(*found, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("grad", [True, False])
def test_without_weights_nothing_of_t_by_s_is_made(grad: bool) -> None:
    """A4.73: a pattern of 2 GiB is nowhere."""
    length = 16_384
    layer = MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(1, length, 8)
    padding = torch.arange(length)[None] >= 256
    largest = Largest()
    with torch.set_grad_enabled(grad), largest:
        layer(x, x, x, key_padding_mask=padding, need_weights=False)
    assert 0 < largest.numel <= length * 24


class Largest(torch.utils._python_dispatch.TorchDispatchMode):
    """The most numbers that any tensor made in a block holds."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for made in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(made, Tensor):
                self.numel = max(self.numel, made.untyped_storage().nbytes() // made.element_size())
        return out


# what the module is


def test_its_face_is_torchs() -> None:
    """Constructor, forward, parameters, attributes."""
    for name in ("__init__", "forward"):
        ours, theirs = (inspect.signature(getattr(kind, name)) for kind in (MultiheadAttention, nn.MultiheadAttention))
        assert [(p.name, p.default) for p in ours.parameters.values()] == [
            (p.name, p.default) for p in theirs.parameters.values()
        ]
    for options in OPTIONS.values():
        theirs, ours = pair(**options)
        assert {k: v.shape for k, v in theirs.state_dict().items()} == {
            k: v.shape for k, v in ours.state_dict().items()
        }
        hidden = {"_forward_pre_hooks", "_parameters", "_modules"}
        assert set(vars(theirs)) == set(vars(ours))
        plain = [k for k in vars(theirs) if k not in hidden and not isinstance(getattr(theirs, k), dict)]
        assert {k: getattr(theirs, k) for k in plain} == {k: getattr(ours, k) for k in plain}
        theirs.load_state_dict(ours.state_dict())
        assert isinstance(ours, nn.MultiheadAttention)


def test_fresh_weights_are_drawn_as_torch_draws_them() -> None:
    torch.manual_seed(5)
    theirs = nn.MultiheadAttention(M, H, add_bias_kv=True)
    torch.manual_seed(5)
    ours = MultiheadAttention(M, H, add_bias_kv=True)
    assert all(torch.equal(a, b) for a, b in zip(theirs.parameters(), ours.parameters(), strict=True))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copy", "pickle"])
def test_copies_compute_alike(duplicate: Any) -> None:
    _, layer = pair(add_bias_kv=True)
    x = draw(B, T, M)
    twin = duplicate(layer)
    assert type(twin) is MultiheadAttention
    assert torch.equal(twin(x, x, x)[0], layer(x, x, x)[0])
    twin.out_proj.weight.data.zero_()
    assert float(layer.out_proj.weight.detach().abs().sum()) > 0


def test_devices_and_dtypes_of_the_factory() -> None:
    layer = MultiheadAttention(8, 2, device="meta", dtype=torch.bfloat16, kdim=4, add_bias_kv=True)
    assert {(p.device.type, p.dtype) for p in layer.parameters()} == {("meta", torch.bfloat16)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_dtypes(dtype: torch.dtype) -> None:
    exact, _ = pair(add_bias_kv=True)
    layer = MultiheadAttention(M, H, add_bias_kv=True, batch_first=True, dtype=dtype)
    layer.load_state_dict(exact.state_dict())
    x = draw(B, T, M)
    out, p = layer(*[x.to(dtype)] * 3)
    assert out.dtype == p.dtype == dtype
    want = exact(x, x, x)
    near = {"rtol": 0, "atol": 20 * torch.finfo(dtype).eps}
    torch.testing.assert_close(out.double(), want[0], **near)
    torch.testing.assert_close(p.double(), want[1], **near)


def test_under_autocast() -> None:
    layer = MultiheadAttention(M, H, add_bias_kv=True, batch_first=True)
    x = draw(B, T, M, dtype=torch.float32)
    want = layer(x, x, x)
    with torch.autocast("cpu", torch.bfloat16):
        got = layer(x, x, x)
        theirs = torch_compat.restore(copy.deepcopy(layer))(x, x, x)
    assert got[0].dtype == theirs[0].dtype == torch.bfloat16
    torch.testing.assert_close(got[0].float(), want[0], rtol=0, atol=0.05)


def test_hooks_fire_on_the_module_and_its_output_projection() -> None:
    """A3.49, A3.50: out_proj is called, and what stands in its place is too."""
    _, layer = pair()
    layer.eval()
    fired: list[str] = []
    layer.register_forward_hook(lambda *_: fired.append("attention"))
    layer.out_proj.register_forward_hook(lambda *_: fired.append("out_proj"))
    x = draw(B, T, M)
    with torch.no_grad():
        layer(x, x, x)
        layer(x, x, x, need_weights=False)
    assert fired == ["out_proj", "attention"] * 2
    layer.out_proj = nn.Sequential(layer.out_proj, nn.Tanh())  # type: ignore[assignment]
    assert float(layer(x, x, x)[0].detach().abs().max()) <= 1


def test_compiled_whole() -> None:
    _, layer = pair()
    x = draw(B, T, M)
    padding = torch.zeros(B, T, dtype=F64)
    padding[0, 3:] = -INF
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    got = compiled(x, x, x, key_padding_mask=padding, need_weights=False, is_causal=True)[0]
    want = layer(x, x, x, key_padding_mask=padding, need_weights=False, is_causal=True)[0]
    torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("b", "t", "s"), [(0, 3, 3), (2, 0, 3), (2, 3, 0)])
@pytest.mark.parametrize("weights", [True, False])
def test_axes_of_length_zero(b: int, t: int, s: int, weights: bool) -> None:
    _, layer = pair()
    out, p = layer(draw(b, t, M), draw(b, s, M), draw(b, s, M), need_weights=weights)
    assert out.shape == (b, t, M)
    assert p is None or p.shape == (b, t, s)


# errors


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda m, x: m(x[..., :8], x, x), ShapeError, r"query has width 8; it is 12\. query \[B=3,T=5,M=8\]"),
        (lambda m, x: m(x, x[:2], x[:2]), ShapeError, "query has 3 batch rows, key has 2; .* batch_first is True"),
        (lambda m, x: m(x, x, x[:, :4]), ShapeError, "key and value differ in length or batch"),
        (lambda m, x: m(x[0], x, x), ShapeError, "query has 2 axes"),
        (lambda m, x: m(x[None], x[None], x[None]), ShapeError, "query has 4 axes"),
        (lambda m, x: m(x, x, x, attn_mask=torch.ones(4, 5).bool()), ShapeError, r"\[4, 5\]; it is \[5, 5\] or \[6, 5"),
        (lambda m, x: m(x, x, x, key_padding_mask=torch.ones(3, 4).bool()), ShapeError, r"\[3, 4\]; it is \[3, 5\]"),
        (lambda m, x: m(x, x, x, attn_mask=torch.ones(5, 5).int()), SpecError, "attn_mask is torch.int32; .* float"),
        (lambda m, x: m(x, x, x, key_padding_mask=torch.ones(3, 5).long()), SpecError, r"Write key_padding_mask\.bool"),
    ],
)  # fmt: skip
def test_errors_are_one_sentence(call: Any, error: type[HeadwiseError], text: str) -> None:
    _, layer = pair()
    with pytest.raises(error, match=text) as caught:
        call(layer, draw(B, T, M))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("MultiheadAttention: ")


@pytest.mark.parametrize("form", ["zeros and ones", "ones"])
def test_a_float_padding_mask_of_zeros_and_ones_is_ambiguous(form: str) -> None:
    """A1.16: torch adds 1 to the scores of what was meant to be hidden, or kept, and says nothing."""
    _, layer = pair()
    x = draw(B, T, M)
    padding = torch.ones(B, T)
    if form != "ones":
        padding[:, 3:] = 0
    with pytest.raises(SpecError, match=r"only 0 and 1; .* nobody can tell .* Pass mask.bool\(\) if 1 means hidden"):
        layer(x, x, x, key_padding_mask=padding)
    learned = padding.clone().requires_grad_()  # what is trained is added, whatever it starts from
    layer(x, x, x, key_padding_mask=learned)[0].sum().backward()
    assert learned.grad is not None


@pytest.mark.parametrize(("M_", "H_"), [(12, 5), (0, 1), (12, 0), (-4, 2)])
def test_widths_that_cannot_be(M_: int, H_: int) -> None:
    with pytest.raises(SpecError, match="cannot be cut into"):
        MultiheadAttention(M_, H_)


def test_two_bool_masks_give_no_warning_as_two_of_a_kind_give_none_in_torch() -> None:
    """A1.17: nor do two of different kinds."""
    _, layer = pair()
    x, form = draw(B, T, M), masks("self", "both")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x, x, x, **form)
        layer(x, x, x, key_padding_mask=form["key_padding_mask"], attn_mask=torch.zeros(T, T, dtype=F64))


def test_observing_one_layer() -> None:
    """A3.46: per-head answers, and the bits of the output as unwatched."""
    _, layer = pair(add_zero_attn=True)
    q, k = draw(B, T, M), draw(B, S, M, seed=1)
    seen = layer.attend(q, k, k, observe=[hw.Received()])
    out, p = layer(q, k, k, average_attn_weights=False)
    assert torch.equal(seen.out, out)
    torch.testing.assert_close(seen.seen["received"], p.sum(2), rtol=0, atol=1e-12)


def test_every_option_of_the_table_is_crossed() -> None:
    """The table of options reaches each argument of the constructor that changes numbers."""
    used = set(itertools.chain.from_iterable(OPTIONS.values()))
    assert used == {"bias", "add_bias_kv", "add_zero_attn", "kdim", "vdim", "batch_first"}


def test_nested_inputs_that_are_not_known() -> None:
    _, layer = pair()
    nested = torch.nested.nested_tensor([draw(3, M), draw(5, M)], layout=torch.jagged)
    with pytest.raises(UnsupportedError, match="nested"):
        layer(nested, nested, nested)
