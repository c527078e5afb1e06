"""The experiment on retrieval heads: its pieces by hand and on a tiny model, and its page beside its numbers."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from experiments.retrieval import run as experiment
from experiments.retrieval.ablation import MEASURES, Inputs, alone, copied, losses, rises, spread, summary
from experiments.retrieval.needle import FACTS, Prompts, prompts, recalled, recalls, told
from experiments.retrieval.scoring import agreement, ranked
from experiments.retrieval.sets import CONTROLS, by_layer, from_others, from_same_layers, several
from transformers import LlamaConfig, LlamaForCausalLM

import headwise as hw
from headwise.heads.random_tokens import Sample

HOME = Path(experiment.__file__).parent
HEADS = [(layer, head) for layer in range(4) for head in range(3)]


@pytest.fixture(scope="module")
def tiny() -> Any:
    """A sharpened Llama of 2 layers, 4 query heads of 8 and 2 key/value heads, in use."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=48, max_position_embeddings=64, bos_token_id=1, eos_token_id=47, pad_token_id=0,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(8)
    return hw.use(model)


def inputs() -> Inputs:
    generator = torch.Generator().manual_seed(3)
    tokens = torch.stack([torch.randperm(40, generator=generator)[:5] + 2 for _ in range(3)])
    ids = torch.cat([torch.ones(3, 1, dtype=torch.int64), tokens.repeat(1, 3)], 1)
    text = torch.randint(2, 8, (4, 20), generator=generator)
    return Inputs(Sample(tokens, ids, 3), text, [text[:2], ids[:1]])


def by_token(model: Any, ids: torch.Tensor) -> list[list[float]]:
    """Losses of the second and later tokens, row by row."""
    rows = []
    for row in ids:
        with torch.no_grad():
            chances = model(input_ids=row[None]).logits[0].double().log_softmax(-1)
        rows.append([-float(chances[i - 1, row[i]]) for i in range(1, len(row))])
    return rows


def test_lists_and_their_overlap_by_hand() -> None:
    first, second = [[0.9, 0.1, 0.5], [0.2, 0.2, 0.7]], [[0.8, 0.0, 0.6], [0.3, 0.0, 0.1]]
    assert ranked(first) == [(0, 0), (1, 2), (0, 2), (1, 0), (1, 1), (0, 1)]
    found = agreement(first, second, [2, 3])
    assert found["shared"] == [
        {"size": 2, "heads": 1, "chance": round(4 / 6, 3)},
        {"size": 3, "heads": 2, "chance": 1.5},
    ]
    # ranks 5 0 3 1.5 1.5 4 and 5 0.5 4 3 0.5 2
    a, b = [2.5, -2.5, 0.5, -1, -1, 1.5], [2.5, -2, 1.5, 0.5, -2, -0.5]
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    assert found["rank_correlation"] == pytest.approx(
        dot / math.sqrt(sum(x * x for x in a) * sum(x * x for x in b)), abs=1e-4
    )
    assert experiment.above({"retrieval": [[0.1, 0.11], [0.5, 0.0]]}) == {"heads": 2, "share": 0.5}


def test_random_sets_are_of_other_heads_and_differ() -> None:
    top = [(1, 0), (3, 1), (1, 2)]
    for control in CONTROLS.values():
        sets = several(control, top, HEADS, 12)
        for drawn in sets:
            assert len(set(drawn)) == 3
            assert not set(drawn) & set(top)
        assert len({tuple(drawn) for drawn in sets}) == len(sets)
        assert several(control, top, HEADS, 12) == sets
    assert {head for drawn in several(from_others, top, HEADS, 60) for head in drawn} == set(HEADS) - set(top)


def test_sets_of_the_same_layers_fall_back_on_the_nearest() -> None:
    top = [(1, 0), (3, 1), (1, 2)]  # of layer 1 only (1, 1) is left, the next is of layer 0 or 2
    sets = several(from_same_layers, top, HEADS, 30)
    layers = {tuple(sorted(layer for layer, _ in drawn)) for drawn in sets}
    assert layers == {(0, 1, 3), (1, 2, 3)}
    assert all((1, 1) in drawn for drawn in sets)
    # one head of layer 0: the two others, and no more sets than there are
    assert sorted(several(from_same_layers, [(0, 0)], HEADS, 10)) == [[(0, 1)], [(0, 2)]]


def test_tokens_that_induction_can_tell() -> None:
    ids = torch.tensor([[5, 6, 7, 5, 6, 7, 6, 7], [1, 1, 1, 2, 1, 2, 3, 3]])
    wanted = torch.zeros(ids.shape, dtype=torch.bool)
    for n, row in enumerate(ids.tolist()):
        pairs = list(itertools.pairwise(row))
        for i in range(1, len(row)):
            wanted[n, i] = pairs[i - 1] in pairs[: i - 1]
    assert torch.equal(copied(ids), wanted)
    assert int(wanted.sum()) == 5


def test_losses_are_of_the_places_they_name(tiny: Any) -> None:
    asked = inputs()
    found = {name: float(x.mean()) for name, x in losses(tiny, asked).items()}
    random, text = by_token(tiny, asked.sample.ids), by_token(tiny, asked.text)
    seen = copied(asked.text)[:, 1:]
    flat = [(x, bool(seen[n, i])) for n, row in enumerate(text) for i, x in enumerate(row)]
    wanted = {
        "first": [x for row in random for x in row[:5]],
        "repeats": [x for row in random for x in row[5:]],
        "text": [x for x, _ in flat],
        "copied": [x for x, known in flat if known],
        "fresh": [x for x, known in flat if not known],
    }
    assert min(map(len, wanted.values())) > 5
    assert tuple(found) == MEASURES
    for name, values in wanted.items():
        assert found[name] == pytest.approx(sum(values) / len(values), rel=1e-4)


def test_rises_are_those_of_a_model_without_these_columns_of_w_o(tiny: Any) -> None:
    asked = inputs()
    order = [(1, 2), (0, 1), (1, 0), (0, 0), (0, 2), (0, 3), (1, 1), (1, 3)]
    found = rises(tiny, asked, {"one": order, "two": order[::-1]}, (1, 2), 3, lambda _: None)
    kept = [layer.self_attn.o_proj.weight.detach().clone() for layer in tiny.model.layers]
    for one in found["sets"]:
        if one["how"] == "mean":
            continue
        with torch.no_grad():
            for layer, head in one["heads"]:
                tiny.model.layers[layer].self_attn.o_proj.weight[:, 8 * head : 8 * head + 8] = 0
            without = losses(tiny, asked)
            for layer, weight in zip(tiny.model.layers, kept, strict=True):
                layer.self_attn.o_proj.weight.copy_(weight)
        for name in MEASURES:
            assert one[name] == pytest.approx(float(without[name].mean()) - found["whole"][name], abs=2e-4)
    one_by_one = alone(tiny, asked.sample, order[:2])
    first = next(one for one in found["sets"] if one["heads"] == order[:1] and one["how"] == "zero")
    assert list(one_by_one) == order[:2]
    assert one_by_one[1, 2] == pytest.approx(first["repeats"], abs=2e-4)
    assert abs(one_by_one[0, 1] - one_by_one[1, 2]) > 1e-3
    rows = summary(found["sets"], ["repeats"])
    count = {(row["size"], row["ranking"], row["set"], row["how"]): row["repeats"]["n"] for row in rows}
    assert count[2, "one", "others", "zero"] == count[2, "one", "same layers", "zero"] == 3
    assert count[1, "two", "top", "mean"] == count[2, "one", "others", "mean"] == 1
    means = [one["repeats"] for one in found["sets"] if one["how"] == "mean" and one["set"] == "top"]
    zeros = [one["repeats"] for one in found["sets"] if one["how"] == "zero" and one["set"] == "top"]
    assert all(abs(a - b) > 1e-3 for a, b in zip(means, zeros, strict=True))
    assert spread([1.0, 2.0, 6.0]) == {"n": 3, "mean": 3.0, "median": 2.0, "sd": 2.6458, "min": 1.0, "max": 6.0}


class Letters:
    """A tokenizer of one token a character, with a chat template."""

    eos_token_id = 47

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        return {"input_ids": [ord(letter) for letter in text]}

    def apply_chat_template(self, said: Any, tokenize: bool, add_generation_prompt: bool) -> str:
        assert add_generation_prompt
        assert not tokenize
        return f"<{said[0]['content']}>"

    def decode(self, ids: torch.Tensor, skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return " ".join(f"w{int(one)}" for one in ids)


def test_prompts_have_one_length_and_their_facts_at_their_depths() -> None:
    asked = prompts(Letters(), FACTS[:4], 2000)
    assert asked.ids.shape == (4, 2000)
    for row, fact, depth in zip(asked.ids, FACTS, (0.1, 0.3, 0.5, 0.7), strict=False):
        text = "".join(map(chr, row.tolist()))
        assert text.count(fact.sentence) == 1
        assert text.endswith(f"{fact.question}>")
        body = text[text.index("\n\n") + 2 : text.rindex("\n\n")]
        before, behind = body.split(fact.sentence)
        assert not before or before.rstrip()[-1] in ".!?"
        assert len(before) / (len(before) + len(behind)) == pytest.approx(depth, abs=0.12)


def test_what_is_told_of_a_fact() -> None:
    fact = FACTS[4]  # walnuts, rainwater, and, white, pepper; "is", "made" and the rest are in the question
    assert told(fact, "The best soup in Kesterling is made from it.") == 0
    assert told(fact, "It is Walnuts, and rain water.") == pytest.approx(2 / 5)
    assert told(fact, fact.sentence) == 1


def test_recall_without_heads_is_that_of_a_model_without_them(tiny: Any) -> None:
    tokenizer = Letters()
    ids = torch.randint(2, 46, (2, 20), generator=torch.Generator().manual_seed(5))
    spoken, sentences = [], []
    for heads in ([], [(0, 1), (1, 2)]):
        kept = [layer.self_attn.o_proj.weight.detach().clone() for layer in tiny.model.layers]
        said = ids.clone()
        with torch.no_grad():
            for layer, head in heads:
                tiny.model.layers[layer].self_attn.o_proj.weight[:, 8 * head : 8 * head + 8] = 0
            for _ in range(28):
                said = torch.cat([said, tiny(input_ids=said).logits[:, -1:].argmax(-1)], 1)
            for layer, weight in zip(tiny.model.layers, kept, strict=True):
                layer.self_attn.o_proj.weight.copy_(weight)
        spoken.append(said[:, 20:])
    for row in range(2):  # facts of the words of the model with all heads
        words = list(dict.fromkeys(tokenizer.decode(spoken[0][row], True).split()))
        sentences.append((" ".join(words), "w1"))
    asked = Prompts(ids, [type(FACTS[0])(*one) for one in sentences])
    for heads, said in zip(([], [(0, 1), (1, 2)]), spoken, strict=True):
        shares, answers = recalled(tiny, tokenizer, asked, heads)
        assert answers == [tokenizer.decode(row, True) for row in said]
        assert shares == [told(fact, answer) for fact, answer in zip(asked.facts, answers, strict=True)]
    assert recalled(tiny, tokenizer, asked, [])[0] == [1.0, 1.0]
    order = [(0, 1), (1, 2), *[(layer, head) for layer in (0, 1) for head in range(4)]]
    order = list(dict.fromkeys(order))
    found = recalls(tiny, tokenizer, asked, {"retrieval": order}, (2,), 2, lambda _: None)
    wanted = recalled(tiny, tokenizer, asked, order[:2])[0]
    assert found["whole"] == 1
    assert found["sets"][0]["recall"] == pytest.approx(sum(wanted) / 2, abs=1e-4)
    assert [one["set"] for one in found["sets"]] == ["top", "others", "others", "same layers", "same layers"]


def test_heads_go_to_ablate_by_layer() -> None:
    assert by_layer([(3, 1), (0, 2), (3, 0)]) == {3: [1, 0], 0: [2]}


def test_a_result_keeps_its_numbers_when_it_is_written() -> None:
    rows = [{"a": [1, 2], "b": 0.5}, {"a": [], "b": None}]
    result = {"models": {"m": {"scores": {"t": [[0.1, 0.2], [0.3, 0.4]], "n": 3}, "sets": {"rows": rows}, "x": [1]}}}
    assert json.loads(experiment.compact(result)) == result


# What is written down


def written(told: dict[str, float], median: bool = False) -> str:
    """A spread as the page writes it."""
    middle = f", median {told['median']:.2f}" if median else ""
    return f"{told['mean']:.2f} ± {told['sd']:.2f} ({told['min']:.2f} … {told['max']:.2f}{middle}), {told['n']}"


def rows_of(summary_rows: list[dict[str, Any]], size: int) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["set"], row["ranking"]): row for row in summary_rows if row["size"] == size and row["how"] == "zero"}


def expected(models: dict[str, Any]) -> list[str]:
    """The rows of the page's tables."""
    lines = []
    for name, told_of in models.items():
        for measure, title in (("repeats", "random repeats"), ("text", "natural text")):
            for size in sorted({row["size"] for row in told_of["ablation"]["summary"]}):
                rows = rows_of(told_of["ablation"]["summary"], size)
                top = rows["top", "prefix_matching"][measure]["mean"]
                same, others = (rows[kind, "prefix_matching"][measure] for kind in ("same layers", "others"))
                lines.append(
                    f"| {name} | {title} | {size} | {top:.2f} | {written(same)} | {written(others, median=True)} |"
                )
        if "needle" in told_of:
            for size in sorted({row["size"] for row in told_of["needle"]["summary"]}):
                rows = rows_of(told_of["needle"]["summary"], size)
                top, first = (rows["top", score]["recall"]["mean"] for score in ("retrieval", "prefix_matching"))
                same, others = (rows[kind, "retrieval"]["recall"] for kind in ("same layers", "others"))
                lines.append(f"| {size} | {top:.2f} | {first:.2f} | {written(same)} | {written(others)} |")
        scores = told_of["scores"]
        for layer, head in ranked(told_of["alone"])[:4]:
            values = (told_of["alone"], scores["previous_token"], scores["prefix_matching"], scores["retrieval"])
            cells = " | ".join(f"{table[layer][head]:.2f}" for table in values)
            lines.append(f"| {name} | {layer}.{head} | {cells} |")
    return lines


def test_the_page_says_what_the_numbers_say() -> None:
    result = json.loads((HOME / "result.json").read_text())
    page = (HOME / "README.md").read_text().splitlines()
    for line in expected(result["models"]):
        assert line in page
    for name, share in result["paper"].items():
        assert f"| {name} | {100 * share:.1f} % |" in page
    ours = result["models"]["smollm2"]["above_threshold"]
    assert f"| SmolLM2-135M-Instruct, ours | {100 * ours['share']:.1f} % ({ours['heads']} of 270) |" in page
    for told_of in result["models"].values():
        assert summary(told_of["ablation"]["sets"], MEASURES) == told_of["ablation"]["summary"]
        assert experiment.above(told_of["scores"]) == told_of["above_threshold"]
    assert 0 < (HOME / "figure.svg").stat().st_size < 200_000


def test_leading_heads_cost_more_than_any_random_set_of_their_layers() -> None:
    result = json.loads((HOME / "result.json").read_text())
    for told_of in result["models"].values():
        for size in {row["size"] for row in told_of["ablation"]["summary"]}:
            rows = rows_of(told_of["ablation"]["summary"], size)
            others = rows["same layers", "prefix_matching"]["repeats"]["max"]
            assert rows["top", "prefix_matching"]["repeats"]["mean"] > others
