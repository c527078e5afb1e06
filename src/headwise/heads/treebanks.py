"""CoNLL-U and CorefUD: sentences with dependencies, documents with coreferent mentions.

Attention knows tokens of a text, so a word is what stands there: the words of a multiword token (``1-2``) are one, and
empty nodes (``8.1``), which stand nowhere, are none.
"""

from __future__ import annotations

import importlib
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headwise.errors import SpecError, UnavailableError, sentence
from headwise.heads.annotations import Link, Passage, Span

__all__ = ["ALL", "COREFERENCE", "INVERSE", "read_conllu"]

ALL = "all"  #: the relation that every dependency counts under besides its own
INVERSE = "<-"  #: behind a relation's name: asked from the head to its dependents
COREFERENCE = "coref"  #: from a mention to the earlier ones of its entity

_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_BRACKET = re.compile(r"\((?P<opened>[^()]*)(?P<single>\)?)|(?P<closed>[^()]+)\)")
_PART = re.compile(r"(?P<entity>.*)\[(?P<part>\d+)/(?P<of>\d+)\]")

Number = int | tuple[int, int]  # of a word, or of an empty node: (8, 1) is 8.1


@dataclass
class _Sentence:
    """One sentence of a file, its words laid into its text."""

    name: str
    text: str
    spans: dict[Number, Span]  # words of a multiword token share theirs; empty nodes have none
    heads: dict[Number, int | None]
    relations: dict[Number, str]
    entities: dict[Number, str]  # ``Entity=`` of words and empty nodes
    nodes: list[Number]
    closes_up: bool  # no space behind it

    @property
    def words(self) -> list[Span]:
        """What stands in the text, in order."""
        return list(dict.fromkeys(self.spans.values()))


@dataclass
class _Mention:
    """One mention: the nodes of its parts, and which of them is said to be its head."""

    entity: str
    head: int | None
    parts: int
    nodes: list[tuple[int, Number]] = field(default_factory=list)  # (sentence, node)
    seen: int = 1


def read_conllu(path: Path, text: str) -> list[Passage]:
    """Sentences with dependencies, and documents with coreference.

    Args:
        path: for messages.
        text: what the file holds.

    Returns:
        A passage for each sentence that has a dependency and each document that has coreferent mentions.
    """
    passages: list[Passage] = []
    document: list[_Sentence] = []
    order: Sequence[str] | None = None
    name, documents = "", 0
    for number, tokens in enumerate(_parsed(path, text), 1):
        found = tokens.metadata
        if document and ("newdoc" in found or "newdoc id" in found):
            passages += _coreference(name, document, order)
            document = []
        if not document:
            documents += 1
            name = f"document {found.get('newdoc id') or documents!r} of {path}"
        if "global.Entity" in found:
            order = found["global.Entity"].split("-")
        who = found.get("sent_id")
        laid = _laid(f"sentence {number if who is None else repr(who)} of {path}", tokens)
        document.append(laid)
        links = tuple(_dependencies(laid))
        if links:
            passages.append(Passage(laid.name, laid.text, tuple(laid.words), links))
    if not document:
        raise SpecError(sentence("relation_scores", f"{path} holds no sentence", "a sentence is a block of rows"))
    return passages + _coreference(name, document, order)


def _parsed(path: Path, text: str) -> Iterator[Any]:
    try:
        conllu = importlib.import_module("conllu")
    except ImportError as cause:
        raise UnavailableError(
            sentence(
                "relation_scores",
                f"conllu cannot be imported ({cause})",
                "CoNLL-U files are read with it",
                todo='Install it: pip install "conllu>=6".',
            )
        ) from cause
    done = 0
    try:
        for tokens in conllu.parse_incr(io.StringIO(text, newline=None)):
            done += 1
            yield tokens
    except conllu.exceptions.ParseException as cause:
        raise SpecError(
            sentence("relation_scores", f"sentence {done + 1} of {path} is no CoNLL-U", str(cause).strip())
        ) from cause


def _laid(name: str, tokens: Any) -> _Sentence:
    """Finds the words of a sentence in its text, one behind the other."""
    pieces: list[tuple[str, list[Number], bool]] = []  # form, the words it stands for, whether a space follows
    covered = 0  # the last word of the multiword token before
    made = _Sentence(name, "", {}, {}, {}, {}, [], False)
    for token in tokens:
        if len(token) != len(_COLUMNS) or not token["form"]:
            what = (
                f"{name} has a row of {len(token)} columns" if token.get("form") else f"{name} has a row without a form"
            )
            raise SpecError(sentence("relation_scores", what, f"the columns are {', '.join(_COLUMNS)}"))
        node, misc = token["id"], token["misc"] or {}
        spaced = misc.get("SpaceAfter") != "No"
        if isinstance(node, tuple) and node[1] == "-":
            pieces.append((token["form"], list(range(node[0], node[2] + 1)), spaced))
            covered = node[2]
            continue
        number: Number = (node[0], node[2]) if isinstance(node, tuple) else node
        made.nodes.append(number)
        if misc.get("Entity"):
            made.entities[number] = misc["Entity"]
        if isinstance(number, tuple):
            continue
        if number > covered:
            pieces.append((token["form"], [number], spaced))
        made.heads[number], made.relations[number] = token["head"], token["deprel"] or "_"
    _check_numbers(made, [number for _, numbers, _ in pieces for number in numbers])
    made.text = tokens.metadata.get("text") or "".join(form + " " * spaced for form, _, spaced in pieces).rstrip()
    made.spans = _found(name, made.text, pieces)
    made.closes_up = bool(pieces) and not pieces[-1][2]
    return made


def _check_numbers(made: _Sentence, covered: Sequence[Number]) -> None:
    """Words are numbered 1 to n, are in the rows for what they stand in once, and so are their heads."""
    rows = [node for node in made.nodes if isinstance(node, int)]
    count = len(rows)
    if rows != list(range(1, count + 1)) or list(covered) != rows:
        what = f"{made.name} has its words numbered {', '.join(map(str, rows))}"
        raise SpecError(sentence("relation_scores", what, "words are numbered from 1 on, multiword tokens cover them"))
    for number, head in made.heads.items():
        if head and head not in made.heads:
            what = f"word {number} of {made.name} has word {head} as its head"
            raise SpecError(sentence("relation_scores", what, f"its words are 1 to {count}"))


def _found(name: str, text: str, pieces: Sequence[tuple[str, list[Number], bool]]) -> dict[Number, Span]:
    spans: dict[Number, Span] = {}
    at = 0
    for form, numbers, _ in pieces:
        while at < len(text) and text[at].isspace():
            at += 1
        if not text.startswith(form, at):
            raise SpecError(
                sentence(
                    "relation_scores",
                    f"word {numbers[0]} of {name}, {form!r}, is not in its text, where {text[at : at + 20]!r} follows",
                    "the forms of a sentence spell its `# text =`",
                )
            )
        spans |= dict.fromkeys(numbers, Span(at, at + len(form)))
        at += len(form)
    if text[at:].strip():
        what = f"the text of {name} goes on with {text[at : at + 20].strip()!r} behind its last word"
        raise SpecError(sentence("relation_scores", what, "the forms of a sentence spell its `# text =`"))
    return spans


def _dependencies(laid: _Sentence) -> Iterator[Link]:
    """Each dependent asks for its head, each head for its dependents; root has no head."""
    for number, head in laid.heads.items():
        if head and laid.spans[head] != laid.spans[number]:
            one, other = laid.spans[number], laid.spans[head]
            for relation in (laid.relations[number], ALL):
                yield Link(relation, one, (other,), where=laid.name)
                yield Link(relation + INVERSE, other, (one,), where=laid.name)


def _coreference(name: str, document: Sequence[_Sentence], order: Sequence[str] | None) -> list[Passage]:
    """The document as one passage, each mention asking for an earlier one of its entity."""
    if not any(laid.entities for laid in document):
        return []
    if order is None:
        raise SpecError(
            sentence(
                "relation_scores",
                f"{name} has Entity= without a declaration",
                "a line such as `# global.Entity = eid-etype-head-other` says what its fields are",
            )
        )
    text, words, starts = "", [], []
    for laid in document:
        starts.append(len(text))
        words += [Span(len(text) + a, len(text) + b) for a, b in laid.words]
        text += laid.text + " " * (not laid.closes_up)
    placed = sorted(
        {
            (Span(starts[at] + span.start, starts[at] + span.stop), mention.entity)
            for mention in _mentions(document, order)
            for at, span in [_head_of(mention, document)]
            if span is not None
        }
    )
    links = tuple(_antecedents(placed, text, name))
    return [Passage(name, text.rstrip(), tuple(words), links, may_be_cut=True)] if links else []


def _antecedents(placed: Sequence[tuple[Span, str]], text: str, name: str) -> Iterator[Link]:
    for span, entity in placed:
        earlier = [(other, whose) for other, whose in placed if other.stop <= span.start]
        targets = tuple(other for other, whose in earlier if whose == entity)
        if targets:
            candidates = tuple(dict.fromkeys(other for other, _ in earlier))
            form = text[slice(*span)].casefold()
            alike = [other for other in candidates if text[slice(*other)].casefold() == form]
            guesses = (("nearest", candidates[-1]), ("head match", alike[-1] if alike else None))
            yield Link(COREFERENCE, span, targets, candidates, guesses, where=name)


def _head_of(mention: _Mention, document: Sequence[_Sentence]) -> tuple[int, Span | None]:
    """The head that is given; else the word whose own head lies outside; None where that is an empty node."""
    if mention.head is not None and 1 <= mention.head <= len(mention.nodes):
        at, node = mention.nodes[mention.head - 1]
        return at, document[at].spans.get(node)
    inside = set(mention.nodes)
    words = [(at, node) for at, node in mention.nodes if node in document[at].spans]
    tops = [(at, node) for at, node in words if (at, document[at].heads[node]) not in inside]
    known = all(document[at].heads[node] is not None for at, node in words)
    if not words:
        return 0, None
    at, node = tops[0] if known and tops else words[-1]
    return at, document[at].spans[node]


def _mentions(document: Sequence[_Sentence], order: Sequence[str]) -> Iterator[_Mention]:
    """Reads the brackets of a document; a mention ends in the sentence where it began or in a later one."""
    opened: dict[str, list[_Mention]] = {}
    waiting: dict[str, _Mention] = {}  # discontinuous mentions whose next part is to come
    for at, laid in enumerate(document):
        for node in laid.nodes:
            closing: list[_Mention] = []
            for kind, label in _brackets(laid.entities.get(node, ""), laid.name):
                key = label.split("-")[0] if kind != "close" else label
                if kind == "close":
                    if not opened.get(key):
                        what = f"{laid.name} closes {label!r}, which is not open"
                        raise SpecError(sentence("relation_scores", what, "brackets of Entity= come in pairs"))
                    closing.append(opened[key].pop())
                    continue
                mention = _begun(label, order, waiting, laid.name)
                opened.setdefault(key, []).append(mention)
                if kind == "single":
                    closing.append(opened[key].pop())
                    mention.nodes.append((at, node))
            now = [mention for several in opened.values() for mention in several]
            for mention in [*now, *(m for m in closing if not m.nodes or m.nodes[-1] != (at, node))]:
                mention.nodes.append((at, node))
            for mention in closing:
                if mention.seen == mention.parts:
                    yield mention
    left = [key for key, several in opened.items() if several]
    if left:
        what = f"{document[-1].name} ends its document with {left[0]!r} open"
        raise SpecError(sentence("relation_scores", what, "brackets of Entity= come in pairs"))


def _brackets(value: str, name: str) -> Iterator[tuple[str, str]]:
    """``e1)(e2-place-1-(e3-person-1-)`` as close e1, open e2-place-1-, single e3-person-1-."""
    at = 0
    for match in _BRACKET.finditer(value):
        if match.start() != at:
            break
        at = match.end()
        if match["closed"]:
            yield "close", match["closed"]
        else:
            yield ("single" if match["single"] else "open"), match["opened"]
    if at != len(value):
        what = f"{name} has Entity={value}, which cannot be read at {value[at:]!r}"
        raise SpecError(sentence("relation_scores", what, "it is a row of (opened, closed) and (both)"))


def _begun(label: str, order: Sequence[str], waiting: dict[str, _Mention], name: str) -> _Mention:
    """A new mention, or the one whose next part this is."""
    fields = dict(zip(order, label.split("-"), strict=False))
    entity = fields.get("eid", fields.get("GRP", ""))
    if not entity:
        what = f"{name} opens ({label}, which names no entity"
        raise SpecError(sentence("relation_scores", what, f"the file declares {'-'.join(order)}"))
    number = re.match(r"\d+", fields.get("head", fields.get("minspan", "")))
    head = int(number[0]) if number else None
    part = _PART.fullmatch(entity)
    if part is None:
        return _Mention(entity, head, 1)
    entity = part["entity"]
    if int(part["part"]) == 1:
        waiting[entity] = _Mention(entity, head, int(part["of"]))
    elif entity not in waiting or waiting[entity].seen != int(part["part"]) - 1:
        what = f"{name} opens part {part['part']} of {entity!r} without the part before"
        raise SpecError(sentence("relation_scores", what, "parts of a mention come in order"))
    else:
        waiting[entity].seen += 1
    return waiting[entity]
