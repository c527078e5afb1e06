"""Which modules of a model are attention, read from what their code does.

A *site* is a module whose forward asks transformers' attention interface for the function to run. A *stray* is a
module that forms an attention pattern of its own beside the interface; a model with strays is refused, because half of
it would go unseen.
"""

from __future__ import annotations

import inspect
import operator
import re
import weakref
from collections.abc import Container, Iterable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any, TypeVar

from torch import nn

from headwise.errors import LeftOutWarning, SpecError, UnsupportedError, sentence, warn
from headwise.models.families import LEFT_ALONE, MIXES_BY_ITSELF, UNSAYABLE, WITHOUT_SOFTMAX
from headwise.models.library import transformers

__all__ = [
    "counted",
    "find_sites",
    "in_order",
    "refuse_if_outside",
    "resolve_sites",
    "say_left_out",
    "site_and_run",
    "sites",
    "some",
    "whole",
]  # fmt: skip

Run = TypeVar("Run")

_SOFTMAX = frozenset({"softmax", "scaled_dot_product_attention", "multi_head_attention_forward"})
_ATTENTION = re.compile(r"att(ention|n)", re.IGNORECASE)


_reached: weakref.WeakKeyDictionary[type, frozenset[str]] = weakref.WeakKeyDictionary()


def _names_reached(cls: type[nn.Module]) -> frozenset[str]:
    """Every global and attribute name in a class's forward, in the methods it calls and its module's functions."""
    if cls not in _reached:
        _reached[cls] = _read_names(cls)
    return _reached[cls]


def _read_names(cls: type[nn.Module]) -> frozenset[str]:
    names: set[str] = set()
    done: set[CodeType] = set()
    todo: list[Any] = [cls.forward]
    while todo:
        fn = inspect.unwrap(todo.pop())
        code = getattr(fn, "__code__", None)
        if code is None or code in done:
            continue
        codes = [code]
        while codes:
            code = codes.pop()
            done.add(code)
            codes += [const for const in code.co_consts if isinstance(const, CodeType)]
            names |= set(code.co_names)
            todo += _functions_named(cls, fn, code.co_names)
    return frozenset(names)


def _functions_named(cls: type, fn: Any, names: tuple[str, ...]) -> list[FunctionType]:
    """The methods of the class and the functions beside it that a piece of code can mean by its names."""
    found = []
    for name in names:
        method = inspect.getattr_static(cls, name, None)
        method = method.__func__ if isinstance(method, (staticmethod, classmethod)) else method
        beside = fn.__globals__.get(name)
        if isinstance(method, FunctionType):
            found.append(method)
        if isinstance(beside, FunctionType) and beside.__module__ == fn.__module__:
            found.append(beside)
    return found


def _is_site(cls: type[nn.Module]) -> bool:
    return "ALL_ATTENTION_FUNCTIONS" in _names_reached(cls)


def _is_stray(module: nn.Module, holder: nn.Module | None) -> bool:
    """Whether a module forms an attention pattern of its own, outside of the interface."""
    cls = type(module)
    if LEFT_ALONE.search(cls.__name__) or (holder is not None and LEFT_ALONE.search(type(holder).__name__)):
        return False
    if isinstance(module, nn.MultiheadAttention):
        return True
    if not _ATTENTION.search(cls.__name__):
        return False
    own_softmax = any(isinstance(child, (nn.Softmax, nn.LogSoftmax)) for child in module.children())
    return own_softmax or bool(_names_reached(cls) & _SOFTMAX)


def find_sites(model: nn.Module) -> dict[str, nn.Module]:
    """The sites of a model by name, in the order of ``named_modules()``."""
    return {name: module for name, module in model.named_modules() if _is_site(type(module))}


def sites(model: nn.Module) -> list[str]:
    """Names the attention modules of a transformers model that headwise can run and watch.

    Layers that mix tokens without a softmax (linear attention, state spaces, recurrences) are no such modules; a model
    that has some is told so by a `LeftOutWarning`.

    Args:
        model: a transformers model, in use or not.

    Returns:
        Names as ``model.named_modules()`` gives them; wherever a `layer` is asked for, a name or its index will do.

    Raises:
        UnsupportedError: some or all of the model's attention does not go through transformers' attention interface.

    Example:
        >>> import headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> hw.sites(GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)))
        ['transformer.h.0.attn', 'transformer.h.1.attn']
    """
    refuse_if_outside("sites", model)
    say_left_out("sites", model)
    return list(find_sites(model))


def _strays(model: nn.Module) -> dict[str, nn.Module]:
    """The modules of a model that form an attention pattern of their own, by name."""
    modules = dict(model.named_modules())
    return {
        name: module
        for name, module in modules.items()
        if not _is_site(type(module)) and _is_stray(module, modules.get(name.rpartition(".")[0]))
    }


def _without_softmax(model: nn.Module) -> dict[str, nn.Module]:
    """The layers of a model that mix tokens without a softmax, by name; one inside of another is not named."""
    found: dict[str, nn.Module] = {}
    for name, module in model.named_modules():
        cls = type(module)
        mixes = WITHOUT_SOFTMAX & _names_reached(cls) or MIXES_BY_ITSELF.search(cls.__name__)
        if mixes and not _is_site(cls) and not any(name.startswith(f"{outer}.") for outer in found):
            found[name] = module
    return found


def _named(modules: Iterable[str], of: Mapping[str, nn.Module]) -> str:
    """Some modules by name and class, for a message."""
    return ", ".join(f"{name or 'the model'} ({type(of[name]).__name__})" for name in modules)


_left_out_said: weakref.WeakKeyDictionary[nn.Module, set[str]] = weakref.WeakKeyDictionary()


def say_left_out(who: str, model: nn.Module) -> None:
    """Warns of a model some of whose layers have no softmax, once for each function that was asked about it.

    Args:
        who: the function that was asked, for the message.
        model: a transformers model whose attention goes through the interface.
    """
    if who in _left_out_said.get(model, ()):
        return
    _left_out_said.setdefault(model, set()).add(who)
    layers = _without_softmax(model)
    if layers:
        first = next(iter(layers))
        more = f" and {len(layers) - 1} more" if len(layers) > 1 else ""
        message = sentence(
            who,
            f"{type(model).__name__} has layers that mix tokens without a softmax: {_named([first], layers)}{more}",
            "headwise neither runs nor sees them: they run as before, and no answer is about them",
            todo="To silence this: warnings.filterwarnings('ignore', category=headwise.errors.LeftOutWarning).",
        )
        warn(message, LeftOutWarning)


def _why_no_site(model: nn.Module, strays: Mapping[str, nn.Module]) -> str:
    layers = _without_softmax(model)
    if strays:
        return f"its attention is {_named(list(strays)[:1], strays)}"
    if layers:
        return f"its layers mix tokens without a softmax, as {_named(list(layers)[:1], layers)} does"
    return "none of its modules asks the interface for an attention function"


#: What calls torch's own attention op, and so runs on headwise inside ``hw.everywhere()``.
_CALLS_TORCHS_OP = frozenset({"scaled_dot_product_attention", "multi_head_attention_forward"})


def _instead(who: str, model: nn.Module, strays: Mapping[str, nn.Module]) -> str:
    """What somebody can do whose model has no site; "" where there is nothing."""
    attending = strays.values() or [part for part in model.modules() if _CALLS_TORCHS_OP & _names_reached(type(part))]
    on_torchs_op = attending and all(
        isinstance(part, nn.MultiheadAttention) or _CALLS_TORCHS_OP & _names_reached(type(part)) for part in attending
    )
    if who == "use" and on_torchs_op:
        return "It calls torch's own attention op: inside `with hw.everywhere():` that op runs on headwise."
    if who in ("observe", "trace") and strays and "output_attentions" in inspect.signature(model.forward).parameters:
        return "What it returns itself can be looked at: hw.view(model(**batch, output_attentions=True).attentions)."
    return ""


def _part_inside(model: nn.Module) -> str:
    """The part with the most sites, of those whose attention all goes through the interface; "" where there is none."""
    kind = transformers("use").PreTrainedModel
    parts = {name: part for name, part in model.named_modules() if name and isinstance(part, kind)}
    whole_parts = {name: len(find_sites(part)) for name, part in parts.items() if not _strays(part)}
    best = max(whole_parts, key=lambda name: (whole_parts[name], -len(name)), default="")
    return best if whole_parts.get(best) else ""


def refuse_if_outside(who: str, model: nn.Module) -> None:
    """Raises UnsupportedError unless all attention of a model goes through transformers' attention interface.

    Args:
        who: the function that asks, for the message.
        model: any module.

    Raises:
        SpecError: it is no module.
    """
    if not isinstance(model, nn.Module):
        raise SpecError(sentence(who, f"got a {type(model).__name__}", f"{who} takes a transformers model"))
    kind = type(model).__name__
    found, strays = find_sites(model), _strays(model)
    if not found:
        raise UnsupportedError(
            sentence(
                who,
                f"{kind} does not go through transformers' attention interface",
                _why_no_site(model, strays),
                todo=f"The model is unchanged. {_instead(who, model, strays)}".rstrip(),
            )
        )
    if strays:
        first = _named(list(strays)[:1], strays) + (f" and {len(strays) - 1} more" if len(strays) > 1 else "")
        part = _part_inside(model)
        raise UnsupportedError(
            sentence(
                who,
                f"{kind} has attention outside of transformers' attention interface: {first}",
                f"its other {len(found)} attention modules would be used and these not",
                todo="The model is unchanged." + (f" Give the part that goes through, model.{part}." if part else ""),
            )
        )
    for module in model.modules():
        reason = UNSAYABLE.get(getattr(getattr(module, "config", None), "model_type", None) or "")
        if reason:
            raise UnsupportedError(
                sentence(who, f"{kind} cannot be run exactly", reason, todo="The model is unchanged.")
            )


def whole(value: Any) -> int | None:
    """A whole number of any library as an int, as those of data frames are; None for anything else, bools included."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def resolve_sites(who: str, names: list[str], wanted: Any) -> list[str]:
    """Turns a choice of sites, by name or index, into names.

    Args:
        who: the function that asks, for the message.
        names: all sites of the model.
        wanted: None = all; else names and indices.

    Raises:
        SpecError: a name or index that the model does not have.
    """
    if wanted is None:
        return list(names)
    if isinstance(wanted, str) or whole(wanted) is not None:
        wanted = [wanted]
    if not isinstance(wanted, Iterable):
        raise SpecError(sentence(who, f"sites is {wanted!r}", "it is a list of names and indices of hw.sites(model)"))
    chosen = []
    for asked in wanted:
        number = whole(asked)
        site = names[number] if number is not None and -len(names) <= number < len(names) else asked
        if site not in names:
            some = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
            raise SpecError(
                sentence(
                    who,
                    f"there is no site {site!r}",
                    f"the model has {len(names)} sites, named or numbered 0 to {len(names) - 1}: {some}",
                    todo="hw.sites(model) lists them.",
                )
            )
        chosen.append(site)
    return chosen


def site_and_run(name: str, names: Container[str]) -> tuple[str, int]:
    """Which site a run is of, and which of its runs: ``"site#1"`` is the second.

    Args:
        name: of the run.
        names: all sites of the model.
    """
    if name in names or "#" not in name:
        return name, 0
    site, _, number = name.rpartition("#")
    return site, int(number) if number.isdecimal() else 0


def in_order(runs: Mapping[str, Run], names: Sequence[str]) -> dict[str, Run]:
    """Runs by the place of their site in ``hw.sites(model)``, then by number; models run their sites in any order.

    Args:
        runs: by name, ``"site"``, ``"site#1"``, ...
        names: all sites of the model.
    """
    place = {name: n for n, name in enumerate(names)}

    def key(name: str) -> tuple[int, int]:
        site, run = site_and_run(name, place)
        return place.get(site, len(place)), run

    return {name: runs[name] for name in sorted(runs, key=key)}


def counted(number: int, what: str) -> str:
    """``1 site``, ``2 sites``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def some(sites: Sequence[str]) -> str:
    """The first few of several names, or "none"."""
    return ", ".join(sites[:3]) + (", ..." if len(sites) > 3 else "") or "none"
