"""Dilated windows, which the kernels cut into classes of positions: the same numbers, whoever asks for what."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import headwise as hw
from headwise.backends.native.classes import classes
from headwise.plan import make_plan
from headwise.spec import AttentionSpec

MASKS = {
    "dilated": hw.masks.dilated(3, 2),
    "both ways": hw.masks.dilated(2, 3, 1),
    "causal": hw.Causal() & hw.Strided(3),
    "odd window": hw.Strided(4) & hw.Window(9, 0) & hw.Causal(),
}
SIZES = [(256, 256, None), (259, 301, None), (263, 7, None), (257, 257, 50), (261, 100, -13), (256, 90, 300)]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("name", list(MASKS))
def test_classes_are_the_mask(name: str, sizes: tuple[int, int, int | None]) -> None:
    T, S, q_start = sizes
    torch.manual_seed(0)
    q, k, v = torch.randn(1, 4, T, 16), torch.randn(1, 2, S, 16), torch.randn(1, 2, S, 8)
    options: dict[str, Any] = {"mask": MASKS[name], "q_start": q_start}
    spec = AttentionSpec(**options)
    plan = make_plan("test", q, k, v, spec)
    if bool((plan.spec.mask.keep(plan.geometry.whole())).any()):  # type: ignore[union-attr]
        assert classes(plan), "what is not cut is not tested"
    for more in ({}, {"sinks": torch.ones(4), "scores": (hw.SoftCap(2.0),)}):
        wide = {n: x.double() if isinstance(x, torch.Tensor) else x for n, x in more.items()}
        exact = hw.attend(q.double(), k.double(), v.double(), backend="reference", **options, **wide)
        leaf = q.clone().requires_grad_()
        found = hw.attend(leaf, k, v, backend="native", **options, **more)
        torch.testing.assert_close(found.out.double(), exact.out, atol=1e-5, rtol=0)
        torch.testing.assert_close(found.lse.double(), exact.lse, atol=1e-5, rtol=0)
        asked = hw.attend(q, k, v, backend="native", observe=[hw.Entropy(), hw.Received()], **options, **more)
        assert torch.equal(asked.out, found.out), "observing changed the output"
        assert torch.equal(hw.attention(q, k, v, backend="native", **options, **more), found.out)
        want = exact.pattern.entropy()
        torch.testing.assert_close(asked.seen["entropy"].double(), want, atol=1e-5, rtol=0)
        found.out.square().sum().backward()
        again = q.double().requires_grad_()
        hw.attention(again, k.double(), v.double(), backend="reference", **options, **wide).square().sum().backward()
        torch.testing.assert_close(leaf.grad.double(), again.grad, atol=1e-4, rtol=1e-4)  # type: ignore[union-attr]


def test_what_tells_positions_apart_is_not_cut() -> None:
    q = torch.randn(1, 2, 256, 4)
    assert classes(make_plan("test", q, q, q, AttentionSpec(mask=hw.masks.dilated(2, 2))))
    few = q[:, :, :100]
    assert not classes(make_plan("test", few, q, q, AttentionSpec(mask=hw.masks.dilated(2, 2))))
    for options in (
        {"mask": hw.Strided(1) & hw.Causal()},
        {"mask": hw.Strided(2) | hw.Causal()},
        {"mask": hw.Strided(2) & hw.Documents(torch.zeros(256, dtype=torch.long))},
        {"mask": hw.Strided(2) & hw.Causal(align="start")},
        {"mask": hw.masks.dilated(2, 2), "scores": (hw.Alibi(torch.ones(2)),)},
        {"mask": hw.masks.dilated(2, 2), "dropout": 0.5},
        {"mask": hw.masks.dilated(2, 2), "q_start": torch.tensor([0])},
    ):
        assert not classes(make_plan("test", q, q, q, AttentionSpec(**options)))  # type: ignore[arg-type]
