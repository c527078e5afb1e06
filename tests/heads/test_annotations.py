"""Annotated files as passages: words where they stand, brackets of mentions, and what is refused by name."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from headwise.errors import SpecError, UnavailableError
from headwise.heads.annotations import Passage, Span, read_passages, words_of

TREE = """\
# newdoc id = farm
# sent_id = s-1
# text = The farmer didn't sell it to the  co-op.
1	The	the	DET	_	_	2	det	_	_
2	farmer	farmer	NOUN	_	_	5	nsubj	_	_
3-4	didn't	_	_	_	_	_	_	_	_
3	did	do	AUX	_	_	5	aux	_	_
4	n't	not	PART	_	_	5	advmod	_	_
5	sell	sell	VERB	_	_	0	root	_	_
5.1	gladly	gladly	ADV	_	_	_	_	5:advmod	_
6	it	it	PRON	_	_	5	obj	_	_
7	to	to	ADP	_	_	9	case	_	_
8	the	the	DET	_	_	9	det	_	_
9	co-op	co-op	NOUN	_	_	5	obl	_	SpaceAfter=No
10	.	.	PUNCT	_	_	5	punct	_	_

"""


def written(folder: Path, text: str, name: str = "a.conllu") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def told(passage: Passage) -> list[tuple[str, str, list[str]]]:
    """Links in words."""
    return [
        (link.relation, passage.text[slice(*link.source)], [passage.text[slice(*target)] for target in link.targets])
        for link in passage.links
    ]


def rows(*words: tuple[str, str]) -> str:
    """A sentence without a tree: forms with what stands in MISC."""
    lines = [f"{n}\t{form}\t_\t_\t_\t_\t_\t_\t_\t{misc or '_'}" for n, (form, misc) in enumerate(words, 1)]
    return "\n".join(lines) + "\n\n"


DECLARED = "# newdoc id = d\n# global.Entity = eid-etype-head-other\n"


def test_words_are_what_stands_in_the_text(tmp_path: Path) -> None:
    (passage,) = read_passages(written(tmp_path, TREE))
    assert passage.text == "The farmer didn't sell it to the  co-op."
    words = [passage.text[slice(*word)] for word in passage.words]
    assert words == ["The", "farmer", "didn't", "sell", "it", "to", "the", "co-op", "."]
    assert passage.name == f"sentence 's-1' of {tmp_path / 'a.conllu'}"


def test_both_directions_and_no_root(tmp_path: Path) -> None:
    links = told(read_passages(written(tmp_path, TREE))[0])
    assert ("nsubj", "farmer", ["sell"]) in links
    assert ("nsubj<-", "sell", ["farmer"]) in links
    assert ("aux", "didn't", ["sell"]) in links
    assert ("all", "co-op", ["sell"]) in links
    assert not any(relation.startswith("root") for relation, _, _ in links)
    assert sum(relation == "all" for relation, _, _ in links) == 9
    assert len(links) == 4 * 9


def test_pairs_inside_of_one_surface_word_are_not_asked(tmp_path: Path) -> None:
    text = TREE.replace(
        "4	n't	not	PART	_	_	5	advmod", "4	n't	not	PART	_	_	3	advmod"
    )
    assert not any(relation == "advmod" for relation, _, _ in told(read_passages(written(tmp_path, text))[0]))


def test_a_text_that_is_not_given_is_spelled_by_the_forms(tmp_path: Path) -> None:
    text = "\n".join(line for line in TREE.split("\n") if not line.startswith("# text"))
    (passage,) = read_passages(written(tmp_path, text.replace("\n", "\r\n")))
    assert passage.text == "The farmer didn't sell it to the co-op."
    assert [word.start for word in passage.words][:4] == [0, 4, 11, 18]


def coreference(folder: Path, text: str) -> list[tuple[str, list[str], list[str]]]:
    """Source, targets and candidates in words, of the one document."""
    (passage,) = (passage for passage in read_passages(written(folder, text)) if passage.may_be_cut)

    def say(spans: tuple[Span, ...] | None) -> list[str]:
        return [passage.text[slice(*span)] for span in spans or ()]

    return [(passage.text[slice(*k.source)], say(k.targets), say(k.candidates)) for k in passage.links]


def test_nested_mentions_and_their_heads(tmp_path: Path) -> None:
    text = DECLARED + rows(
        ("The", "Entity=(e1-person-2-(e9"), ("king", ""), ("of", ""), ("Spain", "Entity=(e2-place-1-)e9)e1)"),
        ("praised", ""), ("his", "Entity=(e3-thing-2-(e1-person-1-)"), ("land", "Entity=e3)"),
    ) + rows(("It", "Entity=(e2-place-1-)"), ("thanked", ""), ("him", "Entity=(e1-person-1-)"))  # fmt: skip
    assert coreference(tmp_path, text) == [
        ("his", ["king"], ["king", "Spain"]),
        ("It", ["Spain"], ["king", "Spain", "his", "land"]),
        ("him", ["king", "his"], ["king", "Spain", "his", "land", "It"]),
    ]


def test_discontinuous_mentions_are_one_with_one_head(tmp_path: Path) -> None:
    text = DECLARED + rows(
        ("Ann", "Entity=(e1[1/2]-person-3-"), ("or", "Entity=e1[1/2])"), ("rather", ""),
        ("Beth", "Entity=(e1[2/2]-person-3-)"), ("saw", ""),
        ("Carl", "Entity=(e2-person-1-)"), ("and", ""), ("she", "Entity=(e1-person-1-)"),
    )  # fmt: skip
    assert coreference(tmp_path, text) == [("she", ["Beth"], ["Beth", "Carl"])]


def test_a_head_that_is_not_given_is_that_of_the_tree_else_the_last_word(tmp_path: Path) -> None:
    flat = DECLARED + rows(
        ("big", "Entity=(e1-x--"), ("dog", ""), ("here", "Entity=e1)"), ("sees", ""),
        ("a", "Entity=(e2-x--"), ("cat", "Entity=e2)"), ("it", "Entity=(e1-x--)"),
    )  # fmt: skip
    assert coreference(tmp_path, flat) == [("it", ["here"], ["here", "cat"])]
    lines = flat.split("\n")
    tree = [(2, "amod"), (4, "nsubj"), (2, "advmod"), (0, "root"), (6, "det"), (4, "obj"), (4, "x")]
    for n, (head, relation) in enumerate(tree):
        lines[2 + n] = lines[2 + n].replace("_\t_\t_\t_\t_\t_\t_", f"_\t_\t_\t_\t{head}\t{relation}\t_")
    assert coreference(tmp_path, "\n".join(lines)) == [("it", ["dog"], ["dog", "cat"])]


def test_mentions_that_stand_nowhere_are_left_out(tmp_path: Path) -> None:
    sentence = rows(("Ana", "Entity=(e1-x-1-)"), ("dorme", ""), ("e", ""), ("ela", "Entity=(e1-x-1-)"))
    lines = (DECLARED + sentence).split("\n")
    lines.insert(4, "2.1\t_\t_\t_\t_\t_\t_\t_\t_\tEntity=(e1-x-1-)")
    assert coreference(tmp_path, "\n".join(lines)) == [("ela", ["Ana"], ["Ana"])]
    # an empty node counts where the head is told by its place
    lines[4] = "2.1\t_\t_\t_\t_\t_\t_\t_\t_\tEntity=(e2-x-2-"
    lines[5] = lines[5].replace("\t_\t_\t_\t_\t_\t_\t_\t_", "\t_\t_\t_\t_\t_\t_\t_\tEntity=e2)")
    lines.insert(7, "5\teu\t_\t_\t_\t_\t_\t_\t_\tEntity=(e2-x-1-)")
    assert ("eu", ["e"], ["Ana", "e", "ela"]) in coreference(tmp_path, "\n".join(lines))


def test_documents_end_where_a_new_one_begins(tmp_path: Path) -> None:
    one = rows(("Ann", "Entity=(e1-x-1-)"), ("slept", "SpaceAfter=No")) + rows(
        ("she", "Entity=(e1-x-1-)"), ("woke", "")
    )
    passages = read_passages(written(tmp_path, DECLARED + one + "# newdoc\n" + one))
    assert [passage.name.split(" of ")[0] for passage in passages] == ["document 'd'", "document 2"]
    assert [passage.text for passage in passages] == ["Ann sleptshe woke"] * 2
    assert [passage.links[0].guesses for passage in passages] == [(("nearest", Span(0, 3)), ("head match", None))] * 2


def test_nearest_and_head_match_are_guesses(tmp_path: Path) -> None:
    words = [("Dog", "Entity=(e1-x-1-)"), ("cat", "Entity=(e2-x-1-)"), ("dog", "Entity=(e1-x-1-)"), (".", "")]
    passage = next(p for p in read_passages(written(tmp_path, DECLARED + rows(*words))))
    assert passage.links[0].guesses == (("nearest", Span(4, 7)), ("head match", Span(0, 3)))


def test_lines_of_one_text_are_one_passage(tmp_path: Path) -> None:
    text = "Rain fell (heavily), so the match stopped."
    lines = [
        {"text": text, "from": [34, 41], "to": [5, 9], "relation": "cause"},
        {"text": text, "from": [27, 42], "to": [0, 10], "relation": "time"},
        {"text": "他睡了因为他累", "from": [0, 3], "to": [5, 7], "relation": "cause"},
    ]
    path = written(tmp_path, "\n\n".join(json.dumps(line) for line in lines) + "\n", "a.jsonl")
    one, other = read_passages(path)
    assert [one.text[slice(*word)] for word in one.words] == [
        "Rain", "fell", "(", "heavily", ")", ",", "so", "the", "match", "stopped", ".",
    ]  # fmt: skip
    assert told(one) == [("cause", "stopped", ["fell"]), ("time", " match stopped.".strip(), ["Rain fell"])]
    assert [other.text[slice(*word)] for word in other.words] == ["他睡了", "因为", "他累"]
    assert one.name == f"the text of line 1 of {path}"


def test_words_of_a_plain_text() -> None:
    text = '"Don\'t," she said -- 3.5% of it… (x)'
    words = [text[slice(*word)] for word in words_of(text)]
    assert words == ['"', "Don't", ",", '"', "she", "said", "-", "-", "3.5", "%", "of", "it", "…", "(", "x", ")"]
    assert words_of("नमस्ते दुनिया") == (Span(0, 6), Span(7, 13))


ROW = "1\tHe\the\tPRON\t_\t_\t2\tnsubj\t_\t_\n2\truns\trun\tVERB\t_\t_\t0\troot\t_\t_\n\n"
BAD_TREES = {
    "text that differs": ("# sent_id = w9\n# text = She runs\n" + ROW, r"word 1 of sentence 'w9'.*'He'.*'She runs'"),
    "text that goes on": ("# text = He runs fast\n" + ROW, "sentence 1.*'fast'"),
    "too few columns": ("1\tHe\the\n\n", "sentence 1.*3 columns"),
    "spaces for tabs": (ROW + ROW.replace("\t", " "), "sentence 2.*no CoNLL-U"),
    "head that is none": (ROW.replace("\t2\tnsubj", "\tx\tnsubj"), "sentence 1.*'x'"),
    "head outside": (ROW.replace("\t2\tnsubj", "\t7\tnsubj"), "word 1 of sentence 1.*word 7.*1 to 2"),
    "numbers twice": (ROW.replace("2\truns", "1\truns"), "sentence 1.*1, 1"),
    "range too wide": ("1-3\tdu\t_\t_\t_\t_\t_\t_\t_\t_\n" + ROW, "sentence 1.*numbered 1, 2"),
    "no form": (ROW.replace("\tHe\t", "\t\t"), "sentence 1.*without a form"),
    "nothing": ("", "no sentence"),
    "no declaration": (ROW.replace("nsubj\t_\t_", "nsubj\t_\tEntity=(e1-x-1-)"), "without a declaration"),
}
ENTITIES = {
    "closed": ("e1)", "closes 'e1'"),
    "left open": ("(e1-x-1-", "'e1' open"),
    "no brackets": ("e1", "cannot be read at 'e1'"),
    "no name": ("(-x-1-)", "names no entity"),
    "part alone": ("(e1[2/2]-x-1-)", "part 2 of 'e1'"),
}


@pytest.mark.parametrize("case", BAD_TREES)
def test_a_treebank_that_cannot_be_read_is_refused_by_sentence(case: str, tmp_path: Path) -> None:
    text, message = BAD_TREES[case]
    with pytest.raises(SpecError, match=message):
        read_passages(written(tmp_path, text))


@pytest.mark.parametrize("case", ENTITIES)
def test_brackets_that_do_not_pair_are_refused_by_sentence(case: str, tmp_path: Path) -> None:
    entity, message = ENTITIES[case]
    text = DECLARED + "# sent_id = m3\n" + rows(("He", f"Entity={entity}"))
    with pytest.raises(SpecError, match=f"sentence 'm3'.*{message}"):
        read_passages(written(tmp_path, text))


GOOD = {"text": "He ran.", "from": [3, 6], "to": [0, 2], "relation": "agent"}
BAD_LINES: dict[str, tuple[Any, str]] = {
    "no JSON": ("{", "no JSON"),
    "a list": ([1], "is a list"),
    "no text": ({**GOOD, "text": " "}, '"text"'),
    "no relation": ({k: v for k, v in GOOD.items() if k != "relation"}, 'no "relation"'),
    "span outside": ({**GOOD, "to": [0, 99]}, r'\[0, 99\] as its "to", over 7 characters'),
    "span backwards": ({**GOOD, "from": [6, 3]}, r"\[6, 3\]"),
    "span of floats": ({**GOOD, "from": [3.0, 6]}, r"\[3.0, 6\]"),
    "span missing": ({**GOOD, "from": None}, 'null as its "from"'),
    "blanks": ({**GOOD, "to": [2, 3]}, "nothing but blanks"),
    "overlap": ({**GOOD, "to": [0, 4]}, "overlap"),
    "target_text that is none": ({**GOOD, "target_text": 3}, '"target_text"'),
}


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_line_that_cannot_be_meant_is_refused_by_number(case: str, tmp_path: Path) -> None:
    line, message = BAD_LINES[case]
    text = json.dumps(GOOD) + "\n" + (line if isinstance(line, str) else json.dumps(line)) + "\n"
    with pytest.raises(SpecError, match=f"line 2 of .*b.jsonl .*{message}"):
        read_passages(written(tmp_path, text, "b.jsonl"))


def test_files_that_are_none_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"cannot read .*none.conllu"):
        read_passages(tmp_path / "none.conllu")
    with pytest.raises(SpecError, match=r"a.txt is of no kind"):
        read_passages(written(tmp_path, TREE, "a.txt"))
    with pytest.raises(SpecError, match=r"c.jsonl is empty"):
        read_passages(written(tmp_path, "\n", "c.jsonl"))
    (tmp_path / "latin.conllu").write_bytes(b"# text = caf\xe9\n")
    with pytest.raises(SpecError, match=r"no UTF-8.*0xe9 at position 12"):
        read_passages(tmp_path / "latin.conllu")


def test_a_missing_package_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.import_module

    def without(name: str, *more: Any) -> Any:
        if name == "conllu":
            raise ImportError("No module named 'conllu'")
        return real(name, *more)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(UnavailableError, match='pip install "conllu>=6"'):
        read_passages(written(tmp_path, TREE))
