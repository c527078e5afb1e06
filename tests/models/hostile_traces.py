"""Trace files that nobody meant well with: a small valid one, and what can be made of it."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from headwise.models import Trace, trace_file
from headwise.models.trace_file import _DTYPES

__all__ = ["HOSTILE", "Forged", "forged"]

T, FAR = 6, 2**40


@dataclass
class Forged:
    """A trace file before it is written: what its JSON says, its tensors, and what stands in place of all that.

    Attributes:
        about: the JSON of the metadata, with the table of tensors that is filled in at the end.
        tensors: by name.
        lies: entries of the table that are not what the tensors are.
        header: changes of the header's bytes.
        text: changes of the metadata's text.
    """

    about: dict[str, Any]
    tensors: dict[str, Tensor]
    lies: dict[str, Any] = field(default_factory=dict)
    header: Callable[[dict[str, Any]], bytes] = lambda header: json.dumps(header).encode()
    text: Callable[[str], str] = lambda text: text

    @property
    def run(self) -> dict[str, Any]:
        """The first pattern."""
        run: dict[str, Any] = self.about["runs"][0]
        return run

    def option(self, name: str, value: Any) -> None:
        self.run["options"][name] = value

    def kind(self, name: str, *holds: Any) -> dict[str, Any]:
        """A mask or score rule, its tensors put to the others."""
        return {"kind": name, "holds": [self.put(one) if isinstance(one, Tensor) else one for one in holds]}

    def put(self, x: Tensor, shape: Any = None) -> dict[str, Any]:
        """A tensor of an option, declared to have another shape."""
        name = f"options/{len(self.tensors)}"
        self.tensors[name] = x
        return {"tensor": name, "shape": list(x.shape) if shape is None else shape}

    def mask(self, name: str, *holds: Any) -> None:
        self.option("mask", self.kind(name, *holds))

    def rules(self, *rules: dict[str, Any]) -> None:
        self.option("scores", list(rules))

    def write(self, path: Path) -> Path:
        self.about["tensors"] = {name: trace_file._entry(name, x) for name, x in self.tensors.items()} | self.lies
        text = self.text(json.dumps(self.about))
        said = {"format": trace_file.FORMAT, "version": "1", "check": str(zlib.crc32(text.encode())), "trace": text}
        header: dict[str, Any] = {"__metadata__": said}
        at, parts = 0, []
        for name, x in sorted(self.tensors.items(), key=lambda item: -item[1].element_size()):
            part = bytes(trace_file.bytes_of(x))
            header[name] = {"dtype": _DTYPES[x.dtype], "shape": list(x.shape), "data_offsets": [at, at + len(part)]}
            at += len(part)
            parts.append(part)
        line = self.header(header)
        line += b" " * (-(8 + len(line)) % 64)
        path.write_bytes(len(line).to_bytes(8, "little") + line + b"".join(parts))
        return path


def valid(folder: Path) -> Forged:
    """A trace of one layer, as it was saved."""
    from safetensors import safe_open

    torch.manual_seed(0)
    q, k = torch.randn(1, 2, T, 3), torch.randn(1, 1, T, 3)
    p = hw.attend(q, k, k, mask=hw.Causal() & hw.Padding(torch.ones(1, T) > 0), scores=(hw.SoftCap(5.0),)).pattern
    trace = Trace(None, {"layer": p}, ["layer"], {"input_ids": torch.arange(T)[None]})
    trace.save(folder / "valid.safetensors", tokens={"input_ids": [list("abcdef")]})
    with safe_open(folder / "valid.safetensors", framework="pt") as file:
        tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118  (it is no mapping)
        return Forged(json.loads(file.metadata()["trace"]), tensors)


def forged(name: str, folder: Path) -> Path:
    """The hostile file of a name."""
    file = valid(folder)
    HOSTILE[name](file)
    return file.write(folder / "hostile.safetensors")


# --- what is changed --------------------------------------------------------------------------------------------------


def window(n: int = 1) -> dict[str, Any]:
    return {"kind": "Window", "holds": [n, None]}


def combined(kind: str, parts: list[Any]) -> dict[str, Any]:
    return {"kind": kind, "holds": [parts]}


def in_turn(n: int) -> dict[str, Any]:
    mask = window()
    for turn in range(n):
        mask = combined("And" if turn % 2 else "Or", [mask, window(turn)])
    return mask


def renamed(old: str, new: str) -> Callable[[Forged], None]:
    def change(file: Forged) -> None:
        file.tensors[new] = file.tensors.pop(old)

    return change


def replaced(**tensors: Tensor) -> Callable[[Forged], None]:
    """Tensors of the first pattern in place of its own."""
    return lambda file: file.tensors.update({f"0/{name}": x for name, x in tensors.items()})


def said(**values: Any) -> Callable[[Forged], None]:
    return lambda file: file.about.update(values)


def told(name: str, value: Any) -> Callable[[Forged], None]:
    return lambda file: file.option(name, value)


def masked(name: str, *holds: Any) -> Callable[[Forged], None]:
    return lambda file: file.mask(name, *holds)


def ruled(name: str, *holds: Any) -> Callable[[Forged], None]:
    return lambda file: file.rules(file.kind(name, *holds))


def declared(kind: str, x: Tensor, shape: Any, *rest: Any, rule: bool = False) -> Callable[[Forged], None]:
    """A mask or score rule over a tensor that is said to be larger than it is."""

    def change(file: Forged) -> None:
        made = {"kind": kind, "holds": [file.put(x, shape), *rest]}
        if rule:
            file.rules(made)
        else:
            file.option("mask", made)

    return change


def many_runs(n: int, options: dict[str, Any] | None = None) -> Callable[[Forged], None]:
    """A pattern again and again, each of its runs under a name of its own."""

    def change(file: Forged) -> None:
        first = file.run if options is None else {**file.run, "options": {**file.run["options"], **options}}
        file.about["runs"] = [{**first, "name": f"layer#{n}"} for n in range(n)]
        names = [name for name in file.tensors if name.startswith("0/")]
        for run in range(1, n if n <= 64 else 1):
            file.tensors |= {f"{run}/{name[2:]}": file.tensors[name] for name in names}

    return change


def headed(change: Callable[[dict[str, Any]], Any]) -> Callable[[Forged], None]:
    """Another header of safetensors."""

    def write(header: dict[str, Any]) -> bytes:
        found = change(header)
        return found if isinstance(found, bytes) else json.dumps(header).encode()

    def into(file: Forged) -> None:
        file.header = write

    return into


def worded(old: str, new: str) -> Callable[[Forged], None]:
    """Another text of the metadata, with its own checksum."""

    def into(file: Forged) -> None:
        file.text = lambda text: text.replace(old, new, 1)

    return into


def true(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.bool)


def ints(*shape: int, value: int = 0) -> Tensor:
    return torch.full(shape, value, dtype=torch.int64)


def picture(file: Forged) -> None:
    """A bias of 1,200 patches and 500 heads, which written out is 700 million numbers."""
    n, heads = 1200, 500
    file.tensors |= {f"0/{name}": torch.zeros(1, heads, n, *axes) for name, axes in FACTS_OF.items()}
    file.tensors |= {"0/q": torch.zeros(1, heads, n, 1).half(), "0/k": torch.zeros(1, 1, n, 1).half()}
    file.run["values"] = False
    file.option("mask", None)
    file.rules(file.kind("GridBias", torch.zeros(59 * 79, heads).half(), 30, 40))


def distances(file: Forged) -> None:
    """The distances of T5 up to a million, of 4,000 heads that have one query each."""
    heads = 4000
    file.tensors |= {f"0/{name}": torch.zeros(1, heads, 1, *axes) for name, axes in FACTS_OF.items()}
    file.tensors |= {"0/q": torch.zeros(1, heads, 1, 1), "0/k": torch.zeros(1, 1, 1, 1)}
    file.run["values"] = False
    file.option("mask", None)
    file.rules(file.kind("T5Bias", torch.zeros(4, heads), True, 2**20))


FACTS_OF: dict[str, tuple[int, ...]] = dict.fromkeys(trace_file._FACTS, ())

HOSTILE: dict[str, Callable[[Forged], None]] = {
    # sizes that are declared and not held
    "tiles for a terabyte": declared("Blocks", true(1, 1), [2**20, 2**20], 1, "end"),
    "tiles for a terabyte, in a row": declared("Blocks", true(1, 1), [1, 2**40], 1, "end"),
    "tiles for 16 GB, of heads": declared("Blocks", true(1, 1, 1), [2, 2**17, 2**17], 1, "end"),
    "tiles of no row": masked("Blocks", true(0, 2**40), 1, "end"),
    "tiles larger than the pattern": masked("Blocks", true(40, 900), 1, "end"),
    "tiles of 0": masked("Blocks", true(T, T), 0, "start"),
    "tiles of less than 0": masked("Blocks", true(T, T), -1, "start"),
    "tiles as large as all": masked("Blocks", true(1, 1), FAR, "start"),
    "a table of 16 GB": declared("RelativeBias", torch.zeros(2, 1), [2, 2**31], 0, rule=True),
    "a table of a terabyte": declared("RelativeBias", torch.zeros(1, 1), [2, 2**37], 0, rule=True),
    "a table of no entry": ruled("RelativeBias", torch.zeros(2, 0), 0),
    "a table whose middle is far": ruled("RelativeBias", torch.zeros(2, 3), FAR),
    "a table whose middle is beyond all": ruled("RelativeBias", torch.zeros(2, 3), 2**63),
    "a table of NaN": ruled("RelativeBias", torch.full((2, 3), float("nan")), 1),
    "a picture of a billion patches": ruled("GridBias", torch.zeros(9, 2), 2**15, 2**15),
    "a picture with less than no patch": ruled("GridBias", torch.zeros(9, 2), -2, 2),
    "a picture written out": picture,
    "distances of a million": distances,
    "distances without end": ruled("T5Bias", torch.zeros(4, 2), True, 10**18),
    "buckets of a terabyte": declared("T5Bias", torch.zeros(2, 2), [2**39, 2], False, 2**20, rule=True),
    "cells of a terabyte": declared("Dense", true(1, 1), [2**20, 2**20]),
    "cells of one of all": declared("Dense", true(1, 1), [T, T]),
    "cells of five axes": masked("Dense", true(1, 1, 1, T, T)),
    "cells of 60 axes": declared("Dense", true(1), [1] * 60),
    "cells of a million axes": declared("Dense", true(1), [1] * 10**6),
    "a bias of a terabyte": declared("Bias", torch.zeros(1), [2**40], rule=True),
    "a bias of no end": ruled("Bias", torch.full((T, T), float("inf"))),
    "a bias that hides all": ruled("Bias", torch.full((T, T), float("-inf"))),
    "padding of a terabyte": declared("Padding", true(1, 1), [1, FAR], None),
    "padding of half": masked("Padding", true(1, T // 2), None),
    "lengths of a terabyte": declared("Padding", ints(1), [FAR], None),
    "lengths beyond all": masked("Padding", ints(1, value=2**62), None),
    "lengths below none": masked("Padding", ints(1, value=-(2**62)), None),
    "ids of a terabyte": declared("Documents", ints(1, 1), [FAR, T], None),
    "ids from end to end": masked("Documents", torch.tensor([-(2**63), 2**63 - 1] * (T // 2)), None),
    "ids that disagree": masked("Documents", ints(T), ints(T + 1)),
    "spans from end to end": masked("Spans", ints(T, value=-(2**63)), ints(T, value=2**63 - 1)),
    "spans of a terabyte": declared("Spans", ints(1), [FAR], {"tensor": "inputs/input_ids", "shape": [1, T]}),
    "a tree of a terabyte": declared("Tree", ints(1, value=-1), [FAR]),
    "a tree that is a circle": masked("Tree", ints(T, value=T - 1)),
    "a tree that follows nobody": masked("Tree", ints(T, value=-5)),
    "global tokens of a terabyte": declared("Global", true(1), [FAR]),
    "global tokens beyond all": masked("Global", 10**30),
    "global tokens below none": masked("Global", -1),
    "chunks that begin far away": masked("Chunks", 3, ints(1, value=-(2**63))),
    "chunks of all": masked("Chunks", 10**30, -(10**30)),
    "chunks of nothing": masked("Chunks", 0, 0),
    "every key of none": masked("Strided", 0),
    "every key beyond all": masked("Strided", 2**62),
    "a window beyond all": masked("Window", 10**30, 10**30),
    "a window below none": masked("Window", -1, None),
    "a prefix beyond all": masked("Prefix", 10**300),
    "slopes of a terabyte": declared("Alibi", torch.zeros(1, 1), [FAR, 2], None, None, rule=True),
    "slopes of NaN": ruled("Alibi", torch.full((2,), float("nan")), None, None),
    "positions from end to end": ruled("Alibi", torch.ones(2), torch.tensor([-(2**63), 2**63 - 1] * (T // 2)), None),
    "positions of NaN": ruled("Alibi", torch.ones(2), torch.full((T,), float("nan")), None),
    "a cap of NaN": ruled("SoftCap", float("nan")),
    "a cap of infinity": ruled("SoftCap", float("inf")),
    "a cap of 10**400": ruled("SoftCap", 10**400),
    "sinks of a terabyte": lambda file: file.option("sinks", file.put(torch.zeros(1), [FAR])),
    "sinks of NaN": lambda file: file.option("sinks", file.put(torch.full((2,), float("nan")))),
    "a start for each of a terabyte": lambda file: file.option("q_start", file.put(ints(1), [FAR])),
    "a start from end to end": lambda file: file.option("q_start", file.put(ints(1, value=2**63 - 1))),
    "a shape of words": lambda file: file.option("sinks", file.put(torch.zeros(1), ["2"])),
    "a shape of a number": lambda file: file.option("sinks", file.put(torch.zeros(1), 2)),
    "a shape of -1": lambda file: file.option("sinks", file.put(torch.zeros(1), [-1])),
    "a shape of infinity": lambda file: file.option("sinks", file.put(torch.zeros(1), [float("inf")])),
    "a shape of true": lambda file: file.option("sinks", file.put(torch.zeros(2), [True])),
    "a shape beyond int64": lambda file: file.option("sinks", file.put(torch.zeros(1), [2**70])),
    "a tensor named by a list": told("sinks", {"tensor": ["0/q"], "shape": [2]}),
    # numbers of things
    "no runs": said(runs=[]),
    "no runs, no names": said(runs=[], names=[], inputs=[]),
    "100,000 masks in one": lambda file: file.option("mask", combined("Or", [window()] * 100_000)),
    "65 masks in one": lambda file: file.option("mask", combined("Or", [window(n) for n in range(65)])),
    "64 masks in one": lambda file: file.option("mask", combined("Or", [window(n) for n in range(64)])),
    "20,000 score rules": lambda file: file.rules(*[file.kind("SoftCap", 5.0)] * 20_000),
    "9 score rules": lambda file: file.rules(*[file.kind("SoftCap", 5.0)] * 9),
    "8 score rules": lambda file: file.rules(*[file.kind("SoftCap", 5.0)] * 8),
    "masks in turn, 63 deep": lambda file: file.option("mask", in_turn(63)),
    "masks in turn, 65 deep": lambda file: file.option("mask", in_turn(65)),
    "lists in lists": lambda file: file.option("scores", json.loads("[" * 400 + "]" * 400)),
    "And of itself alone": lambda file: file.option("mask", combined("And", [combined("And", [window()])])),
    "5,000 patterns of one": many_runs(5000),
    "64 patterns": many_runs(64),
    "60 masks in each of 60 patterns": many_runs(60, {"mask": combined("Or", [window(n) for n in range(60)])}),
    "100,000 names": said(names=[f"site{n}" for n in range(100_000)]),
    "100,000 inputs of one": said(inputs=["input_ids"] * 100_000),
    "100,000 heads": told("kv_heads", [0] * 10**5),
    "a long name": lambda file: file.run.update(name="layer#" + "9" * 990),
    # words and numbers
    "an alignment of a megabyte": masked("Causal", "e" * 10**6),
    "a kind of a megabyte": masked("K" * 10**6),
    "a kind that is a list": told("mask", {"kind": ["Causal"], "holds": ["end"]}),
    "a name of a megabyte": said(inputs=["i" * 10**6]),
    "notes of a megabyte": said(notes={"heads": "h" * 10**6}),
    "notes deep in notes": said(notes={"heads": json.loads("[" * 400 + "]" * 400)}),
    "a scale of NaN": told("scale", float("nan")),
    "a scale of infinity": told("scale", float("-inf")),
    "a scale of 10**400": told("scale", 10**400),
    "a scale of nothing": told("scale", 0.0),
    "a start that is far": told("q_start", FAR),
    "a start that is too far": told("q_start", -FAR - 1),
    "a start beyond all": told("q_start", 10**300),
    "a start that is true": told("q_start", True),
    "a number of 5,000 digits": worded('"q_start": 0', '"q_start": ' + "9" * 5000),
    "a key said twice": worded('"names": ', '"names": ["other"], "names": '),
    "an option said twice": worded('"scale": ', '"scale": 1.0, "scale": '),
    "text behind the text": worded('{"names"', ' {"names"'),
    "no JSON": worded('{"names"', "<names"),
    "brackets without end": worded('{"names"', "[" * 100_000),
    # tensors that disagree
    "queries of another batch": replaced(q=torch.zeros(2, 2, T, 3)),
    "queries of no width": replaced(q=torch.zeros(1, 2, T, 0), k=torch.zeros(1, 1, T, 0)),
    "queries without a row": replaced(q=torch.zeros(1, 2, 0, 3)),
    "queries for a terabyte, of none": replaced(q=torch.zeros(1, 0, 2**40, 3)),
    "queries of NaN": replaced(q=torch.full((1, 2, T, 3), float("nan"))),
    "keys of infinity": replaced(k=torch.full((1, 1, T, 3), float("inf"))),
    "keys of another dtype": replaced(k=torch.zeros(1, 1, T, 3).half()),
    "values of a terabyte, of none": replaced(v=torch.zeros(1, 1, T, 0)),
    "values of another length": replaced(v=torch.zeros(1, 1, T + 1, 3)),
    "facts of NaN": replaced(**{name: torch.full((1, 2, T), float("nan")) for name in FACTS_OF}),
    "facts of infinity": replaced(**{name: torch.full((1, 2, T), float("-inf")) for name in FACTS_OF}),
    "facts of fewer rows": replaced(peak=torch.zeros(1, 2, T - 1)),
    "inputs of a trillion empty rows": lambda file: file.tensors.update({"inputs/input_ids": ints(2**40, 0)}),
    "inputs of floats": lambda file: file.tensors.update({"inputs/input_ids": torch.zeros(1, T)}),
    "inputs of nine axes": lambda file: file.tensors.update({"inputs/input_ids": ints(*[1] * 9)}),
    "inputs that are not there": said(inputs=["input_ids", "attention_mask"]),
    "tokens of other rows": lambda file: file.tensors.update(
        tokens=torch.tensor(list(json.dumps({"input_ids": [["a"]] * 9}).encode()), dtype=torch.uint8)
    ),
    "tokens in brackets without end": lambda file: file.tensors.update(
        tokens=torch.tensor(list(b"[" * 100_000), dtype=torch.uint8)
    ),
    "tokens of floats": lambda file: file.tensors.update(tokens=torch.zeros(3)),
    "a tensor that is not there": renamed("0/peak", "0/summit"),
    "a tensor of another name": lambda file: file.tensors.update(other=torch.zeros(3)),
    "a checksum that is none": lambda file: file.lies.update({"0/q": ["F32", [1, 2, T, 3], "crc"]}),
    "a table that is none": lambda file: file.lies.update({"0/q": None}),
    # the header
    "a tensor of a terabyte": headed(lambda header: header["0/q"].update(shape=[1, 2, 2**40, 3])),
    "a tensor before the file": headed(lambda header: header["0/q"].update(data_offsets=[-72, 0])),
    "a tensor behind the file": headed(lambda header: header["0/q"].update(data_offsets=[2**40, 2**40 + 144])),
    "two tensors in one place": headed(lambda header: header["0/q"].update(data_offsets=header["0/k"]["data_offsets"])),
    "a dtype that is none": headed(lambda header: header["0/q"].update(dtype="F4096")),
    "a header said twice": headed(lambda header: json.dumps(header).encode()[:-1] + b', "__metadata__": {}}'),
    "a tensor said twice": headed(
        lambda header: json.dumps(header).encode()[:-1] + b', "0/q": ' + json.dumps(header["0/q"]).encode() + b"}"
    ),
    "a header of brackets": headed(lambda header: b"[" * 100_000),
    "a header of nothing": headed(lambda header: b"{}"),
    "metadata of numbers": headed(lambda header: header.update(__metadata__={"format": 1})),
}
