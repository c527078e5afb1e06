"""What people who study heads suffer from (USER_CASES A7, A8), kept here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import headwise as hw
from headwise.errors import SpecError, UnsupportedError
from headwise.testing import within

pytest.importorskip("transformers", reason="transformers is not installed")
from zoo import Zoo

SIX = ("llama", "gpt2", "gpt_neox", "bert", "t5", "vit")


@pytest.fixture(scope="module")
def zoo() -> Zoo:
    return Zoo()


def without(zoo: Zoo, family: str, heads: dict[Any, list[int]]) -> Tensor:
    """The output of a model whose output projections read zeros of some heads."""
    model = zoo.model(family)
    for layer, which in heads.items():
        p = hw.models.projections.projections(model, layer)
        with torch.no_grad():
            p.o.matrix[:, p.o.rows[which].flatten()] = 0
    return zoo.result(model, zoo.batch(family))


def test_a_head_is_masked_by_the_library(zoo: Zoo) -> None:
    """A7.94: ablating a head is zeroing its columns of the output projection; transformers 5 ignores head_mask."""
    model, batch = zoo.model("llama"), zoo.batch("llama")
    with hw.ablate(model, {1: [2]}):
        ours = zoo.result(model, batch)
    within(ours, without(zoo, "llama", {1: [2]}), 2e-5, "logits")
    assert float((ours - zoo.result(model, batch)).abs().max()) > 1e-2


def test_a_pruned_model_is_saved_and_loaded(zoo: Zoo, tmp_path: Path) -> None:
    """A7.95: grouped heads too: pruned, saved, loaded, it has the logits of the ablated model."""
    heads = {0: [0, 1], 1: [3]}
    want = without(zoo, "llama", heads)
    model = hw.prune(zoo.model("llama"), heads)
    within(zoo.result(model, zoo.batch("llama")), want, 2e-5, "pruned logits")
    model.save_pretrained(tmp_path)
    loaded, _ = hw.load(tmp_path)
    within(zoo.result(loaded, zoo.batch("llama")), want, 2e-5, "reloaded logits")


def test_pruning_reshapes_the_linears(zoo: Zoo) -> None:
    """A7.96: half of the heads are half of the attention's weights and arithmetic, as torch counts it."""
    model, ids = zoo.model("bert"), zoo.batch("bert")["input_ids"]
    layer = model.encoder.layer[0].attention
    whole, before = linear_weights(layer), arithmetic(model, ids)
    hw.prune(model, {0: [0, 2], 1: [1, 3]})
    assert layer.self.query.weight.shape == (16, 32)
    assert linear_weights(layer) == whole // 2
    # What is left of the arithmetic: half of four products of 32 by 32, and all of the two of 32 by 48.
    assert arithmetic(model, ids) == before - 2 * (2 * 20 * 4 * 32 * 16)


def linear_weights(module: Any) -> int:
    return sum(p.numel() for p in module.parameters() if p.dim() == 2)


def arithmetic(model: Any, ids: Tensor) -> int:
    """Floating-point operations of the linear layers in one forward."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        hw.use(model)(input_ids=ids)
    return sum(counter.flop_counts["Global"][op] for op in (torch.ops.aten.addmm, torch.ops.aten.mm))


def test_probabilities_are_given_where_they_are_asked_for() -> None:
    """A8.100: rows 10 to 20 of 4,096 equal the dense softmax; the whole is refused, and it is said what to ask."""
    q, k = torch.randn(1, 8, 4096, 16), torch.randn(1, 8, 4096, 16)
    pattern = hw.Pattern(q, k, mask=hw.Causal())
    scores = (q[:, :, 10:20].double() @ k.double().mT / 4).masked_fill(
        torch.arange(4096) > torch.arange(10, 20)[:, None], -torch.inf
    )
    within(pattern[:, :, 10:20, :], scores.softmax(-1).float(), 1e-6, "rows")
    with pytest.raises(UnsupportedError, match="Ask for what you need instead"):
        pattern.to_dense()


def test_answers_are_small_at_any_length() -> None:
    """A8.101: a map, entropies and the last query's top keys of 32,768 tokens are less than 1 MB of JSON."""
    q, k = torch.randn(1, 2, 32_768, 8), torch.randn(1, 2, 32_768, 8)
    pattern = hw.Pattern(q, k, mask=hw.Causal())
    last = hw.Pattern(q[:, :, -1:], k, mask=hw.Causal()).top_keys(8)
    told = {
        "map": pattern.map(32, 32).tolist(),
        "entropy": pattern.entropy().mean(-1).tolist(),
        "top": [last.indices.tolist(), last.values.tolist()],
    }
    assert len(json.dumps(told)) < 1_000_000


def test_looking_needs_no_slow_path(zoo: Zoo) -> None:
    """A8.102: a model in use is watched with the same bits, by the kernels that run it unwatched."""
    model, batch = hw.use(zoo.model("llama")), zoo.batch("llama")
    plain = zoo.result(model, batch)
    with hw.observe(model, hw.Entropy(), hw.TopKeys(2)):
        assert torch.equal(zoo.result(model, batch), plain)


def test_row_entropy_and_largest_logit() -> None:
    """A8.103, A8.104: both of the forward pass, against float64; an empty row has entropy 0 and no logit."""
    q, k = torch.randn(1, 2, 7, 8), torch.randn(1, 2, 5, 8)
    got = hw.attend(q, k, k, mask=hw.Causal(), observe=[hw.Entropy(), hw.MaxLogit()])
    hidden = torch.arange(5) > (torch.arange(7) - 2)[:, None]
    scores = (q.double() @ k.double().mT / 8**0.5).masked_fill(hidden, -torch.inf)
    p = scores[:, :, 2:].softmax(-1)
    within(got.seen["entropy"][:, :, 2:], -(p * p.clamp(min=1e-300).log()).sum(-1).float(), 1e-5, "entropy")
    within(got.seen["max_logit"][:, :, 2:], scores[:, :, 2:].amax(-1).float(), 1e-5, "logits")
    assert bool((got.seen["entropy"][:, :, :2] == 0).all())
    assert bool((got.seen["max_logit"][:, :, :2] == -torch.inf).all())


def test_one_heads_pattern_on_demand(zoo: Zoo) -> None:
    """A8.105: a run without patterns, and then the pattern of one head of it."""
    model, batch = zoo.model("llama"), zoo.batch("llama")
    trace = hw.trace(model, **batch)
    with torch.no_grad():
        eager = model(**batch, output_attentions=True).attentions
    within(trace.pattern(1)[0, 2], eager[1][0, 2], 1e-5, "pattern")


@pytest.mark.parametrize("family", SIX)
def test_every_edit_acts_or_is_an_error(zoo: Zoo, family: str) -> None:
    """A8.107, A8.109: the same call in six architectures; each head of each layer that is zeroed is missed."""
    model, batch = zoo.model(family), zoo.batch(family)
    plain = zoo.result(model, batch)
    for site in hw.sites(model):
        for head in range(4):
            with hw.ablate(model, {site: [head]}):
                assert float((zoo.result(model, batch) - plain).abs().max()) > 1e-5, (site, head)
    with pytest.raises(SpecError, match="did nothing"), hw.ablate(model, {0: [1]}):
        pass


def test_what_is_read_can_be_written(zoo: Zoo) -> None:
    """A8.110: a head's own output put back changes nothing, whatever was looked at before, and in which order."""
    model, batch = hw.use(zoo.model("llama")), zoo.batch("llama")
    plain = zoo.result(model, batch)
    trace = hw.trace(model, **batch)
    trace.pattern(1).to_dense(), trace.pattern(0).entropy()
    for layer in (1, 0):
        with hw.patch(model, {layer: [0, 3]}, trace):
            assert torch.equal(zoo.result(model, batch), plain)


def test_heads_sum_to_the_output(zoo: Zoo) -> None:
    """A8.111: what each head adds, and the bias, is what the attention's output projection gives, in three families."""
    for family in ("llama", "gpt2", "bert"):
        model, batch = zoo.model(family), zoo.batch(family)
        for site in hw.sites(model):
            p = hw.models.projections.projections(model, site)
            given: list[Tensor] = []
            handle = p.o.linear.register_forward_hook(lambda _m, _a, out, given=given: given.append(out.detach()))
            pattern = hw.trace(model, **batch).pattern(site)
            handle.remove()
            z = hw.attention(pattern.q, pattern.k, pattern.v, **pattern.options)  # type: ignore[arg-type]
            total = sum(z[:, head] @ p.o.weight(head).T for head in range(p.heads))
            total = total if p.o_bias is None else total + p.o_bias
            within(total.detach(), given[0], 1e-5, site)


def test_padding_changes_no_real_token(zoo: Zoo) -> None:
    """A8.113: none to four tokens of padding on the left: the same logits, watched."""
    model = hw.use(zoo.model("llama"))
    ids = zoo.batch("llama")["input_ids"][:1]
    with torch.no_grad():
        want = model(input_ids=ids).logits
    for pads in range(5):
        padded = torch.cat([torch.zeros(1, pads, dtype=ids.dtype), ids], 1)
        mask = (torch.arange(padded.shape[1]) >= pads).long()[None]
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        with torch.no_grad(), hw.observe(model, hw.Entropy()):
            got = model(input_ids=padded, attention_mask=mask, position_ids=positions).logits[:, pads:]
        within(got, want, 1e-4, f"{pads} pads")


def test_no_model_waits_for_a_port(zoo: Zoo) -> None:
    """A8.114: tiny random models of classes that nothing here names are watched and ablated like any other."""
    for family in ("cohere", "olmo2", "stablelm", "siglip", "esm"):
        model, batch = zoo.model(family), zoo.batch(family)
        with hw.observe(model, hw.Entropy()) as seen, hw.ablate(model, {0: [1]}):
            zoo.result(model, batch)
        assert seen["entropy"].shape[2] == 4


def test_a_module_that_runs_twice_is_seen_twice(zoo: Zoo) -> None:
    """A8.115: layers that share their weights have a name a run."""
    model = zoo.model("albert")
    with hw.observe(model, hw.Entropy()) as seen:
        zoo.result(model, zoo.batch("albert"))
    first = hw.sites(model)[0]
    assert seen.sites == [first, f"{first}#1"]
    assert not torch.equal(seen[first]["entropy"], seen[f"{first}#1"]["entropy"])
