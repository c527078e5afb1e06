"""Prefix matching and copying against loops over whole eager patterns; a head built to copy; what is drawn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from known_heads import Signs, previous_token_head
from torch import Tensor

import headwise as hw
from headwise.errors import SpecError, UnsupportedError
from headwise.heads.random_tokens import Sample, draw, random_token_scores
from headwise.heads.watching import Run, runs_of

SMALL = {"tokens": 6, "repeats": 3, "examples": 4}


def runs(model: Any, **batch: Tensor) -> dict[str, Run]:
    batch = batch or {"input_ids": torch.tensor([[3, 4, 5, 6]])}
    return runs_of("test", model, batch)


def matching(p: Tensor, ids: list[int], offset: int, start: int) -> list[tuple[float, float]]:
    """Score and chance of each query of one causal pattern [T, T], by loops."""
    found = []
    for i in range(len(ids)):
        earlier = [j for j in range(start, i) if ids[j] == ids[i]]
        keys = [j + offset for j in earlier if j + offset >= start]
        if i >= start and keys:
            found.append((float(p[i, keys].sum()), len(keys) / (i + 1)))
    return found


@pytest.mark.parametrize("offset", [1, -1])
@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_prefix_matching_equals_that_of_whole_patterns(zoo: Any, family: str, offset: int) -> None:
    model = zoo.model(family)
    found = random_token_scores(model, Signs(), runs(model), offset=offset, seed=3, **SMALL)
    sample = draw(model, Signs(), start=1, seed=3, **SMALL)
    assert sample.ids.shape == (4, 19)
    with torch.no_grad():
        patterns = model(sample.ids, output_attentions=True).attentions
    for layer, scores in enumerate(found.values()):
        for head in range(4):
            rows = [matching(patterns[layer][b, head].double(), sample.ids[b].tolist(), offset, 1) for b in range(4)]
            means = torch.tensor([sum(s for s, _ in row) / len(row) for row in rows])
            got = scores["prefix_matching"]
            assert float(got.score[head]) == pytest.approx(float(means.mean()), abs=1e-5)
            assert float(got.chance[head]) == pytest.approx(sum(c for _, c in rows[0]) / len(rows[0]), abs=1e-9)
            half = 3.1824463 * float(means.std()) / 2
            assert float(got.high[head] - got.score[head]) == pytest.approx(half, abs=1e-4)


def test_an_encoder_may_look_ahead_but_not_for_what_comes_later(zoo: Any) -> None:
    model = zoo.model("bert")
    found = random_token_scores(model, Signs(), runs(model), **SMALL)
    sample = draw(model, Signs(), start=1, **SMALL)
    with torch.no_grad():
        patterns = model(sample.ids, output_attentions=True).attentions
    for layer, scores in enumerate(found.values()):
        assert set(scores) == {"prefix_matching"}  # no logits, no copying
        for head in range(4):
            rows = [matching(patterns[layer][b, head].double(), sample.ids[b].tolist(), 1, 1) for b in range(4)]
            pairs = [pair for row in rows for pair in row]
            got = float(scores["prefix_matching"].score[head])
            assert got == pytest.approx(sum(s for s, _ in pairs) / len(pairs), abs=1e-5)
            n = sample.ids.shape[1]
            chance = (6 * 1 + 6 * 2) / 12 / n  # the second and third repeat have 1 and 2 keys each, of all n
            assert float(scores["prefix_matching"].chance[head]) == pytest.approx(chance, abs=1e-9)


def copied(model: Any, family: str, sample: Sample, layer: int, head: int) -> tuple[float, float]:
    """Copying and its chance level of one head, from logits over the whole vocabulary, by loops."""
    trace = hw.trace(model, sample.ids)
    with torch.no_grad():
        p = model(sample.ids, output_attentions=True).attentions[layer][:, head].double()
    v = trace.pattern(layer).v.double()
    v = v[:, head * v.shape[1] // 4]
    if family == "llama":
        W_O, norm = model.model.layers[layer].self_attn.o_proj.weight, model.model.norm
    else:
        W_O, norm = model.transformer.h[layer].attn.c_proj.weight.T, model.transformer.ln_f
    W_U = model.lm_head.weight.double()
    added = p @ v @ W_O[:, 8 * head : 8 * head + 8].double().T  # [B, T, M]
    if family == "gpt2":
        added = added - added.mean(-1, keepdim=True)
    logits = (added * norm.weight.double()) @ W_U.T
    raised = (logits - logits.mean(-1, keepdim=True)).clamp(min=0)
    scores, chances = [], []
    for b, ids in enumerate(sample.ids.tolist()):
        tokens = sample.tokens[b].tolist()
        for i in range(1, len(ids)):
            total = sum(float(raised[b, i, t]) for t in tokens)
            if total > 0:
                seen = range(1, i + 1)
                scores.append(sum(float(p[b, i, j] * raised[b, i, ids[j]]) for j in seen) / total)
                chances.append(sum(float(raised[b, i, ids[j]]) / (i + 1) for j in seen) / total)
    return 2 * sum(scores) / len(scores) - 1, 2 * sum(chances) / len(chances) - 1


@pytest.mark.parametrize("family", ["llama", "gpt2"])
def test_copying_equals_that_of_whole_patterns_and_logits(zoo: Any, family: str) -> None:
    model = zoo.model(family)
    with torch.no_grad():  # a gain that is not 1 for all, so that leaving it out is seen
        norm = model.model.norm if family == "llama" else model.transformer.ln_f
        norm.weight.copy_(torch.rand(32, generator=torch.Generator().manual_seed(2)) + 0.2)
    found = random_token_scores(model, Signs(), runs(model), **SMALL)
    sample = draw(model, Signs(), start=1, **SMALL)
    with torch.no_grad():
        for layer, scores in enumerate(found.values()):
            for head in range(4):
                score, chance = copied(model, family, sample, layer, head)
                assert float(scores["copying"].score[head]) == pytest.approx(score, abs=1e-5)
                assert float(scores["copying"].chance[head]) == pytest.approx(chance, abs=1e-5)
    values = torch.cat([scores["copying"].score for scores in found.values()])
    assert float(values.max() - values.min()) > 0.1


def test_a_head_built_to_copy_scores_one_and_one_built_to_suppress_minus_one() -> None:
    model = previous_token_head()
    # no start token: behind it the head would be asked to copy a token that is not of the sample
    found = random_token_scores(model, None, runs(model), **SMALL)
    (scores,) = found.values()
    assert float(scores["copying"].score) == pytest.approx(1, abs=1e-3)
    assert float(scores["copying"].chance) < -0.5
    assert float(scores["prefix_matching"].score) == pytest.approx(0, abs=1e-3)
    with torch.no_grad():
        model.transformer.h[0].attn.c_proj.weight.mul_(-1)
    (scores,) = random_token_scores(model, None, runs(model), **SMALL).values()
    assert float(scores["copying"].score) == pytest.approx(-1, abs=1e-3)


def test_encoder_and_decoder_read_samples_of_their_own(zoo: Any) -> None:
    model = zoo.model("bart")
    batch = {"input_ids": torch.tensor([[3, 4, 5, 6]]), "decoder_input_ids": torch.tensor([[1, 4]])}
    found = random_token_scores(model, Signs(), runs(model, **batch), **SMALL)
    assert len(found) == 4  # two layers of each, and none of cross attention
    encoder, decoder = (draw(model, Signs(), start=1, **SMALL) for _ in range(2))
    with torch.no_grad():
        output = model(encoder.ids, decoder_input_ids=decoder.ids, output_attentions=True)
    for name, scores in found.items():
        layer = int(name.split(".")[3])
        patterns = output.encoder_attentions if "encoder.layers" in name else output.decoder_attentions
        for head in range(4):
            pairs = [
                pair
                for b in range(4)
                for pair in matching(patterns[layer][b, head].double(), encoder.ids[b].tolist(), 1, 1)
            ]
            wanted = sum(s for s, _ in pairs) / len(pairs)
            assert float(scores["prefix_matching"].score[head]) == pytest.approx(wanted, abs=1e-5)


@pytest.mark.parametrize("family", ["llama", "bart"])
def test_what_runs_is_found_where_it_is_not_said(zoo: Any, family: str) -> None:
    model = zoo.model(family)
    batch = {"input_ids": torch.tensor([[3, 4, 5, 6]])}
    batch |= {"decoder_input_ids": torch.tensor([[1, 4]])} if family == "bart" else {}
    said, found = (random_token_scores(model, Signs(), known, **SMALL) for known in (runs(model, **batch), None))
    assert list(found) == list(said)
    for name in said:
        assert torch.equal(found[name]["prefix_matching"].score, said[name]["prefix_matching"].score)


def test_one_repeat_shows_no_prefix_matching(zoo: Any) -> None:
    model = zoo.model("llama")
    found = random_token_scores(model, Signs(), runs(model), tokens=6, repeats=1, examples=2)
    for scores in found.values():
        assert bool(scores["prefix_matching"].score.isnan().all())
        assert bool(scores["copying"].score.isfinite().all())


def test_samples_are_distinct_ordinary_tokens_of_medium_frequency(zoo: Any) -> None:
    class Words(Signs):
        all_special_ids = (1, 2, 30)

        @staticmethod
        def get_added_vocab() -> dict[str, int]:
            return {"<new>": 31}

        @staticmethod
        def get_vocab() -> dict[str, int]:
            vocabulary = {f"word{n}": n for n in range(80)}
            vocabulary.update({"x": 32, "<0x0A>": 33, "[unused3]": 34})
            return {text: n for text, n in vocabulary.items() if text not in ("word32", "word33", "word34")}

    sample = draw(zoo.model("llama"), Words(), tokens=20, repeats=2, examples=50, start=1)
    assert sample.first == 1
    assert sample.ids[:, 0].tolist() == [1] * 50
    assert torch.equal(sample.ids[:, 1:21], sample.ids[:, 21:])
    assert all(len(set(row)) == 20 for row in sample.tokens.tolist())
    # 64 rows of the embedding, less 1, 2, 30 .. 34; of these 57 five go at either end: 0, 3 .. 6 and 59 .. 63
    drawn = set(sample.tokens.flatten().tolist())
    assert drawn == set(range(7, 59)) - {30, 31, 32, 33, 34}
    again = draw(zoo.model("llama"), Words(), tokens=20, repeats=2, examples=50, start=1)
    other = draw(zoo.model("llama"), Words(), tokens=20, repeats=2, examples=50, start=1, seed=1)
    assert torch.equal(sample.ids, again.ids)
    assert not torch.equal(sample.ids, other.ids)


def test_what_cannot_be_drawn_is_one_sentence(zoo: Any) -> None:
    model = zoo.model("llama")
    with pytest.raises(SpecError, match=r"^random_token_scores: 25 tokens 4 times are 101 .*, the context is 64"):
        random_token_scores(model, Signs(), runs(model))
    with pytest.raises(SpecError, match="ordinary tokens of medium frequency, and 60 are wanted"):
        draw(model, Signs(), tokens=60, repeats=1)
    with pytest.raises(SpecError, match="offset is 0; it is 1, what followed, or -1, preceded"):
        random_token_scores(model, Signs(), runs(model), offset=0)
    with pytest.raises(UnsupportedError, match=r"^random_token_scores: ViTModel reads pixel_values"):
        random_token_scores(zoo.model("vit"), Signs())


def test_the_table_holds_them() -> None:
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=64, n_positions=128)
    model = transformers.GPT2LMHeadModel(config).eval()
    table = hw.head_table(model, Signs(), [[5, 6, 5, 6, 7]])
    found = random_token_scores(model, Signs(), runs(model))
    for row in table.rows:
        scores = found[row["site"]]
        for name in ("prefix_matching", "copying"):
            assert row[name] == float(scores[name].score[row["head"]])
            assert row[f"{name}_chance"] == float(scores[name].chance[row["head"]])
            assert row[f"{name}_low"] < row[name] < row[f"{name}_high"]
    assert "random_tokens" in table.seconds
