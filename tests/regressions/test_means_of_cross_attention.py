"""The mean output of a head that asks an encoder was taken over padded tokens of the decoder, too."""

from __future__ import annotations

import pytest
import torch
from zoo import Zoo

import headwise as hw


@pytest.mark.parametrize("family", ["bart", "t5"])
def test_padding_of_the_decoder_is_in_no_mean(family: str) -> None:
    zoo = Zoo()
    model, batch = zoo.model(family), zoo.batch(family)
    site = next(name for name in hw.sites(model) if "encoder_attn" in name or "EncDec" in name)
    mask = torch.ones_like(batch["decoder_input_ids"])
    mask[1, 6:] = 0
    found = []
    for padding in (5, 9):
        ids = batch["decoder_input_ids"].masked_fill(mask == 0, padding)
        reference = {**batch, "decoder_input_ids": ids, "decoder_attention_mask": mask}
        with hw.ablate(model, {site: [0, 2]}, how="mean", reference=reference):
            found.append(zoo.result(model, batch))
    assert torch.equal(*found)
    with hw.ablate(model, {site: [0, 2]}, how="mean", reference=batch):
        assert float((zoo.result(model, batch) - found[0]).abs().max()) > 1e-4
