"""Means over calls took the 0 that Offsets says where no query has a key at a distance for a query that looked away."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers

import headwise as hw


def small(**changes: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        pad_token_id=0,
        **changes,
    )
    return transformers.LlamaForCausalLM(config).eval()


def run(model: Any, *batches: Any, **options: Any) -> Any:
    with hw.observe(model, hw.Offsets(6), **options) as seen, torch.no_grad():
        for batch in batches:
            model(**batch)
    return seen


def test_a_call_too_short_for_a_distance_says_nothing_about_it() -> None:
    model, ids = small(), torch.arange(1, 9)[None]
    short, long = {"input_ids": ids[:, :4]}, {"input_ids": ids}
    means = run(model, short, long, reduce="mean")["offsets"]
    alone = run(model, long)["offsets"][:, 0]
    torch.testing.assert_close(means[..., 4:], alone[..., 4:])
    assert bool((means[..., 5] > 0).all())


def test_every_query_counts_once_whatever_call_it_is_in() -> None:
    model, ids = small(), torch.arange(1, 9)[None]
    kept = run(model, {"input_ids": ids[:, :4]}, {"input_ids": ids}).calls
    means = run(model, {"input_ids": ids[:, :4]}, {"input_ids": ids}, reduce="mean")["offsets"]
    few, many = (4 - torch.arange(7)).clamp(min=0), (8 - torch.arange(7)).clamp(min=0)
    wanted = (kept[0]["offsets"][:, 0] * few + kept[1]["offsets"][:, 0] * many) / (few + many)
    torch.testing.assert_close(means, wanted)


def test_the_steps_of_generate_are_queries_like_others() -> None:
    model, ids = small(), torch.arange(1, 9)[None]
    with hw.observe(model, hw.Offsets(6), reduce="mean") as steps, torch.no_grad():
        whole = model.generate(ids, max_new_tokens=4, do_sample=False, eos_token_id=None)
    # the last token was never a query
    torch.testing.assert_close(steps["offsets"], run(model, {"input_ids": whole[:, :-1]})["offsets"][:, 0])


def test_padding_and_a_distance_that_no_call_has() -> None:
    model, ids = small(), torch.arange(1, 9).repeat(2, 1)
    mask = torch.ones_like(ids)
    mask[1, :5] = 0
    means = run(model, {"input_ids": ids, "attention_mask": mask}, reduce="mean")["offsets"]
    alone = run(model, {"input_ids": ids[:1]})["offsets"][:, 0]
    torch.testing.assert_close(means[..., 3:], alone[..., 3:])  # row 1 has three real tokens
    short = run(model, {"input_ids": ids[:1, :3]}, reduce="mean")["offsets"]
    assert bool((short[..., 3:] == 0).all())
    torch.testing.assert_close(short, run(model, {"input_ids": ids[:1, :3]})["offsets"][:, 0])


@pytest.mark.parametrize("backend", ["reference", "blocked"])
def test_the_sums_of_offsets_are_its_means_and_counts(backend: str) -> None:
    q, k = torch.randn(2, 2, 5, 4), torch.randn(2, 2, 7, 4)
    question = hw.Offsets(6, after=2)
    sums = hw.attend(q, k, k, mask=hw.Causal(), observe=[question.sums()], backend=backend).seen["offsets"]
    means = hw.attend(q, k, k, mask=hw.Causal(), observe=[question], backend=backend).seen["offsets"]
    assert torch.equal(sums.mean(), means)
    assert sums.rows[0, 1].tolist() == [0, 0, 5, 5, 5, 4, 3, 2, 1]


def test_a_map_weighs_its_queries_and_segments_their_sequences() -> None:
    model, ids = small(), torch.arange(1, 9).repeat(2, 1)
    mask = torch.ones_like(ids)
    mask[1, :6] = 0
    words = torch.arange(8) // 4
    asked, batch = (hw.Map(2, 2), hw.Segments(words, words)), {"input_ids": ids, "attention_mask": mask}
    with torch.no_grad():
        with hw.observe(model, *asked) as kept:
            model(**batch)
        with hw.observe(model, *asked, reduce="mean") as means:
            model(**batch)
    torch.testing.assert_close(means["map"], (kept["map"][:, 0] * 8 + kept["map"][:, 1] * 2) / 10)
    torch.testing.assert_close(means["segments"], kept["segments"].mean(1))
