"""One self-contained HTML page about every head of a model: grid, pooled maps, top keys on the text, distances.

The page holds no T x S pattern. With N heads, maps of ``side x side`` cells and k top keys for Q queries it takes

    N * (side^2 + (2 or 3) * k * Q + 4 * distances) * 4/3 (base64)  +  N * 0.3 kB  +  the text  +  30 kB

and ``side`` and ``Q`` shrink until the first two terms stay below ``MAP_BYTES`` and ``TOP_BYTES``: the size is bounded
for any number of heads and grows with T only by the text itself.
"""

from __future__ import annotations

import base64
import contextlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import IO, Any

import torch
from torch import Tensor

from headwise.errors import ShapeError, SpecError, sentence
from headwise.heads import KINDS, MIXED, Head, Kind, Reading
from headwise.heads.scores import FEWEST
from headwise.observers import Map, Observer, Offsets, TopKeys

__all__ = ["COLOURS", "MAP_BYTES", "TOO_FEW", "TOP_BYTES", "Layout", "layout", "page", "pieces", "replacing"]

MAP_BYTES = 1_200_000  #: all pooled maps together, before base64.
TOP_BYTES = 1_300_000  #: all top keys together, before base64.

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


@dataclass(frozen=True)
class Layout:
    """What a page keeps of each head.

    Attributes:
        tokens: T.
        side: height and width of the pooled maps.
        k: top keys of each query.
        queries: for how many queries, the last ones, top keys are kept.
        limit: the largest distance behind the query in the profile.
        after: the largest distance ahead of it.
    """

    tokens: int
    side: int
    k: int
    queries: int
    limit: int
    after: int

    def observers(self) -> list[Observer]:
        """The questions whose answers the page shows."""
        return [
            Map(self.side, self.side, name="page:map"),
            TopKeys(self.k, name="page:top_keys"),
            Offsets(self.limit, self.after, name="page:offsets"),
        ]


def layout(tokens: int, heads: int) -> Layout:
    """Decides what a page keeps, so that its size is bounded whatever the model and the text.

    Args:
        tokens: T.
        heads: number of heads of the whole model.

    Returns:
        The layout; ask the model its ``observers()``.

    Example:
        >>> from headwise.viewer import layout
        >>> layout(256, 270)
        Layout(tokens=256, side=64, k=6, queries=256, limit=48, after=48)
        >>> layout(8192, 1024)
        Layout(tokens=8192, side=34, k=6, queries=70, limit=48, after=48)
    """
    k = 6
    side = int(min(64, tokens, max(8, (MAP_BYTES / heads) ** 0.5)))
    queries = int(min(tokens, max(1, TOP_BYTES // (heads * k * (1 + _width(tokens))))))
    near = min(48, tokens - 1)
    return Layout(tokens, side, k, queries, near, near)


def _width(tokens: int) -> int:
    """Bytes of one key's index."""
    return 1 if tokens <= 2**8 else 2 if tokens <= 2**16 else 4


def page(
    reading: Reading,
    shape: Layout,
    tokens: Sequence[str],
    *,
    title: str,
    subtitle: str = "",
    facts: Sequence[tuple[str, str]] = (),
    special: Sequence[int] = (),
) -> str:
    """Writes the page.

    Args:
        reading: of a text of T tokens, batch 1, taken with ``observe=shape.observers()``.
        shape: the layout.
        tokens: the text of each token, T strings; in a row they are the text. They are shown as they are, whatever
            they hold: no text becomes markup.
        title: of the page.
        subtitle: the line below it.
        facts: (label, value) pairs for its head.
        special: indices of tokens that are no text, such as [CLS].

    Returns:
        HTML that loads nothing from anywhere and opens from a file.

    Raises:
        ShapeError: the number of tokens is not that of the reading.
        SpecError: the reading holds NaN or inf, as of a model whose weights or activations do.

    Example:
        >>> import torch
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> from headwise.heads import score_heads
        >>> from headwise.viewer import layout, page
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> shape = layout(tokens=6, heads=4)
        >>> reading = score_heads(model, torch.tensor([[3, 4, 5, 3, 4, 6]]), observe=shape.observers())
        >>> html = page(reading, shape, ["a", " b", " c", " a", " b", "<"], title="four heads")
        >>> "http://" in html or "https://" in html
        False
    """
    if len(tokens) != shape.tokens:
        raise ShapeError(sentence("page", f"{len(tokens)} tokens, the layout has {shape.tokens}", "both are T"))
    answers = [reading.seen[site] for site in reading.seen.sites]
    _refuse_unless_finite(reading.heads, answers)
    top, queries = _top(answers, shape)
    opened = _opening(reading.heads)
    data = {
        "title": title,
        "subtitle": subtitle,
        "facts": [list(fact) for fact in facts],
        "tokens": [_whole(token) for token in tokens],
        "special": list(special),
        "kinds": [_kind(kind) for kind in KINDS.values()],
        "mixed": _kind(MIXED),
        "too_few": TOO_FEW,
        "heads": [_head(head) for head in reading.heads],
        "open": opened,
        "query": queries[opened],
        "map": _maps(answers, shape),
        "top": top,
        "offsets": _offsets(answers, shape, causal=reading.causal),
    }
    parts = {"style": _asset("page.css"), "script": _asset("page.js"), "data": _json(data)}
    return _filled(_asset("page.html"), parts)


def _refuse_unless_finite(heads: Sequence[Head], answers: Sequence[Mapping[str, Any]]) -> None:
    """Raises SpecError where a pattern holds NaN: a grid of heads says nothing then."""
    maps = torch.cat([answer["page:map"][0].isfinite().all(-1).all(-1) for answer in answers]).tolist()
    broken = [
        head
        for head, finite in zip(heads, maps, strict=True)
        if not (finite and all(map(math.isfinite, (head.entropy, *head.scores.values(), *head.chance.values()))))
    ]
    if broken:
        raise SpecError(
            sentence(
                "page",
                f"the patterns of {len(broken)} of {len(heads)} heads hold NaN, first that of layer {broken[0].layer}, "
                f"head {broken[0].head}",
                "a head is shown by its probabilities",
                todo="The weights hold NaN, or a narrow dtype overflows: read the model in float32.",
            )
        )


def _asset(name: str) -> str:
    return files("headwise.viewer").joinpath("assets", name).read_text(encoding="utf-8")


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """The template with its places filled, each once: what goes in is never searched for places again."""
    out, rest = [], template
    for name in ("style", "data", "script"):
        before, _, rest = rest.partition("{{" + name + "}}")
        out += [before, parts[name]]
    return "".join([*out, rest])


def _json(data: Any) -> str:
    """JSON in which no character can end a script element, open a comment or be taken for markup."""
    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _whole(token: str) -> str:
    """A token without lone surrogates, which no file can hold."""
    return token.encode("utf-8", "replace").decode("utf-8")


def _kind(kind: Kind) -> dict[str, Any]:
    return {**kind._asdict(), "colour": COLOURS.get(kind.name)}


def _head(head: Head) -> dict[str, Any]:
    return {
        "layer": head.layer,
        "head": head.head,
        "kind": head.kind,
        "entropy": round(head.entropy, 4),
        "scores": {kind: round(score, 4) for kind, score in head.scores.items()},
        "chance": {kind: round(chance, 4) for kind, chance in head.chance.items()},
        "few": [kind for kind in head.scores if not head.told(kind)],
    }


def _opening(heads: Sequence[Head]) -> int:
    """The head that the page opens with: the one that clears a margin by the largest factor, sinks left aside.

    A score that too few tokens could show opens no page.
    """

    def telling(n: int) -> float:
        head = heads[n]
        return max(
            head.lift(kind) / KINDS[kind].margin if head.told(kind) else 0.0
            for kind in ("induction", "duplicate_token", "previous_token")
        )

    return max(range(len(heads)), key=telling)


def _text(values: Tensor) -> str:
    """Base64 of a tensor's bytes, little endian."""
    flat = values.contiguous().cpu().numpy()
    return base64.b64encode(flat.astype(flat.dtype.newbyteorder("<")).tobytes()).decode("ascii")


def _coded(p: Tensor) -> Tensor:
    """uint8 codes of numbers from 0 to 1: ``p ~ (code / 255)^2``.

    On a square-root scale small probabilities keep their digits: the error is at most ``sqrt(p) / 255``, 0.004 near 1.
    """
    return (p.clamp(0, 1).sqrt() * 255).round().to(torch.uint8)


def _maps(answers: Sequence[Mapping[str, Any]], shape: Layout) -> dict[str, Any]:
    """Pooled maps of all heads: value = scale of its head * (code / 255)^2."""
    codes, scales = [], []
    for answer in answers:
        maps = answer["page:map"][0].float()
        largest = maps.amax((1, 2))
        codes.append(_coded(maps / largest.clamp(min=1e-30)[:, None, None]))
        scales += [float(f"{value:.5g}") for value in largest.tolist()]
    return {"height": shape.side, "width": shape.side, "scales": scales, "codes": _text(torch.cat(codes))}


def _top(answers: Sequence[Mapping[str, Any]], shape: Layout) -> tuple[dict[str, Any], list[int]]:
    """Top keys of the last queries, and for each head the query that attends most to one key, the first left aside."""
    first = shape.tokens - shape.queries
    width = _width(shape.tokens)
    kind = {1: torch.uint8, 2: torch.uint16, 4: torch.int32}[width]
    codes, keys, telling = [], [], []
    for answer in answers:
        values, indices = (part[0, :, first:] for part in answer["page:top_keys"])
        codes.append(_coded(values))
        keys.append(indices.clamp(min=0).to(kind))  # a key that is not there has code 0
        elsewhere = torch.where(indices > 0, values, 0.0).amax(-1)
        telling += [first + int(query) for query in elsewhere.argmax(-1)]
    found = {
        "k": shape.k,
        "first": first,
        "width": width,
        "codes": _text(torch.cat(codes)),
        "keys": _text(torch.cat(keys)),
    }
    return found, telling


def _offsets(answers: Sequence[Mapping[str, Any]], shape: Layout, *, causal: bool) -> dict[str, Any]:
    """Distance profiles of all heads; entry ``after + d`` is distance d, none ahead where no query sees ahead."""
    skipped = shape.after if causal else 0
    values = torch.cat([answer["page:offsets"][0, :, skipped:].float() for answer in answers])
    return {"limit": shape.limit, "after": shape.after - skipped, "count": values.shape[1], "values": _text(values)}


def pieces(tokenizer: Any, text: str, ids: Sequence[int]) -> tuple[list[str], list[int]]:
    """The stretch of the text that each token stands for.

    Args:
        tokenizer: of transformers, the one that made ``ids`` of ``text``.
        text: the text.
        ids: the token ids, or the first of them.

    Returns:
        One string a token, in a row the text as far as the tokens go (of several tokens that share a character the
        first has it), and the indices of tokens that stand for no text, such as [CLS], by their own name.
    """
    fast = bool(getattr(tokenizer, "is_fast", False))
    made = tokenizer(
        text, truncation=True, max_length=len(ids), return_special_tokens_mask=True, return_offsets_mapping=fast
    )
    names = [str(name) for name in tokenizer.convert_ids_to_tokens(list(ids))]
    special = [i for i, flag in enumerate(made["special_tokens_mask"][: len(ids)]) if flag]
    if not fast:
        return [name.replace("\u2581", " ").replace("\u0120", " ") for name in names], special
    found: list[str] = []
    done = 0
    for i, (_, stop) in enumerate(made["offset_mapping"][: len(ids)]):
        # What lies between two tokens (a space that a BERT drops) goes with the second.
        found.append(names[i] if i in special else text[done : max(done, stop)])
        done = max(done, stop) if i not in special else done
    return found, special


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[str]]:
    """A file that appears whole or not at all: written beside its place, moved there at the end.

    Args:
        path: where it shall be; an older file there stays until the new one is whole.

    Yields:
        A text file, UTF-8.

    Raises:
        SpecError: the place cannot be written; raised on entering, before any work is lost.

    Example:
        >>> import tempfile, pathlib
        >>> from headwise.viewer import replacing
        >>> place = pathlib.Path(tempfile.mkdtemp()) / "a.txt"
        >>> with replacing(place) as file:
        ...     _ = file.write("whole")
        >>> place.read_text()
        'whole'
    """
    place = Path(path)
    try:
        if place.exists() and not place.is_file():  # moving a file onto /dev/null would take the device away
            raise OSError(0, "it is a folder" if place.is_dir() else "it is no ordinary file")
        beside = place.with_name(f".{place.name}.{os.getpid()}.part")
        file = beside.open("x", encoding="utf-8", newline="\n")
    except OSError as cause:
        why = cause.strerror or str(cause)
        raise SpecError(
            sentence("page", f"cannot write {place}", why, todo="Name a file in a folder you may write to.")
        ) from cause
    try:
        with file:
            yield file
        beside.replace(place)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
