"""The pruning experiment: its pieces on tiny models, and its page beside its numbers."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from experiments.pruning import speed
from experiments.pruning.encoder import agreement
from experiments.pruning.language import drawn, losses, rise
from experiments.pruning.page import at, tables
from experiments.pruning.trained import gates
from experiments.pruning.windows import batched, stretches
from experiments.texts import Document
from transformers import LlamaConfig, LlamaForCausalLM

import headwise as hw

HERE = Path(__file__).parents[2] / "experiments" / "pruning"


def tiny() -> Any:
    """A sharpened Llama of 2 layers, 4 query heads and 2 key/value heads."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=48,
        max_position_embeddings=64,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 2:
                weight.mul_(8)
    return hw.use(model)


def characters(text: str, truncation: bool, max_length: int) -> dict[str, list[int]]:
    assert truncation
    return {"input_ids": [ord(letter) for letter in text][:max_length]}


def test_stretches_begin_with_a_line_of_the_second_half_and_are_whole() -> None:
    documents = [
        Document("long", "first half\nfirst half\n" + "a" * 20 + "\nabcdef and more than that, by far"),
        Document("short", "some words\nfew"),
        Document("other", "x" * 70 + "\nghijkl and more than this line needs, so that half is less\n"),
    ]
    found = stretches(characters, documents, 2, 6)
    assert ["".join(map(chr, row)) for row in found.tolist()] == ["abcdef", "ghijkl"]
    with pytest.raises(ValueError, match="2 documents have 6 tokens"):
        stretches(characters, documents, 3, 6)
    assert [len(batch["input_ids"]) for batch in batched(found.repeat(3, 1), 4)] == [4, 2]


def test_losses_are_of_each_window_and_a_rise_is_their_paired_difference() -> None:
    model = tiny()
    windows = torch.randint(0, 48, (6, 12), generator=torch.Generator().manual_seed(1))
    whole = losses(model, windows)
    with torch.no_grad():
        one_by_one = [float(model(input_ids=row[None], labels=row[None]).loss) for row in windows]
    assert whole.tolist() == pytest.approx(one_by_one, rel=1e-5)

    told = rise(model, windows, whole, {"model.layers.1.self_attn": [1, 2]})
    with torch.no_grad():  # by hand: the columns of W_O that read these heads, 8 wide
        model.model.layers[1].self_attn.o_proj.weight[:, 8:24] = 0
        more = torch.tensor([float(model(input_ids=row[None], labels=row[None]).loss) for row in windows]) - whole
    assert abs(float(more.mean())) > 0.05
    assert told["removed"] == 2
    assert told["nats"] == pytest.approx(float(more.mean()), abs=1e-4)
    assert told["error"] == pytest.approx(float(more.std()) / math.sqrt(6), abs=1e-4)
    assert told["perplexity_ratio"] == pytest.approx(math.exp(float(more.mean())), rel=1e-3)


def test_gates_say_what_they_closed_and_what_that_costs() -> None:
    model = tiny()
    weigh, measure = torch.randint(0, 48, (2, 6, 64), generator=torch.Generator().manual_seed(1)).unbind()
    free, dear = gates(model, weigh, measure, (1e-6, 50.0), 60, lambda _: None)
    assert (free["penalty"], dear["removed"], dear["share"]) == (1e-6, 8, 1.0)
    assert free["removed"] < 8
    whole = losses(model, measure)
    every = rise(model, measure, whole, {site: [0, 1, 2, 3] for site in hw.sites(model)})
    assert abs(every["nats"]) > 0.01
    assert dear["loss"] == pytest.approx(float(whole.mean()) + every["nats"], abs=1e-3)


def test_random_orders_differ_by_seed_alone() -> None:
    shape = torch.ones(3, 4)
    assert torch.equal(drawn(shape, 1), drawn(shape, 1))
    assert not torch.equal(drawn(shape, 1), drawn(shape, 2))


def test_agreement_is_a_rank_correlation_over_pairs_of_different_passages() -> None:
    angles = torch.tensor([0.0, 0.1, 0.3, 0.7, 1.5])
    then = torch.stack([angles.cos(), angles.sin()], 1)
    wider = torch.stack([(2 * angles).cos(), (2 * angles).sin()], 1)  # all pairs stay in order
    assert agreement(wider, then) == pytest.approx(1)
    now = then[[4, 1, 2, 3, 0]]
    pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]

    def ranks(x: torch.Tensor) -> list[int]:
        cosines = [float(x[i] @ x[j]) for i, j in pairs]
        return [sum(other < one for other in cosines) for one in cosines]

    squares = sum((a - b) ** 2 for a, b in zip(ranks(now), ranks(then), strict=True))
    assert agreement(now, then) == pytest.approx(1 - 6 * squares / (10 * 99))


def test_speed_is_the_ratio_of_medians_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, pruned = tiny(), tiny()
    clock = [0.0]
    monkeypatch.setattr(speed.time, "process_time", lambda: clock[0])
    order = []

    def takes(name: str, seconds: list[float]) -> Any:
        def hook(*_: Any) -> None:
            clock[0] += seconds[0]
            order.append(name)
            seconds.append(seconds.pop(0))

        return hook

    for name, model, attention in (("whole", whole, [9.0, 4.0, 6.0, 5.0]), ("pruned", pruned, [9.0, 2.0, 3.0, 2.5])):
        model.model.layers[0].self_attn.q_proj.register_forward_hook(takes(name, attention))
        model.model.layers[0].mlp.register_forward_hook(takes(name, [1.0]))
    told = speed.compared(whole, pruned, torch.arange(8)[None], rounds=3)
    assert order[::2] == ["whole", "pruned"] * 4
    assert told["attention"] == {"whole": 5.0, "pruned": 2.5, "ratio": 2.0, "range": [2.0, 2.0]}
    assert told["model_time"] == {"whole": 6.0, "pruned": 3.5, "ratio": 1.714, "range": [1.667, 1.75]}
    assert (told["batch"], told["tokens"], told["rounds"]) == (1, 8, 3)


def test_a_group_goes_with_the_last_head_that_reads_it() -> None:
    model = tiny()
    assert speed.groups_left(model) == [(4, 2), (4, 2)]
    assert speed.groups_left(hw.prune(model, {0: [0, 1], 1: [0, 2]})) == [(2, 1), (2, 2)]


@pytest.fixture(scope="module")
def result() -> Any:
    return json.loads((HERE / "result.json").read_text())


@pytest.mark.parametrize("heading", ["SmolLM2", "MiniLM", "Gates", "Speed"])
def test_the_page_says_what_was_measured(result: Any, heading: str) -> None:
    below = (HERE / "README.md").read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in below.splitlines() if line.startswith("|")]
    heads = {at for rule in range(len(lines)) if lines[rule].startswith("|---") for at in (rule - 1, rule)}
    assert [line for at, line in enumerate(lines) if at not in heads] == tables(result)[heading]


def test_a_loss_between_two_points_lies_on_their_line() -> None:
    rows = [{"share": 0.0, "loss": 1.0}, {"share": 0.2, "loss": 2.0}, {"share": 0.4, "loss": 6.0}]
    assert [at(rows, share) for share in (0.0, 0.1, 0.2, 0.35)] == pytest.approx([1.0, 1.5, 2.0, 5.0])


def test_the_figure_is_there_and_small() -> None:
    drawn_ = (HERE / "figure.svg").read_text()
    assert "<svg" in drawn_
    assert len(drawn_) < 200_000
