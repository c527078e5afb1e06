"""The pattern that is never stored: index it, zoom it, reduce it, in O(T) memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import EllipsisType
from typing import Any

import torch
from torch import Tensor
from typing_extensions import Never

from headwise.answering import answer, check_numbers, facts_that_fit, not_given, not_of_a_mapped_call
from headwise.backends import RowFacts, Settled
from headwise.elsewhere import not_taken, without_others
from headwise.errors import HeadwiseError, SpecError, UnsupportedError, sentence
from headwise.indexing import forwards, parts_of, place, stretch
from headwise.observers import (
    Crop,
    Entropy,
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
from headwise.plan import Plan, make_plan
from headwise.products import as_given
from headwise.spec import AttentionSpec, Mask, Rules
from headwise.spec.geometry import span
from headwise.tracing import below_transforms, mapped, uncompiled, unwrapped

__all__ = ["DENSE_LIMIT", "Pattern"]

_NO_TENSOR = "Pattern: a pattern is no tensor, which torch.compile cannot put in a graph"

DENSE_LIMIT = 2**26  # cells that to_dense hands out: 256 MiB of float32


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
    @without_others
    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor | None = None,
        *others: Never,
        mask: Mask | None = None,
        scores: Sequence[Rules] = (),
        scale: float | None = None,
        q_start: int | Tensor | None = None,
        kv_heads: Sequence[int] | None = None,
        sinks: Tensor | None = None,
        **names: Never,
    ) -> None:
        if others or names:
            raise not_taken("Pattern", Pattern.__init__, others, names)
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
            plan = plan.mapped(Tensor.clone)
        transformed = torch._C._are_functorch_transforms_active()
        if transformed:
            with below_transforms():
                plan = plan.mapped(unwrapped)
        self._mapped = transformed and any(mapped(x) for x in plan.tensors())
        self._plan, self._settled, self._entropy = plan, Settled(plan, facts), entropy
        self._given = False  # whether its facts were given, so that none of other heads can be found
        self._versions = [(x, x._version) for x in plan.tensors() if not x.is_inference()]

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a file holds: the operands, and not how often they had been written to here."""
        self._check_fresh()
        return {"plan": replace(self._plan), "settled": self._settled, "given": self._given, "entropy": self._entropy}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._hold(state["plan"], None, state["entropy"])
        self._settled, self._given = state["settled"], state["given"]

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

    def reach(self, batch: int) -> tuple[int, int]:
        """The keys outside which no query of a batch row sees any.

        Args:
            batch: the batch row.

        Returns:
            (start, stop); (0, 0) where none sees any.

        Raises:
            SpecError: there is no such row.

        Example:
            >>> import torch, headwise as hw
            >>> x = torch.zeros(2, 1, 5, 4)
            >>> keep = torch.tensor([[0, 0, 1, 1, 1], [1, 1, 1, 1, 1]], dtype=torch.bool)
            >>> hw.Pattern(x, x, mask=hw.Causal() & hw.Padding(keep)).reach(0)
            (2, 5)
        """
        self._check_fresh()
        return self._plan.intervals.hull(place("batch", batch, self.shape[0]), slice(0, self.shape[2]))

    def stretches(self, batch: int) -> tuple[Tensor, Tensor] | None:
        """The keys that each query of a batch row sees, as stretches [start, stop).

        Args:
            batch: the batch row.

        Returns:
            start and stop, int64 [T, K]; an empty stretch has ``stop <= start``. None where the mask is not said in
            stretches, as a Rule or a Dense mask is not.

        Raises:
            SpecError: there is no such row.

        Example:
            >>> import torch, headwise as hw
            >>> x = torch.zeros(1, 1, 3, 4)
            >>> start, stop = hw.Pattern(x, x, mask=hw.Causal() & hw.Window(before=1)).stretches(0)
            >>> start[:, 0].tolist(), stop[:, 0].tolist()
            ([0, 0, 1], [1, 2, 3])
        """
        self._check_fresh()
        row = place("batch", batch, self.shape[0])
        if not self._plan.intervals.exact:
            return None
        start, stop = self._plan.intervals.bounds(row, slice(0, self.shape[2]))
        return start[0], stop[0]

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the probabilities: float32, or float64 for float64 operands."""
        return self._plan.dtype

    def __repr__(self) -> str:
        B, H, T, S = self.shape
        return f"Pattern([B={B},H={H},T={T},S={S}], mask={self._plan.spec.mask})"

    def ask(self, *observers: Any, batch: slice | None = None, heads: slice | None = None) -> dict[str, Any]:
        """Answers several questions in one pass.

        Args:
            observers: built-in observers or objects with see, merge and result.
            batch: batch rows to ask about; None = all.
            heads: query heads to ask about; None = all.

        Returns:
            The answers by name; they begin with the axes [b, h] of the part that was asked about.

        Raises:
            SpecError: something is no observer, or a part is no slice.

        Example:
            >>> import torch, headwise as hw
            >>> p = hw.Pattern(torch.zeros(1, 8, 2, 4), torch.zeros(1, 8, 2, 4))
            >>> sorted(p.ask(hw.Entropy(), hw.Received()))
            ['entropy', 'received']
            >>> p.ask(hw.Entropy(), heads=slice(3, 5))["entropy"].shape
            torch.Size([1, 2, 2])
        """
        return self._ask(list(observers), *self._part(batch, heads))

    @uncompiled(_NO_TENSOR)
    def _ask(
        self, observers: list[Any], batch: slice | None = None, heads: slice | None = None, portable: bool = False
    ) -> dict[str, Any]:
        self._check_fresh()
        questions = named(observers)
        for question in questions.values():
            if isinstance(question, Observer):
                question.check(self._plan.geometry, self._plan.v is not None)
        plan = self._plan.asking(questions)
        batch, heads = self._part(batch, heads)
        settled = self._settled.covers(batch, heads)
        if self._given and not settled:
            raise not_given(heads)
        facts = self._settled.facts if settled else None
        return answer(plan, facts, entropy=self._entropy, batch=batch, heads=heads, portable=portable)

    def _part(self, batch: slice | None, heads: slice | None) -> tuple[slice, slice]:
        """Batch rows and heads with both ends set."""
        return stretch("batch", batch, self.shape[0]), stretch("heads", heads, self.shape[1])

    @uncompiled(_NO_TENSOR)
    def settle(self, batch: slice | None = None, heads: slice | None = None) -> Pattern:
        """Finds the row facts of a part once and keeps them, so that every later question about it sweeps once less.

        A row's facts are its log-sum-exp in two parts and its largest logit, from which each probability is one
        exponential: ``p_ij = exp(s_ij - peak_i) / exp(log_total_i)``. Three numbers a row are kept, [B, H, T] each. A
        part that is settled costs nothing; the patterns of a forward pass (``hw.attend``, ``hw.trace``) come settled.
        Several threads may settle and ask at once.

        Args:
            batch: batch rows; None = all.
            heads: query heads; None = all.

        Returns:
            The same pattern.

        Raises:
            SpecError: a part is no slice, or the pattern's facts were given and are not those of this part.

        Example:
            >>> import torch, headwise as hw
            >>> p = hw.Pattern(torch.randn(1, 2, 1000, 4), torch.randn(1, 2, 1000, 4), mask=hw.Causal())
            >>> p.settle(heads=slice(1, 2)).ask(hw.Map(4, 4), heads=slice(1, 2))["map"].shape
            torch.Size([1, 1, 4, 4])
        """
        for _ in self.settling(batch, heads):
            pass
        return self

    def settling(self, batch: slice | None = None, heads: slice | None = None) -> Iterator[None]:
        """``settle`` in pieces: each step finds the facts of some rows, so that other work can be done between.

        Args:
            batch: batch rows; None = all.
            heads: query heads; None = all.

        Yields:
            None, after each piece.

        Raises:
            SpecError: as of ``settle``.

        Example:
            >>> import torch, headwise as hw
            >>> p = hw.Pattern(torch.randn(1, 2, 1000, 4), torch.randn(1, 2, 1000, 4), mask=hw.Causal())
            >>> len(list(p.settling())), len(list(p.settling()))  # the second time there is nothing to find
            (1, 0)
        """
        self._check_fresh()
        part = self._part(batch, heads)
        if self._settled.covers(*part):
            return
        if self._given:
            raise not_given(part[1])
        pieces = self._settled.finding(self._plan, *part)
        while True:
            with below_transforms(), as_given(self._plan.geometry.device):
                if next(pieces, self) is self:
                    return
            yield

    def facts(self, batch: slice | None = None, heads: slice | None = None) -> RowFacts:
        """The row facts of a part, which is settled if it was not.

        Args:
            batch: batch rows; None = all.
            heads: query heads; None = all.

        Returns:
            ``.max_logit``, ``.peak`` and ``.log_total``, [b, h, T] each, copies; ``.lse`` is their log-sum-exp.

        Raises:
            SpecError: as of ``settle``.

        Example:
            >>> import torch, headwise as hw
            >>> x = torch.zeros(1, 1, 2, 4)
            >>> hw.Pattern(x, x, mask=hw.Causal()).facts().lse
            tensor([[[0.0000, 0.6931]]])
        """
        part = self._part(batch, heads)
        return self.settle(*part)._settled.copied(self._plan, *part)

    @uncompiled(_NO_TENSOR)
    def replaced(
        self,
        *,
        mask: Mask | EllipsisType | None = ...,
        facts: RowFacts | None = None,
        batch: slice | None = None,
        heads: slice | None = None,
    ) -> Pattern:
        """The pattern of the same queries and keys under another mask, or normalised otherwise.

        Each probability is ``exp(s_ij - peak_i) / exp(log_total_i)`` where the mask keeps the cell and 0 where not.
        With another mask alone every row sums to 1 again. With facts as well they are what divides: under
        ``mask & Padding(keep)`` with the facts of this pattern, the keys that are left keep their probabilities.

        Args:
            mask: in place of this one's; None = every key is visible; left out = the same mask.
            facts: row facts [b, h, T] of the part below; None = those that follow from the mask. The new pattern then
                answers about that part alone.
            batch: batch rows that the facts are of; None = all.
            heads: query heads that the facts are of; None = all.

        Returns:
            A new pattern over the same tensors; nothing is copied but the facts.

        Raises:
            ShapeError, SpecError: the mask does not fit, or the facts do not; a part is named and no facts are given.

        Example:
            >>> import torch, headwise as hw
            >>> x = torch.zeros(1, 1, 2, 4)
            >>> p = hw.Pattern(x, x)
            >>> p.replaced(mask=hw.Padding(torch.tensor([1])))[0, 0, 0]
            tensor([1., 0.])
            >>> p.replaced(mask=hw.Padding(torch.tensor([1])), facts=p.facts())[
            ...     0, 0, 0
            ... ]  # key 1 is hidden, 0 as it was
            tensor([0.5000, 0.0000])
            >>> facts = p.facts()
            >>> p.replaced(facts=facts._replace(peak=facts.max_logit, log_total=0 * facts.log_total))[0, 0, 0]
            tensor([1., 1.])
        """
        self._check_fresh()
        old = self._plan
        spec = old.spec if isinstance(mask, EllipsisType) else replace(old.spec, mask=mask)
        plan = replace(make_plan("Pattern", old.q, old.k, old.v, spec, draw=False), seed=old.seed)
        new = Pattern.of_plan(plan)
        part = self._part(batch, heads)
        if facts is None and (batch is not None or heads is not None):
            what = "batch or heads was given without facts"
            raise SpecError(sentence("Pattern", what, "they say what facts are of; a mask is of every head"))
        if facts is not None:
            new._settled.write(plan, *part, facts_that_fit(facts, self._plan, part))
            new._given = True
        elif spec is old.spec:
            new._settled, new._given, new._entropy = self._settled, self._given, self._entropy
        return new

    @property
    def fresh(self) -> bool:
        """Whether its tensors are as they were when it was made; a pattern that is not answers nothing.

        Example:
            >>> import torch, headwise as hw
            >>> x = torch.zeros(1, 1, 2, 4)
            >>> p, _ = hw.Pattern(x, x), x.add_(1)
            >>> p.fresh
            False
        """
        return all(tensor._version == version for tensor, version in self._versions)

    def _check_fresh(self) -> None:
        if self._mapped:
            raise not_of_a_mapped_call()
        check_numbers("Pattern", *self._plan.tensors())
        if not self.fresh:
            what = "q, k or another of its tensors was overwritten since the pattern was made; it holds no copies"
            raise HeadwiseError(sentence("Pattern", what, todo="Give it clones, or ask before the tensors change."))

    def __getitem__(self, index: Any) -> Tensor:
        """Exact probabilities of the cells at ``[b, h, rows, cols]``, each an int or a slice."""
        parts = parts_of(index, self.shape)
        slices = [part if isinstance(part, slice) else slice(part, part + 1) for part in parts]
        plain = [forwards(part, n) for part, n in zip(slices, self.shape, strict=True)]
        self._refuse_above(plain, "the cells asked for")
        crop = self._ask([Crop(plain[2], plain[3])], plain[0], plain[1])["crop"]
        for axis, (part, n) in enumerate(zip(slices, self.shape, strict=True)):
            wanted = torch.arange(n, device=crop.device, dtype=torch.int64)[part] - plain[axis].start
            if not (len(wanted) == crop.shape[axis] and part.step in (None, 1)):
                crop = crop.index_select(axis, wanted)
        for axis in reversed([a for a, part in enumerate(parts) if not isinstance(part, slice)]):
            crop = crop.squeeze(axis)
        return crop

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
