"""A file of links whose answers all lie ahead gave a table without a word about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headwise as hw
from headwise.errors import SpecError
from headwise.heads import relation_scores


def test_links_that_all_lie_ahead_are_refused_by_a_decoder(tmp_path: Path) -> None:
    model, tokenizer = hw.load("two-layer")
    file = tmp_path / "ahead.jsonl"
    line = {"text": "She ate, then slept well.", "from": [4, 7], "to": [14, 19], "relation": "before"}
    file.write_text(json.dumps(line))
    with pytest.raises(SpecError, match=r"none of the 1 links of .*ahead.jsonl can be asked of this model"):
        relation_scores(model, tokenizer, file)
    file.write_text(json.dumps({**line, "from": [14, 19], "to": [4, 7]}))
    assert relation_scores(model, tokenizer, file)[0, 0]["before"].n == 1
