"""Gates of one thread's forward were another's, and the last of several threads left a model in eval mode."""

from __future__ import annotations

import threading
from typing import Any

import torch
from zoo import Zoo

import headwise as hw


def test_each_thread_has_its_own_gates_and_the_model_its_mode() -> None:
    zoo = Zoo()
    model = hw.use(zoo.model("llama")).train()
    batches = [torch.randint(3, 64, (1, 4)), torch.randint(3, 64, (8, 30))]
    want = [hw.importance(model, batch) for batch in batches]
    found: list[tuple[int, Any]] = []

    def weigh(which: int) -> None:
        for _ in range(6):
            try:
                found.append((which, hw.importance(model, batches[which])))
            except (IndexError, RuntimeError) as error:  # it would be lost in a thread
                found.append((which, error))

    threads = [threading.Thread(target=weigh, args=(n,)) for n in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    for which, scores in found:
        torch.testing.assert_close(scores, want[which], rtol=1e-4, atol=1e-7)
    assert all(module.training for module in model.modules())
