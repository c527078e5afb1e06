"""Cases of masks: every mask of its own, in combinations, with rows that see no key."""

from __future__ import annotations

import torch
from torch import Tensor

from headwise.spec import (
    Alibi,
    Blocks,
    Causal,
    Chunks,
    Dense,
    Documents,
    Global,
    Mask,
    Padding,
    Prefix,
    RelativeBias,
    Rule,
    Spans,
    Strided,
    Tree,
    Window,
    recipes,
)
from headwise.testing.calls import PYTHON, RULES, SHAPE, WIDTH, Draw, case, int64, masked

__all__: list[str] = []


case("causal", Causal, sdpa=SHAPE)(lambda draw: draw.call(fused=True, mask=Causal()))
case("causal, square", Causal)(lambda draw: draw.call(fused=True, T=13, mask=Causal()))
case("causal from the start", Causal, "align")(lambda draw: draw.call(fused=True, mask=Causal(align="start")))
case("causal, T > S: empty rows", Causal, "empty rows")(lambda draw: draw.call(fused=True, T=17, mask=Causal()))
case("causal, E != D", Causal, sdpa=WIDTH)(lambda draw: draw.call(mask=Causal()))
case("a chunk of a static buffer", "q_start", sdpa=SHAPE)(lambda draw: draw.call(fused=True, mask=Causal(), q_start=1))
case("a prompt in a static buffer", "q_start")(lambda draw: draw.call(fused=True, mask=Causal(), q_start=0))
case("queries before the first key", "q_start")(lambda draw: draw.call(fused=True, mask=Causal(), q_start=-3))
case("queries past the last key", "q_start")(lambda draw: draw.call(fused=True, mask=Causal(), q_start=40))
case("a start for each sequence", "q_start [B]", sdpa=SHAPE)(
    lambda draw: draw.call(fused=True, mask=Causal(), q_start=int64([-2, 1]))
)
case("a decoding step for each sequence", "q_start [B]")(
    lambda draw: draw.call(fused=True, T=1, mask=Causal(), q_start=int64([4, 9]))
)
case("a start for each sequence, everything that counts", "q_start [B]", Window, Chunks, sdpa=RULES)(
    lambda draw: draw.call(
        H=6,
        Hk=3,
        mask=(Causal() & Window(4, None)) | Chunks(5),
        q_start=int64([-1, 3]).int(),
        scores=(Alibi(draw.normal(2, 6).abs()), RelativeBias(draw.normal(6, 5), zero=3)),
    )
)


@masked("window", Window)
def _window(draw: Draw) -> Mask:
    return Window(before=3, after=2)


@masked("window of oneself", Window)
def _window_of_one(draw: Draw) -> Mask:
    return Window(0, 0)


@masked("causal window", Causal, Window, "&")
def _causal_window(draw: Draw) -> Mask:
    return Causal() & Window(before=2)


@masked("prefix", Prefix, sdpa=None)
def _prefix(draw: Draw) -> Mask:
    return Prefix(5)


@masked("prefix language model", Prefix, Causal, "|")
def _prefix_lm(draw: Draw) -> Mask:
    return Causal() | Prefix(int64([9, 4]))


@masked("prefix longer than everything, and none", Prefix, "empty rows", sdpa=None)
def _prefix_ends(draw: Draw) -> Mask:
    return Prefix(int64([99, 0]))


@masked("lengths", Padding, sdpa=None)
def _lengths(draw: Draw) -> Mask:
    return Padding(int64([13, 6]))


@masked("one length", Padding, sdpa=None)
def _one_length(draw: Draw) -> Mask:
    return Padding(4)


def _left(length: int, *pads: int) -> Tensor:
    return int64(range(length)) >= int64(pads)[:, None]


@masked("left padding", Padding, sdpa=None)
def _left_padding(draw: Draw) -> Mask:
    return Padding(_left(13, 0, 7))


@masked("left padding, causal", Padding, Causal, "&", sdpa=None, T=13)
def _left_causal(draw: Draw) -> Mask:
    return Causal() & Padding(_left(13, 0, 5), queries=_left(13, 0, 5))


@masked("padding with holes", Padding, "several runs")
def _holes(draw: Draw) -> Mask:
    return Padding(draw.keep(2, 13))


@masked("padding with holes, causal, padded queries", Padding, Causal, "&", "empty rows")
def _holes_causal(draw: Draw) -> Mask:
    return Causal() & Padding(draw.keep(2, 13), queries=draw.keep(2, 11))


@masked("everything is padding", Padding, "empty rows", sdpa=None)
def _all_padding(draw: Draw) -> Mask:
    return Padding(torch.zeros(2, 13, dtype=torch.bool, device="cpu"))


@masked("packed documents", Documents, T=13)
def _packed(draw: Draw) -> Mask:
    return Documents(int64([0] * 4 + [1] * 1 + [2] * 8))


@masked("packed documents, causal, one empty", Documents, Causal, "from_offsets", T=13)
def _offsets(draw: Draw) -> Mask:
    return Causal() & Documents.from_offsets(int64([0, 5, 5, 13]))


@masked("documents across, one without keys", Documents, "empty rows")
def _across(draw: Draw) -> Mask:
    return Documents.from_offsets(int64([0, 3, 7, 11]), int64([0, 6, 6, 13]))


@masked("documents that return", Documents, "several runs")
def _returning(draw: Draw) -> Mask:
    return Documents(draw.ints(3, 2, 11), draw.ints(3, 2, 13))


@masked("documents shared by the queries only", Documents, "several runs")
def _shared_ids(draw: Draw) -> Mask:
    return Documents(draw.ints(3, 11, low=-1), draw.ints(3, 2, 13, low=-1))


@masked("documents of one token, more runs than are kept", Documents, T=5, S=179)
def _many_runs(draw: Draw) -> Mask:
    return Documents(draw.ints(2, 5), draw.ints(2, 179))


@masked("padding with more holes than are kept", Padding, S=149, T=7)
def _many_holes(draw: Draw) -> Mask:
    return Padding(draw.keep(2, 149, share=0.5))


@masked("chunks", Chunks, Causal, "&")
def _chunks(draw: Draw) -> Mask:
    return Causal() & Chunks(4)


@masked("chunks from the padding", Chunks)
def _chunks_from(draw: Draw) -> Mask:
    return Chunks(3, start=int64([1, 7]))


@masked("blocks", Blocks)
def _blocks(draw: Draw) -> Mask:
    return Blocks(draw.keep(4, 5), size=3)


@masked("blocks for each head", Blocks, "per head")
def _blocks_head(draw: Draw) -> Mask:
    return Blocks(draw.keep(3, 3, 4, share=0.4), size=4)


@masked("blocks for each head and sequence", Blocks, "per head")
def _blocks_batch(draw: Draw) -> Mask:
    return Blocks(draw.keep(2, 3, 6, 7, share=0.4), size=2)


@masked("dense", Dense)
def _dense(draw: Draw) -> Mask:
    return Dense(draw.keep(2, 3, 11, 13))


@masked("dense, one for all", Dense)
def _dense_shared(draw: Draw) -> Mask:
    return Dense(draw.keep(11, 13))


@masked("dense, for each head", Dense, "per head")
def _dense_head(draw: Draw) -> Mask:
    return Dense(draw.keep(3, 1, 13))


@masked("dense, for each sequence and query", Dense, "empty rows")
def _dense_rows(draw: Draw) -> Mask:
    return Dense(draw.keep(2, 1, 11, 1))


@masked("dense with empty rows and unseen keys", Dense, "empty rows")
def _dense_dead(draw: Draw) -> Mask:
    keep = draw.keep(2, 3, 11, 13)
    keep[:, :, 4:7] = False
    keep[0, 1] = False
    keep[..., 8:11] = False
    return Dense(keep)


@masked("rule", Rule, Causal, "&", native=PYTHON)
def _rule(draw: Draw) -> Mask:
    return Causal() & Rule(lambda b, h, i, j: (i + j + h + b) % 3 != 0)


@masked("rule or window", Rule, Window, "|", native=PYTHON)
def _rule_or(draw: Draw) -> Mask:
    return Window(1, 1) | Rule(lambda b, h, i, j: (j % 5 == 0) & (h > 0))


@masked("global tokens beside a window", Window, Dense, "|", "several runs")
def _global(draw: Draw) -> Mask:
    ends = torch.zeros(11, 13, dtype=torch.bool, device="cpu")
    ends[0], ends[:, 0] = True, True
    return Window(1, 1) | Dense(ends)


@masked("a union of three runs, cut by a fourth", "&", "|", Causal, Prefix, Window, Chunks, "several runs")
def _union(draw: Draw) -> Mask:
    return Causal() & (Prefix(2) | Window(1, 0) | Chunks(4)) & Padding(int64([13, 9]))


@masked("or of ands", "&", "|", Causal, Prefix, Documents, Padding, T=13)
def _or_of_ands(draw: Draw) -> Mask:
    return (Causal() & Documents(draw.ints(2, 2, 13))) | (Prefix(3) & Padding(draw.keep(2, 13)))


@masked("masks that leave nothing in common", Window, Dense, "&", "empty rows")
def _nothing(draw: Draw) -> Mask:
    return Window(0, 1) & Dense(torch.zeros(1, 1, 1, 13, dtype=torch.bool, device="cpu"))


@masked("blocks by position", Blocks, "align", "q_start", T=7, q_start=3)
def _blocks_placed(draw: Draw) -> Mask:
    return Blocks(draw.keep(4, 5), size=3, align="end")


@masked("blocks by position, beside a map that is too short", Blocks, "align", "|", "q_start [B]", "per head")
def _blocks_short(draw: Draw) -> Mask:
    return Window(0, 0) | Blocks(draw.keep(2, 3, 2, 8, share=0.4), size=2, align="end")


@masked("a stretch of keys a query", Spans, "empty rows")
def _spans(draw: Draw) -> Mask:
    return Spans(draw.ints(9, 2, 11, low=-2), draw.ints(20, 2, 11, low=-1))


@masked("two stretches, causal", Spans, Causal, "&", "|", "several runs", "q_start", q_start=2)
def _spans_shared(draw: Draw) -> Mask:
    return Causal() & (Spans(draw.ints(4, 11), draw.ints(7, 11)) | Spans(draw.ints(9, 11).int(), draw.ints(14, 2, 11)))


@masked("tokens that see all and are seen", Global)
def _global_tokens(draw: Draw) -> Mask:
    return Global(int64([3, 0]))


@masked("marked tokens, causal", Global, Causal, "&", "several runs")
def _global_marks(draw: Draw) -> Mask:
    return Causal() & Global(draw.keep(2, 13, share=0.4))


@masked("more marked tokens than runs are kept", Global, Window, "|", S=179, T=7)
def _global_many(draw: Draw) -> Mask:
    return Window(2, 0) | Global(draw.keep(179, share=0.5))


@masked("every third key", Strided)
def _strided(draw: Draw) -> Mask:
    return Strided(3)


@masked("every second key of a document", Strided, Documents, "&", "empty rows")
def _strided_documents(draw: Draw) -> Mask:
    return Strided(2) & Documents.from_offsets(int64([0, 3, 7, 11]), int64([0, 6, 6, 13]))


@masked("a draft of two trees", Tree)
def _tree(draw: Draw) -> Mask:
    return Tree([-1, 0, 0, 2, 1, -1, 5, 6, 6, 8, 4])


@masked("a draft for each sequence, in a window", Tree, Window, "&", "several runs")
def _trees(draw: Draw) -> Mask:
    parents = (draw.normal(2, 11).abs() * int64(range(11))).long().clamp(max=int64(range(11))) - 1
    return Tree(parents) & Window(before=6)


@masked("a draft deeper than runs are kept", Tree, native=PYTHON, T=71, S=79)
def _deep_tree(draw: Draw) -> Mask:
    return Tree([-1, -1, *range(69)])


# --- recipes -----------------------------------------------------------------------------------------------------


@masked("longformer", recipes.longformer, Global, Window)
def _longformer(draw: Draw) -> Mask:
    return recipes.longformer(4, draw.keep(2, 13, share=0.2))


@masked("big bird", recipes.bigbird, Blocks, "per head")
def _bigbird(draw: Draw) -> Mask:
    return recipes.bigbird(13, heads=3, size=2, random=1, seed=4)


@masked("big bird, causal, in the middle of a longer text", recipes.bigbird, Blocks, Causal, "&", T=7, q_start=5)
def _bigbird_causal(draw: Draw) -> Mask:
    return Causal() & recipes.bigbird(29, heads=3, size=3, window=1, last=0, random=2)


case("prefix language model, by its recipe", recipes.prefix_lm, Prefix, sdpa=SHAPE)(
    lambda draw: draw.call(fused=True, mask=recipes.prefix_lm(int64([9, 4])))
)
case("chunks, by their recipe", recipes.chunked_local, Chunks, sdpa=SHAPE)(
    lambda draw: draw.call(fused=True, mask=recipes.chunked_local(5, start=int64([1, 7])))
)


@masked("dilated window, both ways", recipes.dilated, Strided, Window)
def _dilated(draw: Draw) -> Mask:
    return recipes.dilated(before=2, step=3, after=1)


@masked("packed documents, the last of them asked", recipes.packed, Documents, Causal)
def _packed_recipe(draw: Draw) -> Mask:
    return recipes.packed([4, 0, 6, 3], queries=11)


@masked("streaming", recipes.streaming, Prefix, Window)
def _streaming(draw: Draw) -> Mask:
    return recipes.streaming(sinks=2, window=3)


case("a draft, by its recipe, in a static buffer", recipes.tree, Tree, "q_start [B]", sdpa=SHAPE)(
    lambda draw: draw.call(fused=True, T=5, mask=recipes.tree(int64([-1, 0, 0, 1, 2])), q_start=int64([3, 7]))
)
