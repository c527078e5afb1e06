"""Who is watching which attention module, and when one forward of a model begins and ends.

The attention function asks here after every call; nothing else of a model knows that it is watched. A watcher belongs
to the context that opened it, a thread or an asyncio task with the tasks and threads that take over its context.
Another thread that runs the same model is not seen, unless the watcher takes those of all threads.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn

from headwise.block import Members
from headwise.errors import UnsupportedError, sentence
from headwise.models.library import transformers
from headwise.ops import Attended
from headwise.spec import Mask

__all__ = ["Watcher", "anybody_watches", "watched", "watching"]

_lock = threading.Lock()


class _Forward(threading.local):
    """The forward of a watched model that runs in this thread: how deep in it we are, and how often each site ran."""

    def __init__(self) -> None:
        self.depth = 0
        self.runs: dict[str, int] = {}


class Watcher:
    """Takes the attention of chosen modules of one model, call by call.

    A call is one forward of the model, or of one of the models inside it that runs alone (``generate`` runs the encoder
    of an encoder-decoder model by itself). Attention outside of a call, as when gradient checkpointing repeats a layer
    during backward, is not taken.

    Args:
        model: the model, for its modules and hooks.
        names: for each module that is watched, its site's name.
        all_threads: whether forwards of every thread and task are taken, or those of the context that watches.

    Attributes:
        outside: how many times a watched module ran in this context outside of any call, as by ``model.forward``.
        elsewhere: how many forwards of the model ran in other threads or tasks and were not taken.
    """

    who = "observe"
    #: Whether calls may run in several threads at the same time.
    takes_several = False

    def __init__(self, model: nn.Module, names: dict[nn.Module, str], all_threads: bool = False) -> None:
        self.model = model
        self.names = names
        self.all_threads = all_threads
        self.outside = 0
        self.elsewhere = 0
        self._forward = _Forward()
        self._threads = 0  # that are inside a call now

    def observers(self) -> Sequence[Any]:
        """What is asked of each watched pattern."""
        return ()

    def begin(self) -> None:
        """A call begins, in this thread."""

    def end(self, finished: bool) -> None:
        """A call ends; not finished = it raised."""

    def take(self, site: str, attended: Attended, mask: Mask | None) -> None:
        """A watched module has run; a module's second run in one call is named ``site#1``."""

    @property
    def here(self) -> bool:
        """Whether what runs in this context is taken."""
        return self.all_threads or any(watcher is self for watcher in _watchers.here())

    def wants(self, module: nn.Module) -> bool:
        """Whether a module is watched now."""
        if module not in self.names:
            return False
        if self._forward.depth == 0:
            self.outside += 1
        return self._forward.depth > 0

    def took(self, module: nn.Module, attended: Attended, mask: Mask | None) -> None:
        """Names the run and hands it to ``take``."""
        site = self.names[module]
        run = self._forward.runs.get(site, 0)
        self._forward.runs[site] = run + 1
        self.take(f"{site}#{run}" if run else site, attended, mask)

    def entered(self) -> None:
        """A model's forward was entered."""
        if self._forward.depth == 0:
            with _lock:
                if self._threads and not self.takes_several:
                    raise self._two_at_once()
                self._threads += 1
            self._forward.runs = {}
            self.begin()
        self._forward.depth += 1

    def left(self, finished: bool) -> None:
        """A model's forward was left."""
        if self._forward.depth == 0:
            return  # a hook before ours raised, so the forward was never entered
        self._forward.depth -= 1
        if self._forward.depth == 0:
            with _lock:
                self._threads -= 1
            self.end(finished)

    def _two_at_once(self) -> UnsupportedError:
        return UnsupportedError(
            sentence(
                self.who,
                "the model runs in two threads at the same time, and both belong to the block",
                "it keeps one forward at a time",
                todo="Open a block in each thread, or let one forward end before the next begins.",
            )
        )


_open = 0  # blocks that watch anything, in all threads: one number that torch.compile can guard on


def anybody_watches() -> bool:
    """Whether any thread watches anything."""
    return _open > 0


_watchers: Members[Watcher] = Members("headwise_watchers")
_of_all_threads: tuple[Watcher, ...] = ()


def watching(module: nn.Module) -> list[Watcher]:
    """The watchers of a module in this context; almost always none."""
    if not _open:
        return []
    return [watcher for watcher in (*_watchers.here(), *_of_all_threads) if watcher.wants(module)]


@contextlib.contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Watches for the duration: hooks on the model and the models inside it, and this context's list of watchers."""
    global _open
    handles = []
    with _lock:
        _open += 1
    try:
        for part in _models_in(watcher.model):
            handles.append(part.register_forward_pre_hook(_entering(watcher), prepend=True))
            handles.append(part.register_forward_hook(_leaving(watcher), always_call=True))
        with _taking_all(watcher) if watcher.all_threads else _watchers.joined(watcher):
            yield
    finally:
        for handle in handles:
            handle.remove()
        with _lock:
            _open -= 1


@contextlib.contextmanager
def _taking_all(watcher: Watcher) -> Iterator[None]:
    global _of_all_threads
    with _lock:
        _of_all_threads = (*_of_all_threads, watcher)
    try:
        yield
    finally:
        with _lock:
            _of_all_threads = tuple(one for one in _of_all_threads if one is not watcher)


def _models_in(model: nn.Module) -> list[nn.Module]:
    kind = transformers("observe").PreTrainedModel
    return [part for part in model.modules() if part is model or isinstance(part, kind)]


def _entering(watcher: Watcher) -> Callable[..., None]:
    def hook(module: nn.Module, _args: Any) -> None:
        if watcher.here:
            watcher.entered()
        elif module is watcher.model:
            with _lock:
                watcher.elsewhere += 1

    return hook


def _leaving(watcher: Watcher) -> Callable[..., None]:
    def hook(_module: nn.Module, _args: Any, output: Any) -> None:
        if watcher.here:
            watcher.left(finished=output is not None)

    return hook
