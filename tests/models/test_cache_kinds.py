"""Every kind of cache under transformers: DynamicCache's tokens and logits, or the difference that the kind means."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache

import headwise as hw
from headwise.errors import ShapeError, SpecError, UnsupportedError
from headwise.models.adapter import CacheLayer, TransformersCache
from headwise.nn.cache import Cache, KVCache
from headwise.nn.paged import PagedCache
from headwise.nn.pool import PagePool
from headwise.nn.quantised import QuantisedCache, quantised
from headwise.nn.ring import RingCache
from headwise.nn.static import StaticCache

TOLD: dict[str, Any] = {"max_new_tokens": 8, "return_dict_in_generate": True, "output_logits": True}
EXACT: dict[str, Callable[[], Cache]] = {
    "growing": KVCache,
    "static": lambda: StaticCache(22),
    "wide ring": lambda: RingCache(30),
    "pages": lambda: PagedCache(page_size=3),
}
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "beams": {"do_sample": False, "num_beams": 3},
    "prompt lookup": {"do_sample": False, "prompt_lookup_num_tokens": 3},
    "prompt in chunks": {"do_sample": False, "prefill_chunk_size": 3},
    "token by token": {"do_sample": False, "prefill_chunk_size": 1},
}
DECODERS, BOTH = ("llama", "mistral", "gemma2"), ("t5", "bart")


def prompt(zoo: Any, family: str, way: str = "greedy") -> dict[str, Tensor]:
    """Two rows padded on the left; one row for prompt lookup, which takes only one."""
    batch = zoo.batch(family, "none" if "prefill_chunk_size" in WAYS[way] else "left")
    batch.pop("decoder_input_ids", None)
    return {name: value[:1] if way == "prompt lookup" else value for name, value in batch.items()}


def adapted(model: Any, make: Callable[[], Cache]) -> Any:
    if model.config.is_encoder_decoder:
        return EncoderDecoderCache(TransformersCache(make, model.config), TransformersCache(make, model.config))
    return TransformersCache(make, model.config)


def dynamic(model: Any) -> Any:
    """transformers' own cache of a model."""
    if model.config.is_encoder_decoder:
        return EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))
    return DynamicCache(config=model.config)


def generated(model: Any, batch: dict[str, Tensor], cache: Any = None, **options: Any) -> Any:
    torch.manual_seed(1)
    return model.generate(**batch, **TOLD, **options, **({} if cache is None else {"cache": cache}))


def same(found: Any, wanted: Any) -> None:
    assert torch.equal(found.sequences, wanted.sequences)
    for ours, theirs in zip(found.logits, wanted.logits, strict=True):
        torch.testing.assert_close(ours, theirs)


# An encoder reads its prompt whole. Rolling back and cutting the prompt is where the kinds differ the most.
CALLS = [
    (family, way, kind)
    for way, options in WAYS.items()
    for family in (*DECODERS, *BOTH)
    for kind in EXACT
    if family in DECODERS or "prefill_chunk_size" not in options
    if kind in ("static", "pages") or way in ("greedy", "prompt lookup")
]


@pytest.mark.parametrize(("family", "way", "kind"), CALLS)
def test_generate_gives_what_dynamic_cache_gives(zoo: Any, family: str, way: str, kind: str) -> None:
    model, batch = zoo.model(family), prompt(zoo, family, way)
    if kind in ("static", "pages"):  # the others on transformers' own path
        hw.use(model)
    cache = adapted(model, EXACT[kind])
    found = generated(model, batch, cache, **WAYS[way])
    same(found, generated(model, batch, dynamic(model), **WAYS[way]))
    assert found.cache is cache
    own = cache.self_attention_cache if model.config.is_encoder_decoder else cache
    assert own.get_seq_length() >= 8
    assert [type(layer) for layer in own.layers] == [CacheLayer] * 2


@pytest.mark.parametrize("kind", EXACT)
def test_an_assistant_is_followed(zoo: Any, kind: str) -> None:
    model, assistant = zoo.model("llama"), zoo.model("llama")
    with torch.no_grad():  # near enough to be believed sometimes
        for weight in assistant.parameters():
            weight.add_(torch.randn_like(weight) * weight.abs().mean() * 0.2)
    batch = prompt(zoo, "llama", "prompt lookup")
    options = {"assistant_model": assistant, "do_sample": False}
    found = generated(model, batch, TransformersCache(EXACT[kind], model.config), **options)
    same(found, generated(model, batch, DynamicCache(config=model.config), **options))


# A loop of one's own, without a config


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("family", DECODERS)
def test_a_loop_of_ones_own(zoo: Any, family: str, kind: str) -> None:
    model, ids = zoo.model(family), torch.randint(3, 64, (2, 14))
    cache = TransformersCache(EXACT[kind])
    with torch.no_grad():
        logits = [model(piece, cache=cache).logits for piece in ids.split([5, 1, 1, 4, 1, 2], 1)]
        torch.testing.assert_close(torch.cat(logits, 1), model(ids, use_cache=False).logits, rtol=1e-4, atol=1e-5)
    assert (len(cache), cache.get_seq_length()) == (2, 14)


@pytest.mark.parametrize("kind", EXACT)
def test_every_method_does_what_dynamic_caches_does(kind: str) -> None:
    ours, theirs = TransformersCache(EXACT[kind]), DynamicCache()
    done = [
        (4, lambda cache: cache.crop(-2)),
        (1, lambda cache: cache.crop(0)),
        (3, lambda cache: cache.batch_repeat_interleave(2)),
        (1, lambda cache: cache.reorder_cache(torch.tensor([3, 0, 0, 1]))),
        (2, lambda cache: cache.batch_select_indices(torch.tensor([2, 0]))),
        (1, lambda cache: cache.batch_select_indices(torch.tensor([True, False]))),
        (1, lambda cache: cache.reset()),
        (2, lambda cache: None),
    ]
    rows = 2
    for n, act in done:
        k, v = torch.randn(rows, 2, n, 4), torch.randn(rows, 2, n, 3)
        for layer in (0, 1):
            assert ours.get_mask_sizes(n, layer) == theirs.get_mask_sizes(n, layer)
            for got, wanted in zip(ours.update(k, v, layer), theirs.update(k, v, layer), strict=True):
                assert torch.equal(got, wanted)
        act(ours)
        act(theirs)
        for mine, other in zip(ours.layers, theirs.layers, strict=True):
            assert mine.get_seq_length() == other.get_seq_length()
            assert mine.is_initialized == other.is_initialized
            if other.get_seq_length():
                assert torch.equal(mine.keys, other.keys)
                assert torch.equal(mine.values, other.values)
        rows = len(theirs.layers[0].keys) if theirs.get_seq_length() else 2
    assert ours.get_max_length() == (22 if kind == "static" else -1)


# The ring


@pytest.mark.parametrize("used", [False, True], ids=["plain", "in use"])
@pytest.mark.parametrize(("family", "way"), [("mistral", way) for way in WAYS if way != "prompt lookup"])
def test_a_ring_of_the_models_window_is_the_model(zoo: Any, family: str, way: str, used: bool) -> None:
    model, batch = zoo.model(family), prompt(zoo, family, way)
    if used:
        hw.use(model)
    cache = TransformersCache(lambda: RingCache(4), model.config)
    same(generated(model, batch, cache, **WAYS[way]), generated(model, batch, DynamicCache(), **WAYS[way]))
    assert [layer.keys.shape[2] for layer in cache.layers] == [3, 3]


@pytest.mark.parametrize("family", ["llama", "gemma2", "mistral"])
@pytest.mark.parametrize("window", [3, 6])
def test_a_narrower_ring_is_the_model_with_that_window(zoo: Any, family: str, window: int) -> None:
    """Token by token, beside the same weights whose mask is written out and that keep no cache."""
    model, ids = zoo.model(family), torch.randint(3, 64, (2, 12))
    cache = TransformersCache(lambda: RingCache(window), model.config)
    with torch.no_grad():
        got = torch.cat([model(ids[:, i : i + 1], cache=cache).logits for i in range(12)], 1)
        at = torch.arange(12)
        near = (at[:, None] >= at) & (at[:, None] - at < window)
        own = near & (at[:, None] - at < 4)  # the window that the families' sliding layers have
        masks = {"full_attention": near, "sliding_attention": own}
        written = {kind: torch.zeros(2, 1, 12, 12).masked_fill(~mask, -torch.inf) for kind, mask in masks.items()}
        chosen = {"llama": written["full_attention"], "mistral": written["sliding_attention"], "gemma2": written}
        wanted = model(ids, attention_mask=chosen[family], use_cache=False).logits
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)


def test_what_a_ring_cannot_hide_is_refused_whole(zoo: Any) -> None:
    model, ids = zoo.model("gemma2"), torch.randint(3, 64, (1, 9))
    cache = TransformersCache(lambda: RingCache(4), model.config)
    with torch.no_grad():
        model(ids[:, :4], cache=cache)  # as many as the window: every query sees less than it
        for _ in range(2):
            with pytest.raises(UnsupportedError, match="5 tokens come in one call behind 3 held, in a layer of no"):
                model(ids[:, 4:], cache=cache)
            assert [layer.get_seq_length() for layer in cache.layers] == [4, 4]
        model(ids[:, 4:5], cache=cache)
        with pytest.raises(UnsupportedError, match="prefill_chunk_size=1"):
            generated(zoo.model("llama"), {"input_ids": ids}, TransformersCache(lambda: RingCache(4)))
        batch = {"input_ids": ids}
        model = zoo.model("llama")
        found = generated(model, batch, TransformersCache(lambda: RingCache(4)), do_sample=False, prefill_chunk_size=1)
    assert found.sequences.shape[1] == 17
    model = zoo.model("mistral")
    cache = TransformersCache(lambda: RingCache(3), model.config)
    with pytest.raises(UnsupportedError, match=r"in a layer of a window of 4; .* use RingCache\(n\) with n at least 4"):
        model(ids, cache=cache)
    with pytest.raises(UnsupportedError, match="has sinks; a mask of transformers is made for one run of keys"):
        TransformersCache(lambda: RingCache(4, sinks=1), model.config)


def test_a_ring_takes_drafts_back(zoo: Any) -> None:
    model = zoo.model("mistral")
    batch = prompt(zoo, "mistral", "prompt lookup")
    cache = TransformersCache(lambda: RingCache(4), model.config)
    found = generated(model, batch, cache, **WAYS["prompt lookup"])
    same(found, generated(model, batch, DynamicCache(config=model.config), **WAYS["prompt lookup"]))


# Eight bits


@pytest.mark.parametrize("family", [*DECODERS, *BOTH])
def test_eight_bits_are_the_model_with_rounded_keys_and_values(zoo: Any, family: str) -> None:
    """Against DynamicCache handed numbers that were rounded before: the cache adds no error of its own."""
    model, batch = zoo.model(family), prompt(zoo, family)
    found = generated(model, batch, adapted(model, QuantisedCache), do_sample=False)
    wanted = generated(model, batch, Rounding.of(model), do_sample=False)
    same(found, wanted)
    exact = generated(model, batch, dynamic(model), do_sample=False).logits[0]
    assert not torch.equal(found.logits[0], exact)
    torch.testing.assert_close(found.logits[0], exact, rtol=0, atol=0.05 * float(exact.abs().max()))


def rounded(x: Tensor) -> Tensor:
    """Numbers that went through eight bits."""
    numbers, scales = quantised(x)
    return (numbers * scales).to(x.dtype)


class Rounding(DynamicCache):
    """transformers' cache of numbers that went through eight bits."""

    @classmethod
    def of(cls, model: Any) -> Any:
        own = cls(config=model.config)
        return EncoderDecoderCache(own, cls(config=model.config)) if model.config.is_encoder_decoder else own

    def update(self, k: Tensor, v: Tensor, *args: Any, **kwargs: Any) -> Any:
        k, v = (rounded(x) for x in (k, v))
        return super().update(k, v, *args, **kwargs)


@pytest.mark.parametrize("cut", [[14], [1] * 14, [5, 1, 1, 4, 1, 2]])
def test_eight_bits_do_not_depend_on_how_the_text_is_cut(zoo: Any, cut: list[int]) -> None:
    model, ids = zoo.model("llama"), torch.randint(3, 64, (2, 14))
    with torch.no_grad():
        logits = []
        for pieces in (ids.split(cut, 1), [ids]):
            cache = TransformersCache(QuantisedCache, model.config)
            logits.append(torch.cat([model(piece, cache=cache).logits for piece in pieces], 1))
    # a key that lies on the edge of a step may fall on either side by rounding of another order
    torch.testing.assert_close(logits[0], logits[1], rtol=0, atol=0.02 * float(logits[1].abs().max()))


# What else there is


def test_layers_that_share_a_pool_and_a_pool_that_is_full(zoo: Any) -> None:
    model, ids = zoo.model("llama"), torch.randint(3, 64, (1, 8))
    pool = PagePool(page_size=4, limit=5)
    cache = TransformersCache(lambda: PagedCache(pages=pool), model.config)
    with torch.no_grad():
        model(ids, cache=cache)
        assert pool.used == 4
        with pytest.raises(ShapeError, match="1 more pages are wanted, 0 of 5 are free"):
            model(ids[:, :1], cache=cache)
        assert [layer.get_seq_length() for layer in cache.layers] == [8, 8]  # the first layer gave its page back
        assert pool.used == 4
        cache.crop(-1)
        again = model(ids[:, 7:], cache=cache).logits
        torch.testing.assert_close(again, model(ids).logits[:, 7:])


def test_a_static_cache_that_is_full_says_so(zoo: Any) -> None:
    model, ids = zoo.model("llama"), torch.randint(3, 64, (1, 8))
    cache = TransformersCache(lambda: StaticCache(9), model.config)
    with pytest.raises(ShapeError, match="StaticCache: 1 tokens behind the 9 held pass the capacity of 9"):
        generated(model, {"input_ids": ids}, cache)
    assert [layer.get_seq_length() for layer in cache.layers] == [9, 9]


@pytest.mark.parametrize("kind", [*EXACT, "eight bits"])
def test_copies_and_files_go_their_own_way(zoo: Any, kind: str) -> None:
    model, ids = zoo.model("llama"), torch.randint(3, 64, (1, 10))
    with torch.no_grad():
        cache = TransformersCache(EXACT.get(kind, QuantisedCache), model.config)
        model(ids[:, :6], cache=cache)
        others = [copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))]
        wanted = model(ids[:, 6:8], cache=cache).logits
        for other in others:
            assert other.get_seq_length() == 6
            assert torch.equal(model(ids[:, 6:8], cache=other).logits, wanted)
    without = TransformersCache(KVCache)
    assert len(copy.deepcopy(without)) == len(pickle.loads(pickle.dumps(without))) == 0


def test_states_that_are_no_keys_stay_transformers_own(zoo: Any) -> None:
    config = transformers.Lfm2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=48,
        block_ff_dim=48, vocab_size=64, pad_token_id=0, eos_token_id=None, layer_types=["conv", "full_attention"],
    )  # fmt: skip
    model, batch = transformers.Lfm2ForCausalLM(config).eval(), {"input_ids": torch.randint(3, 64, (2, 6))}
    cache = TransformersCache(PagedCache, config)
    same(generated(model, batch, cache, do_sample=False), generated(model, batch, do_sample=False))
    assert [type(layer).__name__ for layer in cache.layers] == ["LinearAttentionLayer", "CacheLayer"]


def test_what_is_wrong_is_one_sentence() -> None:
    config, full = transformers.LlamaConfig(num_hidden_layers=1), KVCache()
    full.append(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))
    for make in (lambda: None, DynamicCache, lambda: full):
        with pytest.raises(SpecError, match=r"TransformersCache: make\(\) gave"):
            TransformersCache(make, config)
    cache = TransformersCache(KVCache, config)
    cache.update(torch.zeros(1, 1, 3, 1), torch.zeros(1, 1, 3, 1), 0)
    with pytest.raises(SpecError, match=r"tokens_to_remove is 1"):
        cache.crop(1)
    with pytest.raises(UnsupportedError, match=r"offload\(\) was called"):
        cache.offload(0)
