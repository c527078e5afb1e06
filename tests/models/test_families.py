"""Every family gives eager's logits under use(model), and notices when one of its options is dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.models import masks, register
from headwise.models.lower import Place
from headwise.spec import Mask

#: Largest difference of logits allowed, as a part of the largest logit; float32 rounding on peaked rows reaches 7e-6.
TOLERANCE = 2e-5


def difference(ours: Tensor, eager: Tensor) -> float:
    """The largest difference of two outputs as a part of the largest entry."""
    assert ours.shape == eager.shape
    assert bool(ours.isfinite().all())
    return float((ours - eager).abs().max() / eager.abs().max())


def test_there_are_enough_families_of_every_kind(zoo: Any) -> None:
    kinds = [family.kind for family in zoo.families.values()]
    assert len(kinds) >= 40
    assert {"decoder", "encoder", "encoder-decoder", "vision", "audio"} == set(kinds)


def test_logits_equal_eagers(zoo: Any, family: str, padding: str) -> None:
    model, batch = zoo.model(family), zoo.batch(family, padding)
    eager = zoo.result(model, batch)
    assert difference(zoo.result(hw.use(model), batch), eager) < TOLERANCE


def test_rows_are_peaked(zoo: Any, family: str) -> None:
    """A weak pattern would hide a wrong option: dropping a soft cap moves a default tiny model by 1e-7."""
    model = hw.use(zoo.model(family))
    with hw.observe(model, hw.TopKeys(1)) as seen:
        zoo.result(model, zoo.batch(family))
    top = [seen[site]["top_keys"].values.mean() for site in seen.sites]
    assert float(torch.stack(top).mean()) > 0.5


def without(mask: Mask | None, kinds: tuple[type, ...]) -> Mask | None:
    """A mask with every part of some kinds taken out."""
    if mask is None or isinstance(mask, kinds):
        return None
    if isinstance(mask, hw.spec.And):
        kept = [part for part in (without(m, kinds) for m in mask.masks) if part is not None]
        return hw.spec.And(tuple(kept)) if kept else None
    if isinstance(mask, hw.spec.Or):
        # Of keys that are shown to some rows in one way or another, the ways themselves stay.
        members = [part if isinstance(part, kinds) else without(part, kinds) for part in mask.masks]
        return None if any(part is None for part in members) else hw.spec.Or(tuple(members))
    return mask


def _drop_mask(*kinds: type) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda options: {**options, "mask": without(options["mask"], kinds)}


def _drop_score(kind: type) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda options: {**options, "scores": tuple(s for s in options["scores"] if not isinstance(s, kind))}


SWITCHED_OFF: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "causal": _drop_mask(hw.Causal),
    "padding": _drop_mask(hw.Padding),
    "window": _drop_mask(hw.Window),
    "chunks": _drop_mask(hw.Chunks),
    "choice": _drop_mask(hw.Rule),
    "cap": _drop_score(hw.SoftCap),
    "bias": _drop_score(hw.Bias),
    "sink": lambda options: {**options, "sinks": None},
    "scale": lambda options: {**options, "scale": None},
}


def test_each_feature_matters(zoo: Any, feature_of: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: the same model with one option switched off moves by at least 100 tolerances."""
    family, feature = feature_of
    model = hw.use(zoo.model(family))
    # padding on the left, whose wrong keys come before every real query
    batch = zoo.batch(family, "left" if feature == "padding" else "none")
    right = zoo.result(model, batch)
    reached = []

    def crippled(*operands: Tensor, **options: Any) -> Tensor:
        changed = SWITCHED_OFF[feature](options)
        reached.append(str(changed) != str(options))
        return hw.attention(*operands, **changed)

    monkeypatch.setattr(register, "attention", crippled)
    wrong = zoo.result(model, batch)
    assert any(reached)
    assert float((wrong - right).abs().max() / right.abs().max()) > 100 * TOLERANCE


CACHED = ["llama", "mistral", "gemma2", "gemma3", "gpt_oss", "llama4", "deepseek_v3", "gpt2", "opt", "deepseek_v32"]


@pytest.mark.parametrize("family", CACHED)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_a_prompt_in_chunks_on_a_cache(zoo: Any, family: str, cache: str) -> None:
    """The second chunk on a static cache is where a wrong alignment shows: its keys end before the buffer does."""
    from transformers import DynamicCache, StaticCache

    model, ids = zoo.model(family), zoo.batch(family, length=11)["input_ids"]
    whole = zoo.result(model, {"input_ids": ids}).unflatten(0, ids.shape)

    def in_chunks() -> Tensor:
        config = model.config.get_text_config()
        past = DynamicCache(config=config) if cache == "dynamic" else StaticCache(config=config, max_cache_len=16)
        with torch.no_grad():
            chunks = ids.split([5, 4, 1, 1], dim=1)
            return torch.cat([model(chunk, cache=past, use_cache=True).logits for chunk in chunks], 1)

    eager = in_chunks()
    ours = (hw.use(model), in_chunks())[1]
    assert difference(ours, eager) < TOLERANCE
    if family != "deepseek_v32":  # its indexer chooses among the keys seen so far, in a buffer that it keeps itself
        assert difference(ours, whole) < 5 * TOLERANCE


@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2", "gpt_oss", "gpt2", "t5", "bart", "deepseek_v3"])
@pytest.mark.parametrize("padding", ["none", "left"])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_generate(zoo: Any, family: str, padding: str, cache: str) -> None:
    model, batch = zoo.model(family), zoo.batch(family, padding)
    batch.pop("decoder_input_ids", None)
    wanted = {"max_new_tokens": 6, "do_sample": False, "output_scores": True, "return_dict_in_generate": True}
    if cache == "static":
        wanted["cache_implementation"] = "static"
    eager = model.generate(**batch, **wanted)
    ours = hw.use(model).generate(**batch, **wanted)
    assert torch.equal(ours.sequences, eager.sequences)
    for a, b in zip(ours.scores, eager.scores, strict=True):
        assert difference(a, b) < 5 * TOLERANCE


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_a_batch_with_left_padding_equals_its_rows_alone(zoo: Any, family: str) -> None:
    model, batch = hw.use(zoo.model(family)), zoo.batch(family, "left")
    wanted = {"max_new_tokens": 5, "do_sample": False}
    together = model.generate(**batch, **wanted)[:, -5:]
    for row in range(2):
        alone = batch["input_ids"][row][batch["attention_mask"][row].bool()][None]
        assert torch.equal(model.generate(alone, **wanted)[0, -5:], together[row])


@pytest.mark.parametrize("family", ["llama", "mistral", "qwen3", "gemma2"])
def test_packed_sequences_do_not_see_each_other(zoo: Any, family: str) -> None:
    model, ids = zoo.model(family), zoo.batch(family, length=9)["input_ids"]
    positions = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]]).expand(2, -1)
    batch = {"input_ids": ids, "position_ids": positions}
    eager = zoo.result(model, batch, use_cache=False)
    hw.use(model)
    ours = zoo.result(model, batch, use_cache=False)
    assert difference(ours, eager) < TOLERANCE
    alone = zoo.result(model, {"input_ids": ids[:, 4:]}).unflatten(0, (2, 5))
    assert difference(ours.unflatten(0, (2, 9))[:, 4:], alone) < 5 * TOLERANCE
    mixed = zoo.result(model, {"input_ids": ids}).unflatten(0, (2, 9))[:, 4:]
    assert float((mixed - alone).abs().max() / alone.abs().max()) > 100 * TOLERANCE


def test_an_equally_long_encoder_keeps_the_decoders_rows(zoo: Any) -> None:
    """Encoder padding must not empty the rows of a decoder that happens to be as long."""
    model, batch = zoo.model("bart"), zoo.batch("bart", "right")
    assert batch["decoder_input_ids"].shape == batch["input_ids"].shape
    trace = hw.trace(hw.use(model), **batch)
    cross = next(site for site in trace.sites if "encoder_attn" in site)
    encoder = next(site for site in trace.sites if site.startswith("model.encoder"))
    assert float(trace.pattern(cross).to_dense().sum(-1).min()) > 0.99
    assert float(trace.pattern(encoder).to_dense().sum(-1)[1, :, -4:].abs().max()) == 0


@pytest.mark.parametrize("family", ["llama", "gemma2", "t5", "gpt_oss"])
def test_gradients_equal_eagers(zoo: Any, family: str) -> None:
    model, batch = zoo.model(family), zoo.batch(family, "right" if family != "t5" else "none")

    def gradients() -> dict[str, Tensor]:
        model.zero_grad()
        logits = model(**batch).logits
        real = batch["attention_mask"].bool() if "attention_mask" in batch else torch.ones(logits.shape[:2]).bool()
        logits[real].square().mean().backward()
        return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

    eager, ours = gradients(), (hw.use(model), gradients())[1]
    assert eager.keys() == ours.keys()
    for name, gradient in eager.items():
        scale = float(gradient.abs().max())
        if scale > 1e-6:
            assert float((ours[name] - gradient).abs().max()) < 1e-3 * scale, name


def test_dropout_only_while_training(zoo: Any) -> None:
    model, batch = hw.use(zoo.model("llama", attention_dropout=0.5)), zoo.batch("llama")
    still = zoo.result(model, batch)
    assert torch.equal(still, zoo.result(model, batch))
    model.train()
    torch.manual_seed(1)
    one = zoo.result(model, batch)
    torch.manual_seed(1)
    assert torch.equal(one, zoo.result(model, batch))
    assert difference(one, still) > 100 * TOLERANCE


def test_the_mask_stays_a_description(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Families whose code only passes the mask on never have it written out; T x S is what that would cost."""
    written = []
    real = masks._Recipe.tensor
    monkeypatch.setattr(masks._Recipe, "tensor", lambda recipe: written.append(1) or real(recipe))
    for family in ("llama", "mistral", "gemma2", "gpt2", "bert", "t5", "bart", "modernbert", "gpt_oss", "llama4"):
        zoo.result(hw.use(zoo.model(family)), zoo.batch(family, "right"))
        assert written == [], family
    recipe = masks.headwise_mask(1, 3, 3).recipe
    assert isinstance(recipe.place, Place)
    assert recipe.tensor().shape == (1, 1, 3, 3)
    assert written  # the counter does count


def test_image_tokens_see_each_other_both_ways(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A vision tower beside a language model whose mask joins the tokens of an image, with padding on the left."""
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    text = {**sizes, "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 99, "sliding_window": 4}
    config = Gemma3Config(
        text_config={**text, "layer_types": ["sliding_attention", "full_attention"]},
        vision_config={**sizes, "image_size": 16, "patch_size": 4},
        mm_tokens_per_image=4,
        image_token_index=90,
        image_token_id=90,
    )
    torch.manual_seed(0)
    model = Gemma3ForConditionalGeneration(config).eval()
    zoo.sharpen(model)
    ids = torch.randint(3, 80, (2, 14))
    ids[:, 3:7] = 90
    mask = torch.ones(2, 14, dtype=torch.int64)
    mask[1, :2] = 0
    batch = {"input_ids": ids, "attention_mask": mask, "token_type_ids": (ids == 90).long()}
    batch["pixel_values"] = torch.randn(2, 3, 16, 16)
    model.set_attn_implementation("eager")
    eager = zoo.result(model, batch)
    ours = zoo.result(hw.use(model), batch)
    assert difference(ours, eager) < TOLERANCE

    def dropped(mask: Mask | None) -> Mask | None:
        if isinstance(mask, hw.spec.And):
            return hw.spec.And(tuple(dropped(part) for part in mask.masks))
        if isinstance(mask, hw.spec.Or):
            return next(part for part in mask.masks if not isinstance(part, hw.Documents))
        return mask

    def without_blocks(*operands: Tensor, **options: Any) -> Tensor:
        return hw.attention(*operands, **{**options, "mask": dropped(options["mask"])})

    monkeypatch.setattr(register, "attention", without_blocks)
    assert float((zoo.result(model, batch) - ours).abs().max() / ours.abs().max()) > 100 * TOLERANCE


def test_a_compiled_model_gives_the_same(zoo: Any) -> None:
    """torch.compile breaks its graph at each attention; what the mask call's own code knows must survive that."""
    model = hw.use(zoo.model("bart", encoder_layers=1, decoder_layers=1))
    batch = zoo.batch("bart", "right")  # an encoder with padding, as long as its decoder
    want = zoo.result(model, batch)
    got = zoo.result(torch.compile(model, backend="eager"), batch)
    torch._dynamo.reset()
    assert difference(got, want) < TOLERANCE
