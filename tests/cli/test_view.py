"""``headwise view`` on tiny models and saved traces, and on everything that it must refuse."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import headwise as hw
from headwise.cli import main
from headwise.viewer.server import Server

TEXT = "The cat sat on the mat, and the cat slept. The dog sat on the mat, and the dog slept, too."
TILE = {"run": 0, "layer": 1, "head": 0, "b": 0, "pool": "mean", "hide": 0, "norm": 0, "z": 0, "r": 0, "c": 0}


def ask(url: str, name: str, params: dict[str, Any] | None = None) -> tuple[Any, bytes]:
    """Meta and data of an answer."""
    base = httpx.URL(url)
    asked = httpx.get(
        base.copy_with(path=f"/ask/{name}", query=None),
        params=params,
        headers={"X-Headwise-Token": base.params["token"]},
        timeout=300,
    )
    assert asked.status_code == 200, asked.text
    length = int.from_bytes(asked.content[:4], "little")
    return json.loads(asked.content[4 : 4 + length]), asked.content[4 + length :]


def labels(scene: Any) -> str:
    """The text of a scene of the two-layer model, whose first token is its own sign."""
    first, *others = scene["axes"][0]["labels"]
    assert (first, scene["axes"][0]["special"]) == ("<s>", [0])
    return "".join(others)


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs a command line; while it serves, its address is asked, and then it is interrupted."""

    def run(*words: str, then: Callable[[str], Any]) -> Any:
        found = []

        def wait(self: Server) -> None:
            found.append(then(self.url))
            raise KeyboardInterrupt

        monkeypatch.setattr(Server, "wait", wait)
        with pytest.raises(SystemExit) as ended:
            main(["view", *words])
        assert not ended.value.code
        (result,) = found
        return result

    return run


def refused(*words: str) -> int:
    """The exit code of a command line that serves nothing."""
    with pytest.raises(SystemExit) as ended:
        main(["view", *words])
    return int(ended.value.code or 0)


def test_the_command_prints_its_address_alone_serves_and_ends_at_ctrl_c() -> None:
    words = [sys.executable, "-m", "headwise", "view", "two-layer", "--text", TEXT, "--no-browser"]
    running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[A-Za-z0-9_-]{32,}\n", line)
        url = line.strip()
        assert '<main id="headwise">' in httpx.get(url, timeout=300).text
        assert httpx.get(url.replace("/?", "/viewer.js?"), timeout=300).status_code == 200
        assert labels(ask(url, "scene")[0]) == TEXT
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=300)
    finally:
        running.kill()
        running.communicate()
    assert (running.returncode, out, err) == (0, "", "Ctrl-C ends it.\n")
    with pytest.raises(httpx.ConnectError):
        httpx.get(url)


def test_what_is_served_is_what_the_model_did(look: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    words = ("two-layer", "--text", TEXT, "--tokens", "12", "--no-browser")
    url, (scene, _), (meta, data) = look(*words, then=lambda url: (url, ask(url, "scene"), ask(url, "tile", TILE)))
    out, err = capsys.readouterr()
    assert out == f"{url}\n"
    assert err == "Ctrl-C ends it.\n"
    assert scene["title"] == "two-layer"
    assert scene["subtitle"].startswith("12 tokens of the text given: “The cat sat on the mat, ")
    assert labels(scene) == TEXT[: len("The cat sat on the mat, and")]
    assert scene["heads"] is not None
    model, tokenizer = hw.load("two-layer")
    wanted = hw.trace(model, **tokenizer(TEXT, truncation=True, max_length=12, return_tensors="pt")).pattern(1)
    assert (meta["h"], meta["w"]) == (12, 12)
    assert data == wanted[0, 0].numpy().tobytes()


def test_a_kept_trace_opens_again(look: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "kept [b].safetensors"

    def seen(url: str) -> Any:
        return ask(url, "scene")[0], ask(url, "tile", TILE)

    words = ("--text", TEXT, "--no-browser", "--dtype", "bfloat16", "--save", str(place))
    scene, tile = look("two-layer", *words, then=seen)
    assert f"Trace: {place} (" in capsys.readouterr().err
    again, same = look(str(place), "--no-browser", then=seen)
    assert same == tile
    assert again["axes"][0]["labels"] == scene["axes"][0]["labels"]
    assert (again["title"], again["heads"]) == (place.name, scene["heads"])
    assert capsys.readouterr().out.count("\n") == 1


def test_a_trace_of_two_texts_has_both(look: Callable[..., Any], tmp_path: Path) -> None:
    import torch
    import transformers

    torch.manual_seed(0)
    sizes = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "vocab_size": 16, "max_position_embeddings": 16}
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    model = transformers.BartModel(transformers.BartConfig(**sizes, **heads)).eval()
    ids = {"input_ids": torch.arange(5)[None], "decoder_input_ids": torch.arange(3)[None]}
    place = tmp_path / "two.safetensors"
    texts = {"input_ids": [list("abcde")], "decoder_input_ids": [list("xyz")]}
    hw.trace(model, **ids).save(place, tokens=texts)
    scene, _ = look(str(place), "--no-browser", then=lambda url: ask(url, "scene"))
    cross = next(layer for layer in scene["layers"] if layer["kind"] == "cross")
    assert scene["axes"][cross["rows"][0]]["labels"] == list("xyz")
    assert scene["axes"][cross["cols"][0]]["labels"] == list("abcde")


def test_a_browser_is_opened_unless_it_would_take_the_terminal(
    look: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    class Graphical(webbrowser.BackgroundBrowser):
        def open(self, url: str, new: int = 0, autoraise: bool = True) -> bool:
            opened.append(url)
            return True

    def none() -> Any:
        raise webbrowser.Error("none")

    words = ("two-layer", "--tokens", "4")
    monkeypatch.delenv("BROWSER", raising=False)
    monkeypatch.setattr(webbrowser, "get", lambda: Graphical("graphical"))
    url = look(*words, then=lambda url: url)
    assert opened == [url]
    look(*words, "--no-browser", then=lambda url: url)
    monkeypatch.setattr(webbrowser, "get", none)
    look(*words, then=lambda url: url)
    monkeypatch.setattr(webbrowser.GenericBrowser, "open", lambda self, url, *more: opened.append(url))
    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.GenericBrowser("lynx"))
    look(*words, then=lambda url: url)
    assert opened == [url]
    monkeypatch.setenv("BROWSER", "lynx")
    last = look(*words, then=lambda url: url)
    assert opened == [url, last]


def test_another_address_than_this_machines_own_is_warned_of(
    look: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("two-layer", "--tokens", "4", "--no-browser")
    look(*words, "--host", "0.0.0.0", then=lambda url: url)
    out, err = capsys.readouterr()
    assert out.count("\n") == 1
    assert err.startswith("Whoever in the network has this address can look, too; nothing is encrypted.\n")
    look(*words, "--host", "localhost", then=lambda url: url)
    assert "network" not in capsys.readouterr().err


REFUSED = {
    "both texts": (["two-layer", "--text", "a b", "--text-file", "a.txt"], "view: both --text and --text-file"),
    "empty text": (["two-layer", "--text", " "], "the text given is empty"),
    "one token": (["two-layer", "--tokens", "1"], "view: --tokens is 1"),
    "beyond the context": (["two-layer", "--tokens", "9999999"], r"--tokens is 9,999,999, the context of two-layer is"),
    "dtype": (["two-layer", "--dtype", "int8"], "--dtype is 'int8'"),
    "model": (["no/such/model"], "no/such/model"),
    "trace": (["none.safetensors"], "none.safetensors cannot be read; No such file"),
    "no trace": (["a.safetensors"], "read_trace: a.safetensors"),
    "text beside a trace": (["a.safetensors", "--text", TEXT], "--text was given beside the trace a.safetensors"),
    "dtype beside a trace": (["a.safetensors", "--dtype", "float32"], "--dtype was given beside the trace"),
    "save beside a trace": (["a.safetensors", "--save", "b.safetensors"], "--save was given beside the trace"),
    "trace by another name": (["two-layer", "--save", "trace.bin"], "--save is trace.bin; a trace is a .safetensors"),
    "trace in no folder": (["two-layer", "--save", "no/a.safetensors"], "cannot write no/a.safetensors"),
    "port": (["two-layer", "--port", "70000"], "port is 70000"),
    "host": (["two-layer", "--host", "no.such.host.invalid"], "cannot listen on no.such.host.invalid"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_is_refused_in_one_sentence(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.safetensors").write_bytes(b"nothing of the kind")
    words, told = REFUSED[case]
    assert refused(*words, "--no-browser") == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert re.search(told, err), err
    assert [path.name for path in tmp_path.iterdir()] == ["a.safetensors"]


def test_what_cannot_be_served_or_kept_is_said_before_the_model_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def load(*_: Any, **__: Any) -> None:
        raise AssertionError("the model was loaded")

    monkeypatch.setattr(hw, "load", load, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused("two-layer", "--port", str(port)) == 2
        assert f"port {port} of 127.0.0.1 is in use" in capsys.readouterr().err
    assert refused("two-layer", "--save", "/no/such/folder/a.safetensors") == 2
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert refused("two-layer") == 2
    assert "package uvicorn is not installed" in capsys.readouterr().err


def test_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused("--help") == 0
    out = capsys.readouterr().out
    assert "headwise view smollm2 --text-file essay.txt --tokens 8192" in out
    assert "[MODEL_OR_FILE]" in out
