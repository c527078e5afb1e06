"""Numbers in the page, in its pictures and in Python's pictures have one form: front/test reads the same table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwise.heads import KINDS, Head
from headwise.viewer.colour_bar import ceiling, marks
from headwise.viewer.earned import earned, least_of
from headwise.viewer.labels import brief, share, short

TABLE = json.loads((Path(__file__).parents[2] / "front" / "test" / "numbers.json").read_text("utf-8"))


def test_numbers_are_written_as_the_page_writes_them() -> None:
    assert len(TABLE["numbers"]) > 100
    for x, *written in TABLE["numbers"]:
        assert [share(x), brief(x), short(x)] == written, x


def test_the_bar_ends_where_that_of_the_page_ends() -> None:
    for most, end in TABLE["ceilings"]:
        assert ceiling(most) == end


def test_the_same_numbers_stand_beside_the_bar() -> None:
    for bar in TABLE["bars"]:
        found = marks(bar["range"], bar["scale"], diverging=bar["diverging"])
        assert [text for text, _ in found] == [text for text, _ in bar["marks"]], bar
        assert [place for _, place in found] == pytest.approx([place for _, place in bar["marks"]], abs=1e-8)


def test_a_letter_says_how_it_was_earned_as_the_page_does() -> None:
    for kind, least, score, chance, said in TABLE["earned"]:
        known = kind in KINDS
        scores, chances = ({kind: score}, {kind: chance}) if known else ({}, {})
        assert least_of(kind) == least
        assert earned(Head(0, 0, "attn", kind, scores, chances, dict.fromkeys(scores, 0.0), 1.0)) == said
