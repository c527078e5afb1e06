"""What one thread measures reached what others ran, and blocks of everywhere() that overlap ended each other.

Heads that `importance` takes out one by one were out in every thread. Of two blocks of `everywhere()` closed in the
order in which they were opened, the second did nothing any more; entered twice it ended in a raw AttributeError.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from zoo import Zoo

import headwise as hw
from headwise.heads import head_table, score_heads
from headwise.models import tracing

IDS = torch.arange(3, 9)[None]


def beside(run: Callable[[], Any]) -> Any:
    """What something gives in a thread of its own."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    thread.join()
    return found[0]


def test_heads_are_taken_out_in_the_thread_that_weighs_them_alone() -> None:
    model = hw.use(Zoo().model("llama"))
    with torch.no_grad():
        want = model(IDS).logits
    found: list[torch.Tensor] = []

    def other() -> torch.Tensor:
        with torch.no_grad():
            logits: torch.Tensor = model(IDS).logits
        return logits

    def loss(output: Any, batch: Any) -> torch.Tensor:
        found.append(beside(other))
        return output.logits.mean()

    scores = hw.importance(model, {"input_ids": IDS}, loss=loss, method="leave_one_out")
    assert bool((scores != 0).any())
    assert len(found) > 4
    assert all(torch.equal(logits, want) for logits in found)


def test_forwards_of_other_threads_are_counted() -> None:
    model = Zoo().model("llama")
    for reduce in (None, "mean"):
        with hw.observe(model, hw.Entropy(), reduce=reduce) as seen, torch.no_grad():
            beside(lambda: model(IDS))
            with pytest.raises(hw.SpecError, match=r'it ran in other threads or tasks.*threads="all"'):
                seen["entropy"]
            model(IDS)
        assert (seen.count, seen.elsewhere) == (1, 1)
        assert "1 call of other threads left out" in repr(seen)


def test_a_trace_of_what_other_threads_run_alone_is_refused() -> None:
    model = Zoo().model("llama")
    block = tracing(model)
    block.__enter__()
    beside(lambda: model(IDS))
    with pytest.raises(hw.SpecError, match="it ran in other threads or tasks alone"):
        block.__exit__(None, None, None)
    with tracing(model) as trace:
        context = contextvars.copy_context()
        beside(lambda: context.run(model, IDS))
    assert len(trace.sites) == len(hw.sites(model))


def test_the_encoder_that_is_named_can_be_scored() -> None:
    model = Zoo().model("bart")
    with pytest.raises(hw.UnsupportedError, match=r"Score its encoder, model\.get_encoder\(\)"):
        score_heads(model, IDS)
    assert score_heads(model.get_encoder(), IDS)  # of the same config
    assert head_table(model.get_encoder(), None, [[3, 4, 5, 6, 7, 8]])


def runs_by_headwise() -> bool:
    """Whether torch's op runs by headwise now: then torch's profiler names none of its own."""
    q = torch.randn(1, 2, 5, 4)
    with torch.profiler.profile() as profile:
        F.scaled_dot_product_attention(q, q, q)
    return not any("scaled_dot_product" in event.key for event in profile.key_averages())


def test_blocks_of_everywhere_closed_in_the_order_in_which_they_were_opened() -> None:
    first, second = hw.everywhere(), hw.everywhere()
    assert not runs_by_headwise()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert runs_by_headwise()
    second.__exit__(None, None, None)
    assert not runs_by_headwise()
    with pytest.raises(hw.SpecError, match=r"a closed block was entered.*Call hw\.everywhere\(\.\.\.\) again"):
        first.__enter__()


def test_a_block_of_everywhere_closed_in_another_thread() -> None:
    opened: list[Any] = []
    stop, ready = threading.Event(), threading.Event()

    def opening() -> None:
        opened.append(hw.everywhere())
        opened[0].__enter__()
        ready.set()
        stop.wait()

    thread = threading.Thread(target=opening)
    thread.start()
    ready.wait()
    with pytest.raises(hw.SpecError, match="closed in another thread than the one that opened it"):
        opened[0].__exit__(None, None, None)
    stop.set()
    thread.join()
    assert not runs_by_headwise()
