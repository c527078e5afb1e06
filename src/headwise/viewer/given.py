"""What a caller hands to ``hw.view``, made into a scene: a trace, a pattern, a model with its text, or several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, axes, sentence
from headwise.heads import KINDS, MIXED, Head, Reading
from headwise.models.token_text import names_of, pieces
from headwise.models.trace import Trace, trace
from headwise.pattern import Pattern
from headwise.viewer.axes import Axis, Tokens
from headwise.viewer.matrices import given_patterns, is_output
from headwise.viewer.of_model import run_model
from headwise.viewer.scene import Labels, Scene

__all__ = ["scene_of"]

_SCORED = {
    "input_ids",
    "attention_mask",
    "token_type_ids",
}  # a batch of no other inputs is a text that heads are scored on


def scene_of(
    what: Any,
    *,
    tokens: Labels | None,
    key_tokens: Labels | None,
    tokenizer: Any,
    title: str | None,
    heads: Sequence[Head] | Reading | None,
    text: str | None,
    batch: Mapping[str, Any],
) -> Scene:
    """The scene of whatever ``hw.view`` was given; see there."""
    scored = _scored(heads)
    if title is not None and not isinstance(title, str):
        raise SpecError(sentence("view", f"title is a {type(title).__name__}", "it is a string"))
    if tokenizer is not None and not callable(getattr(tokenizer, "convert_ids_to_tokens", None)):
        rule = "it is one of transformers, as hw.load gives beside the model"
        raise SpecError(sentence("view", f"tokenizer is a {type(tokenizer).__name__}", rule))
    if isinstance(what, nn.Module):
        return _of_model(what, tokens, key_tokens, tokenizer, title, scored, text, batch)
    if text is not None or batch:
        given = "text" if text is not None else next(iter(batch))
        raise SpecError(
            sentence(
                "view", f"{given} was given beside a {type(what).__name__}", "a model alone reads a text", todo=_TODO
            )
        )
    runs = dict(what) if _named(what) else {"run": what}
    if not all(isinstance(name, str) for name in runs):
        raise SpecError(sentence("view", "a run has no name", "a dict of runs has strings for its keys"))
    runs = {name: run if isinstance(run, (Trace, Pattern)) else _layers(run) for name, run in runs.items()}
    if tokenizer is not None and not any(isinstance(run, Trace) for run in runs.values()):
        rule = "a tokenizer names the tokens of a trace, and reads the text of a model"
        raise SpecError(sentence("view", "tokenizer was given beside a pattern", rule, todo="Give tokens=."))
    patterns = {name: _patterns(run) for name, run in runs.items()}
    first = next((run for run in runs.values() if isinstance(run, Trace)), None)
    if first is not None:
        found, of_keys = _tokens_of(first, tokenizer)
        tokens, key_tokens = (found if tokens is None else tokens), (of_keys if key_tokens is None else key_tokens)
        scored = _noted(first) if scored is None else scored
    sizes = _sizes(next(iter(patterns.values()))) if patterns else ""
    subtitle = (f"{len(runs)} runs, each {sizes}" if len(runs) > 1 else sizes) if _named(what) else ""
    if title is None:
        few = len(runs) <= _NAMED
        names = " and ".join(runs) if few else f"{', '.join(list(runs)[:2])} and {len(runs) - 2} more"
        title = names if _named(what) else sizes
    return Scene.of(patterns, tokens=tokens, key_tokens=key_tokens, heads=scored, title=title, subtitle=subtitle)


_NAMED = 3  # runs whose names make the title
_TODO = "Leave it out, or give the model: hw.view(model, tokenizer=tokenizer, text=text)."


def _named(what: Any) -> bool:
    """Whether this is a dict of runs; a model's output is a mapping too."""
    return isinstance(what, Mapping) and not is_output(what)


def _layers(run: Any) -> dict[str, Pattern]:
    """The layers of one run that are given by themselves: patterns or probabilities, one a layer."""
    if not isinstance(run, (list, tuple)) or not any(isinstance(one, (Pattern, Trace)) for one in run):
        return given_patterns(run)
    odd = next((one for one in run if not isinstance(one, Pattern)), None)
    if odd is not None:
        rule = "a list holds the layers of one run, a pattern each"
        todo = 'Runs are given by their names: hw.view({"plain": one, "changed": other}).'
        raise SpecError(sentence("view", f"a {type(run).__name__} that holds a {type(odd).__name__}", rule, todo=todo))
    return {f"layers.{n}": one for n, one in enumerate(run)}


def _patterns(run: Trace | Pattern | dict[str, Pattern]) -> dict[str, Pattern]:
    if isinstance(run, dict):
        return run
    return {"pattern": run} if isinstance(run, Pattern) else {site: run.pattern(site) for site in run.sites}


def _scored(heads: Any) -> Sequence[Head] | None:
    """Scores of heads, refused unless they are that."""
    found = heads.heads if isinstance(heads, Reading) else heads
    listed = found is None or (isinstance(found, Sequence) and all(isinstance(head, Head) for head in found))
    if not listed:
        rule = (
            "they are what headwise.heads.score_heads(...) found; which heads a page holds is said to save(heads=...)"
        )
        raise SpecError(sentence("view", "heads are no scores of heads", rule))
    return None if found is None else list(found)


def _noted(run: Trace) -> list[Head] | None:
    """The scores that a trace carries; a file of any origin may say anything."""
    if "heads" not in run.notes:
        return None
    said = run.notes["heads"]
    if not isinstance(said, list) or not all(map(_is_head, said)):
        what = "what the trace says of its heads has no meaning"
        raise SpecError(sentence("view", what, "its notes hold the scores that headwise view --save kept"))
    return [Head(**one) for one in said]


def _is_head(one: Any) -> bool:
    """Whether JSON says a Head."""
    kinds: dict[str, tuple[type, ...]] = {"layer": (int,), "head": (int,), "site": (str,), "kind": (str,)}
    kinds |= {"entropy": (int, float), "scores": (dict,), "chance": (dict,), "error": (dict,)}
    if not isinstance(one, dict) or set(one) != set(kinds):
        return False
    if not all(type(one[name]) in kind for name, kind in kinds.items()) or one["kind"] not in (*KINDS, MIXED.name):
        return False
    numbers = [one[name] for name in ("scores", "chance", "error")]
    alike = all(set(part) == set(numbers[0]) for part in numbers) and set(numbers[0]) <= set(KINDS)
    values = [one["entropy"], *(value for part in numbers for value in part.values())]
    return alike and all(type(value) is float or (type(value) is int and abs(value) < 2**53) for value in values)


def _sizes(patterns: Mapping[str, Pattern]) -> str:
    heads = sum(pattern.shape[1] for pattern in patterns.values())
    T = max(pattern.shape[2] for pattern in patterns.values())
    layers = "" if len(patterns) == 1 else f"{len(patterns)} layers, "
    return f"{layers}{heads} head{'' if heads == 1 else 's'}, {T:,} tokens"


def _of_model(
    model: nn.Module,
    tokens: Labels | None,
    key_tokens: Labels | None,
    tokenizer: Any,
    title: str | None,
    heads: Sequence[Head] | None,
    text: str | None,
    batch: Mapping[str, Any],
) -> Scene:
    """Runs a model once; where it reads one text, its heads are scored in the same run."""
    inputs, read = _inputs(tokenizer, text, batch)
    ids = inputs.get("input_ids")
    if ids is not None and not (isinstance(ids, Tensor) and ids.dim() == 2 and not ids.is_floating_point()):
        shape = axes("input_ids", ids, "") if isinstance(ids, Tensor) else f"input_ids is a {type(ids).__name__}"
        rule = 'it is an integer tensor [B, T], as of tokenizer(text, return_tensors="pt")'
        raise SpecError(sentence("view", "input_ids does not fit", rule, shape))
    title = type(model).__name__ if title is None else title
    if heads is None and _one_text(model, inputs):
        ids = inputs["input_ids"]
        labels, special = _labels(tokenizer, ids[0].tolist(), read)
        ran = run_model(model, ids, inputs.get("attention_mask"), labels=labels, special=special, title=title)
        patterns, small = ran.scene.runs, ran.scene.maps
        if tokens is None and labels is not None:
            tokens = Tokens(labels, special)
        return Scene.of(
            patterns, tokens=tokens, key_tokens=key_tokens, heads=ran.scene.heads, maps=small, title=title,
            subtitle=_sizes(patterns["run"]),
        )  # fmt: skip
    traced = trace(model, **inputs)
    found, of_keys = _tokens_of(traced, tokenizer)
    patterns = {"run": _patterns(traced)}
    return Scene.of(
        patterns,
        tokens=found if tokens is None else tokens,
        key_tokens=of_keys if key_tokens is None else key_tokens,
        heads=heads,
        title=title,
        subtitle=_sizes(patterns["run"]),
    )


def _inputs(tokenizer: Any, text: str | None, batch: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
    """What the model reads, and the text that it is of where that is known."""
    if text is None:
        if not batch:
            raise SpecError(
                sentence(
                    "view",
                    "a model was given, and nothing for it to read",
                    "patterns are those of a forward",
                    todo='Give tokenizer= and text=, or its inputs: **tokenizer(text, return_tensors="pt").',
                )
            )
        return dict(batch), None
    if tokenizer is None or not isinstance(text, str):
        what = "text was given without tokenizer" if tokenizer is None else f"text is a {type(text).__name__}"
        raise SpecError(sentence("view", what, "a text is one string, read through a tokenizer"))
    if "input_ids" in batch:
        raise SpecError(
            sentence("view", "text and input_ids were both given", "one text is read", todo="Leave one out.")
        )
    return {**tokenizer(text, return_tensors="pt"), **batch}, text


def _one_text(model: nn.Module, inputs: Mapping[str, Any]) -> bool:
    """Whether this is one row of tokens that attend to each other, which heads are scored on."""
    ids, types = inputs.get("input_ids"), inputs.get("token_type_ids")
    return (
        isinstance(ids, Tensor)
        and ids.dim() == 2
        and ids.shape[0] == 1
        and ids.shape[1] >= 2
        and set(inputs) <= _SCORED
        and (types is None or not bool(torch.as_tensor(types, dtype=torch.int64, device="cpu").any()))
        and not getattr(getattr(model, "config", None), "is_encoder_decoder", False)
    )


def _labels(tokenizer: Any, ids: Sequence[int], text: str | None) -> tuple[Sequence[str] | None, list[int]]:
    """The text of each token and the positions that are no text; None without a tokenizer."""
    if tokenizer is None:
        return None, []
    return names_of(tokenizer, ids) if text is None else pieces(tokenizer, text, ids)


def _tokens_of(traced: Trace, tokenizer: Any) -> tuple[list[Axis] | None, list[Axis] | None]:
    """What a trace knows of the tokens of its queries, and of the keys of cross attention."""
    own = _axes(traced, "input_ids", tokenizer)
    if "decoder_input_ids" in traced.inputs or (traced.tokens and "decoder_input_ids" in traced.tokens):
        return _axes(traced, "decoder_input_ids", tokenizer), own
    return own, None


def _axes(traced: Trace, name: str, tokenizer: Any) -> list[Axis] | None:
    """The tokens of one input, a list for each row of the batch."""
    if traced.tokens is not None and name in traced.tokens and tokenizer is None:
        return [Tokens(list(row)) for row in traced.tokens[name]]
    ids = traced.inputs.get(name)
    if tokenizer is None or ids is None:
        return None
    return [Tokens(*names_of(tokenizer, row)) for row in (ids if ids.dim() == 2 else ids[None]).tolist()]
