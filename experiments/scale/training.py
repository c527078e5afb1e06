"""A small Transformer learns to reverse strings: with the scale, without it, and without it from the same start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

import headwise as hw

__all__ = ["ARMS", "Arm", "Recipe", "reverser", "train"]

Arm = Literal["scaled", "unscaled", "unscaled, small start"]
#: Scores times 1/sqrt(d_k); scores as they are; and scores as they are with the first query weights times 1/sqrt(d_k),
#: which computes at the start what "scaled" computes.
ARMS: tuple[Arm, ...] = ("scaled", "unscaled", "unscaled, small start")
LETTERS = 26  #: token 0 is the start, the letters follow.


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training, beside arm, width and seed.

    Attributes:
        d_model: M. One head in every attention, of any width.
        d_ff: width of the feed-forward layers.
        length: letters in a string.
        batch: strings in a step, new ones each time.
        steps: of Adam with the betas of the paper.
        rate: learning rate after ``warmup`` steps of a linear rise.
        warmup: steps.
        every: steps between two looks.
    """

    d_model: int = 64
    d_ff: int = 128
    length: int = 12
    batch: int = 32
    steps: int = 500
    rate: float = 1e-3
    warmup: int = 100
    every: int = 50


def reverser(recipe: Recipe, d_k: int, arm: Arm, seed: int) -> hw.nn.Transformer:
    """An untrained model, one layer of encoder and of decoder, norms as in the paper, the same weights in each arm."""
    torch.manual_seed(seed)
    scale = None if arm == "scaled" else 1.0
    config = hw.nn.AttentionConfig(recipe.d_model, heads=1, head_dim=d_k, scale=scale)
    model = hw.nn.Transformer(1 + LETTERS, config, layers=1, d_ff=recipe.d_ff)
    if arm == "unscaled, small start":
        with torch.no_grad():
            for part in model.modules():
                if isinstance(part, hw.MultiHeadAttention):
                    for weight in part.q_proj.parameters():
                        weight.mul_(d_k**-0.5)
    return model


def train(recipe: Recipe, d_k: int, arm: Arm, seed: int) -> list[dict[str, float]]:
    """One training.

    Returns:
        A row a look: ``step``, ``loss`` on strings that are never trained on (nats a letter; chance is log 26), and
        ``entropy``, the mean over the rows of the three attentions as a share of the most that each row can have.
    """
    model = reverser(recipe, d_k, arm, seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=recipe.rate, betas=(0.9, 0.98), eps=1e-9)
    rise = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: min(1.0, (step + 1) / recipe.warmup))
    random, kept = torch.Generator().manual_seed(seed), torch.Generator().manual_seed(10_000)
    held_out, rows = _strings(recipe, 128, kept), []
    for step in range(recipe.steps + 1):
        if step % recipe.every == 0:
            rows.append({"step": step, **_look(model, held_out)})
        loss = _loss(model, _strings(recipe, recipe.batch, random))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        rise.step()
    return rows


def _strings(recipe: Recipe, number: int, random: torch.Generator) -> Tensor:
    return torch.randint(1, 1 + LETTERS, (number, recipe.length), generator=random)


def _loss(model: hw.nn.Transformer, strings: Tensor) -> Tensor:
    target = strings.flip(1)
    read = torch.cat((torch.zeros_like(target[:, :1]), target[:, :-1]), 1)
    return nn.functional.cross_entropy(model(strings, read).flatten(0, 1), target.flatten())


@torch.no_grad()
def _look(model: hw.nn.Transformer, strings: Tensor) -> dict[str, float]:
    """Loss and entropy on the same strings."""
    shares: list[Tensor] = []

    def look(module: hw.MultiHeadAttention, args: Any, options: Any) -> None:
        seen = module.attend(*args, **options, observe=[hw.Entropy()]).seen["entropy"]  # [B,1,T]
        causal = module in {layer.self_attn for layer in model.decoder.layers}
        visible = torch.arange(1, seen.shape[-1] + 1) if causal else torch.full((seen.shape[-1],), strings.shape[1])
        shares.append((seen / visible.log())[..., visible > 1].mean())

    parts = [part for part in model.modules() if isinstance(part, hw.MultiHeadAttention)]
    hooks = [part.register_forward_pre_hook(look, with_kwargs=True) for part in parts]
    try:
        loss = _loss(model, strings)
    finally:
        for hook in hooks:
            hook.remove()
    return {"loss": round(float(loss), 4), "entropy": round(float(torch.stack(shares).mean()), 4)}
