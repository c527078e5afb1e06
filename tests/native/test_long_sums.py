"""Long sums, over 2,048 keys forward and 2,048 queries backward, are as near to float64 as torch's fused op is."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import headwise as hw
from headwise.testing import far, spacing

T, PEAKED = 2048, 3.0


def results(q: Tensor, k: Tensor, v: Tensor, weights: Tensor, native: bool) -> dict[str, Tensor]:
    leaves = [x.detach().requires_grad_() for x in (q, k, v)]
    if native:
        out = hw.attention(*leaves, mask=hw.Causal(), backend="native")
    else:
        out = scaled_dot_product_attention(*leaves, is_causal=True)
    found = torch.autograd.grad(out, leaves, weights)
    return {"out": out.detach(), "q": found[0], "k": found[1], "v": found[2]}


@pytest.mark.parametrize("factor", [1.0, PEAKED])
@pytest.mark.parametrize("seed", [0, 1])
def test_they_are_as_exact_as_torch(seed: int, factor: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    q, k, v, weights = (torch.randn(1, 3, T, 64, generator=generator) for _ in range(4))
    q = q * factor
    exact = results(*(x.double() for x in (q, k, v, weights)), native=False)
    found, torchs = (results(q, k, v, weights, native=native) for native in (True, False))
    for name, wanted in exact.items():
        off, fair = (x[name].double() - wanted for x in (found, torchs))
        assert float(off.square().mean()) <= 1.1 * float(fair.square().mean()), name  # the whole, which is no luck
        budget = 2 * far(torchs[name], wanted) + spacing(float(wanted.abs().max()), torch.float32)
        assert far(found[name], wanted) <= budget, name  # the worst cell
