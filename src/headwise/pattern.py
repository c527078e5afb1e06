"""The pattern that is never stored: index it, zoom it, reduce it, in O(T) memory."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from headwise.backends import Reference, RowFacts, survey
from headwise.errors import HeadwiseError, SpecError, UnsupportedError, sentence
from headwise.observers import (
    Answered,
    Crop,
    Entropy,
    Frame,
    Map,
    MassOn,
    MassWhere,
    Observer,
    Offsets,
    Received,
    Segments,
    TopKeys,
    TopKeysFound,
    named,
)
from headwise.observers import start as begin
from headwise.observers.protocol import Tile, Whole
from headwise.plan import Plan, make_plan
from headwise.products import as_given
from headwise.spec import AttentionSpec, Mask, Rules
from headwise.spec.geometry import span
from headwise.tracing import uncompiled

__all__ = ["DENSE_LIMIT", "Pattern", "answer"]

_NO_TENSOR = "Pattern: a pattern is no tensor, which torch.compile cannot put in a graph"

DENSE_LIMIT = 2**26  # cells that to_dense hands out: 256 MiB of float32


def answer(
    plan: Plan,
    facts: RowFacts | None = None,
    *,
    entropy: Tensor | None = None,
    known: Mapping[str, Any] | None = None,
    definition: bool = False,
    portable: bool = False,
    batch: slice | None = None,
    heads: slice | None = None,
    rows: slice | None = None,
) -> Answered:
    """Answers the plan's observers about a part of its pattern (None = all of it).

    With ``definition`` the answers come from the reference's whole pattern, else from tiles: the native kernels' where
    they know the question, unless ``portable``. ``entropy`` is that of the rows, and ``known`` are answers about all of
    the pattern, if a forward pass left them.
    """
    if not plan.observers:
        return Answered()
    g = plan.geometry
    batch = slice(0, g.B) if batch is None else batch
    heads = slice(0, g.H) if heads is None else heads
    if definition:
        with as_given(g.device):
            return Answered(_defined(plan))
    if rows is None:
        rows = _hull([o.rows(g) if isinstance(o, Observer) else slice(0, g.T) for o in plan.observers.values()])
    keys = _hull([o.keys(g) if isinstance(o, Observer) else slice(0, g.S) for o in plan.observers.values()])
    with as_given(g.device):
        frame = Frame(g, batch, heads, rows, keys, plan.dtype)
        return Answered(survey(plan, facts, frame, plan.observers, entropy=entropy, known=known, portable=portable))


def _hull(parts: list[slice]) -> slice:
    real = [part for part in parts if span(part) > 0]
    if not real:
        return slice(0, 0)
    return slice(min(part.start for part in real), max(part.stop for part in real))


def _defined(plan: Plan) -> dict[str, Any]:
    """The reference's answers; a user's own observer sees the whole pattern as one tile."""
    whole = Reference().whole(plan)
    g = plan.geometry
    frame = Frame(g, slice(0, g.B), slice(0, g.H), slice(0, g.T), slice(0, g.S), plan.dtype)
    found = {}
    for name, observer in plan.observers.items():
        if isinstance(observer, Observer):
            found[name] = observer.define(whole)
            continue
        accumulator = begin(observer, frame)
        tile = {field.name: getattr(whole, field.name) for field in fields(Whole) if field.name != "geometry"}
        accumulator.see(Tile(g.whole(), **tile).copied())
        found[name] = accumulator.result()
    return found


class Pattern:
    """Attention probabilities p [B, H, T, S] as an object that holds only q, k and the options.

    Args:
        q: queries [B, H, T, D].
        k: keys [B, Hk, S, D].
        v: values [B, Hk, S, E]; only Contribution reads them.
        mask, scores, scale, q_start, kv_heads, sinks: as of ``hw.attention``.

    Indexing gives exact probabilities of the cells asked for; every method is one pass over tiles. Nothing is copied,
    so a pattern raises HeadwiseError once one of its tensors has been overwritten.

    Raises:
        ShapeError, SpecError: as of ``hw.attention``.

    Example:
        >>> import torch, headwise as hw
        >>> q = k = torch.zeros(1, 2, 100_000, 4)
        >>> p = hw.Pattern(q, k, mask=hw.Causal())
        >>> p.shape
        torch.Size([1, 2, 100000, 100000])
        >>> p[0, 1, 3:5, 0:4]
        tensor([[0.2500, 0.2500, 0.2500, 0.2500],
                [0.2000, 0.2000, 0.2000, 0.2000]])
    """

    @uncompiled(_NO_TENSOR)
    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor | None = None,
        *,
        mask: Mask | None = None,
        scores: Sequence[Rules] = (),
        scale: float | None = None,
        q_start: int | Tensor | None = None,
        kv_heads: Sequence[int] | None = None,
        sinks: Tensor | None = None,
    ) -> None:
        spec = AttentionSpec(mask, scores, scale, q_start, kv_heads, sinks)
        plan = make_plan("Pattern", q, k, v, spec)
        self._hold(plan.rebind(q.detach(), k.detach(), None if v is None else v.detach(), plan.parameters), None, None)

    @classmethod
    def of_plan(cls, plan: Plan, facts: RowFacts | None = None, entropy: Tensor | None = None) -> Pattern:
        """The pattern of a checked call, with the row facts and the entropy that a forward pass left behind."""
        self = cls.__new__(cls)
        self._hold(plan, facts, entropy)
        return self

    def _hold(self, plan: Plan, facts: RowFacts | None, entropy: Tensor | None) -> None:
        # Tensors made in inference mode count no versions, so an overwrite could not be seen: hold copies of those.
        if any(x.is_inference() for x in plan.tensors()):
            plan = plan.cloned()
        self._plan, self._facts, self._entropy = plan, facts, entropy
        self._versions = [(x, x._version) for x in plan.tensors() if not x.is_inference()]

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a file holds: the operands, and not how often they had been written to here."""
        self._check_fresh()
        return {"plan": replace(self._plan), "facts": self._facts, "entropy": self._entropy}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._hold(state["plan"], state["facts"], state["entropy"])

    @property
    def shape(self) -> torch.Size:
        """(B, H, T, S)."""
        g = self._plan.geometry
        return torch.Size((g.B, g.H, g.T, g.S))

    @property
    def q(self) -> Tensor:
        """The queries [B, H, T, D] that the pattern holds, after whatever the model did to them (rotation, norms)."""
        return self._plan.q

    @property
    def k(self) -> Tensor:
        """The keys [B, Hk, S, D]."""
        return self._plan.k

    @property
    def v(self) -> Tensor | None:
        """The values [B, Hk, S, E], or None for a bare pattern."""
        return self._plan.v

    @property
    def options(self) -> dict[str, Any]:
        """What else the pattern follows from, as keywords: ``hw.attention(p.q, p.k, v, **p.options)`` mixes any v."""
        spec = self._plan.spec
        start = self._plan.geometry.q_start
        found = {name: getattr(spec, name) for name in ("mask", "scores", "kv_heads", "sinks")}
        return {**found, "scale": self._plan.scale, "q_start": start}

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the probabilities: float32, or float64 for float64 operands."""
        return self._plan.dtype

    def __repr__(self) -> str:
        B, H, T, S = self.shape
        return f"Pattern([B={B},H={H},T={T},S={S}], mask={self._plan.spec.mask})"

    def ask(self, *observers: Any) -> dict[str, Any]:
        """Answers several questions in one pass.

        Args:
            observers: built-in observers or objects with see, merge and result.

        Returns:
            The answers by name.

        Example:
            >>> import torch, headwise as hw
            >>> x = torch.zeros(1, 1, 2, 4)
            >>> sorted(hw.Pattern(x, x).ask(hw.Entropy(), hw.Received()))
            ['entropy', 'received']
        """
        return self._ask(list(observers))

    @uncompiled(_NO_TENSOR)
    def _ask(self, observers: list[Any], batch: slice | None = None, heads: slice | None = None) -> dict[str, Any]:
        self._check_fresh()
        questions = named(observers)
        for question in questions.values():
            if isinstance(question, Observer):
                question.check(self._plan.geometry, self._plan.v is not None)
        plan = self._plan.asking(questions)
        return answer(plan, self._facts, entropy=self._entropy, batch=batch, heads=heads)

    def _check_fresh(self) -> None:
        for tensor, version in self._versions:
            if tensor._version != version:
                raise HeadwiseError(
                    sentence(
                        "Pattern",
                        "q, k or another of its tensors was overwritten since the pattern was made",
                        "a pattern holds its operands, it does not copy them",
                        todo="Give it clones, or ask before the tensors change.",
                    )
                )

    def __getitem__(self, index: Any) -> Tensor:
        """Exact probabilities of the cells at ``[b, h, rows, cols]``, each an int or a slice."""
        parts = self._parts(index)
        slices = [part if isinstance(part, slice) else slice(part, part + 1) for part in parts]
        plain = [_forwards(part, n) for part, n in zip(slices, self.shape, strict=True)]
        self._refuse_above(plain, "the cells asked for")
        crop = self._ask([Crop(plain[2], plain[3])], plain[0], plain[1])["crop"]
        for axis, (part, n) in enumerate(zip(slices, self.shape, strict=True)):
            wanted = torch.arange(n, device=crop.device)[part] - plain[axis].start
            if not (len(wanted) == crop.shape[axis] and part.step in (None, 1)):
                crop = crop.index_select(axis, wanted)
        for axis in reversed([a for a, part in enumerate(parts) if not isinstance(part, slice)]):
            crop = crop.squeeze(axis)
        return crop

    def _parts(self, index: Any) -> list[int | slice]:
        parts = list(index) if isinstance(index, tuple) else [index]
        dots = [at for at, part in enumerate(parts) if part is Ellipsis]
        if len(dots) == 1:
            parts[dots[0] : dots[0] + 1] = [slice(None)] * (5 - len(parts))
        parts += [slice(None)] * (4 - len(parts))
        if len(parts) > 4:
            raise SpecError(sentence("Pattern", f"{len(parts)} indices", "a pattern has the axes b, h, row, col"))
        for axis, (part, n, letter) in enumerate(zip(parts, self.shape, "BHTS", strict=True)):
            if isinstance(part, slice):
                ends = [_integer(end) for end in (part.start, part.stop, part.step) if end is not None]
                if None in ends or (part.step is not None and part.step < 1):
                    raise SpecError(sentence("Pattern", f"index {part!r}", "a slice has int ends and runs forwards"))
                continue
            at = _integer(part)
            if at is None:
                raise SpecError(sentence("Pattern", f"index {part!r}", "each of b, h, row, col is an int or a slice"))
            if not -n <= at < n:
                raise _OutOfRange(sentence("Pattern", f"index {at} on axis {letter}", f"{letter} is {n}"))
            parts[axis] = at % n
        return parts

    def _refuse_above(self, parts: list[slice], what: str) -> None:
        cells = 1
        for part in parts:
            cells *= span(part)
        if cells > DENSE_LIMIT:
            raise UnsupportedError(
                sentence(
                    "Pattern",
                    f"{what} are {cells:,} probabilities, {cells * 4 / 2**30:.1f} GiB",
                    f"at most {DENSE_LIMIT:,} are handed out at once",
                    repr(self),
                    "Ask for what you need instead: p[b, h, rows, cols], p.map(256, 256), p.top_keys(8), p.received(),"
                    " p.entropy().",
                )
            )

    def to_dense(self) -> Tensor:
        """The whole pattern [B, H, T, S].

        Raises:
            UnsupportedError: it has more than DENSE_LIMIT cells; the message says what to ask instead.

        Example:
            >>> import torch, headwise as hw
            >>> x = torch.zeros(1, 1, 2, 4)
            >>> hw.Pattern(x, x, mask=hw.Causal()).to_dense()[0, 0]
            tensor([[1.0000, 0.0000],
                    [0.5000, 0.5000]])
        """
        return self[:, :, :, :]

    def entropy(self) -> Tensor:
        """Entropy of each row in nats, [B, H, T]; see ``hw.Entropy``."""
        return self._one(Entropy())

    def received(self) -> Tensor:
        """Attention that each key received, [B, H, S]; see ``hw.Received``."""
        return self._one(Received())

    def offsets(self, limit: int, after: int = 0) -> Tensor:
        """Mean probability by distance, [B, H, after + limit + 1]; see ``hw.Offsets``."""
        return self._one(Offsets(limit, after))

    def top_keys(self, k: int) -> TopKeysFound:
        """The k most attended keys of each query, .values and .indices [B, H, T, k]; see ``hw.TopKeys``."""
        found: TopKeysFound = self._one(TopKeys(k))
        return found

    def mass_on(self, targets: Tensor) -> Tensor:
        """Mass of each row on given keys, [B, H, T]; see ``hw.MassOn``."""
        return self._one(MassOn(targets))

    def mass_where(self, q_labels: Tensor, k_labels: Tensor) -> Tensor:
        """Mass of each row on earlier keys with its label, [B, H, T]; see ``hw.MassWhere``."""
        return self._one(MassWhere(q_labels, k_labels))

    def segments(self, q_ids: Tensor, k_ids: Tensor) -> Tensor:
        """Mass between groups of queries and of keys, [B, H, Sq, Sk]; see ``hw.Segments``."""
        return self._one(Segments(q_ids, k_ids))

    def map(
        self, height: int, width: int, rows: slice | None = None, cols: slice | None = None, pool: str = "mean"
    ) -> Tensor:
        """The pattern pooled to [B, H, height, width]; see ``hw.Map``."""
        return self._one(Map(height, width, rows, cols, pool))

    def _one(self, observer: Observer) -> Any:
        return next(iter(self._ask([observer]).values()))


def _integer(value: Any) -> int | None:
    """An int, or what stands for one; None for anything else, bools included."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


class _OutOfRange(SpecError, IndexError):
    """An index that the pattern does not have; an IndexError too, so that a loop over an axis ends."""


def _forwards(part: slice, n: int) -> slice:
    """The contiguous stretch that a slice falls in."""
    start, stop, _ = part.indices(n)
    return slice(start, max(start, stop))
