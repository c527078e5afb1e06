"""What torch and transformers call the same things, and how to say them here: one table for every call and layer."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from headwise.errors import SpecError, sentence

__all__ = ["near", "not_taken", "said_here", "without_others"]

Call = TypeVar("Call", bound=Callable[..., Any])

_ALL = ("others", "names")  # what such functions call them

# A name elsewhere, and what it may be called here: the first that the function at hand knows is meant.
_SAME: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("embed_dim", "hidden_size"), ("d_model",)),
    **dict.fromkeys(("num_heads", "n_heads", "nhead", "num_attention_heads"), ("heads",)),
    "num_key_value_heads": ("kv_heads",),
    "context_dim": ("kdim",),
    "dropout_p": ("dropout",),
    **dict.fromkeys(("softmax_scale", "scaling", "sm_scale"), ("scale",)),
    "s_aux": ("sinks",),
    "query": ("q",),
    "key": ("k",),
    "value": ("v",),
    **dict.fromkeys(("hidden_states", "input", "inputs"), ("x",)),
    **dict.fromkeys(("memory", "encoder_hidden_states", "key_value_states"), ("context",)),
    **dict.fromkeys(("past_key_value", "past_key_values", "layer_past", "kv_cache"), ("cache",)),
    **dict.fromkeys(("position_ids", "input_pos", "cache_position"), ("positions", "q_start")),
    **dict.fromkeys(("layers", "layer", "modules"), ("sites",)),
    **dict.fromkeys(("torch_dtype", "precision"), ("dtype",)),
    "text": ("texts",),
}

# What has no other name here, but another way to be said.
_TODO: dict[str, str] = {
    "batch_first": "Leave it out: x is [B,T,M].",
    **dict.fromkeys(("is_causal", "causal"), "Write mask=headwise.Causal()."),
    **dict.fromkeys(("rope", "rope_theta"), "Write rotary=headwise.nn.Rotary(base=10_000.0)."),
    **dict.fromkeys(("softcap", "soft_cap", "logits_soft_cap"), "Write scores=(headwise.SoftCap(30.0),)."),
    "config": "Write MultiHeadAttention.from_config(config).",
    **dict.fromkeys(
        ("attn_mask", "attn_bias", "src_mask", "tgt_mask"),
        "Write mask=headwise.Dense(keep) for a bool mask with True = may attend (nn.MultiheadAttention's means the "
        "opposite: Dense(~mask)); a float mask that is added goes in scores=(headwise.Bias(mask),).",
    ),
    **dict.fromkeys(
        ("key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask"),
        "Write mask=headwise.Padding(~key_padding_mask): there True is padding, here True is a real key.",
    ),
    "attention_mask": "Write mask=headwise.Padding(attention_mask.bool()).",
    **dict.fromkeys(
        ("need_weights", "average_attn_weights", "output_attentions", "return_attention", "return_attn_probs"),
        "Leave it out: attend(...) has a .pattern, which gives any weights exactly, and answers observe=[...].",
    ),
    "return_lse": "Call attend(...): it has .lse.",
    "enable_gqa": "Leave it out: fewer key heads than query heads are shared in groups.",
    **dict.fromkeys(
        ("window_size", "sliding_window"), "Write mask=headwise.Window(before, after), which counts the OTHER keys."
    ),
    "alibi_slopes": "Write scores=(headwise.Alibi(slopes),).",
    "score_mod": "Write scores=(headwise.ScoreRule(function),).",
    **dict.fromkeys(("mask_mod", "block_mask"), "Write mask=headwise.Rule(function), or a mask that says it by name."),
    **dict.fromkeys(("head_mask", "layer_head_mask"), "Write gate=..., 0 for a head that is off."),
    "use_cache": "Give a cache: cache=headwise.nn.KVCache().",
}


def near(value: Any, known: Iterable[str], n: int = 1) -> str:
    """The question whether something known was meant, where it is spelled nearly so; else nothing."""
    found = [repr(name) for name in difflib.get_close_matches(str(value), list(known), n=n, cutoff=0.4)]
    told = " or ".join([", ".join(found[:-1]), found[-1]] if len(found) > 1 else found)
    return f"Did you mean {told}?" if found else ""


def said_here(name: str, known: Sequence[str]) -> str:
    """What to write in place of an option that is not among the known ones.

    Example:
        >>> from headwise.elsewhere import said_here
        >>> (
        ...     said_here("is_causal", ["mask"]),
        ...     said_here("num_heads", ["d_model", "heads"]),
        ...     said_here("maks", ["mask"]),
        ... )
        ('Write mask=headwise.Causal().', "Did you mean 'heads'?", "Did you mean 'mask'?")
    """
    same = next((here for here in _SAME.get(name, ()) if here in known), None)
    return f"Did you mean {same!r}?" if same else _TODO.get(name) or near(name, known)


def without_others(function: Call) -> Call:
    """Leaves ``*others: Never, **names: Never`` out of the signature that people and programs read.

    A function that ends in these takes nothing by them, and type checkers refuse what comes; it is not wrapped, so a
    call costs no more. What comes all the same is said by ``not_taken``.
    """
    whole = inspect.signature(function)
    taken = [
        p for p in whole.parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) or p.name not in _ALL
    ]
    function.__signature__ = whole.replace(parameters=taken)  # type: ignore[attr-defined]
    return function


def not_taken(
    who: str, function: Callable[..., Any], others: Sequence[Any], names: Mapping[str, Any], todo: str = ""
) -> SpecError:
    """The error for arguments that a function does not take, with what to write in their place.

    Args:
        who: the function's name for people.
        function: it, decorated by ``without_others``.
        others: more arguments without a name than it has places for.
        names: arguments by names that it does not know.
        todo: what to write where arguments have no name.
    """
    taken = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    known = [p.name for p in taken if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if names:
        name = next(iter(names))
        told = f"there are {', '.join(known)}"
        return SpecError(sentence(who, f"there is no option {name!r}", told, todo=said_here(name, known)))
    places = [p.name for p in taken if p.kind is p.POSITIONAL_OR_KEYWORD]
    what = f"{len(places) + len(others)} arguments were given without a name"
    rule = f"only {' and '.join([', '.join(places[:-1]), places[-1]] if len(places) > 1 else places)} can be"
    options = [name for name in known if name not in places]
    return SpecError(sentence(who, what, rule, todo=todo or f"Name the others: {', '.join(options)}."))
