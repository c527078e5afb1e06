"""The ring: what is seen through it is what its mask shows without a cache, and its memory does not grow."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.errors import SpecError
from headwise.nn.growing import Growing
from headwise.nn.ring import RingCache

B, HEADS, KV, WIDTH, LENGTH = 2, 4, 2, 6, 29
CUTS = {
    "token by token": [1] * LENGTH,
    "in one call": [LENGTH],
    "in chunks": [3, 7, 1, 1, 9, 2, 0, 6],
    "a prompt, then tokens": [20, *[1] * 9],
}


def operands() -> tuple[Tensor, Tensor, Tensor]:
    shapes = ((B, HEADS, LENGTH, WIDTH), (B, KV, LENGTH, WIDTH), (B, KV, LENGTH, WIDTH))
    q, k, v = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    return q, k, v


def written_out(q: Tensor, k: Tensor, v: Tensor, seen: Any, score: Any = lambda s, i, j: s) -> Tensor:
    """Attention query by query over the keys that ``seen(i, j)`` allows."""
    out = torch.zeros(B, HEADS, LENGTH, WIDTH, dtype=torch.float64)
    for i in range(LENGTH):
        at = [j for j in range(LENGTH) if seen(i, j)]
        for h in range(HEADS) if at else ():
            keys, values = k[:, h * KV // HEADS, at], v[:, h * KV // HEADS, at]
            scores = (q[:, h, i, None] * keys).sum(-1) / math.sqrt(WIDTH)
            scores = score(scores, i, torch.tensor(at))
            out[:, h, i] = (scores.softmax(-1)[..., None] * values).sum(1)
    return out


def through(cache: RingCache, cut: list[int], mask: Any, scores: Any = ()) -> Tensor:
    torch.manual_seed(4)
    q, k, v = operands()
    outs = []
    for now, new_k, new_v in zip(q.split(cut, 2), k.split(cut, 2), v.split(cut, 2), strict=True):
        said = cache.mask(mask, scores)
        with cache.appending(new_k, new_v) as (keys, values):
            outs.append(hw.attention(now, keys, values, mask=said, scores=scores))
        del keys, values  # so that the next call may write where they lie
    return torch.cat(outs, 2)


def wanted(seen: Any, **options: Any) -> Tensor:
    torch.manual_seed(4)
    return written_out(*operands(), seen, **options)


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize(("window", "sinks"), [(5, 0), (5, 3), (1, 0), (1, 2), (4, 6), (40, 2)])
def test_a_query_sees_its_window_and_the_sinks(window: int, sinks: int, cut: str) -> None:
    def seen(i: int, j: int) -> bool:
        return j <= i and (i - j < window or j < sinks)

    for mask in (None, hw.Causal(), hw.Causal() & (hw.Window(window - 1, 0) | hw.Prefix(sinks))):
        got = through(RingCache(window, sinks), CUTS[cut], mask)
        torch.testing.assert_close(got, wanted(seen), rtol=0, atol=1e-12)


@pytest.mark.parametrize("cut", CUTS)
def test_masks_that_are_narrower(cut: str) -> None:
    rows = torch.tensor([1, 3])
    cases = [
        (hw.Causal() & hw.Window(2), lambda i, j: j <= i <= j + 2),
        (hw.Window(4, 0) | hw.Prefix(1), lambda i, j: j <= i and (i - j < 5 or j < 1)),
        (hw.Prefix(2), lambda i, j: j <= i and j < 2),
    ]
    for mask, seen in cases:
        torch.testing.assert_close(through(RingCache(5, 3), CUTS[cut], mask), wanted(seen), rtol=0, atol=1e-12)
    got = through(RingCache(5, 3), CUTS[cut], hw.Window(1, 0) | hw.Prefix(rows))
    for b, n in enumerate(rows.tolist()):
        of_row = wanted(lambda i, j, n=n: j <= i and (i - j < 2 or j < n))[b]
        torch.testing.assert_close(got[b], of_row, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cut", CUTS)
def test_distances_are_right_where_the_keys_are_one_run(cut: str) -> None:
    slope = torch.full((HEADS,), 0.25, dtype=torch.float64)
    got = through(RingCache(5), CUTS[cut], None, scores=(hw.Alibi(slope), hw.SoftCap(2.0)))
    capped = wanted(
        lambda i, j: j <= i and i - j < 5, score=lambda s, i, j: 2 * torch.tanh((s - 0.25 * (i - j).abs()) / 2)
    )
    torch.testing.assert_close(got, capped, rtol=0, atol=1e-12)


REFUSED = {
    "Window(before=5": hw.Causal() & hw.Window(5),
    "after=2": hw.Causal() & hw.Window(2, 2),
    "Prefix(lengths=4": hw.Causal() | hw.Prefix(4),
    "Prefix(lengths=tensor": hw.Causal() | hw.Prefix(torch.tensor([0, 4])),
    "Chunks": hw.Causal() & hw.Chunks(4),
    "Padding": hw.Causal() & hw.Padding(torch.ones(2, 9, dtype=torch.bool)),
    "Documents": hw.Causal() & hw.Documents(torch.zeros(9, dtype=torch.int64)),
    "Dense": hw.Causal() & hw.Dense(torch.ones(9, 9, dtype=torch.bool)),
    "Rule": hw.Rule(lambda b, h, i, j: j <= i),
    "align='start'": hw.Causal(align="start"),
}


@pytest.mark.parametrize("says", REFUSED)
def test_masks_that_count_other_keys_are_refused(says: str) -> None:
    with pytest.raises(SpecError) as caught:
        RingCache(5, 3).mask(REFUSED[says])
    assert says in str(caught.value)
    assert str(caught.value).startswith("RingCache: the mask ")


def test_rules_that_count_other_keys_are_refused() -> None:
    alibi, bias = hw.Alibi(torch.ones(4)), hw.Bias(torch.zeros(9, 9))
    rule = hw.ScoreRule(lambda score, b, h, i, j: score)
    table = hw.RelativeBias(torch.zeros(4, 3), 1)
    gone = RingCache(5, 1)
    gone.append(*[torch.zeros(1, 4, 9, 2)] * 2)
    cases = ((gone, (alibi,)), (RingCache(5, 1), (table,)), (RingCache(5), (bias,)), (RingCache(5), (alibi, rule)))
    for ring, scores in cases:
        with pytest.raises(SpecError, match=f"the score rule {type(scores[-1]).__name__}"):
            ring.mask(None, scores)
    for ring in (RingCache(5, 1), gone):
        assert ring.mask(None, (hw.SoftCap(3.0),)) is not None
    placed = hw.Alibi(torch.ones(4), torch.arange(9, 10), gone.key_positions(1))
    assert gone.mask(None, (placed,)) is not None


@pytest.mark.parametrize(("window", "sinks"), [(5, 0), (5, 3), (1, 2), (1, 0)])
def test_positions_of_the_keys(window: int, sinks: int) -> None:
    cache, at = RingCache(window, sinks), 0
    for n in (2, 1, 4, 1, 1, 9, 3, 0, 1):
        said, held = cache.key_positions(n), cache.held
        k, _ = cache.append(*[torch.arange(at, at + n).double()[None, None, :, None]] * 2)
        at += n
        assert k.shape[2] == held + n
        run = torch.arange(at - k.shape[2], at)
        stand = k.flatten().long()
        assert torch.equal(stand, run if said is None else said)
        assert (said is None) == torch.equal(stand, run)


@pytest.mark.parametrize(("window", "sinks"), [(16, 0), (16, 4)])
def test_memory_does_not_grow_with_the_text(window: int, sinks: int) -> None:
    cache, width, most = RingCache(window, sinks), 4, 0
    token = torch.zeros(1, 1, 1, width)
    for n in (500, *[1] * 300, 16, 17, 3, *[1] * 50):
        new = token.expand(1, 1, n, width)
        cache.append(new, new)
        most = max(most, sum(bytes_of(part) for part in vars(cache).values() if isinstance(part, Growing)))
    a_token = 2 * width * 4
    assert most <= 2 * (sinks + 2 * window + 17) * a_token
    assert cache.held == sinks + window - 1


def bytes_of(part: Growing) -> int:
    held = part._loose if part._buffer is None else part._buffer
    return 0 if held is None else held.untyped_storage().nbytes()


def test_a_token_does_not_copy_the_ring() -> None:
    places, cache = set(), RingCache(64, sinks=4)
    for n in (100, *[1] * 200):
        k = cache.append(torch.zeros(1, 1, n, 4), torch.zeros(1, 1, n, 4))[0]
        places.add(k.untyped_storage().data_ptr())
        del k
    assert len(places) <= 2 + 200 // 60


@pytest.mark.parametrize("sinks", [0, 2])
def test_what_was_handed_out_stays(sinks: int) -> None:
    cache, handed = RingCache(4, sinks), []
    for n in (6, *[1] * 20, 5, *[1] * 5):
        k, _ = cache.append(torch.randn(2, 1, n, 3), torch.randn(2, 1, n, 3))
        handed.append((k, k.clone()))
        if len(handed) % 7 == 3:
            cache.crop(-1)
            cache.reorder([1, 0])
    assert all(torch.equal(*both) for both in handed)


def test_a_draft_can_be_taken_back_and_older_tokens_cannot() -> None:
    cache = RingCache(4, sinks=2)
    text = torch.arange(30.0)[None, None, :, None]
    cache.append(text[:, :, :20], text[:, :, :20])
    cache.crop(-4)
    assert cache.k.flatten().tolist() == [0, 1, 13, 14, 15]
    with pytest.raises(
        SpecError, match=r"15 of 16 tokens cannot be had back; the ring has let go of tokens 2 to 12. Crop to 16"
    ):
        cache.crop(-1)
    k, _ = cache.append(text[:, :, 16:18], text[:, :, 16:18])
    assert k.flatten().tolist() == [0, 1, 13, 14, 15, 16, 17]
    cache.crop(-2)
    cache.crop(1)
    assert cache.append(text[:, :, 1:4], text[:, :, 1:4])[0].flatten().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("name", "options"), [("window", (0,)), ("window", (True,)), ("sinks", (3, -1))])
def test_numbers_out_of_range(name: str, options: tuple[int, ...]) -> None:
    with pytest.raises(SpecError, match=f"RingCache: {name} is"):
        RingCache(*options)
