"""What users of attention libraries suffer from in masks (USER_CASES A1), each as a promise that is kept here."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.testing import Call, define, within

F64 = torch.float64
BACKENDS = ["reference", "blocked", None]
every_backend = pytest.mark.parametrize("backend", BACKENDS, ids=["reference", "blocked", "chosen"])
NAN, INF = float("nan"), float("inf")


def operands(B: int = 1, H: int = 2, T: int = 4, S: int = 4, D: int = 8, seed: int = 0, dtype: Any = F64) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(B, H, n, D, generator=generator, dtype=F64).to(dtype) for n in (T, S, S))


@pytest.mark.parametrize("observe", [[], [hw.Entropy(), hw.TopKeys(2), hw.Crop(slice(0, 4), slice(0, 4))]])
@every_backend
def test_a_row_that_band_and_padding_leave_empty_poisons_nothing(backend: Any, observe: list[Any]) -> None:
    """A1.1, A1.25: a loss on the other rows has finite gradients, through the shared projections too."""
    x = torch.randn(1, 4, 8, dtype=F64)
    linear = nn.Linear(8, 24, dtype=F64)
    q, k, v = (part.unflatten(-1, (2, 4)).transpose(1, 2) for part in linear(x).chunk(3, -1))
    band = hw.Window(1, 0) & hw.Padding(torch.tensor([[True, True, False, False]]))
    got = hw.attend(q, k, v, mask=band, backend=backend, observe=observe)
    assert bool((got.out[:, :, 3] == 0).all())
    got.out[:, :, :2].square().sum().backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in linear.parameters() if p.grad is not None)
    assert float(linear.weight.grad.abs().sum()) > 0  # type: ignore[union-attr]


@every_backend
def test_an_empty_row_is_zero_everywhere(backend: Any) -> None:
    """A1.2: output, weights and gradients 0, log-sum-exp -inf."""
    q, k, v = (x.requires_grad_() for x in operands(H=2))
    keep = torch.ones(4, 4, dtype=torch.bool)
    keep[2] = False
    got = hw.attend(q, k, v, mask=hw.Dense(keep), backend=backend, observe=[hw.Entropy(), hw.MaxLogit()])
    assert bool((got.out[:, :, 2] == 0).all())
    assert bool((got.pattern[:, :, 2] == 0).all())
    assert bool((got.lse[:, :, 2] == -INF).all())
    assert bool((got.seen["entropy"][:, :, 2] == 0).all())
    assert bool((got.seen["max_logit"][:, :, 2] == -INF).all())
    (got.out.sum() + got.out.square().sum()).backward()
    for leaf in (q, k, v):
        assert bool(torch.isfinite(leaf.grad).all())
    assert bool((q.grad[:, :, 2] == 0).all())


@pytest.mark.parametrize("mode", ["train", "eval", "eval and no_grad", "inference_mode"])
@pytest.mark.parametrize("attend", [False, True])
def test_one_contract_for_every_path_of_a_module(mode: str, attend: bool) -> None:
    """A1.4: an empty row is the same number whether or not gradients, training or weights are asked for."""
    torch.manual_seed(0)
    layer = hw.MultiHeadAttention(8, 2, out_bias=False).double()
    x = torch.randn(2, 5, 8, dtype=F64)
    mask = hw.Causal() & hw.Padding(torch.tensor([[False, True, True, True, True], [True] * 5]))
    want = layer(x, mask=mask).detach()
    layer.train(mode == "train")
    context: Any = {"eval and no_grad": torch.no_grad, "inference_mode": torch.inference_mode}.get(
        mode, torch.enable_grad
    )
    with context():
        got = layer.attend(x, mask=mask).out if attend else layer(x, mask=mask)
    within(got, want, 1e-14, mode)
    assert bool((got[0, 0] == 0).all())


@pytest.mark.parametrize("poison", [NAN, INF, -INF])
@pytest.mark.parametrize("where", ["k", "v", "both"])
@pytest.mark.parametrize(
    "hide",
    [
        hw.Padding(torch.tensor([4])),
        hw.Dense(torch.arange(6) < 4),
        hw.Window(None, 0) & hw.Prefix(4),
        hw.Rule(lambda b, h, i, j: j < 4),
        hw.Documents(torch.tensor([0, 0, 0, 0, 1, 1])) & hw.Dense((torch.arange(6) < 4)[:, None]),
    ],
    ids=["padding", "dense", "window and prefix", "rule", "documents"],
)
@every_backend
def test_what_is_hidden_is_never_read(backend: Any, hide: hw.spec.Mask, where: str, poison: float) -> None:
    """A1.6: NaN and inf behind a mask change neither output nor gradient nor answers, by one bit."""
    q, k, v = operands(T=6, S=6)
    bad_k, bad_v = k.clone(), v.clone()
    if where != "v":
        bad_k[:, :, 4:] = poison
    if where != "k":
        bad_v[:, :, 4:] = poison
    results = []
    for keys, values in ((k, v), (bad_k, bad_v)):
        leaves = [x.clone().requires_grad_() for x in (q, keys, values)]
        # The clean call is asked of a backend that also takes the spoiled one: bits are compared on one backend.
        name = backend or "blocked"
        got = hw.attend(
            *leaves,
            mask=hide,
            backend=name,
            observe=[hw.Received(), hw.TopKeys(3), hw.Contribution(torch.eye(16, dtype=F64))],
        )
        (got.out.square().sum()).backward()
        seen = got.seen
        results.append(
            [got.out, got.lse, seen["received"], *seen["top_keys"], *seen["contribution"], *(x.grad for x in leaves)]
        )
    for clean, spoiled in zip(*results, strict=True):
        assert torch.equal(clean, spoiled)
    chosen = hw.attention(q, bad_k, bad_v, mask=hide, backend=backend)
    within(chosen, results[0][0], 1e-13, "out")


@every_backend
def test_alignment_is_said_and_defaults_to_last_with_last(backend: Any) -> None:
    """A1.8: one new query on six keys sees all of them, unless the start is asked for."""
    q, k, v = operands(T=1, S=6)
    within(hw.attention(q, k, v, mask=hw.Causal(), backend=backend), hw.attention(q, k, v), 1e-14, "end")
    within(hw.attention(q, k, v, mask=hw.Causal(align="start"), backend=backend), v[:, :, :1], 1e-14, "start")


@pytest.mark.parametrize("backend", ["reference", "blocked", "sdpa"])
def test_one_alignment_on_every_backend(backend: str) -> None:
    """A1.9: two queries on five keys against the mask written out; sdpa may refuse, with its reason."""
    q, k, v = operands(T=2, S=5)
    written = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]).bool()
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=written)
    if backend == "sdpa":
        with pytest.raises(hw.UnsupportedError, match="triangle"):
            hw.attention(q, k, v, mask=hw.Causal(), backend=backend)
        q, want, k, v = q[:, :, :1], want[:, :, :1], k[:, :, :4], v[:, :, :4]
    within(hw.attention(q, k, v, mask=hw.Causal(), backend=backend), want, 1e-13, backend)


def test_one_flag_is_enough() -> None:
    """A1.11: a module that is causal needs no mask beside it, and a mask beside it is no contradiction."""
    torch.manual_seed(0)
    layer = hw.MultiHeadAttention(8, 2, mask=hw.Causal()).double()
    bare = hw.MultiHeadAttention(8, 2).double()
    bare.load_state_dict(layer.state_dict())
    x = torch.randn(2, 5, 8, dtype=F64)
    written = hw.Dense(torch.ones(5, 5).tril().bool())
    within(layer(x), bare(x, mask=written), 1e-13, "explicit")
    within(layer(x, mask=written), bare(x, mask=written), 1e-13, "both")


@pytest.mark.parametrize("shape", [(5, 5), (2, 5, 5), (1, 2, 5, 5), (3, 2, 5, 5), (3, 1, 1, 5)])
def test_the_same_mask_shapes_in_training_and_out_of_it(shape: tuple[int, ...]) -> None:
    """A1.13: a mask for each head beside padding."""
    torch.manual_seed(0)
    layer = hw.MultiHeadAttention(8, 2).double()
    x = torch.randn(3, 5, 8, dtype=F64)
    mask = hw.Dense(torch.rand(shape) < 0.6) & hw.Padding(torch.tensor([5, 3, 4]))
    assert torch.equal(layer.train()(x, mask=mask), layer.eval()(x, mask=mask))


def test_a_padded_encoder_says_the_same_in_eval() -> None:
    """A1.14: three layers with residuals; and it is not near constant along the tokens."""
    torch.manual_seed(0)
    layers = nn.ModuleList(hw.MultiHeadAttention(8, 2, dropout=0.0) for _ in range(3)).double()
    x, padding = torch.randn(2, 6, 8, dtype=F64), hw.Padding(torch.tensor([6, 4]))

    def encode() -> Tensor:
        y = x
        for layer in layers:
            y = y + layer(y, mask=padding)
        return y

    train = layers.train() and encode()
    layers.eval()
    with torch.no_grad():
        evaluated = encode()
    within(evaluated, train, 1e-14, "eval")
    assert float(evaluated[1, :4].std(0).min()) > 0.1


@pytest.mark.parametrize(
    "make",
    [
        lambda: hw.Padding(torch.tensor([[0.0, 1.0]])),
        lambda: hw.Dense(torch.tensor([[0.0, -INF]])),
        lambda: hw.Blocks(torch.ones(1, 1), 2),
        lambda: hw.Padding(torch.tensor([2]), queries=torch.tensor([[0.0, 1.0]])),
        lambda: hw.Dense(torch.tensor([[0, 1]])),
    ],
)
def test_a_mask_of_numbers_is_refused_as_ambiguous(make: Any) -> None:
    """A1.16: nobody can tell whether 1.0 means keep, hide or add one."""
    with pytest.raises(hw.SpecError, match=r"ambiguous.*True = may attend.*\.bool\(\).*hw\.Bias"):
        make()


@every_backend
def test_two_bool_masks_warn_of_nothing(backend: Any) -> None:
    """A1.17."""
    q, k, v = operands()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mask = hw.Dense(torch.ones(4, 4).tril().bool()) & hw.Padding(torch.tensor([[True, True, True, False]]))
        hw.attention(q, k, v, mask=mask, backend=backend)


def test_true_means_may_attend_and_the_name_says_so() -> None:
    """A1.18: the argument is named keep wherever a bool tensor is taken, and a causal mask has a name, not a tensor."""
    for kind in (hw.Dense, hw.Blocks, hw.Padding):
        assert next(iter(inspect.signature(kind).parameters)).startswith("keep")
    q, k, v = operands()
    right = torch.ones(4, 4).tril().bool()
    wrong = hw.attend(q, k, v, mask=hw.Dense(~right)).pattern
    assert bool((wrong[0, 0, 0, 1:] > 0).all())  # the leak of a mask in the other sense is seen in its first row
    within(hw.Pattern(q, k, mask=hw.Dense(right)).to_dense(), hw.Pattern(q, k, mask=hw.Causal()).to_dense(), 0, "p")


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@every_backend
def test_a_window_shows_the_same_count_everywhere(backend: Any, width: int) -> None:
    """A1.20: a causal window of W keys, the query's own among them, is 1, 2, ..., W, W, W."""
    q, k, v = operands(T=7, S=7)
    got = hw.attend(q, k, v, mask=hw.Causal() & hw.Window(width - 1, 0), backend=backend, observe=[hw.TopKeys(7)])
    counts = (got.seen["top_keys"].indices >= 0).sum(-1)[0, 0]
    assert counts.tolist() == [min(i + 1, width) for i in range(7)]
    assert (got.pattern[0, 0] > 0).sum(-1).tolist() == counts.tolist()


@pytest.mark.parametrize("mask", [hw.Padding(5), hw.Padding(torch.tensor([5])), hw.Causal()])
@every_backend
def test_a_static_buffer_is_read_as_far_as_it_is_filled(backend: Any, mask: hw.spec.Mask) -> None:
    """A1.24: 16 slots, 5 filled, the rest whatever was there; its length or the queries' place is said."""
    q, k, v = operands(T=5, S=16)
    k[:, :, 5:], v[:, :, 5:] = NAN, 1e30
    start = 0
    got = hw.attention(q, k, v, mask=mask, q_start=start, backend=backend)
    want = hw.attention(q, k[:, :, :5], v[:, :, :5], mask=mask, q_start=start, backend="reference")
    within(got, want, 1e-13, "out")


@pytest.mark.parametrize("hidden", ["mask", "bias"])
@every_backend
def test_a_soft_cap_uncovers_nothing(backend: Any, hidden: str) -> None:
    """A1.27: the cap of -inf would be a finite number; hidden cells weigh exactly 0 in either order of writing."""
    q, k, v = operands()
    keep = torch.tensor([True, True, False, True])
    if hidden == "mask":
        options: dict[str, Any] = {"mask": hw.Dense(keep), "scores": (hw.SoftCap(1.0),)}
    else:
        bias = torch.zeros(4, dtype=F64).masked_fill(~keep, -INF)
        options = {"scores": (hw.Bias(bias), hw.SoftCap(1.0))}
    got = hw.attend(q, k, v, **options, backend=backend)
    assert bool((got.pattern[..., 2] == 0).all())
    capped = torch.tanh(q @ k.mT * 8**-0.5)
    within(got.pattern.to_dense(), capped.masked_fill(~keep, -INF).softmax(-1), 1e-14, "p")
    within(got.out, capped.masked_fill(~keep, -INF).softmax(-1) @ v, 1e-13, "out")


def test_which_backend_ran_and_why() -> None:
    """A1.29: explain says what is chosen and why each other one is not; a named backend never falls back."""
    q, k, v = operands()
    said = hw.explain(q, k, v, mask=hw.Causal(), scores=(hw.SoftCap(3.0),), observe=[hw.Entropy()])
    assert said.chosen == "blocked"
    assert "SoftCap" in said.reasons["sdpa"]
    assert said.reasons["blocked"] == said.reasons["reference"] == "can run"
    for line in ("blocked computes the output", "SoftCap", "tiles:", "entropy"):
        assert line in str(said)
    with pytest.raises(hw.UnsupportedError, match="SoftCap"):
        hw.attention(q, k, v, scores=(hw.SoftCap(3.0),), backend="sdpa")


def test_the_mask_is_counted_in_what_explain_says() -> None:
    """A1.29: a mask that is honoured leaves fewer visible cells and skips tiles."""
    q, k, v = operands(T=4096, S=4096, D=2, dtype=torch.float32)
    full, narrow = hw.explain(q, k, v), hw.explain(q, k, v, mask=hw.Causal() & hw.Window(15, 0))
    assert full.visible == 4096**2
    assert narrow.visible == 16 * 4096 - 120
    assert narrow.tiles[0] < narrow.tiles[1] / 3


def test_dropout_is_explicit_and_a_module_passes_none_in_eval() -> None:
    """A1.30."""
    torch.manual_seed(0)
    layer = hw.MultiHeadAttention(8, 2, dropout=0.5).double()
    x = torch.randn(1, 6, 8, dtype=F64)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))
    q, k, v = operands()
    assert torch.equal(hw.attention(q, k, v), hw.attention(q, k, v))


@every_backend
def test_what_is_observed_is_the_softmax_before_dropout(backend: Any) -> None:
    """A1.31: rows sum to 1 while half of the cells are dropped from the output."""
    q, k, v = operands(T=6, S=9)
    got = hw.attend(q, k, v, dropout=0.5, backend=backend, observe=[hw.Crop(slice(0, 6), slice(0, 9)), hw.Received()])
    plain = hw.attend(q, k, v)
    within(got.pattern.to_dense().sum(-1), torch.ones(1, 2, 6, dtype=F64), 1e-13, "sums")
    within(got.seen["crop"], plain.pattern.to_dense(), 1e-13, "p")
    assert float((got.out - plain.out).abs().max()) > 0.05


def test_the_written_definition_agrees_with_torch() -> None:
    """The definition that all of this is held to is itself held to torch's op, where both speak."""
    q, k, v = operands(B=2, H=3, T=5, S=5)
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    within(define(Call(q, k, v, {"mask": hw.Causal()})).out, want, 1e-13, "out")
