"""Grouped-query conversion: several key/value heads become one, and a short training lets the model get used to it."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from headwise.errors import SpecError, UnsupportedError, sentence
from headwise.heads.batches import as_batches, ids_of, in_mode, next_tokens, run, trainable
from headwise.models.projections import Part, Projections, kept_heads, projections
from headwise.models.pruned import FIELD
from headwise.models.sites import find_sites, refuse_if_outside, whole
from headwise.models.surgery import Change, apply, refuse_unless_plain

__all__ = ["to_gqa", "uptrain"]

Model = TypeVar("Model", bound=nn.Module)


def to_gqa(model: Model, groups: int, how: str = "mean", seed: int = 0) -> Model:
    """Gives a decoder fewer key/value heads, in place: query heads h of a group read one that is made of theirs.

    With n = Hk / groups, the new W_K and W_V of group g are, of those of key/value heads g n to g n + n - 1,

        mean      the mean
        first     the first
        random    none: drawn anew, N(0, initializer_range^2), biases 0

    Query heads, output projections and all else stay. The config says the new number, so ``save_pretrained``, plain
    ``from_pretrained`` and ``hw.load`` give the model back. It computes something else than before and is meant to be
    trained on for a while (`headwise.heads.uptrain`); an optimizer that was made before holds the old weights. Models
    that share one config object are to be given a copy each first.

    Args:
        model: a decoder of the Llama kind (Llama, Mistral, Qwen2, Qwen3, Gemma, SmolLM, Granite, ...), not pruned.
        groups: how many key/value heads each layer is to have; it divides what they have.
        how: "mean", "first" or "random".
        seed: of "random".

    Returns:
        The same model.

    Raises:
        SpecError: a number that does not divide, a way that is not known.
        UnsupportedError: another kind of model, one that was pruned, weights that are quantised, wrapped or shared.
            After any error the model is unchanged.

    Source: Ainslie et al. 2023 (arXiv 2305.13245), section 2.1 and figure 4.

    Example:
        >>> import headwise as hw
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> config = LlamaConfig(
        ...     hidden_size=16, num_hidden_layers=1, num_attention_heads=4, intermediate_size=8, vocab_size=16
        ... )
        >>> model = hw.to_gqa(LlamaForCausalLM(config), groups=2)
        >>> model.model.layers[0].self_attn.k_proj.weight.shape, model.config.num_key_value_heads
        (torch.Size([8, 16]), 2)
    """
    if how not in ("mean", "first", "random"):
        raise SpecError(sentence("to_gqa", f"how is {how!r}", 'it is "mean", "first" or "random"'))
    if whole(seed) is None:
        raise SpecError(sentence("to_gqa", f"seed is {seed!r}", "it is a whole number"))
    where = _convertible(model)
    for p in where:
        _refuse_groups(p, groups)
    groups = int(groups)
    generator = torch.Generator(device="cpu").manual_seed(seed)
    changes: list[Change] = []
    for p in where:
        config: Any = p.module.config
        spread = float(getattr(config, "initializer_range", 0.02))
        for part in (p.k, p.v):
            changes += _joined(part, groups, how, spread, generator)
        changes.append(Change(p.module, p.layout.share, p.heads // groups))
        changes.append(Change(config, p.layout.config[1], groups))
    if getattr(model.config, FIELD, None):  # an even pruning that plain transformers loaded: all of it is said anew
        changes.append(Change(model.config, FIELD, {}))
    apply(changes)
    return model


def _convertible(model: nn.Module) -> list[Projections]:
    """Where the weights of every site lie; UnsupportedError unless all can share key/value heads."""
    refuse_if_outside("to_gqa", model)
    refuse_unless_plain("to_gqa", model, find_sites(model), "kv")
    where = [projections(model, site, "to_gqa") for site in find_sites(model)]
    for p in where:
        if not p.layout.share:
            rule = (
                "its key/value heads cannot be shared; decoders whose projections stand apart can (Llama and its kin)"
            )
            what = f"{p.site} is a {type(p.module).__name__}"
            raise UnsupportedError(sentence("to_gqa", what, rule, todo="The model is unchanged."))
        if kept_heads(p.module) is not None:
            rule = "which key/value heads belong together is not known any more"
            raise UnsupportedError(
                sentence(
                    "to_gqa", f"{p.site} was pruned", rule, todo="Convert first, then prune. The model is unchanged."
                )
            )
    return where


def _refuse_groups(p: Projections, groups: Any) -> None:
    count = whole(groups)
    if count is not None and 0 < count < p.groups and p.groups % count == 0:
        return
    fits = [n for n in range(1, p.groups) if p.groups % n == 0]
    raise SpecError(
        sentence(
            "to_gqa",
            f"groups is {groups!r} and {p.site} has {p.groups} key/value heads",
            "groups divides that number and is less",
            todo=(f"Use {' or '.join(map(str, fits))}. " if fits else "") + "The model is unchanged.",
        )
    )


def _joined(part: Part, groups: int, how: str, spread: float, generator: torch.Generator) -> list[Change]:
    """A projection to keys or values whose heads became fewer."""
    linear: Any = part.linear
    D = part.rows.shape[1]
    changes = [Change(linear, "out_features", groups * D)]
    with torch.inference_mode(False), torch.no_grad():
        for name, old in linear.named_parameters(recurse=False):
            if how == "random":
                new = torch.zeros(groups * D, *old.shape[1:], device="cpu", dtype=torch.float32)
                new = (new.normal_(0, spread, generator=generator) if name == "weight" else new).to(old)
            else:
                heads = old.detach().view(groups, -1, D, *old.shape[1:])
                new = (heads.mean(1) if how == "mean" else heads[:, 0]).flatten(0, 1).clone()
            changes.append(Change(linear, name, nn.Parameter(new, requires_grad=old.requires_grad)))
    return changes


def uptrain(model: nn.Module, batches: Any, steps: int, lr: float = 1e-4, weight_decay: float = 0.0) -> list[float]:
    """Trains a causal language model for a few steps, after a conversion or a pruning.

    The loss is the mean of -log p(next token) over real tokens that follow real tokens. AdamW at a constant rate,
    gradients clipped to a norm of 1, all parameters that require a gradient. Inside ``torch.autocast`` give it
    ``cache_enabled=False``: its cache would keep the weights of the first step.

    Args:
        model: the model; each module's mode (train or eval) is as before afterwards, and gradients are cleared.
        batches: input_ids [B, T], a mapping with ``input_ids`` and perhaps ``attention_mask``, or a list of these,
            which is begun again when it ends.
        steps: how many batches to train on.
        lr: learning rate.
        weight_decay: of AdamW.

    Returns:
        The loss of each step before it, in nats.

    Raises:
        SpecError: no batches, no steps, a batch without a next token, an output without logits.

    Source: Ainslie et al. 2023 (arXiv 2305.13245), who train on for 5 % of the steps of pre-training.

    Example:
        >>> import torch, headwise as hw
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> config = LlamaConfig(
        ...     hidden_size=16, num_hidden_layers=1, num_attention_heads=4, intermediate_size=8, vocab_size=16
        ... )
        >>> model = hw.to_gqa(LlamaForCausalLM(config), groups=1)
        >>> losses = hw.heads.uptrain(model, torch.arange(12)[None], steps=5, lr=1e-2)
        >>> len(losses), losses[-1] < losses[0]
        (5, True)
    """
    given = as_batches("uptrain", "batches", batches)
    if not isinstance(model, nn.Module):
        raise SpecError(sentence("uptrain", f"got a {type(model).__name__}", "uptrain takes a model"))
    count = whole(steps)
    if count is None or count < 1:
        raise SpecError(sentence("uptrain", f"steps is {steps!r}", "it is a number of batches, at least 1"))
    if not isinstance(lr, (int, float)) or not 0 < lr < math.inf:
        raise SpecError(sentence("uptrain", f"lr is {lr!r}", "it is a positive number"))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not trained:
        what = f"no parameter of {type(model).__name__} requires a gradient"
        raise SpecError(sentence("uptrain", what, "there is nothing to train", todo="model.requires_grad_(True)"))
    optimizer = torch.optim.AdamW(trained, lr=lr, weight_decay=weight_decay)
    losses = []
    with in_mode(model, training=True), torch.inference_mode(False), torch.enable_grad():
        for step in range(count):
            optimizer.zero_grad()
            loss = _next_token_loss(model, trainable(given[step % len(given)]))
            losses.append(float(loss.detach()))
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
        optimizer.zero_grad()
    return losses


def _next_token_loss(model: nn.Module, batch: Any) -> Tensor:
    inputs = {"input_ids": batch} if isinstance(batch, Tensor) else batch
    targets = next_tokens(ids_of("uptrain", inputs), inputs.get("attention_mask"))[:, 1:]
    if not bool((targets != -100).any()):
        raise SpecError(
            sentence("uptrain", f"a batch of {len(targets)} rows has no token that follows another", "T is 2 or more")
        )
    logits = getattr(run(model, batch), "logits", None)
    if logits is None or logits.dim() != 3:
        raise SpecError(sentence("uptrain", f"{type(model).__name__} gives no logits [B,T,V]", "it trains next tokens"))
    return functional.cross_entropy(logits[:, :-1].float().flatten(0, 1), targets.flatten())
