"""``headwise look``: what each head of a model does on a text, in the terminal and as one page."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
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
    from headwise.cli._measure import Cost
    from headwise.heads import Reading

__all__ = ["look"]


def look(
    model: Annotated[
        str, typer.Argument(help="smollm2, minilm, two-layer, a folder that save_pretrained wrote, or a .gguf file.")
    ] = "smollm2",
    text_file: TextFile = None,
    text: Text = None,
    tokens: Tokens = None,
    html: Annotated[Path, typer.Option(help="Where to write the page.")] = Path("look.html"),
    dtype: Annotated[str, typer.Option(help="Of the weights: float32, bfloat16 or float16.")] = "float32",
) -> None:
    """What each attention head of a model does on a text.

    Runs the model once, asks every head while it runs, prints a grid of what each does and writes one page that opens
    offline: a map of each head, its top keys on the text, and the most telling heads down to single cells.

    \b
    Example:
        headwise look smollm2 --tokens 512
        headwise look minilm --text "The cat sat on the mat, and the cat slept." --html cat.html
        headwise look ./my-model --text-file essay.txt
    """
    from rich.console import Console

    from headwise.placing import replacing

    wanted = dtype_of("look", dtype)
    check_tokens("look", tokens)
    source = source_of("look", text, text_file)
    if html.suffix.lower() not in (".html", ".htm"):
        raise SpecError(sentence("look", f"--html is {html}", "the page is an .html file"))
    show_every_sign()
    # No markup: a text or a path may hold square brackets.
    out, err = Console(highlight=False, markup=False), Console(stderr=True, highlight=False, markup=False)
    with replacing(html, "look") as file:  # opened first: one that cannot be written is said before the model runs
        looked = _examine(model, source, tokens, wanted, err)
        file.write(looked.page.encode("utf-8"))
    _say(out, looked)
    out.print(f"\nPage: {html} ({len(looked.page) / 1e6:.1f} MB, opens offline in any browser)", soft_wrap=True)


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


def _examine(name: str, source: Source, tokens: int | None, dtype: Any, err: Any) -> _Looked:
    """Loads the model and runs it, plain and watched."""
    import headwise as hw
    from headwise.cli._measure import measured
    from headwise.models.token_text import pieces
    from headwise.viewer import Answers
    from headwise.viewer.of_model import run_model
    from headwise.viewer.saved import saved_page

    with loading(err, name):
        model, tokenizer = hw.load(name, dtype=dtype)
    sites = hw.sites(model)
    ids, cut = tokenized("look", model, tokenizer, name, source, tokens)
    texts, special = pieces(tokenizer, source.text[: LONGEST * ids.shape[1]], ids[0].tolist())

    before = getattr(model.config, "_attn_implementation", "its own")
    _forward(model, ids[:, :16])  # the first call of a process pays for what later ones find ready
    with progress(err, model, sites, "plain forward"):
        _, plain = measured(lambda: _forward(model, ids), again=2)
    with progress(err, model, sites, "watching every head"):
        ran, watched = measured(partial(run_model, model, ids, labels=texts, special=special))

    layers, heads = len(ran.scene.sites), len(ran.reading.heads)
    title = f"What the {heads} heads of {Path(name).name or name} do"
    begins = beginning(source.text)
    what = f"{layers} layers, {heads} heads, {ids.shape[1]} tokens{cut} of {source.name}: “{begins}”"
    facts = (("weights", _short(dtype)),)  # no times: a page is kept, and what one run took is no measurement
    scene = replace(ran.scene, title=title, subtitle=what, facts=facts)
    with err.status("writing the page") if err.is_terminal else nullcontext():
        html = saved_page(Answers(scene))
    return _Looked(title, what, before, plain, watched, ran.reading, html)


def _say(out: Any, looked: _Looked) -> None:
    """Prints it."""
    from headwise.cli._report import print_grid, print_leading

    plain, watched = looked.plain, looked.watched
    out.print(looked.title, style="bold")
    out.print(looked.what)
    out.print()
    out.print(f"plain forward ({looked.before})   {plain}", soft_wrap=True)
    out.print(f"every head watched     {watched}", soft_wrap=True)
    peak = "; peak: the most memory resident, weights included" if plain.peak is not None else ""
    out.print(f"(times of a few runs, no measurement{peak})", style="dim")
    out.print()
    print_grid(out, looked.reading.heads)
    out.print()
    print_leading(out, looked.reading.heads)


def _forward(model: Any, ids: Any) -> None:
    import torch

    with torch.no_grad():
        model(input_ids=ids)


def _short(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")
