"""The benchmarks: their register is whole, a wrong answer is never timed, and a record becomes a page."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.testing import far
from headwise.testing.calls import Draw

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO))

from benchmarks import environments, floors, gate, models, peers, prepare, render, results, timing  # noqa: E402
from benchmarks.__main__ import groups  # noqa: E402
from benchmarks.cases import BENCHES, TIERS, WORKS, selected  # noqa: E402

SMALL = "f32 causal T=16 D=64 B=1"
MACHINE = {
    "cpu": "A CPU",
    "make": "cpu family 1, model 2, stepping 3",
    "system": "Linux",
    "python": "3.11.7",
    "threads": 2,
    "torch_isa": "AVX2",
    "isa": "avx2",
    "versions": {"headwise": "0.1.0", "torch": "2.13.0"},
}


# --- the register ------------------------------------------------------------------------------------------------


def test_benches_are_well_formed() -> None:
    for name, bench in BENCHES.items():
        assert name == bench.name
        assert bench.tier in TIERS
        assert set(bench.peers) <= set(peers.known()), name
        assert {"dtype", "work"} <= bench.axes.keys(), name
        assert callable(getattr(models, bench.kind, None) or getattr(prepare, bench.kind, None)), bench.kind
        assert (bench.kind in ("observed", "memory")) == (bench.ask is not None), name


def test_every_size_of_the_plan_is_there() -> None:
    axes = [bench.axes for bench in BENCHES.values() if bench.kind == "forward"]
    for work in ("full", "causal"):
        found = {(a["dtype"], a["T"], a["D"], a["B"]) for a in axes if a["work"] == work}
        for dtype in ("f32", "bf16", "f16"):
            for D in (64, 80, 128):
                assert {(dtype, T, D, 1) for T in (16, 128, 512, 2048, 8192)} <= found
                assert {(dtype, T, D, 32) for T in (16, 128, 512)} <= found


def test_profiles_hold_each_other() -> None:
    names = [{bench.name for bench in selected(tier)} for tier in TIERS]
    assert names[0] < names[1] < names[2] == set(BENCHES)


def test_text_selects_what_holds_it_and_a_name_only_itself() -> None:
    assert {bench.axes["work"] for bench in selected("quick", ["window"])} == {"window 256"}
    assert [bench.name for bench in selected("quick", ["f32 full T=2048 D=64 B=1"])] == ["f32 full T=2048 D=64 B=1"]


def test_every_promise_has_a_bench() -> None:
    for floor in floors.FLOORS:
        every = [{"axes": bench.axes, "isa": bench.isa, "name": bench.name} for bench in BENCHES.values()]
        found = results.rows({"rows": every}, isa=floor.isa, **{"H": None, **floor.where})
        assert found, floor
        if floor.unit.startswith("x ") and (peer := floor.unit[2:]) in peers.known():
            assert all(peer in BENCHES[row["name"]].peers for row in found), floor


def test_benches_run_where_their_peers_live() -> None:
    todo = groups([BENCHES[SMALL]], list(peers.known()))
    assert todo == {(environment, None): [SMALL] for environment in environments.PACKAGES}
    assert groups([BENCHES[SMALL]], ["torch"]) == {("here", None): [SMALL]}
    forced = BENCHES["f32 full T=2048 D=64 B=1 forced avx2"]
    assert list(groups([forced], list(peers.known()))) == [("here", "avx2")]
    assert environments.variables("avx2")["HEADWISE_ISA"] == "avx2"


# --- the gate ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", ["full", "causal", "window 256", "alibi", "table", "documents", "padding 50 %"])
def test_written_options_say_what_masks_and_rules_say(work: str) -> None:
    """torch and flex are given the same call in their own words: all are held to float64."""
    size = {"B": 2, "H": 4, "T": 300, "S": 300, "D": 8}
    draw = Draw(torch.float32, seed=0)
    call = draw.call(fused=True, **size, **WORKS[work](draw, size))
    truth = gate.expected(call)
    assert gate.judge(call.run().out, truth)["error"] >= 0
    for name in ("torch", "unfused"):
        ready = peers.known()[name].prepare(call)
        assert gate.same_work(ready.output(ready.step()), truth, torch.float32) is None


def test_flex_is_told_the_same() -> None:
    size = {"B": 2, "H": 4, "T": 40, "S": 40, "D": 8}
    i, j = torch.arange(40)[:, None], torch.arange(40)
    for work, options in WORKS.items():
        draw = Draw(torch.float32, seed=0)
        call = draw.call(fused=True, **size, **options(draw, size))
        said = peers.written(call).added
        if said is None:
            continue
        told = torch.zeros(2, 4, 40, 40)
        for b in range(2):
            for h in range(4):
                for rule in call.options.get("scores", ()):
                    told[b, h] = peers.score_mod(rule, 0)(told[b, h], b, h, i, j)
                seen = peers.mask_mod(call.options["mask"], 0)(b, h, i, j)
                told[b, h].masked_fill_(~seen.expand(40, 40), -torch.inf)
        assert far(told, said.expand_as(told)) < 1e-5, work


@pytest.mark.parametrize("spoil", [lambda out: out * 1.001, lambda out: out.roll(1, 2), lambda out: out * torch.nan])
def test_the_gate_catches_a_wrong_result(spoil: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = hw.attention
    assert list(prepare.forward(BENCHES[SMALL], []).sides) == ["headwise"]
    monkeypatch.setattr(hw, "attention", lambda *args, **options: spoil(right(*args, **options)))
    with pytest.raises(gate.WrongAnswer, match="from float64"):
        prepare.forward(BENCHES[SMALL], [])


def test_the_gate_catches_a_wrong_derivative_and_a_wrong_answer() -> None:
    call = BENCHES[SMALL].call()
    grad = torch.ones_like(call.q)
    with pytest.raises(gate.WrongAnswer, match="derivatives"):
        prepare._judge_gradients([torch.zeros_like(x) for x in (call.q, call.k, call.v)], call, grad)
    seen = call.run(observe=[hw.Entropy(), hw.TopKeys(3)]).seen
    exact = call.to(torch.float64).run("reference", [hw.Entropy(), hw.TopKeys(3)]).seen
    assert gate.same_answers(seen, exact)["error"] <= 1e-5
    with pytest.raises(gate.WrongAnswer, match="entropy"):
        gate.same_answers(seen | {"entropy": seen["entropy"] + 1e-3}, exact)
    keys = seen["top_keys"]
    with pytest.raises(gate.WrongAnswer, match="indices"):
        gate.same_answers(seen | {"top_keys": keys._replace(indices=keys.indices.flip(-1))}, exact)


def test_a_peer_that_does_other_work_is_not_timed() -> None:
    def careless(call: Any) -> peers.Ready:
        return peers.known()["torch"].prepare(type(call)(call.q, call.k, call.v))  # it forgets the mask

    made = prepare.forward(BENCHES[SMALL], [peers.Peer("careless", "here", careless), peers.known()["torch"]])
    assert list(made.sides) == ["headwise", "torch"]
    assert "does other work" in made.refused["careless"]


# --- times, records, the page ------------------------------------------------------------------------------------


def test_sides_take_turns() -> None:
    order: list[str] = []
    pace = timing.Pace(seconds=0, block=1e-9, settle=0)
    found = timing.interleaved({name: lambda name=name: order.append(name) for name in "ab"}, pace)
    assert {name: len(times) for name, times in found.items()} == {"a": 3, "b": 3}
    assert "".join(order[4:]) == "abbaab"
    assert timing.ratio([2.0, 4.0, 3.0], [1.0, 1.0, 2.0]) == timing.Ratio(3.0, 1.5, 4.0)


def _row(name: str, ours: float, fma: float = 100.0, **others: float) -> dict[str, Any]:
    bench = BENCHES[name]
    return {
        "name": name,
        "kind": bench.kind,
        "axes": bench.axes,
        "isa": bench.isa,
        "environment": "here",
        "ran": {"backend": "native", "isa": "avx2"},
        "sides": {"headwise": [ours] * 3} | {side: [seconds] * 3 for side, seconds in others.items()},
        "ratios": {side: {"ratio": seconds / ours, "low": 1.0, "high": 9.0} for side, seconds in others.items()},
        "refused": {"flex": "it could not"},
        "gate": {"error": 1e-6, "allowed": 2e-6},
        "gflop": 8.0,
        "bytes": 10**9,
        "fma": {"rate": fma, "how": "multiply-adds in registers"},
    }


def _record() -> results.Record:
    decode = _row("f32 decode 32/8 S=8192 D=128 B=1", 0.05, torch=0.2, unfused=0.04)
    decode["read"] = {"rate": 40.0, "how": "reads alone"}
    return {
        "machine": MACHINE,
        "profile": "quick",
        "commit": "abc",
        "date": "2026-01-01T00:00:00+00:00",
        "conformance": 310,
        "rows": [
            _row("f32 full T=2048 D=64 B=1", 0.1, torch=0.25),
            _row("f32 full T=8192 D=64 B=1", 0.1, torch=0.21),
            _row("f32 full, all observers T=2048 D=64 B=1", 0.2, plain=0.1),
            _row("f32 overhead, Causal T=4 D=16 B=1", 20e-6, torch=10e-6),
            decode,
        ],
        "discarded": [],
        "wrong": [],
        "failed": [{"name": SMALL, "environment": "zentorch", "why": "zentorch is for x86 only"}],
    }


def test_promises_are_held_by_the_worst_row() -> None:
    found = {(said.floor.work, said.floor.unit): said for said in floors.evaluate(_record())}
    full = found["f32 full, T >= 2048", "x torch"]
    assert full.measured == pytest.approx(2.1)
    assert (full.met, full.row) == (False, "f32 full T=8192 D=64 B=1")
    observers = found["all observers", "x our plain forward"]
    assert (observers.measured, observers.met) == (pytest.approx(2.0), True)
    overhead = found["a call on tiny inputs, Causal", "us above torch's op"]
    assert (overhead.measured, overhead.met) == (pytest.approx(10.0), True)
    reads = found["decode 32/8, S = 8192, f32", "of the reads probed"]
    assert (reads.measured, reads.met) == (pytest.approx(0.5), False)
    fastest = found["decode 32/8, S = 8192, f32", "x the fastest peer"]
    assert (fastest.measured, fastest.met) == (pytest.approx(0.8), False)
    assert found["ALiBi, causal", "x torch"].met is None


def test_disturbed_rows_are_seen() -> None:
    rows = [_row(SMALL, 1.0, fma=100.0), _row(SMALL, 1.0, fma=96.0), _row(SMALL, 1.0, fma=94.0)]
    best = results.best_fma(rows)
    assert [results.disturbed(row, best) for row in rows] == [False, False, True]


def test_a_record_is_kept_and_merged(tmp_path: Path) -> None:
    record, path = _record(), tmp_path / "one.json"
    results.save(record, path)
    assert results.load(path) == record
    again = copy.deepcopy(record) | {"rows": [_row("f32 full T=2048 D=64 B=1", 0.05, torch=0.25)], "failed": []}
    both = results.merged(record, again)
    assert len(both["rows"]) == len(record["rows"])
    assert results.ratios(both, "torch", work="full", T=2048) == [5.0]
    assert both["failed"] == record["failed"]
    other = copy.deepcopy(record)
    other["machine"]["threads"] = 64
    with pytest.raises(ValueError, match="threads was 2 and is 64"):
        results.merged(record, other)


def test_the_page_says_what_was_measured_and_what_was_not(tmp_path: Path) -> None:
    results.save(_record(), tmp_path / "one.json")
    page = render.write(tmp_path, tmp_path / "page.md").read_text()
    assert "| f32 full, T >= 2048 | at least 2.2 x torch | 2.1 | **no** |" in page
    assert "| f32 full T=2048 D=64 B=1 | native | 100 ms | 80 | 80% | 2.5 (1 to 9) |" in page
    assert "| f32 decode 32/8 S=8192 D=128 B=1 | native | 50 ms | 20 GB/s | 50% |" in page
    assert "| ALiBi, causal | at least 4 x torch |  | not measured |" in page
    assert f"{SMALL} [zentorch]: it did not run (zentorch is for x86 only)" in page
    assert "flex: it could not: f32 full T=2048 D=64 B=1" in page
