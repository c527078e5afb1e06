"""Answers to what a page asks: one table of questions, for the server, the notebook widget and saved files alike.

A question has a name and parameters, all of them ints or short words; an answer has a meta, which is JSON, and numbers.
``front/src/protocol.ts`` says what each means on the other side.
"""

from __future__ import annotations

import functools
import json
import operator
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.pattern import Pattern
from headwise.spec import Padding
from headwise.tensor_bytes import bytes_of
from headwise.viewer import lines, tiles
from headwise.viewer.overview import EXACT, Overview, coded
from headwise.viewer.sampling import sampled, some_queries
from headwise.viewer.scene import Scene
from headwise.viewer.shown import Shown
from headwise.viewer.tiles import Cancelled

__all__ = ["Answer", "Answers", "Cancelled"]

WHOLES = 128 * 2**20  # bytes of pooled wholes that are kept
TILES = 64 * 2**20  # bytes of tiles that are kept
PROFILES = 16 * 2**20
OVERVIEWS = 16  # small maps of all heads, for so many pairs of run and batch row
VARIANTS = 64 * 2**20  # of patterns with a key hidden or rows normalised, which have row facts of their own
MOST_HEADS = 1024  # heads whose mean one question may ask for
PAIRED = 2**26  # more versions than small maps ever have

Wanted = Callable[[], bool]


class Answer(NamedTuple):
    """What a question gets.

    Attributes:
        meta: JSON.
        data: float32 or uint8, contiguous, on the CPU.
    """

    meta: dict[str, Any]
    data: Tensor

    def payload(self) -> bytes:
        """The numbers as bytes, little endian."""
        return bytes(bytes_of(self.data))

    def frame(self) -> bytes:
        """Length of the meta as uint32, little endian; the meta as JSON, padded to a multiple of 4; the numbers."""
        head = json.dumps(self.meta, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")
        head += b" " * (-len(head) % 4)
        return struct.pack("<I", len(head)) + head + self.payload()


class Answers:
    """Answers questions about a scene. Meant for one working thread; others wait their turn.

    Args:
        scene: what there is to look at.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.viewer import Answers, Scene
        >>> x = torch.zeros(1, 1, 3, 4)
        >>> answers = Answers(Scene.of({"run": {"site": hw.Pattern(x, x, mask=hw.Causal())}}))
        >>> answers.answer("row", {"run": 0, "heads": "0.0", "b": 0, "i": 1}).data
        tensor([0.5000, 0.5000, 0.0000])
    """

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self._lock = threading.RLock()
        self._wholes, self._tiles, self._profiles = _Kept(WHOLES), _Kept(TILES), _Kept(PROFILES)
        self._variants = _Kept(VARIANTS, least=4)
        self._overviews: OrderedDict[tuple[int, int], Overview] = OrderedDict()
        self._versions: dict[tuple[int, int], int] = {}  # of overviews that were let go
        self._scene: dict[str, Any] | None = None

    def answer(self, name: str, params: Mapping[str, Any], cancelled: Wanted = lambda: False) -> Answer:
        """Answers one question.

        Args:
            name: of the question.
            params: its parameters; numbers may be strings of digits.
            cancelled: asked on the way through long work.

        Raises:
            SpecError: no such question, a parameter that is missing, unknown or out of range.
            Cancelled: ``cancelled()`` turned true.
        """
        if name not in _QUESTIONS:
            raise SpecError(sentence("view", f"no question {name[:40]!r}", f"there are {', '.join(_QUESTIONS)}"))
        _, wanted, ask = _QUESTIONS[name]
        unknown = sorted({str(name) for name in params} - set(wanted))
        if unknown:
            what = f"{name} has no parameter {unknown[0][:40]!r}"
            raise SpecError(sentence("view", what, f"it has {', '.join(wanted) or 'none'}"))
        read = _Read(self.scene, name, params)
        with self._lock:
            if cancelled():
                raise Cancelled
            return ask(self, read, cancelled)

    def part(self, shown: Shown, rows: slice, cols: slice, z: int) -> Tensor:
        """Any part of a head's pattern as it is shown, pooled by 2^z from the part's own corner: float32 [n, m]."""
        with self._lock:
            found = tiles.pooled(self._pattern(shown), shown.b, shown.head, rows, cols, z, shown.pool).float().cpu()
            return found if shown.minus is None else found - self.part(shown.of_run(shown.minus), rows, cols, z)

    def urgency(self, name: str) -> int:
        """How soon a question is to be answered, the smallest number first."""
        return _QUESTIONS[name][0] if name in _QUESTIONS else 0

    def work(self) -> bool:
        """Does one small piece of what grows in the background; False = nothing is left."""
        with self._lock:
            return any(overview.work() for overview in reversed(self._overviews.values()) if not overview.done)

    # The questions.

    def _ask_scene(self, read: _Read, cancelled: Wanted) -> Answer:
        if self._scene is None:
            self._scene = self.scene.describe()
        return Answer(self._scene, torch.empty(0, dtype=torch.float32, device="cpu"))

    def _ask_tile(self, read: _Read, cancelled: Wanted) -> Answer:
        shown, (T, S) = read.shown(), read.lengths()
        z = read.number("z", tiles.coarsest(T, S) + 1)
        r, c = (read.number(key, max(1, -(-n // (tiles.TILE << z)))) for key, n in (("r", T), ("c", S)))
        return self._exact(shown, z, r, c, cancelled)

    def _ask_preview(self, read: _Read, cancelled: Wanted) -> Answer:
        shown, (T, S) = read.shown(), read.lengths()
        z = tiles.coarsest(T, S)

        def quick(one: Shown) -> Tensor | None:
            rows = sampled(T, -(-T >> z), tiles.EACH)
            some = some_queries(self.scene.pattern(one.run, one.layer), one.b, rows)
            if some is None:
                return None
            if one.hide or one.norm:
                some = variant(some, 0, one.head, self.scene.sink(one.layer, one.b) if one.hide else None, one.norm)
            return tiles.sketched(some, one.head, T, z, one.pool)

        runs = [shown.run] if shown.minus is None else [shown.run, shown.minus]
        parts = [part for run in runs if z and (part := quick(shown.of_run(run))) is not None]
        if len(parts) < len(runs):  # nothing to sample, or it cannot be: the whole itself
            return self._exact(shown, z, 0, 0, cancelled)
        return _tile_answer(functools.reduce(operator.sub, parts), z, 0, 0, exact=False)

    def _ask_overview(self, read: _Read, cancelled: Wanted) -> Answer:
        run, minus, b = read.run("run"), read.minus(), read.b
        one = self._overview(run, b)
        other = one if minus is None else self._overview(minus, b)
        # Two versions in one number, which the page hands back as it is.
        since = divmod(read.number("since", 2**53), PAIRED)
        state = [min(pair) for pair in zip(one.state, other.state, strict=True)]
        newer = [
            n
            for n, changed in enumerate(zip(one.changed, other.changed, strict=True))
            if state[n] and (changed[0] > since[0] or changed[1] > since[1])
        ]
        codes, scales = coded(one.maps[newer] if minus is None else (one.maps[newer] - other.maps[newer]).abs())
        heads = [
            {"layer": one.places[n][0], "head": one.places[n][1], "exact": state[n] == EXACT, "scale": scale}
            for n, scale in zip(newer, scales, strict=True)
        ]
        meta = {
            "version": one.version * PAIRED + other.version,
            "done": one.done and other.done,
            "exact": sum(found == EXACT for found in state),
            "of": len(state),
            "heads": heads,
        }
        return Answer(meta, codes)

    def _ask_row(self, read: _Read, cancelled: Wanted) -> Answer:
        return self._line(read, lines.row, read.number("i", read.lengths()[0]), cancelled)

    def _ask_column(self, read: _Read, cancelled: Wanted) -> Answer:
        return self._line(read, lines.column, read.number("j", read.lengths()[1]), cancelled)

    def _ask_profile(self, read: _Read, cancelled: Wanted) -> Answer:
        shown = read.shown()
        found = self._profile(shown, cancelled)
        entropy, received, offsets = found.entropy, found.received, found.offsets
        links = [{"i": i, "j": j, "p": p} for i, j, p in found.links]
        if shown.minus is not None:
            other = self._profile(shown.of_run(shown.minus), cancelled)
            entropy, received, offsets = entropy - other.entropy, received - other.received, offsets - other.offsets
            links = []  # the links of a difference are on its map: each run's strongest ones need not be its
        mean = float(entropy[found.seeing].mean()) if bool(found.seeing.any()) else 0.0
        meta = {
            "offsets": [_json(value) for value in offsets.tolist()],
            "limit": found.limit,
            "after": found.after,
            "entropy": _json(mean),
            "received": lines.largest(received),
            "links": links,
        }
        return Answer(meta, torch.cat([entropy, received]))

    # What they are made of.

    def _pattern(self, shown: Shown, cancelled: Wanted = lambda: False) -> Pattern:
        """The pattern of one run with what is hidden and normalised; to be asked about its own head alone."""
        pattern = self.scene.pattern(shown.run, shown.layer)
        if not (shown.hide or shown.norm):
            return pattern
        key = Shown(shown.layer, shown.head, shown.b, shown.run, hide=shown.hide, norm=shown.norm)
        found: Pattern | None = self._variants.held(key)
        if found is None:
            sink = self.scene.sink(key.layer, key.b) if key.hide else None
            found = variant(pattern, key.b, key.head, sink, key.norm, cancelled)
            B, H, T, _ = pattern.shape
            self._variants.keep(key, found, 3 * 4 * B * H * T)
        return found

    def _exact(self, shown: Shown, z: int, r: int, c: int, cancelled: Wanted) -> Answer:
        found = self._tile(shown, z, r, c, cancelled)
        if shown.minus is not None:
            found = found - self._tile(shown.of_run(shown.minus), z, r, c, cancelled)
        return _tile_answer(found, z, r, c, exact=True)

    def _tile(self, shown: Shown, z: int, r: int, c: int, cancelled: Wanted) -> Tensor:
        shown = shown.of_run(shown.run)

        def make() -> Tensor:
            T, S = self.scene.pattern(shown.run, shown.layer).shape[2:]
            base = tiles.base_level(T, S)
            if z >= base:
                whole = self._whole(shown, base, cancelled)
                return tiles.cut(tiles.condensed(whole, base, z, T, S, shown.pool), r, c)
            pattern = self._pattern(shown, cancelled)
            return tiles.pooled(
                pattern, shown.b, shown.head, *tiles.window(r, c, z, T, S), z, shown.pool, cancelled
            ).float()

        return self._tiles.get((shown, z, r, c), make)

    def _whole(self, shown: Shown, z: int, cancelled: Wanted) -> Tensor:
        def make() -> Tensor:
            pattern = self._pattern(shown, cancelled)
            b, h = shown.b, shown.head
            settled(pattern, b, h, cancelled)
            T, S = pattern.shape[2:]
            return tiles.pooled(pattern, b, h, slice(0, T), slice(0, S), z, shown.pool, cancelled).float()

        return self._wholes.get((shown, z), make)

    def _overview(self, run: int, b: int) -> Overview:
        if (run, b) not in self._overviews:
            self._overviews[run, b] = Overview(self.scene, run, b, self._versions.pop((run, b), 0))
            while len(self._overviews) > OVERVIEWS:
                gone, overview = self._overviews.popitem(last=False)
                self._versions[gone] = overview.version
        self._overviews.move_to_end((run, b))
        return self._overviews[run, b]

    def _line(self, read: _Read, ask: Callable[..., Tensor], at: int, cancelled: Wanted) -> Answer:
        heads, run, minus = read.heads(), read.run("run"), read.minus()

        def mean(run: int) -> Tensor:
            total = torch.zeros((), dtype=torch.float32, device="cpu")
            for layer, head in heads:
                if cancelled():
                    raise Cancelled
                if ask is lines.column:  # a row finds its own facts, a column those of all rows
                    settled(self.scene.pattern(run, layer), read.b, head, cancelled)
                total = total + ask(self.scene.pattern(run, layer), read.b, head, at)
            return total / len(heads)

        found = mean(run) if minus is None else mean(run) - mean(minus)
        return Answer({"top": lines.largest(found), "whole": True}, found)

    def _profile(self, shown: Shown, cancelled: Wanted) -> lines.Profile:
        key = Shown(shown.layer, shown.head, shown.b, shown.run)
        found: lines.Profile | None = self._profiles.held(key)
        if found is None:
            pattern = self.scene.pattern(key.run, key.layer)
            sink = self.scene.sink(key.layer, key.b)
            settled(pattern, key.b, key.head, cancelled)
            found = lines.profile(pattern, key.b, key.head, causal=self.scene.edges(key.layer).causal, sink=sink)
            self._profiles.keep(key, found, sum(part.nbytes for part in (found.entropy, found.received)))
        return found


def variant(
    pattern: Pattern, b: int, h: int, hidden: int | None, norm: bool, cancelled: Wanted = lambda: False
) -> Pattern:
    """A pattern with a key hidden, with every row divided by its largest probability, or both; of one head.

    The other probabilities stay as they are when a key is hidden, since the rows keep their own log-sum-exp. A row is
    divided by its largest probability by putting its largest logit where the log-sum-exp was.
    """
    batch, heads = slice(b, b + 1), slice(h, h + 1)
    settled(pattern, b, h, cancelled)
    facts = pattern.facts(batch, heads)
    if hidden is not None:
        keep = torch.ones(pattern.shape[0], pattern.shape[3], dtype=torch.bool, device=pattern.q.device)
        keep[:, hidden] = False
        mask = pattern.options["mask"]
        without = Padding(keep) if mask is None else mask & Padding(keep)
        if not norm:
            return pattern.replaced(mask=without, facts=facts, batch=batch, heads=heads)
        pattern = pattern.replaced(mask=without)
        settled(pattern, b, h, cancelled)
        facts = pattern.facts(batch, heads)
    top = facts.max_logit.masked_fill(facts.max_logit == float("-inf"), 0.0)
    return pattern.replaced(facts=facts._replace(peak=top, log_total=torch.zeros_like(top)), batch=batch, heads=heads)


def settled(pattern: Pattern, b: int, h: int, cancelled: Wanted) -> None:
    """Finds the row facts of a head, unless that is not wanted any more."""
    for _ in pattern.settling(slice(b, b + 1), slice(h, h + 1)):
        if cancelled():
            raise Cancelled


class _Read:
    """A question's parameters, each checked as it is read."""

    def __init__(self, scene: Scene, name: str, params: Mapping[str, Any]) -> None:
        self.scene, self.name, self.params = scene, name, params

    def number(self, key: str, most: int) -> int:
        """An int from 0 up to ``most``, that left out."""
        value = self.params.get(key)
        text = str(value)
        if value is None or isinstance(value, bool) or not text.isascii() or not text.isdigit() or len(text) > 18:
            what = f"{key} is missing" if value is None else f"{key} is {text[:40]!r}"
            raise SpecError(sentence("view", f"{what} in {self.name}", "it is a number, 0 or more"))
        if int(text) >= most:
            raise SpecError(sentence("view", f"{key} is {int(text)} in {self.name}", f"there are {most}, from 0"))
        return int(text)

    def word(self, key: str, words: tuple[str, ...]) -> str:
        """One of a few words."""
        value = str(self.params.get(key, ""))
        if value not in words:
            raise SpecError(sentence("view", f"{key} is {value[:40]!r} in {self.name}", f"it is {' or '.join(words)}"))
        return value

    def run(self, key: str) -> int:
        return self.number(key, len(self.scene.runs))

    def minus(self) -> int | None:
        return self.run("minus") if "minus" in self.params else None

    @property
    def b(self) -> int:
        return self.number("b", self.scene.batch)

    @property
    def layer(self) -> int:
        return self.heads()[0][0] if "heads" in self.params else self.number("layer", len(self.scene.sites))

    def lengths(self) -> tuple[int, int]:
        """T and S of the layer."""
        _, _, T, S = self.scene.pattern(0, self.layer).shape
        return T, S

    def shown(self) -> Shown:
        """The head, and how it is shown; a profile has no pooling."""
        layer = self.layer
        head = self.number("head", self.scene.pattern(0, layer).shape[1])
        if self.name == "profile":
            return Shown(layer, head, self.b, self.run("run"), self.minus())
        pool = self.word("pool", ("mean", "max"))
        hide, norm = (self.word(key, ("0", "1")) == "1" for key in ("hide", "norm"))
        return Shown(layer, head, self.b, self.run("run"), self.minus(), pool, hide, norm)

    def heads(self) -> list[tuple[int, int]]:
        """Heads of layers of one shape, as "layer.head,layer.head"."""
        words = str(self.params.get("heads", "")).split(",")
        if len(words) > MOST_HEADS:
            raise SpecError(sentence("view", f"{len(words)} heads", f"a mean is taken over at most {MOST_HEADS}"))
        found = []
        for word in words:
            parts = word.split(".")
            if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 9 for part in parts):
                raise SpecError(sentence("view", f"heads has {word[:40]!r}", 'a head is "layer.head", as in "3.0"'))
            layer, head = int(parts[0]), int(parts[1])
            if layer >= len(self.scene.sites) or head >= self.scene.pattern(0, layer).shape[1]:
                raise SpecError(
                    sentence("view", f"there is no head {word!r}", f"layers go to {len(self.scene.sites) - 1}")
                )
            found.append((layer, head))
        shapes = {self.scene.pattern(0, layer).shape[2:] for layer, _ in found}
        if len(shapes) > 1:
            raise SpecError(sentence("view", f"heads over {len(shapes)} different lengths", "a mean has one length"))
        return found


class _Kept:
    """The last answers, up to a number of bytes, but so many at least."""

    def __init__(self, limit: int, least: int = 1) -> None:
        self.limit, self.least, self.size = limit, least, 0
        self._held: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()

    def held(self, key: Hashable) -> Any:
        """What is kept, or None."""
        if key not in self._held:
            return None
        self._held.move_to_end(key)
        return self._held[key][0]

    def keep(self, key: Hashable, value: Any, size: int) -> None:
        """Keeps it, and lets the oldest go."""
        self._held[key] = value, size
        self.size += size
        while self.size > self.limit and len(self._held) > self.least:
            _, (_, gone) = self._held.popitem(last=False)
            self.size -= gone

    def get(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """What is kept, made if need be."""
        found: Tensor | None = self.held(key)
        if found is None:
            found = make()
            self.keep(key, found, found.nbytes)
        return found


def _tile_answer(found: Tensor, z: int, r: int, c: int, *, exact: bool) -> Answer:
    h, w = found.shape
    return Answer({"z": z, "r": r, "c": c, "h": h, "w": w, "exact": exact}, found.float().cpu())


def _json(value: float) -> float | None:
    """A number as JSON knows it: NaN and inf are null."""
    return value if value - value == 0 else None


_SHOWN = ("run", "minus", "layer", "head", "b", "pool", "hide", "norm")
_LINES = ("run", "minus", "heads", "b")
Question = tuple[int, tuple[str, ...], Callable[["Answers", "_Read", Wanted], Answer]]
#: By name: urgency, parameters, and who answers.
_QUESTIONS: dict[str, Question] = {
    "scene": (0, (), Answers._ask_scene),
    "preview": (1, _SHOWN, Answers._ask_preview),
    "tile": (2, (*_SHOWN, "z", "r", "c"), Answers._ask_tile),
    "row": (3, (*_LINES, "i"), Answers._ask_row),
    "column": (3, (*_LINES, "j"), Answers._ask_column),
    "overview": (4, ("run", "minus", "b", "since"), Answers._ask_overview),
    "profile": (5, ("run", "minus", "layer", "head", "b"), Answers._ask_profile),
}
