"""The page: what it carries equals the whole pattern, loads nothing, cannot be broken by a text, and works."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from browser import BINARY, Browser

import headwise as hw
from headwise.errors import ShapeError, SpecError
from headwise.heads import Head, Reading, score_heads
from headwise.viewer import Layout, layout, page, pieces, replacing
from headwise.viewer.page import MAP_BYTES, TOP_BYTES

T = 24
HOSTILE = [
    "</script><script>window.broken = 1</script>",
    "<!--",
    "<img src=x onerror='window.broken = 2'>",
    "&lt;b&gt;",
    "{{script}}",
    "{{data}}",
    "\u2028\u2029",
    "\ud800",
    "\x00\x1b[31m",
    '"\\',
    "]]>",
    "",
    "\n",
    "ﷺ🎉",
]
TOKENS = [HOSTILE[i] if i < len(HOSTILE) else f" word{i}" for i in range(T)]


def tiny(kind: str = "GPT2LMHeadModel") -> Any:
    torch.manual_seed(2)
    if kind == "BertModel":
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}
        return transformers.BertModel(
            transformers.BertConfig(vocab_size=32, max_position_embeddings=64, **sizes)
        ).eval()
    config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, vocab_size=32, n_positions=64)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for block in model.transformer.h:
            block.attn.c_attn.weight.mul_(15)
    return model


IDS = torch.randint(32, (1, T), generator=torch.Generator().manual_seed(4))


def written(model: Any, shape: Layout, **more: Any) -> tuple[Reading, str]:
    reading = score_heads(model, IDS, observe=shape.observers())
    return reading, page(reading, shape, TOKENS, title="Eight <heads> & more", **more)


class Scripts(HTMLParser):
    """The scripts of a page, by their id or type, and every attribute that could load something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self.loads: list[tuple[str, str | None]] = []
        self._now = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [(name, value) for name, value in attrs if name in ("src", "href", "srcset", "action", "poster")]
        if tag == "script":
            self._now = dict(attrs).get("id") or dict(attrs).get("type") or ""

    def handle_data(self, data: str) -> None:
        if self._now:
            self.found[self._now] = self.found.get(self._now, "") + data

    def handle_endtag(self, tag: str) -> None:
        self._now = ""


def carried(html: str) -> Any:
    return json.loads(Scripts(html).found["data"])


def decoded(part: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(part), dtype=kind)


@pytest.mark.parametrize("kind", ["GPT2LMHeadModel", "BertModel"])
def test_what_the_page_carries_equals_the_whole_pattern(kind: str) -> None:
    model = tiny(kind)
    shape = Layout(tokens=T, side=7, k=3, queries=10, limit=5, after=4)
    reading, html = written(model, shape)
    data = carried(html)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        p = torch.stack(model(IDS, output_attentions=True).attentions)[:, 0].flatten(0, 1).double()  # [N, T, T]
    assert data["tokens"][-1] == TOKENS[-1]
    assert [(head["layer"], head["head"]) for head in data["heads"]] == [(n // 4, n % 4) for n in range(8)]

    scales = torch.tensor(data["map"]["scales"])
    codes = torch.from_numpy(decoded(data["map"]["codes"], "u1").copy()).view(8, 7, 7)
    maps = scales[:, None, None] * (codes / 255) ** 2
    edges = [r * T // 7 for r in range(8)]
    for r in range(7):
        for c in range(7):
            mean = p[:, edges[r] : edges[r + 1], edges[c] : edges[c + 1]].mean((1, 2))
            assert ((maps[:, r, c] - mean).abs() <= scales / 255 + 1e-5).all()

    assert (data["top"]["k"], data["top"]["first"], data["top"]["width"]) == (3, T - 10, 1)
    top = (decoded(data["top"]["codes"], "u1").reshape(8, 10, 3) / 255.0) ** 2
    keys = decoded(data["top"]["keys"], "u1").reshape(8, 10, 3).astype(int)
    values = p[:, T - 10 :].topk(3).values.numpy()
    assert abs(top - values).max() <= 0.004
    named = np.take_along_axis(p[:, T - 10 :].numpy(), keys, axis=2)
    assert abs(named - values).max() <= 1e-5

    after = data["offsets"]["after"]
    assert after == (4 if kind == "BertModel" else 0)
    profile = decoded(data["offsets"]["values"], "<f4").reshape(8, data["offsets"]["count"])
    for e in range(profile.shape[1]):
        wanted = p.diagonal(offset=after - e, dim1=1, dim2=2).mean(-1)
        assert abs(profile[:, e] - wanted.numpy()).max() <= 1e-5
    for n, head in enumerate(reading.heads):
        assert data["heads"][n]["scores"] == pytest.approx(head.scores, abs=1e-4)
        assert data["heads"][n]["kind"] == head.kind


def test_the_page_loads_nothing() -> None:
    _, html = written(tiny(), layout(T, 8))
    assert Scripts(html).loads == []
    code = html.replace(json.dumps(carried(html)["tokens"]), "")
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(|\bimport\b|\bfetch\b|XMLHttp|WebSocket", code)
    assert "default-src 'none'" in html


def test_no_text_becomes_markup() -> None:
    _, html = written(tiny(), layout(T, 8), subtitle=HOSTILE[0], facts=[(HOSTILE[0], HOSTILE[2])])
    assert len(re.findall(r"<script", html)) == len(re.findall(r"</script", html)) == 2
    assert "<!--" not in html
    assert "window.broken" in Scripts(html).found["data"]
    assert "window.broken" not in Scripts(html).found["module"]
    told = carried(html)
    assert told["tokens"] == [token.encode("utf-8", "replace").decode() for token in TOKENS]
    assert told["title"] == "Eight <heads> & more"
    html.encode("utf-8")  # nothing that a file cannot hold


def random_reading(layers: int, heads: int, shape: Layout) -> Reading:
    """A reading of the right shapes, of no model."""

    class Seen(dict[str, Any]):
        sites = tuple(str(layer) for layer in range(layers))

    length = shape.tokens
    keys = torch.randint(length, (1, heads, length, shape.k))
    one = {
        "page:map": torch.rand(1, heads, shape.side, shape.side),
        "page:top_keys": hw.observers.TopKeysFound(torch.rand(1, heads, length, shape.k), keys),
        "page:offsets": torch.rand(1, heads, shape.limit + shape.after + 1),
    }
    scores = {"previous_token": 0.1, "induction": 0.2, "duplicate_token": 0.1, "first_token": 0.3, "broad": 0.4}
    found = [Head(n // heads, n % heads, "", "mixed", scores, scores, scores, 1.0) for n in range(layers * heads)]
    return Reading(tuple(found), {}, True, Seen(dict.fromkeys(Seen.sites, one)))


@pytest.mark.parametrize(("tokens", "layers", "heads"), [(256, 30, 9), (2048, 30, 9), (8192, 2, 12), (512, 32, 32)])
def test_the_size_is_bounded_whatever_the_length(tokens: int, layers: int, heads: int) -> None:
    shape = layout(tokens, layers * heads)
    html = page(random_reading(layers, heads, shape), shape, [" token"] * tokens, title="x")
    text = 12 * tokens
    assert len(html) < 4e6 + text
    assert len(html) < 4 / 3 * (MAP_BYTES + TOP_BYTES + 4 * 97 * layers * heads) + 250 * layers * heads + text + 60_000


def test_a_score_that_few_tokens_could_show_is_said_and_opens_nothing() -> None:
    shape = layout(T, 8)
    reading = random_reading(2, 4, shape)
    high = {**reading.heads[3].scores, "induction": 0.9, "duplicate_token": 0.9}
    chance = dict.fromkeys(high, 0.0)
    inf = float("inf")
    unsure = Head(0, 3, "", "mixed", high, chance, {**chance, "induction": inf, "duplicate_token": inf}, 1.0)
    sure = Head(1, 1, "", "mixed", {**high, "induction": 0.3, "duplicate_token": 0.0}, chance, chance, 1.0)
    heads = [{3: unsure, 5: sure}.get(n, head) for n, head in enumerate(reading.heads)]
    data = carried(page(Reading(tuple(heads), {}, True, reading.seen), shape, TOKENS, title="x"))
    assert [head["few"] for head in data["heads"]] == [[]] * 3 + [["induction", "duplicate_token"]] + [[]] * 4
    assert data["too_few"] == "* fewer than 8 tokens of this text could show it: too few to call a head by it."
    assert data["open"] == 5


@pytest.mark.skipif(BINARY is None, reason="no chromium on this machine (make setup installs it where apt-get is)")
def test_a_score_that_few_tokens_could_show_is_marked_in_the_page(tmp_path: Path) -> None:
    shape, place = layout(T, 8), tmp_path / "page.html"
    _, html = written(tiny(), shape)
    data = carried(html)
    shown = """[...document.querySelectorAll('.score')].map((e) =>
        [e.querySelector('.name').textContent, e.querySelector('i').style.background !== ''])"""
    with Browser() as browser:
        for few in (["local"], []):
            for head in data["heads"]:
                head["few"] = few
            text = json.dumps(data).replace("<", "\\u003c")
            place.write_text(re.sub(r'(id="data">).*?(</script>)', lambda m, text=text: m[1] + text + m[2], html))
            browser.open(place)
            rows = browser.run(shown)
            assert [name for name, filled in rows if not filled] == [f"{name} *" for name in few]
            assert [name for name, filled in rows if "*" in name] == [f"{name} *" for name in few]
            assert (data["too_few"] in browser.run("document.getElementById('scores').textContent")) == bool(few)
        assert browser.complaints() == []


def test_a_page_of_another_text_is_refused() -> None:
    shape = layout(T, 8)
    reading = score_heads(tiny(), IDS, observe=shape.observers())
    with pytest.raises(ShapeError, match="23 tokens, the layout has 24"):
        page(reading, shape, TOKENS[:-1], title="x")


def test_patterns_of_nan_are_one_sentence() -> None:
    shape, model = layout(T, 8), tiny()
    with torch.no_grad():
        next(iter(model.parameters())).fill_(float("nan"))
    reading = score_heads(model, IDS, observe=shape.observers())
    with pytest.raises(SpecError, match="the patterns of 8 of 8 heads hold NaN, first that of layer 0, head 0; "):
        page(reading, shape, TOKENS, title="x")
    one = random_reading(2, 4, shape)
    one.seen["1"] = {**one.seen["1"], "page:map": one.seen["1"]["page:map"].clone()}
    one.seen["1"]["page:map"][0, 2, 1, 1] = float("nan")
    with pytest.raises(SpecError, match="the patterns of 1 of 8 heads hold NaN, first that of layer 1, head 2; "):
        page(one, shape, TOKENS, title="x")


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "page.html"
    place.write_text("older")
    with pytest.raises(UnicodeEncodeError), replacing(place) as file:
        file.write("half" * 100_000 + "\ud800")
    assert place.read_text() == "older"
    assert list(tmp_path.iterdir()) == [place]
    with replacing(place) as file:
        file.write("newer")
        assert place.read_text() == "older"
    assert place.read_text() == "newer"
    assert list(tmp_path.iterdir()) == [place]
    assert place.stat().st_mode & 0o777 == 0o666 & ~_umask()
    with pytest.raises(SpecError, match=r"cannot write .*No such file"), replacing(tmp_path / "nowhere" / "page.html"):
        pass
    with pytest.raises(SpecError, match="it is a folder"), replacing(tmp_path):
        pass
    with pytest.raises(SpecError, match="no ordinary file"), replacing("/dev/null"):
        pass


def _umask() -> int:
    import os

    mask = os.umask(0)
    os.umask(mask)
    return mask


def byte_level() -> Any:
    """A byte-level tokenizer without merges: every byte is a token, so characters are cut apart."""
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    made = tokenizers.Tokenizer(tokenizers.models.BPE({char: n for n, char in enumerate(sorted(alphabet))}, []))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made)


def word_pieces() -> Any:
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "the": 3, "cat": 4, "##s": 5, ".": 6}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.normalizer = tokenizers.normalizers.BertNormalizer()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )


def test_the_pieces_of_a_text_are_the_text() -> None:
    text = "Straße 🎉\n  naïve <b>"
    tokenizer = byte_level()
    ids = tokenizer(text)["input_ids"]
    found, special = pieces(tokenizer, text, ids)
    assert len(found) == len(ids) > len(text)
    assert "".join(found) == text
    assert special == []
    assert "".join(pieces(tokenizer, text, ids[:5])[0]) == "Straß"[:5]

    tokenizer = word_pieces()
    text = "The  cats sat."
    ids = tokenizer(text)["input_ids"]
    found, special = pieces(tokenizer, text, ids)
    assert found == ["[CLS]", "The", "  cat", "s", " sat", ".", "[SEP]"]
    assert special == [0, 6]


@pytest.mark.skipif(BINARY is None, reason="no chromium on this machine (make setup installs it where apt-get is)")
def test_the_page_works_in_a_browser(tmp_path: Path) -> None:
    model = tiny("BertModel")
    shape = Layout(tokens=T, side=6, k=3, queries=20, limit=5, after=5)
    _, html = written(model, shape, special=[0])
    place = tmp_path / "a page.html"
    place.write_text(html, encoding="utf-8")
    data = carried(html)
    with Browser() as browser:
        browser.open(place)
        assert browser.run("document.querySelectorAll('.cell').length") == 8
        assert browser.run("document.title") == "Eight <heads> & more"
        tokens = browser.run("[...document.querySelectorAll('#text .token')].map((e) => e.textContent)")
        assert len(tokens) == T
        assert tokens[0] == HOSTILE[0]

        browser.click(".cell[data-head='5']")
        assert browser.run("document.getElementById('name').textContent").startswith("Layer 1, head 1: ")
        browser.press("ArrowRight")
        assert browser.run("document.getElementById('name').textContent").startswith("Layer 1, head 2: ")
        browser.press("ArrowUp")
        assert browser.run("document.getElementById('name').textContent").startswith("Layer 0, head 2: ")

        browser.click("#map")  # the middle of 6 x 6 cells is the corner of cell (3, 3)
        codes = decoded(data["map"]["codes"], "u1").reshape(8, 6, 6)
        value = data["map"]["scales"][2] * (codes[2, 3, 3] / 255) ** 2
        said = browser.run("document.getElementById('map-value').textContent")
        assert float(said.split()[0]) == pytest.approx(value, rel=0.05)
        assert "query 12–15" in said
        assert "key 12–15" in said

        browser.click("[data-token='20']")
        keys = decoded(data["top"]["keys"], "u1").reshape(8, 20, 3)
        shown = browser.run("[...document.querySelectorAll('#text-value .key i')].map((e) => e.textContent)")
        wanted = [20 - int(key) for key in keys[2, 16]]
        assert shown == ["itself" if d == 0 else f"{d} back" if d > 0 else f"{-d} ahead" for d in wanted]
        shaded = browser.run("[...document.querySelectorAll('#text .token')].findIndex((e) => e.style.background)")
        assert shaded == min(keys[2, 16])

        kind = data["heads"][0]["kind"]
        browser.click(f".chip[data-kind='{kind}']")
        others = sum(head["kind"] != kind for head in data["heads"])
        assert browser.run("document.querySelectorAll('.cell.off').length") == others
        assert browser.run("window.broken") is None
        assert browser.run("document.documentElement.scrollWidth <= innerWidth")
        assert browser.complaints() == []
    with Browser(width=400, height=800, dark=True) as browser:
        browser.open(place)
        assert browser.run("document.documentElement.scrollWidth") == 400
        assert browser.complaints() == []
