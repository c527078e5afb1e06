"""What is asked for and would have no effect is refused, not dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.viewer import Tokens


def pattern() -> hw.Pattern:
    q = torch.randn(2, 3, 5, 4)
    return hw.Pattern(q, q, mask=hw.Causal())


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("a.html", {"head": (0, 1)}),
        ("a.html", {"rows": slice(0, 3)}),
        ("a.html", {"scale": "log"}),
        ("a.html", {"b": 1}),
    ],
)
def test_options_of_a_picture_and_of_a_page(tmp_path: Path, name: str, more: dict[str, Any]) -> None:
    with pytest.raises(hw.SpecError, match=f"{next(iter(more))} was given for"):
        hw.view(pattern()).save(tmp_path / name, **more)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("more", [{"batch": slice(0, 1)}, {"heads": slice(0, 1)}])
def test_a_part_without_facts(more: dict[str, Any]) -> None:
    with pytest.raises(hw.SpecError, match="batch or heads was given without facts"):
        pattern().replaced(mask=None, **more)


@pytest.mark.parametrize("row", [2, -3, "a", None, True, 0.5])
def test_rows_of_the_batch_that_are_not_there(row: Any) -> None:
    for ask in (pattern().reach, pattern().stretches):
        with pytest.raises(hw.SpecError, match="it is one of 2, an int from 0"):
            ask(row)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tokenizer": "two-layer"}, "tokenizer is a str"),
        ({"heads": [(0, 1)]}, "heads are no scores of heads"),
        ({"heads": "ab"}, "heads are no scores of heads"),
        ({"title": 5}, "title is a int"),
        ({"text": "a"}, "text was given beside a Pattern"),
    ],
)
def test_what_a_view_cannot_use(more: dict[str, Any], words: str) -> None:
    with pytest.raises(hw.SpecError, match=words):
        hw.view(pattern(), **more)


@pytest.mark.parametrize("more", [{"special": ["x"]}, {"special": None}, {"special": [0.5]}, {"name": 5}])
def test_tokens_of_other_kinds(more: dict[str, Any]) -> None:
    with pytest.raises(hw.SpecError, match="special or name does not fit"):
        Tokens(["a", "b"], **more)


@pytest.mark.parametrize("heads", [5, "ab", [(0.0, 1.0)], [(0, 9)], [3]])
def test_heads_of_a_page_that_are_none(tmp_path: Path, heads: Any) -> None:
    with pytest.raises(hw.SpecError, match=r"heads is (a|'ab'; it is \"all\" or a list)|there is no head"):
        hw.view(pattern()).save(tmp_path / "a.html", heads=heads)
