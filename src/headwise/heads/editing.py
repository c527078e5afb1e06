"""Edits of single heads: which heads are meant, and a block in which edits are in force."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from headwise.errors import SpecError, sentence
from headwise.models.edit import Edit, Edited, count_of, in_force, no_such_head
from headwise.models.register import NAME
from headwise.models.sites import find_sites, refuse_if_outside, resolve_sites, whole
from headwise.models.using import held

__all__ = ["chosen", "edited"]


@contextlib.contextmanager
def edited(model: nn.Module, edits: Sequence[Edit], everywhere: bool = True) -> Iterator[Edited]:
    """Puts edits in force for the duration, the model being held on headwise.

    Args:
        model: the model.
        edits: of sites of it.
        everywhere: whoever runs the model runs it edited; False = the context that opens the block alone does.

    Yields:
        What the edits did.

    Raises:
        SpecError: at the end of a block that did not fail: an edit did not act.
    """
    modules = find_sites(model)
    with held(model), in_force([(modules[edit.site], edit) for edit in edits], everywhere) as told:
        yield told
        _refuse_if_left(edits, modules)
    for edit in edits:
        if edit.site not in told.backends:
            raise SpecError(
                sentence(
                    edit.who,
                    f"{edit.site} did not run while the block was open, so the edit of its heads {list(edit.heads)} "
                    "did nothing",
                    "an edit that does not act is an error",
                    todo="Run the model inside the `with` block, with inputs that reach this layer.",
                )
            )
        edit.finish()


def _refuse_if_left(edits: Sequence[Edit], modules: Mapping[str, nn.Module]) -> None:
    """Raises SpecError where a site does not run through headwise any more: its edit stopped acting, unseen."""
    for edit in edits:
        config: Any = modules[edit.site].config
        if config._attn_implementation != NAME:
            raise SpecError(
                sentence(
                    edit.who,
                    f"{edit.site} was set to {config._attn_implementation!r} inside the block",
                    "edits act where headwise runs the attention, so this one stopped acting",
                    todo="Leave the implementation as it is while a block is open.",
                )
            )


def chosen(who: str, model: nn.Module, heads: Any) -> dict[str, tuple[int, ...]]:
    """Reads ``{layer: [head, ...]}`` as site names and heads counted from 0.

    Args:
        who: the function that asks, for the message.
        model: a transformers model.
        heads: the choice; a layer is a name or an index of ``hw.sites(model)``.

    Raises:
        SpecError: no mapping, nothing chosen, a layer twice or one that does not exist, a head that does not exist.
    """
    refuse_if_outside(who, model)
    if not isinstance(heads, Mapping):
        raise SpecError(
            sentence(who, f"heads is {heads!r}", "it is {layer: [head, ...]}", todo="Write {3: [0, 5]}: layer 3.")
        )
    modules = find_sites(model)
    found: dict[str, tuple[int, ...]] = {}
    for layer, which in heads.items():
        (site,) = resolve_sites(who, list(modules), [layer])
        if site in found:
            raise SpecError(sentence(who, f"{site} is named twice", "each layer is named once, with all of its heads"))
        found[site] = _numbers(who, site, which, modules[site])
    if not any(found.values()):
        raise SpecError(sentence(who, "no head was chosen", "an edit that does not act is an error"))
    return {site: which for site, which in found.items() if which}


def _numbers(who: str, site: str, which: Any, module: nn.Module) -> tuple[int, ...]:
    """A choice of heads as numbers from 0, each once."""
    listed = which.dim() == 1 if isinstance(which, Tensor) else hasattr(which, "__iter__")
    if isinstance(which, (str, bytes, Mapping)) or not listed:
        raise SpecError(sentence(who, f"the heads of {site} are {which!r}", "they are a list of numbers"))
    H = count_of(module)
    numbers = []
    for given in which.tolist() if isinstance(which, Tensor) else which:
        head = whole(given)
        if head is None:
            raise SpecError(sentence(who, f"the heads of {site} are {which!r}", "they are a list of whole numbers"))
        if head < 0 or (H is not None and head >= H):
            raise no_such_head(who, site, head, H)
        numbers.append(head)
    return tuple(dict.fromkeys(numbers))
