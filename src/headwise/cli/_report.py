"""What ``headwise look`` prints: the grid of heads and the leading heads of each kind."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwise.heads import KINDS, MIXED, Head, Kind
from headwise.heads.scores import FEWEST
from headwise.viewer.page import COLOURS

__all__ = ["print_grid", "print_leading"]

_BESIDE = 40  # columns that the legend needs beside the grid
_TITLE, _ENTRY = 18, 20  # columns of a kind's title and of one head in the table of leading heads


def print_grid(console: Console, heads: Sequence[Head]) -> None:
    """Prints one row a layer, one letter a head, and the legend beside or below it.

    Args:
        console: where to; letters alone say it all, so a pipe loses nothing but colour.
        heads: of the whole model.
    """
    grid, width = _grid(heads)
    legend = _legend(heads)
    if width + _BESIDE <= console.width:
        lines = max(len(grid), len(legend))
        for n in range(lines):
            left = grid[n] if n < len(grid) else Text(" " * width)
            left.pad_right(max(0, width - left.cell_len) + 4)
            console.print(left + legend[n] if n < len(legend) else left, soft_wrap=True)
        return
    for line in [*grid, Text(""), *legend]:
        console.print(line, soft_wrap=True)


def _grid(heads: Sequence[Head]) -> tuple[list[Text], int]:
    """The rows, and how wide they are."""
    columns = 1 + max(head.head for head in heads)
    step = 2 if columns <= 32 else 1
    rows: dict[int, Text] = {}
    for head in heads:
        row = rows.setdefault(head.layer, Text(f"{head.layer:>5} "))
        kind = KINDS.get(head.kind, MIXED)
        row.append(kind.letter, style=_style(kind, head))
        row.append(" " * (step - 1))
    marks = Text("layer ")
    for n in range(columns):
        marks.append(str(n % 10) if step == 1 or n < 10 else str(n % 100)[-1])
        marks.append(" " * (step - 1))
    return [marks.copy(), *rows.values()], 6 + step * columns


def _style(kind: Kind, head: Head) -> str:
    if kind is MIXED:
        return "dim"
    # Twice its margin and more is shown as a block, less as a coloured letter.
    strong = kind.margin == 0 or head.lift(kind.name) >= 2 * kind.margin
    return f"bold #000000 on {COLOURS[kind.name]}" if strong else f"bold {COLOURS[kind.name]}"


def _legend(heads: Sequence[Head]) -> list[Text]:
    counts = Counter(head.kind for head in heads)
    lines = [Text("what a head does on this text", style="dim")]
    for kind in (*KINDS.values(), MIXED):
        if counts[kind.name]:
            line = Text()
            line.append(kind.letter, style="dim" if kind is MIXED else f"bold #000000 on {COLOURS[kind.name]}")
            line.append(f" {kind.title:<17}{counts[kind.name]:>5} head{'s' if counts[kind.name] > 1 else ''}")
            lines.append(line)
    lines += [
        Text(line, style="dim")
        for line in ("", "a letter clears its margin over chance,", "a block clears it twice over")
    ]
    return lines


def print_leading(console: Console, heads: Sequence[Head], most: int = 3) -> None:
    """Prints for each kind the heads with the highest scores, each beside its chance level.

    Args:
        console: where to.
        heads: of the whole model.
        most: how many heads of each kind, fewer where the terminal is narrow.
    """
    most = max(1, min(most, (console.width - _TITLE) // _ENTRY))
    console.print("leading heads of each kind: layer.head, score (chance)", style="dim")
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    for _ in range(1 + most):
        table.add_column(no_wrap=True)
    thin = False
    for kind in KINDS.values():
        able = [head for head in heads if kind.name in head.scores]
        if not able:
            continue
        able.sort(key=lambda head: -head.scores[kind.name])
        few = all(math.isinf(head.error.get(kind.name, 0.0)) for head in able)
        thin = thin or few
        table.add_row(kind.title + (" *" if few else ""), *(_entry(head, kind) for head in able[:most]))
    console.print(table)
    if thin:
        console.print(
            f"* fewer than {FEWEST} tokens of this text could show it: too few to call a head by it.", style="dim"
        )
    console.print(
        "Chance: a head that spreads evenly over the keys it may see, on the same tokens.\n"
        "Broad: entropy over its maximum, which an even head reaches (1.000).",
        style="dim",
    )


def _entry(head: Head, kind: Kind) -> Text:
    name = f"{head.layer}.{head.head}"
    entry = Text(f"{name:>5} ")
    entry.append(f"{head.scores[kind.name]:.2f}", style="bold" if head.kind == kind.name else "")
    entry.append(f" ({head.chance[kind.name]:.3f})", style="dim")
    return entry
