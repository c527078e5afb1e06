"""Operands were kept beside what torch saves, so checkpointing freed nothing; crossed runs outgrew the written mask."""

import gc
import weakref

import pytest
import torch
from native_here import NATIVE
from torch.utils.checkpoint import checkpoint

import headwise as hw
from headwise.spec import Geometry


@pytest.mark.parametrize("backend", [NATIVE, "sdpa", "blocked", "reference"])
def test_checkpointing_frees_the_operands(backend: str):
    made: list[weakref.ref[torch.Tensor]] = []

    def layer(x: torch.Tensor) -> torch.Tensor:
        k = x * 2
        made.append(weakref.ref(k.untyped_storage()))
        return hw.attention(x, k, x, mask=hw.Causal(), backend=backend)

    x = torch.randn(1, 1, 8, 4, requires_grad=True)
    out = checkpoint(layer, x, use_reentrant=False)
    gc.collect()
    assert made[0]() is None
    out.sum().backward()
    wanted = torch.autograd.grad(layer(x).sum(), x)[0]
    torch.testing.assert_close(x.grad, wanted)


def test_runs_that_are_crossed_or_joined_stay_bounded():
    T = 512
    geometry = Geometry(1, 1, 1, T, T, 4, 4, 0, torch.device("cpu"))
    holes = [hw.Padding((torch.arange(T)[None] % step) > 0) for step in (17, 19, 23)]
    for mask in (holes[0] & holes[1], holes[0] & holes[1] & holes[2], (holes[0] | holes[1]) & (holes[1] | holes[2])):
        found = mask.intervals(geometry)
        lo, _ = found.bounds(slice(0, 1), slice(0, T))
        assert lo.shape[-1] <= found.runs <= 32
        x = torch.zeros(1, 1, T, 4)
        seen = hw.Pattern(x, x, mask=mask)[0, 0, 7] > 0
        assert torch.equal(seen, mask.keep(geometry.whole())[0, 0, 0])


def test_masks_made_in_inference_mode_may_train():
    with torch.inference_mode():
        mask = hw.Padding(torch.tensor([2]))
    x = torch.randn(1, 1, 3, 4, requires_grad=True)
    hw.attention(x, x, x, mask=mask).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_positions_in_a_tensor_have_the_same_range():
    x = torch.zeros(1, 1, 3, 2)
    for q_start in (torch.tensor([2**63 - 2]), torch.tensor(2**62)):
        with pytest.raises(hw.SpecError, match="a position lies between"):
            hw.attention(x, x, x, mask=hw.Causal(), q_start=q_start)


def test_an_observer_that_writes_reaches_no_other_on_the_reference():
    class Vandal:
        def see(self, tile: object) -> None:
            tile.p.zero_()

        def merge(self, other: object) -> None: ...

        def result(self) -> None: ...

    x = torch.zeros(1, 1, 2, 4)
    seen = hw.attend(x, x, x, backend="reference", observe=[Vandal(), hw.Received()]).seen
    assert torch.equal(seen["received"], torch.ones(1, 1, 2))
