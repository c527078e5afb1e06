"""Trees that are no trees, global tokens that do not fit, maps that count positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.spec import Global, Strided, Tree

X = torch.zeros(2, 1, 4, 4)


@pytest.mark.parametrize(
    ("mask", "error", "said"),
    [
        (lambda: Tree([0, 0, 1, 2]), hw.SpecError, "the parent of token 0 is 0; a parent is an earlier token"),
        (lambda: Tree([-1, 0, 3, 2]), hw.SpecError, "the parent of token 2 is 3"),
        (lambda: Tree([-1, -2, 0, 0]), hw.SpecError, "the parent of token 1 is -2"),
        (lambda: Tree(torch.tensor([[-1, 0, 1, 2], [-1, 0, 1, 9]])), hw.SpecError, "token 3 of batch row 1 is 9"),
        (lambda: Tree([-1, 0]), hw.ShapeError, r"it names one parent a query, \[T=4\] or \[B=2,T=4\]"),
        (lambda: Tree(torch.zeros(4)), hw.SpecError, "parents is torch.float32"),
        (lambda: Tree(torch.zeros(1, 1, 4).int()), hw.ShapeError, "parents has 3 axes"),
        (lambda: Tree("ab"), hw.SpecError, "parents is 'ab'"),
        (lambda: Global(torch.ones(3) > 0), hw.ShapeError, r"it is \[S=4\] or \[B=2,S=4\]"),
        (lambda: Global(torch.ones(1, 1, 4) > 0), hw.ShapeError, "bool tokens has 3 axes"),
        (lambda: Global(torch.ones(3).long()), hw.ShapeError, "tokens has 3 entries, the batch has 2 rows"),
        (lambda: Global(torch.ones(4)), hw.SpecError, "tokens is"),
        (lambda: Strided(0), hw.SpecError, "step is 0"),
        (lambda: Strided(True), hw.SpecError, "step is True"),
        (lambda: hw.Blocks(torch.ones(9, 1) > 0, 2, "end"), hw.ShapeError, r"it must be \[nk=2 or more\]"),
        (lambda: hw.Blocks(torch.ones(2, 2) > 0, 2, "middle"), hw.SpecError, "align is 'middle'"),
    ],
)
def test_what_does_not_fit_is_said(mask: Callable[[], Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        hw.attention(X, X, X, mask=mask())


def test_a_chain_is_causal_and_roots_see_only_themselves() -> None:
    q, k, v = torch.randn(3, 2, 1, 9, 8).unbind(0)
    chain, causal = (hw.attention(q[:, :, 4:], k, v, mask=mask) for mask in (Tree([-1, 0, 1, 2, 3]), hw.Causal()))
    assert torch.equal(chain, causal)
    seen = hw.Pattern(X, X, mask=Tree([-1, -1, -1, -1]))[0, 0] > 0
    assert torch.equal(seen, torch.eye(4) > 0)


def test_accepted_tokens_are_what_plain_decoding_gives() -> None:
    """Verifying a tree in one call: the rows along a branch are those of that branch decoded alone."""
    parents = [-1, 0, 0, 1, 2, 2]
    past, q, k, v = 7, *torch.randn(3, 1, 2, 13, 8).unbind(0)
    out = hw.attention(q[:, :, past:], k, v, mask=Tree(parents))
    for branch in ([0, 1, 3], [0, 2, 5]):
        rows = [past + token for token in branch]
        kept = [*range(past), *rows]
        alone = hw.attention(q[:, :, rows], k[:, :, kept], v[:, :, kept], mask=hw.Causal())
        torch.testing.assert_close(out[:, :, branch], alone)


def test_parents_are_read_anew_in_every_call() -> None:
    parents = torch.tensor([-1, 0, 1, 2])
    mask = Tree(parents)
    q, k, v = torch.randn(3, 1, 1, 4, 8).unbind(0)
    first = hw.attention(q, k, v, mask=mask)
    parents.copy_(torch.tensor([-1, 0, 0, 0]))
    second = hw.attention(q, k, v, mask=mask)
    assert torch.equal(second, hw.attention(q, k, v, mask=Tree([-1, 0, 0, 0])))
    assert not torch.equal(first, second)


def test_a_deep_tree_runs_elsewhere_and_says_so() -> None:
    """Two chains whose tokens alternate: a row has one run a token, more than are kept."""
    deep = Tree([-1, -1, *range(78)])
    x = torch.randn(1, 1, 80, 4)
    said = hw.explain(x, x, x, mask=deep)
    assert said.chosen == "blocked"
    torch.testing.assert_close(hw.attention(x, x, x, mask=deep), hw.attention(x, x, x, mask=deep, backend="reference"))
