"""One thread that answers questions: the most urgent first, what is not wanted any more not at all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

import torch

from headwise.errors import sentence

__all__ = ["Busy", "Piece", "Work"]

T = TypeVar("T")
_LOG = logging.getLogger(__name__)
_ENDED = "the viewer has ended"
_CLOSING = 0.5  # seconds: a piece that does not ask whether it was cancelled holds nobody up for longer


class Busy(Exception):
    """Too much is waiting, or the work has ended; the message is one sentence for the reader."""


class Piece(Generic[T]):
    """A piece of work that was handed in.

    Attributes:
        future: its result; cancelled where it was cancelled before it began.
    """

    def __init__(self, work: Work, place: tuple[int, int], run: Callable[[Callable[[], bool]], T]) -> None:
        self.future: Future[T] = Future()
        self._work, self._run = work, run
        self._place = place  # (urgency, -number): smaller is sooner
        self._unwanted = threading.Event()

    def cancel(self) -> None:
        """Takes it back: it never begins, or, where it runs already, its ``cancelled()`` turns true."""
        self._unwanted.set()
        self._work._forget(self)
        self.future.cancel()  # does nothing where it runs or is done

    def _do(self) -> None:
        """Runs it, in the working thread."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self._run(self._unwanted.is_set)
        except BaseException as error:  # noqa: BLE001  whoever waits for the future gets it
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class Work:
    """One working thread: the kernels use all cores themselves, and two questions at once would halve each other.

    What is more urgent runs first, of equals the newest: a reader who moved on wants what is in view now. At most
    ``most`` pieces wait; beyond that the last in this order is refused. While nothing waits, background work runs, one
    piece at a time.

    Args:
        idle: one small piece of background work; False = nothing left. It is asked again after the next piece or
            ``poke()``. If it raises, that is logged, and it is not called any more.
        most: how many pieces may wait.

    Example:
        >>> from headwise.viewer.work import Work
        >>> work = Work()
        >>> work.submit(0, lambda cancelled: 6 * 7).future.result()
        42
        >>> work.close()
    """

    def __init__(self, idle: Callable[[], bool] | None = None, *, most: int = 256) -> None:
        self._idle, self._most = idle, most
        self._changed = threading.Condition()
        self._waiting: list[Piece[Any]] = []
        self._running: Piece[Any] | None = None
        self._count = 0
        self._restless = True  # whether there may be background work
        self._closed = False
        self._thread = threading.Thread(target=self._loop, name="headwise viewer work", daemon=True)
        self._thread.start()

    def submit(self, urgency: int, run: Callable[[Callable[[], bool]], T]) -> Piece[T]:
        """Hands in a piece of work.

        Args:
            urgency: smaller is sooner.
            run: gets ``cancelled()``, which a long run should ask now and then, and returns the result.

        Returns:
            Its handle. Where it is refused, at once or later in favour of others, its future holds ``Busy``.
        """
        with self._changed:
            self._count += 1
            piece = Piece(self, (urgency, -self._count), run)
            refused: Piece[Any] | None = None
            if self._closed:
                refused = piece
            else:
                self._waiting.append(piece)
                if len(self._waiting) > self._most:
                    refused = max(self._waiting, key=_place)
                    self._waiting.remove(refused)
                self._changed.notify()
        if refused is not None:
            _refuse(refused, _ENDED if self._closed else f"busy, {self._most} questions wait already; ask again")
        return piece

    def poke(self) -> None:
        """Says that there may be background work again."""
        with self._changed:
            self._restless = True
            self._changed.notify()

    def close(self) -> None:
        """Ends the thread. What runs is cancelled, what waits is refused; a second call does nothing."""
        with self._changed:
            self._closed = True
            waiting, self._waiting = self._waiting, []
            if self._running is not None:
                self._running._unwanted.set()
            self._changed.notify()
        for piece in waiting:
            _refuse(piece, _ENDED)
        if self._thread is not threading.current_thread():
            self._thread.join(_CLOSING)

    def _forget(self, piece: Piece[Any]) -> None:
        """Drops a piece that waits."""
        with self._changed:
            if piece in self._waiting:
                self._waiting.remove(piece)

    def _loop(self) -> None:
        # Gradients are a setting of each thread.
        with torch.no_grad():
            while True:
                with self._changed:
                    while not (self._closed or self._waiting or (self._restless and self._idle is not None)):
                        self._changed.wait()
                    if self._closed:
                        return
                    self._running = self._next()
                if self._running is None:
                    self._rest()
                    continue
                self._running._do()
                with self._changed:
                    self._running = None  # or the last result would stay until the next question
                    self._restless = True

    def _next(self) -> Piece[Any] | None:
        if not self._waiting:
            return None
        piece = min(self._waiting, key=_place)
        self._waiting.remove(piece)
        return piece

    def _rest(self) -> None:
        """One piece of background work."""
        assert self._idle is not None
        with self._changed:
            self._restless = False  # before it is asked: a poke meanwhile must not be lost
        try:
            more = self._idle()
        except Exception:  # noqa: BLE001  it is not known here what it does, and questions go on
            _LOG.exception("background work of the viewer has failed; it stops, questions are still answered")
            self._idle = None
            return
        if more:
            self.poke()


def _place(piece: Piece[Any]) -> tuple[int, int]:
    return piece._place


def _refuse(piece: Piece[Any], why: str) -> None:
    """Answers a piece that never began."""
    if piece.future.set_running_or_notify_cancel():
        piece.future.set_exception(Busy(sentence("view", why)))
