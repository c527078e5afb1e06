"""A model whose queries see the first tokens and the last ones, as StreamingLLM's cache holds them, in one forward."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

import headwise as hw

__all__ = ["Kept", "attended", "losses", "seeing"]

_NAME = "experiments.sinks"


@dataclass(frozen=True)
class Kept:
    """Which keys a query sees, and at which positions.

    Attributes:
        recent: how many of the last tokens, the query's own included; None = all.
        sinks: how many of the first tokens beside them.
        positions: that the rotary embedding sees. "cache": a key stands where it lies in a cache of sinks + recent
            places and the query at its end, as in the paper, so that no distance is longer than the cache. "text":
            everything stands where it stands in the text, so that the distance to the first tokens grows without end.
            Without sinks the two are the same, since scores depend on differences of positions alone.
    """

    recent: int | None = None
    sinks: int = 0
    positions: Literal["cache", "text"] = "cache"

    @property
    def name(self) -> str:
        """As the paper writes it, "4+1020"."""
        if self.recent is None:
            return "dense"
        return f"{self.sinks}+{self.recent}" + (", positions of the text" if self.positions == "text" else "")


def attended(q: Tensor, k: Tensor, v: Tensor, kept: Kept, rotary: hw.nn.Rotary, scale: float | None = None) -> Tensor:
    """Attention of a whole text to what is kept at each token.

    A cache that is fed token by token turns its keys again at every step. Here the query turns instead: once the cache
    is full, the query of token i meets the first keys at the cache's last position, c = sinks + recent - 1, and the
    last keys at i, where differences are what they are in the cache. Heads of twice the width hold both: queries
    [q at i | q at c], last keys [k | 0], first keys [0 | k].

    Args:
        q: [B,H,T,D], turned by the positions 0 .. T-1.
        k: [B,Hk,T,D], likewise.
        v: [B,Hk,T,E].
        kept: what is seen.
        rotary: what q and k were turned with.
        scale: None = 1/sqrt(D).

    Returns:
        [B,H,T,E].
    """
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if kept.recent is None:
        return hw.attention(q, k, v, mask=hw.Causal(), scale=scale)
    mask = hw.masks.streaming(kept.sinks, kept.recent)
    if not kept.sinks or kept.positions == "text":
        return hw.attention(q, k, v, mask=mask, scale=scale)
    places = torch.arange(q.shape[2])
    turned = rotary.rotate(q, places.clamp(max=kept.sinks + kept.recent - 1) - places)
    nothing = torch.zeros_like(k)
    first, last = torch.cat((nothing, k), -1), torch.cat((k, nothing), -1)
    keys = torch.cat((first[:, :, : kept.sinks], last[:, :, kept.sinks :]), 2)
    return hw.attention(torch.cat((q, turned), -1), keys, v, mask=mask, scale=scale)


@contextlib.contextmanager
def seeing(model: Any, kept: Kept) -> Iterator[None]:
    """A model of the Llama kind whose attention sees what is kept, for the duration; whole texts, no cache."""
    from transformers import AttentionInterface

    rotary = hw.nn.Rotary.from_config(model.config)

    def attention(module: Any, q: Tensor, k: Tensor, v: Tensor, mask: None, **options: Any) -> tuple[Tensor, None]:
        return attended(q, k, v, kept, rotary, options["scaling"]).transpose(1, 2), None

    before = model.config._attn_implementation
    AttentionInterface.register(_NAME, attention)  # no mask function of this name: the model makes none
    model.set_attn_implementation(_NAME)
    try:
        yield
    finally:
        model.set_attn_implementation(before)


@torch.no_grad()
def losses(model: Any, ids: Tensor, kept: Kept) -> Tensor:
    """How badly each token is foretold from what is kept before it.

    Args:
        model: of the Llama kind, in eval mode, not in use.
        ids: [T+1], a text.
        kept: what is seen.

    Returns:
        [T], -log p of token i + 1 as the query at i foretells it, nats.
    """
    with seeing(model, kept):
        states = model.model(input_ids=ids[None, :-1], use_cache=False).last_hidden_state[0]
    parts = zip(states.split(512), ids[1:].split(512), strict=True)  # all logits at once would be gigabytes
    told = [torch.nn.functional.cross_entropy(model.lm_head(x), y, reduction="none") for x, y in parts]
    return torch.cat(told)
