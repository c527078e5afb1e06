"""Questions other than tiles, and questions that make no sense."""

from __future__ import annotations

import json
import struct
import threading
from typing import Any

import dense
import pytest
import torch

import headwise as hw
from headwise.viewer import Answers, Cancelled, Scene
from headwise.viewer import answers as module


def shower(*patterns: hw.Pattern, layers: int = 1) -> Answers:
    return Answers(
        Scene.of({f"run {n}": {f"layers.{m}.attn": p for m in range(layers)} for n, p in enumerate(patterns)})
    )


TILE = {"run": 0, "layer": 0, "head": 1, "b": 1, "pool": "mean", "hide": 0, "norm": 0, "z": 0, "r": 0, "c": 0}
PADDED = hw.Causal() & hw.Padding(torch.arange(50).expand(2, -1) >= torch.tensor([[0], [7]]))


def test_a_row_and_a_column_are_means_over_heads() -> None:
    pattern = dense.patterns(50, mask=PADDED)
    whole = pattern.to_dense()
    asked = shower(pattern, layers=2)
    row = asked.answer("row", {"run": 0, "heads": "0.0,1.2,0.2", "b": 1, "i": 30})
    wanted = whole[1, [0, 2, 2], 30].mean(0)
    torch.testing.assert_close(row.data, wanted)
    assert [found["at"] for found in row.meta["top"]] == wanted.topk(12).indices.tolist()
    torch.testing.assert_close(torch.tensor([found["p"] for found in row.meta["top"]]), wanted.topk(12).values)
    column = asked.answer("column", {"run": 0, "heads": "0.1", "b": 1, "j": 9})
    torch.testing.assert_close(column.data, whole[1, 1, :, 9])


def test_a_difference_of_rows_names_the_largest_changes_of_either_sign() -> None:
    one, two = dense.patterns(40, seed=1), dense.patterns(40, seed=2)
    found = shower(one, two).answer("row", {"run": 0, "minus": 1, "heads": "0.1", "b": 0, "i": 5})
    wanted = one.to_dense()[0, 1, 5] - two.to_dense()[0, 1, 5]
    torch.testing.assert_close(found.data, wanted)
    assert [top["at"] for top in found.meta["top"]] == wanted.abs().topk(12).indices.tolist()


def test_a_profile_is_what_the_pattern_says_of_itself() -> None:
    pattern = dense.patterns(50, mask=PADDED)
    found = shower(pattern).answer("profile", {"run": 0, "layer": 0, "head": 2, "b": 1})
    entropy, received = found.data.split([50, 50])
    torch.testing.assert_close(entropy, pattern.entropy()[1, 2])
    torch.testing.assert_close(received, pattern.received()[1, 2])
    torch.testing.assert_close(torch.tensor(found.meta["offsets"]), pattern.offsets(49)[1, 2])
    assert found.meta["limit"] == 49 and found.meta["after"] == 0
    assert found.meta["entropy"] == pytest.approx(float(entropy[7:].mean()), rel=1e-6)  # rows of padding see no key
    p = pattern.to_dense()[1, 2]
    p[:, 7] = 0  # the sink of this row of the batch
    p.fill_diagonal_(0)
    i, j = divmod(int(p.argmax()), 50)
    assert found.meta["links"][0] == {"i": i, "j": j, "p": pytest.approx(float(p.max()))}


def test_small_maps_are_sampled_first_and_exact_in_the_end() -> None:
    pattern = dense.patterns(300, mask=hw.Causal())
    asked = shower(pattern, layers=2)
    ask = {"run": 0, "b": 1, "since": 0}
    first = asked.answer("overview", ask).meta
    assert not first["done"] and first["heads"] == []
    while len(seen := asked.answer("overview", ask).meta["heads"]) < 6:
        assert asked.work()
    assert not any(head["exact"] for head in seen)
    while asked.work():
        pass
    last = asked.answer("overview", ask)
    assert last.meta["done"] and last.meta["exact"] == last.meta["of"] == 6
    exact = pattern.map(32, 32)[1]
    for codes, head in zip(last.data, last.meta["heads"], strict=True):
        found = head["scale"] * (codes.double() / 255) ** 2
        wanted = exact[head["head"]].double()
        assert (found - wanted).abs().max() <= (wanted * head["scale"]).sqrt().max() / 255 + 1e-6
    assert asked.answer("overview", {**ask, "since": last.meta["version"]}).meta["heads"] == []


def test_the_maps_that_a_run_left_are_taken_as_they_are() -> None:
    pattern = dense.patterns(40)
    scene = Scene.of({"run": {"layers.0.attn": pattern}}, maps={"layers.0.attn": pattern.map(32, 32)})
    found = Answers(scene).answer("overview", {"run": 0, "b": 0, "since": 0})
    assert found.meta["done"] and len(found.meta["heads"]) == 3


def test_a_frame_is_length_meta_and_numbers() -> None:
    found = shower(dense.patterns(5)).answer("tile", TILE)
    frame = found.frame()
    (length,) = struct.unpack("<I", frame[:4])
    assert length % 4 == 0 and json.loads(frame[4 : 4 + length]) == found.meta
    assert frame[4 + length :] == found.data.numpy().astype("<f4").tobytes()


def test_nan_is_no_reason_to_fail() -> None:
    q = torch.zeros(1, 1, 4, 8)
    q[0, 0, 2] = float("nan")
    asked = shower(hw.Pattern(q, torch.zeros(1, 1, 4, 8), mask=hw.Causal()))
    for name, more in (
        ("tile", {**TILE, "head": 0, "b": 0}),
        ("preview", dict.fromkeys(("run", "layer", "head", "b", "hide", "norm"), 0) | {"pool": "mean"}),
        ("row", {"run": 0, "heads": "0.0", "b": 0, "i": 2}),
        ("column", {"run": 0, "heads": "0.0", "b": 0, "j": 0}),
        ("profile", {"run": 0, "layer": 0, "head": 0, "b": 0}),
        ("overview", {"run": 0, "b": 0, "since": 0}),
        ("scene", {}),
    ):
        while asked.work():
            pass
        assert asked.answer(name, more).frame()  # JSON knows no NaN: none is in a meta


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("nothing", {}, "no question 'nothing'"),
        ("tile", {"layer": 1}, "layer is 1 in tile; there are 1"),
        ("tile", {"head": -1}, "head is '-1'"),
        ("tile", {"head": 3}, "there are 3"),
        ("tile", {"b": 2}, "there are 2"),
        ("tile", {"z": 1}, "z is 1"),
        ("tile", {"r": 1}, "r is 1"),
        ("tile", {"c": 10**9}, "c is 1000000000"),
        ("tile", {"c": "9" * 40}, "c is '9999"),
        ("tile", {"c": "²"}, "c is '²'"),
        ("tile", {"c": True}, "c is 'True'"),
        ("tile", {"z": None}, "z is missing"),
        ("tile", {"pool": "median"}, "pool is 'median'"),
        ("tile", {"hide": 2}, "hide is '2'"),
        ("tile", {"run": 1}, "run is 1"),
        ("tile", {"minus": 1}, "minus is 1"),
        ("tile", {"height": 5}, "tile has no parameter 'height'"),
        ("row", {"heads": "0"}, "heads has '0'"),
        ("row", {"heads": "0.7"}, "no head '0.7'"),
        ("row", {"heads": "1.0"}, "no head '1.0'"),
        ("row", {"heads": ",".join(["0.0"] * 2000)}, "2000 heads"),
        ("row", {"i": 50}, "i is 50"),
        ("column", {"j": -3}, "j is '-3'"),
    ],
)
def test_questions_without_sense(name: str, change: dict[str, Any], words: str) -> None:
    base: dict[str, Any] = dict(TILE) if name == "tile" else {"run": 0, "heads": "0.0", "b": 0}
    if name in ("row", "column"):
        base["i" if name == "row" else "j"] = 0
    asked = {key: value for key, value in {**base, **change}.items() if value is not None}
    with pytest.raises(hw.SpecError) as caught:
        shower(dense.patterns(50)).answer(name, asked if name in ("tile", "row", "column") else {})
    assert words in str(caught.value) and len(str(caught.value)) < 200


def test_heads_of_different_lengths_have_no_mean() -> None:
    scene = Scene.of({"run": {"layers.0.attn": dense.patterns(5), "layers.1.attn": dense.patterns(6)}})
    with pytest.raises(hw.SpecError, match="2 different lengths"):
        Answers(scene).answer("row", {"run": 0, "heads": "0.0,1.0", "b": 0, "i": 0})


def test_what_is_not_wanted_any_more_is_not_begun() -> None:
    with pytest.raises(Cancelled):
        shower(dense.patterns(50)).answer("tile", TILE, lambda: True)


def test_threads_get_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TILES", 0)
    pattern = dense.patterns(300, mask=hw.Causal())
    asked, found = shower(pattern), {}

    def ask(n: int) -> None:
        found[n] = asked.answer("tile", {**TILE, "head": n % 3, "r": n % 2}).data

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    whole = pattern.to_dense()[1]
    for n in range(12):
        torch.testing.assert_close(found[n], whole[n % 3, (n % 2) * 256 : (n % 2) * 256 + 256, :256])
