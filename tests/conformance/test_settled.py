"""A pattern whose row facts are found once, and patterns with row facts or a mask of one's own."""

from __future__ import annotations

import copy
import pickle
import threading
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.backends import RowFacts, observing
from headwise.observers import TopKeysFound
from headwise.testing import CASES, define, questions, within

F32, F64 = torch.float32, torch.float64
BOTH = pytest.mark.parametrize("dtype", [F32, F64], ids=["float32", "float64"])


def bare(name: str, dtype: torch.dtype) -> tuple[hw.Pattern, Any]:
    """A pattern of which no row is known, and its call."""
    call = CASES[name].make(dtype)
    p = call.run("reference").pattern
    return hw.Pattern(p.q, p.k, p.v, **p.options), call


def same(found: Any, want: Any, budget: float, what: str) -> None:
    if isinstance(want, TopKeysFound):  # which of two equal keys is named may differ
        within(found.values, want.values, budget, what)
    elif isinstance(want, torch.Tensor):
        within(found, want, budget, what)
    else:
        assert type(found) is type(want)
        for a, b in zip(found, want, strict=True):
            same(a, b, budget, what)


@BOTH
@pytest.mark.parametrize("name", CASES)
def test_settled_answers_are_those_of_before(name: str, dtype: torch.dtype, tiny: None) -> None:
    p, call = bare(name, dtype)
    asked = questions(call)
    before = p.ask(*asked)
    after = p.settle().ask(*asked)
    for key, want in before.items():
        same(after[key], want, 1e-12 if dtype == F64 else 1e-5 * max(1, p.shape[2]), key)


@BOTH
@pytest.mark.parametrize("name", ["grouped heads, E != D", "every rule in a row", "sinks", "causal, E != D"])
def test_the_facts_are_those_of_a_forward_pass(name: str, dtype: torch.dtype) -> None:
    p, call = bare(name, dtype)
    want = call.run("blocked" if dtype == F64 else None).pattern.facts()
    for found, fact in zip(p.facts(), want, strict=True):
        within(found, fact, 1e-12 if dtype == F64 else 1e-5, name)
    within(p.facts().lse, p.ask(hw.LogSumExp())["log_sum_exp"], 1e-5, "lse")


@BOTH
def test_a_part_is_the_part_of_the_whole(dtype: torch.dtype, tiny: None) -> None:
    p, call = bare("grouped heads, E != D", dtype)
    asked = questions(call)
    whole = p.ask(*asked)
    b, h = slice(1, 2), slice(1, 3)
    for part in (p.ask(*asked, batch=b, heads=h), p.settle(b, h).ask(*asked, batch=b, heads=h)):
        for key, want in whole.items():
            cut = type(want)(*(x[b, h] for x in want)) if isinstance(want, tuple) else want[b, h]
            same(part[key], cut, 1e-12 if dtype == F64 else 1e-5, key)
    assert torch.equal(p.ask(hw.Entropy(), heads=slice(-1, None))["entropy"], p.ask(hw.Entropy())["entropy"][:, -1:])


def test_a_settled_part_is_swept_once_less_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    p, _ = bare("plain", F64)
    found: list[tuple[slice, slice]] = []
    real = observing._row_facts
    monkeypatch.setattr(observing, "_row_facts", lambda plan, *part: found.append(part) or real(plan, *part))
    assert p.settle(heads=slice(1, 2)) is p
    p.settle(heads=slice(1, 2)).ask(hw.Entropy(), heads=slice(1, 2))
    assert found == [(slice(0, 2), slice(1, 2))]
    p.settle(batch=slice(0, 1))  # two runs of heads are left of row 0
    assert found[1:] == [(slice(0, 1), slice(0, 1)), (slice(0, 1), slice(2, 3))]
    p.settle()
    assert found[3:] == [(slice(1, 2), slice(0, 1)), (slice(1, 2), slice(2, 3))]
    p.settle()
    assert len(found) == 5
    CASES["plain"].make(F64).run("blocked").pattern.settle()
    assert len(found) == 5  # those of a forward pass come settled
    within(p.to_dense(), bare("plain", F64)[0].to_dense(), 1e-12, "p")


def test_heads_of_which_some_are_not_settled_are_answered() -> None:
    p, call = bare("plain", F64)
    p.settle(slice(0, 1), slice(0, 1))
    within(p.to_dense(), define(call).p, 1e-12, "p")


def test_threads_that_settle_and_ask_at_once() -> None:
    p = hw.Pattern(torch.randn(2, 4, 300, 8), torch.randn(2, 4, 300, 8), mask=hw.Causal())
    want = hw.Pattern(p.q, p.k, mask=hw.Causal()).entropy()
    wrong: list[int] = []

    def work(n: int) -> None:
        for turn in range(8):
            h = (n + turn) % 4
            found = p.settle(heads=slice(h, h + 1)).ask(hw.Entropy(), heads=slice(h, h + 1))["entropy"]
            if not torch.allclose(found, want[:, h : h + 1], atol=1e-4):
                wrong.append(h)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_settling_holds_three_numbers_a_row() -> None:
    p = hw.Pattern(torch.randn(1, 2, 4000, 4), torch.randn(1, 2, 4000, 4)).settle()
    assert sum(fact.numel() for fact in p.facts()) == 3 * 2 * 4000


def test_settling_in_and_out_of_inference_mode() -> None:
    p, call = bare("causal, square", F64)
    with torch.inference_mode():
        p.settle(heads=slice(0, 1))
    p.settle()
    within(p.to_dense(), define(call).p, 1e-12, "p")


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (1, 2, 0, 4), (1, 2, 3, 0)], ids=["no batch", "no rows", "no keys"])
def test_parts_without_rows_or_keys(shape: tuple[int, ...]) -> None:
    B, H, T, S = shape
    p = hw.Pattern(torch.zeros(B, H, T, 4), torch.zeros(B, H, S, 4)).settle()
    facts = p.facts()
    assert all(fact.shape == (B, H, T) for fact in facts)
    assert bool((facts.lse == float("-inf")).all()) == (S == 0 or facts.lse.numel() == 0)
    assert p.to_dense().shape == shape
    assert p.facts(heads=slice(1, 1)).peak.shape == (B, 0, T)


# another mask, other facts


@BOTH
@pytest.mark.parametrize("name", ["causal, square", "sinks", "every rule in a row", "grouped heads, E != D"])
def test_a_hidden_key_leaves_the_others_as_they_were(name: str, dtype: torch.dtype, tiny: None) -> None:
    p, _ = bare(name, dtype)
    B, _, _, S = p.shape
    keep = torch.ones(B, S, dtype=torch.bool)
    keep[:, 1] = False
    hidden = hw.Padding(keep)
    mask = p.options["mask"]
    mask = hidden if mask is None else mask & hidden
    want = p.to_dense()
    want[..., 1] = 0
    budget = 1e-12 if dtype == F64 else 1e-5
    other = p.replaced(mask=mask, facts=p.facts())
    within(other.to_dense(), want, budget, "hidden")
    within(other.received(), want.sum(-2), budget * S, "received")
    anew = p.replaced(mask=mask).to_dense()
    if name != "sinks":  # whose rows sum to less than 1
        alive = want.sum(-1, keepdim=True)
        within(anew, torch.where(alive > 0, want / alive, 0), budget * 10, "normalised again")


@BOTH
@pytest.mark.parametrize("name", ["causal, square", "sinks", "plain"])
def test_rows_whose_largest_probability_is_one(name: str, dtype: torch.dtype) -> None:
    p, _ = bare(name, dtype)
    facts = p.facts()
    dense = p.to_dense()
    top = facts.max_logit.masked_fill(facts.max_logit == float("-inf"), 0.0)
    scaled = p.replaced(facts=RowFacts(facts.max_logit, top, torch.zeros_like(top)))
    want = torch.nan_to_num(dense / dense.amax(-1, keepdim=True))
    within(scaled.to_dense(), want, 1e-12 if dtype == F64 else 1e-5, "scaled")
    T, S = p.shape[2:]
    within(scaled.map(T, S, pool="max"), want, 1e-12 if dtype == F64 else 1e-5, "map")
    within(scaled.top_keys(1).values[..., 0], want.amax(-1), 1e-12 if dtype == F64 else 1e-5, "top keys")


def test_facts_of_one_head_answer_about_that_head_alone() -> None:
    p, _ = bare("plain", F64)
    at = slice(1, 2)
    other = p.replaced(mask=None, facts=p.facts(heads=at), heads=at)
    within(other[:, 1], p[:, 1], 1e-12, "p")
    for ask in (other.entropy, other.to_dense, other.settle, lambda: other[0, 0], other.facts):
        with pytest.raises(hw.SpecError, match=r"Pattern: heads 0 to .* were not given.*batch= and heads="):
            ask()


def test_the_same_again_keeps_what_is_known() -> None:
    p, call = bare("plain", F64)
    p.settle()
    again = p.replaced()
    assert again is not p and again._settled.covers(slice(0, 2), slice(0, 3))
    within(again.to_dense(), define(call).p, 1e-12, "p")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))], ids=["deepcopy", "pickle"])
def test_copies_keep_facts(copied: Any) -> None:
    p, _ = bare("causal, square", F64)
    facts = p.facts(heads=slice(0, 1))
    half = RowFacts(*facts[:2], facts.log_total + 2.0)
    other = copied(p.replaced(facts=half, heads=slice(0, 1)))
    within(other[:, 0], p[:, 0] * torch.exp(torch.tensor(-2.0, dtype=F64)), 1e-12, "p")
    with pytest.raises(hw.SpecError, match="were not given"):
        other.entropy()


def test_an_overwritten_pattern_neither_settles_nor_is_replaced() -> None:
    q, k = torch.randn(1, 1, 4, 3), torch.randn(1, 1, 4, 3)
    p = hw.Pattern(q, k)
    k.zero_()
    for ask in (p.settle, p.facts, p.replaced):
        with pytest.raises(hw.HeadwiseError, match="overwritten"):
            ask()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"facts": 3}, "facts is a int; they are max_logit, peak and log_total"),
        ({"facts": RowFacts(*[torch.zeros(1, 1, 3)] * 3)}, r"the facts do not fit.*max_logit \[b=1,h=1,T=3\]"),
        ({"facts": RowFacts(*[torch.zeros(2, 3, 11).long()] * 3)}, "max_logit of the facts is torch.int64"),
        ({"facts": RowFacts(1, 2, 3)}, "max_logit of the facts is a int"),
        ({"mask": torch.ones(11, 13)}, "mask is a torch.float32 tensor"),
        ({"mask": hw.Padding(torch.ones(1, 1, dtype=torch.bool))}, "Padding: keep does not fit"),
    ],
)
def test_what_does_not_fit_is_one_sentence(wrong: dict[str, Any], text: str) -> None:
    p, _ = bare("plain", F64)
    with pytest.raises(hw.HeadwiseError, match=text):
        p.replaced(**wrong)


@pytest.mark.parametrize(
    "part", [3, "a", slice(0, 1.5), slice(None, None, 2), slice("", None), slice(0.0, 1), slice(False, 1), (0, 1), True]
)
def test_a_part_is_a_stretch(part: Any) -> None:
    p, _ = bare("plain", F64)
    for ask in (lambda: p.ask(hw.Entropy(), heads=part), lambda: p.settle(batch=part), lambda: p.facts(heads=part)):
        with pytest.raises(hw.SpecError, match=r"Pattern: (heads|batch) is"):
            ask()
