"""Pruning: heads leave a model for good, and with them their weights, their time and their memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from torch import nn

from headwise.errors import SpecError, sentence
from headwise.heads.editing import chosen
from headwise.models.edit import no_such_head, refuse_while_edited
from headwise.models.projections import Kept, Projections, kept_heads, projections
from headwise.models.pruned import said
from headwise.models.sites import find_sites
from headwise.models.surgery import Change, apply, cut, guard, needs_headwise, refuse_unless_plain
from headwise.models.using import use

__all__ = ["prune"]

Model = TypeVar("Model", bound=nn.Module)


def prune(model: Model, heads: Mapping[Any, Sequence[int]]) -> Model:
    """Takes heads out of a transformers model, in place: what ``hw.ablate`` computes with zeros, computed with less.

    The rows of W_Q and the columns of W_O of each head go. A key/value head goes with the last query head that reads
    it, so under grouped-query attention the groups may become uneven; a layer may lose all of its heads, and then adds
    the bias of its output projection alone.

    ``model.save_pretrained(folder)`` writes what is left, and ``hw.load(folder)`` gives it back. Plain
    ``from_pretrained`` gives it back too where the family's config can say it: every layer lost as many heads, the
    groups are even, and a field of the config holds the width of a head (Llama, Mistral, Qwen2, Qwen3, Gemma, ViT, ...;
    a few configs also insist that H divides the model's width). Elsewhere it refuses, by the shapes.

    Uneven groups, and layers of T5, whose position bias keeps all of its heads, can only be run by headwise: the model
    is then in use, and ``hw.restore`` refuses it.

    What is saved stands in ``model.config``, with names that count from this model: prune whole models, not parts of
    them, and give models that share one config object a copy each. After a plain ``from_pretrained`` the heads are
    numbered anew.

    The weights are new parameters (same dtype, device and ``requires_grad``, no ``grad``): an optimizer that was made
    before holds the old ones. Hooks stay.

    Args:
        model: a transformers model of one of the families that `headwise.models.projections` knows.
        heads: ``{layer: [head, ...]}``, the heads to take out; a layer is a name or an index of ``hw.sites(model)``. A
            head is counted as its layer has them now, 0 to H-1, so after an earlier pruning those behind moved up;
            what their numbers were at first is in ``projections(model, layer).original_heads``.

    Returns:
        The same model.

    Raises:
        SpecError: a layer or head that does not exist, no head at all, or all heads of the model.
        UnsupportedError: a family that is not known; weights that are quantised, wrapped, computed or shared. After any
            error the model is unchanged.

    Source: Michel et al. 2019 (arXiv 1905.10650); Voita et al. 2019 (arXiv 1905.09418).

    Example:
        >>> import headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=4, n_embd=16, vocab_size=16, n_positions=8))
        >>> attention = hw.prune(model, {0: [1, 2]}).transformer.h[0].attn
        >>> attention.num_heads, attention.c_attn.weight.shape, attention.c_proj.weight.shape
        (2, torch.Size([16, 24]), torch.Size([8, 16]))
    """
    which = chosen("prune", model, heads)
    refuse_unless_plain("prune", model, which)
    where = {site: projections(model, site, "prune") for site in which}
    for site, p in where.items():
        for head in which[site]:
            if head >= p.heads:
                raise no_such_head("prune", site, head, p.heads)
    refuse_while_edited("prune", {site: p.module for site, p in where.items()})
    kept, changes = _plan(which, where)
    _refuse_all(model, kept)
    apply([*changes, *said(model, kept)])
    for p in where.values():
        guard(p.module, p.layout.common_bias)
    return use(model) if needs_headwise(model) else model


def _plan(which: Mapping[str, Sequence[int]], where: Mapping[str, Projections]) -> tuple[dict[str, Kept], list[Change]]:
    kept: dict[str, Kept] = {}
    changes: list[Change] = []
    for site, p in where.items():
        kept[site], some = cut(p, which[site])
        changes += some
    return kept, changes


def _refuse_all(model: nn.Module, kept: Mapping[str, Kept]) -> None:
    left = 0
    for site, module in find_sites(model).items():
        have = kept.get(site) or kept_heads(module)
        left += len(have.heads) if have else 1
    if not left:
        raise SpecError(
            sentence(
                "prune", "these are all heads of the model", "at least one is left", todo="The model is unchanged."
            )
        )
