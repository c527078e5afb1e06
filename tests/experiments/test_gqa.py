"""The experiment on grouped-query conversion: its pieces on a tiny model, and its page beside its numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from experiments.gqa.conversion import Plan, converted, ordering, rows
from experiments.gqa.page import table
from experiments.gqa.run import pretraining
from transformers import LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).parents[2] / "experiments" / "gqa"


def tiny() -> Any:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32, intermediate_size=16, num_hidden_layers=1, num_attention_heads=4, vocab_size=24
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(8)
    return model


def ids(rows: int, seed: int) -> torch.Tensor:
    return torch.randint(0, 24, (rows, 10), generator=torch.Generator().manual_seed(seed))


def test_every_way_starts_from_the_model_as_it_was_and_sees_the_same_batches() -> None:
    model = tiny()
    before = [weight.clone() for weight in model.parameters()]
    plan = Plan(groups=(2, 1), steps=(1, 3), seeds=2, rate=1e-2)
    batches = [ids(4, seed) for seed in range(3)]
    found = rows(model, plan, batches, ids(5, 9), lambda _: None)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert len(found) == (1 + 2 * 4) * 3
    by_key = {(row["groups"], row["how"], row["seed"], row["steps"]): row for row in found}
    assert len({row["loss"] for row in found if not row["steps"]}) == 9  # each conversion is another one
    for groups, how, seed in {key[:3] for key in by_key}:
        none, one, three = (by_key[groups, how, seed, steps] for steps in (0, 1, 3))
        assert none["trained"] == []
        assert one["trained"] == three["trained"][:1]  # a fresh conversion each, and batches in the same order
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
            first = converted(model, groups, how, seed)(input_ids=batches[0], labels=batches[0]).loss
        assert one["trained"][0] == pytest.approx(float(first), abs=2e-2)
        assert none["loss"] == pytest.approx(sum(none["windows"]) / 5, abs=1e-4)


def test_training_under_autocast_reads_the_weights_of_each_step() -> None:
    """Weights that autocast had cached in bfloat16 would stay those of step 0."""
    batches = [ids(4, 0)] * 20
    before, one_less, all_steps = rows(tiny(), Plan((), (19, 20), 1, 1e-2), batches, ids(4, 0), lambda _: None)
    assert one_less["loss"] < before["loss"] - 1
    assert all_steps["trained"][-1] == pytest.approx(one_less["loss"], abs=0.02)


def test_a_copy_has_its_groups_and_none_stays_as_it_was() -> None:
    model = tiny()
    assert converted(model, 2, "mean", 0).config.num_key_value_heads == 2
    same = converted(model, 0, "none", 0)
    with torch.no_grad():
        assert torch.allclose(same(ids(1, 0)).logits, model(ids(1, 0)).logits, atol=1e-4)


def test_ordering_pairs_windows_and_spreads_over_seeds() -> None:
    def row(how: str, seed: int, windows: list[float]) -> dict[str, Any]:
        return {"groups": 1, "how": how, "seed": seed, "steps": 0, "loss": sum(windows) / 2, "windows": windows}

    found = [
        {**row("none", 0, [9.0, 9.0]), "groups": 0},
        row("mean", 0, [1.0, 2.0]),
        row("first", 0, [1.5, 3.5]),
        row("random", 0, [4.0, 4.0]),
        row("random", 1, [6.0, 8.0]),
    ]
    (told,) = ordering(found)
    assert (told["mean"], told["first"], told["random"]) == (1.5, 2.5, 5.5)
    assert told["random_sd"] == pytest.approx(2.1213)
    assert (told["first_less_mean"], told["first_less_mean_error"]) == (1.0, 0.5)
    assert (told["random_less_mean"], told["random_less_mean_error"]) == (4.0, 0.0)


def test_pretraining_is_known() -> None:
    assert set(pretraining()) == {"steps", "batch", "context"}


@pytest.fixture(scope="module")
def result() -> Any:
    return json.loads((HERE / "result.json").read_text())


@pytest.mark.parametrize(("heading", "part"), [("Two-layer model", "two-layer"), ("SmolLM2", "smollm2")])
def test_the_page_says_what_was_measured(result: Any, heading: str, part: str) -> None:
    pages = (HERE / "README.md").read_text().split(f"## {heading}\n", 1)
    assert (len(pages) > 1) == (part in result)
    if part in result:
        below = pages[1].split("\n## ", 1)[0]
        assert [line for line in below.splitlines() if line.startswith("|")][2:] == table(result[part])


def test_the_figure_is_there_and_small() -> None:
    drawn = (HERE / "figure.svg").read_text()
    assert "<svg" in drawn
    assert len(drawn) < 200_000
