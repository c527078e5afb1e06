"""The absorbed form of latent attention read kv_b_proj's weight past pruning, which makes it anew in a hook before each
call; and an in-place rotation wrote over what a wrapped projection had kept."""

import pytest
import torch
from torch import Tensor
from torch.nn.utils import prune

import headwise as hw
from headwise.nn import LatentAttention, Rotary


def test_pruned_weights_are_those_of_the_call() -> None:
    layer = LatentAttention(24, 8, kv_rank=8, nope_dim=16, rope_dim=2, v_dim=16).eval()
    x = torch.randn(1, 1, 24)
    with torch.no_grad():
        assert layer._absorbs(1, 100)
        prune.l1_unstructured(layer.kv_b_proj, "weight", amount=0.5)
        assert not layer._absorbs(1, 100)
        before = layer(x)
        layer.kv_b_proj.weight_orig.mul_(3)
        assert not torch.allclose(layer(x), before)
        layer.form = "absorbed"
        with pytest.raises(
            hw.SpecError, match=r"form is 'absorbed', and kv_b_proj, a Linear, is wrapped, quantised or has hooks"
        ):
            layer(x)


def test_a_projection_that_was_wrapped_keeps_what_it_kept() -> None:
    layer = hw.MultiHeadAttention(12, 2, rotary=Rotary()).eval()
    kept: list[Tensor] = []
    own = layer.q_proj.forward

    def wrapped(x: Tensor) -> Tensor:
        kept.append(own(x))
        return kept[-1]

    layer.q_proj.forward = wrapped  # type: ignore[method-assign]  # as accelerate's hooks do
    x = torch.randn(1, 5, 12)
    with torch.no_grad():
        layer(x)
        assert torch.equal(kept[0], own(x))
