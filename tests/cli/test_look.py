"""``headwise look`` on tiny models, on the real one, and on everything that it must refuse."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
import torch
import transformers
from rich.console import Console

import headwise as hw
from headwise.cli import main
from headwise.cli._report import print_grid
from headwise.cli._text import beginning
from headwise.heads import Head
from headwise.heads.prose import prose

TEXT = "The cat sat on the mat, and the cat slept. The dog sat on the mat, and the dog slept, too."


def run(*words: str) -> int:
    """The exit code of a command line."""
    with pytest.raises(SystemExit) as ended:
        main(["look", *words])
    return int(ended.value.code or 0)


def carried(place: Path) -> Any:
    """What a page carries."""
    return json.loads(re.findall(r'id="headwise-saved">(.*?)</script>', place.read_text(encoding="utf-8"))[0])


def scene_in(place: Path) -> Any:
    """What a page says of its model, with the text of its tokens."""
    found = carried(place)["scene"]
    return {**found, "tokens": found["axes"][0]["labels"], "special": found["axes"][0]["special"]}


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny GPT-2 of 2 layers of 4 heads and 64 positions, with a tokenizer trained on prose."""
    folder = tmp_path_factory.mktemp("decoder")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([prose()[:20_000]], trainer)
    transformers.PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, vocab_size=400, n_positions=64)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT with word pieces."""
    folder = tmp_path_factory.mktemp("encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *sorted(set(re.findall(r"\w+|[,.]", TEXT.lower())))]
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.BertNormalizer()
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special).save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=40, **sizes)
    transformers.BertModel(config).save_pretrained(folder)
    return folder


def test_a_decoder(
    decoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(str(decoder), "--text", TEXT, "--tokens", "30") == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "\x1b" not in out  # a pipe gets no colours
    said = "2 layers, 8 heads, 30 tokens of the text given: “The cat sat on the mat, and the cat slept. The d …”"
    assert said in out.replace("\n", " ")
    assert "a letter clears its margin over chance" in out
    assert "block" not in out
    assert max(map(len, out.splitlines())) <= 80
    assert re.search(r"plain forward \(sdpa\) +\d+\.\d\d s", out)
    assert re.search(r"every head watched +\d+\.\d\d s \(one run\)", out) and "no measurement" in out
    rows = re.findall(r"^ +([01]) ((?:[PNIDFSLB·] ){4})", out, flags=re.MULTILINE)
    assert [row[0] for row in rows] == ["0", "1"]
    for title in ("previous token", "first-token sink", "duplicate token", "induction", "local", "broad"):
        row = rf"^{title}(?: \*)? +([01]\.[0-3] \d\.\d\d \(\d\.\d{{3}}\) *){{3}}$"
        assert re.search(row, out, flags=re.MULTILINE), title
    assert "next token" not in out
    assert list(tmp_path.iterdir()) == [tmp_path / "look.html"]
    data = scene_in(tmp_path / "look.html")
    assert data["facts"] == [["weights", "float32"]]  # no time of a single run
    assert TEXT.startswith("".join(data["tokens"]))
    assert [head["kind"] for head in data["heads"]] == [
        {**{kind["letter"]: kind["name"] for kind in data["kinds"]}, "·": "mixed"}[letter]
        for row in rows
        for letter in row[1].split()
    ]


def test_a_kind_that_few_tokens_could_show_is_marked(
    decoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(decoder), "--text", "one two three one", "--html", str(tmp_path / "a.html")) == 0
    out = capsys.readouterr().out
    assert re.search(r"^(induction|duplicate token) \*", out, flags=re.MULTILINE)
    assert "* fewer than 8 tokens of this text could show it" in out
    data = scene_in(tmp_path / "a.html")
    assert data["tooFew"] in out
    starred = re.findall(r"^([\w -]+) \*", out, flags=re.MULTILINE)
    titles = {kind["name"]: kind["title"] for kind in data["kinds"]}
    for head in data["heads"]:
        assert [titles[name] for name in head["few"]] == starred
        assert head["kind"] not in head["few"]
    assert run(str(decoder), "--text", TEXT * 3, "--tokens", "60", "--html", str(tmp_path / "a.html")) == 0
    assert "* fewer than" not in capsys.readouterr().out
    assert not any(head["few"] for head in scene_in(tmp_path / "a.html")["heads"])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("one two three one", "one two three one"),
        ("  one two\nthree one\n\n", "one two three one"),
        ("a" * 48, "a" * 48),
        ("a" * 49, "a" * 48 + " …"),
        ("one" + " " * 1000 + "two", "one …"),
    ],
)
def test_an_ellipsis_stands_where_the_text_goes_on(text: str, shown: str) -> None:
    assert beginning(text) == shown


def test_the_page_has_the_terminalsbeginning(decoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(decoder), "--text", "one two three", "--html", str(tmp_path / "a.html")) == 0
    assert scene_in(tmp_path / "a.html")["subtitle"].endswith("of the text given: “one two three”")
    assert "“one two three”" in capsys.readouterr().out


def grid(columns: int, width: int = 80, kind: str = "induction", score: float = 0.15, **more: Any) -> str:
    """What the terminal's grid of one layer looks like."""
    chance = {"induction": 0.0, "broad": 1.0}
    heads = [Head(0, n, "", kind, {kind: score}, chance, {kind: 0.0}, 1.0) for n in range(columns)]
    out = io.StringIO()
    print_grid(Console(file=out, width=width, highlight=False, **more), heads)
    return out.getvalue()


def test_the_numbers_of_the_heads_can_be_read() -> None:
    lines = grid(12).splitlines()
    assert lines[0].startswith("layer 0 1 2 3 4 5 6 7 8 9 10 11 ")
    assert lines[1].startswith("    0 I I I I I I I I I I I  I ")
    lines = grid(32).splitlines()  # too many for a row
    tens, units = lines[0][6:].split("what")[0], lines[1].removeprefix("layer ")
    assert [a.strip() + b for a, b in zip(tens[::2], units[::2], strict=False)][:32] == [str(n) for n in range(32)]
    lines = grid(64).splitlines()
    assert (lines[0][6 + 63], lines[1][6 + 63]) == ("6", "3")
    assert all(len(line) <= 80 for columns in (9, 12, 16, 32, 64) for line in grid(columns).splitlines())


def test_the_legend_says_what_is_drawn() -> None:
    coloured = {"force_terminal": True, "color_system": "truecolor", "_environ": {}}
    letter, block = "a letter clears its margin over chance", "a block clears it twice over"
    strong, weak = {"score": 0.3}, {"score": 0.15}
    assert letter in grid(4, **coloured, **strong) and block in grid(4, **coloured, **strong)
    assert letter in grid(4, **coloured, **weak) and block not in grid(4, **coloured, **weak)
    for plain in ({}, {**coloured, "no_color": True}):
        assert letter in grid(4, **plain, **strong) and block not in grid(4, **plain, **strong)
    assert "clears" not in grid(4, kind="mixed")


def test_an_encoder_has_next_tokens_and_separators(
    encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(str(encoder), "--text", TEXT, "--html", str(tmp_path / "a.html")) == 0
    out = capsys.readouterr().out
    assert "next token" in out
    assert "separator" in out
    data = scene_in(tmp_path / "a.html")
    T = len(data["tokens"])
    assert data["special"] == [0, T - 1]
    assert data["tokens"][0] == "[CLS]"
    chance = data["heads"][0]["chance"]
    # every query sees all T keys
    for kind in ("previous_token", "next_token", "first_token", "separator"):
        assert chance[kind] == pytest.approx(1 / T, abs=1e-4)


def test_a_text_from_a_file_and_half_precision(decoder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    place = tmp_path / "a.html"
    words = ("--text-file", str(tmp_path / "a.txt"), "--html", str(place), "--dtype", "bfloat16", "--tokens", "20")
    assert run(str(decoder), *words) == 0
    assert "".join(scene_in(place)["tokens"]).startswith("The cat")
    assert ["weights", "bfloat16"] in scene_in(place)["facts"]


def test_fewer_tokens_than_asked_for_is_said(decoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(decoder), "--text", "a b", "--tokens", "60", "--html", str(tmp_path / "a.html")) == 0
    assert "tokens (all there are)" in capsys.readouterr().out


def test_our_own_text_is_cut_to_a_small_context(decoder: Path, tmp_path: Path) -> None:
    assert run(str(decoder), "--html", str(tmp_path / "a.html")) == 0
    assert len(scene_in(tmp_path / "a.html")["tokens"]) == 64


def test_a_text_is_no_markup_and_no_terminal_code(
    decoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "[red]a[b].html"
    assert run(str(decoder), "--text", "[bold]x[/red] \x1b[31m\x07 <b>", "--html", str(place)) == 0
    out = capsys.readouterr().out
    assert "[bold]x[/red] [31m <b>" in out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "".join(scene_in(place)["tokens"]) == "[bold]x[/red] \x1b[31m\x07 <b>"


def test_a_stream_that_knows_only_ascii(decoder: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "headwise", "look", str(decoder), "--text", TEXT, "--html", str(tmp_path / "a.html")]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, capture_output=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert b"?The cat" in done.stdout
    assert (tmp_path / "a.html").exists()


REFUSED = {
    "empty text": (["--text", "  \n"], "the text given is empty"),
    "one token": (["--text", "a"], "the text is 1 token"),
    "both texts": (["--text", "a b", "--text-file", "a.txt"], "both --text and --text-file"),
    "one token asked for": (["--tokens", "1"], "--tokens is 1"),
    "minus tokens": (["--tokens", "-5"], "--tokens is -5"),
    "beyond the context": (["--tokens", "65"], "--tokens is 65, the context of MODEL is 64. Use --tokens 64"),
    "long text": (["--text", TEXT * 9], r"the text has \d+ tokens, the context of MODEL is 64. Read .* --tokens 64"),
    "no file": (["--text-file", "none.txt"], "cannot read none.txt; No such file"),
    "a folder as text": (["--text-file", "."], "cannot read .; Is a directory"),
    "no text": (["--text-file", "latin.txt"], "latin.txt is no UTF-8 text: byte 0xe9 at position 3"),
    "empty file": (["--text-file", "empty.txt"], "empty.txt is empty"),
    "page in no folder": (["--html", "none/a.html"], "cannot write none/a.html; No such file"),
    "page is no page": (["--html", "page.txt"], "--html is page.txt; the page is an .html file"),
    "dtype": (["--dtype", "int8"], "--dtype is 'int8'; it is one of float32"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_refused_in_one_sentence(
    case: str, decoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "latin.txt").write_bytes("caf\u00e9 au lait".encode("latin1"))
    (tmp_path / "empty.txt").write_bytes(b"")
    before = sorted(tmp_path.iterdir())
    words, said = REFUSED[case]
    assert run(str(decoder), *words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert re.search(said.replace("MODEL", re.escape(str(decoder))), err), err
    assert sorted(tmp_path.iterdir()) == before


def test_a_model_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.gguf").write_bytes(b"GGUF nothing")
    for name in ("smollm3", "no/such/folder", "broken.gguf", "."):
        assert run(name) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "broken.gguf"]


def test_a_folder_without_a_tokenizer(decoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((decoder / name).read_bytes())
    assert run(str(tmp_path), "--html", str(tmp_path / "a.html")) == 2
    assert "has no tokenizer" in capsys.readouterr().err
    assert not (tmp_path / "a.html").exists()


def test_a_model_of_nan_is_one_sentence(decoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, place = tmp_path / "model", tmp_path / "look.html"
    shutil.copytree(decoder, folder)
    model, _ = hw.load(folder)
    with torch.no_grad():
        model.transformer.h[1].attn.c_attn.weight.fill_(float("nan"))
    model.save_pretrained(folder)
    capsys.readouterr()
    assert run(str(folder), "--text", TEXT, "--html", str(place)) == 2
    told = capsys.readouterr().err
    assert "the patterns of 4 of 8 heads hold NaN, first that of layer 1, head 0; " in told
    assert told.count("\n") == 1
    assert list(tmp_path.iterdir()) == [folder]


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    assert "headwise look smollm2 --tokens 512" in capsys.readouterr().out


def test_our_own_text_is_long_and_plain() -> None:
    assert len(prose()) > 30_000
    assert prose() == prose()
    assert "****" not in prose()
    assert "----" not in prose()


@pytest.mark.xdist_group("real weights")
def test_the_real_model_and_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded: list[Any] = []
    load = hw.load

    def kept(*args: Any, **more: Any) -> Any:
        loaded.append(load(*args, **more))
        return loaded[-1]

    monkeypatch.setattr(hw, "load", kept, raising=False)
    place = tmp_path / "look.html"
    assert run("smollm2", "--tokens", "64", "--html", str(place)) == 0
    out = capsys.readouterr().out
    assert "30 layers, 270 heads, 64 tokens" in out
    assert place.stat().st_size < 5e6

    model, tokenizer = loaded[0]
    ids = tokenizer(prose(), truncation=True, max_length=64, return_tensors="pt").input_ids
    model.set_attn_implementation("eager")
    with torch.no_grad():
        p = torch.stack(model(ids, output_attentions=True).attentions)[:, 0].flatten(0, 1)
    data = carried(place)
    assert len(data["scene"]["saved"]["heads"]) > 20  # down to single cells, as far as 5 MB go
    for kind in {kind for head in data["scene"]["heads"] for kind in head["scores"]}:
        told = [head for head in data["scene"]["heads"] if kind in head["scores"] and kind not in head["few"]]
        ranked = sorted(told, key=lambda head: -head["scores"][kind])
        # Four digits may call two heads even that are not.
        least = ranked[1]["scores"][kind] if ranked else 1
        held = [head for head in ranked if f"{head['layer']}.{head['head']}" in data["scene"]["saved"]["heads"]]
        assert sum(head["scores"][kind] >= least for head in held) >= min(2, len(ranked)), kind
    for name in data["scene"]["saved"]["heads"]:
        layer, head = map(int, name.split("."))
        told = data["answers"][f"tile?b=0&c=0&head={head}&hide=0&layer={layer}&norm=0&pool=mean&r=0&run=0&z=0"]
        planes = np.frombuffer(zlib.decompress(base64.b64decode(told["data"]), -15), "u1").reshape(4, -1)
        cells = planes.T.copy().view("<f4").reshape(64, 64)
        torch.testing.assert_close(torch.from_numpy(cells.copy()), p[9 * layer + head], atol=1e-5, rtol=2e-3)
    previous = p.diagonal(offset=-1, dim1=1, dim2=2).mean(-1)
    scores = torch.tensor([head["scores"]["previous_token"] for head in data["scene"]["heads"]])
    assert (scores - previous).abs().max() <= 1e-4  # the page keeps four digits
