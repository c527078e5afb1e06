"""hw.view: what it takes, what it shows and writes, and what it says where something does not fit."""

from __future__ import annotations

import http.client
import json
import sys
import threading
import types
import webbrowser
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import dense
import pytest
import torch
import transformers
from test_labels import byte_level, word_pieces

import headwise as hw
from headwise.errors import HeadwiseError, ShapeError, SpecError, UnavailableError
from headwise.heads import score_heads
from headwise.viewer import Grid, Tokens, View, saved
from headwise.viewer import view as view_of
from headwise.viewer import widget as widgets
from headwise.viewer.of_model import run_model
from headwise.viewer.server import Server

IDS = torch.tensor([[3, 4, 5, 3, 4, 6, 7, 3]])


def gpt2() -> Any:
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=300, n_positions=64)
    return transformers.GPT2LMHeadModel(config).eval()


def bart() -> Any:
    torch.manual_seed(0)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    config = transformers.BartConfig(
        vocab_size=32, d_model=8, encoder_ffn_dim=8, decoder_ffn_dim=8, max_position_embeddings=32, **sizes
    )
    return transformers.BartModel(config).eval()


def axes(seen: View, layer: int = 0) -> tuple[list[str], list[str]]:
    """Labels of the queries and of the keys of a layer."""
    told = seen.scene.describe()
    return tuple(told["axes"][told["layers"][layer][side][0]]["labels"] for side in ("rows", "cols"))  # type: ignore[return-value]


def test_it_is_the_front_door() -> None:
    assert hw.view is view_of


def test_a_pattern_is_shown_with_its_tokens() -> None:
    pattern = dense.patterns(5, B=1, mask=hw.Causal())
    seen = hw.view(pattern, tokens=list("abcde"), title="five")
    assert axes(seen) == (list("abcde"), list("abcde"))
    assert seen.scene.pattern(0, 0) is pattern
    assert seen.scene.title == "five"
    assert axes(hw.view(pattern)) == (list("01234"), list("01234"))
    assert axes(hw.view(pattern, tokens=Grid(2, 2, before=1)))[0][:2] == ["[0]", "r0 c0"]
    assert axes(hw.view(dense.patterns(2, 3), tokens=["a", "b"], key_tokens=["x", "y", "z"])) == (
        ["a", "b"],
        ["x", "y", "z"],
    )


def test_a_trace_names_its_tokens_by_a_tokenizer() -> None:
    tokenizer = byte_level()
    batch = tokenizer(["a cat", "a dog"], return_tensors="pt")
    traced = hw.trace(gpt2(), **batch)
    seen = hw.view(traced, tokenizer=tokenizer)
    told = seen.scene.describe()
    assert [told["axes"][n]["labels"] for n in told["layers"][1]["rows"]] == [list("a cat"), list("a dog")]
    assert axes(hw.view(traced)) == (list("01234"), list("01234"))
    assert axes(hw.view(traced, tokens=list("vwxyz"), tokenizer=tokenizer))[0] == list("vwxyz")
    assert [layer["name"] for layer in told["layers"]] == traced.sites


def test_a_trace_that_was_read_names_the_tokens_it_was_saved_with(tmp_path: Path) -> None:
    tokenizer = byte_level()
    traced = hw.trace(gpt2(), **tokenizer(["a cat", "a dog"], return_tensors="pt"))
    place = traced.save(tmp_path / "a.safetensors", tokenizer=tokenizer)
    told = hw.view(hw.models.read_trace(place)).scene.describe()
    assert [told["axes"][n]["labels"] for n in told["layers"][0]["rows"]] == [list("a cat"), list("a dog")]


def test_a_trace_carries_the_scores_of_its_heads(tmp_path: Path) -> None:
    ran = run_model(gpt2(), IDS)
    again = hw.models.read_trace(ran.trace.save(tmp_path / "a.safetensors"))
    assert hw.view(again).scene.heads == ran.scene.heads
    for wrong in (
        3,
        [3],
        [{}],
        [{**again.notes["heads"][0], "kind": "evil"}],
        [{**again.notes["heads"][0], "layer": "0"}],
    ):
        again.notes["heads"] = wrong
        with pytest.raises(hw.SpecError, match="has no meaning"):
            hw.view(again)


def test_attention_that_somebody_has_is_shown_as_it_is() -> None:
    """What other tools give: a list of [B, H, T, S], of any model; rows that sum to less than 1 stay so."""
    given = [torch.rand(2, 3, 5, 9) * (torch.rand(2, 3, 5, 9) > 0.3) for _ in range(2)]
    asked = {"run": 0, "layer": 1, "head": 2, "b": 1, "pool": "mean", "hide": 0, "norm": 0, "z": 0, "r": 0, "c": 0}
    for what in (given, tuple(given), [one.numpy() for one in given], SimpleNamespace(attentions=tuple(given))):
        seen = hw.view(what, tokens=list("abcde"), key_tokens=list("uvwxyz123"))
        torch.testing.assert_close(seen.answers.answer("tile", asked).data, given[1][1, 2])
        torch.testing.assert_close(
            seen.answers.answer("row", {"run": 0, "heads": "1.2", "b": 1, "i": 3}).data, given[1][1, 2, 3]
        )
        profile = seen.answers.answer("profile", {"run": 0, "layer": 1, "head": 2, "b": 1}).data
        torch.testing.assert_close(profile[5:], given[1][1, 2].sum(0))
    model = gpt2()
    with pytest.raises(hw.SpecError, match="holds no attentions"):
        hw.view(model(IDS))
    model.set_attn_implementation("eager")
    output = model(IDS, output_attentions=True)
    torch.testing.assert_close(
        hw.view(output).answers.answer("tile", {**asked, "layer": 0, "head": 0, "b": 0}).data,
        output.attentions[0][0, 0],
    )


def test_an_encoder_and_its_decoder_have_two_texts() -> None:
    tokenizer = word_pieces()
    traced = hw.trace(bart(), input_ids=torch.tensor([[1, 3, 4, 5, 2]]), decoder_input_ids=torch.tensor([[1, 4, 2]]))
    seen = hw.view(traced, tokenizer=tokenizer)
    source, target = ["[CLS]", "the", "cat", "##s", "[SEP]"], ["[CLS]", "cat", "[SEP]"]
    by_kind = {layer["label"]: axes(seen, n) for n, layer in enumerate(seen.scene.describe()["layers"])}
    assert by_kind == {"encoder 0": (source, source), "decoder 0": (target, target), "cross 0": (target, source)}


def test_a_model_is_run_once_and_its_heads_are_scored() -> None:
    model, tokenizer = gpt2(), byte_level()
    text = "the cat, the cat"
    runs: list[int] = []
    model.register_forward_pre_hook(lambda *_: runs.append(1))
    seen = hw.view(model, tokenizer=tokenizer, text=text)
    assert len(runs) == 1
    assert axes(seen)[0] == list(text)
    ids = tokenizer(text, return_tensors="pt")["input_ids"]
    wanted = score_heads(model, ids).heads
    assert seen.scene.heads is not None
    for found, head in zip(seen.scene.heads, wanted, strict=True):
        assert found.scores == pytest.approx(dict(head.scores))
    assert seen.scene.title == "GPT2LMHeadModel"
    assert list(seen.scene.maps) == ["transformer.h.0.attn", "transformer.h.1.attn"]
    traced = hw.trace(model, ids)
    torch.testing.assert_close(seen.scene.pattern(0, 1).to_dense(), traced.pattern(1).to_dense())


def test_a_model_whose_heads_cannot_be_scored_is_shown_all_the_same() -> None:
    seen = hw.view(bart(), input_ids=torch.tensor([[1, 3, 4, 5]]), decoder_input_ids=torch.tensor([[1, 4]]))
    assert seen.scene.heads is None
    assert len(seen.scene.sites) == 3
    batch = hw.view(gpt2(), input_ids=IDS.repeat(2, 1))
    assert (batch.scene.batch, batch.scene.heads) == (2, None)


def test_scores_may_be_given() -> None:
    model = gpt2()
    reading = score_heads(model, IDS)
    traced = hw.trace(model, IDS)
    assert (
        hw.view(traced, heads=reading).scene.heads == hw.view(traced, heads=reading.heads).scene.heads == reading.heads
    )
    with pytest.raises(SpecError, match="scores of 3 heads for patterns of 4"):
        hw.view(traced, heads=reading.heads[:3])


def test_runs_are_shown_side_by_side() -> None:
    one, two = dense.patterns(6, mask=hw.Causal()), dense.patterns(6, seed=4)
    seen = hw.view({"causal": one, "both ways": two})
    assert seen.scene.describe()["runs"] == ["causal", "both ways"]
    tile = {
        "run": 1,
        "minus": 0,
        "layer": 0,
        "head": 1,
        "b": 0,
        "pool": "mean",
        "hide": 0,
        "norm": 0,
        "z": 0,
        "r": 0,
        "c": 0,
    }
    found = seen.answers.answer("tile", tile).data
    torch.testing.assert_close(found, (two.to_dense() - one.to_dense())[0, 1])


def test_a_list_of_patterns_is_one_run_and_a_dict_is_many() -> None:
    """Twelve layers in a list are one model; twelve by name are twelve runs, and the view says so."""
    layers = [dense.patterns(6, seed=n, B=1) for n in range(12)]
    one = hw.view(layers, tokens=list("abcdef"))
    assert [layer["label"] for layer in one.scene.describe()["layers"]] == [str(n) for n in range(12)]
    assert all(one.scene.pattern(0, n) is layers[n] for n in range(12))
    assert repr(one) == "View(12 layers, 36 heads, 6 tokens: 12 layers, 36 heads)"
    assert hw.view(tuple(layers)).scene.sites == one.scene.sites
    many = hw.view({f"run {n}": pattern for n, pattern in enumerate(layers)})
    told = many.scene.describe()
    assert len(told["runs"]) == 12 and len(told["layers"]) == 1
    assert told["title"] == "run 0, run 1 and 10 more" and told["subtitle"] == "12 runs, each 3 heads, 6 tokens"
    assert repr(many) == "View(run 0, run 1 and 10 more: 12 runs of 1 layer, 3 heads)"
    both = hw.view({"plain": layers, "changed": layers[::-1]})
    assert repr(both) == "View(plain and changed: 2 runs of 12 layers, 36 heads)"
    with pytest.raises(SpecError, match="a list that holds a Trace; a list holds the layers of one run"):
        hw.view([hw.trace(gpt2(), IDS), layers[0]])


def test_layers_over_two_texts_have_the_tokens_of_both() -> None:
    """The keys of a list of cross attentions had positions for names, whatever was given."""
    for layers in (
        [dense.patterns(2, 3, B=1), dense.patterns(2, 3, B=1, seed=1)],
        [torch.rand(1, 2, 2, 3), torch.rand(1, 2, 2, 3)],
    ):
        seen = hw.view(layers, tokens=["a", "b"], key_tokens=["x", "y", "z"])
        assert [axes(seen, n) for n in range(2)] == [(["a", "b"], ["x", "y", "z"])] * 2


def test_a_view_writes_a_page_and_pictures(tmp_path: Path) -> None:
    seen = hw.view(dense.patterns(30, B=1, mask=hw.Causal()), title="thirty")
    assert seen.save(tmp_path / "a.html") == tmp_path / "a.html"
    assert "<title>thirty</title>" in (tmp_path / "a.html").read_text(encoding="utf-8")
    seen.save(str(tmp_path / "a.SVG"), head=(0, 2), rows=slice(20, 30), hide=True)
    svg = (tmp_path / "a.SVG").read_text(encoding="utf-8")
    assert "Layer 0, head 2" in svg and "key 0 hidden" in svg and "Queries 20 to 29 of 30" in svg
    seen.save(tmp_path / "a.png", scale="log", dark=True, norm=True)
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.SVG", "a.html", "a.png"]


def test_a_picture_may_be_of_a_difference_by_name(tmp_path: Path) -> None:
    seen = hw.view({"one": dense.patterns(6), "two": dense.patterns(6, seed=1)})
    seen.save(tmp_path / "a.svg", run="two", minus="one")
    assert (
        "in &#x27;two&#x27;" in (tmp_path / "a.svg").read_text()
        or "in 'two' minus 'one'" in (tmp_path / "a.svg").read_text()
    )
    with pytest.raises(SpecError, match="there is no run 'three'; there are 'one', 'two'"):
        seen.save(tmp_path / "a.svg", run="three")


def test_a_place_that_cannot_be_written_is_said_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = hw.view(dense.patterns(6))
    monkeypatch.setattr(saved, "script", lambda: pytest.fail("work was begun"))
    with pytest.raises(SpecError, match=r"view: cannot write .*No such file"):
        seen.save(tmp_path / "no" / "a.html")
    with pytest.raises(SpecError, match=r"ends in '.pdf'; a view is saved as .html, .svg or .png"):
        seen.save(tmp_path / "a.pdf")


def test_what_fails_leaves_no_file(tmp_path: Path) -> None:
    seen = hw.view(dense.patterns(6))
    for wrong, said in (
        ({"head": (0, 9)}, "head is 9; there are 3 in layer 0"), ({"head": 3}, r"head is 3; it is \(layer, head\)"),
        ({"b": 5}, "b is 5"), ({"rows": slice(3, 3)}, "rows is"), ({"pool": "sum"}, "pool is 'sum'"),
    ):  # fmt: skip
        with pytest.raises(SpecError, match=said):
            seen.save(tmp_path / "a.svg", **wrong)
    with pytest.raises(SpecError, match=r"there is no head \(4, 0\)"):
        seen.save(tmp_path / "a.html", heads=[(4, 0)])
    assert list(tmp_path.iterdir()) == []


def asked(url: str, name: str, **params: Any) -> Any:
    """What a served page gets for a question, its meta alone."""
    parts = urlsplit(url)
    token = parts.query.partition("=")[2]
    link = http.client.HTTPConnection(parts.netloc, timeout=300)
    query = "&".join(f"{key}={value}" for key, value in params.items())
    link.request("GET", f"/ask/{name}?{query}", headers={"x-headwise-token": token})
    answer = link.getresponse()
    body = answer.read()
    link.close()
    assert answer.status == 200, body
    return json.loads(body[4 : 4 + int.from_bytes(body[:4], "little")])


def test_it_is_served_once_and_until_it_is_closed() -> None:
    seen = hw.view(dense.patterns(6), title="six")
    assert "http" not in repr(seen)
    with seen:
        url = seen.url
        assert seen.url == url
        assert asked(url, "scene")["title"] == "six"
        assert repr(seen) == f"View(six: 1 layer, 3 heads, {url})"
    with pytest.raises(OSError, match=r"refused|reset"):
        asked(url, "scene")
    seen.close()


def test_it_opens_in_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: bool(opened.append(url)) or True)
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)  # it comes back at once, the prompt goes on serving
    with hw.view(dense.patterns(6)) as seen:
        seen.open()
        assert opened == [seen.url]
        monkeypatch.setattr(webbrowser, "open", lambda url: False)
        with pytest.raises(UnavailableError, match=r"no browser could be opened\. Open http://127"):
            seen.open()


def test_a_script_goes_on_serving_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    served = threading.Event()

    def interrupted(self: Server) -> None:
        assert asked(self.url, "scene")["title"] == "six"
        served.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(Server, "wait", interrupted)
    monkeypatch.setattr(webbrowser, "open", lambda url: True)
    seen = hw.view(dense.patterns(6), title="six")
    seen.open()
    assert served.is_set() and "http" not in repr(seen)  # the server is closed


def test_at_a_prompt_it_says_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with hw.view(dense.patterns(6)) as seen:
        assert "http://127.0.0.1:" in repr(seen)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "http" not in repr(hw.view(dense.patterns(6)))


def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a kernel of a notebook."""
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))


def test_a_notebook_shows_the_widget(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget", reason="the widget is one of anywidget's")
    seen = hw.view(dense.patterns(6))
    assert seen._repr_mimebundle_() == {"text/plain": repr(seen)}
    made = types.SimpleNamespace(_repr_mimebundle_=lambda **_: {"widget": 1}, close=lambda: None)
    monkeypatch.setattr(sys.modules["headwise.viewer.view"], "widget_class", lambda: lambda answers: made)
    notebook(monkeypatch)
    assert seen._repr_mimebundle_() == {"widget": 1}
    assert seen.widget() is seen.widget() is seen._display_() is made


def test_a_notebook_without_the_widget_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    notebook(monkeypatch)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    widgets.widget_class.cache_clear()
    assert "pip install anywidget" in hw.view(dense.patterns(6))._repr_mimebundle_()["text/plain"]


@pytest.mark.parametrize(
    ("what", "more", "said"),
    [
        ("pattern", {"tokens": list("abcd")}, "4 tokens for 6 queries"),
        ("pattern", {"tokens": "abcdef"}, "tokens is a str"),
        ("pattern", {"text": "a"}, "text was given beside a Pattern; a model alone reads a text"),
        ("pattern", {"input_ids": IDS}, "input_ids was given beside a Pattern"),
        (torch.zeros(2, 2), {}, r"layer 0 has 2 axes; it is \[B,H,T,S\]"),
        ([], {}, "a list cannot be viewed; what is viewed is a trace, a pattern"),
        ([torch.zeros(1, 1, 2, 2), "x"], {}, "a list that holds a str"),
        (-torch.ones(1, 1, 2, 2), {}, "numbers below 0, above 1 or NaN"),
        (None, {}, "a NoneType cannot be viewed"),
        ({}, {}, "there is no pattern"),
        ({3: "pattern"}, {}, "a run has no name"),
        ({"a": 3}, {}, "a int cannot be viewed"),
        ("model", {}, "a model was given, and nothing for it to read"),
        ("model", {"text": "a cat"}, "text was given without tokenizer"),
        ("model", {"text": ["a"], "tokenizer": byte_level}, "text is a list"),
        ("model", {"text": "a", "tokenizer": byte_level, "input_ids": IDS}, "text and input_ids were both given"),
        ("model", {"input_ids": IDS, "tokens": list("abc")}, "3 tokens for 8 queries"),
    ],
)
def test_what_does_not_fit_is_one_sentence(what: Any, more: dict[str, Any], said: str) -> None:
    given = (
        {"pattern": lambda: dense.patterns(6), "model": gpt2}.get(what, lambda: what)()
        if isinstance(what, str)
        else what
    )
    if isinstance(what, dict) and 3 in what:
        given = {3: dense.patterns(6)}
    more = {**more, **({"tokenizer": more["tokenizer"]()} if "tokenizer" in more else {})}
    with pytest.raises(HeadwiseError, match=said) as caught:
        hw.view(given, **more)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, (SpecError, ShapeError))


def test_tokens_of_a_pattern_may_be_marked_as_no_text() -> None:
    seen = hw.view(dense.patterns(3), tokens=Tokens(["[CLS]", "a", "b"], special=[0]))
    assert seen.scene.describe()["axes"][0]["special"] == [0]
