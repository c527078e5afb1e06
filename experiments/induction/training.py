"""Training an attention-only transformer, and measuring it on the way."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import headwise as hw
from experiments.induction.contexts import SHORT, Contexts
from experiments.induction.measures import Ruler, composition_of_keys

__all__ = ["Recipe", "attention_only", "train"]


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a training, beside its text.

    Attributes:
        width: of the residual stream, M.
        heads: of each layer; a head is width / heads wide.
        vocabulary: tokens.
        context: tokens in a context.
        batch: contexts in a step.
        steps: of AdamW.
        peak: learning rate after ``warmup`` steps; from there a cosine to a tenth of it.
        warmup: steps.
        decay: weight decay of matrices; norms have none.
        repeats: share of the tokens of a step in contexts that repeat a span, see `Contexts.spans`; 0 = only text as it
            stands.
        seed: of weights and batches.
    """

    width: int = 192
    heads: int = 6
    vocabulary: int = 1024
    context: int = 512
    batch: int = 8
    steps: int = 2000
    peak: float = 2e-3
    warmup: int = 100
    decay: float = 0.01
    repeats: float = 0.5
    seed: int = 0

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        if step < self.warmup:
            return self.peak * (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.peak * (0.55 + 0.45 * math.cos(math.pi * done))

    def looks(self) -> list[int]:
        """The steps before which the model is measured: powers of two, then every 50, from 1000 on every 200."""
        doubled = [0, *(1 << power for power in range(6))]
        regular = [*range(50, 1000, 50), *range(1000, self.steps, 200), self.steps]
        return sorted({step for step in (*doubled, *regular) if step <= self.steps})


def attention_only(recipe: Recipe, layers: int) -> Any:
    """A Llama whose MLPs are zero wide: norm, attention with rotary embedding, and nothing else in a layer.

    All embeddings begin with one random vector in common. Rotary embedding alone cannot prefer a distance: queries and
    keys need a direction that does not depend on the token. Layer 1 is given one by what layer 0 adds; layer 0 has to
    find one, and without a common vector was slow at it (README.md).
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=recipe.vocabulary,
        hidden_size=recipe.width,
        intermediate_size=0,
        num_hidden_layers=layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        max_position_embeddings=recipe.context,
        tie_word_embeddings=False,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    torch.manual_seed(recipe.seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Initializing zero-element tensors is a no-op", category=UserWarning)
        model = LlamaForCausalLM(config)
    with torch.no_grad():
        model.model.embed_tokens.weight += config.initializer_range * torch.randn(recipe.width)
    return model


def train(
    recipe: Recipe, layers: int, contexts: Contexts, ruler: Ruler, say: Callable[[str], None]
) -> tuple[Any, list[dict[str, Any]]]:
    """Trains one model through headwise's attention, forward and backward under bfloat16 autocast, weights float32.

    Args:
        recipe: sizes, steps and seed; the same batches come for each number of layers.
        layers: 1 or 2.
        contexts: to draw batches from.
        ruler: what is measured, under the same autocast.
        say: is told a line at each measurement.

    Returns:
        The model, not in use any more, and one row a measurement: tokens seen and what `Ruler.measure` gives, with
        ``k_composition`` [H of layer 1, H of layer 0] (chance not yet subtracted) where there are two layers.
    """
    model = hw.use(attention_only(recipe, layers))
    matrices = [weight for weight in model.parameters() if weight.dim() > 1 and weight.numel()]
    gains = [weight for weight in model.parameters() if weight.dim() == 1]
    groups = [{"params": matrices, "weight_decay": recipe.decay}, {"params": gains, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=recipe.peak, betas=(0.9, 0.98), fused=True)
    generator = torch.Generator().manual_seed(recipe.seed)
    looks, rows, spent = set(recipe.looks()), [], 0.0
    for step in range(recipe.steps + 1):
        if step in looks:
            rows.append(_look(model, ruler, step, recipe))
            say(_line(layers, rows[-1], spent))
        if step == recipe.steps:
            break
        began = time.perf_counter()
        for group in optimiser.param_groups:
            group["lr"] = recipe.rate(step)
        _step(model, optimiser, _batches(recipe, contexts, generator))
        spent += time.perf_counter() - began
    return hw.restore(model), rows


def _batches(recipe: Recipe, contexts: Contexts, generator: torch.Generator) -> list[Tensor]:
    """The contexts of a step: documents as they stand, and repeated spans, each where there are any."""
    repeated = round(recipe.repeats * recipe.batch)
    found = [contexts.draw(recipe.batch - repeated, generator)] if repeated < recipe.batch else []
    return [*found, contexts.spans(repeated * recipe.context // SHORT, generator)] if repeated else found


def _step(model: Any, optimiser: torch.optim.Optimizer, batches: list[Tensor]) -> None:
    """One step on the mean loss of all tokens of all batches."""
    tokens = sum(ids[:, 1:].numel() for ids in batches)
    for ids in batches:
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(input_ids=ids, use_cache=False).logits
        told = logits[:, :-1].float().flatten(0, 1)
        (nn.functional.cross_entropy(told, ids[:, 1:].flatten(), reduction="sum") / tokens).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    optimiser.zero_grad()


def _look(model: Any, ruler: Ruler, step: int, recipe: Recipe) -> dict[str, Any]:
    with torch.autocast("cpu", torch.bfloat16):
        row = {"step": step, "tokens": step * recipe.batch * recipe.context, **ruler.measure(model)}
    if model.config.num_hidden_layers > 1:
        row["k_composition"] = [[round(float(x), 4) for x in line] for line in composition_of_keys(model)]
    return row


def _line(layers: int, row: dict[str, Any], spent: float) -> str:
    best = [max(line) for line in row["prefix_matching"]]
    before = [max(line) for line in row["previous_token"]]
    return (
        f"{layers} layers, step {row['step']:5}, {row['tokens'] / 1e6:6.2f} M tokens: loss {row['loss']:.3f}, "
        f"ICL {row['icl']:+.3f}, repeated {row['first_loss']:.2f} -> {row['repeated_loss']:.2f}, "
        f"prefix {' '.join(f'{x:.2f}' for x in best)}, previous {' '.join(f'{x:.2f}' for x in before)}, {spent:.0f} s"
    )
