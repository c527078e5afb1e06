"""Cases x backends x dtypes: output, log-sum-exp, answers and gradients against the float64 definition."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from native_here import NATIVE
from small import small_tiles

import headwise as hw
from headwise import observers, spec
from headwise.testing import CASES, questions, within
from headwise.testing.promises import PROMISES, compare, refusal
from headwise.testing.truth import DTYPES, SAME_F64, exact_of

F64, F32 = torch.float64, torch.float32
SHORT = {dtype: name for name, dtype in DTYPES.items()}

by_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=SHORT.get)
by_case = pytest.mark.parametrize("name", list(CASES))
by_backend = pytest.mark.parametrize("backend", ["reference", "blocked", NATIVE, "sdpa"])


def refused(name: str, dtype: torch.dtype, backend: str) -> bool:
    """Whether the backend refuses the case; it does so for the expected reason, or not at all."""
    reason = refusal(CASES[name], dtype, backend)
    expected = CASES[name].refusal(backend, dtype)
    if expected is None:
        assert reason is None, f"{backend} refuses {name!r}, which it can do: {reason}"
        return False
    assert reason is not None and expected in reason, f"{backend} should refuse {name!r} because of {expected!r}"
    return True


@by_dtype
@by_backend
@by_case
def test_output_and_log_sum_exp(name: str, backend: str, dtype: torch.dtype, tiny: None) -> None:
    if not refused(name, dtype, backend):
        PROMISES["output"](CASES[name], dtype, backend)


@by_case
def test_whole_tiles_and_small_ones_agree(name: str) -> None:
    """The usual sizes of tiles hold these calls in one; the other tests cut them."""
    PROMISES["output"](CASES[name], F64, "blocked")


def _some(names: list[str], dtype: torch.dtype, step: int) -> list[Any]:
    """Every case in float64; every second in float32, which runs the same code; fewer in what is widened to it."""
    first = {F64: 0, F32: 0, torch.bfloat16: 1, torch.float16: 2}[dtype]
    every = {F64: 1, F32: 2}.get(dtype, step)
    return [pytest.param(name, dtype, id=f"{name}-{SHORT[dtype]}") for name in names[first::every]]


@pytest.mark.parametrize("backend", ["reference", "blocked", NATIVE])
@pytest.mark.parametrize(("name", "dtype"), [p for dtype in SHORT for p in _some(list(CASES), dtype, 6)])
def test_answers(name: str, backend: str, dtype: torch.dtype, tiny: None) -> None:
    """Every built-in question about every case, against its own definition on the dense float64 pattern."""
    if not refused(name, dtype, backend):
        PROMISES["answers"](CASES[name], dtype, backend)


@pytest.mark.parametrize("keep", [None, 0], ids=["whole rows", "two sweeps"])
@by_case
def test_answers_of_a_pattern_whose_rows_are_not_known_yet(
    name: str, keep: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No forward pass left the row facts: the survey finds them, with all tiles of a block at hand or in two sweeps."""
    small_tiles(monkeypatch, keep=keep)
    call, exact = CASES[name].make(F64), exact_of(CASES[name], F64)
    asked = questions(call)
    options = {key: value for key, value in call.options.items() if key not in ("dropout", "gate")}
    compare(call, exact, asked, hw.Pattern(call.q, call.k, call.v, **options).ask(*asked))


@by_case
def test_pattern_is_the_definition(name: str, tiny: None) -> None:
    exact, got = exact_of(CASES[name], F64), CASES[name].make(F64).run("blocked")
    assert tuple(got.pattern.shape) == tuple(exact.p.shape)
    within(got.pattern.to_dense(), exact.p, SAME_F64, "p")


DIFFERENTIABLE = [name for name, case in CASES.items() if case.gradients]


@by_backend
@pytest.mark.parametrize(("name", "dtype"), [p for dtype in SHORT for p in _some(DIFFERENTIABLE, dtype, 5)])
def test_gradients(name: str, dtype: torch.dtype, backend: str, tiny: None) -> None:
    if not refused(name, dtype, backend):
        PROMISES["gradients"](CASES[name], dtype, backend)


@by_dtype
@by_backend
@pytest.mark.parametrize("promise", ["operands kept", "strides", "same bits"])
@pytest.mark.parametrize("name", list(CASES)[::7])
def test_the_other_promises(name: str, promise: str, dtype: torch.dtype, backend: str) -> None:
    if not refused(name, dtype, backend):
        PROMISES[promise](CASES[name], dtype, backend)


# --- that nothing is left out, and that the checks can fail ---------------------------------------------------------


def _public(module: Any, base: type) -> set[type]:
    found = {getattr(module, name) for name in module.__all__}
    return {c for c in found if inspect.isclass(c) and issubclass(c, base) and c is not base}


@pytest.mark.parametrize("kind", sorted(_public(spec, spec.Mask) | _public(spec, spec.Rules), key=lambda c: c.__name__))
def test_every_mask_and_rule_has_a_case(kind: type) -> None:
    """Held by what the cases' options hold, not by what they say they hold."""
    used: set[type] = set()
    for case in CASES.values():
        options = case.make(F32).options
        used |= {type(rule) for rule in options.get("scores", ())}
        used |= _kinds(options.get("mask"))
    assert kind in used


@pytest.mark.parametrize("name", spec.recipes.__all__)
def test_every_recipe_has_a_case(name: str) -> None:
    recipe = getattr(spec.recipes, name)
    assert any(recipe in case.exercises for case in CASES.values())


def _kinds(mask: Any) -> set[type]:
    inside = getattr(mask, "masks", ())
    return {type(mask)}.union(*(_kinds(m) for m in inside))


@pytest.mark.parametrize("kind", sorted(_public(observers, observers.Observer), key=lambda c: c.__name__))
def test_every_observer_has_a_question(kind: type) -> None:
    assert kind in {type(question) for question in questions(CASES["plain"].make(F32))}


@pytest.mark.parametrize("option", ["mask", "scores", "scale", "q_start", "kv_heads", "sinks", "dropout", "gate"])
def test_every_option_has_a_case(option: str) -> None:
    parameters = set(inspect.signature(hw.attention).parameters)
    assert option in parameters
    assert any(option in case.make(F32).options for case in CASES.values())


def test_no_option_is_unknown_to_the_cases() -> None:
    known = {"q", "k", "v", "mask", "scores", "scale", "q_start", "kv_heads", "sinks", "dropout", "gate", "backend"}
    assert set(inspect.signature(hw.attention).parameters) == known


@by_case
def test_each_case_says_what_it_is_for(name: str) -> None:
    case = CASES[name]
    assert case.exercises
    used = _kinds(case.make(F32).options.get("mask")) | {type(r) for r in case.make(F32).options.get("scores", ())}
    assert {kind for kind in case.exercises if isinstance(kind, type)} <= used


def test_backends_that_refuse_take_a_fair_share_of_the_cases() -> None:
    """A backend that refuses everything would pass all else."""
    assert sum(case.sdpa is None for case in CASES.values()) >= 30
    refused_by_native = {name for name, case in CASES.items() if case.native is not None}
    deep = {name for name in CASES if name.startswith("a draft deeper than runs are kept")}
    assert deep
    python = {name for name, case in CASES.items() if {hw.Rule, hw.ScoreRule} & set(case.exercises)}
    assert refused_by_native == python | deep


def test_the_small_tiles_really_are_small(tiny: None) -> None:
    """Counted by an observer: without the fixture the same call is one tile a head or less."""

    class Tiles:
        def __init__(self) -> None:
            self.shapes: list[tuple[int, ...]] = []

        def see(self, tile: Any) -> None:
            self.shapes.append(tuple(tile.p.shape))

        def merge(self, other: Tiles) -> None:
            self.shapes += other.shapes

        def result(self) -> list[tuple[int, ...]]:
            return self.shapes

    call = CASES["plain, E != D"].make(F64)
    shapes = call.run("blocked", [Tiles()]).seen["tiles"]
    assert len(shapes) >= 3 * 3 * 2
    assert max(s[2] for s in shapes) == 4
    assert max(s[3] for s in shapes) == 5
    assert sum(s[0] * s[1] * s[2] * s[3] for s in shapes) == 2 * 3 * 11 * 13
