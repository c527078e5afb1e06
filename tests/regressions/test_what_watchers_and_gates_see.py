"""Watchers were handed outputs before edits, and gates of layers that never ran were called closed."""

from __future__ import annotations

import torch
from zoo import Zoo

import headwise as hw
from headwise.heads import Drift, contributions, train_gates


def test_a_watcher_sees_what_the_model_goes_on_with() -> None:
    zoo = Zoo()
    model, batch = zoo.model("llama"), zoo.batch("llama")
    with hw.ablate(model, {0: [1]}):
        assert float(contributions(model, **batch).of(0, [1]).abs().max()) == 0
        with hw.ablate(model, {0: [1]}, how="mean", reference=batch):
            nested = zoo.result(model, batch)
        zeroed = zoo.result(model, batch)
    assert torch.equal(nested, zeroed)  # the mean of zeros


def test_gates_of_layers_that_never_ran_are_unknown() -> None:
    zoo = Zoo()
    model, batch = zoo.model("bart"), zoo.batch("bart")
    with torch.no_grad():
        encoded = model.get_encoder()(input_ids=batch["input_ids"])
    labels = batch["decoder_input_ids"].roll(-1, 1)
    given = {"encoder_outputs": encoded, "decoder_input_ids": batch["decoder_input_ids"], "labels": labels}
    gates = train_gates(model, given, penalty=10.0, steps=30)
    ran = ["encoder.layers" not in site for site in gates.sites]
    assert gates.open.isfinite().all(1).tolist() == ran
    assert all("encoder.layers" not in site for site in gates.closed())


def test_drift_is_over_the_real_tokens_of_the_decoder() -> None:
    zoo = Zoo()
    model, batch = zoo.model("bart").model, zoo.batch("bart")
    mask = torch.ones_like(batch["input_ids"])
    mask[:, 3:] = 0
    given = {**batch, "decoder_input_ids": batch["decoder_input_ids"][:, :7], "attention_mask": mask}
    drift = Drift(model, given)
    with torch.no_grad():
        before = model(**given).last_hidden_state
        with hw.ablate(model, {4: [0]}):
            after = model(**given).last_hidden_state
            told = drift(model(**given), given)
    cosine = torch.nn.functional.cosine_similarity(before, after, dim=-1)
    torch.testing.assert_close(told, 1 - cosine.mean())
    assert float(told) > 1e-4
