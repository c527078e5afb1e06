"""Under autocast the tiles were made in bfloat16: outputs, gradients and answers lost digits without a word."""

import pytest
import torch
from native_here import NATIVE

import headwise as hw


@pytest.mark.parametrize("backend", [NATIVE, "sdpa", "blocked", "reference"])
def test_a_call_has_the_precision_of_its_operands(backend: str | None):
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 4, 33, 16) * 3 for _ in range(3))
    v.requires_grad_()
    ids = torch.arange(33) // 4
    questions = [hw.Entropy(), hw.Segments(ids, ids), hw.Map(4, 4)]

    def run():
        got = hw.attend(q, k, v, mask=hw.Causal(), backend=backend, observe=questions)
        return [got.out, got.lse, got.pattern[0, 0], got.pattern.entropy(), *got.seen.values()]

    plain = run()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cast = run()
        if backend != "reference":  # its backward is torch's own, which autocast reaches where backward is called in it
            cast.append(torch.autograd.grad(cast[0].square().sum(), v, retain_graph=True)[0])
            plain.append(torch.autograd.grad(plain[0].square().sum(), v, retain_graph=True)[0])
    plain.append(torch.autograd.grad(plain[0].square().sum(), v)[0])
    cast.append(torch.autograd.grad(cast[0].square().sum(), v)[0])
    for a, b in zip(plain, cast, strict=True):
        assert torch.equal(a, b)
        assert a.dtype == b.dtype
