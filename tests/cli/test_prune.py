"""``headwise prune`` on tiny models, and on everything that it must refuse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers

import headwise as hw
from headwise.cli import main
from headwise.heads.prose import prose
from headwise.models.projections import projections


def run(*words: str) -> int:
    """The exit code of a command line."""
    with pytest.raises(SystemExit) as ended:
        main(["prune", *words])
    return int(ended.value.code or 0)


def saved(folder: Path, model: Any, template: bool) -> Path:
    """A model in a folder beside a tokenizer trained on prose."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    special = ["[UNK]", "[CLS]", "[SEP]"]
    made.train_from_iterator(
        [prose()[:20_000]], tokenizers.trainers.BpeTrainer(vocab_size=400, special_tokens=special, show_progress=False)
    )
    if template:
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
        )
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]").save_pretrained(folder)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama with grouped heads."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32,
        vocab_size=400, max_position_embeddings=64,
    )  # fmt: skip
    return saved(tmp_path_factory.mktemp("decoder"), transformers.LlamaForCausalLM(config), template=False)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        num_hidden_layers=2, hidden_size=32, num_attention_heads=4, intermediate_size=32, vocab_size=400,
        max_position_embeddings=64,
    )  # fmt: skip
    return saved(tmp_path_factory.mktemp("encoder"), transformers.BertModel(config), template=True)


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
def test_a_smaller_model_is_written_with_its_curve(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = request.getfixturevalue(kind), tmp_path / "small"
    assert run(str(folder), "--keep", "0.6", "--tokens", "128", "--window", "32", "--out", str(out)) == 0
    told = json.loads((out / "curve.json").read_text())
    model, tokenizer = hw.load(out)
    left = sum(projections(model, site).heads for site in hw.sites(model))
    assert left == 5  # of 8, three of which are at most 40 %
    assert tokenizer("objects").input_ids
    assert "<svg" in (out / "curve.svg").read_text()
    assert [point["removed"] for point in told["points"]] == [int(n / 10 * 8 + 1e-6) for n in range(10)]
    assert told["points"][0]["loss"] == pytest.approx(0.0 if kind == "encoder" else 6.0, abs=0.2)  # log 400 is 6.0
    printed = capsys.readouterr().out
    assert "3 of 8 heads removed" in printed
    assert str(out) in printed


def test_the_heads_that_go_are_those_of_the_curve(decoder: Path, tmp_path: Path) -> None:
    out = tmp_path / "small"
    words = ["--keep", "0.5", "--tokens", "128", "--window", "32", "--iterative", "--out", str(out)]
    assert run(str(decoder), *words) == 0
    told = json.loads((out / "curve.json").read_text())
    gone = next(point["heads"] for point in told["points"] if point["removed"] == 4)
    model, _ = hw.load(out)
    for site in hw.sites(model):
        kept = projections(model, site).original_heads
        assert sorted({*range(4)} - {*kept}) == gone.get(site, [])


REFUSED: dict[str, tuple[list[str], str]] = {
    "keep": (["--keep", "1.5"], "--keep is 1.5; it is a share of the heads"),
    "tokens": (["--tokens", "40", "--window", "32"], "--tokens is 40 and --window 32"),
    "window": (["--window", "100", "--tokens", "300"], "the context of"),
    "dtype": (["--dtype", "int8"], "--dtype is 'int8'"),
    "nothing to take": (["--keep", "0.99", "--tokens", "64", "--window", "32"], "takes none out"),
    "no file": (["--text-file", "/nowhere"], "cannot read /nowhere"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused_and_writes_nothing(
    name: str, decoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words, told = REFUSED[name]
    assert run(str(decoder), "--out", str(tmp_path / "small"), *words) == 2
    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_left_alone(
    decoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("mine")
    assert run(str(decoder), "--out", str(tmp_path)) == 2
    assert "is there already" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_text_that_is_too_short_is_refused(decoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "short.txt"
    text.write_text("a few words")
    assert run(str(decoder), "--text-file", str(text), "--out", str(tmp_path / "small"), "--window", "32") == 2
    assert "fewer tokens than two windows of 32" in capsys.readouterr().err
    assert not (tmp_path / "small").exists()
