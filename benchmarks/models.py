"""Whole models of transformers: ours, transformers' sdpa, and the same model with attention left out, the ceiling."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from pydoc_data.topics import topics
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from benchmarks.cases import DTYPES, Bench
from benchmarks.gate import WrongAnswer
from benchmarks.peers import Peer
from benchmarks.prepare import OURS, Prepared

__all__ = ["minilm", "smollm2_decode", "smollm2_prefill"]

CEILING = "without attention"
#: How far a float32 model's output may be from that of the same model on sdpa, relative to its norm.
SAME_MODEL = 1e-4


@functools.cache
def _loaded(name: str, dtype: torch.dtype) -> tuple[Any, Any]:
    return hw.load(name, dtype=dtype)


def _variants(name: str, dtype: torch.dtype) -> tuple[dict[str, Any], Any]:
    """The model on ours, on sdpa and without attention; the three share their weights."""
    model, tokenizer = _loaded(name, dtype)
    _register_nothing()
    made = {}
    for variant in (OURS, "sdpa", CEILING):
        shared = {id(x): x for x in (*model.parameters(), *model.buffers())}
        made[variant] = copy.deepcopy(model, shared)
    hw.use(made[OURS])
    made["sdpa"].set_attn_implementation("sdpa")
    made[CEILING].set_attn_implementation(CEILING)
    return made, tokenizer


def _register_nothing() -> None:
    """Attention that hands on the queries: what a model costs if its attention cost nothing."""
    from transformers import AttentionInterface, AttentionMaskInterface

    def nothing(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Any, **kwargs: Any) -> Any:
        return query.transpose(1, 2), None

    AttentionInterface.register(CEILING, nothing)
    AttentionMaskInterface.register(CEILING, lambda *args, **kwargs: None)


def text(tokenizer: Any, tokens: int) -> Tensor:
    """So many tokens [1, T] of Python's own documentation."""
    words = "\n".join(topics[name] for name in sorted(topics))
    return tokenizer(words, return_tensors="pt").input_ids[:, :tokens]


def _same(ours: Tensor, theirs: Tensor, exact: Tensor | None = None) -> dict[str, float]:
    """Judges a model's output by sdpa's: close to it in float32; in bfloat16 about as close to float32 as sdpa's is."""

    def apart(x: Tensor, y: Tensor) -> float:
        return float((x.double() - y.double()).norm() / y.double().norm())

    if exact is None:
        error, budget = apart(ours, theirs), SAME_MODEL
    else:
        error, budget = apart(ours, exact), 2 * apart(theirs, exact) + torch.finfo(ours.dtype).eps
    if not error <= budget:
        raise WrongAnswer(f"the model's output is {error:.3g} from what it should be, {budget:.3g} is allowed")
    return {"error": error, "allowed": budget}


def smollm2_decode(bench: Bench, peers: Sequence[Peer]) -> Prepared:
    """One token after so many in the cache, the same token again and again; each side grows a cache of its own."""
    dtype, length = DTYPES[bench.axes["dtype"]], bench.axes["S"]
    models, tokenizer = _variants("smollm2", dtype)
    config = models[OURS].config
    past = _past(tokenizer, length)
    token = torch.tensor([[11]])
    caches = {
        OURS: _filled(hw.models.GrowingCache(config=config), past, dtype),
        "sdpa": _filled(_dynamic_cache(config), past, dtype),
    }

    def step_of(name: str) -> Callable[[], Tensor]:
        return lambda: models[name](token, cache=caches[name], use_cache=True).logits

    def without() -> Any:
        return models[CEILING](token, position_ids=torch.tensor([[length]]), use_cache=False)

    sides: dict[str, Callable[[], Any]] = {name: step_of(name) for name in caches}
    exact = None
    if dtype != torch.float32:
        wide = _variants("smollm2", torch.float32)[0]["sdpa"]
        exact = wide(token, cache=_filled(_dynamic_cache(config), past, torch.float32), use_cache=True).logits
    right = _same(sides[OURS](), sides["sdpa"](), exact)
    sides[CEILING] = without
    # Everything held is read once a token: weights (the embedding is the output layer too) and the cache.
    held = sum(x.numel() * x.element_size() for x in models[OURS].parameters())
    size = held + sum(2 * k.numel() * dtype.itemsize for k, _ in past)
    return Prepared(sides, {}, right, _backend(models[OURS], length), size=size)


def _past(tokenizer: Any, length: int, real: int = 1024) -> list[tuple[Tensor, Tensor]]:
    """Keys and values of so many tokens for each layer, [1, Hk, S, D]: those of a real text, again and again."""
    model = _variants("smollm2", torch.float32)[0]["sdpa"]
    cache = _dynamic_cache(model.config)
    model(text(tokenizer, real), cache=cache, use_cache=True, logits_to_keep=1)
    assert length % real == 0
    again = (1, 1, length // real, 1)
    return [(layer.keys.repeat(again), layer.values.repeat(again)) for layer in cache.layers]


def _filled(cache: Any, past: Sequence[tuple[Tensor, Tensor]], dtype: torch.dtype) -> Any:
    for layer, (k, v) in enumerate(past):
        cache.update(k.to(dtype, copy=True), v.to(dtype, copy=True), layer)
    return cache


def _dynamic_cache(config: Any) -> Any:
    from transformers import DynamicCache

    return DynamicCache(config=config)


def _backend(model: Any, length: int, queries: int = 1) -> str:
    """The backend that a site's call reaches."""
    config = model.config
    width = config.hidden_size // config.num_attention_heads
    kv = getattr(config, "num_key_value_heads", config.num_attention_heads)
    q = torch.empty(1, config.num_attention_heads, queries, width, dtype=model.dtype)
    k = torch.empty(1, kv, length, width, dtype=model.dtype)
    return hw.explain(q, k, k, mask=None if queries == 1 else hw.Causal()).chosen


def smollm2_prefill(bench: Bench, peers: Sequence[Peer]) -> Prepared:
    """A prompt in one forward, plain, on sdpa, with every head asked everything, and without attention."""
    dtype, length = DTYPES[bench.axes["dtype"]], bench.axes["T"]
    models, tokenizer = _variants("smollm2", dtype)
    ids = text(tokenizer, length)
    assert ids.shape[1] == length

    def step_of(name: str) -> Callable[[], Tensor]:
        return lambda: models[name](ids, use_cache=False, logits_to_keep=1).logits

    asked = observers(models[OURS], ids[0])

    def observed() -> Any:
        with hw.observe(models[OURS], *asked):
            return step_of(OURS)()

    sides = {name: step_of(name) for name in models}
    right = _same(sides[OURS](), sides["sdpa"]())
    if not torch.equal(observed(), sides[OURS]()):
        raise WrongAnswer("the model's output changes when it is observed")
    return Prepared(sides | {"observed": observed}, {}, right, _backend(models[OURS], length, length))


def observers(model: Any, ids: Tensor) -> list[Any]:
    """One of each kind. Contribution has the first layer's weights: what it costs does not depend on them."""
    T = ids.shape[0]
    segments = torch.arange(T) * 16 // T
    return [
        hw.LogSumExp(),
        hw.MaxLogit(),
        hw.Entropy(),
        hw.Received(),
        hw.Offsets(limit=64),
        hw.TopKeys(8),
        hw.MassOn(torch.zeros(T, 1, dtype=torch.long)),
        hw.MassWhere(ids, ids),
        hw.Segments(segments, segments),
        hw.Map(64, 64),
        hw.Crop(slice(T // 2, T // 2 + 64), slice(0, 64)),
        hw.Contribution(model.model.layers[0].self_attn.o_proj.weight.detach()),
    ]


def minilm(bench: Bench, peers: Sequence[Peer]) -> Prepared:
    """A batch of texts of many lengths through an encoder; outputs at padding are nobody's, and are not compared."""
    dtype, longest, count = DTYPES[bench.axes["dtype"]], bench.axes["T"], bench.axes["B"]
    models, tokenizer = _variants("minilm", dtype)
    words = " ".join(topics[name] for name in sorted(topics)).split()
    lengths = [8 + (longest - 8) * n // count for n in range(count)]
    texts = [" ".join(words[100 * n : 100 * n + length]) for n, length in enumerate(lengths)]
    batch = tokenizer(texts, return_tensors="pt", padding="max_length", truncation=True, max_length=longest)
    real = batch["attention_mask"].bool()
    sides = {name: functools.partial(lambda model: model(**batch).last_hidden_state, models[name]) for name in models}
    exact = None
    if dtype != torch.float32:
        exact = _variants("minilm", torch.float32)[0]["sdpa"](**batch).last_hidden_state[real]
    right = _same(sides[OURS]()[real], sides["sdpa"]()[real], exact)
    backend = _backend(models[OURS], longest, longest)
    return Prepared(sides, {}, right, backend, extra={"real": float(real.float().mean())})
