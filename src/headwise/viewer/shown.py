"""Which pattern is looked at, and what is shown of it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Shown"]


@dataclass(frozen=True)
class Shown:
    """A head of a run, and how its probabilities are shown.

    Attributes:
        layer: index of the site in the scene.
        head: index of the query head.
        b: row of the batch.
        run: which run of the scene.
        minus: the run whose probabilities are taken away; None = none.
        pool: "mean" or "max" over the cells that one shown cell covers.
        hide: the sink key is left out: its column is 0, and nothing else changes.
        norm: each row is divided by its largest shown probability, so that every row has a cell of 1.
    """

    layer: int
    head: int
    b: int = 0
    run: int = 0
    minus: int | None = None
    pool: str = "mean"
    hide: bool = False
    norm: bool = False

    def of_run(self, run: int) -> Shown:
        """The same of one run alone."""
        return Shown(self.layer, self.head, self.b, run, None, self.pool, self.hide, self.norm)
