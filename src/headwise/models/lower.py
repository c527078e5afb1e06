"""transformers' mask functions, recognised by what they close over and said again as headwise masks.

transformers describes a mask by a function ``fn(b, h, q, k) -> bool`` on absolute indices, built from a handful of
parts by ``and_masks`` and ``or_masks``. The parts are known by their code objects; a part that is not known becomes
``hw.Rule``, which is exact and only slower.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import Tensor

from headwise.models.library import transformers
from headwise.spec import Causal, Chunks, Documents, Mask, Rule, Window

__all__ = ["Place", "holds_causal", "lower", "window"]


@dataclass(frozen=True, eq=False)
class Place:
    """Which rectangle of absolute indices a mask is wanted for.

    Attributes:
        batch: rows of the batch.
        queries: T, the queries.
        keys: S, the keys.
        q_offset: absolute index of query 0, an int or a tensor of one element.
        kv_offset: absolute index of key 0.
        device: where the model runs.
    """

    batch: int
    queries: int
    keys: int
    q_offset: int | Tensor
    kv_offset: int
    device: torch.device

    @property
    def q_start(self) -> int | Tensor:
        """The position of query 0 on the key axis, in headwise's sense."""
        start = self.q_offset - self.kv_offset
        if not isinstance(start, Tensor):
            return int(start)
        # one number for all rows: as an int where reading it costs nothing, else as a tensor that stays on the device
        return int(start) if start.device.type == "cpu" else start.reshape(1).expand(self.batch)

    def query_indices(self) -> Tensor:
        """Absolute indices of the queries, int64 [T]."""
        return torch.arange(self.queries, device=self.device, dtype=torch.int64) + self.q_offset

    def key_indices(self) -> Tensor:
        """Absolute indices of the keys, int64 [S]."""
        return torch.arange(self.keys, device=self.device, dtype=torch.int64) + self.kv_offset


def window(size: int, causal: bool) -> Window:
    """Converts a window of transformers.

    Args:
        size: a causal mask's ``sliding_window`` counts the visible keys with the query's own, a bidirectional mask's
            counts those on one side without it.
        causal: which of the two.

    Returns:
        The same window counted headwise's way: the OTHER keys on each side.

    Example:
        >>> from headwise.models.lower import window
        >>> window(4, causal=True), window(4, causal=False)
        (Window(before=3, after=0), Window(before=4, after=4))
    """
    return Window(size - 1, 0) if causal else Window(size, size)


@functools.cache
def _known() -> dict[CodeType, str]:
    """The code objects of transformers' mask parts; all functions made by one factory share one code object."""
    m = transformers("use", "masking_utils")
    fn = m.causal_mask_function
    ids = torch.zeros(1, 1, dtype=torch.int64, device="cpu")
    return {
        fn.__code__: "causal",
        m.bidirectional_mask_function.__code__: "everything",
        m.and_masks(fn).__code__: "and",
        m.or_masks(fn).__code__: "or",
        m.sliding_window_overlay(1).__code__: "window",
        m.sliding_window_bidirectional_overlay(1).__code__: "two_sided_window",
        m.chunked_overlay(1, ids[0]).__code__: "chunks",
        m.blockwise_overlay(ids).__code__: "blockwise",
        m.packed_sequence_mask_function(ids).__code__: "packed",
        m.remap_positions_for_packed_sequence(fn, ids).__code__: "remap",
    }


def _held(fn: Callable[..., Any]) -> dict[str, Any]:
    """What a function closes over, by name."""
    return dict(zip(fn.__code__.co_freevars, (cell.cell_contents for cell in fn.__closure__ or ()), strict=True))


def _kind(fn: Callable[..., Any]) -> str:
    return _known().get(getattr(fn, "__code__", None), "unknown")  # type: ignore[arg-type]


#: "Every cell": what None says at the border, told apart here from "not yet known".
_EVERYTHING = None


def lower(fn: Callable[..., Any], place: Place, vmapped: bool = False) -> Mask | None:
    """Says a transformers mask function as a headwise mask.

    Args:
        fn: ``fn(b, h, q, k) -> bool`` on absolute indices.
        place: the rectangle it is wanted for.
        vmapped: True where an unknown part may hold code that only works on single indices.

    Returns:
        The mask, to be used with ``q_start=place.q_start``; None where every cell is visible.
    """
    return _Lowering(place, vmapped).of(fn, packed=False)


@dataclass(frozen=True)
class _Lowering:
    place: Place
    vmapped: bool

    def of(self, fn: Callable[..., Any], packed: bool) -> Mask | None:
        kind = _kind(fn)
        held = _held(fn) if kind != "unknown" else {}
        if kind == "and":
            parts = held["mask_functions"]
            inside = packed or any(_kind(part) == "packed" for part in parts)
            return _all([self.of(part, inside) for part in parts])
        if kind == "or":
            return _any([self.of(part, packed) for part in held["mask_functions"]])
        if kind == "remap":
            # positions restart at each packed sequence; inside one sequence they differ from the indices by a constant,
            # which causal masks and windows do not see. Outside of it only `packed` hides, so it must be there.
            inner = held["mask_function"]
            return self.of(inner, packed) if packed and _only_differences(inner) else self._rule(fn)
        if kind == "everything":
            return _EVERYTHING
        if kind == "unknown":
            return self._rule(fn)
        return self._part(kind, held)

    def _part(self, kind: str, held: dict[str, Any]) -> Mask:
        place = self.place
        if kind == "causal":
            return Causal()
        if kind == "window":
            return Window(before=window(int(held["sliding_window"]), causal=True).before)
        if kind == "two_sided_window":
            return window(int(held["sliding_window"]), causal=False)
        if kind == "chunks":
            return Chunks(int(held["chunk_size"]), start=_one_number(held["left_padding"].long() - place.kv_offset))
        ids = held["packed_sequence_mask"] if kind == "packed" else held["block_sequence_ids"]
        queries, keys = ids[:, place.query_indices()].long(), ids[:, place.key_indices()].long()
        if kind == "blockwise":
            # -1 belongs to no block, so a query outside must not find a key outside
            queries, keys = queries.clamp(min=-1), keys.masked_fill(keys < 0, -2)
        return Documents(queries, keys)

    def _rule(self, fn: Callable[..., Any]) -> Rule:
        q_offset, kv_offset = self.place.q_offset, self.place.kv_offset
        call = _one_by_one(fn) if self.vmapped else fn

        def rule(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            # transformers' masks have one head axis of size 1: every head asks with index 0
            kept: Tensor = call(b, torch.zeros_like(h), i + q_offset, j + kv_offset)
            return kept

        return Rule(rule)


def _one_number(values: Tensor) -> int | Tensor:
    """A tensor [B] whose entries agree as one int, where reading them costs nothing."""
    if values.device.type == "cpu" and len(values) and bool((values == values[0]).all()):
        return int(values[0])
    return values


def _only_differences(fn: Callable[..., Any]) -> bool:
    """Whether a mask function reads nothing but the distance between query and key."""
    kind = _kind(fn)
    if kind in ("and", "or"):
        return all(_only_differences(part) for part in _held(fn)["mask_functions"])
    return kind in ("causal", "everything", "window", "two_sided_window")


def holds_causal(fn: Callable[..., Any]) -> bool:
    """Whether a mask function is transformers' causal mask, or has it as a part."""
    kind = _kind(fn)
    if kind in ("and", "or"):
        return any(holds_causal(part) for part in _held(fn)["mask_functions"])
    return kind == "causal" or (kind == "remap" and holds_causal(_held(fn)["mask_function"]))


def _all(parts: list[Mask | None]) -> Mask | None:
    found = [part for part in parts if part is not None]
    return functools.reduce(lambda a, b: a & b, found) if found else _EVERYTHING


def _any(parts: list[Mask | None]) -> Mask | None:
    if any(part is None for part in parts):
        return _EVERYTHING
    return functools.reduce(lambda a, b: a | b, [part for part in parts if part is not None])


def _one_by_one(fn: Callable[..., Any]) -> Callable[..., Tensor]:
    """The function mapped over single cells, for mask code that cannot broadcast; transformers maps it the same way."""
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    mapped = torch.vmap(fn)

    def call(*indices: Tensor) -> Tensor:
        spread = torch.broadcast_tensors(*indices)
        with TransformGetItemToIndex():
            kept = mapped(*(index.reshape(-1) for index in spread))
        return kept.reshape(spread[0].shape)

    return call
