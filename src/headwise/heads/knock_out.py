"""Knocking out edges: chosen heads may not attend from given queries to given keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from headwise.block import block
from headwise.errors import SpecError, sentence
from headwise.heads.editing import chosen, edited
from headwise.models.edit import Call, Edit, Edited
from headwise.spec import Rule
from headwise.spec.checks import FAR
from headwise.spec.geometry import Cells, Geometry

__all__ = ["knock_out"]

_ROWS = 64  # queries whose masks are read at a time, to see which edges are there to be knocked out


@block("hw.knock_out")
def knock_out(
    model: nn.Module, heads: Mapping[Any, Sequence[int]], edges: Tensor | Sequence[tuple[int, int]]
) -> Iterator[Edited]:
    """Hides edges from chosen heads while the block is open: query i may not attend to key j, in every batch row.

    The softmax is taken over the keys that are left, so their probabilities grow; a query that has none left gives 0.
    Layers with such heads run on a backend that takes a mask given by a function, which ``.backends`` names.

    Args:
        model: a transformers model; one that is not in use is used for the duration.
        heads: ``{layer: [head, ...]}``; a layer is a name or an index of ``hw.sites(model)``.
        edges: pairs (i, j), or int64 [n, 2]: positions on the key axis, so that an edge means the same token in a whole
            forward and in one that goes on from a cache. In cross attention i counts the queries of one forward.

    Yields:
        ``.backends``: for each layer that ran, the backend that ran it.

    Raises:
        SpecError: a layer or head that does not exist; edges that are no pairs of positions; at the end of the block,
            an edge that no run had, or that was hidden anyway.
        UnsupportedError: the model's attention does not go through transformers' interface.

    Source: Geva et al. 2023, "Dissecting Recall of Factual Associations" (arXiv 2304.14767).

    Example:
        >>> import torch, headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> with hw.knock_out(model, {1: [0]}, [(4, 0), (5, 0)]):
        ...     trace = hw.trace(model, input_ids=torch.arange(6)[None])
        >>> trace.pattern(1)[0, 0, 3:6, 0] > 0
        tensor([ True, False, False])
    """
    which = chosen("knock_out", model, heads)
    pairs = _pairs(edges)
    edits = [_Hidden(site, numbers, pairs) for site, numbers in which.items()]
    with edited(model, edits) as told:
        yield told


def _pairs(edges: Any) -> Tensor:
    """Edges as int64 [n, 2], each once."""
    try:
        pairs = torch.as_tensor(edges, device="cpu")
        whole = not (pairs.is_floating_point() or pairs.is_complex() or pairs.dtype == torch.bool)
        pairs = pairs.cpu().long()
    except (TypeError, ValueError, RuntimeError, NotImplementedError):
        pairs, whole = torch.empty(0, 0, dtype=torch.float32, device="cpu"), False
    if pairs.dim() != 2 or pairs.shape[1] != 2 or len(pairs) == 0 or not whole:
        raise SpecError(
            sentence(
                "knock_out",
                f"edges are {list(edges.shape) if isinstance(edges, Tensor) else repr(edges)}",
                "they are pairs (query, key) of positions, at least one",
                todo="Write [(5, 0), (5, 2)].",
            )
        )
    if bool((pairs < 0).any()) or bool((pairs > FAR).any()):
        what = f"an edge has a position of {int(pairs.min()) if bool((pairs < 0).any()) else int(pairs.max())}"
        raise SpecError(sentence("knock_out", what, f"positions are counted from 0, to at most {FAR}"))
    return pairs.unique(dim=0)


class _Hidden(Edit):
    """Hides edges from heads of one layer, and remembers which of them there were to hide."""

    def __init__(self, site: str, heads: Sequence[int], edges: Tensor) -> None:
        super().__init__("knock_out", site, heads)
        self.edges = edges
        self.acted = torch.zeros(len(edges), dtype=torch.bool, device="cpu")

    def before(self, call: Call) -> Call:
        S, first = call.k.shape[2], self.first_query(call)
        edges, heads = self.edges.to(call.q.device), self.index(call.q).sort().values
        edges = torch.stack([edges[:, 0], edges[:, 1] - call.keys_from], 1)
        self._notice(call, first, edges)
        edges = edges[(edges[:, 1] >= 0) & (edges[:, 1] < S)]
        if not len(edges):
            return call
        codes = (edges[:, 0] * S + edges[:, 1]).sort().values

        def kept(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            at = first[b.clamp(max=len(first) - 1)] + i
            return ~(_among(at * S + j, codes) & _among(h, heads))

        rule, mask = Rule(kept), call.options.get("mask")
        return call.but(mask=rule if mask is None else mask & rule)

    def _notice(self, call: Call, first: Tensor, edges: Tensor) -> None:
        """Marks the edges that this call has and that some chosen head sees in some batch row; keys by column."""
        B, H, T, D = call.q.shape
        geometry = Geometry(B, H, call.k.shape[1], T, call.k.shape[2], D, D, call.first_position, call.q.device)
        mask = call.options.get("mask")
        heads = self.index(call.q)
        for b in range(len(first)):
            batch = slice(0, B) if len(first) == 1 else slice(b, b + 1)
            rows = edges[:, 0] - int(first[b])
            there = (rows >= 0) & (rows < T) & (edges[:, 1] >= 0) & (edges[:, 1] < geometry.S)
            there &= ~self.acted.to(there.device)
            for start in torch.unique(rows[there] // _ROWS * _ROWS).tolist():
                part = slice(start, min(start + _ROWS, T))
                mine = (there & (rows >= part.start) & (rows < part.stop)).nonzero()[:, 0]
                if mask is None:
                    self.acted[mine.cpu()] = True
                    continue
                cells = Cells(geometry, batch, slice(0, H), part, slice(0, geometry.S))
                seen = torch.broadcast_to(mask.keep(cells), cells.shape)[:, heads]
                picked = seen[:, :, rows[mine] - part.start, edges[mine, 1]]
                self.acted[mine.cpu()] |= picked.flatten(0, 1).any(0).cpu()

    def finish(self) -> None:
        if not bool(self.acted.all()):
            i, j = self.edges[~self.acted][0].tolist()
            more = int((~self.acted).sum()) - 1
            raise SpecError(
                sentence(
                    "knock_out",
                    f"in no run of the block could query {i} of {self.site} see key {j}"
                    + (f", and {more} more edges" if more else ""),
                    "an edge that is hidden anyway, or lies past the end of the text, cannot be knocked out",
                    todo="Leave it out.",
                )
            )


def _among(values: Tensor, ordered: Tensor) -> Tensor:
    """Which values are in a sorted list."""
    at = torch.searchsorted(ordered, values.contiguous()).clamp(max=len(ordered) - 1)
    return ordered[at] == values
