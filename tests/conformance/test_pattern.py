"""Pattern: indexing like a tensor that is never stored, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import headwise as hw
from headwise import pattern
from headwise.testing import CASES, define, questions, within

F64 = torch.float64

INDICES: list[Any] = [
    (0, 1, 3, 4),
    (-1, -2, -3, -4),
    (0,),
    0,
    (slice(None),),
    slice(1, 2),
    (0, 1),
    (0, 1, 2),
    (0, 1, slice(2, 9), slice(1, 5)),
    (0, 1, slice(-4, None), slice(None, -3)),
    (slice(None), 2, slice(0, 11, 2), slice(1, 13, 3)),
    (1, slice(0, 3, 2), 5, slice(12, None)),
    (slice(5, 2), 0, 0, 0),
    (0, 0, slice(3, 3), slice(2, 4)),
    (0, 0, slice(0, 99), slice(-99, 99)),
    (0, 0, slice(20, 30), slice(None)),
    Ellipsis,
    (Ellipsis, 3),
    (Ellipsis, slice(2, 5)),
    (1, Ellipsis),
    (1, Ellipsis, 2),
    (0, Ellipsis, slice(4), slice(5)),
    (0, 1, 2, 3, Ellipsis),
    (slice(1, None), slice(None, None, 5), slice(9, 4), 0),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_that_of_the_dense_pattern(index: Any, tiny: None) -> None:
    call = CASES["causal, E != D"].make(F64)
    dense = define(call).p
    p = call.run("blocked").pattern
    found, want = p[index], dense[index]
    assert tuple(found.shape) == tuple(want.shape)
    within(found, want, 1e-12, str(index))


def test_indices_may_be_anything_that_counts() -> None:
    p = CASES["causal, E != D"].make(F64).run("blocked").pattern
    at = torch.tensor(2)
    assert torch.equal(p[0, 1, at, :], p[0, 1, 2])


@pytest.mark.parametrize(
    ("index", "text"),
    [
        ((0, 0, 0, 0, 0), "5 indices; a pattern has the axes b, h, row, col"),
        ((0, 0, slice(None, None, -1)), "index slice\\(None, None, -1\\); a slice has int ends and runs forwards"),
        ((0, 0, [1, 2]), r"index \[1, 2\]; each of b, h, row, col is an int or a slice"),
        ((0, 0, None), "index None"),
        ((True,), "index True"),
        ((0, 0, 1.5), "index 1.5"),
    ],
)
def test_indices_that_have_no_meaning(index: Any, text: str) -> None:
    p = CASES["plain"].make(F64).run().pattern
    with pytest.raises(hw.SpecError, match=f"Pattern: .*{text}"):
        p[index]


@pytest.mark.parametrize("index", [(2,), (-3,), (0, 3), (0, 0, 11), (0, 0, 0, 13), (0, 0, 0, -14)])
def test_indices_beyond_the_end(index: Any) -> None:
    p = CASES["plain"].make(F64).run().pattern
    with pytest.raises(IndexError, match=r"Pattern: index .* on axis [BHTS]"):
        p[index]


def test_too_much_is_refused_with_what_to_ask_instead() -> None:
    x = torch.zeros(1, 2, 6000, 2)
    p = hw.Pattern(x, x)
    for ask in (p.to_dense, lambda: p[:], lambda: p[0:1]):
        if ask is not p.to_dense and pattern.DENSE_LIMIT >= 6000**2:
            continue
        with pytest.raises(
            hw.UnsupportedError, match=r"72,000,000 probabilities, 0\.3 GiB; at most .* p\.map\(256, 256\).*p\.top_keys"
        ):
            ask()
    assert p[0, 0, 0:2].shape == (2, 6000)


def test_the_border_of_what_is_handed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    p = CASES["plain"].make(F64).run().pattern
    monkeypatch.setattr(pattern, "DENSE_LIMIT", 2 * 3 * 11 * 13)
    assert p.to_dense().numel() == 858
    monkeypatch.setattr(pattern, "DENSE_LIMIT", 2 * 3 * 11 * 13 - 1)
    with pytest.raises(hw.UnsupportedError, match="858 probabilities"):
        p.to_dense()
    assert p[0].numel() == 429


@pytest.mark.parametrize("which", ["q", "k", "mask", "bias", "sinks"])
def test_an_overwritten_operand_raises(which: str) -> None:
    """It holds its operands and copies none, so it must not answer about numbers that are gone."""
    q, k = torch.randn(1, 1, 4, 3), torch.randn(1, 1, 4, 3)
    keep, bias, sinks = torch.ones(4, 4, dtype=torch.bool), torch.zeros(4), torch.zeros(1)
    p = hw.Pattern(q, k, mask=hw.Dense(keep), scores=(hw.Bias(bias),), sinks=sinks)
    got = hw.attend(q, k, k, mask=hw.Dense(keep), scores=(hw.Bias(bias),), sinks=sinks).pattern
    p.entropy()
    {"q": q, "k": k, "mask": keep, "bias": bias, "sinks": sinks}[which].zero_()
    for held in (p, got):
        with pytest.raises(hw.HeadwiseError, match=r"Pattern: .*overwritten.*clones"):
            held.entropy()
        with pytest.raises(hw.HeadwiseError, match="overwritten"):
            held[0, 0, 0, 0]


@pytest.mark.parametrize("backend", ["reference", "blocked", "sdpa"])
def test_inference_mode(backend: str) -> None:
    """Tensors that count no versions are held as copies, so an overwrite cannot be answered about either."""
    call = CASES["causal, square"].make(F64)
    want = define(call)
    with torch.inference_mode():
        q, k, v = (x.clone() for x in (call.q, call.k, call.v))
        got = hw.attend(q, k, v, mask=hw.Causal(), backend=backend, observe=[hw.Entropy()])
        within(got.out, want.out, 1e-12, "out")
        q.zero_()
        k.zero_()
        within(got.pattern.to_dense(), want.p, 1e-12, "p")
    within(got.pattern[0, 1, 2:9], want.p[0, 1, 2:9], 1e-12, "p outside of inference mode")


@pytest.mark.parametrize("name", ["grouped heads, E != D", "dropout with all else", "every rule in a row"])
def test_every_method_is_the_question_of_that_name(name: str, tiny: None) -> None:
    call = CASES[name].make(F64)
    got = call.run("blocked", questions(call))
    p, seen = got.pattern, got.seen
    asked = {q.name or type(q).__name__: q for q in questions(call)}
    within(p.entropy(), seen["entropy"], 1e-12, "entropy")
    within(p.received(), seen["received"], 1e-12, "received")
    within(p.offsets(6, 3), seen["offsets"], 1e-12, "offsets")
    assert torch.equal(p.top_keys(3).indices, seen["top_keys"].indices)
    within(p.mass_on(asked["MassOn"].targets), seen["mass_on"], 1e-12, "mass_on")
    within(p.mass_where(asked["MassWhere"].q_labels, asked["MassWhere"].k_labels), seen["mass_where"], 1e-12, "where")
    within(p.segments(asked["Segments"].q_ids, asked["Segments"].k_ids), seen["segments"], 1e-12, "segments")
    within(p.map(3, 4), seen["map"], 1e-12, "map")
    within(p.map(2, 2, rows=slice(1, -2), cols=slice(3, 11)), seen["blurred"], 1e-12, "part of a map")
    within(p.map(4, 3, pool="max"), seen["peaks"], 1e-12, "peaks")
    within(p[:, :, 2:9, 1:-1], seen["crop"], 1e-12, "crop")


def test_a_pattern_of_ones_own_is_that_of_the_call() -> None:
    call = CASES["every rule in a row"].make(F64)
    bare = hw.Pattern(call.q, call.k, **call.options)
    within(bare.to_dense(), call.run("reference").pattern.to_dense(), 1e-12, "p")
    assert bare.dtype == F64
    assert "T=11" in repr(bare) and "Causal" in repr(bare)


def test_a_pattern_keeps_no_graph() -> None:
    call, _ = CASES["sinks"].make(F64).fresh()
    for p in (call.run("blocked").pattern, hw.Pattern(call.q, call.k, **call.options)):
        assert not p[0, 0].requires_grad
        assert not p.received().requires_grad
