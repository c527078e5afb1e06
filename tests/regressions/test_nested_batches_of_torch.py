"""torch's encoder nests padded batches in inference, and the drop-in module read these otherwise than torch.

A batch of nothing but padding ended in "to_padded_tensor: at least one constituent tensor should have non-zero numel",
an empty nested input in an IndexError; rows of padding held probabilities where torch has 0, and whoever observed got
another shape than for the same batch in training.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.nn import torch_compat
from headwise.nn.torch_compat import MultiheadAttention

M, H, T = 8, 2, 5
LENGTHS = {
    "ragged": (5, 2, 3),
    "one empty": (5, 0, 3),
    "short": (3, 2, 3),
    "no padding": (5, 5, 5),
    "all padding": (0, 0, 0),
}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The PyTorch API of nested tensors")
        yield


def encoder(norm: bool = False) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(M, H, 16, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(M) if norm else None)


def hidden(lengths: tuple[int, ...]) -> Tensor:
    return torch.arange(T) >= torch.tensor(lengths)[:, None]


def text() -> Tensor:
    return torch.randn(3, T, M, generator=torch.Generator().manual_seed(1))


def nested(lengths: tuple[int, ...]) -> Tensor:
    return torch.nested.nested_tensor([row[:n].clone() for row, n in zip(text(), lengths, strict=False)])


@pytest.mark.parametrize("grad", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", [name for name in LENGTHS if name != "all padding"])
def test_an_encoder_is_torchs(name: str, training: bool, grad: bool) -> None:
    theirs = encoder(norm=True).train(training)
    ours = torch_compat.replace(copy.deepcopy(theirs))
    mask = hidden(LENGTHS[name])
    with torch.set_grad_enabled(grad):
        got, want = ours(text(), src_key_padding_mask=mask), theirs(text(), src_key_padding_mask=mask)
    assert bool(torch.isfinite(got).all())
    real = ~mask if training or grad else torch.ones(3, T).bool()  # there torch has NaN at rows without a key
    torch.testing.assert_close(got[real], want[real], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("norm", [False, True], ids=["bare", "normed"])
def test_a_batch_that_is_all_padding(norm: bool) -> None:
    theirs = encoder(norm)
    ours, mask = torch_compat.replace(copy.deepcopy(theirs)), hidden(LENGTHS["all padding"])
    for mode in ("train", "eval"):
        assert bool(torch.isfinite(ours.train(mode == "train")(text(), src_key_padding_mask=mask)).all())
    with torch.no_grad():
        with pytest.raises(RuntimeError, match="non-zero numel"):
            theirs.eval()(text(), src_key_padding_mask=mask)
        found = ours(text(), src_key_padding_mask=mask)
        # What torch makes of padding that is beside other sequences.
        beside = torch.cat([text(), text()[:1]]), torch.cat([mask, torch.zeros(1, T).bool()])
        torch.testing.assert_close(found, theirs(beside[0], src_key_padding_mask=beside[1])[:3], rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["average", "heads", "none"])
@pytest.mark.parametrize("lengths", [(3, 5), (2, 2), (0, 3)])
def test_nested_inputs_are_torchs(lengths: tuple[int, ...], kind: str) -> None:
    torch.manual_seed(0)
    theirs = nn.MultiheadAttention(M, H, batch_first=True).eval()
    ours = torch_compat.replace(copy.deepcopy(theirs))
    options = {"need_weights": kind != "none", "average_attn_weights": kind != "heads"}
    x = nested(lengths)
    with torch.no_grad():
        (want, want_weights), (got, weights) = theirs(x, x, x, **options), ours(x, x, x, **options)
    for row, other in zip(got.unbind(), want.unbind(), strict=True):
        torch.testing.assert_close(row, other, rtol=1e-5, atol=1e-6)
    if kind == "none":
        assert weights is None
    else:
        torch.testing.assert_close(weights, want_weights, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["train", "grad"])
def test_nested_inputs_where_torch_has_none(mode: str) -> None:
    """In training and with gradients torch refuses; here each sequence is what it is alone."""
    layer = MultiheadAttention(M, H, batch_first=True).train(mode == "train")
    x = nested((3, 0, 5))
    out, weights = layer(x, x, x)
    for row, got, cells in zip(x.unbind(), out.unbind(), weights, strict=True):
        if not len(row):
            assert got.shape == (0, M)
            assert not cells.any()
            continue
        want, want_weights = layer(row[None], row[None], row[None])
        torch.testing.assert_close(got, want[0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(cells[: len(row), : len(row)], want_weights[0], rtol=1e-5, atol=1e-6)
        assert not cells[len(row) :].any()
        assert not cells[:, len(row) :].any()
    sum(row.square().sum() for row in out.unbind()).backward()
    assert bool(torch.isfinite(layer.in_proj_weight.grad).all())


def test_nested_inputs_that_hold_nothing() -> None:
    layer = MultiheadAttention(M, H, batch_first=True)
    x = nested((0, 0))
    for average, shape in ((True, (2, 0, 0)), (False, (2, H, 0, 0))):
        out, weights = layer(x, x, x, average_attn_weights=average)
        assert [row.shape for row in out.unbind()] == [(0, M), (0, M)]
        assert weights.shape == shape
    none = torch.nested.nested_tensor([])
    with pytest.raises(hw.ShapeError, match="a nested input holds no sequence"):
        layer(none, none, none)
    with pytest.raises(hw.UnsupportedError, match="attend takes padded inputs"):
        layer.attend(x, x, x)
    with pytest.raises(hw.ShapeError, match="a key has one value"):
        layer(nested((2, 3)), nested((2, 3)), nested((3, 3)))


@pytest.mark.parametrize("name", LENGTHS)
def test_what_is_observed_has_the_shape_of_the_batch(name: str) -> None:
    model, mask = torch_compat.replace(encoder()), hidden(LENGTHS[name])
    answers: dict[str, Any] = {}
    for mode in ("train", "eval"):
        model.train(mode == "train")
        with torch.no_grad(), torch_compat.observe(model, hw.Entropy(), hw.Received()) as answers[mode]:
            model(text(), src_key_padding_mask=mask)
    assert list(answers["eval"]) == list(answers["train"]) == ["layers.0.self_attn", "layers.1.self_attn"]
    for site, seen in answers["eval"].items():
        for observer, answer in seen.items():
            other = answers["train"][site][observer]
            assert answer.shape == other.shape == (3, H, T), (site, observer)
            assert not answer.transpose(1, 2)[mask].any()
        real = ~mask
        torch.testing.assert_close(
            seen["entropy"].transpose(1, 2)[real],
            answers["train"][site]["entropy"].transpose(1, 2)[real],
            rtol=1e-5,
            atol=1e-5,
        )


def test_an_encoder_goes_back_to_torchs() -> None:
    model = torch_compat.replace(nn.Transformer(M, H, 1, 1, 16, batch_first=True))
    assert type(model.encoder) is not nn.TransformerEncoder
    assert isinstance(pickle.loads(pickle.dumps(model.encoder)), nn.TransformerEncoder)
    assert repr(model.encoder).startswith("TransformerEncoder(")
    torch_compat.restore(model)
    assert type(model.encoder) is nn.TransformerEncoder
    assert "_was_torchs" not in vars(model.encoder)


def test_an_error_inside_an_encoder_stays_one() -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError("of a hook")

    model = torch_compat.replace(encoder()).eval()
    model.layers[1].linear2.register_forward_hook(fail)
    with torch.no_grad(), pytest.raises(RuntimeError, match="of a hook"):
        model(text(), src_key_padding_mask=hidden(LENGTHS["all padding"]))
