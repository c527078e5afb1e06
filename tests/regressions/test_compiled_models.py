"""torch.compile traced into the planning of a call and recompiled for every number it branched on."""

import torch
from torch._dynamo.testing import CompileCounter

import headwise as hw


def test_a_compiled_function_calls_attention_as_it_is_and_compiles_once():
    def step(x: torch.Tensor) -> torch.Tensor:
        return hw.attention(x, x, x, mask=hw.Causal()) * 2

    counter = CompileCounter()
    compiled = torch.compile(step, backend=counter, dynamic=True)
    for length in (8, 9, 17):
        x = torch.randn(1, 2, length, 4)
        torch.testing.assert_close(compiled(x), step(x), rtol=0, atol=0)
    assert counter.frame_count == 1
