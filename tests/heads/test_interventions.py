"""Ablations, knocked-out edges and patches against models whose forward is taken apart by hooks and eager patterns."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.errors import HeadwiseError, ShapeError, SpecError, UnsupportedError
from headwise.models.projections import projections

FAMILIES = (
    "llama",
    "mistral",
    "qwen3",
    "gemma2",
    "gpt2",
    "gpt_neox",
    "bert",
    "distilbert",
    "t5",
    "bart",
    "whisper",
    "vit",
)
CAUSAL = ("llama", "gpt2", "gpt_neox")
TOLERANCE = 2e-5


def difference(ours: Tensor, other: Tensor) -> float:
    """The largest difference as a part of the largest entry."""
    assert ours.shape == other.shape
    assert bool(ours.isfinite().all())
    return float((ours - other).abs().max() / other.abs().max())


def first_and_last(model: Any) -> dict[str, list[int]]:
    """Two heads of the first site and one of the last."""
    names = hw.sites(model)
    return {names[0]: [1, 3], names[-1]: [0]}


def hooked(model: Any, heads: dict[str, list[int]], change: Callable[[str, int, Tensor], Tensor]) -> list[Any]:
    """Hooks on the output projections: what goes into head h's columns, [..., E], is replaced by ``change``."""
    handles = []
    for site, which in heads.items():
        p = projections(model, site)
        rows = p.o.rows

        def before(_: Any, args: tuple[Tensor], site: str = site, which: list[int] = which, rows: Tensor = rows) -> Any:
            z = args[0].clone()
            for head in which:
                z[..., rows[head]] = change(site, head, z[..., rows[head]])
            return (z,)

        handles.append(p.o.linear.register_forward_pre_hook(before))
    return handles


def outputs(model: Any, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """What each site's output projection is given in an eager run, [B, T, H * E]."""
    found: dict[str, Tensor] = {}
    handles = []
    for site in hw.sites(model):
        linear = projections(model, site).o.linear
        handles.append(linear.register_forward_pre_hook(lambda _, args, site=site: found.__setitem__(site, args[0])))
    with torch.no_grad():
        model(**batch)
    for handle in handles:
        handle.remove()
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_zero_is_zero_before_the_output_projection(zoo: Any, family: str) -> None:
    model, batch = zoo.model(family), zoo.batch(family)
    heads = first_and_last(model)
    plain = zoo.result(model, batch)
    handles = hooked(model, heads, lambda _site, _head, z: torch.zeros_like(z))
    wanted = zoo.result(model, batch)
    for handle in handles:
        handle.remove()
    before = zoo.state(model)
    with hw.ablate(model, heads) as edits:
        ours = zoo.result(model, batch)
    assert difference(ours, wanted) < TOLERANCE
    assert difference(plain, wanted) > 1e-3  # the edit shows
    assert list(edits.backends) == list(heads)
    assert zoo.state(model) == before
    assert torch.equal(zoo.result(model, batch), plain)


@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("family", ["llama", "bert", "t5"])
def test_mean_is_over_the_real_tokens_of_all_batches(zoo: Any, family: str, padding: str) -> None:
    model, batch = zoo.model(family), zoo.batch(family)
    reference = [zoo.batch(family, padding), zoo.batch(family, "none", length=7)]
    site = hw.sites(model)[0]
    totals = []
    for one in reference:
        real = one.get("attention_mask", torch.ones_like(one["input_ids"])).bool()
        totals.append(outputs(model, one)[site][real])
    rows = projections(model, site).o.rows
    mean = torch.cat(totals).double().mean(0).float()
    handles = hooked(model, {site: [2]}, lambda _site, head, z: mean[rows[head]].expand_as(z))
    wanted = zoo.result(model, batch)
    for handle in handles:
        handle.remove()
    with hw.ablate(model, {0: [2]}, how="mean", reference=reference):
        ours = zoo.result(model, batch)
    assert difference(ours, wanted) < TOLERANCE
    assert difference(zoo.result(model, batch), wanted) > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_resampled_outputs_come_from_the_same_place(zoo: Any, family: str) -> None:
    model, batch = zoo.model(family), zoo.batch(family)
    other = {name: value.flip(0) if value.is_floating_point() else value.flip(1) for name, value in batch.items()}
    heads = first_and_last(model)
    there = outputs(model, other)
    rows = {site: projections(model, site).o.rows for site in heads}
    handles = hooked(model, heads, lambda site, head, _: there[site][..., rows[site][head]])
    wanted = zoo.result(model, batch)
    for handle in handles:
        handle.remove()
    with hw.ablate(model, heads, how="resample", reference=other):
        ours = zoo.result(model, batch)
    with hw.patch(model, heads, hw.trace(model, **other)):
        patched = zoo.result(model, batch)
    assert difference(ours, wanted) < TOLERANCE
    assert difference(patched, wanted) < TOLERANCE
    assert difference(zoo.result(model, batch), wanted) > 1e-3


@pytest.mark.parametrize("how", ["zero", "mean", "resample"])
@pytest.mark.parametrize("family", CAUSAL)
def test_steps_over_a_cache_are_edited_like_a_whole_forward(zoo: Any, family: str, how: str) -> None:
    model = zoo.model(family)
    ids = zoo.batch(family)["input_ids"]
    other = ids.flip(1)
    reference = None if how == "zero" else other
    with torch.no_grad(), hw.ablate(model, {0: [1], 1: [2, 3]}, how=how, reference=reference):
        whole = model(input_ids=ids, use_cache=False).logits
        past = model(input_ids=ids[:, :6], use_cache=True)
        steps = [past.logits]
        for at in range(6, ids.shape[1]):
            past = model(input_ids=ids[:, at : at + 1], cache=past.cache, use_cache=True)
            steps.append(past.logits)
    assert difference(torch.cat(steps, 1), whole) < TOLERANCE


@pytest.mark.parametrize("family", ["llama", "gpt2", "bert"])
def test_a_pattern_without_an_edge_is_the_softmax_of_the_rest(zoo: Any, family: str) -> None:
    model, batch = zoo.model(family).double(), zoo.batch(family)
    plain = hw.trace(model, **batch).pattern(0)
    k = plain.k.repeat_interleave(plain.shape[1] // plain.k.shape[1], 1)
    scores = plain.q @ k.mT / plain.q.shape[-1] ** 0.5
    hidden = plain.to_dense() == 0
    edges = [(4, 0), (4, 2), (9, 9)]
    for i, j in edges:
        hidden[:, [1, 3], i, j] = True
    wanted = scores.masked_fill(hidden, -torch.inf).softmax(-1)
    with hw.knock_out(model, {0: [3, 1]}, edges) as edits:
        ours = hw.trace(model, **batch).pattern(0).to_dense()
    torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-12)
    assert float((plain.to_dense() - wanted).abs().max()) > 0.01
    assert set(edits.backends.values()) == {"blocked"}


def test_edges_are_positions_in_steps_over_a_cache(zoo: Any) -> None:
    model = zoo.model("llama")
    ids = zoo.batch("llama")["input_ids"]
    with torch.no_grad(), hw.knock_out(model, {1: [0, 1, 2, 3]}, torch.tensor([[8, 0], [8, 3], [9, 8], [2, 1]])):
        whole = model(input_ids=ids, use_cache=False).logits
        past = model(input_ids=ids[:, :6], use_cache=True)
        steps = [past.logits]
        for at in range(6, 10):
            past = model(input_ids=ids[:, at : at + 1], cache=past.cache, use_cache=True)
            steps.append(past.logits)
    with torch.no_grad():
        plain = model(input_ids=ids).logits
    assert difference(torch.cat(steps, 1), whole) < TOLERANCE
    assert difference(plain[:, 8], whole[:, 8]) > 1e-3
    assert difference(plain[:, 7], whole[:, 7]) < TOLERANCE


def test_a_query_that_loses_every_key_gives_nothing(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    with hw.knock_out(model, {0: [2]}, [(0, 0)]), hw.observe(model, hw.LogSumExp(), sites=[0]) as seen:
        zoo.result(model, batch)
    assert bool((seen["log_sum_exp"][0, :, 2, 0] == -torch.inf).all())
    assert bool((seen["log_sum_exp"][0, :, 1, 0] > -torch.inf).all())


@pytest.mark.parametrize("family", FAMILIES)
def test_frozen_patterns_stay_while_what_flows_through_them_changes(zoo: Any, family: str) -> None:
    model, batch = zoo.model(family), zoo.batch(family)
    clean = hw.trace(model, **batch)
    last = hw.sites(model)[-1]
    with hw.ablate(model, {0: [1, 3]}):
        moved = hw.trace(model, **batch)
    with hw.freeze(model, clean), hw.ablate(model, {0: [1, 3]}):
        kept = hw.trace(model, **batch)
        ours = zoo.result(model, batch)
    with hw.ablate(model, {0: [1, 3]}):
        free = zoo.result(model, batch)
    for site in clean.sites:
        assert torch.equal(kept.pattern(site).to_dense(), clean.pattern(site).to_dense())
    assert float((moved.pattern(last).to_dense() - clean.pattern(last).to_dense()).abs().max()) > 1e-3
    assert difference(ours, free) > 1e-4
    assert difference(kept.pattern(last).v, clean.pattern(last).v) > 1e-3  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ["llama", "gpt2", "bert", "t5"])
def test_patterns_of_single_heads_are_those_of_the_other_run(zoo: Any, family: str) -> None:
    model, batch = zoo.model(family), zoo.batch(family)
    other = {name: value.flip(1) for name, value in batch.items()}
    here, there = hw.trace(model, **batch).pattern(0).to_dense(), hw.trace(model, **other)
    with hw.patch(model, {0: [2]}, there, what="pattern"):
        mixed = hw.trace(model, **batch).pattern(0).to_dense()
    torch.testing.assert_close(mixed[:, 2], there.pattern(0)[:, 2], rtol=0, atol=1e-6)
    torch.testing.assert_close(mixed[:, [0, 1, 3]], here[:, [0, 1, 3]], rtol=0, atol=1e-6)
    assert float((mixed[:, 2] - here[:, 2]).abs().max()) > 0.01


def test_single_heads_patterns_are_refused_between_different_masks(zoo: Any) -> None:
    model = zoo.model("llama")
    there = hw.trace(model, **zoo.batch("llama", "left"))
    with (
        pytest.raises(SpecError, match="traced under another width, mask, position or rule"),
        hw.patch(model, {0: [2]}, there, what="pattern"),
    ):
        zoo.result(model, zoo.batch("llama"))
    with hw.patch(model, {0: [0, 1, 2, 3]}, there, what="pattern"):
        zoo.result(model, zoo.batch("llama"))


def test_blocks_nest_and_close_in_any_order(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    with hw.ablate(model, {0: [0, 1]}):
        both = zoo.result(model, batch)
    one, two = hw.ablate(model, {0: [0]}), hw.ablate(model, {0: [1]})
    one.__enter__()
    two.__enter__()
    assert torch.equal(zoo.result(model, batch), both)
    one.__exit__(None, None, None)
    with hw.ablate(model, {0: [1]}):
        alone = zoo.result(model, batch)
    assert torch.equal(zoo.result(model, batch), alone)
    two.__exit__(None, None, None)
    assert not zoo.in_use(model)


def test_an_edit_belongs_to_the_model_whichever_thread_runs_it(zoo: Any) -> None:
    model, other, batch = zoo.model("llama"), zoo.model("llama"), zoo.batch("llama")
    found: list[Tensor] = []
    plain = zoo.result(hw.use(other), batch)
    with hw.ablate(model, {0: [0]}):
        thread = threading.Thread(target=lambda: found.append(zoo.result(model, batch)))
        thread.start()
        thread.join()
        here = zoo.result(model, batch)
        assert torch.equal(zoo.result(other, batch), plain)
        assert torch.equal(zoo.result(copy.deepcopy(model), batch), plain)
    assert torch.equal(found[0], here)


def test_gradients_flow_around_a_head_that_is_gone_and_through_checkpoints(zoo: Any) -> None:
    batch = zoo.batch("llama")
    found = []
    for again in (False, True):
        model = zoo.model("llama").train()
        if again:
            model.activation_checkpointing_enable({"use_reentrant": False})
        with hw.ablate(model, {0: [0, 1]}):
            model(**batch, labels=batch["input_ids"], use_cache=False).loss.backward()
        p = projections(model, 0)
        assert float(p.k.linear.weight.grad[p.k.rows[0]].abs().max()) == 0  # only heads 0 and 1 read key head 0
        assert float(p.k.linear.weight.grad[p.k.rows[1]].abs().max()) > 0
        found.append(p.k.linear.weight.grad)
    torch.testing.assert_close(*found)


def test_a_compiled_model_is_edited_too(zoo: Any) -> None:
    model, batch = hw.use(zoo.model("llama")), zoo.batch("llama")
    compiled = torch.compile(model, backend="eager")
    plain = zoo.result(compiled, batch)
    with hw.ablate(model, {0: [0, 1]}):
        ours = zoo.result(compiled, batch)
        wanted = zoo.result(model, batch)
    assert difference(ours, wanted) < TOLERANCE
    assert difference(plain, wanted) > 1e-3
    assert difference(zoo.result(compiled, batch), plain) == 0


BAD: dict[str, tuple[Callable[[Any, Any], Any], type[HeadwiseError], str]] = {
    "no such layer": (lambda m, _: hw.ablate(m, {7: [0]}), SpecError, "ablate: there is no site 7"),
    "no such head": (lambda m, _: hw.ablate(m, {0: [4]}), SpecError, "has no head 4; it has 4 heads, 0 to 3"),
    "negative head": (lambda m, _: hw.ablate(m, {0: [-1]}), SpecError, "has no head -1"),
    "no heads": (lambda m, _: hw.ablate(m, {}), SpecError, "no head was chosen"),
    "no list": (lambda m, _: hw.ablate(m, {0: 1}), SpecError, "they are a list of numbers"),
    "no mapping": (lambda m, _: hw.ablate(m, [0]), SpecError, "it is {layer: [head, ...]}"),
    "layer twice": (lambda m, _: hw.ablate(m, {0: [1], "model.layers.0.self_attn": [2]}), SpecError, "named twice"),
    "half a head": (lambda m, _: hw.ablate(m, {0: [0.5]}), SpecError, "a list of whole numbers"),
    "how": (lambda m, _: hw.ablate(m, {0: [0]}, how="median"), SpecError, "how is 'median'"),
    "mean of nothing": (lambda m, _: hw.ablate(m, {0: [0]}, how="mean"), SpecError, "runs on a reference"),
    "zero of something": (lambda m, b: hw.ablate(m, {0: [0]}, reference=b), SpecError, "zero needs no reference"),
    "text": (lambda m, _: hw.ablate(m, {0: [0]}, how="mean", reference="text"), SpecError, "reference is str"),
    "empty": (lambda m, _: hw.ablate(m, {0: [0]}, how="mean", reference=[]), SpecError, "reference is empty"),
    "two": (lambda m, b: hw.ablate(m, {0: [0]}, how="resample", reference=[b, b]), SpecError, "takes one"),
    "edges": (lambda m, _: hw.knock_out(m, {0: [0]}, [1, 2]), SpecError, "they are pairs (query, key)"),
    "no edges": (lambda m, _: hw.knock_out(m, {0: [0]}, []), SpecError, "at least one"),
    "edges of floats": (lambda m, _: hw.knock_out(m, {0: [0]}, torch.ones(1, 2)), SpecError, "they are pairs"),
    "negative edge": (lambda m, _: hw.knock_out(m, {0: [0]}, [(-1, 0)]), SpecError, "an edge has a position of -1"),
    "no trace": (lambda m, b: hw.patch(m, {0: [0]}, b), SpecError, "source is a dict"),
    "what": (lambda m, b: hw.patch(m, {0: [0]}, hw.trace(m, **b), what="all"), SpecError, "what is 'all'"),
    "freeze": (lambda m, _: hw.freeze(m, 3), SpecError, "freeze: source is a int"),
    "no transformers model": (lambda _, __: hw.ablate(torch.nn.Linear(2, 2), {0: [0]}), UnsupportedError, "interface"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_a_sentence_and_changes_nothing(zoo: Any, name: str) -> None:
    make, kind, told = BAD[name]
    model, batch = zoo.model("llama"), zoo.batch("llama")
    before = zoo.state(model)
    with pytest.raises(kind) as error, make(model, batch):
        zoo.result(model, batch)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert zoo.state(model) == before


def test_an_edit_that_does_not_act_is_an_error(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    before = zoo.state(model)
    with pytest.raises(SpecError, match="did not run while the block was open"), hw.ablate(model, {0: [1]}):
        pass
    with pytest.raises(SpecError, match=r"could query 2 of model.layers.0.self_attn see key 5"):  # noqa: SIM117
        with hw.knock_out(model, {0: [1]}, [(5, 2), (2, 5)]):
            zoo.result(model, batch)
    with pytest.raises(SpecError, match=r"could query 50 of .* see key 0, and 1 more edges"):  # noqa: SIM117
        with hw.knock_out(model, {0: [1]}, [(5, 2), (50, 0), (51, 0)]):
            zoo.result(model, batch)
    encoder = zoo.model("t5")
    with pytest.raises(SpecError, match=r"decoder.* did not run"), hw.ablate(encoder, {2: [1]}):
        encoder.get_encoder()(input_ids=zoo.batch("t5")["input_ids"])
    assert zoo.state(model) == before


def test_an_error_inside_of_a_block_is_the_one_that_is_told(zoo: Any) -> None:
    model = zoo.model("llama")
    before = zoo.state(model)
    with pytest.raises(KeyError), hw.ablate(model, {0: [1]}):
        raise KeyError
    assert zoo.state(model) == before


def test_outputs_that_do_not_fit_are_refused(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    short = zoo.batch("llama", length=6)
    with pytest.raises(ShapeError, match=r"resampled for model.layers.0.self_attn do not fit the run"):  # noqa: SIM117
        with hw.ablate(model, {0: [1]}, how="resample", reference=short):
            zoo.result(model, batch)
    three = torch.cat([batch["input_ids"], batch["input_ids"][:1]])
    with pytest.raises(ShapeError, match="its batch has one row"):  # noqa: SIM117
        with hw.ablate(model, {0: [1]}, how="resample", reference=three):
            zoo.result(model, batch)
    with pytest.raises(ShapeError, match="traced in another shape"), hw.freeze(model, hw.trace(model, **short)):
        zoo.result(model, batch)
    bart = zoo.model("bart")
    cross = next(site for site in hw.sites(bart) if "encoder_attn" in site)
    with pytest.raises(ShapeError, match="placed by their row"):  # noqa: SIM117
        with hw.ablate(bart, {cross: [1]}, how="resample", reference=zoo.batch("bart", length=12)):
            zoo.result(bart, zoo.batch("bart"))


def test_a_layer_that_runs_more_than_once_has_no_one_output(zoo: Any) -> None:
    model, batch = zoo.model("albert"), zoo.batch("albert")
    plain = zoo.result(model, batch)
    with hw.ablate(model, {0: [1]}):
        assert difference(zoo.result(model, batch), plain) > 1e-3
    with pytest.raises(UnsupportedError, match="runs more than once"):  # noqa: SIM117
        with hw.ablate(model, {0: [1]}, how="mean", reference=batch):
            pass
    with pytest.raises(SpecError, match="runs more than once"), hw.freeze(model, hw.trace(model, **batch)):
        pass


def test_a_nan_of_an_ablated_head_is_gone(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    p = projections(model, 0)
    with torch.no_grad():
        p.v.linear.weight[p.v.rows[1]] = torch.nan
    with hw.ablate(model, {0: [2, 3]}):
        assert bool(zoo.result(model, batch).isfinite().all())


def test_heads_are_not_pruned_while_they_are_edited(zoo: Any) -> None:
    """After pruning, head 2 of the open block would be another one."""
    model, batch = zoo.model("llama"), zoo.batch("llama")
    weights = [parameter.shape for parameter in model.parameters()]
    with hw.ablate(model, {0: [2]}):
        with pytest.raises(SpecError, match="edited by an open block"):
            hw.prune(model, {0: [0]})
        zoo.result(model, batch)
        hw.prune(model, {1: [0, 1]})  # another layer's heads keep their numbers
    assert [parameter.shape for parameter in model.parameters()] != weights
    hw.prune(model, {0: [0]})
