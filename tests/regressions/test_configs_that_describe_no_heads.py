"""What a config says of pruned heads was taken at its word: numbers that no head has, fractions, heads twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from zoo import Zoo

import headwise as hw
from headwise.errors import SpecError

BAD: list[dict[str, Any]] = [
    {"heads": [-1, 1]},
    {"heads": [1, 1]},
    {"heads": [2, 1]},
    {"heads": [0, 10**30]},
    {"heads": [0.5, 1.9]},
    {"heads": "12"},
    {"groups": [1, 0]},
    {"kv_heads": [0, 5]},
]


@pytest.mark.parametrize("change", BAD, ids=str)
def test_nonsense_is_refused_by_name(change: dict[str, Any], tmp_path: Path) -> None:
    zoo = Zoo()
    hw.prune(zoo.model("llama"), {0: [1, 2]}).save_pretrained(tmp_path)
    place = tmp_path / "config.json"
    config = json.loads(place.read_text())
    config["headwise_heads"]["model.layers.0.self_attn"].update(change)
    place.write_text(json.dumps(config))
    with pytest.raises(SpecError, match="headwise_heads in the config cannot be read"):
        hw.load(tmp_path)


def test_a_pruning_that_a_conversion_ended_is_not_told_any_more(tmp_path: Path) -> None:
    import transformers

    zoo = Zoo()
    pruned = hw.prune(zoo.model("llama"), {0: [1, 3], 1: [0, 2]})
    pruned.save_pretrained(tmp_path / "pruned")
    plain = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "pruned")
    hw.to_gqa(plain, 1).save_pretrained(tmp_path / "grouped")
    loaded, _ = hw.load(tmp_path / "grouped")
    batch = zoo.batch("llama")
    assert float((zoo.result(loaded, batch) - zoo.result(plain.eval(), batch)).abs().max()) < 1e-5
