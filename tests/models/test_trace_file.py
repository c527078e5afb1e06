"""A trace in a file: everything comes back, and nothing but what was saved is taken for a trace."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.models import Trace, read_trace, trace_file
from headwise.spec.encoding import FIELDS
from headwise.spec.masks import DEPTH
from headwise.testing import CASES

PYTHON = (hw.Rule, hw.ScoreRule)


def of_pattern(p: hw.Pattern) -> Trace:
    return Trace(None, {"layer": p}, ["layer"])


def equal(a: Trace, b: Trace) -> bool:
    """Whether two traces hold the same, to the bit, and say the same."""
    if (a.sites, a._names, a.tokens, set(a.inputs)) != (b.sites, b._names, b.tokens, set(b.inputs)):
        return False
    pairs = [(a.inputs[name], b.inputs[name]) for name in a.inputs]
    for site in a.sites:
        p, q = a.pattern(site), b.pattern(site)
        pairs += [(p.q, q.q), (p.k, q.k), *zip(p.facts(), q.facts(), strict=True)]
        if str(p) != str(q) or not torch.allclose(p.to_dense(), q.to_dense(), atol=1e-5):
            return False
    return all(x.dtype == y.dtype and torch.equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_every_case_comes_back(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    p = CASES[name].make(dtype).run().pattern
    path = tmp_path / "trace.safetensors"
    mask = p.options["mask"]
    parts = (*(() if mask is None else mask.parts()), *p.options["scores"])
    if any(isinstance(part, PYTHON) for part in parts):
        with pytest.raises(hw.SpecError, match=r"save: .* holds? a (Rule|ScoreRule); .*function of Python"):
            of_pattern(p).save(path)
        assert list(tmp_path.iterdir()) == []
        return
    if 0 in p.shape:
        with pytest.raises(hw.SpecError, match=r"save: .* has no cell"):
            of_pattern(p).save(path)
        return
    of_pattern(p).save(path)
    again = read_trace(path).pattern("layer")
    for found, want in zip((again.q, again.k, again.v, *again.facts()), (p.q, p.k, p.v, *p.facts()), strict=True):
        torch.testing.assert_close(found, want, rtol=0, atol=0, equal_nan=True)
    # Strides are not kept, and a product over other strides may round otherwise.
    near = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(again.to_dense(), p.to_dense(), rtol=0, atol=near, equal_nan=True)
    assert str(again) == str(p)
    torch.testing.assert_close(again.offsets(4), p.offsets(4), rtol=0, atol=near, equal_nan=True)


def test_every_kind_of_mask_and_rule_is_among_them() -> None:
    seen: set[type] = set()
    for case in CASES.values():
        options = case.make(torch.float32).options
        todo = [options.get("mask"), *options.get("scores", ())]
        while todo:
            part = todo.pop()
            seen.add(type(part))
            todo += getattr(part, "masks", ())
    assert set(FIELDS) <= seen


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_comes_back_with_float32_facts(dtype: torch.dtype, tmp_path: Path) -> None:
    x = torch.randn(1, 2, 5, 4).to(dtype)
    first = of_pattern(hw.attend(x, x, x, mask=hw.Causal()).pattern)
    first.save(tmp_path / "a.safetensors")
    again = read_trace(tmp_path / "a.safetensors")
    assert again.pattern(0).q.dtype == dtype and again.pattern(0).facts().peak.dtype == torch.float32
    assert equal(again, first)


def test_a_trace_of_a_model(zoo: Any, tmp_path: Path) -> None:
    for family in ("bart", "albert", "gemma2", "t5"):
        model, batch = zoo.model(family), zoo.batch(family, "left")
        first = hw.trace(model, **batch)
        first.tokens = {"input_ids": [[f"t{n}é\ud83d" for n in row] for row in batch["input_ids"].tolist()]}
        first.save(tmp_path / f"{family}.safetensors")
        again = read_trace(str(tmp_path / f"{family}.safetensors"))
        assert again.output is None and equal(again, first)
        assert again.pattern(-1).options.keys() == first.pattern(-1).options.keys()
        w_o = torch.randn(7, first.pattern(0).shape[1] * first.pattern(0).v.shape[-1])
        for part in (again, first):
            part.answer = part.pattern(0).ask(hw.Contribution(w_o))["contribution"]
        torch.testing.assert_close(again.answer.by_key, first.answer.by_key)


def test_without_values_and_with_other_tokens(tmp_path: Path) -> None:
    x = torch.randn(1, 1, 3, 4)
    first = of_pattern(hw.attend(x, x, x).pattern)
    first.save(tmp_path / "a.safetensors", tokens={"input_ids": [("a", "b", "c")]}, values=False)
    again = read_trace(tmp_path / "a.safetensors")
    assert again.pattern(0).v is None and again.tokens == {"input_ids": [["a", "b", "c"]]}
    assert first.tokens is None
    for wrong in ("abc", ["a"], {"input_ids": ["a", "b"]}, {"input_ids": [[1]]}, {1: [["a"]]}):
        with pytest.raises(hw.SpecError, match="save: tokens is"):
            first.save(tmp_path / "b.safetensors", tokens=wrong)


def test_what_sites_share_and_what_is_expanded_is_written_once(tmp_path: Path) -> None:
    x, many = torch.randn(4, 2, 200, 2), torch.ones(1, 1, 1, 200, dtype=torch.bool).expand(4, 2, 200, 200)
    rows = torch.randn(1, 2, 1, 200).expand(4, 2, 200, 200)
    p = hw.attend(x, x, x, mask=hw.Dense(many), scores=(hw.Bias(rows),)).pattern
    first = Trace(None, {"a": p, "b": p}, ["a", "b"])
    first.save(tmp_path / "a.safetensors")
    assert (tmp_path / "a.safetensors").stat().st_size < 2 * 6 * x.nbytes
    assert equal(read_trace(tmp_path / "a.safetensors"), first)


def test_reading_keeps_the_numbers_in_the_file(tmp_path: Path) -> None:
    """Tensors of a file that is mapped lie as far apart in memory as in the file, and none is written back to it."""
    x = torch.randn(1, 1, 3, 4)
    of_pattern(hw.attend(x, x, x).pattern).save(tmp_path / "a.safetensors")
    before = (tmp_path / "a.safetensors").read_bytes()
    p = read_trace(tmp_path / "a.safetensors").pattern(0)
    at = {
        name: entry["data_offsets"][0] for name, entry in header(tmp_path / "a.safetensors").items() if name[0] != "_"
    }
    assert p.k.data_ptr() - p.q.data_ptr() == at["0/k"] - at["0/q"]
    p.q.zero_()
    assert (tmp_path / "a.safetensors").read_bytes() == before


def header(path: Path) -> Any:
    cells = path.read_bytes()
    return json.loads(cells[8 : 8 + int.from_bytes(cells[:8], "little")])


# what cannot be written


def test_a_place_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(1, 1, 3, 4)
    trace = of_pattern(hw.attend(x, x, x).pattern)
    folder = tmp_path / "folder.safetensors"
    folder.mkdir()
    for wrong in (
        folder,
        tmp_path / "none" / "a.safetensors",
        "a\0b.safetensors",
        tmp_path / ("a" * 400 + ".safetensors"),
    ):
        with pytest.raises(hw.SpecError, match=r"save: cannot write .*; .*"):
            trace.save(wrong)
    for wrong in (tmp_path / "a", "/dev/null", 3.5, "a.pt"):
        with pytest.raises(hw.SpecError, match=r"save: the place is .* a trace is a .safetensors file"):
            trace.save(wrong)
    folder.rmdir()
    trace.save(tmp_path / "a.safetensors")
    before = (tmp_path / "a.safetensors").read_bytes()
    monkeypatch.setattr(trace_file, "bytes_of", fails_late(trace_file.bytes_of))
    with pytest.raises(hw.SpecError, match=r"cannot write .*; No space"):
        trace.save(tmp_path / "a.safetensors")
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]
    assert (tmp_path / "a.safetensors").read_bytes() == before


def fails_late(real: Callable[..., Any]) -> Callable[..., Any]:
    left = [9]  # more calls than the checksums are, fewer than with the writing

    def bytes_of(x: torch.Tensor) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return real(x)

    return bytes_of


def test_masks_too_deep(tmp_path: Path) -> None:
    x = torch.randn(1, 1, 3, 4)

    def nested(n: int) -> hw.Pattern:
        mask = hw.Causal()
        for turn in range(n):  # in turn: many of one sign lie side by side
            mask = mask & hw.Window(2) if turn % 2 else mask | hw.Window(0, 0)
        return hw.Pattern(x, x, mask=mask)

    of_pattern(nested(DEPTH - 1)).save(tmp_path / "a.safetensors")
    assert equal(read_trace(tmp_path / "a.safetensors"), of_pattern(nested(DEPTH - 1)))
    with pytest.raises(
        hw.SpecError, match=f"mask: masks .* lie inside each other {DEPTH + 1} deep; at most {DEPTH} do"
    ):
        nested(DEPTH + 1)


# what cannot be read


def small(path: Path) -> Trace:
    torch.manual_seed(0)
    q, k = torch.randn(1, 2, 3, 2), torch.randn(1, 1, 3, 2)
    keep = torch.tensor([[True, False, True]])
    p = hw.attend(q, k, k, mask=hw.Causal() & hw.Padding(keep), scores=(hw.SoftCap(5.0),)).pattern
    trace = Trace(None, {"layer": p}, ["layer"], {"input_ids": torch.tensor([[3, 4, 5]])})
    trace.save(path, tokens={"input_ids": [["a", "b", "c"]]})
    return read_trace(path)


def test_damaged_files_are_refused_or_unchanged(tmp_path: Path) -> None:
    want = small(tmp_path / "good.safetensors")
    good = (tmp_path / "good.safetensors").read_bytes()
    draw = random.Random(0)
    bad = tmp_path / "bad"
    sentences = []
    changed = [good[:n] for n in (0, 1, 7, 8, 9, 100, len(good) // 2, len(good) - 1)]
    for _ in range(400):
        cells = bytearray(good)
        for _ in range(draw.choice((1, 1, 1, 3))):
            cells[draw.randrange(len(cells))] = draw.randrange(256)
        changed.append(bytes(cells))
    changed += [good[: draw.randrange(len(good))] for _ in range(60)]
    changed += [good + b"more", good[:500] + good[520:], good[:500] + b"   " + good[500:]]
    for cells in changed:
        bad.write_bytes(cells)
        try:
            found = read_trace(bad)
        except hw.SpecError as refusal:
            sentences.append(str(refusal))
        else:
            assert equal(found, want)
    assert len(sentences) > 400
    assert all(said.startswith("read_trace: ") and "\n" not in said for said in sentences)


def test_what_is_no_file_of_ours(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(3)}, tmp_path / "weights", metadata={"format": "pt"})
    (tmp_path / "text").write_text("no trace at all, but a long enough text")
    for wrong, text in (
        (tmp_path / "none", "No such file"),
        (tmp_path, "no ordinary file"),
        (tmp_path / "weights", "it is no trace"),
        (tmp_path / "text", "it is no trace"),
        (3.5, "it is no trace|cannot be read"),
        ("a\0b", ""),
    ):
        with pytest.raises(hw.SpecError, match=f"read_trace: .* cannot be read; .*({text})"):
            read_trace(wrong)


def forged(path: Path, change: Callable[[dict[str, Any]], Any], **metadata: str) -> Path:
    """A file whose metadata was changed and whose checksums are right again."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    small(path)
    with safe_open(path, framework="pt") as file:
        said = dict(file.metadata())
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  (it is no mapping)
    about = json.loads(said["trace"])
    swapped = change(about) or {}
    tensors.update(swapped)
    for name, x in swapped.items():
        about["tensors"][name] = trace_file._entry(name, x)
    text = json.dumps(about)
    said.update({"trace": text, "check": str(zlib.crc32(text.encode())), **metadata})
    save_file(tensors, path, metadata=said)
    return path


def option(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda about: about["runs"][0]["options"].update({name: value})


def deep(n: int) -> Any:
    mask: Any = {"kind": "Causal", "holds": ["end"]}
    for _ in range(n):
        mask = {"kind": "And", "holds": [[mask]]}
    return mask


HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a kind that is none": (option("mask", {"kind": "eval", "holds": ["1"]}), "kind of mask .* does not exist, 'eval'"),
    "a dunder": (option("mask", {"kind": "__class__", "holds": []}), "does not exist"),
    "too many fields": (option("mask", {"kind": "Causal", "holds": ["end", 1]}), "does not exist"),
    "an alignment that is none": (option("mask", {"kind": "Causal", "holds": ["top"]}), "no meaning: Causal: align"),
    "a list for a size": (option("mask", {"kind": "Window", "holds": [[1], None]}), "no meaning: Window"),
    "a rule as a mask": (option("mask", {"kind": "SoftCap", "holds": [3.0]}), "other kinds"),
    "a mask as a rule": (option("scores", [{"kind": "Causal", "holds": ["end"]}]), "other kinds"),
    "And of nothing": (option("mask", {"kind": "And", "holds": [[]]}), "nothing to combine"),
    "And of numbers": (option("mask", {"kind": "And", "holds": [[1, 2]]}), "nothing to combine"),
    "And of a word": (option("mask", {"kind": "And", "holds": ["ab"]}), "nothing to combine"),
    "masks in masks": (option("mask", deep(DEPTH + 1)), "deep"),
    "masks without end": (option("mask", deep(300)), "deep"),
    "a tensor that is not there": (option("sinks", {"tensor": "9/q", "shape": [2]}), "lacks the tensor"),
    "a tensor of another shape": (option("sinks", {"tensor": "0/q", "shape": [2, 2]}), ""),
    "sinks of the wrong shape": (option("sinks", {"tensor": "0/q", "shape": [1, 2, 3, 2]}), "sinks is"),
    "a scale that is none": (option("scale", float("nan")), "scale is nan"),
    "a scale that is a word": (option("scale", "1"), "other kinds"),
    "a position beyond all": (option("q_start", 10**30), "q_start is"),
    "heads that are not there": (option("kv_heads", [0, 10**12]), "kv_heads is"),
    "a million heads": (option("kv_heads", [0] * 10**6), "kv_heads is"),
    "another option": (option("gate", 1), "not those of a pattern"),
    "no options": (lambda about: about["runs"][0].pop("options") and None, "no trace"),
    "runs that are numbers": (lambda about: about.update(runs=[1]), "no trace"),
    "two runs of a name": (lambda about: about["runs"].append(about["runs"][0]), "names of their own"),
    "a name without end": (lambda about: about["runs"][0].update(name="layer#" + "9" * 5000), "names of their own"),
    "a site without end": (lambda about: about.update(names=["a" * 5000]), "no words"),
    "names that are none": (lambda about: about.update(names=[1]), "no words"),
    "no table": (lambda about: about.pop("tensors") and None, "does not say what it holds"),
    "facts of another size": (lambda about: {"0/peak": torch.zeros(1, 2, 4)}, "row facts"),
    "facts of another kind": (lambda about: {"0/peak": torch.zeros(1, 2, 3).double()}, "row facts"),
    "facts that say another kind": (lambda about: about["runs"][0].update(facts="F64"), "row facts"),
    "queries with three axes": (lambda about: {"0/q": torch.zeros(1, 2, 3)}, "q has 3 axes"),
    "queries of integers": (lambda about: {"0/q": torch.zeros(1, 2, 3, 2).long()}, "q is torch.int64"),
    "sizes for nothing": (lambda about: {"0/q": torch.zeros(1, 2**40, 0, 2)}, "dtype or shape"),
    "keys of another width": (lambda about: {"0/k": torch.zeros(1, 1, 3, 5)}, "share the width"),
    "a mask of another size": (lambda about: {"options/0": torch.ones(1, 4, dtype=torch.bool)}, ""),
    "tokens that are none": (lambda about: {"tokens": torch.tensor(list(b"[1, 2]"), dtype=torch.uint8)}, "no words"),
    "tokens that are no JSON": (lambda about: {"tokens": torch.tensor([255, 1], dtype=torch.uint8)}, ""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_made_up_files_are_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    change, text = HOSTILE[name]
    with pytest.raises(hw.SpecError, match=f"read_trace: .* cannot be read; .*({text})"):
        read_trace(forged(tmp_path / "a.safetensors", change))


def test_other_versions_and_headers(tmp_path: Path) -> None:
    def nothing(about: dict[str, Any]) -> None:
        pass

    assert equal(read_trace(forged(tmp_path / "a.safetensors", nothing)), small(tmp_path / "b.safetensors"))
    with pytest.raises(hw.SpecError, match="it is a trace of version 2, and this headwise reads version 1"):
        read_trace(forged(tmp_path / "a.safetensors", nothing, version="2"))
    with pytest.raises(hw.SpecError, match="it is damaged"):
        read_trace(forged(tmp_path / "a.safetensors", nothing, check="1"))
    with pytest.raises(hw.SpecError, match="it is no trace"):
        read_trace(forged(tmp_path / "a.safetensors", nothing, format="pt"))
    for length in (2**62, trace_file.HEADER + 1):
        (tmp_path / "a.safetensors").write_bytes(length.to_bytes(8, "little") + b"{}")
        with pytest.raises(hw.SpecError, match="it is no trace"):
            read_trace(tmp_path / "a.safetensors")
    (tmp_path / "a.safetensors").write_bytes((10**6).to_bytes(8, "little") + b"{}")
    with pytest.raises(hw.SpecError, match="it was cut short"):
        read_trace(tmp_path / "a.safetensors")
    brackets = b'{"__metadata__":' + b"[" * 100_000
    (tmp_path / "a.safetensors").write_bytes(len(brackets).to_bytes(8, "little") + brackets)
    with pytest.raises(hw.SpecError, match="read_trace: "):
        read_trace(tmp_path / "a.safetensors")
