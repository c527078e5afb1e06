"""``headwise view``: runs a model on a text, or reads a trace, and serves a page that zooms its patterns."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli._given import dtype_of
from headwise.cli._text import (
    LONGEST,
    Source,
    Text,
    TextFile,
    Tokens,
    beginning,
    check_tokens,
    loading,
    progress,
    show_every_sign,
    source_of,
    tokenized,
)
from headwise.errors import SpecError, sentence

if TYPE_CHECKING:
    from headwise.viewer import Scene

__all__ = ["view"]


def view(
    what: Annotated[
        str,
        typer.Argument(
            metavar="MODEL_OR_FILE",
            help="smollm2, minilm, two-layer, a folder that save_pretrained wrote, a .gguf file; or the .safetensors "
            "file of a trace.",
        ),
    ] = "smollm2",
    text_file: TextFile = None,
    text: Text = None,
    tokens: Tokens = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="Of the weights: float32 (the default), bfloat16 or float16.", show_default=False),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(help="Keep the trace in this .safetensors file, which view opens again.", show_default=False),
    ] = None,
    port: Annotated[int, typer.Option(help="Where to serve the page; 0 = a free port.")] = 0,
    host: Annotated[
        str, typer.Option(help="Where to listen. Another address than this lets others in the network look, too.")
    ] = "127.0.0.1",
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
) -> None:
    """Zooms the attention patterns of a model like a map, in the browser.

    Runs the model once on a text, prints the address of the page, the only line on standard output, and serves it until
    Ctrl-C. Patterns are never stored: tiles of them are computed as they are looked at, so a text may be long.

    \b
    Example:
        headwise view smollm2 --text-file essay.txt --tokens 8192
        headwise view two-layer --save two-layer.safetensors
        headwise view two-layer.safetensors
    """
    from rich.console import Console

    from headwise.viewer import Answers
    from headwise.viewer.server import check_served, serve

    show_every_sign()
    # No markup: a text or a path may hold square brackets.
    err = Console(stderr=True, highlight=False, markup=False)
    if what.endswith(".safetensors") and not Path(what).is_dir():
        given = {"--text": text, "--text-file": text_file, "--tokens": tokens, "--dtype": dtype, "--save": save}
        _refuse_beside_a_trace(what, [name for name, value in given.items() if value is not None])
        check_served(host, port)
        scene = _of_trace(what)
    else:
        wanted = dtype_of("view", dtype or "float32")
        check_tokens("view", tokens)
        source = source_of("view", text, text_file)
        check_served(host, port)  # said before the model runs, as is the next
        _check_place(save)
        scene = _of_model(what, source, tokens, wanted, save, err)
    try:
        with serve(Answers(scene), host=host, port=port) as server:
            if not server.local:
                err.print("Whoever in the network has this address can look, too; nothing is encrypted.")
            print(server.url, flush=True)
            err.print("Ctrl-C ends it.")
            if not no_browser:
                _open(server.url)
            server.wait()
    except KeyboardInterrupt:
        return  # how one ends it


def _refuse_beside_a_trace(name: str, given: list[str]) -> None:
    if given:
        rule = "a trace is what a run left: its text and its weights are those of that run"
        raise SpecError(sentence("view", f"{given[0]} was given beside the trace {name}", rule, todo="Leave it out."))


def _of_trace(path: str) -> Scene:
    """What a file holds."""
    import headwise as hw
    from headwise.models import read_trace

    return hw.view(read_trace(path), title=Path(path).name).scene


def _of_model(name: str, source: Source, tokens: int | None, dtype: Any, save: Path | None, err: Any) -> Scene:
    """Runs a model once."""
    import headwise as hw
    from headwise.models.token_text import pieces
    from headwise.viewer.of_model import run_model

    with loading(err, name):
        model, tokenizer = hw.load(name, dtype=dtype)
    ids, cut = tokenized("view", model, tokenizer, name, source, tokens)
    labels, special = pieces(tokenizer, source.text[: LONGEST * ids.shape[1]], ids[0].tolist())
    with progress(err, model, hw.sites(model), "one forward"):
        ran = run_model(
            model,
            ids,
            labels=labels,
            special=special,
            title=Path(name).name or name,
            subtitle=f"{ids.shape[1]:,} tokens{cut} of {source.name}: “{beginning(source.text)}”",
        )
    if save is not None:
        ran.trace.save(save, tokens={"input_ids": [labels]})
        err.print(f"Trace: {save} ({save.stat().st_size / 1e6:.1f} MB)", soft_wrap=True)
    return ran.scene


def _check_place(save: Path | None) -> None:
    """Refuses a place for the trace before the model runs."""
    if save is None:
        return
    if save.suffix != ".safetensors":
        what = f"--save is {save}"
        raise SpecError(sentence("view", what, "a trace is a .safetensors file: by this ending view knows it again"))
    if save.is_dir() or not os.access(save if save.exists() else save.parent, os.W_OK):
        raise SpecError(sentence("view", f"cannot write {save}", "name a file in a folder you may write to"))


def _open(url: str) -> None:
    """Opens a browser, where there is one beside the terminal."""
    try:
        browser = webbrowser.get()
    except webbrowser.Error:
        return
    # One that runs in the terminal would take it away, and shows no picture. Whoever names one in BROWSER means it.
    if type(browser) is not webbrowser.GenericBrowser or "BROWSER" in os.environ:
        browser.open(url)
