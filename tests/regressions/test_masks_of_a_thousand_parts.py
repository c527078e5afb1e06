"""Many masks as one: a thousand calls inside each other are more than Python has.

Those of one sign lie side by side, and their bounds are joined two by two. Those of both signs in turn lie inside each
other, of which there are at most DEPTH, so that whatever walks a mask has calls enough: ours, pickle's, a compiler's.
"""

from __future__ import annotations

import copy
import functools
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.spec import AttentionSpec
from headwise.spec.encoding import decode, encode
from headwise.spec.masks import DEPTH


@pytest.mark.parametrize("cross", [operator.or_, operator.and_], ids=["or", "and"])
def test_a_thousand_masks(cross: object) -> None:
    x = torch.randn(1, 1, 6, 4)
    parts = [hw.Window(n % 5, 3) for n in range(1000)]
    mask = functools.reduce(cross, parts)  # type: ignore[arg-type]
    want = hw.Window(4, 3) if cross is operator.or_ else hw.Window(0, 3)
    torch.testing.assert_close(hw.Pattern(x, x, mask=mask).to_dense(), hw.Pattern(x, x, mask=want).to_dense())
    torch.testing.assert_close(hw.attention(x, x, x, mask=mask), hw.attention(x, x, x, mask=want))


def test_masks_that_the_kernels_read() -> None:
    """Bounds that native joins: documents of one id are exact runs, whatever their number."""
    x, ids = torch.randn(1, 1, 6, 4), torch.tensor([0, 0, 0, 1, 1, 1])
    mask = functools.reduce(operator.and_, [hw.Documents(ids) for _ in range(1500)])
    torch.testing.assert_close(hw.attention(x, x, x, mask=mask), hw.attention(x, x, x, mask=hw.Documents(ids)))


def left(n: int) -> hw.Mask:
    mask: hw.Mask = hw.Causal()
    for turn in range(n):
        mask = mask & hw.Window(turn + 9, None) if turn % 2 else mask | hw.Window(turn % 3, 1)
    return mask


def right(n: int) -> hw.Mask:
    mask: hw.Mask = hw.Causal()
    for turn in range(n):
        mask = hw.Window(turn + 9, None) & mask if turn % 2 else hw.Window(turn % 3, 1) | mask
    return mask


@pytest.mark.parametrize("nested", [left, right])
def test_masks_in_turn(nested: Callable[[int], hw.Mask]) -> None:
    """As deep as they may be, all that a mask is asked has an answer; one deeper is refused when it is made."""
    x, mask = torch.randn(1, 1, 6, 4), nested(DEPTH)
    want = hw.attention(x, x, x, mask=hw.Window(None, 1), backend="reference")
    again: list[Any] = [mask, copy.copy(mask), copy.deepcopy(mask), pickle.loads(pickle.dumps(mask))]
    again += [mask.mapped(torch.clone), decode(encode(AttentionSpec(mask))).mask]
    for one in again:
        assert repr(one) == repr(mask) and len(one.parts()) == DEPTH + 1 and one.tensors() == ()
        for backend in ("reference", "blocked", None):
            torch.testing.assert_close(hw.attention(x, x, x, mask=one, backend=backend), want)
    copy.deepcopy(hw.Pattern(x, x, mask=mask)).entropy()
    assert hw.explain(x, x, x, mask=mask) and repr(hw.MultiHeadAttention(4, 1, mask=mask).double())
    mask.show(6)
    compiled = torch.compile(lambda q: hw.attention(q, q, q, mask=mask), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), want)
    for n in (DEPTH + 1, 400, 5000):
        with pytest.raises(
            hw.SpecError, match=f"mask: masks .* lie inside each other {DEPTH + 1} deep; at most {DEPTH}"
        ):
            nested(n)


@pytest.mark.parametrize("kind", [hw.spec.And, hw.spec.Or])
def test_what_combines_no_masks(kind: Any) -> None:
    for wrong in ((), [], (1, 2), "ab", 3, None, (torch.ones(2, 2) > 0,)):
        with pytest.raises(
            hw.SpecError, match=rf"{kind.__name__}: it was given nothing to combine, .*; it combines one or more masks"
        ):
            kind(wrong)
    assert repr(kind([hw.Causal(), hw.Window(1)]) | hw.Window(2))


def test_many_score_rules() -> None:
    x = torch.randn(1, 1, 6, 4)
    want = hw.attention(x, x, x, scores=(hw.Bias(torch.full((1,), 1.0)),))
    rules = (hw.Bias(torch.full((1,), 1 / 1024)),) * 1024
    torch.testing.assert_close(hw.attention(x, x, x, scores=rules), want)


def test_chunks_that_begin_anywhere() -> None:
    """Where chunks begin is counted modulo their size: no sum leaves int64, and a start far away is no other start."""
    values = torch.eye(9)[None, None]
    x, far = torch.zeros(1, 1, 9, 2), [0, 5, -7, 2**40 + 1, -(2**40) - 3, 2**62, -(2**63), 2**63 - 1]
    for size in (1, 3, 7, 2**40, 2**41 + 3, 2**62):
        for start in far:
            for q_start in (-3, 0, 5):
                want = [[(q_start + i - start) // size == (j - start) // size for j in range(9)] for i in range(9)]
                for given in (start, torch.tensor([start])):
                    for backend in ("reference", "blocked", None):
                        mask = hw.Chunks(size, given)
                        found = hw.attention(x, x, values, mask=mask, q_start=q_start, backend=backend)
                        assert torch.equal(found[0, 0] > 0, torch.tensor(want)), (size, start, q_start)
