"""Blocks that watch or change a model, opened and closed in any order, by threads and tasks.

While one thread traced a model, a forward of another thread entered the trace; of two `observe` blocks that were closed
in the order in which they were opened, the second missed what ran while it was open; a block that was opened in one
asyncio task and closed in another, or entered twice, ended in an error of Python's own.
"""

from __future__ import annotations

import asyncio
import copy
import gc
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from typing_extensions import Self

import headwise as hw
from headwise.errors import SpecError, UnsupportedError
from headwise.heads.attribution import attribution
from headwise.heads.recording import mixes
from headwise.models import tracing
from headwise.models.projections import projections
from headwise.nn import torch_compat

SIZES = {"n_layer": 2, "n_head": 2, "n_embd": 8, "vocab_size": 16, "n_positions": 32}
IDS = torch.arange(6)[None]
OTHER = torch.arange(9)[None] + 3


@pytest.fixture
def model() -> Any:
    torch.manual_seed(0)
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**SIZES)).eval()


def run(model: Any, ids: Tensor = IDS) -> Tensor:
    with torch.no_grad():
        return model(ids).logits


class Foreign:
    """Another thread, which runs the model once whenever the first thread is inside the model's first layer."""

    def __init__(self, model: Any) -> None:
        self.model, self.count = model, 0
        self._mine = threading.get_ident()
        self._hook = model.transformer.h[0].register_forward_pre_hook(self._step)

    def _step(self, *_: Any) -> None:
        if threading.get_ident() == self._mine:
            thread = threading.Thread(target=run, args=(self.model, OTHER))
            thread.start()
            thread.join()
            self.count += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._hook.remove()
        assert self.count > 0


# other threads


def test_a_forward_of_another_thread_enters_no_trace(model: Any) -> None:
    alone = hw.trace(model, input_ids=IDS)
    with Foreign(model):
        trace = hw.trace(model, input_ids=IDS)
    assert list(trace.inputs) == ["input_ids"]
    assert torch.equal(trace.inputs["input_ids"], IDS)
    assert trace.sites == hw.sites(model)
    assert torch.equal(trace.pattern(1).to_dense(), alone.pattern(1).to_dense())


def test_a_forward_of_another_thread_enters_no_recording(model: Any) -> None:
    layers = [projections(model, site, "test") for site in hw.sites(model)]
    attributed, mixed = attribution(model, input_ids=IDS), mixes(model, layers, {"input_ids": IDS})[1]
    with Foreign(model):
        again = attribution(model, input_ids=IDS)
        mixed_again = mixes(model, layers, {"input_ids": IDS})[1]
    assert torch.equal(attributed.heads.nan_to_num(), again.heads.nan_to_num())
    assert list(mixed) == list(mixed_again)
    assert all(torch.equal(mixed[name], mixed_again[name]) for name in mixed)


def test_a_forward_of_another_thread_is_in_no_mean(model: Any) -> None:
    def ablated() -> Tensor:
        with hw.ablate(model, {0: [1]}, how="mean", reference={"input_ids": IDS}):
            return run(model)

    alone = ablated()
    with Foreign(model):
        assert torch.equal(ablated(), alone)


def test_all_threads_where_they_are_asked_for(model: Any) -> None:
    hw.use(model)
    with hw.observe(model, hw.Entropy(), threads="all") as seen:
        threads = [threading.Thread(target=run, args=(model, ids)) for ids in (IDS, OTHER, IDS, OTHER)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        run(model)
    assert sorted(call["entropy"].shape[-1] for call in seen.calls) == [6, 6, 6, 9, 9]
    with hw.observe(model, hw.Entropy()) as mine:
        run(model)
    for call in seen.calls:
        if call["entropy"].shape[-1] == 6:
            torch.testing.assert_close(call["entropy"], mine["entropy"])


def test_means_over_all_threads(model: Any) -> None:
    hw.use(model)
    with hw.observe(model, hw.Entropy(), reduce="mean") as one_by_one:
        for _ in range(3):
            run(model)
            run(model, OTHER)
    with hw.observe(model, hw.Entropy(), reduce="mean", threads="all") as at_once:
        threads = [threading.Thread(target=run, args=(model, ids)) for ids in (IDS, OTHER) * 3]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert at_once.count == 6
    torch.testing.assert_close(at_once["entropy"], one_by_one["entropy"])


def test_two_threads_of_one_block_are_refused_where_it_keeps_one_forward(model: Any) -> None:
    refused: list[BaseException] = []

    async def main() -> None:
        with tracing(model):
            inside, left = threading.Event(), threading.Event()

            def wait(*_: Any) -> None:
                inside.set()
                assert left.wait(600)

            hook = model.transformer.h[1].register_forward_pre_hook(wait)
            first = asyncio.create_task(asyncio.to_thread(run, model))
            await asyncio.to_thread(inside.wait, 600)
            hook.remove()
            try:
                await asyncio.to_thread(run, model)
            except UnsupportedError as error:
                refused.append(error)
            left.set()
            await first

    asyncio.run(main())
    assert len(refused) == 1
    assert "two threads at the same time" in str(refused[0])


def test_a_thread_with_a_copy_of_the_context_belongs_to_the_block(model: Any) -> None:
    async def main() -> Any:
        with hw.observe(model, hw.Entropy()) as seen:
            await asyncio.to_thread(run, model)
        return seen

    assert asyncio.run(main())["entropy"].shape == (2, 1, 2, 6)


def test_what_was_left_out_is_said(model: Any) -> None:
    hw.use(model)
    with hw.observe(model, hw.Entropy()) as seen:
        thread = threading.Thread(target=run, args=(model,))
        thread.start()
        thread.join()
    with pytest.raises(SpecError, match=r'other threads or tasks.*threads="all"'):
        seen["entropy"]
    with hw.observe(model.transformer, hw.Entropy()) as seen, torch.no_grad():
        model.transformer.forward(IDS)
    with pytest.raises(SpecError, match=r"model\.forward.*Call the model itself"):
        seen["entropy"]


def test_an_unknown_choice_of_threads_is_refused(model: Any) -> None:
    with pytest.raises(SpecError, match='it is "own" or "all"'), hw.observe(model, hw.Entropy(), threads="some"):
        pass


# the order in which blocks are opened and closed


def drop_in() -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return torch_compat.replace(nn.TransformerEncoder(layer, 2)).eval()


WATCHING: dict[str, Callable[[Any], Any]] = {
    "observe": lambda model: hw.observe(model, hw.Entropy()),
    "tracing": tracing,
}


@pytest.mark.parametrize("kind", WATCHING)
def test_watching_blocks_closed_in_the_order_they_were_opened(model: Any, kind: str) -> None:
    hw.use(model)
    first, second = WATCHING[kind](model), WATCHING[kind](model)
    first.__enter__()
    later = second.__enter__()
    first.__exit__(None, None, None)
    run(model)
    second.__exit__(None, None, None)
    assert later.sites == hw.sites(model)
    run(model)
    assert later.sites == hw.sites(model)


def test_drop_in_blocks_closed_in_the_order_they_were_opened() -> None:
    module, x = drop_in(), torch.ones(1, 5, 8)
    first, second = (torch_compat.observe(module, hw.Entropy()) for _ in range(2))
    first.__enter__()
    later = second.__enter__()
    first.__exit__(None, None, None)
    with torch.no_grad():
        module(x)
    second.__exit__(None, None, None)
    assert list(later) == ["layers.0.self_attn", "layers.1.self_attn"]


def changing(model: Any, source: Any) -> dict[str, Any]:
    return {
        "ablate": lambda head: hw.ablate(model, {0: [head]}),
        "knock_out": lambda head: hw.knock_out(model, {0: [head]}, [(5, 0)]),
        "patch": lambda head: hw.patch(model, {0: [head]}, source),
        "freeze": lambda head: hw.freeze(model, source, {0: [head]}),
    }


KINDS = ["ablate", "knock_out", "patch", "freeze"]


@pytest.mark.parametrize("kind", KINDS)
def test_changing_blocks_closed_in_the_order_they_were_opened(model: Any, kind: str) -> None:
    opened = changing(model, hw.trace(model, input_ids=OTHER[:, :6]))[kind]
    plain = run(model)
    with opened(1):
        alone = run(model)
    first, second = opened(0), opened(1)
    first.__enter__()
    second.__enter__()
    both = run(model)
    first.__exit__(None, None, None)
    assert torch.equal(run(model), alone)
    second.__exit__(None, None, None)
    torch.testing.assert_close(run(model), plain)
    assert not torch.equal(both, alone)


@pytest.mark.parametrize("kind", [*KINDS, *WATCHING, "torch_compat.observe"])
def test_a_block_opened_in_one_task_and_closed_in_another(model: Any, kind: str) -> None:
    module = drop_in()
    openers = {**{k: lambda v=v: v(1) for k, v in changing(model, hw.trace(model, input_ids=OTHER[:, :6])).items()}}
    openers |= {k: lambda v=v: v(model) for k, v in WATCHING.items()}
    openers["torch_compat.observe"] = lambda: torch_compat.observe(module, hw.Entropy())
    plain = run(model)

    async def opening(block: Any) -> None:
        block.__enter__()
        run(model)
        with torch.no_grad():
            module(torch.ones(1, 5, 8))

    async def closing(block: Any) -> None:
        block.__exit__(None, None, None)

    async def main() -> None:
        block = openers[kind]()
        await asyncio.create_task(opening(block))
        await asyncio.create_task(closing(block))

    asyncio.run(main())
    torch.testing.assert_close(run(model), plain)


def test_a_block_closed_elsewhere_is_not_kept_by_who_opened_it(model: Any) -> None:
    watched = copy.deepcopy(model)
    block = hw.observe(watched, hw.Entropy())
    block.__enter__()
    thread = threading.Thread(target=block.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    gone = weakref.ref(watched)
    del watched, block, thread
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("kind", [*KINDS, *WATCHING, "torch_compat.observe"])
def test_a_block_is_entered_once(model: Any, kind: str) -> None:
    module = drop_in()
    openers = {**{k: lambda v=v: v(1) for k, v in changing(model, hw.trace(model, input_ids=OTHER[:, :6])).items()}}
    openers |= {k: lambda v=v: v(model) for k, v in WATCHING.items()}
    openers["torch_compat.observe"] = lambda: torch_compat.observe(module, hw.Entropy())
    block = openers[kind]()
    with block:
        with pytest.raises(SpecError, match="block that is open was entered again"):
            block.__enter__()
        run(model)
    with pytest.raises(SpecError, match="closed block was entered"):
        block.__enter__()
    with pytest.raises(SpecError, match="closed that is not open"):
        block.__exit__(None, None, None)


def test_a_block_as_a_decorator_is_a_new_one_for_each_call(model: Any) -> None:
    with hw.ablate(model, {0: [1]}):
        want = run(model)

    @hw.ablate(model, {0: [1]})
    def ablated() -> Tensor:
        return run(model)

    assert torch.equal(ablated(), want)
    assert torch.equal(ablated(), want)


def test_a_generator_left_inside_a_block_takes_nothing_with_it(model: Any) -> None:
    hw.use(model)

    def steps() -> Any:
        with hw.observe(model, hw.Entropy()) as seen:
            run(model)
            yield seen
            run(model)

    generator = steps()
    seen = next(generator)
    with hw.observe(model, hw.Entropy()) as outer:
        generator.close()
        run(model)
    assert len(seen.calls) == 1
    assert len(outer.calls) == 1
