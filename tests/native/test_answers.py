"""Answers by the kernels' pass, against the observers' definitions in float64, and the bits they must not depend on.

The conformance suite asks about its own small cases. Here calls are long enough to be cut: tiles of rows (up to 24),
blocks of keys (up to 256), parts of the rows (240 and more) whose sums are put together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.backends import Reference, RowFacts, survey
from headwise.observers import Frame, Observer, TopKeysFound, Whole, named, start
from headwise.plan import Plan, make_plan
from headwise.spec import AttentionSpec
from headwise.testing import CASES, Call, Draw, far, questions, within

pytest.importorskip("headwise._native", reason="no native kernels here: there was no compiler; run: make native")

from headwise.backends.native import Native
from headwise.backends.native.answers import fill, fills

F32, F64, BF16, F16 = torch.float32, torch.float64, torch.bfloat16, torch.float16
by_dtype = pytest.mark.parametrize("dtype", [F32, BF16, F16], ids=["f32", "bf16", "f16"])
NAN, INF = math.nan, math.inf


def _holed(draw: Draw, *shape: int) -> Tensor:
    return draw.normal(*shape).masked_fill(~draw.keep(*shape), -INF)


def _spoiled(call: Call, what: float, *, seen: bool) -> Call:
    """Key 70 of the first head and its value are not finite; all queries are kept from it, or none."""
    k, v = call.k.clone(), call.v.clone()
    k[0, 0, 70], v[0, 0, 70] = what, what
    keep = torch.ones(call.k.shape[2], dtype=torch.bool)
    keep[70] = seen
    return Call(call.q, k, v, {**call.options, "mask": hw.Causal() & hw.Dense(keep)})


LONG: dict[str, Callable[[Draw], Call]] = {
    "no mask, several parts": lambda d: d.call(B=1, H=2, T=521, S=523, D=17, E=9),
    "causal, several parts": lambda d: d.call(B=1, H=2, T=499, S=499, D=16, E=8, mask=hw.Causal()),
    "whole vectors": lambda d: d.call(fused=True, T=48, S=512, D=64),
    "grouped": lambda d: d.call(H=6, Hk=2, T=37, S=263, D=9, mask=hw.Causal()),
    "grouped, few queries": lambda d: d.call(H=6, Hk=3, T=2, S=301, D=33, mask=hw.Causal()),
    "one query": lambda d: d.call(B=3, H=4, Hk=1, T=1, S=700, D=64),
    "uneven groups": lambda d: d.call(H=5, Hk=3, T=31, S=270, kv_heads=(2, 0, 2, 2, 0), mask=hw.Causal()),
    "more queries than keys": lambda d: d.call(B=1, T=311, S=67, mask=hw.Causal()),
    "window": lambda d: d.call(B=1, T=307, S=307, D=11, mask=hw.Causal() & hw.Window(37, 0)),
    "window ahead": lambda d: d.call(B=1, H=2, T=97, S=563, D=8, mask=hw.Window(20, 290)),
    "a start for each sequence": lambda d: d.call(T=41, S=273, mask=hw.Causal(), q_start=torch.tensor([100, -17])),
    "empty rows": lambda d: d.call(T=103, S=61, mask=hw.Causal() & hw.Window(9, 0), q_start=-30),
    "documents": lambda d: d.call(H=2, T=290, S=290, mask=hw.Causal() & hw.Documents(d.ints(4, 2, 290))),
    "dense mask": lambda d: d.call(T=53, S=311, mask=hw.Dense(d.keep(2, 3, 53, 311, share=0.3))),
    "padding with holes": lambda d: d.call(T=61, S=283, mask=hw.Causal() & hw.Padding(d.keep(2, 283))),
    "blocks": lambda d: d.call(T=90, S=300, mask=hw.Blocks(d.keep(3, 5, 15), 20)),
    "bias that hides": lambda d: d.call(T=41, S=267, mask=hw.Causal(), scores=(hw.Bias(_holed(d, 3, 41, 267)),)),
    "rules": lambda d: d.call(
        T=53,
        S=270,
        mask=hw.Causal(),
        scores=(hw.SoftCap(3.0), hw.Alibi(d.normal(3, size=0.1)), hw.RelativeBias(d.normal(3, 71), 60)),
    ),
    "sinks": lambda d: d.call(H=6, Hk=3, T=53, S=270, q_start=-5, mask=hw.Causal(), sinks=d.normal(6, size=3.0)),
    "dropout": lambda d: d.call(T=29, S=270, mask=hw.Causal(), dropout=0.4),
    "large logits": lambda d: d.call(T=29, S=270, D=16, scale=8.0),
    "equal scores": lambda d: d.call(T=60, S=300, scale=0.0, mask=hw.Causal()),
    "hidden NaN": lambda d: _spoiled(d.call(T=90, S=270), NAN, seen=False),
    "hidden inf": lambda d: _spoiled(d.call(T=90, S=270), INF, seen=False),
    "NaN": lambda d: _spoiled(d.call(B=1, H=2, Hk=1, T=290, S=300), NAN, seen=True),
    "inf": lambda d: _spoiled(d.call(T=90, S=90), INF, seen=True),
}


def asked_of(call: Call) -> tuple[Observer, ...]:
    """The shipped questions, and some that are larger than a tile."""
    T, S = call.q.shape[2], call.k.shape[2]
    apart = torch.arange(S) * 2**40 - 7  # labels that are no int32
    return (
        *questions(call),
        hw.Offsets(min(S, 140), 70, name="many_offsets"),
        hw.TopKeys(40, name="forty_keys"),
        hw.Map(19, 23, pool="max", name="many_peaks"),
        hw.Map(2, S + 5, name="more_cells_than_keys"),
        hw.Map(5, 7, rows=slice(T // 3, T), cols=slice(S // 2, S), name="a_corner"),
        hw.MassWhere(apart[-T:] if T <= S else torch.arange(T), apart, name="wide_labels"),
        hw.Segments(torch.arange(T) // 19, torch.arange(S) // 31, name="stretches"),
        hw.Segments(torch.full((T,), -1), torch.zeros(S, dtype=torch.int64), name="no_segments"),
        hw.Crop(slice(T - 3, T), slice(S - 40, S), name="the_end"),
        hw.Entropy(name="entropy_again"),
        hw.Offsets(3, name="summed").sums(),
    )


def plan_of(call: Call) -> Plan:
    torch.manual_seed(5)
    return make_plan("test", call.q, call.k, call.v, AttentionSpec(**call.options))


def frame_of(plan: Plan, b: slice | None = None, h: slice | None = None, rows: slice | None = None) -> Frame:
    g = plan.geometry
    return Frame(g, b or slice(0, g.B), h or slice(0, g.H), rows or slice(0, g.T), slice(0, g.S), plan.dtype)


def ask(plan: Plan, observers: Any, frame: Frame | None = None, facts: RowFacts | None = None) -> dict[str, Any]:
    """Answers by the kernels, and by them alone."""
    asked = named(list(observers))
    frame = frame or frame_of(plan)
    found = {name: start(observer, frame) for name, observer in asked.items()}
    assert Native().refuse(plan) is None
    assert all(fills(accumulator) for accumulator in found.values())
    fill(plan, facts, None, frame, list(found.values()))
    return {name: accumulator.result() for name, accumulator in found.items()}


@cache
def exact_of(name: str, dtype: torch.dtype) -> tuple[Call, Whole]:
    """A call and its whole pattern in float64."""
    call = LONG[name](Draw(dtype, 3)) if name in LONG else CASES[name].make(dtype)
    return call, Reference().whole(plan_of(call.to(F64)))


@cache
def defined(name: str, dtype: torch.dtype) -> dict[str, tuple[Observer, Any]]:
    """The questions about a call, and what their definitions answer."""
    call, whole = exact_of(name, dtype)
    asked = named(list(asked_of(call) if name in LONG else questions(call)))
    return {key: (question, question.define(whole)) for key, question in asked.items()}


def compare(found: Any, want: Any, what: str, whole: Whole) -> None:
    """Within 1e-5 of the largest number: what is added up is at most that, and of one sign."""
    if isinstance(want, TopKeysFound):
        compare_keys(found, want, what, whole)
        return
    for n, (a, b) in enumerate(_pairs(found, want)):
        largest = float(b.double().nan_to_num(0, 0, 0).abs().max()) if b.numel() else 0.0
        within(a, b, 1e-5 * max(1.0, largest), f"{what} [{n}]")


def compare_keys(found: Any, want: TopKeysFound, what: str, whole: Whole) -> None:
    """Values of the definition, at keys that have them, each key once; what NaN names is not said."""
    within(found.values, want.values, 1e-5, what)
    fair = ~whole.p.isnan().any(-1)
    keys, wanted = found.indices[fair], want.indices[fair]
    assert torch.equal(keys < 0, wanted < 0), what
    p = torch.nn.functional.pad(torch.where(whole.visible, whole.p, NAN)[fair], (0, 1))
    at = p.gather(-1, torch.where(keys < 0, whole.geometry.S, keys))
    within(at, want.values[fair], 1e-5, f"{what}: p of the keys")
    ordered = keys.sort(-1).values
    assert not bool(((ordered[..., 1:] == ordered[..., :-1]) & (ordered[..., 1:] >= 0)).any()), what


def _some(names: list[str], dtype: torch.dtype) -> list[Any]:
    """Every call in float32, every third in what is widened to it."""
    first, step = {F32: (0, 1), BF16: (1, 3), F16: (2, 3)}[dtype]
    return [pytest.param(name, dtype, id=f"{name}-{str(dtype)[6:]}") for name in names[first::step]]


NAMES = [*LONG, *(name for name, case in CASES.items() if case.native is None)]


@pytest.mark.parametrize(("name", "dtype"), [p for dtype in (F32, BF16, F16) for p in _some(NAMES, dtype)])
def test_answers(name: str, dtype: torch.dtype) -> None:
    """Every question about every call, with the facts of its rows found on the way."""
    call, whole = exact_of(name, dtype)
    found = ask(plan_of(call), [question for question, _ in defined(name, dtype).values()])
    for key, (_, exact) in defined(name, dtype).items():
        compare(found[key], exact, f"{name}: {key}", whole)


@pytest.mark.parametrize("name", ["causal, several parts", "grouped", "sinks", "NaN", "inf", "empty rows"])
@pytest.mark.parametrize("backend", ["blocked", "native"])
def test_facts_that_a_forward_pass_left(name: str, backend: str) -> None:
    """Whose facts they are makes no difference; the entropy is added up where nobody found it."""
    call, whole = exact_of(name, F32)
    plan = plan_of(call).asking({key: question for key, (question, _) in defined(name, F32).items()})
    left = {b.name: b for b in hw.backends.TABLE}[backend].forward(plan)
    found = ask(plan, plan.observers.values(), facts=left.facts)
    for key, (_, exact) in defined(name, F32).items():
        compare(found[key], exact, f"{name}: {key}", whole)
    if left.entropy is not None:
        accumulator = start(hw.Entropy(), frame_of(plan))
        fill(plan, left.facts, left.entropy, frame_of(plan), [accumulator])
        assert far(accumulator.result(), left.entropy) == 0


@pytest.mark.parametrize("name", list(LONG))
def test_bits_do_not_depend_on_threads(name: str) -> None:
    call, _ = exact_of(name, F32)
    plan, found = plan_of(call), []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        found.append(ask(plan, asked_of(call)))
    for key, first in found[0].items():
        for other in found[1:]:
            for a, b in _pairs(first, other[key]):
                assert far(a, b) == 0, f"{key} depends on the number of threads"


def _pairs(a: Any, b: Any) -> list[tuple[Tensor, Tensor]]:
    return list(zip(a, b, strict=True)) if isinstance(a, tuple) else [(a, b)]


@pytest.mark.parametrize("name", ["grouped", "one query", "documents", "a start for each sequence"])
def test_bits_do_not_depend_on_batch_neighbours(name: str) -> None:
    call, _ = exact_of(name, F32)
    plan = plan_of(call)
    asked = [hw.Received(), hw.Offsets(30), hw.TopKeys(5), hw.Map(7, 9), hw.Entropy()]
    every = ask(plan, asked)
    for b in range(call.q.shape[0]):
        one = ask(plan, asked, frame_of(plan, slice(b, b + 1)))
        for key, answer in one.items():
            for a, whole in _pairs(answer, every[key]):
                assert far(a, whole[b : b + 1]) == 0, key


@pytest.mark.parametrize("name", [name for name in LONG if name != "one query"])
def test_parts_of_a_pattern(name: str) -> None:
    """A frame of batch rows, heads and queries: what the definition says of the same rows alone, and nothing else."""
    call, whole = exact_of(name, F32)
    plan = plan_of(call)
    T = call.q.shape[2]
    b, h, rows = slice(call.q.shape[0] - 1, call.q.shape[0]), slice(1, 2), slice(T // 3, T - T // 4)
    outside = torch.ones(T, dtype=torch.bool)
    outside[rows] = False
    seen = whole.visible & ~outside[:, None]
    p = torch.where(seen, whole.p, 0.0)
    max_logit = whole.max_logit.masked_fill(outside, -INF)
    lse = whole.lse.masked_fill(outside, -INF)
    part = Whole(whole.geometry, p, whole.logits, seen, whole.peak, whole.log_total, lse, max_logit, whole.v)
    asked = named(list(asked_of(call)))
    found = ask(plan, asked.values(), frame_of(plan, b, h, rows))
    for key, question in asked.items():
        if isinstance(question, hw.MaxLogit) and max_logit.isnan().any():
            continue  # the definition finds it again from logits of all rows
        exact = question.define(part)
        if isinstance(question, hw.MaxLogit):
            exact = max_logit
        for n, (a, exactly) in enumerate(_pairs(found[key], exact)):
            if not (isinstance(exact, TopKeysFound) and n):  # of equal values either key will do
                compare(a, exactly[b, h], f"{name}: {key}", whole)


@by_dtype
@pytest.mark.parametrize("name", ["causal, several parts", "window", "dense mask", "sinks", "NaN", "documents"])
def test_cells_of_a_pattern(name: str, dtype: torch.dtype) -> None:
    """Indexing a pattern whose rows nobody knows: each cell is that of the whole."""
    call, whole = exact_of(name, dtype)
    options = {key: value for key, value in call.options.items() if key != "dropout"}
    pattern = hw.Pattern(call.q, call.k, **options)
    T, S = call.q.shape[2], call.k.shape[2]
    last = call.q.shape[0] - 1
    indices: list[Any] = [
        (0, 1, slice(T - 5, T), slice(0, S)),
        (last, slice(0, 2), slice(T // 2, T // 2 + 1), slice(S // 3, S)),
        (slice(None), 0, slice(3, 50, 7), slice(S - 9, S)),
        (last, 1, T - 1, S - T),
    ]
    for index in indices:
        within(pattern[index], whole.p[index], 1e-5, str(index))


SIZES = [1, 4, 5, 7, 8, 9, 15, 16, 17, 24, 31, 33]


@pytest.mark.parametrize("T", [1, 2, 9, 23, 24, 25, 49])
def test_sizes_around_vectors_tiles_and_blocks(T: int) -> None:
    for S in [*SIZES, 127, 128, 129, 255, 256, 257]:
        draw = Draw(F32, S)
        call = draw.call(B=1, H=2, T=T, S=S, D=1 + S % 19, E=1 + T % 5, mask=hw.Causal())
        whole = Reference().whole(plan_of(call.to(F64)))
        asked = named(list(asked_of(call)))
        found = ask(plan_of(call), asked.values())
        for key, question in asked.items():
            compare(found[key], question.define(whole), f"S={S}: {key}", whole)


def test_ties_go_to_the_lower_key() -> None:
    """Equal scores everywhere, across vectors, tiles and blocks, and a few that stand out."""
    q, k = torch.zeros(1, 2, 70, 4), torch.zeros(1, 2, 700, 4)
    k[:, :, [3, 300, 301, 690]] = 1.0
    q[:, :, 5] = 1.0
    for wanted in (1, 4, 6, 33, 100, 900):
        found = ask(plan_of(Call(q, k, k)), [hw.TopKeys(wanted)])["top_keys"].indices
        missing = [-1] * max(0, wanted - 700)
        assert found[0, 1, 0].tolist() == [*range(min(wanted, 700)), *missing]
        first = [3, 300, 301, 690]
        rest = [j for j in range(700) if j not in first]
        assert found[0, 0, 5].tolist() == [*first, *rest, *missing][:wanted]


@pytest.mark.parametrize("rising", [True, False])
@pytest.mark.parametrize("wanted", [1, 2, 8, 16, 33, 300])
def test_top_keys_of_rows_in_order(wanted: int, rising: bool) -> None:
    """Where every key is better than all before, or worse: as many cells pass a threshold as can, or as few."""
    k = torch.linspace(-3, 3, 600)[None, None, :, None] * (1 if rising else -1)
    q = torch.ones(1, 1, 30, 1)
    found = ask(plan_of(Call(q, k, k)), [hw.TopKeys(wanted)])["top_keys"]
    want = [*reversed(range(600 - wanted, 600))] if rising else [*range(wanted)]
    assert found.indices[0, 0, 7].tolist() == want
    p = torch.softmax(k[0, 0, :, 0].double(), 0)
    within(found.values[0, 0, 7], p[want], 1e-7, "values")


def test_hidden_cells_that_no_mask_hides() -> None:
    """An infinite operand makes a score of -inf: its cell is hidden, and counts for nothing."""
    q, k = torch.ones(1, 1, 3, 1), torch.zeros(1, 1, 40, 1)
    k[0, 0, 20] = -INF
    call = Call(q, k, torch.ones(1, 1, 40, 1))
    whole = Reference().whole(plan_of(call.to(F64)))
    asked = [hw.TopKeys(40), hw.Offsets(40), hw.Offsets(40, name="sums").sums(), hw.Contribution(torch.ones(1, 1))]
    found = ask(plan_of(call), asked)
    assert 20 not in found["top_keys"].indices[0, 0, 0].tolist()
    assert found["top_keys"].indices[0, 0, 0, -1] == -1
    for key, question in named(asked).items():
        compare(found[key], question.define(whole), key, whole)
    assert found["sums"].rows.sum() < found["sums"].rows.max() * 40


@pytest.mark.parametrize("weight", ["wide", "tall", "blind"])
def test_norms_of_what_a_key_carries(weight: str) -> None:
    """Output projections of any shape, one that is blind to most of a value among them."""
    call = Draw(F32, 1).call(T=9, S=31, E=6)
    width = call.q.shape[1] * 6
    w_o = {"wide": torch.randn(2, width), "tall": torch.randn(50, width), "blind": torch.zeros(7, width)}[weight]
    if weight == "blind":
        w_o[:, ::6] = torch.randn(7, width // 6)
    whole = Reference().whole(plan_of(call.to(F64)))
    found = ask(plan_of(call), [hw.Contribution(w_o)])["contribution"]
    compare(tuple(found), tuple(hw.Contribution(w_o).define(whole)), weight, whole)


class Cells:
    """A question of a user's own: how many cells it was shown."""

    def __init__(self) -> None:
        self.count = 0

    def see(self, tile: Any) -> None:
        self.count += tile.p.numel()

    def merge(self, other: Cells) -> None:
        self.count += other.count

    def result(self) -> int:
        return self.count


class Doubled(hw.Received):
    """A built-in question that somebody made another of."""

    def begin(self, frame: Frame) -> Any:
        inner = super().begin(frame)

        class Twice:
            def see(self, tile: Any) -> None:
                inner.see(tile)
                inner.see(tile)

            def merge(self, other: Any) -> None:
                raise AssertionError

            def result(self) -> Tensor:
                answer: Tensor = inner.result()
                return answer

        return Twice()


def test_questions_that_the_kernels_do_not_know_are_shown_tiles() -> None:
    """Beside those that they do, in one call, with the same facts."""
    call, whole = exact_of("causal, several parts", F32)
    plan = plan_of(call)
    asked = named([hw.Received(), Cells(), Doubled(name="doubled"), hw.TopKeys(3)])
    found = survey(plan, None, frame_of(plan), asked)
    assert found["cells"] >= 2 * 499 * 500 // 2
    compare(found["doubled"], 2 * whole.p.sum(-2), "doubled", whole)
    compare(found["received"], whole.p.sum(-2), "received", whole)


def test_float64_and_functions_are_answered_by_tiles() -> None:
    call = CASES["rule"].make(F32)
    assert Native().refuse(plan_of(call)) is not None
    for each in (call, CASES["causal, E != D"].make(F64)):
        whole = Reference().whole(plan_of(each.to(F64)))
        found = survey(plan_of(each), None, frame_of(plan_of(each)), named([hw.Received()]))
        assert found["received"].dtype == (F64 if each.q.dtype == F64 else F32)
        compare(found["received"], whole.p.sum(-2), "received", whole)


def test_the_kernels_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the public names, on the way of a forward pass; and not where the caller named the portable backend."""
    from headwise.backends import native, observing

    calls: list[Any] = []
    swept: list[Any] = []
    sweep = native.sweep

    def watched(*given: Any) -> None:
        calls.append(given)
        fill(*given)

    monkeypatch.setattr(observing, "fill", watched)
    monkeypatch.setattr(native, "sweep", lambda *given: swept.append(given) or sweep(*given))
    call = CASES["causal, E != D"].make(F32)
    hw.Pattern(call.q, call.k, **call.options).received()
    assert len(calls) == 1
    call.run(None, [hw.Received()])
    assert (len(calls), len(swept)) == (1, 1)
    call.run(None, [hw.Crop(slice(0, 2), slice(0, 3))])  # a part alone is asked for after the forward pass
    assert (len(calls), len(swept)) == (2, 1)
    call.run("blocked", [hw.Received()])
    call.run("reference", [hw.Received()])
    assert (len(calls), len(swept)) == (2, 1)


def test_nothing_to_see() -> None:
    draw = Draw(F32, 0)
    for call in (draw.call(T=0), draw.call(S=0), draw.call(B=0)):
        asked = named(list(questions(call)))
        found = ask(plan_of(call), asked.values())
        whole = Reference().whole(plan_of(call.to(F64)))
        for key, question in asked.items():
            for a, b in _pairs(found[key], question.define(whole)):
                assert far(a, b) == 0, key


def test_the_comparison_can_fail() -> None:
    call, whole = exact_of("grouped", F32)
    found = ask(plan_of(call), [hw.Received(), hw.TopKeys(3)])
    exact = whole.p.sum(-2)
    exact[0, 0, 5] += 1e-3
    with pytest.raises(AssertionError, match="received"):
        compare(found["received"], exact, "received", whole)
    top = hw.TopKeys(3).define(whole)
    swapped = TopKeysFound(found["top_keys"].values, found["top_keys"].indices.roll(1, -1))
    with pytest.raises(AssertionError, match="top_keys"):
        compare(swapped, top, "top_keys", whole)
