"""``headwise heads``: a table of every head of a model, each score beside its chance level."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwise.cli._given import dtype_of
from headwise.errors import SpecError, sentence

if TYPE_CHECKING:
    from headwise.heads import HeadTable

__all__ = ["heads"]

_PARTS = {
    "layout": "finding the heads",
    "texts": "watching every head on texts",
    "random_tokens": "random repeated tokens",
    "ov_copying": "copying by weights",
    "retrieval": "needle test",
    "relations": "relations",
}
_CELL, _BESIDE = 14, 30  # columns of one score, and of a head with its labels


def heads(
    model: Annotated[
        str, typer.Argument(help="smollm2, minilm, two-layer, a folder that save_pretrained wrote, or a .gguf file.")
    ] = "smollm2",
    text_file: Annotated[
        list[Path] | None,
        typer.Option(help="Read this UTF-8 file as a text; may be given several times.", show_default=False),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(
            help="Read only so many tokens of each text. Default: all of your texts, 256 of each of the eight pages "
            "that ship with Python.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write all heads and columns: a .csv, .json or .parquet.", show_default=False)
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(help="Show the heads with the highest scores of this column first.", show_default=False),
    ] = None,
    top: Annotated[int, typer.Option(help="Show so many heads.")] = 20,
    relations: Annotated[
        Path | None, typer.Option(help="Score relations of this .conllu or .jsonl file.", show_default=False)
    ] = None,
    retrieval: Annotated[bool, typer.Option("--retrieval", help="Run the needle test, too: minutes.")] = False,
    dtype: Annotated[str, typer.Option(help="Of the weights: float32, bfloat16 or float16.")] = "float32",
) -> None:
    """A row for each attention head of a model: every score beside its chance level.

    Scores come from texts, from random repeated tokens and from the weights; what took how long is said apart. A label
    stands where a score clears its chance level. With two texts or more each score has a 95 % interval, in --out.

    \b
    Example:
        headwise heads smollm2 --sort prefix_matching
        headwise heads minilm --tokens 128 --out heads.parquet
        headwise heads ./my-model --text-file a.txt --text-file b.txt --out heads.csv
    """
    from rich.console import Console

    from headwise.heads.columns import SCORES
    from headwise.heads.frame import check_place
    from headwise.heads.prose import text_in

    wanted = dtype_of("heads", dtype)
    if top < 1:
        raise SpecError(sentence("heads", f"--top is {top}", "it counts rows, 1 or more"))
    if sort is not None and sort not in SCORES and not sort.startswith("relation:"):
        raise SpecError(sentence("heads", f"--sort is {sort!r}", f"it is a score: {', '.join(SCORES)}, relation:NAME"))
    if sort is not None and (sort.startswith("relation:") > bool(relations) or (sort == "retrieval" and not retrieval)):
        needed = "--retrieval" if sort == "retrieval" else "--relations FILE"
        raise SpecError(sentence("heads", f"--sort is {sort!r}", f"that score is there with {needed} only"))
    texts = None if text_file is None else [text_in("heads", path) for path in text_file]
    if out is not None:
        check_place(out)  # said before the model runs
    # No markup: a path may hold square brackets.
    screen, err = Console(highlight=False, markup=False), Console(stderr=True, highlight=False, markup=False)
    table = _scored(model, wanted, err, texts=texts, tokens=tokens, relations=relations, retrieval=retrieval)
    if out is not None:
        table.save(out)
    shown = table.sorted(sort, top)
    _say(screen, table, shown, sort)
    if out is not None:
        screen.print(f"\nTable: {out} ({len(table)} heads, {len(table.columns)} columns)", soft_wrap=True)


def _scored(name: str, dtype: Any, err: Any, **options: Any) -> HeadTable:
    """Loads the model and scores it."""
    import headwise as hw

    with err.status(f"loading {name}") if err.is_terminal else contextlib.nullcontext():
        model, tokenizer = hw.load(name, dtype=dtype)
    if tokenizer is None:
        what = f"{name} has no tokenizer"
        raise SpecError(sentence("heads", what, "a text is read through one", todo="Save it beside the model."))
    with _progress(err) as step:
        return hw.head_table(model, tokenizer, progress=step, **options)


@contextlib.contextmanager
def _progress(err: Any) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each part of the work on standard error; where that is no terminal, a line as each begins."""
    if not err.is_terminal:
        begun: set[str] = set()

        def line(part: str, done: int, steps: int) -> None:
            if part not in begun:
                begun.add(part)
                err.print(f"{_PARTS.get(part, part)} ...", soft_wrap=True)

        yield line
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def step(part: str, done: int, steps: int) -> None:
            if part not in tasks:
                tasks[part] = bar.add_task(_PARTS.get(part, part))
            bar.update(tasks[part], completed=done, total=steps)

        yield step


def _say(screen: Any, table: HeadTable, shown: HeadTable, sort: str | None) -> None:
    """Prints the heads that were asked for, and what each part of the work took."""
    from rich.table import Table

    room = max(1, (screen.width - _BESIDE) // _CELL)
    header, _ = shown.shown()
    names = dict.fromkeys([*([sort] if sort else []), *header[2:]])
    header, rows = shown.shown(list(names)[:room])
    grid = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in header:
        grid.add_column(name.replace("_", " "), no_wrap=name == "head", overflow="fold")
    for row in rows:
        grid.add_row(*row)
    screen.print(repr(table), style="bold", soft_wrap=True)
    screen.print(grid)
    left = len(table) - len(shown)
    if left:
        screen.print(
            f"... {left} more heads; --top shows them, --sort says in which order", style="dim", soft_wrap=True
        )
    told = "in brackets: chance, what a head that spreads evenly over the keys it may see scores on the same tokens"
    if any(name.startswith("relation:") for name in header):
        told += "; of a relation, what its best fixed distance scores"
    screen.print(told, style="dim", soft_wrap=True)
    for part, seconds in table.seconds.items():
        screen.print(f"{_PARTS.get(part, part):<30} {seconds:8.2f} s", soft_wrap=True)
