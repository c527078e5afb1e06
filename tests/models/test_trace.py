"""One run of a model, kept or given out as weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import headwise as hw
from headwise.errors import SpecError, UnsupportedError
from headwise.models import register, tracing


def test_a_trace_holds_every_pattern(zoo: Any, family: str) -> None:
    model, batch = zoo.model(family), zoo.batch(family)
    before = zoo.state(model)
    plain = zoo.result(model, batch)
    trace = hw.trace(model, **batch)
    assert zoo.state(model) == before
    found = trace.output.logits if "logits" in trace.output else trace.output.last_hidden_state
    torch.testing.assert_close(found.flatten(0, 1), plain, rtol=1e-4, atol=1e-4 * float(plain.abs().max()))
    for site in trace.sites:
        p = trace.pattern(site)
        assert len(p.shape) == 4
        assert float(p.to_dense().sum(-1).max()) < 1 + 1e-5


def test_a_trace_by_name_index_and_run(zoo: Any) -> None:
    model, batch = zoo.model("albert"), zoo.batch("albert")
    trace = hw.trace(model, **batch)
    (site,) = hw.sites(model)
    assert trace.sites == [site, f"{site}#1"]
    assert torch.equal(trace.pattern(0).to_dense(), trace.pattern(site).to_dense())  # an index is the site's
    assert torch.equal(trace.pattern(-1).to_dense(), trace.pattern(site).to_dense())
    assert not torch.equal(trace.pattern(0).to_dense(), trace.pattern(f"{site}#1").to_dense())
    assert repr(trace) == "Trace(1 site: encoder.albert_layer_groups.0.albert_layers.0.attention; 2 runs of them)"
    for layer in (1, f"{site}#2", True, 0.5):
        with pytest.raises(SpecError, match=rf"trace: there is no site {layer!r}; the model has 1 sites"):
            trace.pattern(layer)


def test_a_trace_equals_eagers_weights_and_holds_no_square(zoo: Any) -> None:
    model, batch = zoo.model("gemma2"), zoo.batch("gemma2")
    with torch.no_grad():
        weights = model(**batch, output_attentions=True).attentions
    trace = hw.trace(model, **batch)
    for layer, p in enumerate(weights):
        torch.testing.assert_close(trace.pattern(layer).to_dense(), p, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(trace.pattern(layer)[1, 2, 3:5, 0:4], p[1, 2, 3:5, 0:4], rtol=1e-4, atol=1e-5)


def test_a_model_whose_forward_runs_no_attention(zoo: Any) -> None:
    model = zoo.model("bart")
    encoder_outputs = model.get_encoder()(zoo.batch("bart")["input_ids"])
    decoder = zoo.batch("bart")["decoder_input_ids"]
    trace = hw.trace(model, encoder_outputs=encoder_outputs, decoder_input_ids=decoder)
    assert all("decoder" in site for site in trace.sites)


def test_inputs_that_say_something_of_each_token_are_kept(zoo: Any) -> None:
    model, batch = zoo.model("bart"), zoo.batch("bart", "left")
    trace = hw.trace(model, **batch)
    assert set(trace.inputs) == {"input_ids", "attention_mask", "decoder_input_ids"}
    for name, value in trace.inputs.items():
        assert torch.equal(value, batch[name])
        assert value.data_ptr() != batch[name].data_ptr()
    model = zoo.model("llama")
    ids = zoo.batch("llama")["input_ids"]
    assert torch.equal(hw.trace(model, ids).inputs["input_ids"], ids)
    square = torch.ones(2, 1, 10, 10, dtype=torch.bool)
    assert set(hw.trace(model, ids, attention_mask=square).inputs) == {"input_ids"}  # no T x S tensor is kept
    embeds = torch.randn(1, 5, 32)
    assert hw.trace(model, inputs_embeds=embeds).inputs == {}


def test_tracing_beside_other_watchers_and_once(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    before = zoo.state(model)
    alone = hw.trace(model, **batch)
    with torch.no_grad(), hw.observe(model, hw.Entropy()) as seen, tracing(model) as trace:
        with hw.observe(model, hw.Received()) as other:
            logits = model(**batch).logits
        assert trace.sites == hw.sites(model)
    assert zoo.state(model) == before
    assert trace.output is None and torch.equal(logits, alone.output.logits)
    for n in range(2):
        assert torch.equal(trace.pattern(n).to_dense(), alone.pattern(n).to_dense())
        torch.testing.assert_close(seen["entropy"][n], trace.pattern(n).entropy())
        torch.testing.assert_close(other["received"][n], trace.pattern(n).received())
    with torch.no_grad():
        model(**batch)  # nobody watches any more
    assert len(trace.sites) == 2


def test_a_block_in_which_the_model_raises(zoo: Any) -> None:
    model = zoo.model("llama")
    before = zoo.state(model)
    with pytest.raises(IndexError), tracing(model):
        model(torch.full((1, 3), 10_000))
    assert zoo.state(model) == before


# output_attentions


def test_output_attentions_gives_eagers_weights(zoo: Any, family: str, padding: str) -> None:
    model, batch = zoo.model(family), zoo.batch(family, padding)
    names = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    with torch.no_grad():
        eager = model(**batch, output_attentions=True)
        ours = hw.use(model)(**batch, output_attentions=True)
        assert model(**batch).get("attentions") is None
    checked = 0
    for name in names:
        assert (eager.get(name) is None) == (ours.get(name) is None), name
        padded = torch.zeros(2, 1, 1, 1, dtype=torch.bool)
        if "attention_mask" in batch and name not in ("cross_attentions", "decoder_attentions"):
            padded = batch["attention_mask"][:, None, :, None] == 0
        # Padding attends to what its mask row says. Where that is nothing, eager alone spreads over hidden keys, and
        # goes on with another state at that position.
        differs = torch.zeros_like(padded)
        for theirs, ours_ in zip(eager.get(name) or (), ours.get(name) or (), strict=True):
            assert (theirs.shape, theirs.dtype) == (ours_.shape, ours_.dtype)
            differs = differs | (ours_.sum(-1, keepdim=True) == 0).any(1, keepdim=True)
            assert not bool((differs & ~padded).any())
            torch.testing.assert_close(
                ours_.masked_fill(differs, 0.0), theirs.masked_fill(differs, 0.0), rtol=1e-3, atol=2e-5
            )
            checked += 1
    assert checked > 0


def test_weights_are_those_before_dropout(zoo: Any) -> None:
    model = hw.use(zoo.model("llama", attention_dropout=0.5)).train()
    for p in model(**zoo.batch("llama"), output_attentions=True).attentions:
        torch.testing.assert_close(p.sum(-1), torch.ones(2, 4, 10))


def test_weights_are_made_only_when_wanted(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = hw.use(zoo.model("llama")), zoo.batch("llama")
    made = []
    real = register.output_and_weights
    monkeypatch.setattr(register, "output_and_weights", lambda *asked: made.append(1) or real(*asked))
    zoo.result(model, batch)
    model(**batch, output_hidden_states=True)
    with hw.observe(model, hw.Entropy()):
        zoo.result(model, batch)
    assert made == []
    model(**batch, output_attentions=True)
    assert len(made) == 2


def test_weights_and_watching_together(zoo: Any) -> None:
    model, batch = hw.use(zoo.model("llama")), zoo.batch("llama")
    with hw.observe(model, hw.Received()) as seen, torch.no_grad():
        weights = model(**batch, output_attentions=True).attentions
    torch.testing.assert_close(seen["received"], torch.stack(weights).sum(-2), rtol=1e-4, atol=1e-5)


def test_weights_above_the_size_are_one_clear_error(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = hw.use(zoo.model("llama")), zoo.batch("llama")
    monkeypatch.setattr("headwise.pattern.DENSE_LIMIT", 799)
    with pytest.raises(
        UnsupportedError, match=r"the weights of one layer would be \[B=2,H=4,T=10,S=10\].*hw.observe\(model"
    ):
        model(**batch, output_attentions=True)
    zoo.result(model, batch)
    monkeypatch.setattr("headwise.pattern.DENSE_LIMIT", 800)
    assert len(model(**batch, output_attentions=True).attentions) == 2


def test_the_configs_flag_works_or_says_why(zoo: Any) -> None:
    model = zoo.model("llama")
    model.config.output_attentions = True
    hw.use(model)
    assert len(model(**zoo.batch("llama")).attentions) == 2
    model.config._output_attentions = False
    with pytest.raises(ValueError, match=r"`output_attentions` attribute is not supported.*headwise"):
        model.config.output_attentions = True


class Older(torch.nn.Module):
    """A module as older models have them: it takes the flag and does not pass it on."""

    def forward(self, x: torch.Tensor, output_attentions: bool = False) -> Any:
        return register.headwise_attention(self, x, x, x, None)


def test_a_flag_that_a_module_keeps_to_itself() -> None:
    x = torch.randn(1, 2, 3, 4)
    assert Older()(x)[1] is None
    torch.testing.assert_close(Older()(x, output_attentions=True)[1], hw.Pattern(x, x).to_dense())
