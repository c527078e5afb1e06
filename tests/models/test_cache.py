"""The growing cache of `generate`: DynamicCache's tokens and numbers without its copies, unless the user says other."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import weakref
from pydoc_data.topics import topics
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import DynamicCache, EncoderDecoderCache, StaticCache

import headwise as hw
from headwise.errors import LeftOutWarning
from headwise.models import GrowingCache
from headwise.models.cache import GrowingLayer, GrowingWindowLayer, give_growing_caches, take_growing_caches
from headwise.nn.growing import Growing

TOLD: dict[str, Any] = {"max_new_tokens": 12, "return_dict_in_generate": True, "output_logits": True}
WAYS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False},
    "sampled": {"do_sample": True},
    "beams": {"do_sample": False, "num_beams": 3},
    "sampled beams": {"do_sample": True, "num_beams": 2, "num_return_sequences": 2},
    "prompt lookup": {"do_sample": False, "prompt_lookup_num_tokens": 3},
    "prompt in chunks": {"do_sample": False, "prefill_chunk_size": 3},
}
THEIRS = {"cache_implementation": "dynamic"}
HYBRID = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "block_ff_dim": 48, "vocab_size": 64, "pad_token_id": 0, "max_position_embeddings": 64,
}  # fmt: skip


def prompt(zoo: Any, family: str, way: str) -> dict[str, torch.Tensor]:
    """Two rows padded on the left; one row for ways that take only one."""
    batch = zoo.batch(family, "none" if way == "prompt in chunks" else "left")
    batch.pop("decoder_input_ids", None)
    return {name: value[:1] if way == "prompt lookup" else value for name, value in batch.items()}


def generated(model: Any, batch: dict[str, torch.Tensor], **options: Any) -> Any:
    torch.manual_seed(1)
    return model.generate(**batch, **TOLD, **options)


def same(found: Any, wanted: Any) -> None:
    """The same tokens, and logits that differ by no more than another order of the same sums."""
    assert torch.equal(found.sequences, wanted.sequences)
    for ours, theirs in zip(found.logits, wanted.logits, strict=True):
        torch.testing.assert_close(ours, theirs)


def own(cache: Any) -> Any:
    """The cache of self attention."""
    return cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache


class Copied(TorchDispatchMode):
    """Counts the numbers that concatenating, copying and gathering write."""

    WRITES = ("cat", "copy_", "clone", "index_select", "index")

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in self.WRITES:
            self.count += result.numel()
        return result


# The same tokens and logits


DECODERS, BOTH = ("llama", "mistral", "gemma2", "llama4", "gpt_oss"), ("t5", "bart")
# an encoder reads its prompt whole
CALLS = [(family, way) for way in WAYS for family in (*DECODERS, *BOTH) if family in DECODERS or "chunks" not in way]


@pytest.mark.parametrize("used", [False, True], ids=["plain", "in use"])
@pytest.mark.parametrize(("family", "way"), CALLS)
def test_generate_gives_what_it_gave(zoo: Any, family: str, way: str, used: bool) -> None:
    model = zoo.model(family)
    hw.use(model) if used else give_growing_caches(model)
    batch = prompt(zoo, family, way)
    found, wanted = generated(model, batch, **WAYS[way]), generated(model, batch, **WAYS[way], **THEIRS)
    same(found, wanted)
    assert type(own(found.cache)) is GrowingCache
    assert type(own(wanted.cache)) is DynamicCache
    kinds = [type(layer) for layer in own(found.cache).layers]
    windows = {"mistral": 2, "gemma2": 1, "llama4": 1, "gpt_oss": 1}.get(family, 0)
    assert kinds.count(GrowingWindowLayer) == windows
    assert kinds.count(GrowingLayer) == 2 - windows


def test_a_cache_that_loses_a_key_is_seen(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, whole = zoo.model("llama"), Growing.extended
    give_growing_caches(model)

    def loses_one(self: Growing, new: torch.Tensor) -> torch.Tensor:
        got = whole(self, new).clone()
        got[:, :, 3] = 0
        return got

    monkeypatch.setattr(Growing, "extended", loses_one)
    batch = prompt(zoo, "llama", "greedy")
    with pytest.raises(AssertionError):
        same(generated(model, batch), generated(model, batch, **THEIRS))


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_an_assistant_is_followed(zoo: Any, family: str) -> None:
    model, assistant = hw.use(zoo.model(family)), hw.use(zoo.model(family))
    with torch.no_grad():  # near enough to be believed sometimes
        for weight in assistant.parameters():
            weight.add_(torch.randn_like(weight) * weight.abs().mean() * 0.2)
    batch = prompt(zoo, family, "prompt lookup")
    found = generated(model, batch, assistant_model=assistant, do_sample=False)
    same(found, generated(model, batch, assistant_model=assistant, do_sample=False, **THEIRS))
    assert torch.equal(found.sequences, generated(model, batch, do_sample=False).sequences)
    assert type(found.cache) is GrowingCache


@pytest.mark.parametrize("used", [False, True], ids=["plain", "in use"])
def test_states_that_are_no_keys_stay_transformers_own(used: bool) -> None:
    def model_of(name: str, **options: Any) -> Any:
        config = getattr(transformers, f"{name}Config")(**HYBRID, eos_token_id=None, **options)
        model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
        with pytest.warns(LeftOutWarning, match="without a softmax") if used else contextlib.nullcontext():
            hw.use(model) if used else give_growing_caches(model)
        return model

    batch = {"input_ids": torch.randint(3, 64, (2, 6))}
    half = model_of("Lfm2", layer_types=["conv", "full_attention"])
    found = generated(half, batch, do_sample=False)
    same(found, generated(half, batch, do_sample=False, **THEIRS))
    assert [type(layer).__name__ for layer in found.cache.layers] == ["LinearAttentionLayer", "GrowingLayer"]
    both = model_of("FalconH1", mamba_d_ssm=32, mamba_n_heads=4, mamba_d_head=8, mamba_d_state=8, mamba_chunk_size=4)
    found = generated(both, batch, do_sample=False)
    same(found, generated(both, batch, do_sample=False, **THEIRS))
    assert type(found.cache) is DynamicCache


def test_keys_chosen_by_an_indexer_stay_transformers_own(zoo: Any) -> None:
    model = hw.use(zoo.model("deepseek_v32"))
    found = generated(model, prompt(zoo, "deepseek_v32", "greedy"), do_sample=False)
    assert type(found.cache) is DynamicCache
    assert {type(layer).__name__ for layer in found.cache.layers} == {"DynamicIndexedLayer"}


def test_whisper_generates_in_its_own_way(zoo: Any) -> None:
    model, features = hw.use(zoo.model("whisper")), {"input_features": torch.randn(2, 8, 32)}
    assert torch.equal(generated(model, features).sequences, generated(model, features, **THEIRS).sequences)


# Who decides


def test_a_cache_that_the_user_names_is_used(zoo: Any) -> None:
    model, batch = hw.use(zoo.model("llama")), prompt(zoo, "llama", "greedy")
    given_cache = DynamicCache(config=model.config)
    assert generated(model, batch, cache=given_cache).cache is given_cache
    assert not any(isinstance(layer, GrowingLayer) for layer in given_cache.layers)
    assert type(generated(model, batch, cache_implementation="static").cache) is StaticCache
    assert type(generated(model, batch, **THEIRS).cache) is DynamicCache
    assert generated(model, batch, use_cache=False).get("cache") is None
    model.generation_config.cache_implementation = "dynamic"
    assert type(generated(model, batch).cache) is DynamicCache


def test_restore_takes_it_back_and_load_keeps_it(zoo: Any, tmp_path: Any) -> None:
    model, batch = zoo.model("t5"), prompt(zoo, "t5", "greedy")
    before = zoo.state(model)
    hw.use(hw.use(model))
    assert type(own(generated(model, batch).cache)) is GrowingCache
    hw.restore(model)
    assert zoo.state(model) == before
    assert type(own(generated(model, batch).cache)) is DynamicCache
    model.save_pretrained(tmp_path)
    loaded, _ = hw.load(tmp_path)
    for _ in range(2):
        assert type(own(generated(loaded, batch).cache)) is GrowingCache
        assert not zoo.in_use(loaded)
        hw.restore(hw.use(loaded))


def test_parts_that_generate_are_served_and_others_replacements_are_left(zoo: Any) -> None:
    class Pair(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = zoo.model("llama"), zoo.model("gpt2")

    pair, mine = Pair(), lambda *_: None
    pair.two._prepare_cache_for_generation = mine
    give_growing_caches(pair)
    assert type(generated(pair.one, prompt(zoo, "llama", "greedy")).cache) is GrowingCache
    assert pair.two._prepare_cache_for_generation is mine
    take_growing_caches(pair)
    assert pair.two._prepare_cache_for_generation is mine
    assert type(generated(pair.one, prompt(zoo, "llama", "greedy")).cache) is DynamicCache


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_a_copied_model_prepares_its_own_caches_and_none_is_kept_alive(zoo: Any, copied: Any) -> None:
    model, batch = hw.use(zoo.model("llama")), prompt(zoo, "llama", "greedy")
    wanted, other, alive = generated(model, batch), copied(model), weakref.ref(model)
    hw.restore(model)
    gc.collect()
    gc.disable()
    try:
        del model
        assert alive() is None
    finally:
        gc.enable()
    found = generated(other, batch)
    same(found, wanted)
    assert type(found.cache) is GrowingCache
    assert "_prepare_cache_for_generation" not in vars(hw.restore(other))


def test_a_loop_of_ones_own(zoo: Any) -> None:
    model, ids = hw.use(zoo.model("gemma2")), torch.randint(3, 64, (1, 14))
    cache = GrowingCache(config=model.config)
    with torch.no_grad():
        logits = [model(piece, cache=cache).logits for piece in ids.split([5, 1, 1, 4, 1, 2], 1)]
        torch.testing.assert_close(torch.cat(logits, 1), model(ids, use_cache=False).logits, rtol=1e-4, atol=1e-5)
    assert cache.get_seq_length() == 14


def test_what_is_seen_of_cached_calls_is_seen(zoo: Any) -> None:
    model, batch = zoo.model("mistral"), prompt(zoo, "mistral", "greedy")
    give_growing_caches(model)
    answers = []
    for named in ({}, THEIRS):
        with hw.observe(model, hw.Entropy()) as seen:
            generated(model, batch, do_sample=False, **named)
        answers.append([call["model.layers.1.self_attn"]["entropy"] for call in seen.calls])
    assert len(answers[0]) == TOLD["max_new_tokens"]
    torch.testing.assert_close(answers[0], answers[1])


# The cache itself, beside DynamicCache


def pieces(rows: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, 2, n, 4), torch.randn(rows, 2, n, 3)


DONE = st.lists(
    st.tuples(
        st.sampled_from(["more", "more", "more", "crop", "reorder", "repeat", "select", "reset", "copy"]),
        st.integers(1, 5),
        st.booleans(),
    ),
    min_size=1,
    max_size=20,
)


@settings(deadline=None, max_examples=200)
@given(DONE, st.sampled_from([None, 2, 3, 5]), st.booleans())
def test_every_method_does_what_dynamic_caches_does(
    steps: list[tuple[str, int, bool]], window: int | None, recorded: bool
) -> None:
    config = transformers.MistralConfig(num_hidden_layers=2, sliding_window=window)
    ours, theirs, rows = GrowingCache(config=config), DynamicCache(config=config), 2
    if recorded:
        ours.activate_past_recording()
        theirs.activate_past_recording()
    handed: list[tuple[torch.Tensor, torch.Tensor]] = []
    for what, n, kept in steps:
        if what == "more":
            for layer in (0, 1):
                assert ours.get_mask_sizes(n, layer) == theirs.get_mask_sizes(n, layer)
                k, v = pieces(rows, n)
                for got, wanted in zip(ours.update(k, v, layer), theirs.update(k, v, layer), strict=True):
                    assert torch.equal(got, wanted)
                    handed += [(got, wanted.clone())] * kept
        elif what == "crop":
            length = theirs.get_seq_length()
            if length and (window is None or recorded or length < window):
                ours.crop(-min(n, length))
                theirs.crop(-min(n, length))
        elif what == "copy":
            ours, theirs = pickle.loads(pickle.dumps(ours)), copy.deepcopy(theirs)
        elif what == "reset":
            ours.reset()
            theirs.reset()
            rows = 2
        elif theirs.get_seq_length() > 0 and (what != "repeat" or rows < 9):
            index = torch.randint(rows, (rows if what == "reorder" else n,))
            call = {"reorder": "reorder_cache", "repeat": "batch_repeat_interleave", "select": "batch_select_indices"}
            for cache in (ours, theirs):
                getattr(cache, call[what])(2 if what == "repeat" else index)
            rows = 2 * rows if what == "repeat" else len(index)
        for mine, other in zip(ours.layers, theirs.layers, strict=True):
            assert mine.get_seq_length() == other.get_seq_length()
            assert mine.is_initialized == other.is_initialized
            for one, two in ((mine.keys, other.keys), (mine.values, other.values)):
                assert one is two is None or torch.equal(one, two)
    for view, then in handed:
        assert torch.equal(view, then)


def test_without_a_config_and_from_data() -> None:
    k, v = pieces(2, 6)
    cache = GrowingCache([(k, v), (k, v, torch.tensor(4))])
    assert [type(layer) for layer in cache.layers] == [GrowingLayer, GrowingWindowLayer]
    assert torch.equal(cache.layers[0].keys, k)
    assert cache.layers[1].keys.shape[2] == 3
    again = GrowingCache(iter(cache))
    assert torch.equal(again.layers[0].values, v)
    empty = GrowingCache()
    for layer in (0, 1):
        empty.update(k, v, layer)
    assert [type(layer) for layer in empty.layers] == [GrowingLayer, GrowingLayer]


def test_keys_and_values_of_other_kinds_are_concatenated_as_ever() -> None:
    """Some models cache what is not [B,H,S,D], or change their dtype on the way."""
    for shapes in (((2, 3, 4), (2, 3, 4)), ((2, 1, 3, 4), (2, 5, 3, 6)), ((2, 1, 3, 4), (2, 1, 3, 0))):
        for dtypes in ((torch.float32, torch.float32), (torch.bfloat16, torch.float32)):
            ours, theirs = GrowingCache(), DynamicCache()
            for dtype in (*dtypes, *dtypes):
                k, v = (torch.randn(shape).to(dtype) for shape in shapes)
                for got, wanted in zip(ours.update(k, v, 0), theirs.update(k, v, 0), strict=True):
                    assert torch.equal(got, wanted)
                    assert got.dtype == wanted.dtype
    cache = GrowingCache()
    for _ in range(2):
        cache.update(*pieces(2, 1), 0)
    with pytest.raises(RuntimeError, match="Sizes of tensors must match"):
        cache.update(*pieces(1, 1), 0)


def test_gradients_reach_every_step() -> None:
    for cache in (GrowingCache(), GrowingCache(config=transformers.MistralConfig(num_hidden_layers=1))):
        steps = [tuple(t.requires_grad_() for t in pieces(1, 2)) for _ in range(3)]
        for k, v in steps:
            keys, values = cache.update(k, v, 0)
        (keys.sum() * 2 + values.sum() * 3).backward()
        for k, v in steps:
            assert (k.grad == 2).all()
            assert (v.grad == 3).all()


def test_compiled_steps_between_others() -> None:
    config = transformers.MistralConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, intermediate_size=16,
        vocab_size=32, sliding_window=4,
    )  # fmt: skip
    model = transformers.MistralForCausalLM(config).eval()
    compiled, ids = torch.compile(model, backend="eager", fullgraph=True), torch.randint(0, 32, (1, 10))
    found = []
    for cache in (GrowingCache(config=config), DynamicCache(config=config)):
        with torch.no_grad():
            calls = zip([model, model, compiled, compiled, model, model], ids.split([5, 1, 1, 1, 1, 1], 1), strict=True)
            found.append(torch.cat([call(piece, cache=cache).logits for call, piece in calls], 1))
    torch.testing.assert_close(found[0], found[1])


# What it costs


def test_a_token_costs_its_own_copy() -> None:
    cost = {}
    for kind in (GrowingCache, DynamicCache):
        cache = kind()
        with Copied() as copied, torch.no_grad():
            for _ in range(500):
                cache.update(torch.zeros(1, 1, 1, 4), torch.zeros(1, 1, 1, 4), 0)
        cost[kind] = copied.count
    every_token_once = 500 * 2 * 4
    assert cost[GrowingCache] <= 3.1 * every_token_once
    assert cost[DynamicCache] >= 200 * every_token_once


def test_a_token_of_a_window_costs_its_own_copy_and_memory_is_bounded() -> None:
    window, width = 16, 4
    config = transformers.MistralConfig(num_hidden_layers=1, sliding_window=window)
    cache = GrowingCache(config=config)
    with Copied() as copied, torch.no_grad():
        for n in (200, *[1] * 1000):
            cache.update(torch.zeros(1, 1, n, width), torch.zeros(1, 1, n, width), 0)
            held = cache.layers[0].keys
            assert held.shape[2] == window - 1
            assert held.untyped_storage().nbytes() <= 2 * window * width * 4
    assert copied.count <= 3.1 * 1200 * 2 * width
    kept = cache.layers[0]._keys
    assert kept._buffer is not None
    assert kept._buffer.untyped_storage().data_ptr() == held.untyped_storage().data_ptr()


def test_strides_are_those_of_one_buffer() -> None:
    cache = GrowingCache()
    for n in (5, 1, 1):
        keys, values = cache.update(*pieces(2, n), 0)
    assert keys.stride() == (2 * 10 * 4, 10 * 4, 4, 1)
    assert values.stride() == (2 * 10 * 3, 10 * 3, 3, 1)


def test_rolled_back_tokens_and_moved_beams_stay_in_the_buffer() -> None:
    cache, places = GrowingCache(), set()
    cache.update(*pieces(3, 50), 0)
    for _ in range(20):
        cache.update(*pieces(3, 4), 0)
        cache.crop(-3)
        cache.reorder_cache(torch.tensor([0, 2, 2]))
        places.add(cache.layers[0].keys.untyped_storage().data_ptr())
    assert len(places) == 1


def test_a_pattern_of_keys_that_were_rolled_back_stays_true() -> None:
    cache = GrowingCache()
    for n in (6, 1):
        k, v = cache.update(torch.randn(1, 2, n, 4), torch.randn(1, 2, n, 4), 0)
    pattern = hw.Pattern(torch.randn(1, 2, 7, 4), k, v)
    then = pattern.to_dense()
    del k, v
    cache.crop(-3)
    cache.update(torch.randn(1, 2, 3, 4), torch.randn(1, 2, 3, 4), 0)
    assert torch.equal(pattern.to_dense(), then)


def test_reset_and_offload_let_go_of_the_memory() -> None:
    for let_go in (lambda cache: cache.reset(), lambda cache: cache.batch_select_indices(torch.tensor([0]))):
        cache = GrowingCache()
        for n in (5, 1):
            cache.update(*pieces(2, n), 0)
        buffer = weakref.ref(cache.layers[0]._keys._buffer)
        assert buffer() is not None
        let_go(cache)
        assert buffer() is None


def test_files_hold_what_is_held_and_copies_go_their_own_way(tmp_path: Any) -> None:
    cache = GrowingCache()
    for n in (300, 1):
        cache.update(*pieces(2, n), 0)
    torch.save(cache, tmp_path / "cache.pt")
    assert (tmp_path / "cache.pt").stat().st_size < 1.1 * 301 * 2 * 2 * 7 * 4 + 4096
    again = torch.load(tmp_path / "cache.pt", weights_only=False)
    others = [again, copy.deepcopy(cache), pickle.loads(pickle.dumps(cache))]
    assert all(type(other) is GrowingCache for other in others)
    first, _ = cache.update(*pieces(2, 1), 0)
    then = first.clone()
    for other in others:
        k, v = pieces(2, 1)
        got, _ = other.update(k, v, 0)
        assert torch.equal(got, torch.cat((then[:, :, :-1], k), 2))
    layer = copy.copy(cache.layers[0])
    layer.update(*pieces(2, 1))
    cache.update(*pieces(2, 1), 0)
    assert torch.equal(first, then)
    assert not torch.equal(layer.keys, cache.layers[0].keys)


def test_generate_copies_each_token_a_few_times(zoo: Any) -> None:
    model, batch = zoo.model("llama", max_position_embeddings=256), prompt(zoo, "llama", "greedy")
    give_growing_caches(model)
    cost = []
    for named in ({}, THEIRS):
        with Copied() as copied:
            model.generate(**batch, max_new_tokens=120, do_sample=False, **named)
        cost.append(copied.count)
    layers, token = 2, 2 * 2 * 2 * 8  # both of k and v, of 2 rows, 2 heads, width 8
    concatenated = sum(range(10, 130)) * layers * token
    assert cost[1] - cost[0] > 0.9 * concatenated - 4 * 130 * layers * token


# Real weights


@pytest.mark.xdist_group("real weights")
def test_smollm2_generates_what_it_generated() -> None:
    model, tokenizer = hw.load("smollm2")
    ids = tokenizer(topics["if"], return_tensors="pt").input_ids[:, :60]
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    for used in (False, True):
        if used:
            hw.use(model)
        found = generated(model, batch, do_sample=False)
        assert [type(layer) for layer in found.cache.layers] == [GrowingLayer] * 30
        wanted = generated(model, batch, do_sample=False, **THEIRS)
        assert type(wanted.cache) is DynamicCache
        assert torch.equal(found.sequences, wanted.sequences)
        for ours, theirs in zip(found.logits, wanted.logits, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-4)
