"""Annotated texts, read from files into one form: passages of words, and links from one word to those it belongs to.

Three kinds of file are read: dependencies from CoNLL-U, coreference from CorefUD's ``Entity=`` in the same files, and
JSON Lines of (text, from, to, relation) for any other relation. Spans are characters, half open, of the passage's text.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from headwise.errors import SpecError, sentence
from headwise.heads.prose import text_in

__all__ = ["Link", "Passage", "Span", "read_passages", "words_of"]


class Span(NamedTuple):
    """Characters ``start`` to ``stop`` of a text, half open."""

    start: int
    stop: int


@dataclass(frozen=True)
class Link:
    """One question to a head: a word, and the words that would be a right answer.

    Links of one relation from one source are one question: any of their targets is right.

    Attributes:
        relation: its name.
        source: where the question is asked.
        targets: any of them is right.
        candidates: what may be answered; None = every word but the source.
        guesses: answers of baselines by name, None where one has no answer; empty = the baseline is a fixed offset.
        where: for messages.
    """

    relation: str
    source: Span
    targets: tuple[Span, ...]
    candidates: tuple[Span, ...] | None = None
    guesses: tuple[tuple[str, Span | None], ...] = ()
    where: str = ""


@dataclass(frozen=True)
class Passage:
    """A text with its words, and the links between them.

    Attributes:
        name: for messages, ``sentence 'weblog-7' of dev.conllu``.
        text: as the model reads it.
        words: spans in order; they do not overlap, and no two words of one surface form are told apart.
        links: sources and targets are unions of words.
        may_be_cut: a document, of which a beginning will do.
        asker: the text that the sources lie in and its words, where it is another one: that of a decoder.
    """

    name: str
    text: str
    words: tuple[Span, ...]
    links: tuple[Link, ...]
    may_be_cut: bool = False
    asker: tuple[str, tuple[Span, ...]] | None = None

    def up_to(self, words: int) -> Passage:
        """The beginning of a document; links look backward, so those whose source is left are whole."""
        kept = self.words[:words]
        end = kept[-1].stop if kept else 0
        links = tuple(link for link in self.links if link.source.stop <= end)
        return replace(self, text=self.text[:end], words=kept, links=links)


def read_passages(path: str | os.PathLike[str]) -> list[Passage]:
    """Reads an annotated file by its suffix: ``.conllu`` or ``.jsonl``.

    A CoNLL-U file gives a passage a sentence, with its dependencies, and one a document that has coreferent mentions.

    Args:
        path: the file, UTF-8.

    Returns:
        The passages that hold links; none where a file has only sentences of one word.

    Raises:
        SpecError: a file that cannot be read, is empty or of no known kind, or says what cannot be meant, by sentence
            or line.
        UnavailableError: the package ``conllu`` is missing.

    Example:
        >>> import tempfile, pathlib
        >>> from headwise.heads.annotations import read_passages
        >>> file = pathlib.Path(tempfile.mkdtemp(), "time.jsonl")
        >>> line = '{"text": "She ate, then slept.", "from": [14, 19], "to": [4, 7], "relation": "after"}'
        >>> _ = file.write_text(line)
        >>> (passage,) = read_passages(file)
        >>> [passage.text[start:stop] for start, stop in passage.words]
        ['She', 'ate', ',', 'then', 'slept', '.']
        >>> passage.links[0].relation
        'after'
    """
    path = Path(path)
    if path.suffix in (".conllu", ".conll-u"):
        from headwise.heads.treebanks import read_conllu

        return read_conllu(path, text_in("relation_scores", path))
    if path.suffix in (".jsonl", ".ndjson"):
        return _read_lines(path, text_in("relation_scores", path))
    rule = "CoNLL-U ends in .conllu, JSON Lines in .jsonl"
    raise SpecError(sentence("relation_scores", f"{path} is of no kind that is read", rule))


def words_of(text: str, borders: Sequence[int] = ()) -> tuple[Span, ...]:
    """Words of a plain text: what spaces part, punctuation at its ends on its own, cut at borders besides.

    Args:
        text: any text.
        borders: places where a word ends for certain, as the ends of spans; they stand in for spaces in scripts that
            write none.

    Example:
        >>> from headwise.heads.annotations import words_of
        >>> [text[a:b] for text in ["(It's 3.5.)"] for a, b in words_of(text)]
        ['(', "It's", '3.5', '.', ')']
    """
    found: list[Span] = []
    for match in re.finditer(r"\S+", text):
        start, stop = match.span()
        ahead = next((at for at in range(start, stop) if not _is_sign(text[at])), stop)
        behind = next((at for at in range(stop, ahead, -1) if not _is_sign(text[at - 1])), ahead)
        edges = {*range(start, ahead + 1), *range(behind, stop + 1), *(at for at in borders if start < at < stop)}
        ends = sorted(edges)
        found += [Span(a, b) for a, b in pairwise(ends)]
    return tuple(found)


def _is_sign(letter: str) -> bool:
    return unicodedata.category(letter)[0] in "PS"


def _read_lines(path: Path, text: str) -> list[Passage]:
    """JSON Lines; lines that share their texts become one passage, so that one forward serves them all."""
    shared: dict[tuple[str, str | None], list[Link]] = {}
    for number, line in enumerate(re.split(r"\r?\n", text), 1):
        if line.strip():
            where = f"line {number} of {path}"
            key, link = _read_line(line, where)
            shared.setdefault(key, []).append(link)
    if not shared:
        raise SpecError(sentence("relation_scores", f"{path} is empty", "a line of it says a relation"))
    passages = []
    for (read, asked), links in shared.items():
        ends = [edge for link in links for target in link.targets for edge in target]
        starts = [edge for link in links for edge in link.source]
        asker = None if asked is None else (asked, words_of(asked, starts))
        words = words_of(read, ends if asker else [*starts, *ends])
        passages.append(Passage(f"the text of {links[0].where}", read, words, tuple(links), asker=asker))
    return passages


def _read_line(line: str, where: str) -> tuple[tuple[str, str | None], Link]:
    try:
        fields = json.loads(line)
    except json.JSONDecodeError as cause:
        raise _wrong(where, f"is no JSON ({cause.msg} at column {cause.colno})") from cause
    if not isinstance(fields, Mapping):
        raise _wrong(where, f"is a {type(fields).__name__}")
    read, asked = _string(fields, "text", where), None
    if fields.get("target_text") is not None:
        asked = _string(fields, "target_text", where)
    relation = _string(fields, "relation", where)
    source = _span(fields, "from", read if asked is None else asked, where)
    target = _span(fields, "to", read, where)
    if asked is None and source.start < target.stop and target.start < source.stop:
        raise _wrong(where, f"has spans that overlap, from {list(source)} and to {list(target)}")
    return (read, asked), Link(relation, source, (target,), where=where)


def _string(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise _wrong(where, f'has no "{name}"' if value is None else f'has {value!r} as its "{name}"')
    return value


def _span(fields: Mapping[str, Any], name: str, text: str, where: str) -> Span:
    """The span of one field, without the blanks at its ends."""
    value = fields.get(name)
    whole = isinstance(value, list) and len(value) == 2 and all(type(at) is int for at in value)
    if not whole or not 0 <= value[0] < value[1] <= len(text):  # type: ignore[index]
        raise _wrong(where, f'has {json.dumps(value)} as its "{name}", over {len(text)} characters')
    start, stop = value  # type: ignore[misc]
    held = text[start:stop]
    if not held.strip():
        raise _wrong(where, f'has nothing but blanks in its "{name}", {value}')
    return Span(start + len(held) - len(held.lstrip()), stop - len(held) + len(held.rstrip()))


def _wrong(where: str, what: str) -> SpecError:
    rule = 'a line is {"text": ..., "from": [start, stop], "to": [start, stop], "relation": ...}, spans half open'
    return SpecError(sentence("relation_scores", f"{where} {what}", rule))
