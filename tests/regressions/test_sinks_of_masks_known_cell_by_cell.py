"""Which key "hide the sink" hides: the first that is seen, for masks that say nothing of stretches, too."""

from __future__ import annotations

import pytest
import torch

import headwise as hw
from headwise.viewer import Scene

KEEP = torch.arange(9).expand(2, -1) >= torch.tensor([[0], [3]])
CELLS = (KEEP[:, None, :] & (torch.arange(9)[:, None] >= torch.arange(9)))[:, None]


@pytest.mark.parametrize(
    "mask",
    [hw.Dense(CELLS), hw.Causal() & hw.Rule(lambda b, h, i, j: j >= 3 * b), hw.Causal() & hw.Padding(KEEP)],
    ids=["dense", "rule", "padding"],
)
def test_the_sink_is_the_first_key_that_is_seen(mask: hw.spec.Mask) -> None:
    x = torch.randn(2, 1, 9, 4)
    (layer,) = Scene.of({"run": {"layers.0.attn": hw.Pattern(x, x, mask=mask)}}).describe()["layers"]
    assert layer["sink"] == [0, 3]
