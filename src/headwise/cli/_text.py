"""The text that a model reads: where it comes from, its tokens within the model's context, and a bar while it runs."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from headwise.errors import SpecError, sentence

__all__ = [
    "LONGEST", "Source", "Text", "TextFile", "Tokens", "beginning", "check_tokens", "loading", "progress",
    "show_every_sign", "source_of", "tokenized",
]  # fmt: skip

# The options of every command that reads one text.
TextFile = Annotated[Path | None, typer.Option(help="Read this UTF-8 file.", show_default=False)]
Text = Annotated[str | None, typer.Option(help="Read this text.", show_default=False)]
Tokens = Annotated[
    int | None,
    typer.Option(
        help="Read only so many tokens from the beginning. Default: all of your text, 256 of the text that ships with "
        "Python.",
        show_default=False,
    ),
]

LONGEST = 500  #: characters; no token of a vocabulary is longer, runs of spaces included
_TOKENS = 256  # of our own text: long enough for words to come back, and a matter of seconds
_SHOWN = 48  # characters of the text beside its number of tokens


@dataclass(frozen=True)
class Source:
    """A text and what to call it."""

    text: str
    name: str
    ours: bool


def check_tokens(who: str, tokens: int | None) -> None:
    """Refuses a number of tokens that no head has a choice from."""
    if tokens is not None and tokens <= 1:
        raise SpecError(
            sentence(who, f"--tokens is {tokens}", "a head has a choice from two tokens on", todo="Try 256.")
        )


def source_of(who: str, text: str | None, text_file: Path | None) -> Source:
    """What --text and --text-file say; neither = prose that ships with Python."""
    from headwise.heads.prose import prose, text_in

    if text is not None and text_file is not None:
        raise SpecError(
            sentence(who, "both --text and --text-file were given", "one text is read", todo="Leave one out.")
        )
    if text is not None:
        source = Source(text, "the text given", ours=False)
    elif text_file is not None:
        source = Source(text_in(who, text_file), str(text_file), ours=False)
    else:
        return Source(prose(), "prose from Python's own documentation", ours=True)
    if not source.text.strip():
        raise SpecError(sentence(who, f"{source.name} is empty", "heads are watched on a text of two tokens or more"))
    return source


def tokenized(who: str, model: Any, tokenizer: Any, name: str, source: Source, tokens: int | None) -> tuple[Any, str]:
    """Token ids [1, T] and what to say about their number."""
    import torch

    from headwise.heads.texts import context

    if tokenizer is None:
        raise SpecError(
            sentence(who, f"{name} has no tokenizer", "a text is read through one", todo="Save it beside the model.")
        )
    limit = context(model)
    if tokens is not None and limit is not None and tokens > limit:
        raise SpecError(
            sentence(
                who,
                f"--tokens is {tokens:,}, the context of {name} is {limit:,}",
                todo=f"Use --tokens {limit} or less.",
            )
        )
    most = tokens or (min(_TOKENS, limit or _TOKENS) if source.ours else None)
    text = source.text if most is None else source.text[: LONGEST * most]  # what will not be read is not tokenized
    ids = (
        tokenizer(text, truncation=True, max_length=most) if most else tokenizer(text, truncation=False, verbose=False)
    )
    ids = torch.tensor([ids["input_ids"]], dtype=torch.int64, device="cpu")
    count = ids.shape[1]
    if limit is not None and count > limit:
        raise SpecError(
            sentence(
                who,
                f"the text has {count:,} tokens, the context of {name} is {limit:,}",
                todo=f"Read its beginning with --tokens {limit}.",
            )
        )
    if count < 2:
        raise SpecError(sentence(who, f"the text is {count} token", "a head has a choice from two tokens on"))
    return ids, " (all there are)" if tokens is not None and count < tokens else ""


def beginning(text: str) -> str:
    """A text on one line, with an ellipsis where it goes on."""
    text = text.strip()
    start = text[:LONGEST]
    line = " ".join("".join(c if c.isprintable() else " " for c in start).split())
    return line if len(line) <= _SHOWN and start == text else f"{line[:_SHOWN].rstrip()} …"


def show_every_sign() -> None:
    """Has a terminal that cannot show a sign show a question mark."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def loading(err: Any, name: str) -> contextlib.AbstractContextManager[Any]:
    """Says on standard error, where that is a terminal, that a model is being loaded."""
    return err.status(f"loading {name}") if err.is_terminal else contextlib.nullcontext()


@contextlib.contextmanager
def progress(err: Any, model: Any, sites: list[str], what: str) -> Iterator[None]:
    """A bar over the layers on standard error, where that is a terminal."""
    if not err.is_terminal:
        yield
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("layers"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(what, total=len(sites))
        handles = [
            model.get_submodule(site).register_forward_hook(lambda *_: bar.advance(task))
            for site in dict.fromkeys(sites)
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
