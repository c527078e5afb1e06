"""Recipes against loops over queries and keys that say what the papers say, on every backend that takes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.spec import recipes

Sees = Callable[[int, int, int, int], bool]  # (batch row, head, position of the query, key)

BACKENDS = [backend.name for backend in hw.backends.TABLE if backend.name != "sdpa"]
B, H, T, S = 2, 3, 11, 19

MARKS = torch.tensor([[n in (0, 4, 17) for n in range(S)], [n in (2, 9) for n in range(S)]])
PARENTS = [-1, 0, 0, 1, 1, 4, -1, 6, 2, 8, 5]
LENGTHS = [4, 0, 6, 9]
DOCUMENT = [n for n, length in enumerate(LENGTHS) for _ in range(length)]
BLOCKS = recipes.bigbird(S, H, size=2, window=3, random=2, seed=3)


def written(q: Tensor, k: Tensor, v: Tensor, sees: Sees, starts: list[int]) -> Tensor:
    """The output [B, H, T, E] of the queries from ``starts[b]`` on; 0 where one sees nothing."""
    q, k, v = q.double(), k.double(), v.double()
    out = torch.zeros(*q.shape[:3], v.shape[-1], dtype=torch.float64)
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            for i in range(q.shape[2]):
                keys = [j for j in range(k.shape[2]) if sees(b, h, starts[b] + i, j)]
                if keys:
                    p = torch.softmax(k[b, h, keys] @ q[b, h, i] / math.sqrt(q.shape[-1]), 0)
                    out[b, h, i] = p @ v[b, h, keys]
    return out


def is_ancestor(ancestor: int, token: int) -> bool:
    while token > ancestor:
        token = PARENTS[token]
    return token == ancestor


def bigbird_sees(b: int, h: int, pos: int, j: int) -> bool:
    """Window and ends by the definition, the random blocks as they were drawn."""
    row, column, last = pos // 2, j // 2, (S - 1) // 2
    if not 0 <= row <= last:
        return False
    if {row, column} & {0, last} or abs(row - column) <= 1:
        return True
    return bool(BLOCKS.keep_tiles[h, row, column])  # type: ignore[attr-defined]


# A recipe, what it says of a batch row, a head, the position of a query and a key, and where query 0 may stand.
SAID: dict[str, tuple[hw.spec.Mask, Sees]] = {
    "longformer": (
        recipes.longformer(4, MARKS),
        lambda b, h, pos, j: abs(pos - j) <= 2 or bool(MARKS[b, j]) or (0 <= pos < S and bool(MARKS[b, pos])),
    ),
    "longformer, causal, counted": (
        hw.Causal() & recipes.longformer(6, torch.tensor([2, 0])),
        lambda b, h, pos, j: j <= pos and (abs(pos - j) <= 3 or (b == 0 and (j < 2 or 0 <= pos < 2))),
    ),
    "bigbird": (BLOCKS, bigbird_sees),
    "prefix_lm": (recipes.prefix_lm(torch.tensor([7, 0])), lambda b, h, pos, j: j <= pos or j < (7, 0)[b]),
    "chunked_local": (
        recipes.chunked_local(5, torch.tensor([0, 3])),
        lambda b, h, pos, j: j <= pos and (pos - (0, 3)[b]) // 5 == (j - (0, 3)[b]) // 5,
    ),
    "dilated": (recipes.dilated(3, 4), lambda b, h, pos, j: pos - j in (0, 4, 8, 12)),
    "dilated, both ways": (recipes.dilated(1, 3, after=2), lambda b, h, pos, j: pos - j in (3, 0, -3, -6)),
    "packed": (
        recipes.packed(LENGTHS, queries=T),
        lambda b, h, pos, j: j <= pos and DOCUMENT[pos] == DOCUMENT[j],
    ),
    "tree": (
        recipes.tree(PARENTS),
        lambda b, h, pos, j: j < S - T or is_ancestor(j - (S - T), pos - (S - T)),
    ),
    "streaming": (recipes.streaming(2, 4), lambda b, h, pos, j: j <= pos and (j < 2 or j > pos - 4)),
}
STARTS: dict[str, Any] = {"last with last": None, "from the first": 0, "each its own": torch.tensor([-3, 12])}


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", SAID)
def test_a_recipe_is_what_it_says(name: str, backend: str, start: str) -> None:
    mask, sees = SAID[name]
    given = STARTS[start]
    if name in ("packed", "tree") and given is not None:
        given, sees = elsewhere(name, given, sees)
    starts = [S - T] * B if given is None else given.tolist() if isinstance(given, Tensor) else [given] * B
    generator = torch.Generator().manual_seed(1)
    q, k, v = (torch.randn(B, H, n, 7, generator=generator) for n in (T, S, S))
    found = hw.attention(q, k, v, mask=mask, q_start=given, backend=backend)
    torch.testing.assert_close(found.double(), written(q, k, v, sees, starts), atol=2e-6, rtol=0)


def elsewhere(name: str, given: Any, sees: Sees) -> tuple[Any, Sees]:
    """Packed tokens are the last ones whatever q_start is, and a draft moves with it."""
    starts = given.tolist() if isinstance(given, Tensor) else [given] * B
    if name == "tree":
        return given, lambda b, h, pos, j: j < starts[b] or is_ancestor(j - starts[b], pos - starts[b])
    return None, sees


@pytest.mark.parametrize("name", SAID)
def test_the_kernels_take_it_and_skip_what_nobody_sees(name: str) -> None:
    if "native" not in BACKENDS:
        pytest.skip("no native kernels here: there was no compiler")
    mask, _ = SAID[name]
    q, k = torch.zeros(B, H, T, 7), torch.zeros(B, H, S, 7)
    assert hw.explain(q, k, k, mask=mask).chosen == "native"


LONG: dict[str, Callable[[int], hw.spec.Mask]] = {
    "longformer": lambda n: hw.Causal() & recipes.longformer(512, 1),
    "prefix_lm": lambda n: recipes.prefix_lm(300),
    "chunked_local": lambda n: recipes.chunked_local(512),
    "dilated": lambda n: recipes.dilated(64, 4),
    "packed": lambda n: recipes.packed([n // 8] * 8),
    "streaming": lambda n: recipes.streaming(4, 512),
    "bigbird": lambda n: hw.Causal() & recipes.bigbird(n, 1, random=0, first=0, last=0),
}


@pytest.mark.parametrize("name", LONG)
def test_tiles_that_nobody_sees_are_skipped(name: str) -> None:
    q = torch.zeros(1, 1, 8192, 4)
    said = hw.explain(q, q, q, mask=LONG[name](8192))
    causal = hw.explain(q, q, q, mask=hw.Causal())
    share = 1.0 if name == "prefix_lm" else 0.7
    assert said.tiles[0] <= share * causal.tiles[0] + 8 * said.tiles[1] // 64 * (name == "prefix_lm")
    assert said.visible < said.tiles[1] * 128 * 1024


def test_random_blocks_are_those_of_the_seed() -> None:
    drawn = [recipes.bigbird(640, 4, random=2, seed=seed).keep_tiles for seed in (0, 0, 1)]  # type: ignore[attr-defined]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert not torch.equal(drawn[0][0], drawn[0][1]), "heads share their draw"
    # 10 blocks: of rows 1 to 8 each sees both ends, three in its window (one of them an end at rows 1 and 8), two more.
    assert drawn[0][:, 1:9].sum(-1).tolist() == [[6, 7, 7, 7, 7, 7, 7, 6]] * 4
    assert drawn[0][:, [0, 9]].all()


def test_fewer_blocks_than_are_to_be_drawn() -> None:
    assert bool(recipes.bigbird(200, 2, random=9).keep_tiles.all())  # type: ignore[attr-defined]


def test_one_map_serves_a_sequence_that_grows() -> None:
    """Token by token with a cache, and all at once: the same rows."""
    mask = hw.Causal() & recipes.bigbird(64, 2, size=4, random=1)
    q, k, v = torch.randn(3, 1, 2, 23, 8).unbind(0)
    whole = hw.attention(q, k, v, mask=mask)
    for t in (0, 7, 22):
        one = hw.attention(q[:, :, t : t + 1], k[:, :, : t + 1], v[:, :, : t + 1], mask=mask)
        torch.testing.assert_close(one, whole[:, :, t : t + 1])


def test_lengths_and_offsets_say_the_same() -> None:
    x = torch.randn(1, 1, 19, 4)
    by_lengths = hw.attention(x, x, x, mask=recipes.packed(torch.tensor(LENGTHS)))
    by_offsets = hw.attention(x, x, x, mask=recipes.packed(offsets=torch.tensor([0, 4, 4, 10, 19])))
    by_array = hw.attention(x, x, x, mask=recipes.packed(np.array(LENGTHS)))
    assert torch.equal(by_lengths, by_array)
    assert torch.equal(by_lengths, by_offsets)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: recipes.longformer(3, 1), "longformer: window is 3; half of it lies on each side"),
        (lambda: recipes.bigbird(64, 2, window=2), "bigbird: window is 2; a query's own block"),
        (lambda: recipes.bigbird(64, 0), "bigbird: heads is 0; it is an int from 1 to 1099511627776"),
        (lambda: recipes.dilated(2, 0), "dilated: step is 0"),
        (lambda: recipes.streaming(2, 0), "streaming: window is 0"),
        (recipes.packed, "packed: it takes lengths or offsets"),
        (lambda: recipes.packed([1], offsets=torch.tensor([0, 1])), "packed: it takes lengths or offsets"),
        (lambda: recipes.packed([2, -1]), "packed: lengths is"),
        (lambda: recipes.packed(5), "packed: lengths is 5; it is a list or tensor of ints"),
        (lambda: recipes.packed([1.5, 2]), r"packed: lengths is \[1.5, 2\]; it is a list or tensor of ints"),
        (lambda: recipes.packed([2**70]), r"packed: lengths is .*; it is a list or tensor of ints"),
        (lambda: recipes.packed(np.ones((1, 2), int)), r"packed: lengths is .*; it is a list or tensor of ints"),
        (lambda: recipes.packed(torch.ones(2)), "packed: lengths is torch.float32; it is an integer tensor"),
        (lambda: recipes.streaming(2**60, 4), "streaming: sinks is 1152921504606846976; it is an int from 0 to 1099"),
        (lambda: recipes.packed([2, 3], queries=6), "packed: queries is 6; there are 5 tokens"),
    ],
)
def test_what_has_no_meaning_is_said(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(hw.SpecError, match=said):
        make()


def test_a_graph_holds_them() -> None:
    """torch.compile in one graph, tensors of the mask among its inputs."""
    q, k, v = torch.randn(3, 2, 2, 11, 8).unbind(0)

    def f(q: Tensor, marks: Tensor, parents: Tensor, tiles: Tensor) -> Tensor:
        out = hw.attention(q, k, v, mask=recipes.longformer(4, marks) & hw.spec.Strided(1))
        out = out + hw.attention(q, k, v, mask=hw.spec.Tree(parents) | recipes.dilated(2, 3))
        return out + hw.attention(q, k, v, mask=hw.Blocks(tiles, 4, "end"))

    given = q, torch.rand(11) < 0.3, torch.arange(11) // 2 - 1, torch.rand(3, 3) < 0.5
    torch.testing.assert_close(torch.compile(f, fullgraph=True, backend="aot_eager")(*given), f(*given))
