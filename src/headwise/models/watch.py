"""Who is watching which attention module, and when one forward of a model begins and ends.

The attention function asks here after every call; nothing else of a model knows that it is watched. Watchers belong to
the thread (more exactly: the context) that opened them, so another thread running the same model is not seen.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from torch import nn

from headwise.models.library import transformers
from headwise.ops import Attended
from headwise.spec import Mask

__all__ = ["Watcher", "anybody_watches", "watched", "watching"]

_lock = threading.Lock()


class Watcher:
    """Takes the attention of chosen modules of one model, call by call.

    A call is one forward of the model, or of one of the models inside it that runs alone (``generate`` runs the encoder
    of an encoder-decoder model by itself). Attention outside of a call, as when gradient checkpointing repeats a layer
    during backward, is not taken.

    Args:
        model: the model, for its modules and hooks.
        names: for each module that is watched, its site's name.
    """

    def __init__(self, model: nn.Module, names: dict[nn.Module, str]) -> None:
        self.model = model
        self.names = names
        self._depth = 0
        self._runs: dict[str, int] = {}

    def observers(self) -> Sequence[Any]:
        """What is asked of each watched pattern."""
        return ()

    def begin(self) -> None:
        """A call begins."""

    def end(self, finished: bool) -> None:
        """A call ends; not finished = it raised."""

    def take(self, site: str, attended: Attended, mask: Mask | None) -> None:
        """A watched module has run; a module's second run in one call is named ``site#1``."""

    def wants(self, module: nn.Module) -> bool:
        """Whether a module is watched now."""
        return self._depth > 0 and module in self.names

    def took(self, module: nn.Module, attended: Attended, mask: Mask | None) -> None:
        """Names the run and hands it to ``take``."""
        site = self.names[module]
        run = self._runs.get(site, 0)
        self._runs[site] = run + 1
        self.take(f"{site}#{run}" if run else site, attended, mask)

    def entered(self) -> None:
        """A model's forward was entered."""
        self._depth += 1
        if self._depth == 1:
            self._runs = {}
            self.begin()

    def left(self, finished: bool) -> None:
        """A model's forward was left."""
        if self._depth == 0:
            return  # a hook before ours raised, so the forward was never entered
        self._depth -= 1
        if self._depth == 0:
            self.end(finished)


_open = 0  # blocks that watch anything, in all threads: one number that torch.compile can guard on


def anybody_watches() -> bool:
    """Whether any thread watches anything."""
    return _open > 0


_active: ContextVar[tuple[Watcher, ...]] = ContextVar("headwise_watchers", default=())


def watching(module: nn.Module) -> list[Watcher]:
    """The watchers of a module in this context; almost always none."""
    if not _open:
        return []
    return [watcher for watcher in _active.get() if watcher.wants(module)]


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
        token = _active.set((*_active.get(), watcher))
        try:
            yield
        finally:
            _active.reset(token)
    finally:
        for handle in handles:
            handle.remove()
        with _lock:
            _open -= 1


def _models_in(model: nn.Module) -> list[nn.Module]:
    kind = transformers("observe").PreTrainedModel
    return [part for part in model.modules() if part is model or isinstance(part, kind)]


def _entering(watcher: Watcher) -> Callable[..., None]:
    def hook(_module: nn.Module, _args: Any) -> None:
        if watcher in _active.get():
            watcher.entered()

    return hook


def _leaving(watcher: Watcher) -> Callable[..., None]:
    def hook(_module: nn.Module, _args: Any, output: Any) -> None:
        if watcher in _active.get():
            watcher.left(finished=output is not None)

    return hook
