"""Chunks through a cache under Global, Prefix, Blocks, Rule or a mask of a user silently gave other numbers.

Which masks let a text be cut was a list of classes. Every mask of the house and some of users, in all 128 cuts of eight
tokens, through every cache: what comes out is what the whole text gives, or one sentence.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import headwise as hw
from headwise.nn import Cache, KVCache, PagedCache, QuantisedCache, RingCache, StaticCache
from headwise.nn.transformer import DecoderCache, DecoderLayer, EncoderLayer
from headwise.spec import Cells, Geometry, Intervals, Mask

N, B, M, HEADS = 8, 2, 8, 2
CUTS = [
    [b - a for a, b in itertools.pairwise([0, *ends, N])]
    for count in range(N)
    for ends in itertools.combinations(range(1, N), count)
]
CACHES: dict[str, Callable[[], Cache]] = {
    "growing": KVCache,
    "static": lambda: StaticCache(N + 1),
    "paged": lambda: PagedCache(page_size=3),
    "int8": QuantisedCache,
    "ring": lambda: RingCache(N + 1, 4),
}


@dataclass(frozen=True, eq=False)
class EveryThird(Mask):
    """By position, and known by its bounds as well: each third key up to the query's own, and that one."""

    def keep(self, cells: Cells) -> Tensor:
        return (cells.j <= cells.pos) & ((cells.j % 3 == 0) | (cells.j == cells.pos))

    def intervals(self, geometry: Geometry) -> Intervals:
        bounds = Intervals.between(geometry, lambda b, rows: (0, geometry.positions(b, rows) + 1)).bounds
        return Intervals(bounds, exact=False)


@dataclass(frozen=True, eq=False)
class Neighbours(Mask):
    """By position, with a key ahead, and no bounds at all."""

    def keep(self, cells: Cells) -> Tensor:
        return (cells.j - cells.pos).abs() <= 1


@dataclass(frozen=True, eq=False)
class FirstRows(Mask):
    """By the number of the query in its call, which is another thing in every cut."""

    def keep(self, cells: Cells) -> Tensor:
        return (cells.j <= cells.pos) & ((cells.i < 2) | (cells.j > 0))


TRIL = torch.ones(N, N).tril().bool()
MARKS = torch.arange(N) % 5 == 1
MASKS: dict[str, Mask] = {
    "causal": hw.Causal(),
    "causal from the start": hw.Causal("start"),
    "window both ways": hw.Window(1, 2),
    "window behind": hw.Window(3),
    "window": hw.Window(2, 0),
    "prefix": hw.Prefix(3),
    "prefix of each row": hw.Prefix(torch.tensor([2, 4])) | hw.Causal(),
    "prefix lm": hw.Prefix(3) | hw.Causal(),
    "chunks": hw.Chunks(4),
    "chunks from 1": hw.Chunks(3, 1),
    "causal chunks": hw.Chunks(3) & hw.Causal(),
    "strided": hw.Strided(2),
    "causal strided": hw.Strided(2) & hw.Causal(),
    "global": hw.spec.Global(2),
    "longformer": hw.spec.Global(2) | (hw.Causal() & hw.Window(2)),
    "global marks": hw.spec.Global(MARKS) | hw.Window(1, 0),
    "causal global": hw.Causal() & (hw.spec.Global(1) | hw.Window(2)),
    "lengths": hw.Padding(torch.tensor([5, 8])),
    "causal lengths": hw.Causal() & hw.Padding(torch.tensor([5, 8])),
    "padding": hw.Padding(torch.arange(N).expand(B, N) > 1),
    "documents": hw.Documents(torch.arange(N) // 3),
    "causal documents": hw.Documents(torch.arange(N) // 3) & hw.Causal(),
    "dense": hw.Dense(TRIL),
    "dense, one row": hw.Dense(torch.arange(N) > 1),
    "dense, one cell": hw.Dense(torch.ones(1, 1, dtype=torch.bool)),
    "tree": hw.spec.Tree([-1, 0, 0, 1, 2, 3, 3, 5]),
    "spans": hw.Spans(torch.arange(N) // 2, torch.arange(N) + 1),
    "blocks": hw.Blocks(torch.ones(4, 4).tril().bool(), 2),
    "blocks by position": hw.Blocks(torch.ones(4, 4).tril().bool(), 2, align="end"),
    "blocks of one head": hw.Blocks(torch.stack([torch.eye(4), torch.ones(4, 4)]).bool(), 2, align="end"),
    "causal blocks": hw.Blocks(torch.ones(4, 4).tril().bool(), 2, align="end") & hw.Causal(),
    "one block": hw.Blocks(torch.ones(1, 1).bool(), 16),
    "rule of causality": hw.Rule(lambda b, h, i, j: j <= i),
    "rule of keys": hw.Causal() & hw.Rule(lambda b, h, i, j: (j % 3 != 1) | (h == 0)),
    "rule of distance": hw.Causal() & hw.Rule(lambda b, h, i, j: (i - j) % 2 == 0),
    "rule that looks ahead": hw.Rule(lambda b, h, i, j: j < 5),
    "every third": EveryThird(),
    "neighbours": Neighbours(),
    "causal neighbours": Neighbours() & hw.Causal(),
    "first rows": FirstRows(),
}
#: Those that are served in every cut, because no query sees ahead and all goes by position.
SERVED = {
    "causal", "window", "causal chunks", "causal strided", "causal global", "causal lengths", "causal blocks",
    "rule of keys", "every third", "causal neighbours",
}  # fmt: skip


def made(mask: Mask | None, kind: Any = hw.MultiHeadAttention, **options: Any) -> Any:
    torch.manual_seed(1)
    layer = kind(M, HEADS, mask=mask, **options).eval()
    for parameter in layer.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.7)
    return layer


def text() -> Tensor:
    return torch.randn(B, N, M, generator=torch.Generator().manual_seed(2))


def in_pieces(layer: Any, cache: Cache, cut: list[int], x: Tensor) -> Tensor | None:
    """The outputs of a text in pieces; None where one of them is refused, in a sentence, with the cache as it was."""
    found = []
    with torch.no_grad():
        for part in x.split(cut, dim=1):
            before = cache.length
            refused = ""
            try:
                found.append(layer(part, cache=cache))
            except hw.HeadwiseError as refusal:
                refused = str(refusal)
            if refused:
                assert cache.length == before
                assert ": " in refused
                return None
    return torch.cat(found, 1)


def served(layer: Any, cache: str, x: Tensor) -> int:
    """In how many cuts a layer answers; each answer is that of the whole."""
    whole = in_pieces(layer, CACHES[cache](), [N], x)
    if whole is None:
        return 0
    if cache not in ("int8", "ring"):  # these have numbers of their own, the same in every cut
        with torch.no_grad():
            torch.testing.assert_close(whole, layer(x), rtol=1e-5, atol=1e-5)
    count = 0
    for cut in CUTS:
        found = in_pieces(layer, CACHES[cache](), cut, x)
        if found is not None:
            torch.testing.assert_close(found, whole, rtol=1e-5, atol=1e-5, msg=lambda m, cut=cut: f"{cut}: {m}")
            count += 1
    return count


@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("name", MASKS)
def test_the_whole_or_a_sentence(name: str, cache: str) -> None:
    count = served(made(MASKS[name]), cache, text())
    if name in SERVED and cache != "ring":
        assert count == len(CUTS)


def test_where_a_prefix_may_be_cut() -> None:
    """A prefix of three: behind it anywhere, inside it nowhere."""
    layer, x = made(MASKS["prefix lm"]), text()
    for cut in CUTS:
        inside = cut[0] < 3
        assert (in_pieces(layer, KVCache(), cut, x) is None) == inside, cut


@pytest.mark.parametrize("name", ["longformer", "prefix lm", "blocks by position", "rule of causality", "neighbours"])
@pytest.mark.parametrize("kind", [hw.nn.LatentAttention, hw.nn.DifferentialAttention])
def test_other_layers(kind: Any, name: str) -> None:
    sizes = {"kv_rank": 4, "nope_dim": 4, "rope_dim": 2, "v_dim": 4} if kind is hw.nn.LatentAttention else {}
    count = served(made(MASKS[name], kind, **sizes), "growing", text())
    assert count == (32 if name == "prefix lm" else 8 if name == "blocks by position" else 1)


@pytest.mark.parametrize("name", ["causal", "chunks", "global", "rule of distance"])
def test_layers_of_a_transformer(name: str) -> None:
    """A decoder's are causal whatever else they hide; an encoder's are not."""
    config = hw.nn.AttentionConfig(M, HEADS, mask=MASKS[name])
    torch.manual_seed(0)
    decoder, encoder = DecoderLayer(config, 16).eval(), EncoderLayer(config, 16).eval()
    memory, x = torch.randn(B, 4, M), text()
    with torch.no_grad():
        whole, behind, refused = decoder(x, memory), [], 0
        for cut in CUTS:
            cache, behind = DecoderCache(), []
            try:
                behind += [decoder(part, memory, cache=cache) for part in x.split(cut, dim=1)]
            except hw.SpecError:
                refused += 1
            else:
                torch.testing.assert_close(torch.cat(behind, 1), whole, rtol=1e-5, atol=1e-5)
    # (i - j) % 2 is the same where every piece begins at an even token
    assert refused == (len(CUTS) - 8 if name == "rule of distance" else 0)
    assert served(encoder, "growing", x) == {"causal": len(CUTS), "chunks": 2, "rule of distance": 8}.get(name, 1)


def test_masks_that_each_call_writes_for_itself() -> None:
    """Dense, Spans and Tree say the cells of their own queries: whoever cuts the text cuts them."""
    layer, x = made(None), text()
    starts, parents = torch.arange(N) // 2, torch.arange(-1, N - 1)
    with torch.no_grad():
        whole, spanned = layer(x, mask=hw.Dense(TRIL)), layer(x, mask=hw.Spans(starts, torch.arange(N) + 1))
        for cut in CUTS:
            by_cells, by_spans, by_trees, at = [], [], [], 0
            caches = [KVCache() for _ in range(3)]
            for part in x.split(cut, dim=1):
                rows = slice(at, at + part.shape[1])
                padding = hw.Padding(torch.ones(B, rows.stop).bool())
                by_cells.append(layer(part, cache=caches[0], mask=hw.Dense(TRIL[rows, : rows.stop]) & padding))
                spans = hw.Spans(starts[rows], torch.arange(N)[rows] + 1)
                by_spans.append(layer(part, cache=caches[1], mask=spans))
                tree = hw.spec.Tree(parents[: part.shape[1]])
                by_trees.append(layer(part, cache=caches[2], mask=tree & padding))
                at = rows.stop
            for found, wanted in ((by_cells, whole), (by_spans, spanned), (by_trees, whole)):
                torch.testing.assert_close(torch.cat(found, 1), wanted, rtol=1e-5, atol=1e-5)


def test_what_a_call_hides_of_a_layer_that_looks_ahead() -> None:
    layer, x, cache = made(hw.Prefix(4) | hw.Causal()), text(), KVCache()
    with torch.no_grad():
        whole = layer(x, mask=hw.Causal())
        found = [layer(part, mask=hw.Causal(), cache=cache) for part in x.split([1, 2, 5], dim=1)]
    torch.testing.assert_close(torch.cat(found, 1), whole, rtol=1e-5, atol=1e-5)


def test_documents_of_chunks() -> None:
    """The documents of the queries before are those of their keys: a cut between two is none, a cut inside one is."""
    layer, x, ids = made(None), text(), torch.arange(N) // 3
    with torch.no_grad():
        whole = layer(x, mask=hw.Documents(ids))
        for first in range(1, N - 1):
            cache = KVCache()
            found = [layer(x[:, :first], mask=hw.Documents(ids[:first]), cache=cache)]
            mask = hw.Documents(ids[first:], ids)
            if first % 3:
                with pytest.raises(hw.SpecError, match=r"in one call, the first|[Ff]eed the text at once"):
                    layer(x[:, first:], mask=mask, cache=cache)
                continue
            found.append(layer(x[:, first:], mask=mask, cache=cache))
            torch.testing.assert_close(torch.cat(found, 1), whole, rtol=1e-5, atol=1e-5)


def test_score_rules_that_count_queries() -> None:
    """A function of the query's number in the call is another function in every cut."""
    x = text()
    rules: dict[str, Any] = {
        "by distance": hw.ScoreRule(lambda score, b, h, i, j: score - 0.3 * (i - j) ** 2),
        "by key": hw.ScoreRule(lambda score, b, h, i, j: torch.where(j % 2 == 0, score / 2, score)),
    }
    for name, rule in rules.items():
        layer = made(hw.Causal(), scores=(rule,))
        assert served(layer, "growing", x) == (len(CUTS) if name == "by key" else 1)
    layer, cache = made(hw.Causal(), scores=(rules["by distance"],)), KVCache()
    layer(x[:, :5], cache=cache)
    with pytest.raises(hw.SpecError, match=r"the score rule ScoreRule.* behind 5 in the cache"):
        layer(x[:, 5:], cache=cache)


def test_the_answer_is_kept_and_asked_anew_where_it_may_be_another() -> None:
    """A step of decoding reads what was found before; other tensors in the mask, or another batch, are asked again."""
    layer, x, cache = made(hw.Prefix(torch.tensor([2, 2])) | hw.Causal()), text(), KVCache()
    with torch.no_grad():
        for part in x[:, :5].split([2, 1, 1, 1], dim=1):
            layer(part, cache=cache)
        layer.mask.rule_masks_0_lengths.fill_(7)
        with pytest.raises(hw.SpecError, match="the mask shows a query later keys"):
            layer(x[:, 5:6], cache=cache)
        layer.mask.rule_masks_0_lengths.fill_(2)
        layer(x[:, 5:6], cache=cache)
        assert cache.length == 6
