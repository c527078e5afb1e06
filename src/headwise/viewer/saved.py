"""One HTML file that opens from a disk with the network off, and what of the patterns it holds.

A page stays below PAGE_BYTES whatever the model and the text: what its script and its tokens leave is shared out.

    small maps    of all heads, SIDE x SIDE, 8 bits a cell
    maps          of all heads, exact means of at most MAP x MAP cells; fewer where many heads share the room, the most
                  telling ones last
    open          tiles of the opening head, from the whole down to single cells, or as far as that fits
    tiles         likewise of others: the LEADING heads of each kind, then the most telling ones
    profiles      of the most telling heads
    top keys      of all heads, the KEYS strongest of the last queries that fit

Heads that are named are held whole beyond that. Floats keep 12 bits after the first: all that is shown of a number,
whatever its size. The first bytes of all numbers stand before all second bytes, and so on: signs and exponents are
alike, and deflate makes little of them when they stand together.
"""

from __future__ import annotations

import base64
import html
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from headwise.errors import SpecError, UnavailableError, sentence
from headwise.heads import KINDS
from headwise.observers import Map, Observer, TopKeys
from headwise.pattern import Pattern
from headwise.tensor_bytes import bytes_of
from headwise.viewer.answers import Answer, Answers
from headwise.viewer.scene import SIDE, leading, telling
from headwise.viewer.tiles import TILE, coarsest, condensed, joined_maps, level

__all__ = ["KEYS", "MAP", "canonical", "saved_page", "script"]

MAP = 64  #: cells a side of the map that every head has
KEYS = 5  #: top keys of each query
LEADING = 2  #: heads of each kind that are held down to single cells before any other, as far as they fit

PAGE_BYTES = 4_750_000  #: of a page without named heads, unless its tokens alone take more
_LEAST_BYTES = 1_500_000  # that are shared out even then
_PARTS = {"overview": 0.10, "maps": 0.43, "open": 0.13, "tiles": 0.09, "profiles": 0.09, "top": 0.16}

_KEY_BYTES = 5.3  # of one top key: its place and its probability
_ENTRY = 230  # of an answer beside its numbers
_COARSER = 3  # levels by which a map may be coarser than MAP cells a side
_SHARE = 4  # a head that leads no kind, or would not fit whole, takes this part of what is left, or LITTLE, at most
_LITTLE = 150_000


def budgets(taken: int) -> dict[str, float]:
    """Bytes of each part of a page of which so many are taken already."""
    room = max(_LEAST_BYTES, PAGE_BYTES - taken)
    return {name: share * room for name, share in _PARTS.items()}


class _Side(NamedTuple):
    """What is looked at of a head: a run, what is taken away, a row of the batch."""

    run: int
    minus: int | None
    b: int

    def params(self) -> dict[str, int]:
        taken = {} if self.minus is None else {"minus": self.minus}
        return {"run": self.run, **taken, "b": self.b}


def saved_page(answers: Answers, *, heads: Literal["all"] | Sequence[tuple[int, int]] | None = None) -> str:
    """Writes the page.

    Args:
        answers: of the scene.
        heads: "all" or (layer, head) pairs that are held whole, down to single cells, whatever that takes; the page
            opens with the first. None = the opening head and the most telling others, as far as the budgets go.

    Returns:
        HTML that loads nothing from anywhere.

    Raises:
        SpecError: a head that does not exist; patterns that hold NaN.
        UnavailableError: the page's script was not built.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.viewer import Answers, Scene
        >>> from headwise.viewer.saved import saved_page
        >>> x = torch.zeros(1, 2, 5, 4)
        >>> html = saved_page(Answers(Scene.of({"run": {"layer": hw.Pattern(x, x)}}, title="two heads")))
        >>> "<title>two heads</title>" in html, len(html) < 2e6
        (True, True)
    """
    code = script()
    file = _File(answers, heads, len(code)).filled()
    code = code.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    template = files("headwise.viewer").joinpath("assets", "saved.html").read_text(encoding="utf-8")
    return _put(template, {"title": html.escape(_whole(file["scene"]["title"])), "data": _json(file), "script": code})


def script() -> str:
    """The built script of the page.

    Raises:
        UnavailableError: it was not built.
    """
    try:
        return files("headwise.viewer").joinpath("assets", "viewer.js").read_text(encoding="utf-8")
    except FileNotFoundError as missing:
        todo = "In a checkout of headwise run: cd front && npm ci && npx vite build"
        raise UnavailableError(sentence("view", "viewer.js was not built", todo=todo)) from missing


def canonical(name: str, params: Mapping[str, Any]) -> str:
    """One name for one question: its parameters in the order of the alphabet.

    Example:
        >>> from headwise.viewer.saved import canonical
        >>> canonical("row", {"run": 0, "heads": "1.2", "b": 0, "i": 7})
        'row?b=0&heads=1.2&i=7&run=0'
    """
    return f"{name}?" + "&".join(f"{key}={params[key]}" for key in sorted(params))


class _File:
    """What a page holds, filled part by part."""

    def __init__(self, answers: Answers, heads: Literal["all"] | Sequence[tuple[int, int]] | None, taken: int) -> None:
        self.scene, self.answers = answers.scene, answers
        self.described = dict(answers.answer("scene", {}).meta)
        self.budgets = budgets(taken + len(_json(self.described)))
        self.shapes = [self.scene.pattern(0, layer).shape for layer in range(len(self.scene.sites))]
        self.places = [(layer, head) for layer, shape in enumerate(self.shapes) for head in range(shape[1])]
        self.named = self.scene.named(heads)
        self.leading = self._leading()
        self.order = self._ordered()
        count = len(self.scene.runs)
        runs = [(0, None), *((run, minus) for run in range(1, count) for minus in (None, 0))]
        if count == 2:  # a page of two runs opens on their difference
            runs = [(1, 0), (0, None), (1, None)]
        self.sides = [_Side(run, minus, b) for b in range(self.scene.batch) for run, minus in runs]
        self.kept: dict[str, dict[str, Any]] = {}
        self.whole: list[str] = []
        self.size = self.queries = 0
        self.unspent = 0.0  # bytes that maps and top keys left over, which tiles may take

    def filled(self) -> dict[str, Any]:
        """The page's data."""
        maps, top = self._first_pass()
        self._maps(maps)
        self._overviews()
        self._tiles()
        opened = {"open": list(self.named[0])} if self.named else {}
        told = {"heads": self.whole, "says": self._says(top)}
        return {"scene": {**self.described, **opened, "saved": told}, "answers": self.kept, "topKeys": {"0": top}}

    def _leading(self) -> list[tuple[int, int]]:
        """The head that is opened, then the LEADING heads of each kind.

        The first heads of all kinds stand before the second ones, so that a page with room for few shows every kind.
        """
        opened = self.named[0] if self.named else self.scene.opening()
        tables = [leading(self.scene.heads or (), kind)[:LEADING] for kind in KINDS]
        led = [(table[n].layer, table[n].head) for n in range(LEADING) for table in tables if n < len(table)]
        return list(dict.fromkeys([opened, *led]))

    def _ordered(self) -> list[tuple[int, int]]:
        """The heads: the leading ones, then the others, the most telling ones first."""
        factor = {(head.layer, head.head): telling(head) for head in self.scene.heads or ()}
        others = [place for place in self.places if place not in self.leading]
        return self.leading + sorted(others, key=lambda place: -factor.get(place, 0.0))

    def _keep(self, name: str, params: Mapping[str, Any], answer: Answer) -> int:
        """Puts an answer into the file; its size in bytes."""
        kind = "u8" if answer.data.dtype == torch.uint8 else "f32"
        data = _packed(answer.data)
        meta = _short_numbers(answer.meta)
        key = canonical(name, params)
        self.kept[key] = {"meta": meta, "type": kind, "size": answer.data.nbytes, "data": data}
        size = len(_json({key: self.kept[key]}))
        self.size += size
        return size

    def _ask(self, name: str, params: Mapping[str, Any]) -> int:
        return self._keep(name, params, self.answers.answer(name, params))

    def _first_pass(self) -> tuple[list[Tensor], dict[str, Any]]:
        """Maps [H, h, w] of each layer and the top keys of all heads: one pass over each pattern of the first run.

        The small maps are made in the same pass, unless the scene has them.
        """
        lengths = [shape[2] for shape in self.shapes]
        queries = max(1, min(max(lengths), int(self.budgets["top"] / (len(self.places) * KEYS * _KEY_BYTES))))
        first, self.queries = max(0, min(lengths) - queries), queries
        small, maps, keys, values, broken = dict(self.scene.maps), [], [], [], []
        for layer, (_, _, T, S) in enumerate(self.shapes):
            site, pattern = self.scene.sites[layer], self.scene.pattern(0, layer)
            own = [] if site in small or self.scene.batch > 1 else [Map(min(SIDE, T), min(SIDE, S))]
            one, found = _pooled(pattern, 0, level(T, S, MAP), [TopKeys(KEYS), *own])
            if own:
                small[site] = found["map"]
            maps.append(one.float().cpu())
            broken += [(layer, head) for head, finite in enumerate(one.isfinite().all(-1).all(-1)) if not finite]
            keys.append(_rows(found["top_keys"].indices[0].int(), first, queries, -1))
            values.append(_rows(found["top_keys"].values[0].float(), first, queries, 0.0))
        _refuse_nan(broken, len(self.places))
        self.answers = Answers(replace(self.scene, maps=small))
        packed = {"keys": _packed(torch.cat(keys)), "p": _packed(torch.cat(values))}
        self.unspent += self.budgets["top"] - sum(map(len, packed.values()))
        return maps, {"k": KEYS, "first": first, **packed}

    def _maps(self, maps: Sequence[Tensor]) -> None:
        """A map of each head of the first run, the telling ones finer where not all can be; then of the other sides.

        Where the page opens on a difference, that has half of the room.
        """
        first = next(side for side in self.sides if (side.run, side.minus) == (0, None))
        room = self.budgets["maps"] / (1 if first == self.sides[0] else 2)
        made = {
            (layer, head): [self._map(layer, maps[layer][head], coarser) for coarser in range(_COARSER + 1)]
            for layer, head in self.order
        }
        cost = {place: [len(_packed(one.data)) + _ENTRY for one in answers] for place, answers in made.items()}
        fits = (at for at in range(_COARSER) if sum(one[at] for one in cost.values()) <= room)
        coarser = next(fits, _COARSER)
        left = room - sum(one[coarser] for one in cost.values())
        for place, answers in made.items():
            more = cost[place][coarser - 1] - cost[place][coarser] if coarser else 0
            finer = coarser > 0 and more <= left
            left -= more if finer else 0
            self._keep_map(first, *place, answers[coarser - finer])
        left += self.budgets["maps"] - room
        for side in (side for side in self.sides if side != first):
            for layer, (_, _, T, S) in enumerate(self.shapes):
                if left <= 0:
                    return
                found = _pooled(self.scene.pattern(side.run, layer), side.b, level(T, S, MAP), [])[0]
                if side.minus is not None:
                    found = found - _pooled(self.scene.pattern(side.minus, layer), side.b, level(T, S, MAP), [])[0]
                for head, one in enumerate(found):
                    left -= self._keep_map(side, layer, head, self._map(layer, one.float().cpu()))
        self.unspent += left

    def _map(self, layer: int, found: Tensor, coarser: int = 0) -> Answer:
        """A head's map as an answer, condensed by so many levels."""
        T, S = self.shapes[layer][2:]
        have = level(T, S, MAP)
        z = max(have, level(T, S, MAP >> coarser))
        found = condensed(found, have, z, T, S, "mean")
        h, w = found.shape
        return Answer({"z": z, "r": 0, "c": 0, "h": h, "w": w, "exact": True}, found)

    def _keep_map(self, side: _Side, layer: int, head: int, found: Answer) -> int:
        """A map of single cells is the head's only tile."""
        whole = found.meta["z"] == 0
        place = {"z": 0, "r": 0, "c": 0} if whole else {}
        return self._keep("tile" if whole else "preview", {**_shown(side, layer, head), **place}, found)

    def _overviews(self) -> None:
        """The small maps of all heads, exact."""
        left = self.budgets["overview"]
        for side in self.sides:
            if left <= 0:
                return
            params = {**side.params(), "since": 0}
            while not self.answers.answer("overview", params).meta["done"] and self.answers.work():
                pass
            answer = self.answers.answer("overview", params)
            most = max(1, int(left / _cost(answer.data)))  # heads that fit
            answer.meta["heads"] = answer.meta["heads"][:most]
            left -= self._keep("overview", params, Answer(answer.meta, answer.data[:most]))
        self.unspent += left

    def _tiles(self) -> None:
        """Tiles and profiles of named heads whole; of the others, the telling ones first, as far as they fit."""
        left, profiles = self.budgets["open"] + max(0.0, self.unspent), self.budgets["profiles"]
        for place in self.named:
            for side in self.sides:
                self._levels(side, *place, None)
                self._profile(side, *place)
        for side in self.sides:
            for place in self.order:
                if place in self.named:
                    continue
                first = side == self.sides[0] and place == self.order[0]
                # One that would not fit whole leaves room for the coarser levels of others.
                likely = 2 * _least(self.shapes[place[0]][2], self.shapes[place[0]][3], 0)
                whole = first or (side == self.sides[0] and place in self.leading and likely <= left)
                left -= self._levels(side, *place, left if whole else min(left, max(left / _SHARE, _LITTLE)))
                left += self.budgets["tiles"] if first else 0
                if profiles > 0:
                    profiles -= self._profile(side, *place)

    def _profile(self, side: _Side, layer: int, head: int) -> int:
        return self._ask("profile", {**side.params(), "layer": layer, "head": head})

    def _levels(self, side: _Side, layer: int, head: int, limit: float | None) -> int:
        """Tiles of a head from the whole down to single cells, or to the last level that fits; their size."""
        T, S = self.shapes[layer][2:]
        spent = last = 0
        for z in range(coarsest(T, S), -1, -1):
            missing = [
                one for one in self._tile_questions(side, layer, head, z) if canonical("tile", one) not in self.kept
            ]
            # A level has four times the cells of the one before, the last one not for mean and maximum apart.
            likely = (4 if z else 2) * last if last else _least(T, S, z)
            if missing and limit is not None and spent + likely > limit:
                return spent
            last = sum(self._ask("tile", params) for params in missing)
            spent += last
        if side == self.sides[0]:
            self.whole.append(f"{layer}.{head}")
        return spent

    def _tile_questions(self, side: _Side, layer: int, head: int, z: int) -> Iterator[dict[str, Any]]:
        T, S = self.shapes[layer][2:]
        for pool in ("mean", "max") if z else ("mean",):  # of single cells both are the same
            for r in range(-(-T // (TILE << z))):
                for c in range(-(-S // (TILE << z))):
                    yield {**_shown(side, layer, head), "pool": pool, "z": z, "r": r, "c": c}

    def _says(self, top: Mapping[str, Any]) -> str:
        """What the file holds, in one sentence."""
        held, there = len(self.whole), len(self.places)
        size = f" of {self.size / 1e6:.1f} MB" if self.named else ""
        runs = list(self.scene.runs)
        apart = f", and differences from {runs[0]!r}" if len(runs) > 1 else ""
        if held == there:
            holds = f"every head down to single cells{apart}"
            return f"This saved file{size} holds {holds}; all else takes a viewer of the model."
        cells = f"{held} of {there} heads" if held else "no head"
        queries = (
            "every query"
            if self.queries >= max(shape[2] for shape in self.shapes)
            else (f"queries from {top['first']:,} on" if top["first"] else f"the first {self.queries:,} queries")
        )
        return (
            f"This saved file{size} holds {cells} down to single cells, the others as maps of at most {MAP} x {MAP} "
            f"cells or a few tiles, and the {KEYS} strongest keys of {queries}; all else takes a viewer of the model."
        )


def _shown(side: _Side, layer: int, head: int) -> dict[str, Any]:
    return {**side.params(), "layer": layer, "head": head, "pool": "mean", "hide": 0, "norm": 0}


def _pooled(pattern: Pattern, b: int, z: int, also: Sequence[Observer]) -> tuple[Tensor, dict[str, Any]]:
    """All heads of a batch row pooled by 2^z, [H, h, w], and the answers to other questions, in one pass."""
    T, S = pattern.shape[2:]
    asked, joined = joined_maps(slice(0, T), slice(0, S), z, "mean")
    batch = slice(b, b + 1)
    found = pattern.settle(batch=batch).ask(*asked, *also, batch=batch)
    return joined(found)[0], found


def _least(T: int, S: int, z: int) -> int:
    """Bytes that the tiles of a level may take, before any of them is made."""
    return 3 * -(-T >> z) * -(-S >> z) // 2


def _rows(found: Tensor, first: int, count: int, blank: float) -> Tensor:
    """Rows of [H, T, k] from ``first`` on, filled up to ``count`` where a layer has fewer queries."""
    part = found[:, first : first + count]
    missing = count - part.shape[1]
    return torch.cat([part, part.new_full((part.shape[0], missing, part.shape[2]), blank)], 1) if missing else part


def _refuse_nan(broken: Sequence[tuple[int, int]], count: int) -> None:
    """Raises where patterns hold NaN: a page of heads says nothing then."""
    if broken:
        layer, head = broken[0]
        raise SpecError(
            sentence(
                "view",
                f"the patterns of {len(broken)} of {count} heads hold NaN, first that of layer {layer}, head {head}",
                "a head is shown by its probabilities",
                todo="The weights hold NaN, or a narrow dtype overflows: read the model in float32.",
            )
        )


def _packed(data: Tensor) -> str:
    """Base64 of a tensor's bytes, deflated: all first bytes, all second ones, ..., little endian.

    Floats are rounded to 12 bits after the first.
    """
    if data.dtype == torch.float32:
        bits = data.contiguous().view(torch.int32)
        data = torch.where(data.isfinite(), (bits + (1 << 10)) & ~((1 << 11) - 1), bits)
    planes = data.contiguous().reshape(-1, 1).view(torch.uint8).T
    deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    return base64.b64encode(deflate.compress(bytes_of(planes)) + deflate.flush()).decode("ascii")


def _cost(codes: Tensor) -> int:
    """Bytes of one small map, about."""
    return max(1, len(_packed(codes)) // max(1, len(codes))) + 60 if len(codes) else 1


def _short_numbers(value: Any) -> Any:
    """JSON whose floats have five digits."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _short_numbers(part) for key, part in value.items()}
    return [_short_numbers(part) for part in value] if isinstance(value, (list, tuple)) else value


def _whole(text: str) -> str:
    """A text without lone surrogates, which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _json(data: Any) -> str:
    """JSON in which no character can end a script element, open a comment or be taken for markup."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _put(template: str, parts: Mapping[str, str]) -> str:
    """The template with its places filled, each once: what goes in is never searched for places again."""
    out, rest = [], template
    for name, part in parts.items():
        before, _, rest = rest.partition("{{" + name + "}}")
        out += [before, part]
    return "".join([*out, rest])
