"""What a ``with`` statement opens: once each, closed in any order, by any thread or task."""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

from headwise.errors import SpecError, sentence

__all__ = ["Block", "Members", "block"]

P = ParamSpec("P")
T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])


class Block(contextlib.AbstractContextManager[T], Generic[T]):
    """A context manager that is entered once. As a decorator it opens a fresh block around every call.

    Args:
        who: the public function that made it, for messages.
        opened: makes a context manager of one use.
    """

    def __init__(self, who: str, opened: Callable[[], contextlib.AbstractContextManager[T]]) -> None:
        self._who, self._opened = who, opened
        self._inner = opened()
        self._state = "new"

    def __enter__(self) -> T:
        if self._state != "new":
            raise SpecError(
                sentence(
                    self._who,
                    "a block that is open was entered again" if self._state == "open" else "a closed block was entered",
                    "a block is entered once",
                    todo=f"Call {self._who}(...) again for each `with`.",
                )
            )
        self._state = "open"
        try:
            return self._inner.__enter__()
        except BaseException:
            self._state = "closed"
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if self._state != "open":
            what = "a block was closed that is not open"
            raise SpecError(sentence(self._who, what, "`with` opens and closes it", todo="Write `with ... as ...:`."))
        self._state = "closed"
        return self._inner.__exit__(kind, error, traceback)

    def __call__(self, function: Function) -> Function:
        """The function with a block of its own around every call."""

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self._opened():
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


def block(who: str) -> Callable[[Callable[P, Iterator[T]]], Callable[P, Block[T]]]:
    """Makes a generator of one ``yield`` a function that returns a `Block`, as ``contextlib.contextmanager`` does.

    Args:
        who: the name under which users call it.
    """

    def decorated(generator: Callable[P, Iterator[T]]) -> Callable[P, Block[T]]:
        managed = contextlib.contextmanager(generator)

        @functools.wraps(generator)
        def opened(*args: P.args, **kwargs: P.kwargs) -> Block[T]:
            return Block(who, functools.partial(managed, *args, **kwargs))

        return opened

    return decorated


class Members(Generic[T]):
    """The open blocks of a context: of one thread, or of one asyncio task and the tasks that it starts meanwhile.

    A block that is closed elsewhere than it was opened, or before one that was opened after it, is gone all the same.

    Args:
        name: of the context variable.
    """

    def __init__(self, name: str) -> None:
        # Weak, because a context outlives a block that another one closes.
        self._here: ContextVar[tuple[weakref.ref[T], ...]] = ContextVar(name, default=())
        self._open: tuple[T, ...] = ()  # in all contexts
        self._lock = threading.Lock()

    def here(self) -> tuple[T, ...]:
        """Those that are open in this context, the first opened first."""
        members = (reference() for reference in self._here.get())
        return tuple(member for member in members if member is not None and any(member is one for one in self._open))

    @contextlib.contextmanager
    def joined(self, member: T) -> Iterator[None]:
        """Adds a member to this context for the duration."""
        with self._lock:
            self._open = (*self._open, member)
        self._keep((*self.here(), member))
        try:
            yield
        finally:
            with self._lock:
                self._open = tuple(one for one in self._open if one is not member)
            self._keep(self.here())

    def _keep(self, members: tuple[T, ...]) -> None:
        self._here.set(tuple(weakref.ref(member) for member in members))
