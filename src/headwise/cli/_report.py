"""What ``headwise look`` prints: the grid of heads and the leading heads of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headwise.heads import KINDS, MIXED, Head, Kind
from headwise.viewer.scene import COLOURS, TOO_FEW, leading

__all__ = ["print_grid", "print_leading"]

_BESIDE = 40  # columns that the legend needs beside the grid
_TITLE, _ENTRY = 18, 20  # columns of a kind's title and of one head in the table of leading heads


def print_grid(console: Console, heads: Sequence[Head]) -> None:
    """Prints one row a layer, one letter a head, and the legend beside or below it.

    Args:
        console: where to; letters alone say it all, so a pipe loses nothing but colour.
        heads: of the whole model.
    """
    grid, width = _grid(heads, console.width)
    legend = _legend(heads, coloured=console.color_system is not None and not console.no_color)
    if width + _BESIDE <= console.width:
        lines = max(len(grid), len(legend))
        for n in range(lines):
            left = grid[n] if n < len(grid) else Text(" " * width)
            left.pad_right(max(0, width - left.cell_len) + 4)
            console.print(left + legend[n] if n < len(legend) else left, soft_wrap=True)
        return
    for line in [*grid, Text(""), *legend]:
        console.print(line, soft_wrap=True)


def _grid(heads: Sequence[Head], room: int) -> tuple[list[Text], int]:
    """The rows, and how wide they are."""
    marks, steps = _header(1 + max(head.head for head in heads), room - 6)
    rows: dict[int, Text] = {}
    for head in heads:
        row = rows.setdefault(head.layer, Text(f"{head.layer:>5} "))
        kind = KINDS.get(head.kind, MIXED)
        row.append(kind.letter, style=_style(kind, head))
        row.append(" " * (steps[head.head] - 1))
    labels = [" " * 6] * (len(marks) - 1) + ["layer "]
    header = [Text(label + mark) for label, mark in zip(labels, marks, strict=True)]
    return [*header, *rows.values()], 6 + sum(steps)


def _header(columns: int, room: int) -> tuple[list[str], list[int]]:
    """The numbers of the heads, side by side where there is room, else digit below digit; and the columns' widths."""
    names = [str(n) for n in range(columns)]
    steps = [len(name) + 1 for name in names]
    if sum(steps) <= room:
        return [" ".join(names)], steps
    step = 2 if 2 * columns <= room else 1
    digits = zip(*(name.rjust(len(names[-1])) for name in names), strict=True)
    return [(" " * (step - 1)).join(row) for row in digits], [step] * columns


def _style(kind: Kind, head: Head) -> str:
    if kind is MIXED:
        return "dim"
    return f"bold #000000 on {COLOURS[kind.name]}" if _strong(kind, head) else f"bold {COLOURS[kind.name]}"


def _strong(kind: Kind, head: Head) -> bool:
    """Whether a head clears its margin twice over: it is shown as a block, not as a coloured letter."""
    return kind.margin == 0 or head.lift(kind.name) >= 2 * kind.margin


def _legend(heads: Sequence[Head], *, coloured: bool) -> list[Text]:
    counts = Counter(head.kind for head in heads)
    lines = [Text("what a head does on this text", style="dim")]
    for kind in (*KINDS.values(), MIXED):
        if counts[kind.name]:
            line = Text()
            line.append(kind.letter, style="dim" if kind is MIXED else f"bold #000000 on {COLOURS[kind.name]}")
            line.append(f" {kind.title:<17}{counts[kind.name]:>5} head{'s' if counts[kind.name] > 1 else ''}")
            lines.append(line)
    strong = [_strong(KINDS[head.kind], head) for head in heads if head.kind in KINDS]
    words = ["a letter clears its margin over chance"] if strong else []
    if coloured and any(strong):  # a block is a colour
        words = [f"{words[0]},", "a block clears it twice over"]
    return lines + [Text(line, style="dim") for line in (["", *words] if words else [])]


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
        first = leading(heads, kind.name)[:most]
        if not first:
            continue
        few = not first[0].told(kind.name)
        thin = thin or few
        table.add_row(kind.title + (" *" if few else ""), *(_entry(head, kind) for head in first))
    console.print(table)
    if thin:
        console.print(TOO_FEW, style="dim")
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
