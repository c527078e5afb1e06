"""Exported programs in torch's own operators: the calls whose masks and sizes ask for more than plain steps."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw


class Calls(nn.Module):
    """One call with fixed options."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return hw.attention(q, k, v, **self.options)


def plain(model: nn.Module, *args: Tensor) -> Any:
    program = torch.export.export(model, args).run_decompositions(hw.decompositions())
    assert not any("headwise" in str(node.target) for node in program.graph.nodes)
    return program.module()


@pytest.mark.parametrize(
    "options",
    [{}, {"mask": hw.Causal()}, {"sinks": torch.ones(2)}, {"scores": (hw.SoftCap(2.0),), "gate": torch.ones(2)}],
    ids=["plain", "causal", "sinks", "cap and gate"],
)
def test_no_keys(options: dict[str, Any]) -> None:
    q, k = torch.randn(1, 2, 3, 4), torch.randn(1, 2, 0, 4)
    model = Calls(options)
    found = plain(model, q, k, k)(q, k, k)
    assert torch.equal(found, torch.zeros(1, 2, 3, 4))
    assert torch.equal(found, model(q, k, k))


@pytest.mark.parametrize("parents", [[-1], [-1, 0, 1, 2, 3, 4, 5], [-1, 0, 0, 2, 2, 4, -1], [-1] * 7])
@pytest.mark.parametrize("batched", [False, True])
def test_a_tree(parents: list[int], batched: bool) -> None:
    """Chains, branches and roots, deeper than one step of the doubling sees."""
    line = torch.tensor(parents)
    mask = hw.spec.Tree(torch.stack([line, torch.full_like(line, -1)]) if batched else line)
    q, k = torch.randn(2, 3, len(parents), 4), torch.randn(2, 3, 11, 4)
    for more in (hw.Causal(), hw.Window(4)):
        model = Calls({"mask": mask & more})
        torch.testing.assert_close(plain(model, q, k, k)(q, k, k), model(q, k, k), atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize(
    "rule",
    [
        hw.RelativeBias.t5(torch.randn(8, 2), True, 5),
        hw.RelativeBias.t5(torch.randn(8, 2), False, 20),
        hw.Bias.grid(torch.randn(15, 2), 2, 3),
        hw.Bias.grid(torch.randn(12, 2), 1, 5),
    ],
    ids=["t5, both ways", "t5, backwards", "grid", "grid with a class token"],
)
def test_compact_tables(rule: Any) -> None:
    model, q = Calls({"scores": (rule,)}), torch.randn(1, 2, 6, 4)
    torch.testing.assert_close(plain(model, q, q, q)(q, q, q), model(q, q, q), atol=1e-6, rtol=1e-6)
