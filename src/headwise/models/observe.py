"""Asking every head of a model the same questions while it runs."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn
from typing_extensions import Never

from headwise.block import block
from headwise.elsewhere import not_taken, without_others
from headwise.errors import ShapeError, SpecError, sentence
from headwise.models.average import Average, Summed, check_averageable
from headwise.models.sites import (
    counted,
    find_sites,
    in_order,
    refuse_if_outside,
    resolve_sites,
    say_left_out,
    site_and_run,
    some,
)
from headwise.models.using import held
from headwise.models.watch import Watcher, watched
from headwise.observers import Answered, named
from headwise.ops import Attended
from headwise.spec import Mask

__all__ = ["Answers", "Seen", "observe"]

Heads = Sequence[int] | Mapping[Any, Sequence[int]] | None


class _ByName(Mapping[str, Any]):
    """What answers have in common: they iterate over the names of the observers, and a site is a key as well."""

    _names: tuple[str, ...]

    def get(self, key: str, default: Any = None) -> Any:
        """The answer of an observer or a site; the default where there is none of that name."""
        if key not in self:
            return default
        return self[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


class Answers(_ByName):
    """What one forward of a model answered.

    ``answers["entropy"]`` stacks the answers of all watched sites, in the order of ``hw.sites(model)`` whatever the
    order in which they ran; ``answers[site]["entropy"]`` is that of one, by its name or its index there. A module that
    ran n times in the forward has the names ``site``, ``site#1``, ...
    """

    def __init__(self, names: Sequence[str], sites: Sequence[str]) -> None:
        self._names = tuple(names)
        self._sites = tuple(sites)
        self._by_site: dict[str, Answered] = {}

    @property
    def sites(self) -> list[str]:
        """The runs that were watched, by site in the order of ``hw.sites(model)``, then by run: the rows of a stack."""
        return list(in_order(self._by_site, self._sites))

    def put(self, site: str, seen: Mapping[str, Any]) -> None:
        """Keeps the answers of one run."""
        self._by_site[site] = Answered(seen)

    def __getitem__(self, key: str | int) -> Any:
        if isinstance(key, int):
            key = resolve_sites("observe", list(self._sites), [key])[0]
        if key in self._by_site:
            return self._by_site[key]
        if key in self._names:
            return _stacked(key, {site: self._by_site[site][key] for site in self.sites})
        raise _no_such_key(key, self._names, self.sites)

    def __contains__(self, key: object) -> bool:
        return key in self._names or key in self._by_site

    def __repr__(self) -> str:
        sites = self.sites
        return f"Answers({counted(len(sites), 'site')}: {some(sites)}; answers: {', '.join(self._names)})"


def _no_such_key(key: Any, names: Sequence[str], sites: Sequence[str]) -> SpecError:
    return SpecError(
        sentence(
            "observe",
            f"nothing is named {key!r}",
            f"a key is an observer, {', '.join(names) or 'none'}, or a site that ran, {some(sites)}",
        )
    )


def _stacked(name: str, found: Mapping[str, Any]) -> Any:
    """The answers of all sites as one, [L, ...]."""
    if not found:
        raise SpecError(
            sentence("observe", f"no watched site ran, so there is no {name!r}", "a forward asks the sites it runs")
        )
    values = list(found.values())
    if all(isinstance(value, Tensor) for value in values):
        shapes = {tuple(value.shape) for value in values}
        if len(shapes) == 1:
            return torch.stack(values)
        raise _unlike(name, found)
    if all(isinstance(value, tuple) and hasattr(value, "_fields") for value in values):
        fields = values[0]._fields
        parts = [_stacked(name, {site: getattr(v, field) for site, v in found.items()}) for field in fields]
        return type(values[0])(*parts)
    return values  # answers of an observer of the user's own, one a site


def _unlike(name: str, found: Mapping[str, Tensor]) -> ShapeError:
    first = next(iter(found))
    other = next(site for site, value in found.items() if value.shape != found[first].shape)
    return ShapeError(
        sentence(
            "observe",
            f"{name!r} is {list(found[first].shape)} at {first} and {list(found[other].shape)} at {other}",
            "answers are stacked where all sites agree in shape",
            todo=f"Ask by site, seen[{first!r}][{name!r}], or watch sites that agree with sites=[...].",
        )
    )


class Seen(_ByName):
    """What was observed in a model: the answers of its forwards.

    Attributes:
        calls: for each forward of the model that finished, its answers.

    ``seen["entropy"]`` and ``seen[site]["entropy"]`` are those of the only forward; with several, or none, they are an
    error that says so. With ``reduce="mean"`` they are means over all forwards, and single calls are not kept.
    """

    def __init__(self, names: Sequence[str], sites: Sequence[str], average: Average | None, watcher: Watcher) -> None:
        self._names = tuple(names)
        self._sites = tuple(sites)
        self._calls: list[Answers] = []
        self._average = average
        self._watcher = watcher
        self._count = 0

    @property
    def calls(self) -> list[Answers]:
        """The answers of each forward, in order."""
        if self._average is not None:
            raise SpecError(
                sentence(
                    "observe",
                    'reduce="mean" keeps no single calls',
                    "it keeps running means in memory that does not grow",
                )
            )
        return self._calls

    @property
    def count(self) -> int:
        """How many forwards were seen."""
        return self._count

    @property
    def sites(self) -> list[str]:
        """The runs that were watched, by site in the order of ``hw.sites(model)``, then by run."""
        return self._only().sites

    @property
    def elsewhere(self) -> int:
        """How many forwards of the model ran in other threads or tasks while the block was open, and were left out."""
        return self._watcher.elsewhere

    def add(self, answers: Answers) -> None:
        """Takes in one finished forward."""
        self._count += 1
        if self._average is None:
            self._calls.append(answers)

    def _only(self) -> Answers:
        if self._average is not None:
            answers = Answers(self._names, self._sites)
            for site, means in self._average.means().items():
                answers.put(site, means)
            return answers
        if len(self._calls) == 1:
            return self._calls[0]
        if not self._calls:
            raise SpecError(sentence("observe", "no forward of the model was seen yet", *self._why_none()))
        raise SpecError(
            sentence(
                "observe",
                f"{len(self._calls)} forwards of the model were seen",
                "a key of `seen` is that of the only one",
                todo='Take seen.calls[i][...], or reduce="mean" for means over all of them.',
            )
        )

    def _why_none(self) -> tuple[str, str, str]:
        """Rule, shapes and remedy of a block that saw no forward."""
        if self._watcher.outside:
            rule = "its attention ran without one: model.forward(...) and calls of its layers run no hooks of the model"
            return rule, "", "Call the model itself, model(...), inside the `with` block."
        if self._watcher.elsewhere:
            rule = "it ran in other threads or tasks, and a block takes the forwards of the one that opened it"
            return rule, "", 'Run the model where the block was opened, or write hw.observe(..., threads="all").'
        return "a key of `seen` is that of the only one", "", "Run the model inside the `with` block."

    def __getitem__(self, key: str | int) -> Any:
        if not self._count:
            raise SpecError(sentence("observe", "no forward of the model was seen yet", *self._why_none()))
        return self._only()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._names or key in self._only()

    def __repr__(self) -> str:
        runs = self._calls if self._average is None else [self._only()]
        ran = in_order(dict.fromkeys(site for answers in runs for site in answers.sites), self._sites)
        calls = f"{'' if self._average is None else 'means over '}{counted(self._count, 'call')}"
        calls += f"; {counted(self.elsewhere, 'call')} of other threads left out" if self.elsewhere else ""
        names = ", ".join(self._names)
        return f"Seen({counted(len(ran), 'site')}: {some(list(ran))}; {calls}; answers: {names})"


class _Call(threading.local):
    """What the forward that runs in this thread has answered so far."""

    def __init__(self) -> None:
        self.answers = Answers((), ())
        self.sums: list[Summed] = []


class _Observing(Watcher):
    who = "hw.observe"
    takes_several = True

    def __init__(
        self,
        model: nn.Module,
        names: dict[nn.Module, str],
        sites: Sequence[str],
        observers: Sequence[Any],
        heads: Heads,
        average: Average | None,
        all_threads: bool,
    ) -> None:
        super().__init__(model, names, all_threads)
        self._observers = tuple(observers) if average is None else tuple(average.asked())
        self._sites = tuple(sites)
        self._heads = heads
        self._average = average
        self._keys = list(named(observers))
        self._call = _Call()
        self._lock = threading.Lock()
        self.seen = Seen(self._keys, sites, average, self)

    def observers(self) -> Sequence[Any]:
        return self._observers

    def begin(self) -> None:
        self._call.answers, self._call.sums = Answers(self._keys, self._sites), []

    def end(self, finished: bool) -> None:
        if not finished:
            return
        with self._lock:
            if self._average is not None:
                self._average.add(self._call.sums)
            self.seen.add(self._call.answers)

    def take(self, site: str, attended: Attended, mask: Mask | None) -> None:
        available = attended.lse.shape[1]
        heads = _heads_of(self._heads, site_and_run(site, self._sites)[0], available)
        answers = {key: _pick(attended.seen[key], heads, available) for key in self._keys}
        if self._average is None:
            self._call.answers.put(site, answers)
        else:
            lse = _pick(attended.lse.detach(), heads, available)
            self._call.sums += self._average.sums(site, answers, lse, mask)


def _check_heads(heads: Any) -> None:
    """Raises SpecError unless heads is a list, or a list for each site; which heads there are is known at the sites."""
    for which in heads.values() if isinstance(heads, Mapping) else [heads]:
        if which is not None and (isinstance(which, (str, Mapping)) or not isinstance(which, Iterable)):
            raise SpecError(
                sentence(
                    "observe",
                    f"heads is {heads!r}",
                    "it is a list of heads for all sites, or {site: [heads]}",
                    todo=f"Write heads=[{which}]." if isinstance(which, int) and not isinstance(heads, Mapping) else "",
                )
            )


def _heads_of(heads: Heads, site: str, available: int) -> list[int] | None:
    chosen = heads.get(site) if isinstance(heads, Mapping) else heads
    if chosen is None:
        return None
    for head in chosen:
        if not isinstance(head, int) or isinstance(head, bool) or not -available <= head < available:
            raise SpecError(
                sentence("observe", f"{site} has no head {head!r}", f"its heads are numbered 0 to {available - 1}")
            )
    return [head % available for head in chosen]


def _pick(value: Any, heads: list[int] | None, available: int) -> Any:
    """The chosen heads of an answer [B, H, ...]."""
    if heads is None:
        return value
    if isinstance(value, Tensor):
        if value.dim() < 2 or value.shape[1] != available:
            return value
        return value.index_select(1, torch.tensor(heads, dtype=torch.int64, device=value.device))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_pick(part, heads, available) for part in value))
    return value


@block("hw.observe")
@without_others
def observe(
    model: nn.Module,
    *observers: Any,
    sites: Sequence[str | int] | None = None,
    heads: Heads = None,
    reduce: str | None = None,
    threads: Literal["own", "all"] = "own",
    **names: Never,
) -> Iterator[Seen]:
    """Asks the attention of a whole model while it runs.

    Every forward of the model inside the block is one call. The model's output has the same bits as unwatched; sites
    that are not asked run as if nobody watched; a model that is not in use is used for the duration. Rows that the
    model's 2-D mask calls padding are empty rows and leave every statistic out.

    Args:
        model: a transformers model.
        observers: the questions, ``hw.Entropy()``, ``hw.TopKeys(8)``, ..., or objects with see, merge and result.
        sites: which attention modules to ask, by name or index in ``hw.sites(model)``; None = all of them.
        heads: which heads' answers to keep: a list for all sites, or ``{site: [...]}``; None = all.
        reduce: "mean" = keep only running means, [L, H] and what else is left of an answer's axes, over all calls and
            batch rows: each real query counts once, of ``Received`` each real key, of ``Offsets`` each query that has a
            visible key at that distance (0 where none has); a ``Map`` weighs as much as it has real queries, and
            ``Segments``, a sum over a sequence, is a mean over sequences. None = keep the answers of every call.
        threads: "own" = forwards that run in the context that opened the block: its thread, or its asyncio task and
            what that starts with a copy of its context (``asyncio.to_thread``). "all" = those of every thread and task.
            Forwards that run at the same time are calls of their own, in the order in which they end.

    Yields:
        The answers, a :class:`Seen`: ``seen["entropy"]`` [L, B, H, T] in the order of ``hw.sites(model)`` (of those
        that ran; ``seen.sites`` names the rows), ``seen[site]["entropy"]``, ``seen.calls[i]["entropy"]``.

    Raises:
        SpecError: an unknown site, head or reduction; an answer asked for before any forward, or of several at once.
        ShapeError: a stacked answer where sites disagree in shape (an encoder beside a decoder).
        UnsupportedError: the model's attention does not go through transformers' attention interface.

    Example:
        >>> import torch, headwise as hw
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(
        ...     GPT2Config(n_layer=3, n_head=2, n_embd=8, vocab_size=16, n_positions=8)
        ... ).eval()
        >>> with hw.observe(model, hw.Entropy()) as seen:
        ...     _ = model(torch.arange(6)[None])
        >>> seen["entropy"].shape
        torch.Size([3, 1, 2, 6])
    """
    if names:
        raise not_taken("observe", observe, (), names)
    if not observers:
        raise SpecError(sentence("observe", "no observer was given", "it asks questions", todo="Try hw.Entropy()."))
    if reduce not in (None, "mean"):
        raise SpecError(sentence("observe", f"reduce is {reduce!r}", 'it is "mean" or None'))
    if threads not in ("own", "all"):
        raise SpecError(sentence("observe", f"threads is {threads!r}", 'it is "own" or "all"'))
    named(observers)
    if reduce == "mean":
        check_averageable(observers)
    refuse_if_outside("observe", model)
    say_left_out("observe", model)
    found = find_sites(model)
    chosen = resolve_sites("observe", list(found), sites)
    _check_heads(heads)
    if isinstance(heads, Mapping):
        heads = {resolve_sites("observe", list(found), [site])[0]: list(which) for site, which in heads.items()}
    average = Average(observers) if reduce == "mean" else None
    names_of_chosen = {found[site]: site for site in chosen}
    watcher = _Observing(model, names_of_chosen, list(found), observers, heads, average, threads == "all")
    with held(model), watched(watcher):
        yield watcher.seen
