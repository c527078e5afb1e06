"""Sizes drawn at random; annotations of jaxtyping, checked by beartype, say which axes have to agree."""

from __future__ import annotations

import pytest
import torch
from beartype import beartype
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import Float, TypeCheckError, jaxtyped
from torch import Tensor

import headwise as hw
from headwise.nn import KVCache


@jaxtyped(typechecker=beartype)
def self_attention(layer: hw.MultiHeadAttention, x: Float[Tensor, "B T M"]) -> Float[Tensor, "B T M"]:
    return layer(x)


@jaxtyped(typechecker=beartype)
def cross_attention(
    layer: hw.MultiHeadAttention, x: Float[Tensor, "B T M"], context: Float[Tensor, "B S C"], heads: Float[Tensor, H]
) -> tuple[
    Float[Tensor, "B T M"],
    Float[Tensor, "B H T"],
    Float[Tensor, "B H T"],
    Float[Tensor, "B H S"],
    Float[Tensor, "B H T S"],
]:
    got = layer.attend(x, context, observe=[hw.Entropy(), hw.Received()])
    return got.out, got.lse, got.seen["entropy"], got.seen["received"], got.pattern.to_dense()


@jaxtyped(typechecker=beartype)
def cached(
    cache: KVCache, k: Float[Tensor, "B Hk N D"], v: Float[Tensor, "B Hk N E"]
) -> tuple[Float[Tensor, "B Hk S D"], Float[Tensor, "B Hk S E"]]:
    return cache.append(k, v)


sizes = st.integers(1, 6)


@settings(deadline=None, max_examples=30)
@given(B=sizes, T=sizes, S=sizes, D=sizes, G=st.integers(1, 3), Hk=st.integers(1, 3), M=sizes, C=sizes)
def test_axes_agree(B: int, T: int, S: int, D: int, G: int, Hk: int, M: int, C: int) -> None:
    x, context = torch.randn(B, T, M), torch.randn(B, S, C)
    self_attention(hw.MultiHeadAttention(M, G * Hk, Hk, D), x)
    cross_attention(hw.MultiHeadAttention(M, G * Hk, Hk, D, kdim=C), x, context, torch.zeros(G * Hk))
    cache = KVCache()
    for n in (T, S):
        cached(cache, torch.randn(B, Hk, n, D), torch.randn(B, Hk, n, M))


def test_the_check_can_fail() -> None:
    @jaxtyped(typechecker=beartype)
    def wrong(x: Float[Tensor, "B T M"]) -> Float[Tensor, "B M T"]:
        return x

    with pytest.raises(TypeCheckError):
        wrong(torch.zeros(2, 3, 4))
