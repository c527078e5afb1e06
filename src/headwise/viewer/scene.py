"""What there is to look at: runs of a model, the patterns of each site, what lies along their axes, what heads do."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, sentence
from headwise.heads import KINDS, MIXED, Head, Kind
from headwise.heads.reading import crosses, numbered, stack_of
from headwise.heads.scores import FEWEST
from headwise.pattern import Pattern
from headwise.viewer.axes import Axis, Grid, Tokens
from headwise.viewer.earned import least_of
from headwise.viewer.edges import Edges, described, edges

__all__ = ["COLOURS", "SIDE", "TOO_FEW", "Scene"]

SIDE = 32  #: height and width of the small maps of the overview.
POSITIONS = "positions"  #: the name of an axis whose tokens are not known
_RECENT = 64  # last queries, among which the one is looked for that a page opens with

#: Said once where a score bears an asterisk.
TOO_FEW = f"* fewer than {FEWEST} tokens of this text could show it: too few to call a head by it."

#: A colour a kind: told apart with any colour vision, and every cell carries its letter too.
COLOURS: dict[str, str] = {
    "previous_token": "#0072b2",
    "next_token": "#56b4e9",
    "induction": "#d55e00",
    "duplicate_token": "#e69f00",
    "first_token": "#8793a6",
    "separator": "#cc79a7",
    "local": "#009e73",
    "broad": "#d9c62e",
}

Labels = Sequence[str] | Sequence[Sequence[str]] | Axis | Sequence[Axis]


@dataclass(frozen=True, eq=False)
class Scene:
    """What a viewer shows. Holds patterns, and so O(T) numbers a head; never a matrix.

    Attributes:
        runs: for each run by name, its patterns by site. All runs have the same sites and shapes.
        sites: the names of the sites, layer by layer.
        axes: what lies along queries and keys.
        rows: for each site and batch row, which of the axes its queries are.
        cols: likewise of its keys.
        heads: what each head does, if it was scored.
        maps: exact small maps of the first run by site, [B, H, SIDE or T, SIDE or S], where the run left them.
        title, subtitle, facts: the page's head.
    """

    runs: Mapping[str, Mapping[str, Pattern]]
    sites: tuple[str, ...]
    axes: tuple[Axis, ...]
    rows: tuple[tuple[int, ...], ...]
    cols: tuple[tuple[int, ...], ...]
    heads: tuple[Head, ...] | None = None
    maps: Mapping[str, Tensor] = field(default_factory=dict)
    title: str = ""
    subtitle: str = ""
    facts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(
        cls,
        runs: Mapping[str, Mapping[str, Pattern]],
        *,
        tokens: Labels | None = None,
        key_tokens: Labels | None = None,
        heads: Sequence[Head] | None = None,
        maps: Mapping[str, Tensor] | None = None,
        title: str = "",
        subtitle: str = "",
        facts: Sequence[tuple[str, str]] = (),
    ) -> Scene:
        """Puts a scene together.

        Args:
            runs: for each run by name, its patterns by site.
            tokens: of the queries: strings, one list for all batch rows or one for each, or a Tokens or Grid likewise.
                None = positions.
            key_tokens: of the keys of cross attention, and of the encoder that makes them; likewise.
            heads: what each head does, layer by layer.
            maps: exact small maps of the first run, by site.
            title: of the page.
            subtitle: the line below it.
            facts: (label, value) pairs for the page's head.

        Raises:
            SpecError: no run, no site, or runs whose sites differ.
            ShapeError: runs whose shapes differ, or tokens that do not match the patterns' lengths.
        """
        sites = _sites(runs)
        first = next(iter(runs.values()))
        B = first[sites[0]].shape[0]
        placed = _Placed(first, _axes("tokens", tokens, B), _axes("key_tokens", key_tokens, B))
        rows, cols = placed.sides()
        scored = None if heads is None else _scored(heads, first, sites)
        return cls(
            runs, sites, tuple(placed.axes), rows, cols, scored, maps or {}, title, subtitle, tuple(facts)
        )  # fmt: skip

    @property
    def batch(self) -> int:
        """Rows of the batch."""
        return next(iter(self.runs.values()))[self.sites[0]].shape[0]

    def pattern(self, run: int, layer: int) -> Pattern:
        """The pattern of a site in a run, both by number."""
        return list(self.runs.values())[run][self.sites[layer]]

    def opening(self) -> tuple[int, int]:
        """(layer, head) to begin with: the head that clears a margin by the largest factor, sinks left aside.

        A score that too few tokens could show opens nothing. Unscored: the first head of the middle layer.
        """
        if not self.heads:
            return len(self.sites) // 2, 0
        best = max(self.heads, key=telling)
        return best.layer, best.head

    def named(self, heads: Any) -> list[tuple[int, int]]:
        """The heads that a file is asked to hold, "all" or (layer, head) pairs, each once; none for None.

        Raises:
            SpecError: a head that does not exist, or no such pairs.
        """
        patterns = next(iter(self.runs.values())).values()
        places = [(layer, head) for layer, pattern in enumerate(patterns) for head in range(pattern.shape[1])]
        if heads is None:
            return []
        if isinstance(heads, str) and heads == "all":
            return places
        if isinstance(heads, str) or not isinstance(heads, Sequence):
            what = f"heads is {heads!r}" if isinstance(heads, str) else f"heads is a {type(heads).__name__}"
            raise SpecError(sentence("view", what, 'it is "all" or a list of (layer, head) pairs'))
        for place in heads:
            pair = isinstance(place, (tuple, list)) and all(type(n) is int for n in place)
            if not pair or tuple(place) not in places:
                rule = f"heads are (layer, head) pairs, up to {places[-1]}"
                raise SpecError(sentence("view", f"there is no head {place!r}", rule))
        return list(dict.fromkeys((layer, head) for layer, head in heads))

    def describe(self) -> dict[str, Any]:
        """The scene as the page reads it, without its numbers."""
        layer, head = self.opening()
        return {
            "title": self.title,
            "subtitle": self.subtitle,
            "facts": [list(fact) for fact in self.facts],
            "runs": list(self.runs),
            "batch": self.batch,
            "layers": [self.describe_layer(n) for n in range(len(self.sites))],
            "axes": [axis.describe() for axis in self.axes],
            "kinds": [_kind(kind) for kind in (*KINDS.values(), MIXED)],
            "heads": None if self.heads is None else [_head(found) for found in self.heads],
            "tooFew": TOO_FEW,
            "open": [layer, head],
            "query": self._query(layer, head),
            "side": SIDE,
            "saved": None,
        }

    def sink(self, layer: int, b: int) -> int:
        """The first key that any query of a batch row may attend to: where attention rests.

        Of a mask that is known cell by cell only (Rule, Dense) the first and the last queries are asked.
        """
        pattern = self.pattern(0, layer)
        if pattern.stretches(b) is not None:
            return pattern.reach(b)[0]
        T = pattern.shape[2]
        parts = [pattern[b, 0, rows, :] for rows in (slice(0, _RECENT), slice(max(0, T - _RECENT), T))]
        return int((torch.cat(parts) > 0).any(0).int().argmax())

    def edges(self, layer: int) -> Edges:
        """Where the masks of a site end, in all runs."""
        return edges(*(self.pattern(run, layer) for run in range(len(self.runs))))

    def describe_layer(self, n: int) -> dict[str, Any]:
        """One site as the page reads it."""
        pattern = self.pattern(0, n)
        B, H, T, S = pattern.shape
        options = pattern.options
        start = options["q_start"]
        # Positions are no text of their own: keys before a chunk of a prompt have no names.
        named = any(self.axes[at].name != POSITIONS for at in self.cols[n])
        cross = crosses(self.sites[n]) or (named and self.rows[n] != self.cols[n])
        return {
            "name": self.sites[n],
            "label": self._label(n),
            "kind": "cross" if cross else "self",
            "heads": H,
            "T": T,
            "S": S,
            "rows": list(self.rows[n]),
            "cols": list(self.cols[n]),
            "start": start.tolist() if isinstance(start, Tensor) else [int(start)] * B,
            **described(self.edges(n)),
            "sink": [self.sink(n, b) for b in range(B)],
        }

    def _label(self, n: int) -> str:
        """Short, and said apart where a model has several stacks: "3", "encoder 3", "cross 3"."""
        site = self.sites[n]
        number = numbered(site).rpartition(".")[2]
        stacks = dict.fromkeys((stack_of(other), crosses(other)) for other in self.sites)
        if not number.isdigit():
            return str(n)
        run = f"#{site.partition('#')[2]}" if "#" in site else ""
        if len(stacks) == 1:
            return number + run
        if crosses(site):
            return f"cross {number}{run}"
        words = [part for part in stack_of(site).split(".") if part in ("encoder", "decoder")]
        return f"{words[-1] if words else stack_of(site)} {number}{run}"

    def _query(self, layer: int, head: int) -> int:
        """The query to begin with: of the last ones, the one with the strongest link to a key other than the sink."""
        pattern = self.pattern(0, layer)
        _, _, T, S = pattern.shape
        first = max(0, T - _RECENT)
        if not T or not S:
            return 0
        p = pattern[0, head, first:T, :].clone()
        p[:, self.sink(layer, 0)] = 0
        return first + int(p.amax(-1).nan_to_num(0).argmax())


def telling(head: Head) -> float:
    """How far above its margin a head does something that is worth a look first; sinks and local heads are not."""
    return max(
        head.lift(kind) / KINDS[kind].margin if head.told(kind) else 0.0
        for kind in ("induction", "duplicate_token", "previous_token")
    )


def leading(heads: Sequence[Head], kind: str) -> list[Head]:
    """The heads by their score of a kind, most first; those that enough tokens could show it, if there are any."""
    scored = sorted((head for head in heads if kind in head.scores), key=lambda head: -head.scores[kind])
    return [head for head in scored if head.told(kind)] or scored


def _sites(runs: Mapping[str, Mapping[str, Pattern]]) -> tuple[str, ...]:
    """The sites of all runs, refused unless they agree."""
    if not runs or not all(runs.values()):
        raise SpecError(sentence("view", "there is no pattern", "a view shows at least one"))
    (name, first), *others = runs.items()
    for other, patterns in others:
        if list(patterns) != list(first):
            odd = sorted(set(patterns) ^ set(first)) or list(patterns)
            raise SpecError(
                sentence("view", f"runs {name!r} and {other!r} differ in their sites, {odd[0]!r} for one",
                         "a difference is taken site by site")
            )  # fmt: skip
        for site, pattern in patterns.items():
            if pattern.shape != first[site].shape:
                what = (
                    f"site {site!r} has {list(first[site].shape)} in run {name!r}, {list(pattern.shape)} in {other!r}"
                )
                raise ShapeError(sentence("view", what, "a difference is taken cell by cell: [B, H, T, S] agree"))
    batches = {pattern.shape[0] for pattern in first.values()}
    if len(batches) > 1:
        raise ShapeError(sentence("view", f"sites of {sorted(batches)} batch rows", "all sites have the same batch"))
    for site, pattern in first.items():
        if 0 in pattern.shape:
            what = f"site {site!r} has {list(pattern.shape)} for [B, H, T, S]"
            raise ShapeError(sentence("view", what, "a view shows at least one cell of each head"))
    return tuple(first)


def _axes(name: str, given: Labels | None, B: int) -> list[Axis] | None:
    """One axis a batch row."""
    if given is None:
        return None
    if isinstance(given, Tokens | Grid):
        return [given] * B
    if isinstance(given, str) or not isinstance(given, Sequence):
        rule = "it is a list of strings, one a token, or a list of B such lists, or a Tokens or Grid"
        raise SpecError(sentence("view", f"{name} is a {type(given).__name__}", rule))
    if given and all(isinstance(part, str) for part in given):
        return [Tokens(given)] * B  # type: ignore[arg-type]
    found = [part if isinstance(part, Tokens | Grid) else Tokens(part) for part in given]
    if len(found) != B:
        what = f"{name} has {len(found)} lists, the batch {B} rows"
        raise ShapeError(sentence("view", what, "one list of strings for all rows, or one for each"))
    return found


class _Placed:
    """Finds for every site which axes its queries and keys are, and numbers the axes on the way."""

    def __init__(self, patterns: Mapping[str, Pattern], tokens: list[Axis] | None, keys: list[Axis] | None) -> None:
        self.patterns, self.tokens, self.keys = patterns, tokens, keys
        self.axes: list[Axis] = []
        self._numbers: dict[Any, int] = {}
        # Where no site says so by its name, whoever gives tokens of the keys says that all of them have two texts.
        self._crossing = any(crosses(site) for site in patterns)
        self._encoders = {stack_of(site) for site in patterns if "encoder" in site.split(".") and not crosses(site)}

    def sides(self) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
        """Of the queries and of the keys, for each site and batch row."""
        rows, cols = [], []
        for site, pattern in self.patterns.items():
            B, _, T, S = pattern.shape
            source = self.keys is not None and stack_of(site) in self._encoders
            two = crosses(site) or (self.keys is not None and not self._encoders and not self._crossing)
            along_rows = self.keys if source else self.tokens
            along_cols = self.keys if source or two else self.tokens
            rows.append(tuple(self._number(site, "queries", along_rows, b, T) for b in range(B)))
            # A lone pattern of T != S without key tokens has positions along its keys.
            known = along_cols is not None and (two or source or T == S or len(along_cols[0]) == S)
            cols.append(tuple(self._number(site, "keys", along_cols if known else None, b, S) for b in range(B)))
        return tuple(rows), tuple(cols)

    def _number(self, site: str, what: str, axes: list[Axis] | None, b: int, length: int) -> int:
        if axes is None:
            return self._kept(("positions", length), lambda: Tokens([str(at) for at in range(length)], name=POSITIONS))
        if len(axes[b]) != length:
            raise ShapeError(
                sentence(
                    "view",
                    f"{len(axes[b]):,} {axes[b].name} for {length:,} {what} of {site!r}",
                    "each position has one",
                    todo="Give the tokens of exactly what the model read, special ones and padding included.",
                )
            )
        return self._kept(f"id {id(axes[b])}", lambda: axes[b])

    def _kept(self, key: Any, make: Any) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.axes)
            self.axes.append(make())
        return self._numbers[key]


def _scored(heads: Sequence[Head], patterns: Mapping[str, Pattern], sites: Sequence[str]) -> tuple[Head, ...]:
    """The heads, refused unless they are those of the sites."""
    there = {(layer, head) for layer, site in enumerate(sites) for head in range(patterns[site].shape[1])}
    given = {(head.layer, head.head) for head in heads}
    if there != given or len(given) != len(heads):
        what = f"scores of {len(heads)} heads for patterns of {len(there)}"
        raise SpecError(sentence("view", what, "each head has one entry, with its layer counted along the sites"))
    return tuple(sorted(heads, key=lambda head: (head.layer, head.head)))


def _kind(kind: Kind) -> dict[str, Any]:
    return {**kind._asdict(), "colour": COLOURS.get(kind.name), "least": least_of(kind.name)}


def _head(head: Head) -> dict[str, Any]:
    return {
        "layer": head.layer,
        "head": head.head,
        "kind": head.kind,
        "entropy": _number(head.entropy),
        "scores": {kind: _number(score) for kind, score in head.scores.items()},
        "chance": {kind: _number(chance) for kind, chance in head.chance.items()},
        "few": [kind for kind in head.scores if not head.told(kind)],
    }


def _number(value: float) -> float | None:
    """Four decimals; JSON has no NaN, so that is null."""
    return round(value, 4) if math.isfinite(value) else None
