"""Tables of heads numbered the runs of a layer that runs several times each in its own way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from zoo import Zoo

import headwise as hw
from headwise.heads import relation_scores, retrieval, retrieval_scores, score_heads
from headwise.heads.watching import layers_of

ZOO = Zoo()
WORDS = ["the", "cat", "saw", "a", "dog", "run"]
PLACES = [(layer, head) for layer in range(2) for head in range(4)]


def words() -> Any:
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: n + 3 for n, word in enumerate(WORDS)}))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


def test_each_run_counts_as_a_layer_in_every_table(tmp_path: Path) -> None:
    model, file = ZOO.model("albert"), tmp_path / "a.jsonl"
    (site,) = hw.sites(model)
    file.write_text(json.dumps({"text": " ".join(WORDS), "from": [4, 7], "to": [14, 17], "relation": "sees"}))
    related = relation_scores(model, words(), file)
    table = hw.head_table(model, words(), [" ".join(WORDS)], random_tokens=False, relations=file)
    scored = score_heads(model, torch.arange(3, 12)[None]).heads
    assert [(row["layer"], row["head"]) for row in table.rows] == list(related) == list(table.labels) == PLACES
    assert [(head.layer, head.head, head.site) for head in scored] == [
        (layer, head, f"{site}#1" if layer else site) for layer, head in PLACES
    ]
    for row in table.rows:
        assert row["relation:sees"] == related[row["layer"], row["head"]]["sees"].accuracy


def test_runs_of_retrieval_do_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ZOO.model("gpt2")
    first, second = hw.sites(model)

    class Run:
        answered = True

        def __init__(self, *_: Any) -> None:
            pass

        def scores(self) -> dict[str, torch.Tensor]:
            return {
                f"{first}#1": torch.full((2, 4), 0.25), second: torch.full((2, 4), 0.75), first: torch.zeros(2, 4)
            }  # fmt: skip

    monkeypatch.setattr(retrieval, "_Run", Run)
    monkeypatch.setattr(retrieval._Prompt, "of", lambda *_: True)
    scores = retrieval_scores(model, words(), lengths=[8], depths=[0.5], needles=[("a cat", "run")], haystack="a dog")
    assert {layer: scores[layer, 0].score for layer, _ in scores} == {0: 0.0, 1: 0.25, 2: 0.75}


def test_a_layer_without_heads_moves_no_other() -> None:
    model = hw.prune(ZOO.model("llama"), {0: [0, 1, 2, 3]})
    ids = torch.arange(3, 12)
    assert {head.layer for head in score_heads(model, ids[None]).heads} == {1}
    assert {row["layer"] for row in hw.head_table(model, None, [ids], random_tokens=False).rows} == {1}
    names = hw.sites(model)
    assert layers_of(names[1:], names) == {names[1]: 1}
