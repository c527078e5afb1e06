"""A difference of two runs, one of which looks ahead: nothing is cut off, hidden or of another length."""

from __future__ import annotations

import torch

import headwise as hw
from headwise.viewer import Answers, Scene

Q = torch.randn(1, 2, 90, 8)
ONE, OTHER = hw.Pattern(Q, Q, mask=hw.Causal()), hw.Pattern(Q, Q)


def test_their_profiles_have_one_length() -> None:
    answers = Answers(Scene.of({"causal": {"layers.0.attn": ONE}, "full": {"layers.0.attn": OTHER}}))
    meta = answers.answer("profile", {"run": 1, "minus": 0, "layer": 0, "head": 0, "b": 0}).meta
    assert len(meta["offsets"]) == meta["after"] + meta["limit"] + 1
    wanted = OTHER.offsets(meta["limit"], meta["after"])[0, 0] - ONE.offsets(meta["limit"], meta["after"])[0, 0]
    torch.testing.assert_close(torch.tensor(meta["offsets"]), wanted)


def test_no_cell_of_either_is_called_hidden() -> None:
    (layer,) = Scene.of({"causal": {"layers.0.attn": ONE}, "full": {"layers.0.attn": OTHER}}).describe()["layers"]
    assert not layer["edged"] and not layer["causal"]


def test_a_chunk_of_a_prompt_is_no_second_text() -> None:
    chunk = hw.Pattern(Q[:, :, :3], Q[:, :, :9], mask=hw.Causal(), q_start=6)
    for tokens in (None, ["a", "b", "c"]):
        (layer,) = Scene.of({"run": {"layers.0.attn": chunk}}, tokens=tokens).describe()["layers"]
        assert layer["kind"] == "self" and layer["start"] == [6]
