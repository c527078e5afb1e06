"""A trace as one safetensors file: the operands and row facts of each pattern, and its options as JSON.

The file's metadata lists every tensor with its dtype, shape and checksum, so that a file which was cut, damaged or made
up is told from one that was saved before any pattern of it is used. Nothing in a file is run or looked up by name.
"""

from __future__ import annotations

import json
import math
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise.backends import RowFacts
from headwise.errors import HeadwiseError, SpecError, UnavailableError, sentence
from headwise.models.written_down import AXES, read_down, write_down
from headwise.pattern import Pattern
from headwise.placing import replacing
from headwise.plan import make_plan
from headwise.tensor_bytes import bytes_of

__all__ = ["FORMAT", "VERSION", "Kept", "Tokens", "are_tokens", "read", "write"]

FORMAT, VERSION = "headwise trace", 1
HEADER = 2**24  #: bytes of a header at most: a name, shape and checksum for each of some 100,000 tensors
RUNS = 4096  #: patterns of a file, at most
ROOM = (
    2**20
)  #: numbers that one tensor may always have which is made of what a file declares, and does not hold as such

Tokens = dict[str, list[list[str]]]

_DTYPES = {
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.int32: "I32",
    torch.int64: "I64",
}
_FACTS = RowFacts._fields


class Kept(NamedTuple):
    """What a file holds.

    Attributes:
        patterns: by name of the run.
        names: all sites of the model.
        inputs: of the model, by name.
        tokens: strings of each batch row, by name of the input that they are of; None where they are not known.
        notes: JSON that goes with the trace, by name.
    """

    patterns: Mapping[str, Pattern]
    names: list[str]
    inputs: Mapping[str, Tensor]
    tokens: Tokens | None
    notes: Mapping[str, Any]


def write(path: str | os.PathLike[str], kept: Kept, values: bool) -> None:
    """Writes a file that appears whole or not at all.

    Args:
        path: where it shall be; an older file there stays until the new one is whole.
        kept: what it shall hold.
        values: whether the values v are written too.

    Raises:
        SpecError: the place cannot be written, or an option cannot be.
    """
    if not 1 <= len(kept.patterns) <= RUNS:
        rule = f"a file holds 1 to {RUNS:,}"
        raise SpecError(sentence("save", f"the trace has {len(kept.patterns):,} patterns", rule))
    tensors: dict[str, Tensor] = {f"inputs/{name}": x for name, x in kept.inputs.items()}
    shared: dict[tuple[Any, ...], str] = {}
    runs = []
    for n, (name, pattern) in enumerate(kept.patterns.items()):
        runs.append({"name": name, **_run(f"{n}", pattern, values, tensors, shared)})
    if kept.tokens is not None:
        tensors["tokens"] = torch.frombuffer(bytearray(json.dumps(kept.tokens).encode()), dtype=torch.uint8)
    table = {name: _entry(name, x) for name, x in tensors.items()}
    held = {"names": kept.names, "runs": runs, "inputs": list(kept.inputs), "tensors": table}
    about = json.dumps({**held, "notes": dict(kept.notes)})
    metadata = {"format": FORMAT, "version": str(VERSION), "check": str(zlib.crc32(about.encode())), "trace": about}
    header: dict[str, Any] = {"__metadata__": metadata}
    tensors = dict(sorted(tensors.items(), key=lambda item: -item[1].element_size()))  # each lies where it can be read
    at = 0
    for name, x in tensors.items():
        header[name] = {"dtype": _DTYPES[x.dtype], "shape": list(x.shape), "data_offsets": [at, at + x.nbytes]}
        at += x.nbytes
    line = json.dumps(header).encode()
    line += b" " * (-(8 + len(line)) % 64)
    if len(line) > HEADER:
        what = f"the list of what is in the file takes {len(line):,} bytes"
        raise SpecError(sentence("save", what, f"a trace that can be read again takes at most {HEADER:,}"))
    with replacing(path, "save") as file:
        file.write(len(line).to_bytes(8, "little") + line)
        for x in tensors.values():
            file.write(bytes_of(x))


def _run(
    n: str, pattern: Pattern, values: bool, tensors: dict[str, Tensor], shared: dict[tuple[Any, ...], str]
) -> dict[str, Any]:
    """What JSON says of one pattern; its tensors are put to the others, those of the options that sites share once."""
    if 0 in pattern.shape:
        rule = "a file holds patterns with a row and a key at least"
        raise SpecError(sentence("save", f"{pattern} has no cell", rule))

    def keep(x: Tensor) -> str:
        where = (x.device, x.data_ptr(), x.dtype, tuple(x.shape), x.stride())
        if where not in shared:
            shared[where] = f"options/{len(shared)}"
            tensors[shared[where]] = x.detach()
        return shared[where]

    options = write_down("save", pattern.options, keep)
    facts = pattern.facts()
    held = {"q": pattern.q, "k": pattern.k, **dict(zip(_FACTS, facts, strict=True))}
    if values and pattern.v is not None:
        held["v"] = pattern.v
    tensors.update({f"{n}/{name}": x.detach() for name, x in held.items()})
    return {"options": options, "values": "v" in held, "facts": _DTYPES[facts.peak.dtype]}


def _entry(name: str, x: Tensor) -> list[Any]:
    """Dtype, shape and checksum of a tensor."""
    if x.dtype not in _DTYPES:
        rule = "a file holds floats of 16 to 64 bits, integers and bools"
        raise SpecError(sentence("save", f"the tensor {name} is {x.dtype}", rule))
    return [_DTYPES[x.dtype], list(x.shape), zlib.crc32(bytes_of(x))]


def read(path: str | os.PathLike[str]) -> Kept:
    """Reads a file of ``write``; its tensors stay in the file, mapped into memory; checksums read each of them once.

    Raises:
        SpecError: there is no such file, or it is no trace, of another version, cut short, damaged or made up.
        UnavailableError: safetensors is not installed.
    """
    try:
        from safetensors import safe_open
    except ImportError as cause:
        what = "safetensors is not installed"
        raise UnavailableError(sentence("read_trace", what, todo="Install it: pip install safetensors.")) from cause
    try:
        _look_at_the_header(path)
        with safe_open(path, framework="pt") as file:
            return _Reading(file, _about(file.metadata()), Path(path).stat().st_size).all()
    except _NotReadError as cause:
        raise _unread(path, str(cause)) from cause
    except HeadwiseError as cause:  # what a class said of values that it cannot be made of
        raise _unread(path, f"what it says of a pattern has no meaning: {cause}") from cause
    except OSError as cause:
        raise _unread(path, cause.strerror or str(cause)) from cause
    except ValueError as cause:
        raise _unread(path, str(cause)[:200]) from cause
    # A file of any origin may hold anything, and whatever stumbles over it says the same: this is no trace.
    except Exception as cause:
        raise _unread(path, f"it is no trace that can be read ({type(cause).__name__})") from cause


class _NotReadError(Exception):
    """Why a file is not read, as a clause."""


def _unread(path: Any, why: str) -> SpecError:
    todo = "A trace is written by trace.save(path)."
    return SpecError(sentence("read_trace", f"{str(path)[:200]} cannot be read", why[:300], todo=todo))


def _look_at_the_header(path: str | os.PathLike[str]) -> None:
    """Refuses what is no safetensors file before anything large is read."""
    if not Path(path).is_file() and Path(path).exists():  # a pipe would be waited for
        raise _NotReadError("it is no ordinary file")
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        first = file.read(8)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or length > HEADER:
        raise _NotReadError("it is no trace")
    if 8 + length > size:
        raise _NotReadError(f"it has {size:,} bytes and its list of contents alone takes {length:,}: it was cut short")


def _about(metadata: Any) -> dict[str, Any]:
    """What the metadata says, checked against its checksum."""
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise _NotReadError("it is no trace")
    if metadata.get("version") != str(VERSION):
        found = str(metadata.get("version"))[:20]
        raise _NotReadError(f"it is a trace of version {found}, and this headwise reads version {VERSION}")
    about = metadata.get("trace", "")
    if metadata.get("check") != str(zlib.crc32(about.encode())):
        raise _NotReadError("it is damaged")
    found = json.loads(about, object_pairs_hook=_once)
    kinds = {"names": list, "runs": list, "inputs": list, "tensors": dict, "notes": dict}
    if not isinstance(found, dict) or not all(isinstance(found.get(name), kind) for name, kind in kinds.items()):
        raise _NotReadError("it does not say what it holds")
    if not all(_is_name(name) for name in found["names"] + found["inputs"]):
        raise _NotReadError("its names are no words")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, refused where it says a name twice: readers differ in which of the two they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _NotReadError("it says something twice")
    return found


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 1000


class _Reading:
    """One file being read."""

    def __init__(self, file: Any, about: dict[str, Any], size: int) -> None:
        self.file, self.about = file, about
        self.room = ROOM + 8 * size  # a bias of a picture's patches is written out as large as that
        self.found: dict[str, Tensor] = {}

    def all(self) -> Kept:
        patterns = {}
        if not 1 <= len(self.about["runs"]) <= RUNS:
            raise _NotReadError(f"it holds {len(self.about['runs']):,} patterns, and a trace 1 to {RUNS:,}")
        for n, run in enumerate(self.about["runs"]):
            if not _is_name(run["name"]) or run["name"] in patterns:
                raise _NotReadError("its patterns have no names of their own")
            patterns[run["name"]] = self.pattern(f"{n}", run)
        inputs = {name: self.tensor(f"inputs/{name}") for name in self.about["inputs"]}
        return Kept(patterns, self.about["names"], inputs, self.tokens(), self.about["notes"])

    def tensor(self, name: str) -> Tensor:
        """A tensor of the file, if it is what the metadata says of it."""
        if name in self.found:
            return self.found[name]
        if name not in self.about["tensors"]:
            raise _NotReadError(f"it lacks the tensor {str(name)[:60]}")
        found: Tensor = self.file.get_tensor(name)
        if found.dtype not in _DTYPES or found.dim() > AXES or math.prod(max(n, 1) for n in found.shape) > self.room:
            raise _NotReadError(f"its tensor {name[:60]} has a dtype or shape that no trace has")
        if self.about["tensors"][name] != [_DTYPES[found.dtype], list(found.shape), zlib.crc32(bytes_of(found))]:
            raise _NotReadError(f"its tensor {name[:60]} is damaged")
        self.found[name] = found
        return found

    def pattern(self, n: str, run: dict[str, Any]) -> Pattern:
        q, k = self.tensor(f"{n}/q"), self.tensor(f"{n}/k")
        v = self.tensor(f"{n}/v") if run["values"] else None
        if any(x.dim() == 4 and 0 in x.shape for x in (q, k)):  # sizes must be paid for in bytes
            raise _NotReadError("a pattern of it has no cell")
        spec = read_down(run["options"], self.tensor, self.room)
        plan = make_plan("read_trace", q, k, v, spec, draw=False)
        facts = [self.tensor(f"{n}/{name}") for name in _FACTS]
        rows = (plan.geometry.B, plan.geometry.H, plan.geometry.T)
        if any(tuple(x.shape) != rows or x.dtype != plan.dtype for x in facts) or run["facts"] != _DTYPES[plan.dtype]:
            raise _NotReadError("its row facts do not belong to its patterns")
        return Pattern.of_plan(plan, RowFacts(*facts))

    def tokens(self) -> Tokens | None:
        if "tokens" not in self.about["tensors"]:
            return None
        found = json.loads(bytes(bytes_of(self.tensor("tokens"))), object_pairs_hook=_once)
        if not are_tokens(found):
            raise _NotReadError("its tokens are no words")
        return dict(found)


def are_tokens(value: Any) -> bool:
    """Whether something is strings of each batch row, by name of an input."""
    if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
        return False
    rows = [row for batch in value.values() for row in (batch if isinstance(batch, (list, tuple)) else [None])]
    return all(isinstance(row, (list, tuple)) and all(isinstance(word, str) for word in row) for row in rows)
