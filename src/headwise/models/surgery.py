"""Taking heads out of attention modules: rows and columns of their weights go, and the module says what it has left.

Everything is planned first, as a list of assignments; only when all new tensors exist is the first one made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headwise.errors import UnsupportedError, sentence
from headwise.models.emptied import Emptied
from headwise.models.library import transformers
from headwise.models.projections import KEPT, Kept, Projections, kept_heads, layout_of, linear_of, refuse_quantised
from headwise.models.register import NAME
from headwise.models.sites import find_sites

__all__ = ["Change", "apply", "cut", "guard", "needs_headwise", "refuse_unless_plain", "resized"]

_ABSENT = object()


class Change(NamedTuple):
    """One assignment, ``setattr(holder, name, value)``."""

    holder: Any
    name: str
    value: Any


def apply(changes: Sequence[Change]) -> None:
    """Makes all assignments, or none where one of them fails."""
    undo: list[Change] = []
    try:
        for holder, name, value in changes:
            own = {**vars(holder), **(holder._parameters if isinstance(holder, nn.Module) else {})}
            undo.append(Change(holder, name, own.get(name, _ABSENT)))
            setattr(holder, name, value)
    except BaseException:
        for holder, name, value in reversed(undo):
            if value is not _ABSENT:
                setattr(holder, name, value)
            elif name in vars(holder):
                delattr(holder, name)
        raise


def cut(p: Projections, gone: Iterable[int]) -> tuple[Kept, list[Change]]:
    """Plans the removal of query heads of one module, and of each key/value head that no query head reads any more.

    Args:
        p: where the module's weights lie.
        gone: query heads, as the module counts them now.

    Returns:
        (kept, changes): what the module will have, in numbers from before it was first pruned, and the assignments.
    """
    out = set(gone)
    heads = [h for h in range(p.heads) if h not in out]
    groups = sorted({p.kv_heads[h] for h in heads})
    before = kept_heads(p.module)
    kept = Kept(
        tuple(p.original_heads[h] for h in heads),
        tuple(groups.index(p.kv_heads[h]) for h in heads),
        tuple(before.groups[g] if before else g for g in groups),
    )
    return kept, resized(
        p,
        torch.tensor(heads, dtype=torch.int64, device="cpu"),
        torch.tensor(groups, dtype=torch.int64, device="cpu"),
        kept,
    )


def resized(p: Projections, heads: Tensor, groups: Tensor, kept: Kept) -> list[Change]:
    """Plans a module of other heads: query head h becomes its ``heads[h]``, key/value head g its ``groups[g]``.

    Args:
        p: where the module's weights lie.
        heads: int64 [H'], ascending.
        groups: int64 [Hk'], ascending.
        kept: what the module is to say of itself.
    """
    rows: dict[str, list[Tensor]] = {}
    linears: dict[str, nn.Module] = {}
    for part, chosen in ((p.q, heads), (p.k, groups), (p.v, groups)):
        rows.setdefault(part.name, []).append(part.rows[chosen].flatten())
        linears[part.name] = part.linear
    changes = []
    for name, pieces in rows.items():
        changes += _selected(linears[name], torch.cat(pieces).sort().values)
    changes += _selected(p.o.linear, p.o.rows[heads].flatten(), outward=True)
    return changes + _counted(p, kept)


def _selected(linear: nn.Module, features: Tensor, outward: bool = False) -> list[Change]:
    """A linear layer with some of its output features, or of its input features where it is the output projection."""
    plain = isinstance(linear, nn.Linear)
    size = ("in_features" if outward else "out_features") if plain else ("nx" if outward else "nf")
    changes = [Change(linear, size, len(features))]
    names = ["weight"] if outward or linear.bias is None else ["weight", "bias"]
    # Parameters made in inference mode could never be trained.
    with torch.inference_mode(False), torch.no_grad():
        for name in names:
            old: nn.Parameter = getattr(linear, name)
            axis = 0 if name == "bias" or plain != outward else 1
            new = old.detach().index_select(axis, features.to(old.device))
            changes.append(Change(linear, name, nn.Parameter(new, requires_grad=old.requires_grad)))
    return changes


def _counted(p: Projections, kept: Kept) -> list[Change]:
    """What a module's own code reads of its numbers of heads, and what it says of itself."""
    H, module = len(kept.heads), p.module
    changes = [Change(module, name, H) for name in p.layout.counts]
    changes += [Change(module, name, H * p.head_dim) for name in p.layout.widths]
    if p.layout.share:
        # 0 where no number is right: code that repeats key heads by it then fails, instead of repeating wrong ones.
        share = H // len(kept.groups) if H and kept.even else 0
        changes.append(Change(module, p.layout.share, share))
    changes.append(Change(module, KEPT, kept))
    if not H:
        changes.append(Change(module, "forward", Emptied(module, p)))
    return changes


def refuse_unless_plain(who: str, model: nn.Module, sites: Iterable[str], parts: Sequence[str] = "qkvo") -> None:
    """Raises UnsupportedError where a weight cannot be cut: no plain layer, no plain parameter, or one used elsewhere.

    Args:
        who: the function that asks, for the message.
        model: the model.
        sites: names of its attention modules; one of a family that is not known is passed over.
        parts: which of their projections are to be cut.
    """
    kinds = (nn.Linear, transformers(who, "pytorch_utils").Conv1D)
    modules = list(model.modules())
    holders = Counter(id(child) for module in modules for child in module._modules.values())
    uses = Counter(id(parameter) for module in modules for parameter in module._parameters.values())
    for name, linear in _linears(model, sites, parts):
        own = linear._parameters
        refuse_quantised(who, name, linear)
        if type(linear) not in kinds:
            names = " and ".join(cls.__name__ for cls in kinds)
            kind = f"{type(linear).__module__}.{type(linear).__name__}"
            what = f"{name} is a {kind}", f"heads are cut out of plain {names} layers only"
        elif not isinstance(weight := own.get("weight"), Tensor) or not weight.is_floating_point():
            what = f"the weight of {name} is computed or quantised", "heads are cut out of float parameters only"
        elif holders[id(linear)] > 1 or any(uses[id(tensor)] > 1 for tensor in own.values() if tensor is not None):
            what = f"{name} shares its weights with another layer", "that layer would lose heads too"
        else:
            continue
        raise UnsupportedError(sentence(who, *what, todo="The model is unchanged."))


def _linears(model: nn.Module, sites: Iterable[str], parts: Sequence[str]) -> Iterator[tuple[str, nn.Module]]:
    for site in sites:
        layout = layout_of(model, site, model.get_submodule(site))
        for name in dict.fromkeys(getattr(layout, part) for part in parts if layout is not None):
            yield linear_of(model, site, name)


def _needs(module: nn.Module, common_bias: bool) -> bool:
    kept = kept_heads(module)
    return kept is not None and bool(kept.heads) and (common_bias or not kept.even)


class Guard:
    """Stands before the forward of a module that no other library can run, and says so where one is about to.

    transformers' fused path would read wrong key heads without an error.
    """

    def __init__(self, common_bias: bool) -> None:
        self.common_bias = common_bias

    def __call__(self, module: nn.Module, args: Any) -> None:
        """A forward pre-hook."""
        config: Any = module.config
        if _needs(module, self.common_bias) and config._attn_implementation != NAME:
            raise UnsupportedError(
                sentence(
                    type(module).__name__,
                    f"it is pruned and runs on {config._attn_implementation!r}",
                    "uneven groups, or a bias made for heads that are gone, run through headwise only",
                    todo="hw.use(model) runs it.",
                )
            )


def guard(module: nn.Module, common_bias: bool) -> None:
    """Gives a pruned module its guard, once, if only headwise can run it."""
    if _needs(module, common_bias) and not any(isinstance(hook, Guard) for hook in module._forward_pre_hooks.values()):
        module.register_forward_pre_hook(Guard(common_bias))


def needs_headwise(model: nn.Module) -> str | None:
    """Name of the first site of a model that only headwise can run, None where there is none."""
    for site, module in find_sites(model).items():
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, Guard) and _needs(module, hook.common_bias):
                return site
    return None
