"""Masks of published models and of serving, each put together from the masks of this package: ``hw.masks``."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from headwise.errors import SpecError, sentence
from headwise.spec.checks import FAR, ints_of, whole_number
from headwise.spec.masks import Mask
from headwise.spec.positions import Causal, Chunks, Prefix, Window
from headwise.spec.sparse import Global, Strided, Tree
from headwise.spec.tokens import Documents
from headwise.spec.written import Blocks

__all__ = ["bigbird", "chunked_local", "dilated", "longformer", "packed", "prefix_lm", "streaming", "tree"]


def longformer(window: int, tokens: int | Tensor) -> Mask:
    """A window around each query, and global tokens that see all and are seen by all.

    ``Window(window // 2, window // 2) | Global(tokens)``; put ``Causal() &`` before it for a decoder.

    Args:
        window: keys in all, half of them on each side, as Longformer's ``attention_window``; an even int.
        tokens: which tokens are global: the first n, an int or integer [B]; or bool [S] or [B, S].

    Source: Beltagy et al. 2020, "Longformer" (arXiv 2004.05150), section 3.1.

    Example:
        >>> import headwise as hw
        >>> hw.masks.longformer(2, tokens=1).show(6)
        ██████
        ███···
        ████··
        █·███·
        █··███
        █···██
    """
    whole_number("longformer", "window", window, 0, FAR)
    if window % 2:
        raise SpecError(sentence("longformer", f"window is {window}", "half of it lies on each side, so it is even"))
    return Window(window // 2, window // 2) | Global(tokens)


def bigbird(
    length: int,
    heads: int,
    size: int = 64,
    window: int = 3,
    first: int = 1,
    last: int = 1,
    random: int = 3,
    seed: int = 0,
    device: torch.device | str | None = None,
) -> Mask:
    """Blocks of tokens: a window of them, global ones at both ends, and for each head a few at random.

    It is a map of blocks, ``H * (length / size)**2`` bytes, and holds for any part of the sequence: a query's block
    follows from its position. The same seed draws the same blocks everywhere. Put ``Causal() &`` before it for a
    decoder.

    Args:
        length: tokens of the whole sequence; keys may be fewer.
        heads: query heads, H.
        size: tokens in a block.
        window: blocks in a query's window, its own in the middle; odd.
        first, last: blocks at either end that see all and are seen by all.
        random: further blocks that each block of queries sees, drawn for each head from those not yet seen.
        seed: of the draw.
        device: where the map is put; None = cpu.

    Source: Zaheer et al. 2020, "Big Bird" (arXiv 2007.14062), section 2; the sizes are those of its table 8 (ITC).

    Example:
        >>> import headwise as hw
        >>> hw.masks.bigbird(8, heads=1, size=1, random=1).show()
        ████████
        ████···█
        ████·█·█
        █████··█
        █··█████
        █·█·████
        █··█·███
        ████████
    """
    for name, value in (("length", length), ("heads", heads), ("size", size), ("window", window)):
        whole_number("bigbird", name, value, 1, FAR)
    for name, value in (("first", first), ("last", last), ("random", random)):
        whole_number("bigbird", name, value, 0, FAR)
    if window % 2 == 0:
        raise SpecError(sentence("bigbird", f"window is {window}", "a query's own block is its middle, so it is odd"))
    n = -(-length // size)
    block = torch.arange(n, dtype=torch.int64, device="cpu")
    ends = (block < first) | (block >= n - last)
    seen = ((block[:, None] - block).abs() <= window // 2) | ends[:, None] | ends
    generator = torch.Generator(device="cpu").manual_seed(seed)
    keep = seen.expand(heads, n, n).clone()
    for one in keep:  # a head at a time: the numbers drawn are four times the map
        drawn = torch.rand(n, n, generator=generator, dtype=torch.float32, device="cpu").masked_fill_(seen, -1.0)
        best = drawn.topk(min(random, n), dim=-1)
        one.scatter_(1, best.indices, one.gather(1, best.indices) | (best.values >= 0))
    return Blocks(keep.to(device), size, align="end")


def prefix_lm(lengths: int | Tensor) -> Mask:
    """A prefix that everybody sees, and causal behind it: ``Causal() | Prefix(lengths)``.

    Args:
        lengths: tokens in the prefix, an int or integer [B].

    Source: Raffel et al. 2020, "T5" (arXiv 1910.10683), figure 4.

    Example:
        >>> import headwise as hw
        >>> hw.masks.prefix_lm(3).show(5)
        ███··
        ███··
        ███··
        ████·
        █████
    """
    return Causal() | Prefix(lengths)


def chunked_local(size: int, start: int | Tensor = 0) -> Mask:
    """Causal inside of chunks, as in Llama 4: ``Causal() & Chunks(size, start)``.

    Args:
        size: tokens in a chunk.
        start: where chunk 0 begins, an int or integer [B]; transformers counts from the left padding.

    Source: Llama 4, ``attention_chunk_size`` of its published configuration.

    Example:
        >>> import headwise as hw
        >>> hw.masks.chunked_local(3).show(5)
        █····
        ██···
        ███··
        ···█·
        ···██
    """
    return Causal() & Chunks(size, start)


def dilated(before: int, step: int, after: int = 0) -> Mask:
    """A window that sees every ``step``-th key: ``Window(before * step, after * step) & Strided(step)``.

    Args:
        before: how many OTHER keys are visible behind the query.
        step: keys from one that is visible to the next; 1 is a plain window.
        after: how many OTHER keys are visible ahead of it.

    Source: Beltagy et al. 2020, "Longformer" (arXiv 2004.05150), figure 2c.

    Example:
        >>> import headwise as hw
        >>> hw.masks.dilated(before=2, step=2).show(6)
        █·····
        ·█····
        █·█···
        ·█·█··
        █·█·█·
        ·█·█·█
    """
    for name, value, least in (("before", before, 0), ("step", step, 1), ("after", after, 0)):
        whole_number("dilated", name, value, least, FAR)
    return Window(before * step, after * step) & Strided(step)


def packed(
    lengths: Tensor | Sequence[int] | None = None, *, offsets: Tensor | None = None, queries: int | None = None
) -> Mask:
    """Documents packed one behind the other, causal inside of each.

    ``Causal() & Documents(ids)``, where ids is which document each token belongs to.

    Args:
        lengths: tokens of each document, a list or integer [n].
        offsets: their running sum from 0 instead, integer [n + 1] (``cu_seqlens``).
        queries: how many of the last tokens the queries are; None = all of them.

    Source: Krell et al. 2021, "Efficient Sequence Packing without Cross-contamination" (arXiv 2107.02027).

    Example:
        >>> import headwise as hw
        >>> hw.masks.packed([2, 3]).show()
        █····
        ██···
        ··█··
        ··██·
        ··███
        >>> hw.masks.packed([2, 3], queries=2).show()
        ··██·
        ··███
    """
    if (lengths is None) == (offsets is None):
        raise SpecError(sentence("packed", "it takes lengths or offsets", "one of them says where documents end"))
    if offsets is None:
        given = ints_of("packed", "lengths", lengths)
        if given.dim() != 1 or bool((given < 0).any()):
            raise SpecError(sentence("packed", f"lengths is {lengths}", "it counts the tokens of each document"))
        offsets = torch.nn.functional.pad(given.long().cumsum(0), (1, 0))
    ids = Documents.from_offsets(offsets).ids
    if queries is None:
        return Causal() & Documents(ids)
    whole_number("packed", "queries", queries, 0, FAR)
    if queries > len(ids):
        raise SpecError(sentence("packed", f"queries is {queries}", f"there are {len(ids)} tokens"))
    return Causal() & Documents(ids[len(ids) - queries :], ids)


def tree(parents: Tensor | Sequence[int]) -> Mask:
    """A tree of drafted tokens to verify in one step: each sees the past, its ancestors and itself.

    The draft is all queries of a call, its first token at q_start; ``hw.spec.Tree``.

    Args:
        parents: integers [T] or [B, T], or a list of T: the earlier token that each one follows, -1 for none.

    Source: Miao et al. 2024, "SpecInfer" (arXiv 2305.09781), section 4.2.

    Example:
        >>> import headwise as hw
        >>> hw.masks.tree([-1, 0, 0, 2]).show(S=6)
        ███···
        ████··
        ███·█·
        ███·██
    """
    return Tree(parents)


def streaming(sinks: int, window: int) -> Mask:
    """The first tokens and the most recent ones: ``Causal() & (Prefix(sinks) | Window(window - 1))``.

    Args:
        sinks: first tokens that stay visible (4 in the paper).
        window: most recent keys, the query's own included, as of ``sliding_window``.

    Source: Xiao et al. 2024, "Efficient Streaming Language Models with Attention Sinks" (arXiv 2309.17453).

    Example:
        >>> import headwise as hw
        >>> hw.masks.streaming(sinks=1, window=2).show(6)
        █·····
        ██····
        ███···
        █·██··
        █··██·
        █···██
    """
    whole_number("streaming", "sinks", sinks, 0, FAR)
    whole_number("streaming", "window", window, 1, FAR)
    return Causal() & (Prefix(sinks) | Window(window - 1))
