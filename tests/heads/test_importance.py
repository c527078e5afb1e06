"""Importance against finite differences and loops; gates and curves on models whose heads' worth is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.errors import HeadwiseError, ShapeError, SpecError, UnsupportedError
from headwise.heads import pruning_curve, train_gates
from headwise.models.projections import projections


def own_loss(output: Any, batch: dict[str, Tensor]) -> Tensor:
    """Cross entropy in the logits' own dtype; that of transformers is float32 whatever the model is."""
    return -output.logits.log_softmax(-1).gather(-1, batch["labels"][..., None]).mean()


def gated_loss(
    model: Any, batch: dict[str, Tensor], layer: int, head: int, gate: float, loss_of: Any = lambda o, _: o.loss
) -> float:
    """The loss with one head's columns of the output projection scaled by a gate."""
    p = projections(model, layer)
    with torch.no_grad():
        whole = p.o.matrix.clone()
        p.o.matrix[:, p.o.rows[head]] *= gate
        loss = float(loss_of(model(**batch), batch))
        p.o.matrix.copy_(whole)
    return loss


def batch_of(zoo: Any, family: str, rows: slice = slice(None), padding: str = "none") -> dict[str, Tensor]:
    """A batch with labels, those of padding left out."""
    batch = {name: value[rows] for name, value in zoo.batch(family, padding).items()}
    ids = batch.get("decoder_input_ids", batch.get("input_ids"))
    labels = ids.roll(-1, 1) if "decoder_input_ids" in batch else ids
    if "attention_mask" in batch and "decoder_input_ids" not in batch:
        labels = labels.masked_fill(batch["attention_mask"] == 0, -100)
    return {**batch, "labels": labels}


@pytest.mark.parametrize("family", ["llama", "gpt2", "gpt_neox", "t5", "bart", "whisper"])
def test_the_gate_gradient_is_the_slope_of_the_loss(zoo: Any, family: str) -> None:
    model = zoo.model(family).double()
    one = {k: v.double() if v.is_floating_point() else v for k, v in batch_of(zoo, family, slice(0, 1)).items()}
    ours = hw.importance(model, one, own_loss)
    assert ours.shape == (len(hw.sites(model)), 4)
    for layer in range(len(ours)):
        for head in (0, 3):
            slope = abs(slope_of(lambda gate: gated_loss(model, one, layer, head, gate, own_loss)))  # noqa: B023
            assert float(ours[layer, head]) == pytest.approx(slope, rel=1e-3, abs=1e-4)


def slope_of(f: Callable[[float], float]) -> float:
    """The derivative at 1. Norms and eager's softmax are float32 in a float64 model too, so steps are not small, and
    what is of their square is taken out (Richardson)."""
    wide, narrow = ((f(1 + step) - f(1 - step)) / (2 * step) for step in (2e-3, 1e-3))
    return (4 * narrow - wide) / 3


def test_examples_count_apart_whatever_batch_they_share(zoo: Any) -> None:
    """E_x |dL(x)| is no |dE_x L(x)|: two examples whose gradients cancel are both important."""
    model = zoo.model("llama")
    both = batch_of(zoo, "llama")
    apart = [batch_of(zoo, "llama", slice(n, n + 1)) for n in range(2)]
    torch.testing.assert_close(hw.importance(model, both), hw.importance(model, apart), rtol=1e-4, atol=1e-7)
    mean = torch.stack([hw.importance(model, one) for one in apart]).mean(0)
    torch.testing.assert_close(hw.importance(model, both), mean, rtol=1e-4, atol=1e-7)
    squares = torch.stack([hw.importance(model, one) ** 2 for one in apart]).mean(0)
    torch.testing.assert_close(hw.importance(model, both, method="taylor"), squares, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("padding", ["left", "right"])
def test_a_language_model_needs_no_labels_and_padding_is_none(zoo: Any, padding: str) -> None:
    model, padded = zoo.model("llama"), zoo.batch("llama", padding)
    row = {name: value[1:] for name, value in padded.items()}
    bare = row["input_ids"][:, 4:] if padding == "left" else row["input_ids"][:, :6]
    torch.testing.assert_close(hw.importance(model, row), hw.importance(model, bare), rtol=1e-4, atol=1e-6)
    ids = zoo.batch("llama")["input_ids"]
    assert torch.equal(hw.importance(model, ids), hw.importance(model, {"input_ids": ids, "labels": ids}))


def test_leaving_one_out_is_the_loss_without_it(zoo: Any) -> None:
    model, batch = zoo.model("gpt2"), batch_of(zoo, "gpt2")
    ours = hw.importance(model, batch, method="leave_one_out")
    whole = gated_loss(model, batch, 0, 0, 1.0)
    for layer in range(2):
        for head in range(4):
            wanted = gated_loss(model, batch, layer, head, 0.0) - whole
            assert float(ours[layer, head]) == pytest.approx(wanted, abs=2e-5)
    assert float(ours.abs().max()) > 0.01


def test_a_loss_of_the_users_own_weighs_a_model_that_has_none(zoo: Any) -> None:
    model, batch = zoo.model("bert"), zoo.batch("bert")
    ours = hw.importance(model, batch, lambda output, _: output.last_hidden_state[:, 0, 0].mean())
    assert ours.shape == (2, 4)
    assert bool((ours > 0).all())
    normal = hw.importance(model, batch, lambda output, _: output.last_hidden_state[:, 0, 0].mean(), normalise=True)
    torch.testing.assert_close(normal, ours / ours.norm(dim=1, keepdim=True))


def test_neither_weights_nor_gradients_nor_modes_are_touched(zoo: Any) -> None:
    model, batch = zoo.model("llama").train(), batch_of(zoo, "llama")
    model.model.layers[0].eval()
    before = zoo.state(model)
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    for method in ("gradient", "leave_one_out"):
        hw.importance(model, batch, method=method)
    train_gates(model, batch, steps=2)
    pruning_curve(model, batch, shares=(0.5,))
    assert zoo.state(model) == before
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_frozen_weights_and_inference_mode_are_no_obstacle(zoo: Any) -> None:
    model, batch = zoo.model("llama"), batch_of(zoo, "llama")
    wanted = hw.importance(model, batch)
    model.requires_grad_(False)
    with torch.no_grad():
        assert torch.equal(hw.importance(model, batch), wanted)
    with torch.inference_mode():
        assert torch.equal(hw.importance(model, batch), wanted)


def test_a_layer_that_runs_twice_has_one_gate_a_head(zoo: Any) -> None:
    model, batch = zoo.model("albert").double(), zoo.batch("albert")
    ours = hw.importance(model, batch, lambda output, _: output.last_hidden_state[0, 0, 0])
    linear = model.encoder.albert_layer_groups[0].albert_layers[0].attention.dense
    found = []
    for gate in (1 + 1e-4, 1 - 1e-4):
        with torch.no_grad():
            linear.weight[:, 8:16] *= gate
            found.append(float(model(**batch).last_hidden_state[0, 0, 0]))
            linear.weight[:, 8:16] /= gate
    slope = abs(found[0] - found[1]) / 2e-4
    assert float(ours[0, 1]) == pytest.approx(slope, rel=1e-4)  # rows 1 and 0: a mean of two, one of them 0, twice


def worthless(zoo: Any) -> tuple[Any, dict[str, Tensor]]:
    """A model in which heads 1 and 2 of layer 0 do nothing and all others matter; and its batch."""
    model, batch = zoo.model("llama"), batch_of(zoo, "llama")
    with torch.no_grad():
        p = projections(model, 0)
        p.o.matrix[:, p.o.rows[[1, 2]].flatten()] = 0
        logits = model(**{k: v for k, v in batch.items() if k != "labels"}).logits
    # what the model predicts is the truth, so every head that does something is worth something
    batch["labels"] = torch.nn.functional.pad(logits.argmax(-1)[:, :-1], (1, 0), value=-100)
    return model, batch


def test_gates_close_where_nothing_is_lost(zoo: Any) -> None:
    model, batch = worthless(zoo)
    gates = train_gates(model, batch, penalty=0.02, steps=150)
    assert {1, 2} <= set(gates.closed()["model.layers.0.self_attn"])
    assert len(gates.losses) == 150
    kept = sum(4 - len(heads) for heads in gates.closed().values())
    assert kept >= 2
    cheap = train_gates(model, batch, penalty=1e-6, steps=20)
    assert cheap.closed() == {}
    again = train_gates(model, batch, penalty=1e-6, steps=20)
    assert torch.equal(cheap.open, again.open)
    assert not torch.equal(cheap.open, train_gates(model, batch, penalty=1e-6, steps=20, seed=1).open)


def test_a_curve_takes_the_least_important_heads_first(zoo: Any) -> None:
    model, batch = worthless(zoo)
    curve = pruning_curve(model, batch, shares=(0.25, 0.5, 0.75))
    assert [point.removed for point in curve.points] == [0, 2, 4, 6]
    assert curve.points[1].heads == {"model.layers.0.self_attn": [1, 2]}
    assert curve.points[1].loss == pytest.approx(curve.points[0].loss, rel=1e-5)
    assert curve.points[3].loss > curve.points[0].loss + 0.1
    assert curve.keeping(0.5).removed == 4
    assert curve.keeping(0.7).removed == 2
    with hw.ablate(model, curve.points[2].heads), torch.no_grad():
        assert float(model(**batch).loss) == pytest.approx(curve.points[2].loss, rel=1e-6)


def test_an_iterative_curve_weighs_what_is_left(zoo: Any) -> None:
    model, batch = worthless(zoo)
    curve = pruning_curve(model, batch, shares=(0.25, 0.375, 0.5), iterative=True)
    gone: dict[str, list[int]] = {}
    names = hw.sites(model)
    for before, after in zip(curve.points[1:], curve.points[2:], strict=False):
        with hw.ablate(model, before.heads):
            left = hw.importance(model, batch, normalise=True)
        for site, heads in before.heads.items():
            left[names.index(site), heads] = torch.inf
        lowest = int(left.argmin())
        gone = {site: [h for h in heads if h not in before.heads.get(site, [])] for site, heads in after.heads.items()}
        assert {site: heads for site, heads in gone.items() if heads} == {names[lowest // 4]: [lowest % 4]}


@pytest.mark.parametrize(("share", "removed"), [(0.2, 1), (0.3, 2), (0.45, 3), (0.625, 5), (0.95, 7)])
def test_a_share_between_two_heads_takes_no_more_than_it_says(zoo: Any, share: float, removed: int) -> None:
    model, batch = worthless(zoo)
    curve = pruning_curve(model, batch, shares=(share,), scores=torch.arange(8.0).view(2, 4))
    assert curve.points[1].removed == removed
    assert curve.keeping(1 - share) is curve.points[1]


def test_heads_are_compared_over_layers_as_they_are_or_within_them(zoo: Any) -> None:
    model, batch = worthless(zoo)
    with torch.no_grad():
        projections(model, 1).o.matrix.mul_(1e-3)  # a layer that hardly matters
    raw = pruning_curve(model, batch, shares=(0.75,), normalise=False)
    assert raw.points[1].heads["model.layers.1.self_attn"] == [0, 1, 2, 3]
    assert pruning_curve(model, batch, shares=(0.75,)).points[1].heads != raw.points[1].heads


def test_scores_of_the_users_own_order_a_curve(zoo: Any) -> None:
    model, batch = worthless(zoo)
    scores = torch.arange(8.0).flip(0).view(2, 4)
    curve = pruning_curve(model, batch, shares=(0.25,), scores=scores)
    assert curve.points[1].heads == {"model.layers.1.self_attn": [2, 3]}


BAD: dict[str, tuple[Callable[[Any, Any], Any], type[HeadwiseError], str]] = {
    "method": (lambda m, b: hw.importance(m, b, method="magic"), SpecError, "method is 'magic'"),
    "no batch": (lambda m, _: hw.importance(m, None), SpecError, "batches is NoneType"),
    "batch of text": (lambda m, _: hw.importance(m, ["text"]), SpecError, "a batch of batches is a str"),
    "no gradient": (
        lambda m, b: hw.importance(m, b, lambda o, _: o.logits.detach().mean()), SpecError, "the loss has no gradient",
    ),
    "not of the heads": (
        lambda m, b: hw.importance(m, b, lambda _o, _b: torch.ones((), requires_grad=True)), SpecError, "no gradient",
    ),
    "no one number": (lambda m, b: hw.importance(m, b, lambda o, _: o.logits), SpecError, "the loss is [2, 10, 64]"),
    "a float": (lambda m, b: hw.importance(m, b, lambda *_: 0.5), SpecError, "the loss is float"),
    "gates": (
        lambda m, b: train_gates(m, b, lambda o, _: o.logits.detach().mean()), SpecError, "train_gates: the loss has",
    ),
    "penalty": (lambda m, b: train_gates(m, b, penalty=0.0), SpecError, "penalty is 0.0"),
    "shares": (lambda m, b: pruning_curve(m, b, shares=(0.5, 0.2)), SpecError, "shares are [0.5, 0.2]"),
    "all": (lambda m, b: pruning_curve(m, b, shares=(0.5, 1.0)), SpecError, "each above 0 and below 1"),
    "both": (lambda m, b: pruning_curve(m, b, iterative=True, scores=torch.ones(2, 4)), SpecError, "iterative=True"),
    "scores": (lambda m, b: pruning_curve(m, b, scores=torch.ones(3, 4)), ShapeError, "scores do not fit the model"),
    "scores of too few heads": (
        lambda m, b: pruning_curve(m, b, scores=torch.ones(2, 3)), ShapeError, "they are finite float [L=2,H=4]",
    ),
    "scores of too many heads": (
        lambda m, b: pruning_curve(m, b, scores=torch.ones(2, 6)), ShapeError, "NaN where a layer has no such head",
    ),
    "scores that are no tensor": (lambda m, b: pruning_curve(m, b, scores=[[1.0] * 4] * 2), ShapeError, "list"),
    "one share": (lambda m, b: pruning_curve(m, b, shares=0.5), SpecError, "shares are 0.5"),
    "half a step": (lambda m, b: train_gates(m, b, steps=2.5), SpecError, "steps is 2.5; it is a whole number"),
    "a penalty of text": (lambda m, b: train_gates(m, b, penalty="x"), SpecError, "penalty is 'x'"),
    "one token": (lambda m, b: hw.importance(m, b["input_ids"][:, :1]), SpecError, "no token that follows another"),
    "nothing in a batch": (lambda m, _: hw.importance(m, {}), SpecError, "a batch has no input_ids but nothing"),
    "lists": (lambda m, _: hw.importance(m, {"input_ids": [[1, 2]]}), SpecError, "of a batch of batches are a list"),
    "no model": (lambda _m, b: hw.importance(torch.nn.Linear(2, 2), b), UnsupportedError, "interface"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence_and_changes_nothing(zoo: Any, name: str) -> None:
    make, kind, told = BAD[name]
    model, batch = zoo.model("llama"), zoo.batch("llama")
    before = zoo.state(model)
    with pytest.raises(kind) as error:
        make(model, batch)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert zoo.state(model) == before


def test_a_model_without_a_loss_is_told_what_to_give(zoo: Any) -> None:
    with pytest.raises(SpecError, match="BertModel gives no loss on this batch"):
        hw.importance(zoo.model("bert"), zoo.batch("bert"))
