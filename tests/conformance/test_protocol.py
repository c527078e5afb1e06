"""The observers' protocol: tiles in any cut and order, over many accumulators, give the definition's answer."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.observers import Frame, Tile, start
from headwise.plan import Plan, make_plan
from headwise.spec import AttentionSpec, Cells
from headwise.testing import CASES, Call, Exact, answers, define, far, questions, within

F64 = torch.float64
Box = tuple[slice, slice, slice, slice]


def cut(box: Box, chance: random.Random, least: int = 4) -> list[Box]:
    """Cuts a box at random places along random axes, until the pieces are small or luck ends it."""
    sizes = [part.stop - part.start for part in box]
    axes = [axis for axis, n in enumerate(sizes) if n > 1]
    if not axes or (least <= 0 and chance.random() < 0.4):
        return [box]
    axis = chance.choice(axes)
    at = chance.randrange(box[axis].start + 1, box[axis].stop)
    low, high = slice(box[axis].start, at), slice(at, box[axis].stop)
    halves = [(*box[:axis], part, *box[axis + 1 :]) for part in (low, high)]
    return [piece for half in halves for piece in cut(half, chance, least - 1)]


def tile_of(plan: Plan, exact: Exact, call: Call, box: Box, chance: random.Random) -> Tile:
    """An exact tile of the definition's pattern; where all is visible it sometimes says so by None."""
    visible: Any = exact.visible[box]
    if bool(visible.all()) and chance.random() < 0.5:
        visible = None
    elif bool((visible == visible[:1, :1]).all()) and chance.random() < 0.7:
        visible = visible[:1, :1]  # the mask is shared by batch rows and heads
        if bool((visible == visible[:, :, :1]).all()):
            visible = visible[:, :, :1]
    v = call.v[:, list(plan.kv_heads)][box[0], box[1], box[3]]
    rows = box[:3]
    max_logit, sinks = exact.logits.amax(-1), plan.spec.sinks
    empty = max_logit == -torch.inf
    peak = (max_logit if sinks is None else torch.maximum(max_logit, sinks[:, None])).masked_fill(empty, 0.0)
    log_total = torch.where(empty, 0.0, exact.lse - peak)
    facts = {"peak": peak, "log_total": log_total, "lse": exact.lse, "max_logit": max_logit}
    parts = {name: fact.detach()[rows] for name, fact in facts.items()}
    return Tile(Cells(plan.geometry, *box), p=exact.p[box], logits=exact.logits[box], visible=visible, v=v, **parts)


NAMES = [
    "causal, E != D",
    "causal, T > S: empty rows",
    "a start for each sequence, everything that counts",
    "dense, for each sequence and query",
    "dense, for each head",
    "blocks for each head and sequence",
    "sinks, causal, empty rows, grouped",
    "score rule that hides",
    "uneven groups",
    "NaN in hidden keys and values, with all else",
    "NaN in a query, a key and a value that are seen",
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_any_cut_and_order(name: str, seed: int) -> None:
    call = CASES[name].make(F64)
    exact = define(call)
    plan = make_plan("test", call.q, call.k, call.v, AttentionSpec(**{**call.options, "dropout": 0.0}))
    chance = random.Random(f"{name}{seed}")
    size = exact.size
    whole = (slice(0, size.B), slice(0, size.H), slice(0, size.T), slice(0, size.S))
    boxes = cut(whole, chance)
    assert len(boxes) > 1
    chance.shuffle(boxes)
    tiles = [tile_of(plan, exact, call, box, chance) for box in boxes]
    frame = Frame(plan.geometry, *whole, F64)
    for question in questions(call, seed):
        several = [start(question, frame) for _ in range(chance.randint(1, 4))]
        for tile in tiles:
            chance.choice(several).see(tile)
        while len(several) > 1:
            chance.shuffle(several)
            other = several.pop()
            several[-1].merge(other)
        found, want = several[0].result(), answers(exact, question, call)
        pairs = zip(found, want, strict=True) if isinstance(found, tuple) else [(found, want)]
        for n, (a, b) in enumerate(pairs):
            if isinstance(question, hw.TopKeys) and bool(exact.p.isnan().any()):
                continue  # NaN has no order
            within(a, b, 1e-10, f"{question} [{n}]")


class KeysAbove:
    """A question of a user's own: how many keys each query gives more than a share to, and how far the last one is."""

    name = "broad"

    def __init__(self, share: float) -> None:
        self.share = share
        self.counts: dict[tuple[int, int, int], int] = {}
        self.cells = 0

    def see(self, tile: Tile) -> None:
        many = (tile.p > self.share).sum(-1)
        self.cells += tile.p.numel()
        for b in range(many.shape[0]):
            for h in range(many.shape[1]):
                for i in range(many.shape[2]):
                    at = (tile.cells.batch.start + b, tile.cells.heads.start + h, tile.cells.rows.start + i)
                    self.counts[at] = self.counts.get(at, 0) + int(many[b, h, i])

    def merge(self, other: KeysAbove) -> None:
        self.cells += other.cells
        for at, n in other.counts.items():
            self.counts[at] = self.counts.get(at, 0) + n

    def result(self) -> dict[tuple[int, int, int], int]:
        return {at: n for at, n in self.counts.items() if n}


@pytest.mark.parametrize("backend", ["reference", "blocked", "sdpa"])
def test_a_question_of_ones_own(backend: str, tiny: None) -> None:
    """It runs beside the built-in ones on every backend, on a copy, and changes no bit of the output."""
    name = "causal, square" if backend == "sdpa" else "causal, E != D"
    call = CASES[name].make(F64)
    exact = define(call)
    mine = KeysAbove(0.2)
    got = call.run(backend, [hw.Entropy(), mine])
    assert far(got.out, call.run(backend).out) == 0
    assert mine.counts == {}
    many = (exact.p > 0.2).sum(-1)
    want = {tuple(at): int(many[tuple(at)]) for at in many.nonzero().tolist()}
    assert got.seen["broad"] == want
    assert sorted(got.seen) == ["broad", "entropy"]


@pytest.mark.parametrize("backend", ["reference", "blocked"])
def test_a_question_of_ones_own_sees_everything_a_tile_promises(backend: str, tiny: None) -> None:
    """p, logits, visible, lse, max_logit, v and the index tensors of each tile agree with the whole pattern."""
    call = CASES["sinks, causal, empty rows, grouped"].make(F64)
    exact = define(call)
    seen: list[Tile] = []

    class Watch:
        def see(self, tile: Tile) -> None:
            seen.append(tile)

        def merge(self, other: Any) -> None:
            raise AssertionError

        def result(self) -> None:
            return None

    call.run(backend, [Watch()])
    covered = torch.zeros(exact.p.shape)
    for tile in seen:
        c = tile.cells
        box = (c.batch, c.heads, c.rows, c.keys)
        within(tile.p, exact.p[box], 1e-12, "p")
        within(tile.logits, exact.logits[box], 1e-12, "logits")
        visible = torch.ones(tile.p.shape, dtype=torch.bool) if tile.visible is None else tile.visible
        assert torch.equal(visible.expand(tile.p.shape), exact.visible[box])
        within(tile.lse, exact.lse[box[:3]], 1e-12, "lse")
        within(tile.max_logit, exact.logits.amax(-1)[box[:3]], 1e-12, "max_logit")
        assert tile.v is not None
        within(tile.v, call.v[:, list(exact.size.kv)][c.batch, c.heads, c.keys], 0.0, "v")
        assert c.j.tolist() == list(range(c.keys.start, c.keys.stop))
        assert c.pos.flatten().tolist() == [exact.size.start[0] + i for i in range(c.rows.start, c.rows.stop)]
        assert tile.p.shape == torch.broadcast_shapes(c.b.shape, c.h.shape, c.i.shape, c.j.shape)
        covered[box] += 1
    assert bool((covered[exact.visible] == 1).all()), "each visible cell is shown exactly once"
    assert bool((covered <= 1).all())


def test_ties_go_to_the_lower_key(tiny: None) -> None:
    """Equal scores everywhere, across tiles: torch.topk alone would pick any of them."""
    q, k = torch.zeros(1, 2, 9, 4), torch.zeros(1, 2, 31, 4)
    k[:, :, 17] = 1.0
    q[:, :, 3] = 1.0
    for backend in ("reference", "blocked"):
        found = hw.attend(q, k, k, mask=hw.Causal(), backend=backend, observe=[hw.TopKeys(4)]).seen["top_keys"].indices
        assert found[0, 0, 0].tolist() == [0, 1, 2, 3]
        assert found[0, 1, 3].tolist() == [17, 0, 1, 2]


@pytest.mark.parametrize("logits", [50.0, 100.0, 1000.0])
def test_entropy_does_not_cancel_at_large_logits(logits: float, tiny: None) -> None:
    """lse - E[s] would lose 4e-4 at logits of 100 in float32."""
    q = torch.ones(1, 1, 3, 1)
    k = torch.cat([torch.full((1, 1, 8, 1), logits), torch.full((1, 1, 3, 1), logits - 1.0)], 2)
    p = torch.softmax(k[0, 0, :, 0].double(), 0)
    for backend in ("reference", "blocked"):
        got = hw.attend(q, k, k, scale=1.0, backend=backend, observe=[hw.Entropy()]).seen["entropy"]
        assert float((got - -(p * p.log()).sum()).abs().max()) < 1e-6
