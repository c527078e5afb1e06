"""What a scene says of itself: axes, labels of layers, edges, where to begin, and what does not fit together."""

from __future__ import annotations

from typing import Any

import dense
import pytest
import torch

import headwise as hw
from headwise.heads import Head
from headwise.viewer import Grid, Scene, Tokens

WORDS = [f"w{n}" for n in range(12)]


def head(layer: int, number: int, kind: str = "mixed", **scores: float) -> Head:
    chance, error = dict.fromkeys(scores, 0.1), dict.fromkeys(scores, 0.01)
    return Head(layer, number, f"layers.{layer}.attn", kind, scores, chance, error, 1.5)


def alone(pattern: hw.Pattern, **more: Any) -> dict[str, Any]:
    return Scene.of({"run": {"layers.0.attn": pattern}}, **more).describe()


def test_one_list_of_tokens_serves_queries_and_keys_of_all_rows() -> None:
    found = alone(dense.patterns(12), tokens=WORDS)
    assert [axis["labels"] for axis in found["axes"]] == [WORDS]
    assert found["layers"][0]["rows"] == found["layers"][0]["cols"] == [0, 0]


def test_each_row_of_a_batch_may_have_its_own_tokens() -> None:
    found = alone(dense.patterns(12), tokens=[WORDS, WORDS[::-1]])
    assert found["layers"][0]["rows"] == [0, 1] and found["axes"][1]["labels"] == WORDS[::-1]


def test_cross_attention_has_two_axes() -> None:
    patterns = {
        "encoder.block.0.layer.0.SelfAttention": dense.patterns(9),
        "decoder.block.0.layer.0.SelfAttention": dense.patterns(5, mask=hw.Causal()),
        "decoder.block.0.layer.1.EncDecAttention": dense.patterns(5, 9),
    }
    found = Scene.of({"run": patterns}, tokens=WORDS[:5], key_tokens=WORDS[:9]).describe()
    target, source = 1, 0
    assert [len(axis["labels"]) for axis in found["axes"]] == [9, 5]
    assert [(layer["rows"][0], layer["cols"][0]) for layer in found["layers"]] == [
        (source, source), (target, target), (target, source)
    ]  # fmt: skip
    assert [layer["kind"] for layer in found["layers"]] == ["self", "self", "cross"]
    assert [layer["label"] for layer in found["layers"]] == ["encoder 0", "decoder 0", "cross 0"]


def test_a_lone_cross_pattern_without_key_tokens_has_positions() -> None:
    found = alone(dense.patterns(5, 9), tokens=WORDS[:5])
    assert found["axes"][1] == {"kind": "tokens", "name": "positions", "labels": list("012345678"), "special": []}


def test_patches_of_an_image() -> None:
    found = alone(dense.patterns(2, 5), key_tokens=Grid(2, 2, before=1), tokens=["a", "b"])
    axis = found["axes"][1]
    assert (axis["kind"], axis["height"], axis["width"], axis["before"]) == ("grid", 2, 2, 1)
    assert axis["labels"] == ["[0]", "r0 c0", "r0 c1", "r1 c0", "r1 c1"] and axis["special"] == [0]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"tokens": WORDS[:11]}, "11 tokens for 12 queries of 'layers.0.attn'"),
        ({"tokens": [WORDS]}, "tokens has 1 lists, the batch 2 rows"),
        ({"tokens": "twelve words"}, "tokens is a str"),
        ({"tokens": 5}, "tokens is a int"),
        ({"tokens": [1, 2]}, "no sequence of strings"),
        ({"tokens": Grid(3, 3)}, "9 patches for 12 queries"),
        ({"tokens": WORDS, "key_tokens": WORDS[:3]}, "3 tokens for 12 keys"),
        ({"heads": [head(0, 0)]}, "scores of 1 heads for patterns of 3"),
    ],
)
def test_what_does_not_fit_is_said(more: dict[str, Any], words: str) -> None:
    with pytest.raises(hw.HeadwiseError) as caught:
        alone(dense.patterns(12), **more)
    assert words in str(caught.value)


def test_runs_that_differ_are_refused() -> None:
    one = {"layers.0.attn": dense.patterns(12)}
    with pytest.raises(hw.SpecError, match="differ in their sites"):
        Scene.of({"a": one, "b": {"layers.1.attn": dense.patterns(12)}})
    with pytest.raises(hw.ShapeError, match=r"\[2, 3, 12, 12\] in run 'a', \[2, 3, 13, 13\] in 'b'"):
        Scene.of({"a": one, "b": {"layers.0.attn": dense.patterns(13)}})
    with pytest.raises(hw.SpecError, match="no pattern"):
        Scene.of({})
    with pytest.raises(hw.SpecError, match="no pattern"):
        Scene.of({"a": {}})
    with pytest.raises(hw.ShapeError, match="same batch"):
        Scene.of({"a": {"layers.0.attn": dense.patterns(4), "layers.1.attn": dense.patterns(4, B=3)}})


def test_the_sink_is_the_first_key_that_is_seen() -> None:
    keep = torch.arange(12).expand(2, -1) >= torch.tensor([[0], [4]])
    assert alone(dense.patterns(12, mask=hw.Causal() & hw.Padding(keep)))["layers"][0]["sink"] == [0, 4]


def test_it_begins_with_the_head_that_does_most() -> None:
    runs = {"run": {f"layers.{n}.attn": dense.patterns(12) for n in range(2)}}
    heads = [head(n, m, first_token=0.9) for n in range(2) for m in range(3)]
    heads[4] = head(1, 1, "induction", induction=0.8)
    assert Scene.of(runs, heads=heads).describe()["open"] == [1, 1]
    assert Scene.of(runs, heads=heads[::-1]).heads[4].kind == "induction"  # in the order of layers, however given


def test_it_begins_with_the_query_that_looks_hardest_past_the_sink() -> None:
    pattern = dense.patterns(12, mask=hw.Causal())
    found = Scene.of({"run": {"layers.0.attn": pattern}}).describe()
    p = pattern.to_dense()[0, found["open"][1]]
    p[:, 0] = 0
    assert found["query"] == int(p.amax(-1).argmax())


def test_labels_are_text_that_a_file_can_hold() -> None:
    assert Tokens(["\ud800a"]).labels == ("?a",)
    with pytest.raises(hw.SpecError, match="special position 3"):
        Tokens(["a"], special=[3])
    with pytest.raises(hw.SpecError, match="height is 0"):
        Grid(0, 4)
    with pytest.raises(hw.SpecError, match="positions"):
        Grid(10**4, 10**4)


def test_one_run_of_a_model_leaves_everything() -> None:
    from headwise.viewer.of_model import run_model

    model, tokenizer = hw.load("two-layer")
    ids = tokenizer("the list of files, the list of", return_tensors="pt").input_ids
    ran = run_model(model, ids)
    found = ran.scene.describe()
    assert [layer["label"] for layer in found["layers"]] == ["0", "1"]
    assert len(found["heads"]) == 12 and all(layer["causal"] for layer in found["layers"])
    for n, site in enumerate(ran.trace.sites):
        T = ids.shape[1]
        torch.testing.assert_close(ran.scene.maps[site], ran.scene.pattern(0, n).map(T, T))
