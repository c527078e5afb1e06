"""``headwise look``: what each head of a model does on a text, in the terminal and as one page."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli._given import dtype_of
from headwise.errors import SpecError, sentence

if TYPE_CHECKING:
    from headwise.cli._measure import Cost
    from headwise.heads import Reading

__all__ = ["look"]

_TOKENS = 256  # of our own text: long enough for words to come back, and a matter of seconds
_LONGEST = 500  # characters; no token of a vocabulary is longer, runs of spaces included
_SHOWN = 48  # characters of the text beside its number of tokens


def look(
    model: Annotated[
        str, typer.Argument(help="smollm2, minilm, two-layer, a folder that save_pretrained wrote, or a .gguf file.")
    ] = "smollm2",
    text_file: Annotated[Path | None, typer.Option(help="Read this UTF-8 file.", show_default=False)] = None,
    text: Annotated[str | None, typer.Option(help="Read this text.", show_default=False)] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            help="Read only so many tokens from the beginning. Default: all of your text, 256 of the text that "
            "ships with Python.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("look.html"),
    dtype: Annotated[str, typer.Option(help="Of the weights: float32, bfloat16 or float16.")] = "float32",
) -> None:
    """What each attention head of a model does on a text.

    Runs the model once, asks every head while it runs, prints a grid of what each does and writes one page that opens
    offline: for each head its map, its top keys on the text, and how its attention falls with distance.

    \b
    Example:
        headwise look smollm2 --tokens 512
        headwise look minilm --text "The cat sat on the mat, and the cat slept." --html cat.html
        headwise look ./my-model --text-file essay.txt
    """
    from rich.console import Console

    from headwise.viewer import replacing

    wanted = dtype_of("look", dtype)
    if tokens is not None and tokens <= 1:
        raise SpecError(
            sentence("look", f"--tokens is {tokens}", "a head has a choice from two tokens on", todo="Try 256.")
        )
    source = _source(text, text_file)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a sign shows a question mark
    # No markup: a text or a path may hold square brackets.
    out, err = Console(highlight=False, markup=False), Console(stderr=True, highlight=False, markup=False)
    with replacing(html) as file:  # opened first: a page that cannot be written is said before the model runs
        looked = _examine(model, source, tokens, wanted, err)
        file.write(looked.page)
    _say(out, looked)
    out.print(f"\nPage: {html} ({len(looked.page) / 1e6:.1f} MB, opens offline in any browser)", soft_wrap=True)


@dataclass(frozen=True)
class _Source:
    """A text and what to call it."""

    text: str
    name: str
    ours: bool


def _source(text: str | None, text_file: Path | None) -> _Source:
    from headwise.heads.prose import prose, text_in

    if text is not None and text_file is not None:
        raise SpecError(
            sentence("look", "both --text and --text-file were given", "one text is read", todo="Leave one out.")
        )
    if text is not None:
        source = _Source(text, "the text given", ours=False)
    elif text_file is not None:
        source = _Source(text_in("look", text_file), str(text_file), ours=False)
    else:
        return _Source(prose(), "prose from Python's own documentation", ours=True)
    if not source.text.strip():
        raise SpecError(
            sentence("look", f"{source.name} is empty", "heads are watched on a text of two tokens or more")
        )
    return source


@dataclass(frozen=True)
class _Looked:
    """What there is to say."""

    title: str
    what: str
    before: str
    plain: Cost
    watched: Cost
    reading: Reading
    page: str


def _examine(name: str, source: _Source, tokens: int | None, dtype: Any, err: Any) -> _Looked:
    """Loads the model and runs it, plain and watched."""
    import headwise as hw
    from headwise.cli._measure import measured
    from headwise.heads import score_heads
    from headwise.viewer import layout, page, pieces

    with err.status(f"loading {name}") if err.is_terminal else contextlib.nullcontext():
        model, tokenizer = hw.load(name, dtype=dtype)
    sites = hw.sites(model)
    ids, cut = _tokenized(model, tokenizer, name, source, tokens)
    texts, special = pieces(tokenizer, source.text[: _LONGEST * ids.shape[1]], ids[0].tolist())
    separators = _flags(ids, [i for i in special if i > 0])
    shape = layout(ids.shape[1], _heads(model, sites))

    before = getattr(model.config, "_attn_implementation", "its own")
    _forward(model, ids[:, :16])  # the first call of a process pays for what later ones find ready
    with _progress(err, model, sites, "plain forward"):
        _, plain = measured(lambda: _forward(model, ids), again=2)
    with _progress(err, model, sites, "watching every head"):
        reading, watched = measured(partial(score_heads, model, ids, separators=separators, observe=shape.observers()))

    layers = 1 + max(head.layer for head in reading.heads)
    title = f"What the {len(reading.heads)} heads of {Path(name).name or name} do"
    begins = _beginning(source.text)
    what = f"{layers} layers, {len(reading.heads)} heads, {ids.shape[1]} tokens{cut} of {source.name}: “{begins}”"
    facts = [
        (f"plain forward ({before})", str(plain)),
        ("every head watched", str(watched)),
        ("weights", _short(dtype)),
    ]
    html = page(reading, shape, texts, title=title, subtitle=what, facts=facts, special=special)
    return _Looked(title, what, before, plain, watched, reading, html)


def _say(out: Any, looked: _Looked) -> None:
    """Prints it."""
    from headwise.cli._report import print_grid, print_leading

    plain, watched = looked.plain, looked.watched
    out.print(looked.title, style="bold")
    out.print(looked.what)
    out.print()
    more = f"; {watched.seconds / plain.seconds:.1f} times the plain forward" if plain.seconds else ""
    out.print(f"plain forward ({looked.before})   {plain}", soft_wrap=True)
    out.print(f"every head watched     {watched}{more}", soft_wrap=True)
    runs = "one run each" if plain.runs == 1 else f"median of {plain.runs} runs, and one run"
    told = "; peak: the most memory resident, weights included" if plain.peak is not None else ""
    out.print(f"({runs}{told})", style="dim")
    out.print()
    print_grid(out, looked.reading.heads)
    out.print()
    print_leading(out, looked.reading.heads)


def _tokenized(model: Any, tokenizer: Any, name: str, source: _Source, tokens: int | None) -> tuple[Any, str]:
    """Token ids [1, T] and what to say about their number."""
    import torch

    from headwise.heads.texts import context

    if tokenizer is None:
        raise SpecError(
            sentence("look", f"{name} has no tokenizer", "a text is read through one", todo="Save it beside the model.")
        )
    limit = context(model)
    if tokens is not None and limit is not None and tokens > limit:
        raise SpecError(
            sentence(
                "look",
                f"--tokens is {tokens:,}, the context of {name} is {limit:,}",
                todo=f"Use --tokens {limit} or less.",
            )
        )
    most = tokens or (min(_TOKENS, limit or _TOKENS) if source.ours else None)
    text = source.text if most is None else source.text[: _LONGEST * most]  # what will not be read is not tokenized
    ids = (
        tokenizer(text, truncation=True, max_length=most) if most else tokenizer(text, truncation=False, verbose=False)
    )
    ids = torch.tensor([ids["input_ids"]])
    count = ids.shape[1]
    if limit is not None and count > limit:
        raise SpecError(
            sentence(
                "look",
                f"the text has {count:,} tokens, the context of {name} is {limit:,}",
                todo=f"Read its beginning with --tokens {limit}.",
            )
        )
    if count < 2:
        raise SpecError(sentence("look", f"the text is {count} token", "a head has a choice from two tokens on"))
    return ids, " (all there are)" if tokens is not None and count < tokens else ""


def _heads(model: Any, sites: list[str]) -> int:
    """About how many query heads run; it only sizes the page. Layers that share their weights are one site."""
    configs = [getattr(model.get_submodule(site), "config", model.config) for site in sites]
    found = [int(getattr(config, "num_attention_heads", None) or 12) for config in configs]
    runs = int(getattr(model.config, "num_hidden_layers", None) or len(sites))
    return max(sum(found), runs * found[0])


def _beginning(text: str) -> str:
    """A text on one line, with an ellipsis where it goes on."""
    text = text.strip()
    start = text[:_LONGEST]
    line = " ".join("".join(c if c.isprintable() else " " for c in start).split())
    return line if len(line) <= _SHOWN and start == text else f"{line[:_SHOWN].rstrip()} …"


def _flags(ids: Any, where: list[int]) -> Any:
    import torch

    flags = torch.zeros_like(ids, dtype=torch.bool)
    flags[:, where] = True
    return flags


def _forward(model: Any, ids: Any) -> None:
    import torch

    with torch.no_grad():
        model(input_ids=ids)


@contextlib.contextmanager
def _progress(err: Any, model: Any, sites: list[str], what: str) -> Iterator[None]:
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


def _short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
