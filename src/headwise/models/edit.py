"""Changing what the heads of a model do while it runs: the edits that are in force, and where they act.

The attention function asks here before and after every call. An edit belongs to the model, as a hook does: whoever runs
it while the edit is in force runs it edited, other threads and a layer that is repeated during backward included. What
only measures (gates of importance) belongs to the context that opened it, as a watcher does.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from headwise.backends import choose
from headwise.block import Members
from headwise.errors import SpecError, sentence
from headwise.models.families import CROSS
from headwise.models.projections import kept_heads
from headwise.plan import make_plan
from headwise.spec import AttentionSpec

__all__ = [
    "Call",
    "Edit",
    "Edited",
    "Edits",
    "anybody_edits",
    "count_of",
    "editing",
    "in_force",
    "no_such_head",
    "refuse_while_edited",
]


@dataclass(frozen=True, eq=False)
class Call:
    """What one attention call is given, as of ``hw.attention``.

    Attributes:
        q: [B, H, T, D].
        k: [B, Hk, S, D].
        v: [B, Hk, S, E].
        options: keywords: mask, scores, scale, q_start, kv_heads, sinks, dropout, gate.
        keys_from: position of key 0 in the text; a cache of a window has let go of those before it.
        real_queries: which queries are real tokens, bool [B, T]; None = all. Padding is computed as the mask says, and
            left out by whoever observes the call.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    options: Mapping[str, Any]
    keys_from: int = 0
    real_queries: Tensor | None = None

    def but(self, **options: Any) -> Call:
        """The same call with some options changed."""
        return replace(self, options={**self.options, **options})

    @property
    def backend(self) -> str:
        """The name of the backend that computes the call's output."""
        plan = make_plan("attention", self.q, self.k, self.v, AttentionSpec(**self.options), draw=False)
        return choose("attention", plan, None, runs=False).name

    @property
    def first_position(self) -> int | Tensor:
        """The position of query 0 on the key axis."""
        start: int | Tensor | None = self.options.get("q_start")
        return self.k.shape[2] - self.q.shape[2] if start is None else start


class Edit:
    """One change to what chosen heads of a site do; subclasses change the call, its output, or both."""

    def __init__(self, who: str, site: str, heads: Sequence[int]) -> None:
        self.who, self.site, self.heads = who, site, tuple(heads)

    def before(self, call: Call) -> Call:
        """The call to make instead."""
        return call

    def after(self, call: Call, out: Tensor) -> Tensor:
        """The output [B, H, T, E] to give instead; the one that is given is not to be written to."""
        return out

    @property
    def crosses(self) -> bool:
        """Whether the site reads another sequence; its queries then count from 0 in each forward."""
        return CROSS.search(self.site) is not None

    def first_query(self, call: Call) -> Tensor:
        """Where query 0 stands in the text, int64 [B] or [1]."""
        start = 0 if self.crosses else call.first_position
        place = torch.as_tensor(start, dtype=torch.int64, device=call.q.device).reshape(-1)
        return place if self.crosses else place + call.keys_from

    def finish(self) -> None:
        """The block ends: raises SpecError where part of the edit never acted."""

    def index(self, like: Tensor) -> Tensor:
        """The heads as an index tensor."""
        return torch.tensor(self.heads, dtype=torch.int64, device=like.device)

    def check(self, call: Call) -> None:
        """Raises SpecError where the site has no such head."""
        H = call.q.shape[1]
        missing = [head for head in self.heads if head >= H]
        if missing:
            raise no_such_head(self.who, self.site, missing[0], H)


@dataclass(eq=False)
class Edited:
    """What edits did while their block was open.

    Attributes:
        backends: for each site that ran edited, the backend that computed its output.
    """

    backends: dict[str, str] = field(default_factory=dict)


@dataclass(eq=False)
class _Entry:
    edit: Edit
    told: Edited
    everywhere: bool  # or only in the context that opened it


_lock = threading.Lock()
_entries: weakref.WeakKeyDictionary[nn.Module, tuple[_Entry, ...]] = weakref.WeakKeyDictionary()
_mine: Members[Edited] = Members("headwise_edits")
_open = 0  # blocks that edit anything: one number that torch.compile can guard on


def anybody_edits() -> bool:
    """Whether any model is edited."""
    return _open > 0


def editing(module: nn.Module) -> Edits | None:
    """The edits of a module that are in force; almost always none."""
    if not _open:
        return None
    mine = _mine.here()
    entries = tuple(
        entry for entry in _entries.get(module, ()) if entry.everywhere or any(entry.told is one for one in mine)
    )
    return Edits(entries) if entries else None


class Edits:
    """The edits of one module: the first one that was opened sees the call first and its output first."""

    def __init__(self, entries: tuple[_Entry, ...]) -> None:
        self.entries = entries

    def before(self, call: Call) -> Call:
        for entry in self.entries:
            entry.edit.check(call)
            call = entry.edit.before(call)
        for entry in self.entries:
            if entry.edit.site not in entry.told.backends:
                entry.told.backends[entry.edit.site] = call.backend
        return call

    def after(self, call: Call, out: Tensor) -> Tensor:
        for entry in self.entries:
            out = entry.edit.after(call, out)
        return out


def refuse_while_edited(who: str, modules: Mapping[str, nn.Module]) -> None:
    """Raises SpecError where heads of a module are edited now: their numbers would not be those that were meant."""
    for site, module in modules.items():
        if _entries.get(module):
            raise SpecError(
                sentence(
                    who,
                    f"heads of {site} are edited by an open block",
                    "their numbers would mean other heads afterwards",
                    todo="Close hw.ablate, hw.patch and the like first. The model is unchanged.",
                )
            )


@contextlib.contextmanager
def in_force(edits: Sequence[tuple[nn.Module, Edit]], everywhere: bool = True) -> Iterator[Edited]:
    """Puts edits of modules in force for the duration; the modules' model is to be held on headwise meanwhile.

    Args:
        edits: with the module of each.
        everywhere: whoever runs the model runs it edited; False = this context alone does.

    Yields:
        What the edits did.
    """
    global _open
    told = Edited()
    entries = [(module, _Entry(edit, told, everywhere)) for module, edit in edits]
    with _lock:
        _open += 1
        for module, entry in entries:
            _entries[module] = (*_entries.get(module, ()), entry)
    try:
        with _mine.joined(told):
            yield told
    finally:
        with _lock:
            _open -= 1
            for module, entry in entries:
                left = tuple(other for other in _entries.get(module, ()) if other is not entry)
                if left:
                    _entries[module] = left
                else:
                    _entries.pop(module, None)


def count_of(module: nn.Module) -> int | None:
    """Number of query heads of a site, None where its module does not say."""
    kept = kept_heads(module)
    if kept is not None:
        return len(kept.heads)
    for holder in (module, getattr(module, "config", None)):
        for name in ("num_heads", "n_heads", "num_attention_heads"):
            number = getattr(holder, name, None)
            if isinstance(number, int) and not isinstance(number, bool):
                return number
    return None


def no_such_head(who: str, site: str, head: int, H: int | None) -> SpecError:
    """The error that says so; H is the number of heads there, None where it is not known."""
    rule = "heads are counted from 0" if H is None else f"it has {H} heads, 0 to {H - 1}" if H else "it has no heads"
    return SpecError(sentence(who, f"{site} has no head {head}", rule, todo="The model is unchanged."))
