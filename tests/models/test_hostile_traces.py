"""Trace files of any origin: each is refused in one sentence or answers right, and neither takes room it has not."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
from hostile_traces import HOSTILE, declared, forged, true, valid
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

import headwise as hw
from headwise.models import Trace, read_trace, trace_file
from headwise.models.written_down import PARTS, RULES


class Work(TorchDispatchMode):
    """Counts torch's operations, and records the largest storage that one of them returns."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = self.operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.operations += 1
        for leaf in tree_flatten(out)[0]:
            if isinstance(leaf, Tensor):
                self.bytes = max(self.bytes, leaf.untyped_storage().nbytes())
        return out


def most(path: Path) -> int:
    """Bytes that one tensor may take: those of the numbers there is room for."""
    return 8 * (trace_file.ROOM + 8 * path.stat().st_size)


def asked(trace: Trace) -> None:
    """Questions to the first two patterns; the answers are the reference's."""
    assert trace.sites and repr(trace)
    for site in trace.sites[:2]:
        p = trace.pattern(site)
        for given in (p, p.replaced(mask=p.options["mask"])):
            given.ask(hw.Entropy(), hw.Received(), hw.TopKeys(2), hw.Map(3, 3), hw.Offsets(4))
            assert given.to_dense().shape == p.shape
        assert hw.explain(p.q, p.k, p.k, **p.options) and repr(p)
        p.reach(0), p.stretches(0)
        fresh = p.replaced(mask=p.options["mask"])  # the file's row facts may say anything
        want = hw.attend(p.q, p.k, p.k, **p.options, backend="reference", observe=[hw.Entropy()]).seen["entropy"]
        torch.testing.assert_close(fresh.entropy(), want, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name: str, tmp_path: Path) -> None:
    path = forged(name, tmp_path)
    tracemalloc.start()
    try:
        with Work() as work:
            try:
                trace = read_trace(path)
            except hw.SpecError as refusal:
                said = str(refusal)
                assert said.startswith(f"read_trace: {path} cannot be read; ")
                assert "\n" not in said and len(said) < 600
            else:
                asked(trace)
        python = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert work.bytes <= most(path)
    assert work.operations < 60_000
    assert python < 2**24 + 64 * path.stat().st_size


def test_there_are_many() -> None:
    assert len(HOSTILE) >= 60


def test_the_record_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its bound a file of a few kilobytes has tiles for 16 MB made."""
    file = valid(tmp_path)
    declared("Blocks", true(1, 1), [2**12, 2**12], 1, "end")(file)
    path = file.write(tmp_path / "a.safetensors")
    with pytest.raises(hw.SpecError, match=r"it declares 16,777,216 numbers in one tensor, and has room for 1,0"):
        read_trace(path)
    limit = most(path)
    monkeypatch.setattr(trace_file, "ROOM", 2**40)
    with Work() as work:
        asked(read_trace(path))
    assert work.bytes > limit


def test_the_forger_writes_what_is_read(tmp_path: Path) -> None:
    read = read_trace(valid(tmp_path).write(tmp_path / "same.safetensors"))
    torch.testing.assert_close(
        read.pattern(0).to_dense(), read_trace(tmp_path / "valid.safetensors").pattern(0).to_dense(), rtol=0, atol=0
    )


@pytest.mark.parametrize("kind", ["masks", "score rules"])
def test_saving_refuses_what_reading_would(kind: str, tmp_path: Path) -> None:
    x = torch.randn(1, 1, 4, 2)

    def trace(count: int) -> Trace:
        options: dict[str, Any] = (
            {"mask": hw.spec.And(tuple(hw.Window(n) for n in range(count)))}
            if kind == "masks"
            else {"scores": (hw.SoftCap(3.0),) * count}
        )
        return Trace(None, {"layer": hw.Pattern(x, x, **options)}, ["layer"])

    count = PARTS if kind == "masks" else RULES
    asked(read_trace(trace(count).save(tmp_path / "a.safetensors")))
    with pytest.raises(hw.SpecError, match=f"save: a pattern has {count + 1} {kind}; a file holds up to {count}"):
        trace(count + 1).save(tmp_path / "b.safetensors")
    with pytest.raises(hw.SpecError, match="save: the trace has 0 patterns; a file holds 1 to 4,096"):
        Trace(None, {}, ["layer"]).save(tmp_path / "b.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_a_picture_and_distances_of_a_model_come_back(tmp_path: Path) -> None:
    """The largest tables of published models: BEiT's at 512 pixels, T5's; 1,025 tokens in half precision."""
    x = torch.randn(1, 16, 1025, 64).bfloat16()
    rules = (hw.Bias.grid(torch.zeros(63 * 63 + 3, 16), 32, 32), hw.RelativeBias.t5(torch.zeros(32, 16), True))
    p = hw.Pattern(x, x, scores=rules)
    Trace(None, {"layer": p}, ["layer"]).save(tmp_path / "a.safetensors", values=False)
    assert len(read_trace(tmp_path / "a.safetensors").pattern(0).options["scores"]) == 2


def test_expanded_tensors_of_a_model_come_back(tmp_path: Path) -> None:
    x, B, T = torch.randn(3, 2, 40, 4), 3, 40
    masks = (
        hw.Dense(true(1, 1, T, T).expand(B, 2, T, T)),
        hw.Blocks(true(1, 1, T, T).expand(B, 2, T, T), 1),
        hw.Padding(true(1, T).expand(B, T)),
        hw.Documents(torch.zeros(1, 1, dtype=torch.int64).expand(B, T)),
    )
    for mask in masks:
        p = hw.Pattern(x, x, mask=mask, scores=(hw.Alibi(torch.ones(1, 2).expand(B, 2)),))
        Trace(None, {"layer": p}, ["layer"]).save(tmp_path / "a.safetensors")
        again = read_trace(tmp_path / "a.safetensors").pattern(0)
        torch.testing.assert_close(again.to_dense(), p.to_dense(), rtol=0, atol=1e-6)
