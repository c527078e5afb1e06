"""While one thread compiled, calls of other threads that no graph could hold were refused: torch's flag is of all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.backends import Blocked

Q = torch.randn(1, 2, 4, 8, generator=torch.Generator().manual_seed(0))
RULE = hw.Rule(lambda b, h, i, j: i >= j)
CALLS: dict[str, Callable[[], Tensor]] = {
    "a function as the mask": lambda: hw.attention(Q, Q, Q, mask=RULE),
    "a backend that is an object": lambda: hw.attention(Q, Q, Q, mask=hw.Causal(), backend=Blocked()),
    "attend": lambda: hw.attend(Q, Q, Q, mask=RULE, observe=[hw.Entropy()]).out,
    "a forward-mode derivative": lambda: torch.func.jvp(
        lambda q: hw.attention(q, Q, Q, mask=hw.Causal(), backend="reference"), (Q,), (Q,)
    )[0],
}


def beside(run: Callable[[], Any]) -> Any:
    """What something gives, or raises, in a thread of its own."""
    results: list[Any] = []

    def settle() -> None:
        try:
            results.append(run())
        except Exception as error:  # noqa: BLE001  # raised again below, in the first thread
            results.append(error)

    thread = threading.Thread(target=settle)
    thread.start()
    thread.join()
    if isinstance(results[0], Exception):
        raise results[0]
    return results[0]


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_of_another_thread_is_an_ordinary_one(name: str) -> None:
    results: list[Tensor] = []

    class Exported(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            assert torch.compiler.is_compiling()
            results.append(beside(CALLS[name]))
            return x + 1

    want = hw.attention(Q, Q, Q, mask=hw.Causal(), backend="reference")
    torch.export.export(Exported(), (torch.ones(2),), strict=False)
    torch.testing.assert_close(results[0], want)


def test_weights_inside_a_block_are_those_before_dropout() -> None:
    layer, x = torch.nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.5).train(), Q[0, :1]
    results: list[Tensor] = []

    def weights() -> Tensor:
        with hw.everywhere():
            found: Tensor = layer(x, x, x)[1]
        return found

    class Exported(torch.nn.Module):
        def forward(self, y: Tensor) -> Tensor:
            results.append(beside(weights))
            return y + 1

    torch.export.export(Exported(), (torch.ones(2),), strict=False)
    torch.testing.assert_close(results[0].sum(-1), torch.ones(1, 4))
