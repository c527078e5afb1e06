"""The experiment on the scale: its measures against the textbook, its arms, and its page against its numbers."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from experiments.scale import run as experiment
from experiments.scale.starting import MEASURES, measured, start
from experiments.scale.training import ARMS, Arm, Recipe, reverser, train

import headwise as hw

HOME = Path(experiment.__file__).parent
TINY = replace(Recipe(), d_model=16, d_ff=16, length=4, batch=8, steps=4, every=2, warmup=2)


@pytest.mark.parametrize("scale", [None, 1.0])
def test_measures_are_the_textbook_s(scale: float | None) -> None:
    torch.manual_seed(0)
    q, k, v, back = (torch.randn(1, 1, *shape).double() for shape in ((3, 6), (5, 6), (5, 4), (3, 4)))
    found = measured(q, k, v, back, scale)
    assert set(found) == set(MEASURES)
    factor = 6**-0.5 if scale is None else scale
    for i in range(3):
        scores = factor * k[0, 0] @ q[0, 0, i]
        p = scores.exp() / scores.exp().sum()
        to_scores = (torch.diag(p) - torch.outer(p, p)) @ (v[0, 0] @ back[0, 0, i])
        wanted = {
            "score_sd": scores.std(),
            "entropy": -(p * p.log()).sum(),
            "largest": p.max(),
            "score_gradient": to_scores.norm(),
            "query_gradient": (factor * k[0, 0].T @ to_scores).norm(),
        }
        for name, value in wanted.items():
            assert float(found[name][i]) == pytest.approx(float(value), rel=1e-6), name


def test_starts_go_as_the_formula_says() -> None:
    rows = {(row["d_k"], row["scaled"]): row for row in start([16, 256], seeds=2)}
    for d_k in (16, 256):
        assert rows[d_k, True]["score_sd"] == pytest.approx(1.0, abs=0.1)
        assert rows[d_k, False]["score_sd"] == pytest.approx(d_k**0.5, rel=0.1)
    assert rows[256, False]["largest"] > 0.8 > 0.2 > rows[256, True]["largest"]


def test_arms_begin_from_the_same_weights_and_a_small_start_from_the_same_function() -> None:
    made: dict[Arm, hw.nn.Transformer] = {arm: reverser(TINY, 32, arm, seed=1).eval() for arm in ARMS}
    source = torch.randint(1, 27, (2, 4), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        scaled, plain, small = (made[arm](source, source) for arm in ARMS)
    torch.testing.assert_close(small, scaled, rtol=1e-5, atol=1e-5)
    assert float((plain - scaled).abs().max()) > 0.05
    weights = [dict(made[arm].named_parameters()) for arm in ARMS]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_training_repeats_itself_and_its_loss_falls() -> None:
    longer = replace(TINY, steps=60, every=30, warmup=5, rate=3e-3)
    looks = train(longer, 8, "scaled", seed=0)
    assert looks == train(longer, 8, "scaled", seed=0)
    assert [look["step"] for look in looks] == [0, 30, 60]
    assert looks[2]["loss"] < looks[0]["loss"] - 0.2
    assert all(0 < look["entropy"] < 1 for look in looks)


def test_a_flat_pattern_has_all_the_entropy(monkeypatch: pytest.MonkeyPatch) -> None:
    def flat(*sizes: object) -> hw.nn.Transformer:
        model = reverser(*sizes)  # type: ignore[arg-type]
        with torch.no_grad():
            for part in model.modules():
                if isinstance(part, hw.MultiHeadAttention):
                    part.q_proj.weight.zero_()
        return model

    monkeypatch.setattr("experiments.scale.training.reverser", flat)
    assert train(replace(TINY, steps=0), 8, "scaled", 0)[0]["entropy"] == pytest.approx(1.0, abs=1e-4)


def test_when_a_run_has_learnt() -> None:
    def made(seed: int, losses: tuple[float, ...]) -> dict[str, object]:
        looks = [{"step": 50 * at, "loss": loss, "entropy": 0.5} for at, loss in enumerate(losses)]
        return {"d_k": 8, "arm": "scaled", "seed": seed, "looks": looks}

    runs = [made(0, (3.0, 0.09, 0.01)), made(1, (3.0, 3.0, 3.0))]
    runs += [{**made(0, (3.0,)), "arm": arm} for arm in ARMS[1:]]
    row = experiment.summary(runs)[0]
    assert row["learnt_at"] == [50, None]
    assert row["loss"] == [0.01, 3.0]


# What is written down


def rows_of(readme: str, heading: str) -> list[list[str]]:
    """The cells of the table whose head begins with a word."""
    lines = readme.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(f"| {heading}"))
    found = []
    for line in lines[first + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def test_the_page_says_what_the_numbers_say() -> None:
    result = json.loads((HOME / "result.json").read_text())
    readme = (HOME / "README.md").read_text()
    starts = {(row["d_k"], row["scaled"]): row for row in result["starts"]}
    drawn = rows_of(readme, "d_k, at the start")
    assert len(drawn) >= 3
    names = ("score_sd", "entropy", "largest", "score_gradient", "score_gradient_median", "query_gradient",
             "query_gradient_median")  # fmt: skip
    for d_k, scaled, *cells in drawn:
        row = starts[int(d_k), scaled == "yes"]
        assert [float(cell) for cell in cells] == [float(f"{row[name]:.3g}") for name in names], (d_k, scaled)
    trained = rows_of(readme, "d_k, training")
    assert len(trained) == len(result["summary"])
    for (d_k, arm, losses, learnt), row in zip(trained, result["summary"], strict=True):
        assert (int(d_k), arm) == (row["d_k"], row["arm"])
        assert losses == ", ".join(f"{loss:.3f}" for loss in row["loss"])
        assert learnt == ", ".join("never" if step is None else str(step) for step in row["learnt_at"])
    assert experiment.summary(result["runs"]) == result["summary"]
    assert math.isclose(result["learnt_below"], experiment.LEARNT)
    assert 0 < (HOME / "figure.svg").stat().st_size < 200_000
