"""``headwise heads`` on a tiny model: what it prints and writes, and what it must refuse before any work is lost."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest
import tokenizers
import torch
import transformers

import headwise as hw
from headwise.cli import main
from headwise.heads.prose import prose


def run(*words: str) -> int:
    """The exit code of a command line."""
    with pytest.raises(SystemExit) as ended:
        main(["heads", *words])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny GPT-2 of 2 layers of 4 heads and 128 positions, with a tokenizer trained on prose."""
    folder = tmp_path_factory.mktemp("decoder")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([prose()[:20_000]], trainer)
    transformers.PreTrainedTokenizerFast(tokenizer_object=made).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=2, n_head=4, n_embd=32, vocab_size=400, n_positions=128)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def test_our_own_texts(decoder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(decoder), "--sort", "first_token", "--top", "3") == 0
    out, err = capsys.readouterr()
    assert out.startswith("HeadTable(8 heads, 8 with a label; 8 texts of 1,024 tokens in all)\n")
    assert "\x1b" not in out + err
    assert max(map(len, out.splitlines()[:6])) <= 80
    assert re.search(r"^head +label +first token +induction", out, flags=re.MULTILINE)
    rows = re.findall(r"^([01]\.[0-3]) +broad +(\d\.\d\d) \((\d\.\d\d)\)", out, flags=re.MULTILINE)
    assert len(rows) == 3
    assert [row[1] for row in rows] == sorted((row[1] for row in rows), reverse=True)
    assert "... 5 more" in out
    for part in ("watching every head on texts", "random repeated tokens", "copying by weights"):
        assert re.search(rf"^{part} +\d+\.\d\d s$", out, flags=re.MULTILINE)
        assert f"{part} ...\n" in err
    assert "needle" not in out + err


def test_own_texts_and_a_file_of_each_kind(decoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is an extra")
    texts = [prose()[:150], prose()[500:700]]
    words = [str(decoder)]
    for at, text in enumerate(texts):
        (tmp_path / f"{at}.txt").write_text(text, encoding="utf-8")
        words += ["--text-file", str(tmp_path / f"{at}.txt")]
    model, tokenizer = hw.load(decoder)
    wanted = json.loads(hw.head_table(model, tokenizer, texts).to_json())
    for name in ("a.json", "a.csv", "a.parquet"):
        assert run(*words, "--out", str(tmp_path / name)) == 0
        assert f"Table: {tmp_path / name} (8 heads, {len(wanted[0])} columns)" in capsys.readouterr().out
    assert json.loads((tmp_path / "a.json").read_text()) == wanted
    with (tmp_path / "a.csv").open() as file:
        assert [row["induction"] for row in csv.DictReader(file)] == [str(row["induction"]) for row in wanted]
    assert (tmp_path / "a.parquet").read_bytes()[:4] == b"PAR1"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--sort", "retrieval"], "that score is there with --retrieval only"),
        (["--sort", "relation:nsubj"], "that score is there with --relations FILE only"),
        (["--sort", "inductio"], "--sort is 'inductio'; it is a score: entropy, "),
        (["--top", "0"], "--top is 0"),
        (["--tokens", "1"], "tokens is 1; a head has a choice from two tokens on"),
        (["--tokens", "500"], "tokens is 500, the context of GPT2LMHeadModel is 128. Use 128 or less."),
        (["--dtype", "int8"], "--dtype is 'int8'; it is one of float32, bfloat16, float16"),
        (["--text-file", "nowhere.txt"], "cannot read nowhere.txt; No such file"),
        (["--out", "heads.txt"], "ends in '.txt'; a table is a .csv, .json or .parquet file"),
        (["--out", "no/where.csv"], "cannot write no/where.csv"),
        (["--relations", "nowhere.conllu"], "nowhere.conllu"),
    ],
)
def test_what_is_refused_is_one_sentence(
    decoder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    told: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(str(decoder), *words) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert told in err
    assert len([line for line in err.splitlines() if not line.endswith("...")]) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_a_tokenizer_is_refused(
    decoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hw.load(decoder)[0].save_pretrained(tmp_path)
    assert run(str(tmp_path)) == 2
    assert "has no tokenizer" in capsys.readouterr().err
