"""observe stacked sites as they ran and a trace numbered runs, while hw.sites and NOTATION go by named_modules()."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

import headwise as hw
from headwise.errors import SpecError

TOWER = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.fixture(scope="module")
def clip() -> Any:
    """Its modules are named text first, and its forward runs the images first."""
    torch.manual_seed(0)
    config = transformers.CLIPConfig(
        text_config={**TOWER, "vocab_size": 64, "max_position_embeddings": 32, "eos_token_id": 2, "pad_token_id": 1},
        vision_config={**TOWER, "image_size": 16, "patch_size": 4},
        projection_dim=16,
    )
    return transformers.CLIPModel(config).eval()


@pytest.fixture(scope="module")
def batch() -> dict[str, Any]:
    """Two texts and two images, of different length."""
    return {"input_ids": torch.randint(3, 64, (2, 7)), "pixel_values": torch.randn(2, 3, 16, 16)}


def test_answers_and_patterns_follow_the_order_of_sites(clip: Any, batch: dict[str, Any]) -> None:
    sites = hw.sites(clip)
    assert [site.partition(".")[0] for site in sites] == ["text_model", "text_model", "vision_model", "vision_model"]
    trace = hw.trace(clip, **batch)
    with hw.observe(clip, hw.Entropy()) as seen, torch.no_grad():
        clip(**batch)
    assert trace.sites == seen.sites == sites
    for n, site in enumerate(sites):
        assert trace.pattern(n).shape[-1] == (7 if n < 2 else 17)
        torch.testing.assert_close(trace.pattern(n).entropy(), seen[site]["entropy"])
    with hw.observe(clip, hw.Offsets(2), reduce="mean") as means, torch.no_grad():
        clip(**batch)
    assert means.sites == sites


@pytest.mark.parametrize("chosen", [[3, 2], ["vision_model.encoder.layers.1.self_attn", 2]])
def test_rows_of_a_stack_are_in_order_however_sites_were_named(clip: Any, batch: dict[str, Any], chosen: Any) -> None:
    with hw.observe(clip, hw.Entropy(), sites=chosen) as seen, torch.no_grad():
        clip(**batch)
    assert seen.sites == hw.sites(clip)[2:]
    torch.testing.assert_close(seen["entropy"][1], seen[hw.sites(clip)[3]]["entropy"])


def test_an_index_is_the_sites_own_where_others_did_not_run(clip: Any, batch: dict[str, Any]) -> None:
    class Images(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.config, self.clip = clip.config, clip

        def forward(self, pixel_values: torch.Tensor) -> Any:
            return self.clip.vision_model(pixel_values=pixel_values)

    model = Images()
    trace = hw.trace(model, pixel_values=batch["pixel_values"])
    assert trace.sites == hw.sites(model)[2:]
    assert torch.equal(trace.pattern(3).to_dense(), trace.pattern(hw.sites(model)[3]).to_dense())
    assert torch.equal(trace.pattern(-1).to_dense(), trace.pattern(3).to_dense())
    for layer in (0, hw.sites(model)[0]):
        with pytest.raises(
            SpecError, match=r"trace: site 'clip.text_model.* did not run in this forward; .* lists what"
        ):
            trace.pattern(layer)


def test_more_runs_of_a_site_than_ten_stay_in_order() -> None:
    torch.manual_seed(0)
    config = transformers.AlbertConfig(
        **{**TOWER, "num_hidden_layers": 12}, vocab_size=64, embedding_size=8, max_position_embeddings=32
    )
    model = transformers.AlbertModel(config).eval()
    with hw.observe(model, hw.Entropy()) as seen, torch.no_grad():
        model(torch.arange(3, 9)[None])
    (site,) = hw.sites(model)
    assert seen.sites == [site, *(f"{site}#{n}" for n in range(1, 12))]
