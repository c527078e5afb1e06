"""check_backend: our backends pass, a planted fault of each kind is found by the promise that is broken."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

import planted
from native_here import NATIVE

import headwise as hw
from headwise.testing import CASES, check_backend, random_calls, same_as_reference
from headwise.testing.__main__ import main
from headwise.testing.fuzz import Chance, calls, random_call
from headwise.testing.promises import PROMISES
from headwise.testing.suite import backend_of

FEW = [
    CASES[name]
    for name in (
        "plain",
        "causal",
        "causal from the start",
        "causal, T > S: empty rows",
        "grouped heads",
        "left padding, causal, E = D",
        "alibi",
        "sinks",
        "gate [H]",
        "NaN in hidden keys and values",
        "no keys",
    )
]


@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16", "f16"])
@pytest.mark.parametrize("backend", ["reference", "blocked", NATIVE, "sdpa", planted.right])
def test_our_backends_keep_every_promise(backend: Any, dtype: str) -> None:
    report = check_backend(backend, [dtype], FEW, random=10)
    assert report.failed == []
    if backend == "native" and dtype == "f64":
        assert not report.ok, "a backend that takes nothing was not checked"
        return
    assert report.ok
    assert {found.promise for found in report.findings} == {*PROMISES, "random calls"}
    if backend == "sdpa":
        assert "torch's kernel has no sinks" in str(report)
    elif backend != "native":
        assert not any(found.refused for found in report.findings)


@pytest.mark.parametrize(
    ("backend", "promise", "case", "text"),
    [
        (planted.wrong_scale, "output", "plain", "out: .* from the exact numbers, .* is allowed; at .* it should be"),
        (planted.ignored_mask, "output", "causal", "out: "),
        (planted.top_left, "output", "causal", "out: "),
        (planted.leaking, "output", "NaN in hidden keys and values", "out: inf .* it is nan, it should be"),
        (planted.writing, "operands kept", "plain", "q was overwritten"),
        (planted.restless, "same bits", "plain", "out a second time: "),
        (planted.strideless, "strides", "plain", "out of operands heads inside: "),
        (planted.wrong_lse, "output", "plain", "lse: "),
        (planted.wrong_gradient, "gradients", "plain", "gradient of k: "),
        (planted.silent, "refusal", "sinks", "refuses and gives no reason"),
        (planted.Raising(), "refusal", "plain", "it raised RuntimeError: illegal instruction$"),
    ],
    ids="scale,mask,top left,nan,write,restless,strides,lse,gradient,silent,raises".split(","),
)
def test_a_planted_fault_is_found(backend: Any, promise: str, case: str, text: str) -> None:
    cases = [found for found in FEW if found.name in ("plain", case)]
    report = check_backend(backend, ["f32"], cases)
    assert not report.ok
    found = next(found for found in report.failed if (found.promise, found.case) == (promise, case))
    assert re.search(text, found.failed), found.failed
    assert f"{promise}, {found.case!r} in f32" in str(report)


def test_a_backend_that_refuses_everything_is_not_ok() -> None:
    report = check_backend(planted.refusing, ["f32"], FEW[:2], random=3)
    assert report.failed == []
    assert not report.ok
    assert "15 calls: it does nothing" not in str(report)
    assert "5 calls: it does nothing" in str(report)


def test_the_check_leaves_threads_and_generator_alone() -> None:
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    check_backend("blocked", ["f32"], FEW[:1], random=1)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.get_rng_state(), state)


# --- random calls ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("backend", ["blocked", NATIVE, "sdpa"])
def test_random_calls(backend: str, dtype: torch.dtype) -> None:
    refused = [same_as_reference(call, backend) for call in random_calls(40, dtype, seed=1)]
    assert any(why is None for why in refused) or backend != "blocked"


def test_random_calls_are_the_same_again_and_reach_everything() -> None:
    drawn = [random_call(Chance(seed)) for seed in range(400)]
    for seed in (3, 77):
        again = random_call(Chance(seed))
        assert torch.equal(again.q, drawn[seed].q) and str(again.options) == str(drawn[seed].options)
    options = {name for call in drawn for name in call.options}
    assert options == {"mask", "scores", "q_start", "sinks", "gate", "dropout", "kv_heads", "scale"}
    lengths = {call.q.shape[2] for call in drawn} | {call.k.shape[2] for call in drawn}
    assert {0, 1} <= lengths and max(lengths) > 60 and max(lengths) <= 70
    assert {type(rule) for call in drawn for rule in call.options.get("scores", ())} == {
        hw.SoftCap, hw.Alibi, hw.RelativeBias, hw.Bias, hw.ScoreRule,
    }  # fmt: skip
    kinds = {type(part) for call in drawn for part in _parts(call.options.get("mask"))}
    masks = {getattr(hw.spec, name) for name in hw.spec.__all__ if isinstance(getattr(hw.spec, name), type)}
    assert kinds == {mask for mask in masks if issubclass(mask, hw.spec.Mask) and mask is not hw.spec.Mask}
    assert any(not call.q.is_contiguous() for call in drawn)
    spoiled = list(random_calls(40))
    assert any(not bool(torch.isfinite(call.k).all()) for call in spoiled)


def _parts(mask: Any) -> list[Any]:
    inside = [part for one in getattr(mask, "masks", ()) for part in _parts(one)]
    return [] if mask is None else [mask, *inside]


@pytest.mark.parametrize("backend", [planted.wrong_scale, planted.ignored_mask, planted.leaking])
def test_random_calls_find_planted_faults(backend: Any) -> None:
    report = check_backend(backend, ["f32"], [], random=40)
    assert [found.promise for found in report.failed][:1] == ["random calls"]
    assert "random calls, 'seed " in str(report)


def test_hypothesis_shrinks_a_planted_fault() -> None:
    hypothesis = pytest.importorskip("hypothesis", reason="hypothesis is not installed")
    found: list[Any] = []

    @hypothesis.settings(max_examples=80, deadline=None, derandomize=True, database=None)
    @hypothesis.given(calls(torch.float32))
    def search(call: Any) -> None:
        found.append(call)
        same_as_reference(call, planted.wrong_scale)

    with pytest.raises(AssertionError, match=r"(out|lse): .* from the exact numbers"):
        search()
    assert found[-1].q.shape[0] == 1
    assert len(found[-1].options) <= 1


def test_without_hypothesis_the_seeds_still_work() -> None:
    code = (
        "import sys; sys.modules['hypothesis'] = None; import torch; from headwise.testing import *\n"
        "[same_as_reference(call, 'blocked') for call in random_calls(3, torch.float32)]; print('done')"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "done\n", done.stderr


# --- the command -------------------------------------------------------------------------------------------------


def test_the_table_and_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--backend", "sdpa", "--dtype", "f32", "--only", "sinks", "--only", "plain", "--random", "0"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("sdpa: ")
    assert "passed  refused   failed" in said
    assert "calls: torch's kernel has no sinks" in said
    assert "failed," not in said


def test_an_object_of_somebody_elses() -> None:
    words = [sys.executable, "-m", "headwise.testing", "--dtype", "f32", "--only", "causal, square", "--random", "5"]
    for name, code in (("right", 0), ("wrong_scale", 1)):
        done = subprocess.run(
            [*words, "--backend", f"planted:{name}"],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parent,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert ("failed, the first of each:" in done.stdout) == bool(code)
        assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--backend", "cudnn"], "there is no backend 'cudnn'; there are "),
        (["--backend", "nowhere:it"], "'nowhere:it' is not there .No module named 'nowhere'"),
        (["--backend", "planted:it"], "'planted:it' is not there .module 'planted' has no attribute 'it'"),
        (["--backend", "torch:Tensor"], "a backend has name, refuse, forward, backward"),
        (["--backend", "blocked", "--only", "nothing of the kind"], "no case's name holds 'nothing of the kind'"),
        ([], "--backend"),
    ],
)
def test_wrong_words_are_one_line(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert re.search(text, capsys.readouterr().err.splitlines()[-1])


def test_a_class_is_made() -> None:
    assert backend_of("planted:Planted").name == "planted"  # type: ignore[union-attr]
    assert backend_of("planted:Raising").name == "planted"  # type: ignore[union-attr]
    assert backend_of("blocked") == "blocked"
