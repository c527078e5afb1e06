"""The small maps of all heads: sampled at first, then exact, grown a piece at a time while nobody asks for anything."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor

from headwise.errors import HeadwiseError
from headwise.observers import Map
from headwise.pattern import Pattern
from headwise.viewer.sampling import sampled, some_queries
from headwise.viewer.scene import SIDE, Scene

__all__ = ["Overview"]

SAMPLED, EXACT = 1, 2
EACH = 4  # queries that stand for one row of a sampled map
PIECE = 2**25  # cells of the matrix that one piece of work reads, or one row of a map where that is more


class Overview:
    """The small maps of one batch row in one run.

    Args:
        scene: what there is to look at.
        run: which of its runs.
        b: row of the batch.
        version: to count from; that of an overview before this one, whose maps somebody may have.

    Attributes:
        version: counts changes.
        done: nothing will change any more: every map is exact, or one could not be made.
        maps: [N, SIDE, SIDE].
        state: of each map, 0 = nothing yet, SAMPLED or EXACT.
        places: (layer, head) of each.
    """

    def __init__(self, scene: Scene, run: int, b: int, version: int = 0) -> None:
        self.scene, self.run, self.b = scene, run, b
        self.patterns = [scene.pattern(run, layer) for layer in range(len(scene.sites))]
        counts = [pattern.shape[1] for pattern in self.patterns]
        self.places = [(layer, head) for layer, count in enumerate(counts) for head in range(count)]
        self._first = [sum(counts[:layer]) for layer in range(len(counts))]
        self.maps = torch.zeros(len(self.places), SIDE, SIDE, dtype=torch.float32, device="cpu")
        self.state = [0] * len(self.places)
        self.changed = [0] * len(self.places)  # the version of each map
        self.version = version
        if run == 0:
            self._take_known()
        self.done = all(state == EXACT for state in self.state)
        self._pieces = self._grow()

    def work(self) -> bool:
        """Does one small piece; False = there is none left.

        A pattern that cannot be asked any more (its tensors were overwritten) is left out; the page is told why by the
        first question about it.
        """
        try:
            next(self._pieces)
        except StopIteration:
            self.done = True
        except Exception:
            self.done = True
            raise
        except BaseException:  # an interrupt of the kernel's; the next piece begins where this one did
            self._pieces = self._grow()
            raise
        return not self.done

    def _take_known(self) -> None:
        """The maps that the run itself left are exact."""
        for layer, site in enumerate(self.scene.sites):
            if site in self.scene.maps:
                for head, found in enumerate(self.scene.maps[site][self.b]):
                    self._put(layer, head, spread(found), EXACT)

    def _put(self, layer: int, head: int, found: Tensor, state: int) -> None:
        n = self._first[layer] + head
        self.version += 1
        self.maps[n], self.state[n], self.changed[n] = found, state, self.version

    def _grow(self) -> Iterator[None]:
        """The work in pieces: every layer sampled before any head is exact."""
        for layer, pattern in enumerate(self.patterns):
            known = self.state[self._first[layer] : self._first[layer] + pattern.shape[1]]
            with contextlib.suppress(HeadwiseError):
                if not all(known) and self._sample(layer, pattern):
                    yield
        for layer, head in self.places:
            with contextlib.suppress(HeadwiseError):
                if self.state[self._first[layer] + head] != EXACT:
                    yield from self._exact(layer, self.patterns[layer], head)

    def _sample(self, layer: int, pattern: Pattern) -> bool:
        """All heads of a layer at once, from EACH queries for each row of the map; False where that cannot be."""
        _, _, T, S = pattern.shape
        height, width = min(SIDE, T), min(SIDE, S)
        some = some_queries(pattern, self.b, sampled(T, height, EACH)) if height and width else None
        if some is None:
            return False
        found = some.ask(Map(height, width))["map"][0]
        for head, small in enumerate(found):
            self._put(layer, head, spread(small), SAMPLED)
        return True

    def _exact(self, layer: int, pattern: Pattern, head: int) -> Iterator[None]:
        """One head, some rows of the map at a time."""
        _, _, T, S = pattern.shape
        height, width = min(SIDE, T), min(SIDE, S)
        where = {"batch": slice(self.b, self.b + 1), "heads": slice(head, head + 1)}
        yield from pattern.settling(**where)
        lines, start = [], 0
        while start < height:
            stop = min(height, start + max(1, PIECE * height // max(1, T * S)))
            # floor(r * T / height) are the edges of the whole; each piece of them is asked row by row, in one pass.
            rows = [slice(r * T // height, (r + 1) * T // height) for r in range(start, stop)]
            found = pattern.ask(*(Map(1, width, rows=part, name=str(n)) for n, part in enumerate(rows)), **where)
            lines += [found[str(n)][0, 0] for n in range(len(rows))]
            start = stop
            yield
        self._put(
            layer,
            head,
            spread(torch.cat(lines)) if lines else torch.zeros(SIDE, SIDE, dtype=torch.float32, device="cpu"),
            EXACT,
        )


def spread(found: Tensor) -> Tensor:
    """A map of fewer cells than SIDE on a side, drawn larger; float32 [SIDE, SIDE]."""
    height, width = found.shape
    if not height or not width:
        return torch.zeros(SIDE, SIDE, dtype=torch.float32, device="cpu")
    rows, cols = (torch.arange(SIDE, dtype=torch.int64, device="cpu") * length // SIDE for length in (height, width))
    return found.float().cpu().nan_to_num(0.0)[rows][:, cols]


def coded(maps: Tensor) -> tuple[Tensor, list[float]]:
    """uint8 codes of maps [N, SIDE, SIDE] and a scale a map: ``p ~ scale * (code / 255)^2``.

    On a square-root scale small probabilities keep their digits: the error is at most ``sqrt(p * scale) / 255``.
    """
    largest = maps.amax((1, 2)) if len(maps) else maps.new_zeros(0)
    codes = ((maps / largest.clamp(min=1e-30)[:, None, None]).clamp(0, 1).sqrt() * 255).round().to(torch.uint8)
    return codes, [float(f"{value:.5g}") for value in largest.tolist()]
