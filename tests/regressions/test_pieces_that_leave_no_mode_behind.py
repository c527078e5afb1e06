"""Work in pieces stops between them in the middle of a function: no mode of torch may stay switched there."""

from __future__ import annotations

import pytest
import torch

import headwise as hw
from headwise.backends import observing
from headwise.viewer import Answers, Scene


@pytest.mark.parametrize("mask", [hw.Causal(), hw.Rule(lambda b, h, i, j: j <= i)], ids=["kernels", "portable"])
def test_gradients_stay_as_they_were(monkeypatch: pytest.MonkeyPatch, mask: hw.spec.Mask) -> None:
    monkeypatch.setattr(observing, "AT_ONCE", 1)
    monkeypatch.setattr(observing, "LEAST", 8)
    q = torch.randn(1, 2, 600, 8)
    pattern = hw.Pattern(q, q, mask=mask)
    for _ in pattern.settling(heads=slice(0, 1)):
        assert torch.is_grad_enabled()
    answers = Answers(Scene.of({"run": {"layers.0.attn": hw.Pattern(q, q, mask=mask)}}))
    answers.answer("overview", {"run": 0, "b": 0, "since": 0})
    while answers.work():
        assert torch.is_grad_enabled()


def test_an_interrupt_costs_one_piece() -> None:
    q = torch.randn(1, 2, 600, 8)
    answers = Answers(Scene.of({"run": {"layers.0.attn": hw.Pattern(q, q, mask=hw.Causal())}}))
    answers.answer("overview", {"run": 0, "b": 0, "since": 0})
    (overview,) = answers._overviews.values()
    answers.work()

    def interrupted() -> None:
        raise KeyboardInterrupt

    overview._pieces = (interrupted() for _ in range(1))
    with pytest.raises(KeyboardInterrupt):
        answers.work()
    while answers.work():
        pass
    assert answers.answer("overview", {"run": 0, "b": 0, "since": 0}).meta["exact"] == 2
