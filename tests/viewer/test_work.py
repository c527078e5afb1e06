"""One thread, the most urgent first, what is unwanted not at all."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.viewer.work import Busy, Piece, Work

SOON = 300  # seconds; ends what hangs, and is no measure of anything


@pytest.fixture
def work() -> Iterator[Work]:
    """Work that is ended afterwards."""
    made = Work()
    yield made
    made.close()


class Held:
    """Keeps the working thread in one piece of work until it is let go."""

    def __init__(self, work: Work) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.cancelled: bool | None = None
        self.piece: Piece[Any] = work.submit(0, self._run)
        assert self.begun.wait(SOON)

    def _run(self, cancelled: Any) -> str:
        self.begun.set()
        assert self.go.wait(SOON)
        self.cancelled = cancelled()
        return "held"


def test_urgent_first_and_of_equals_the_newest(work: Work) -> None:
    held, order = Held(work), []
    asked = [(2, "tile 1"), (5, "profile"), (2, "tile 2"), (0, "scene"), (2, "tile 3")]
    pieces = [work.submit(urgency, lambda _, name=name: order.append(name)) for urgency, name in asked]
    held.go.set()
    for piece in pieces:
        piece.future.result(SOON)
    assert order == ["scene", "tile 3", "tile 2", "tile 1", "profile"]


def test_one_thread_does_it_all(work: Work) -> None:
    names = {work.submit(0, lambda _: threading.current_thread()).future.result(SOON) for _ in range(4)}
    assert len(names) == 1
    assert threading.current_thread() not in names


def test_what_is_cancelled_before_it_begins_never_runs(work: Work) -> None:
    held, ran = Held(work), []
    unwanted = work.submit(1, lambda _: ran.append("unwanted"))
    wanted = work.submit(2, lambda _: ran.append("wanted"))
    unwanted.cancel()
    held.go.set()
    wanted.future.result(SOON)
    assert ran == ["wanted"]
    with pytest.raises(CancelledError):
        unwanted.future.result(SOON)


def test_what_runs_is_told_that_it_is_cancelled(work: Work) -> None:
    held, other = Held(work), Held.__new__(Held)
    held.piece.cancel()
    held.go.set()
    assert held.piece.future.result(SOON) == "held"
    assert held.cancelled is True
    other.__init__(work)  # type: ignore[misc]
    other.go.set()
    other.piece.future.result(SOON)
    assert other.cancelled is False


def test_beyond_the_bound_the_oldest_of_the_least_urgent_is_refused() -> None:
    work = Work(most=3)
    held, order = Held(work), []

    def ask(urgency: int, name: str) -> Piece[None]:
        return work.submit(urgency, lambda _: order.append(name))

    old, new, urgent = ask(5, "old"), ask(5, "new"), ask(1, "urgent")
    newest = ask(5, "newest")
    with pytest.raises(Busy, match=r"^view: busy, 3 questions wait already; ask again\.$"):
        old.future.result(0)
    most_urgent = ask(0, "most urgent")
    with pytest.raises(Busy):
        new.future.result(0)
    late = ask(6, "late")  # itself the least urgent of all
    with pytest.raises(Busy):
        late.future.result(0)
    urgent.cancel()  # makes room
    again = ask(6, "again")
    held.go.set()
    for piece in (newest, most_urgent, again):
        piece.future.result(SOON)
    assert order == ["most urgent", "newest", "again"]
    work.close()


def test_an_error_goes_to_whoever_asked_and_the_thread_lives_on(work: Work) -> None:
    def fail(cancelled: Any) -> None:
        raise hw.errors.SpecError("view: no.")

    with pytest.raises(hw.errors.SpecError, match=r"view: no\."):
        work.submit(0, fail).future.result(SOON)
    assert work.submit(0, lambda _: 1).future.result(SOON) == 1


def test_background_work_runs_until_nothing_is_left_and_again_after_a_question_or_a_poke() -> None:
    asked: list[int] = []
    left, done = [3], threading.Semaphore(0)

    def idle() -> bool:
        asked.append(left[0])
        left[0] -= 1
        if left[0] <= 0:
            done.release()
        return left[0] > 0

    work = Work(idle)
    assert done.acquire(timeout=SOON)
    work.submit(0, lambda _: None).future.result(SOON)
    assert done.acquire(timeout=SOON)
    work.poke()
    assert done.acquire(timeout=SOON)
    work.close()
    assert asked == [3, 2, 1, 0, -1]


def test_questions_come_before_background_work() -> None:
    order: list[str] = []
    first, go = threading.Event(), threading.Event()

    def idle() -> bool:
        order.append("idle")
        first.set()
        assert go.wait(SOON)
        return order.count("idle") < 3

    work = Work(idle)
    assert first.wait(SOON)
    pieces = [work.submit(0, lambda _: order.append("asked")) for _ in range(2)]
    go.set()
    for piece in pieces:
        piece.future.result(SOON)
    work.close()
    assert order[:3] == ["idle", "asked", "asked"]


def test_a_poke_while_background_work_ends_is_not_lost() -> None:
    calls, twice = [], threading.Event()

    def idle() -> bool:
        calls.append(1)
        if len(calls) == 1:
            work.poke()
        else:
            twice.set()
        return False

    go = threading.Event()
    work = Work(lambda: go.wait(SOON) and idle())
    go.set()
    assert twice.wait(SOON)
    work.close()


def test_background_work_that_fails_is_logged_once_and_stops(caplog: pytest.LogCaptureFixture) -> None:
    failed = threading.Event()

    def idle() -> bool:
        failed.set()
        raise RuntimeError("no more")

    with caplog.at_level(logging.ERROR):
        work = Work(idle)
        assert failed.wait(SOON)
        for _ in range(3):
            assert work.submit(0, lambda _: 7).future.result(SOON) == 7
            work.poke()
        work.close()
    assert len(caplog.records) == 1
    assert "no more" in caplog.text


def test_ending_cancels_refuses_and_joins() -> None:
    work = Work()
    begun = threading.Event()

    def long(cancelled: Any) -> str:
        begun.set()
        while not cancelled():
            pass
        return "told"

    running = work.submit(0, long)
    assert begun.wait(SOON)
    waiting = work.submit(1, lambda _: None)
    work.close()
    work.close()
    assert running.future.result(0) == "told"
    for piece in (waiting, work.submit(0, lambda _: None)):
        with pytest.raises(Busy, match="has ended"):
            piece.future.result(0)
    assert not work._thread.is_alive()


def test_results_do_not_depend_on_the_thread(work: Work) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 4, 70, 16)
    pattern = hw.Pattern(q, k.contiguous(), mask=hw.Causal())

    def ask(_: Any = None) -> tuple[torch.Tensor, ...]:
        return pattern[0], pattern.entropy(), torch.randn(4, generator=torch.Generator().manual_seed(1)), q @ k.mT

    for here, there in zip(ask(), work.submit(0, ask).future.result(SOON), strict=True):
        assert torch.equal(here, there)
    assert work.submit(0, lambda _: torch.get_num_threads()).future.result(SOON) == torch.get_num_threads()


def test_no_result_is_kept_once_it_was_taken(work: Work) -> None:
    import gc
    import weakref

    result = work.submit(0, lambda _: torch.zeros(3)).future.result(SOON)
    work.submit(0, lambda _: None).future.result(SOON)
    told = weakref.ref(result)
    del result
    gc.collect()
    assert told() is None
