"""The one place where transformers calls headwise: an attention function and a mask function under one name."""

from __future__ import annotations

import inspect
import sys
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import UnsupportedError, sentence
from headwise.models.edit import Call, Edits, anybody_edits, editing
from headwise.models.families import ADDITIVE_MASKS, chosen_cells
from headwise.models.library import transformers
from headwise.models.masks import headwise_mask, read
from headwise.models.padding import (
    attend_real_queries,
    mask_of_statistics,
    runs_on_sdpa,
    spread_evenly,
)
from headwise.models.probabilities import output_and_weights
from headwise.models.projections import Kept, kept_heads
from headwise.models.watch import anybody_watches, watching
from headwise.ops import attention
from headwise.spec import Bias, Documents, Mask, Rule, Rules, SoftCap
from headwise.tracing import break_graph, compiling, recorded

__all__ = ["NAME", "headwise_attention", "register"]

#: The name of the implementation in transformers; it must hold none of "flash", "sdpa", "flex" or "/".
NAME = "headwise"

#: Keywords that travel with a call and cannot change its result: what the mask has said already (causality, windows),
#: what the model's own code has used already (positions, caches), what only other kernels need, what asks for outputs.
HARMLESS = frozenset(
    {
        "is_causal", "sliding_window", "position_ids", "cache_position", "position_embeddings", "use_cache", "cache",
        "past_key_value", "past_key_values", "layer_idx", "layer_head_mask", "deterministic", "training", "return_dict",
        "output_attentions", "output_hidden_states", "output_router_logits", "output_cross_attentions", "seq_idx",
        "num_items_in_batch", "logits_to_keep", "shift_labels", "token_type_ids", "mm_token_type_ids", "labels",
        "max_length_q", "max_length_k", "padding_mask", "implementation", "target_dtype", "synced_gpus",
        "input_ids", "grid_thw", "image_sizes",
    }
)  # fmt: skip

#: What ``generate`` takes beside the fields of a ``GenerationConfig``. Models with a ``generate`` of their own hand all
#: of it on to a forward of theirs (Kosmos-2, Parakeet, Seamless M4T v2).
_OF_GENERATE = frozenset(
    {
        "generation_config", "logits_processor", "stopping_criteria", "prefix_allowed_tokens_fn", "assistant_model",
        "streamer", "negative_prompt_ids", "negative_prompt_attention_mask", "custom_generate",
    }
)  # fmt: skip


def register() -> None:
    """Makes transformers know the name "headwise", attention and mask together; doing it again changes nothing.

    Raises:
        UnavailableError: transformers is not installed.
    """
    library = transformers("use")
    # Known before a compiler asks, which cannot trace an import.
    _Library.write_mask = transformers("use", "masking_utils").sdpa_mask
    _Library.write_additive_mask = transformers("use", "masking_utils").eager_mask
    _Library.collector = transformers("use", "utils.output_capturing")._active_collector
    _Library.of_generate = frozenset(library.GenerationConfig().to_dict()) | _OF_GENERATE
    library.AttentionInterface.register(NAME, _attention)
    library.AttentionMaskInterface.register(NAME, _mask)


class _Library:
    """Parts of transformers that the functions below call."""

    write_mask: Any
    write_additive_mask: Any
    collector: Any
    of_generate: frozenset[str]  # names that say which token is taken


def _attention(module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None]:
    if torch.compiler.is_dynamo_compiling() and (
        anybody_watches() or anybody_edits() or _weights_wanted(module, kwargs)
    ):
        break_graph("use: heads that somebody looks at or edits run outside of torch.compile's graph")
        return torch.compiler.disable(headwise_attention)(module, *args, **kwargs)
    return headwise_attention(module, *args, **kwargs)


def _not_exported(module: nn.Module) -> UnsupportedError:
    return UnsupportedError(
        sentence(
            type(module).__name__,
            "it is exported while its heads are observed or edited, or their weights were asked for",
            "an exported program holds the output of attention alone",
            todo="Export outside of such blocks, without output_attentions.",
        )
    )


def _mask(*args: Any, **kwargs: Any) -> Tensor | None:
    """A described mask; where the call becomes a graph, which cannot hold a description, a written one [B, 1, T, S].

    A model that adds to its mask by itself is given a written one too, in numbers that can be added.
    """
    if getattr(kwargs.get("config"), "model_type", None) in ADDITIVE_MASKS:
        return _Library.write_additive_mask(*args, **kwargs)
    real = kwargs.get("attention_mask")
    if recorded(real, kwargs.get("q_offset")):
        may_skip = kwargs.get("allow_is_bidirectional_skip", False) and real is None
        skips = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": may_skip}
        return _Library.write_mask(*args, **{**kwargs, **skips})
    return headwise_mask(*args, **kwargs)


def headwise_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | Tensor | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    sinks: Tensor | None = None,
    position_bias: Tensor | None = None,
    indices: Tensor | None = None,
    block_indices: Tensor | None = None,
    cu_seq_lens_q: Tensor | None = None,
    cu_seq_lens_k: Tensor | None = None,
    **kwargs: Any,
) -> tuple[Tensor, Tensor | None]:
    """The attention function that transformers calls; names and order of the arguments are transformers'.

    No mask means that every key is visible, whatever a flag says: our mask function leaves no causal mask out.

    Args:
        module: the attention module that calls.
        query: [B, H, T, D].
        key: [B, Hk, S, D].
        value: [B, Hk, S, E].
        attention_mask: what our mask function returned, or a mask of the user's.
        scaling: factor of the scores; None = 1/sqrt(D).
        dropout: probability, applied while ``module.training``.
        softcap: scores become ``softcap * tanh(score / softcap)``.
        s_aux: one sink logit a head, [H].
        sinks: the same under another name.
        position_bias: added to the scores, broadcastable to [B, H, T, S].
        indices: keys that a sparse layer chose for each query.
        block_indices: blocks of keys that it chose.
        cu_seq_lens_q: bounds of the sequences packed in one row, [n + 1].
        cu_seq_lens_k: the same for the keys.
        kwargs: what else travels along; a keyword that is not known to be harmless is an error.

    Returns:
        Output [B, T, H, E], and the exact probabilities [B, H, T, S] where the model was asked for them, else None.

    Raises:
        UnsupportedError: a keyword that has no exact meaning here.
    """
    _refuse_unknown(module, kwargs)
    query, key, value = _one_batch(query, key, value)
    said = read(attention_mask, key.shape[2])
    if isinstance(scaling, Tensor):
        query, scaling = query * scaling, 1.0
    kept = kept_heads(module)
    cap: tuple[Rules, ...] = () if softcap is None else (SoftCap(float(softcap)),)
    bias: tuple[Rules, ...] = () if position_bias is None else (_bias(position_bias, query, key, kept),)
    sinks = _sinks_a_head(module, s_aux if s_aux is not None else sinks)
    mask, lowest = said.mask, said.scores
    hides_by_a_number = bool(cap or bias) or not runs_on_sdpa(type(module))
    # Beside a sink such a row is 0 either way, and a float mask holds the number itself.
    if hides_by_a_number and mask is not None and sinks is None and not lowest:
        mask, lowest = spread_evenly(mask, said.empty_rows(query, key), key.shape[2], query.dtype)
    mask = _with_choice(mask, module, query, indices, block_indices)
    mask = _with_packing(mask, query, key, cu_seq_lens_q, cu_seq_lens_k)
    options: dict[str, Any] = {
        "mask": mask,
        "scores": cap + bias + lowest,
        "scale": None if scaling is None else float(scaling),
        "q_start": said.q_start,
        "kv_heads": None if kept is None or kept.even else kept.kv_heads,
        "sinks": sinks,
        "dropout": float(dropout) if module.training else 0.0,
    }
    call = Call(query, key, value, options, said.keys_from, said.real_queries)
    edits, weights_wanted = editing(module), _weights_wanted(module, kwargs)
    if compiling() and (edits is not None or weights_wanted or watching(module)):
        raise _not_exported(module)
    out, weights = _run(module, call, edits, weights_wanted)
    return out.transpose(1, 2).contiguous(), weights


def _bias(position_bias: Tensor, query: Tensor, key: Tensor, kept: Kept | None) -> Bias:
    """A bias a head; one made for all heads of the unpruned model serves those that are left."""
    if kept is not None and position_bias.shape[1] not in (1, query.shape[1]):
        position_bias = position_bias[:, list(kept.heads)]
    return Bias(position_bias[..., : key.shape[2]])


def _run(module: nn.Module, call: Call, edits: Edits | None, weights: bool) -> tuple[Tensor, Tensor | None]:
    if edits is not None:
        call = edits.before(call)
    watchers = watching(module)
    if not watchers and not weights:
        out = attention(call.q, call.k, call.v, **call.options)
        return (out if edits is None else edits.after(call, out)), None
    # Once, whoever looks: a second run would draw a second seed of dropout.
    ran, shown = attend_real_queries(call, [watcher.observers() for watcher in watchers])
    out = ran.out if edits is None else edits.after(call, ran.out)
    mask = mask_of_statistics(call)
    for watcher, attended in zip(watchers, shown, strict=True):
        watcher.took(module, replace(attended, out=out), mask)
    return output_and_weights(module, call, out, ran.pattern) if weights else (out, None)


def _refuse_unknown(module: nn.Module, kwargs: dict[str, Any]) -> None:
    for name, value in kwargs.items():
        if value is None or name in HARMLESS or (name in _Library.of_generate and not _writes(module, name)):
            continue
        raise UnsupportedError(
            sentence(
                type(module).__name__,
                f"the keyword {name!r} reached the attention function",
                "a keyword that may change the result is applied or refused, never ignored; this one is not known",
                todo="Leave it out, or hw.restore(model) to run the model as before.",
            )
        )


def _writes(module: nn.Module, keyword: str) -> bool:
    """Whether the model's own code names a keyword in a call, and does not only hand on what it was given.

    Asked are the forwards of the file that defines the module; transformers writes one file for each model type.
    """
    cls = type(module)
    beside = vars(sys.modules[cls.__module__]).values()
    classes = {cls, *(one for one in beside if isinstance(one, type) and one.__module__ == cls.__module__)}
    forwards = [inspect.unwrap(one.__dict__["forward"]) for one in classes if "forward" in one.__dict__]
    codes = [forward.__code__ for forward in forwards if hasattr(forward, "__code__")]
    return any(isinstance(names, tuple) and keyword in names for code in codes for names in code.co_consts)


def _one_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Learned queries come with a batch of 1 beside keys of many: expanded, as a matrix product broadcasts."""
    b = max(query.shape[0], key.shape[0], value.shape[0])
    q, k, v = (t.expand(b, -1, -1, -1) if t.shape[0] == 1 and b != 1 else t for t in (query, key, value))
    if not q.dtype == k.dtype == v.dtype:
        common = torch.promote_types(torch.promote_types(q.dtype, k.dtype), v.dtype)
        q, k, v = q.to(common), k.to(common), v.to(common)
    return q, k, v


def _sinks_a_head(module: nn.Module, sinks: Tensor | None) -> Tensor | None:
    if sinks is None or sinks.dim() == 1:
        return sinks
    raise UnsupportedError(
        sentence(
            type(module).__name__,
            f"its sinks are {list(sinks.shape)}, one a token",
            "hw.attention has one sink a head, [H]",
            todo="hw.restore(model) runs the model as before.",
        )
    )


def _with_choice(
    mask: Mask | None, module: nn.Module, query: Tensor, indices: Tensor | None, block_indices: Tensor | None
) -> Mask | None:
    """Adds the keys that a sparse layer chose: a rule over the sorted choice, never a T x S tensor."""
    try:
        chosen = chosen_cells(module, indices, block_indices)
    except ValueError:
        raise UnsupportedError(
            sentence(
                type(module).__name__,
                "it chooses blocks of keys and does not say how large a block is",
                "a choice of blocks is applied exactly or refused",
            )
        ) from None
    if chosen is None:
        return mask
    ordered, size = chosen[0].long().sort(-1).values, chosen[1]
    share = query.shape[1] // ordered.shape[1]

    def is_chosen(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        choice = ordered[b, h // share, i].squeeze(-2)  # [b, h, n, k]: b, h, i have one key axis of size 1
        wanted = (j // size).expand(*choice.shape[:-1], j.shape[-1]).contiguous()
        at = torch.searchsorted(choice.contiguous(), wanted).clamp(max=choice.shape[-1] - 1)
        return choice.gather(-1, at) == wanted

    rule = Rule(is_chosen)
    return rule if mask is None else mask & rule


def _with_packing(
    mask: Mask | None, query: Tensor, key: Tensor, of_queries: Tensor | None, of_keys: Tensor | None
) -> Mask | None:
    """Keeps packed sequences apart where the call names their bounds and the mask does not hold them already."""
    if (
        of_queries is None
        or query.shape[0] != 1
        or (mask is not None and any(isinstance(p, Documents) for p in mask.parts()))
    ):
        return mask
    of_keys = of_queries if of_keys is None else of_keys
    if int(of_queries[-1]) != query.shape[2] or int(of_keys[-1]) != key.shape[2] or len(of_queries) <= 2:
        return mask  # the bounds are those of a larger whole that the model has cut up itself
    documents = Documents.from_offsets(of_queries, of_keys)
    return documents if mask is None else mask & documents


def _weights_wanted(module: nn.Module, kwargs: dict[str, Any]) -> bool:
    """Whether somebody will keep the probabilities that a module returns.

    Newer models collect them with hooks that read a collector in a context variable; older ones hand a flag down, and
    some of these keep it in the calling forward without passing it on.
    """
    if kwargs.get("output_attentions"):
        return True
    collector = _Library.collector.get()
    if collector is not None and any("attentions" in key for key in collector):
        return True
    if torch.compiler.is_dynamo_compiling():
        return False  # no frame is there to be asked; models that would have to be have the collector as well
    forward = inspect.unwrap(type(module).forward).__code__
    if "output_attentions" not in forward.co_varnames:
        return False
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code is not forward:
        frame = frame.f_back
    return frame is not None and frame.f_locals.get("output_attentions") is True
