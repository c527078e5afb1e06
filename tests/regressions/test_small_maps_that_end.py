"""A page asks for small maps until it is told that they are done: they must end, and never be told done too early."""

from __future__ import annotations

import pytest
import torch

import headwise as hw
from headwise.viewer import Answers, Scene
from headwise.viewer import answers as module


def pattern(seed: int = 0, T: int = 300) -> hw.Pattern:
    made = torch.Generator().manual_seed(seed)
    x = torch.randn(3, 2, T, 8, generator=made)
    return hw.Pattern(x, x, mask=hw.Causal())


def shower(**runs: hw.Pattern) -> Answers:
    return Answers(Scene.of({name: {"layers.0.attn": one} for name, one in runs.items()}))


def grown(answers: Answers, **ask: int) -> None:
    answers.answer("overview", {"run": 0, "b": 0, "since": 0, **ask})
    while answers.work():
        pass


def test_a_pattern_that_was_overwritten_ends_the_work() -> None:
    broken = pattern()
    answers = shower(run=broken)
    answers.answer("overview", {"run": 0, "b": 0, "since": 0})
    broken.q.zero_()
    for _ in range(5):
        answers.work()
    meta = answers.answer("overview", {"run": 0, "b": 0, "since": 0}).meta
    assert meta["done"] and meta["exact"] == 0


def test_maps_that_were_let_go_go_on_counting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "OVERVIEWS", 1)
    answers = shower(run=pattern())
    grown(answers)
    seen = answers.answer("overview", {"run": 0, "b": 0, "since": 0}).meta["version"]
    grown(answers, b=1)  # and those of row 0 are gone
    again = answers.answer("overview", {"run": 0, "b": 0, "since": seen}).meta
    assert not again["done"] and again["heads"] == []
    grown(answers)
    last = answers.answer("overview", {"run": 0, "b": 0, "since": seen}).meta
    assert last["done"] and len(last["heads"]) == 2


def test_a_difference_sends_each_map_once_and_when_either_changes() -> None:
    one, other = pattern(1), pattern(2)
    answers = shower(one=one, other=other)
    ask = {"run": 0, "minus": 1, "b": 0}
    since, sent = 0, []
    for _ in range(200):
        meta = answers.answer("overview", {**ask, "since": since}).meta
        sent += [(head["head"], head["exact"]) for head in meta["heads"]]
        since = meta["version"]
        if meta["done"]:
            break
        answers.work()
    assert sent.count((0, True)) == sent.count((1, True)) == 1
    assert answers.answer("overview", {**ask, "since": since}).meta["heads"] == []
    found = answers.answer("overview", {**ask, "since": 0})
    wanted = (one.map(32, 32) - other.map(32, 32)).abs()[0]
    for codes, head in zip(found.data, found.meta["heads"], strict=True):
        shown = head["scale"] * (codes.double() / 255) ** 2
        assert (shown - wanted[head["head"]]).abs().max() <= head["scale"] / 255 + 1e-6
