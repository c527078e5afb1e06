"""A table of heads, and the formats it is written in."""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headwise.errors import SpecError, UnavailableError, sentence
from headwise.heads.columns import SCORES
from headwise.placing import replacing

__all__ = ["HeadTable", "check_place"]

Row = Mapping[str, Any]

_WHOLE = ("layer", "head", "original_head", "best_offset")  # columns of whole numbers; those that end in _n as well
_WORDS = ("site", "attention", "label")
_SHOWN = (
    "induction", "prefix_matching", "copying", "duplicate_token", "previous_token", "next_token", "first_token",
    "separator", "locality", "entropy", "retrieval",
)  # fmt: skip
_MOST = 20  # rows of a table that is printed


@dataclass(frozen=True, eq=False, repr=False)
class HeadTable:
    """One row a head: who it is, its scores, each beside its chance level and an interval over texts, and its labels.

    Columns ``layer`` (index of the site in ``hw.sites(model)``; where a site runs several times in a forward, as in
    ALBERT, each run counts as a layer, by site and then by run), ``head``, ``original_head`` (its number before heads
    were pruned), ``site`` (the run's name), ``attention`` ("self", "cross", "other"), ``label`` (its labels, joined by
    commas; "" = none), ``best_offset``, and for each score ``x`` also ``x_chance``, ``x_low``, ``x_high``. What nothing
    shows is None here, NaN or null in what is written.

    Attributes:
        rows: a mapping of column to value for each head, layer by layer.
        row_labels: the labels of each row: what it clears the chance level of, by a margin and 3 standard errors.
        columns: names, in order.
        seconds: what each part of the work took.
        texts: how many tokens each text had.
    """

    rows: tuple[Row, ...]
    row_labels: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    seconds: Mapping[str, float]
    texts: tuple[int, ...]

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        labels: Sequence[Sequence[str]],
        columns: Sequence[str],
        seconds: Mapping[str, float],
        texts: Sequence[int],
    ) -> HeadTable:
        """A table of finished rows and the labels of each; NaN becomes None, and ``label`` shows the labels."""
        kept = tuple(
            MappingProxyType({name: _told(told.get(name)) for name in columns})
            for told in ({**row, "label": ", ".join(own)} for row, own in zip(rows, labels, strict=True))
        )
        return cls(kept, tuple(map(tuple, labels)), tuple(columns), MappingProxyType(dict(seconds)), tuple(texts))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def labels(self) -> dict[tuple[int, int], tuple[str, ...]]:
        """The labels of each head, by (layer, head); empty where it clears no chance level."""
        return {(row["layer"], row["head"]): own for row, own in zip(self.rows, self.row_labels, strict=True)}

    def sorted(self, by: str | None = None, top: int | None = None) -> HeadTable:
        """The heads with the highest scores first.

        Args:
            by: a column of numbers; None = the order of the layers.
            top: keep only so many rows; None = all.

        Raises:
            SpecError: no such column, or one of words; top below 1.
        """
        if top is not None and (isinstance(top, bool) or not isinstance(top, int) or top < 1):
            raise SpecError(sentence("head_table", f"top is {top!r}", "it counts rows, 1 or more"))
        order = list(range(len(self.rows)))
        if by is not None:
            if by not in self.columns or by in _WORDS:
                names = ", ".join(name for name in self.columns if name in SCORES or name.startswith("relation:"))
                raise SpecError(
                    sentence("head_table", f"there is no column {by!r} to sort by", f"scores of this table: {names}")
                )
            order.sort(key=lambda at: -math.inf if self.rows[at][by] is None else self.rows[at][by], reverse=True)
        rows, labels = tuple(self.rows[at] for at in order[:top]), tuple(self.row_labels[at] for at in order[:top])
        return HeadTable(rows, labels, self.columns, self.seconds, self.texts)

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``: whole numbers as integers, scores as float64, NaN where absent.

        Raises:
            UnavailableError: pandas is not installed.
        """
        pandas = _needed("pandas", "to_pandas")
        series = {}
        for name in self.columns:
            values = [row[name] for row in self.rows]
            kind = (
                "str" if name in _WORDS else "float64" if not _whole(name) else "Int64" if None in values else "int64"
            )
            if kind == "float64":
                values = [math.nan if value is None else value for value in values]
            series[name] = pandas.Series(values, dtype=kind)
        return pandas.DataFrame(series)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Writes a Parquet file; scores that are absent are null.

        Raises:
            UnavailableError: pyarrow is not installed.
            SpecError: the file cannot be written.
        """
        arrow = _needed("pyarrow", "to_parquet")
        parquet = import_module("pyarrow.parquet")
        kinds = [
            (name, arrow.string() if name in _WORDS else arrow.int64() if _whole(name) else arrow.float64())
            for name in self.columns
        ]
        made = arrow.Table.from_pylist([dict(row) for row in self.rows], schema=arrow.schema(kinds))
        _written(path, lambda file: parquet.write_table(made, file))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Writes a UTF-8 CSV file with a header; scores that are absent are empty.

        Raises:
            SpecError: the file cannot be written.
        """
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        _written(path, lambda file: file.write(text.getvalue().encode()))

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The table as JSON, a list of one object a head; scores that are absent are null.

        Args:
            path: where to write it as well; None = nowhere.

        Returns:
            The text.

        Raises:
            SpecError: the file cannot be written.
        """
        text = json.dumps([dict(row) for row in self.rows], indent=1, allow_nan=False)
        if path is not None:
            _written(path, lambda file: file.write(text.encode()))
        return text

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file of the kind that its name ends in: .csv, .json or .parquet.

        Raises:
            SpecError: another ending, or the file cannot be written.
            UnavailableError: pyarrow is not installed.
        """
        check_place(path)
        kinds: dict[str, Callable[[str | os.PathLike[str]], Any]] = {
            ".csv": self.to_csv,
            ".json": self.to_json,
            ".parquet": self.to_parquet,
        }
        kinds[Path(path).suffix.lower()](path)

    def shown(self, scores: Sequence[str] | None = None) -> tuple[list[str], list[list[str]]]:
        """Header and cells for people: the head, its labels, and some scores with their chance levels in brackets."""
        names = [name for name in (scores or _SHOWN) if name in self.columns]
        names = [name for name in names if any(row[name] is not None for row in self.rows)]
        cells = [
            [f"{row['layer']}.{row['head']}", row["label"], *(_cell(row, name) for name in names)] for row in self.rows
        ]
        return ["head", "label", *names], cells

    def __rich__(self) -> Any:
        table = import_module("rich.table").Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, title=repr(self))
        header, cells = self.sorted(top=_MOST).shown()
        for name in header:
            table.add_column(name.replace("_", " "), no_wrap=name == "head")
        for row in cells:
            table.add_row(*row)
        return table

    def __str__(self) -> str:
        header, cells = self.sorted(top=_MOST).shown()
        lines = [header, *cells]
        widths = [max(len(line[at]) for line in lines) for at in range(len(header))]
        told = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
        ]
        left = len(self) - len(cells)
        return "\n".join([repr(self), *told, *([f"... {left} more"] if left > 0 else [])])

    def __repr__(self) -> str:
        tokens = sum(self.texts)
        texts = f"{len(self.texts)} text{'' if len(self.texts) == 1 else 's'}"
        labelled = sum(map(bool, self.row_labels))
        return f"HeadTable({len(self)} heads, {labelled} with a label; {texts} of {tokens:,} tokens in all)"


def check_place(path: str | os.PathLike[str]) -> None:
    """Raises where ``HeadTable.save`` would, before anything is computed."""
    place = Path(path)
    if place.suffix.lower() not in (".csv", ".json", ".parquet"):
        raise SpecError(
            sentence("head_table", f"{place} ends in {place.suffix!r}", "a table is a .csv, .json or .parquet file")
        )
    if place.is_dir() or not os.access(place if place.exists() else place.parent, os.W_OK):
        raise SpecError(sentence("head_table", f"cannot write {place}", "name a file in a folder you may write to"))
    if place.suffix.lower() == ".parquet":
        _needed("pyarrow", "to_parquet")


def _told(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _whole(name: str) -> bool:
    return name in _WHOLE or name.endswith("_n")


def _cell(row: Row, name: str) -> str:
    value, chance = row[name], row.get(f"{name}_chance")
    if value is None:
        return ""
    return f"{value:.2f}" if chance is None else f"{value:.2f} ({chance:.2f})"


def _needed(package: str, who: str) -> Any:
    try:
        return import_module(package)
    except ImportError as missing:
        what, rule = f"package {package} is not installed", "to_csv and to_json need no package"
        raise UnavailableError(sentence(who, what, rule, todo=f"Install it: pip install {package}.")) from missing


def _written(path: str | os.PathLike[str], write: Callable[[Any], Any]) -> None:
    with replacing(path, "head_table") as file:
        write(file)
