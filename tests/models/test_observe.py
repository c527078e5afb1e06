"""Watching a whole model: the same bits, every call kept apart, nothing left behind."""

from __future__ import annotations

import copy
import threading
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.errors import ShapeError, SpecError
from headwise.models import padding, register

ALL = (
    hw.LogSumExp(),
    hw.MaxLogit(),
    hw.Entropy(),
    hw.Received(),
    hw.Offsets(3),
    hw.TopKeys(2),
    hw.Map(4, 4),
)


def test_the_same_bits_watched_or_not(zoo: Any, family: str) -> None:
    model, batch = hw.use(zoo.model(family)), zoo.batch(family)
    before = zoo.state(model)
    plain = zoo.result(model, batch)
    with hw.observe(model, *ALL) as seen:
        watched = zoo.result(model, batch)
    assert torch.equal(plain, watched)
    assert {site.partition("#")[0] for site in seen.sites} == set(hw.sites(model))
    assert zoo.state(model) == before


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt_oss", "bert"])
def test_answers_equal_those_of_eagers_weights(zoo: Any, family: str) -> None:
    model, batch = zoo.model(family), zoo.batch(family, "left")
    with torch.no_grad():
        weights = model(**batch, output_attentions=True).attentions
    with hw.observe(model, *ALL) as seen:
        zoo.result(model, batch)
    real = batch["attention_mask"].bool()
    rows = real[:, None, :].expand(2, 4, -1)
    for layer, whole in enumerate(weights):
        p = whole * real[:, None, :, None]
        torch.testing.assert_close(seen["received"][layer], p.sum(-2), rtol=1e-4, atol=1e-5)
        entropy = torch.special.entr(p).sum(-1)
        torch.testing.assert_close(seen["entropy"][layer][rows], entropy[rows], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(seen["top_keys"].values[layer][rows], p.topk(2).values[rows], rtol=1e-4, atol=1e-5)


def test_padding_leaves_every_statistic(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama", "left")
    alone = {"input_ids": batch["input_ids"][1:, 4:]}
    with hw.observe(model, *ALL) as together:
        zoo.result(model, batch)
    with hw.observe(model, *ALL) as single:
        zoo.result(model, alone)
    close = {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(together["entropy"][:, 1:, :, 4:], single["entropy"], **close)
    torch.testing.assert_close(together["received"][:, 1:, :, 4:], single["received"], **close)
    torch.testing.assert_close(together["offsets"][:, 1:], single["offsets"], **close)
    assert float(together["entropy"][:, 1, :, :4].abs().max()) == 0
    assert float(together["received"][:, 1, :, :4].abs().max()) == 0
    assert bool((together["log_sum_exp"][:, 1, :, :4] == float("-inf")).all())
    assert bool((together["top_keys"].indices[:, 1, :, :4] == -1).all())


def test_a_model_not_in_use_is_used_for_the_duration(zoo: Any) -> None:
    model = zoo.model("llama")
    before = zoo.state(model)
    with hw.observe(model, hw.Entropy()) as seen:
        assert zoo.in_use(model)
        zoo.result(model, zoo.batch("llama"))
    assert zoo.state(model) == before
    assert seen["entropy"].shape == (2, 2, 4, 10)
    with hw.observe(hw.use(model), hw.Entropy()):
        pass
    assert zoo.in_use(model)


def test_nothing_is_left_after_an_error(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    before = zoo.state(model)

    def stopped() -> None:
        with hw.observe(model, hw.Entropy()):
            zoo.result(model, batch)
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        stopped()
    assert zoo.state(model) == before
    broken = model.model.layers[1].mlp.register_forward_pre_hook(lambda module, args: 1 / 0)
    before = zoo.state(model)
    with hw.observe(model, hw.Entropy()) as seen:
        with pytest.raises(ZeroDivisionError):
            zoo.result(model, batch)
        broken.remove()
        zoo.result(model, batch)
    assert len(seen.calls) == 1  # the forward that raised is no call
    assert seen["entropy"].shape[0] == 2
    assert zoo.state(model) == [*zoo.state(zoo.model("llama"))]


def test_watching_one_site_costs_nothing_at_the_others(zoo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = hw.use(zoo.model("llama")), zoo.batch("llama")
    calls: dict[str, int] = {"attend": 0, "attention": 0}

    def counting(module: Any, name: str) -> None:
        real = getattr(hw, name)

        def call(*operands: Tensor, **options: Any) -> Any:
            calls[name] += 1
            return real(*operands, **options)

        monkeypatch.setattr(module, name, call)

    counting(register, "attention")
    counting(padding, "attend")
    with hw.observe(model, hw.Entropy(), sites=[1]) as seen:
        zoo.result(model, batch)
    assert calls == {"attend": 1, "attention": 1}
    assert seen.sites == ["model.layers.1.self_attn"]
    zoo.result(model, batch)
    assert calls == {"attend": 1, "attention": 3}


@pytest.mark.parametrize("sites", [["model.layers.1.self_attn"], [1], [-1], "model.layers.1.self_attn", 1])
def test_sites_by_name_or_index(zoo: Any, sites: Any) -> None:
    model = zoo.model("llama")
    with hw.observe(model, hw.Entropy(), sites=sites) as seen:
        zoo.result(model, zoo.batch("llama"))
    assert seen.sites == ["model.layers.1.self_attn"]
    assert torch.equal(seen["entropy"][0], seen["model.layers.1.self_attn"]["entropy"])


def test_heads_of_all_sites_or_of_each(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    with hw.observe(model, *ALL) as every:
        zoo.result(model, batch)
    with hw.observe(model, *ALL, heads=[3, -4]) as some:
        zoo.result(model, batch)
    for name in ("entropy", "offsets", "map", "received"):
        assert torch.equal(some[name], every[name][:, :, [3, 0]])
    assert torch.equal(some["top_keys"].indices, every["top_keys"].indices[:, :, [3, 0]])
    with hw.observe(model, hw.Entropy(), heads={1: [2], "model.layers.0.self_attn": [0, 1]}) as each:
        zoo.result(model, batch)
    first, second = hw.sites(model)
    assert torch.equal(each[first]["entropy"], every[first]["entropy"][:, :2])
    assert torch.equal(each[second]["entropy"], every[second]["entropy"][:, 2:3])
    with pytest.raises(
        ShapeError, match=r"'entropy' is \[2, 2, 10\] at .*0.self_attn and \[2, 1, 10\] at .*1.self_attn"
    ):
        each["entropy"]


def test_every_forward_is_a_call(zoo: Any) -> None:
    model = zoo.model("llama")
    with hw.observe(model, hw.Entropy()) as seen:
        zoo.result(model, zoo.batch("llama", length=5))
        zoo.result(model, zoo.batch("llama", length=7))
    assert [call["entropy"].shape for call in seen.calls] == [(2, 2, 4, 5), (2, 2, 4, 7)]
    assert seen.calls[1]["model.layers.0.self_attn"]["entropy"].shape == (2, 4, 7)
    for key in ("entropy", "model.layers.0.self_attn"):
        with pytest.raises(SpecError, match=r"2 forwards of the model were seen; .* Take seen.calls\[i\]"):
            seen[key]


def test_generate_is_one_call_a_token(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama", "left")
    with hw.observe(model, hw.TopKeys(1)) as seen:
        model.generate(**batch, max_new_tokens=4, do_sample=False)
    shapes = [call["top_keys"].indices.shape for call in seen.calls]
    assert shapes == [(2, 2, 4, 10, 1), *[(2, 2, 4, 1, 1)] * 3]
    assert seen.calls[-1]["top_keys"].indices.max() < 13


def test_generate_of_an_encoder_decoder_runs_the_encoder_as_a_call_of_its_own(zoo: Any) -> None:
    model = zoo.model("t5")
    with hw.observe(model, hw.Entropy()) as seen:
        model.generate(zoo.batch("t5")["input_ids"], max_new_tokens=3, do_sample=False)
    assert all(site.startswith("encoder.") for site in seen.calls[0].sites)
    assert all(site.startswith("decoder.") for call in seen.calls[1:] for site in call.sites)
    assert len(seen.calls) == 4


def test_a_module_that_runs_twice_in_a_forward(zoo: Any) -> None:
    """ALBERT's layers share one module."""
    model = zoo.model("albert")
    with hw.observe(model, hw.Entropy()) as seen:
        zoo.result(model, zoo.batch("albert"))
    (site,) = hw.sites(model)
    assert seen.sites == [site, f"{site}#1"]
    assert seen["entropy"].shape == (2, 2, 4, 10)
    assert not torch.equal(seen[site]["entropy"], seen[f"{site}#1"]["entropy"])
    with hw.observe(model, hw.Entropy()) as again:
        zoo.result(model, zoo.batch("albert"))
        zoo.result(model, zoo.batch("albert"))
    assert again.calls[1].sites == [site, f"{site}#1"]


def test_sites_of_different_shape_are_asked_one_by_one(zoo: Any) -> None:
    model, batch = zoo.model("t5"), zoo.batch("t5", length=10)
    batch["decoder_input_ids"] = batch["decoder_input_ids"][:, :6]
    with hw.observe(model, hw.Entropy(), hw.Received()) as seen:
        zoo.result(model, batch)
    for name in ("entropy", "received"):
        with pytest.raises(ShapeError, match=rf"'{name}' is .* Ask by site, seen\['encoder.*'\]\['{name}'\]"):
            seen[name]
    cross = [site for site in hw.sites(model) if "EncDecAttention" in site]
    assert seen[cross[0]]["received"].shape == (2, 4, 10)
    with hw.observe(model, hw.Received(), sites=cross) as only:
        zoo.result(model, batch)
    assert only["received"].shape == (2, 2, 4, 10)


def test_nested_watchers_with_the_same_name_do_not_meet(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    with hw.observe(model, hw.Entropy()) as outer:
        plain = zoo.result(model, batch)
        with hw.observe(model, hw.Entropy(), hw.MaxLogit(), sites=[0]) as inner:
            assert torch.equal(zoo.result(model, batch), plain)
    assert len(outer.calls) == 2
    assert len(inner.calls) == 1
    assert torch.equal(inner["entropy"][0], outer.calls[1]["entropy"][0])
    assert "max_logit" not in outer.calls[1]
    assert not zoo.in_use(model)


def test_another_thread_is_not_watched(zoo: Any) -> None:
    model, batch = hw.use(zoo.model("llama")), zoo.batch("llama")
    found: dict[str, Any] = {}

    def other() -> None:
        found["plain"] = zoo.result(model, batch)
        with hw.observe(model, hw.Received()) as seen:
            zoo.result(model, batch)
        found["seen"] = seen

    with hw.observe(model, hw.Entropy()) as seen:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        mine = zoo.result(model, batch)
    assert torch.equal(found["plain"], mine)
    assert len(seen.calls) == 1
    assert list(found["seen"].calls[0]) == ["received"]


def test_a_layer_repeated_by_checkpointing_is_no_second_run(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    model.activation_checkpointing_enable()
    model.train()
    with hw.observe(model, hw.Entropy()) as seen:
        model(**batch, use_cache=False).logits.sum().backward()
    assert seen.sites == hw.sites(model)
    assert not seen["entropy"].requires_grad


def test_two_threads_may_watch_a_model_that_is_not_in_use(zoo: Any) -> None:
    """The first to leave must not take the model off headwise under the other."""
    model, batch = zoo.model("llama"), zoo.batch("llama")
    inside, left = threading.Event(), threading.Event()
    found: list[Any] = []

    def other() -> None:
        with hw.observe(model, hw.Entropy()) as seen:
            inside.set()
            left.wait(300)
            zoo.result(model, batch)
        found.append(seen["entropy"].shape)

    thread = threading.Thread(target=other)
    with hw.observe(model, hw.Entropy()):
        thread.start()
        assert inside.wait(300)
    left.set()
    thread.join()
    assert found == [(2, 2, 4, 10)]
    assert not zoo.in_use(model)


def test_a_hook_of_the_users_that_raises_first(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    with hw.observe(model, hw.Entropy()) as seen:
        hook = model.register_forward_pre_hook(lambda module, args: 1 / 0, prepend=True)
        with pytest.raises(ZeroDivisionError):
            zoo.result(model, batch)
        hook.remove()
        zoo.result(model, batch)
    assert len(seen.calls) == 1


class CountVisible:
    """An observer of the user's own: how many cells were seen, and how many of them are visible."""

    def __init__(self) -> None:
        self.cells = self.visible = 0

    def see(self, tile: Any) -> None:
        self.cells += tile.p.numel()
        self.visible += int((tile.p > 0).sum())

    def merge(self, other: CountVisible) -> None:
        self.cells += other.cells
        self.visible += other.visible

    def result(self) -> tuple[int, int]:
        return self.cells, self.visible


def test_an_observer_of_the_users_own(zoo: Any) -> None:
    model, mine = zoo.model("llama"), CountVisible()
    before = copy.copy(vars(mine))
    with hw.observe(model, mine) as seen:
        zoo.result(model, zoo.batch("llama"))
    assert [visible for _, visible in seen["count_visible"]] == [2 * 4 * 55] * 2
    assert vars(mine) == before  # each site works on a copy


MEANS = (hw.Entropy(), hw.MaxLogit(), hw.Received(), hw.Offsets(3), hw.Map(3, 3))


def test_running_means_equal_means_over_what_was_kept(zoo: Any) -> None:
    model = zoo.model("llama")
    batches = [zoo.batch("llama", "left", 8), zoo.batch("llama", "none", 6), zoo.batch("llama", "right", 9)]
    with hw.observe(model, *MEANS) as kept:
        for batch in batches:
            zoo.result(model, batch)
    with hw.observe(model, *MEANS, reduce="mean") as means:
        for batch in batches:
            zoo.result(model, batch)
    assert means.count == 3
    ones = [torch.ones(batch["input_ids"].shape, dtype=torch.bool) for batch in batches]
    real = [batch.get("attention_mask", one).bool() for batch, one in zip(batches, ones, strict=True)]
    for name in ("entropy", "max_logit", "received"):
        rows = [
            call[name][:, row, :, real[i][row]] for i, call in enumerate(kept.calls) for row in range(real[i].shape[0])
        ]
        torch.testing.assert_close(means[name], torch.cat(rows, -1).mean(-1), rtol=1e-5, atol=1e-6)
        assert means[name].shape == (2, 4)
    # at distance d the first d real queries of a row have no key; a map weighs as much as it has real queries
    of_offsets = [(one.sum(1)[:, None] - torch.arange(4)).clamp(min=0) for one in real]
    of_maps = [one.sum(1)[:, None, None] for one in real]
    for name, weights in (("offsets", of_offsets), ("map", of_maps)):
        weight = torch.cat(weights)[:, None]
        answers = torch.cat([call[name] for call in kept.calls], 1)
        torch.testing.assert_close(means[name], (answers * weight).sum(1) / weight.sum(0), rtol=1e-5, atol=1e-6)
    assert means["offsets"].shape == (2, 4, 4)
    assert means["model.layers.1.self_attn"]["entropy"].shape == (4,)


def test_running_means_of_chosen_heads_over_generate(zoo: Any) -> None:
    model = zoo.model("llama")
    with hw.observe(model, hw.Entropy(), heads=[1], reduce="mean") as means:
        model.generate(zoo.batch("llama")["input_ids"], max_new_tokens=5, do_sample=False)
    assert means["entropy"].shape == (2, 1)
    assert means.count == 5
    with pytest.raises(SpecError, match='reduce="mean" keeps no single calls'):
        means.calls  # noqa: B018


def test_a_forward_that_raises_leaves_the_means(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    with hw.observe(model, hw.Entropy(), reduce="mean") as means:
        zoo.result(model, batch)
        before = means["entropy"].clone()
        hook = model.model.layers[1].mlp.register_forward_pre_hook(lambda module, args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            zoo.result(model, zoo.batch("llama", length=4))
        hook.remove()
        assert torch.equal(means["entropy"], before)


@pytest.mark.parametrize(
    ("arguments", "keywords", "told"),
    [
        ((), {}, "observe: no observer was given"),
        ((hw.Entropy,), {}, "the class Entropy is no observer"),
        ((3,), {}, "3 is no observer"),
        ((hw.Entropy(), hw.Entropy()), {}, "two observers are named 'entropy'"),
        ((hw.Entropy(),), {"reduce": "sum"}, "reduce is 'sum'; it is \"mean\" or None"),
        ((hw.TopKeys(1),), {"reduce": "mean"}, "'top_keys' cannot be averaged"),
        ((hw.Entropy(),), {"sites": ["layer.7"]}, "there is no site 'layer.7'; the model has 2 sites"),
        ((hw.Entropy(),), {"sites": [2]}, "there is no site 2; the model has 2 sites, named or numbered 0 to 1"),
        ((hw.Entropy(),), {"sites": [True]}, "there is no site True"),
        ((hw.Entropy(),), {"sites": 3.5}, "sites is 3.5; it is a list of names and indices of hw.sites(model)"),
        (
            (hw.Entropy(),),
            {"heads": 3},
            "heads is 3; it is a list of heads for all sites, or {site: [heads]}. Write heads",
        ),
        ((hw.Entropy(),), {"heads": "03"}, "heads is '03'; it is a list of heads"),
        ((hw.Entropy(),), {"heads": {0: 3}}, "heads is {0: 3}; it is a list of heads"),
        ((hw.Entropy(),), {"heads": {"layer.7": [0]}}, "there is no site 'layer.7'"),
    ],
)
def test_bad_questions_are_refused_before_anything_runs(zoo: Any, arguments: Any, keywords: Any, told: str) -> None:
    model = zoo.model("llama")
    before = zoo.state(model)
    with pytest.raises(SpecError) as caught, hw.observe(model, *arguments, **keywords):
        pytest.fail("the block was entered")
    assert told in str(caught.value)
    assert zoo.state(model) == before


def test_bad_heads_and_keys(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    with (
        hw.observe(model, hw.Entropy(), heads=[4]),
        pytest.raises(SpecError, match=r"model.layers.0.self_attn has no head 4; its heads are numbered 0 to 3"),
    ):
        zoo.result(model, batch)
    with hw.observe(model, hw.Entropy()) as seen:
        with pytest.raises(SpecError, match=r"no forward of the model was seen yet; .* Run the model inside"):
            seen["entropy"]
        zoo.result(model, batch)
        with pytest.raises(SpecError, match=r"nothing is named 'received'; a key is an observer, entropy, or a site"):
            seen["received"]
        with pytest.raises(SpecError, match=r"nothing is named 'received'; a key is an observer, entropy\."):
            seen[0]["received"]
    assert list(seen) == ["entropy"]
    assert len(seen) == 1


def test_answers_are_shown_by_their_names(zoo: Any) -> None:
    model, batch = zoo.model("llama"), zoo.batch("llama")
    with hw.observe(model, hw.Entropy(), hw.TopKeys(2)) as seen:
        assert repr(seen) == "Seen(0 sites: none; 0 calls; answers: entropy, top_keys)"
        zoo.result(model, batch)
        sites = "2 sites: model.layers.0.self_attn, model.layers.1.self_attn"
        assert repr(seen) == f"Seen({sites}; 1 call; answers: entropy, top_keys)"
        assert repr(seen.calls) == f"[Answers({sites}; answers: entropy, top_keys)]"
        zoo.result(model, batch)
        assert repr(seen) == f"Seen({sites}; 2 calls; answers: entropy, top_keys)"
    with hw.observe(model, hw.Entropy(), sites=[1], reduce="mean") as means:
        zoo.result(model, batch)
    assert repr(means) == "Seen(1 site: model.layers.1.self_attn; means over 1 call; answers: entropy)"
