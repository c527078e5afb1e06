"""How much a head reads of what an earlier head wrote, off their weights, against what random weights would give."""

from __future__ import annotations

import functools
import math
import statistics
from typing import Literal

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, sentence
from headwise.heads.factored import triangle
from headwise.heads.reading import (
    Side,
    crosses,
    moves,
    norm_before,
    refuse_unless_bilinear,
    side_of,
    stack_of,
    wide,
)
from headwise.models.projections import Projections, projections
from headwise.models.sites import sites

__all__ = ["COMPOSITIONS", "composition", "feeds", "random_composition"]

#: What a later head reads with: the queries', the keys' or the values' side.
COMPOSITIONS = ("q", "k", "v")

_ENOUGH = 0.002  # draws are taken until their mean has a standard error of this part of itself
_FEWEST, _MOST, _AT_ONCE = 8, 4096, 64


def composition(
    model: nn.Module, kind: Literal["q", "k", "v"] = "k", *, subtract: bool = True, fold_norm: bool = False
) -> Tensor:
    """How much the queries, keys or values of a head read of what an earlier head writes.

    With W_QK = W_Q^T W_K and W_OV = W_O W_V (columns are tokens, as in the paper), h1 the earlier head:

        q   |W_QK2^T W_OV1| / (|W_QK2| |W_OV1|)
        k   |W_QK2 W_OV1| / (|W_QK2| |W_OV1|)         |.| the Frobenius norm
        v   |W_OV2 W_OV1| / (|W_OV2| |W_OV1|)

    less what random matrices of those shapes give on average, so 0 means chance. W_QK is taken without rotation
    (`qk` with offset=None). No matrix larger than D x E is formed for a pair of heads.

    Args:
        model: a transformers model of a known family.
        kind: "q", "k" or "v".
        subtract: False gives the ratios themselves, in [0, 1].
        fold_norm: whether what a head reads passes through the gain and centring of the norm before it, as in `ov`.

    Returns:
        [L, H, L, H], float32 or float64 as the weights are; ``[l1, h1, l2, h2]``: h2 of site l2 reads h1 of site l1.
        NaN where it cannot: l1 is not before l2, one of them has no such head, or they are in different stacks. Heads
        of a decoder that read an encoder read its heads with keys and values, and their own stack with queries.

    Raises:
        SpecError: another kind.
        UnsupportedError: an unknown family; q and k where queries and keys are normed (Qwen 3, Gemma 3); fold_norm
            where no norm stands before a module.

    Source:
        Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits". Their plot of these scores has an
        erratum.

    Example:
        >>> import torch
        >>> from headwise.heads.circuits import composition
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8))
        >>> scores = composition(model, "v")
        >>> scores.shape, bool(scores[0, :, 1].isfinite().all()), bool(scores[1].isnan().all())
        (torch.Size([2, 2, 2, 2]), True, True)
    """
    if kind not in COMPOSITIONS:
        raise SpecError(sentence("composition", f"kind is {kind!r}", 'kind is "q", "k" or "v"'))
    layers = [projections(model, site, "composition") for site in sites(model)]
    writes = [_writes(model, p, fold_norm) for p in layers]
    H = max(p.heads for p in layers)
    found = torch.full((len(layers), H, len(layers), H), torch.nan, dtype=writes[0].dtype, device="cpu")
    for later, two in enumerate(layers):
        earlier = [at for at, one in enumerate(layers[:later]) if feeds(one, two, kind) and one.heads and two.heads]
        if not earlier:
            continue
        reads = _reads(model, two, kind, fold_norm)
        for at in earlier:
            scores = _ratios(reads, writes[at])
            if subtract:
                scores = scores - _expected(layers[at], two, kind)
            found[at, : layers[at].heads, later, : two.heads] = scores.T.cpu()
    return found


def feeds(one: Projections, two: Projections, kind: str) -> bool:
    """Whether a site writes into what a site further on in the model reads with its "q", "k" or "v"."""
    same = stack_of(one.site) == stack_of(two.site)
    return same != (crosses(two.site) and kind != "q")


def _reads(model: nn.Module, p: Projections, kind: str, fold_norm: bool) -> Tensor:
    """For each head the product of its reading side with the triangle of its other one, [H, r, M].

    A triangle is as long in every direction as the tall matrix it comes from, so norms of products stay what they are.
    """
    rows = []
    for head in range(p.heads):
        if kind == "v":
            v, W_O = moves(model, p, head, fold_norm, "composition")
            rows.append(triangle(W_O).to(W_O.dtype) @ v.weight)
            continue
        q, k = _scoring(model, p, head, fold_norm)
        with_, other = (q, k) if kind == "q" else (k, q)
        rows.append(triangle(other.weight.T).to(other.weight.dtype) @ with_.weight)
    return torch.stack(rows)


def _scoring(model: nn.Module, p: Projections, head: int, fold_norm: bool) -> tuple[Side, Side]:
    refuse_unless_bilinear(p, "composition")
    q, k = side_of(p, "q", head), side_of(p, "k", p.kv_heads[head])
    if not fold_norm:
        return q, k
    norm = norm_before(model, p, "composition")
    return norm.into(q), (k if crosses(p.site) else norm.into(k))


def _writes(model: nn.Module, p: Projections, fold_norm: bool) -> Tensor:
    """For each head W_O times the triangle of W_V, [H, M, r]."""
    columns = []
    for head in range(p.heads):
        v, W_O = moves(model, p, head, fold_norm, "composition")
        columns.append(W_O @ triangle(v.weight.T).to(W_O.dtype).T)
    M, E = p.o.matrix.shape[0], p.value_dim
    return torch.stack(columns) if columns else wide(p.o.matrix).new_zeros(0, M, E)


def _ratios(reads: Tensor, writes: Tensor) -> Tensor:
    """|A B| / (|A| |B|) for each reading [H2, r, M] and writing head [H1, M, E], [H2, H1]; 0 for a head of zeros."""
    H2, r, M = reads.shape
    H1, _, E = writes.shape
    product = reads.reshape(H2 * r, M) @ writes.permute(1, 0, 2).reshape(M, H1 * E)
    norms = torch.linalg.vector_norm(product.view(H2, r, H1, E), dim=(1, 3))
    scale = torch.linalg.matrix_norm(reads)[:, None] * torch.linalg.matrix_norm(writes)
    return torch.where(scale > 0, norms / scale, torch.zeros_like(norms))


def _expected(one: Projections, two: Projections, kind: str) -> float:
    outer = {"q": two.k, "k": two.q}[kind].matrix.shape[1] if kind != "v" else two.o.matrix.shape[0]
    rank = two.value_dim if kind == "v" else two.head_dim
    return random_composition(outer, rank, one.o.matrix.shape[0], one.value_dim, one.v.matrix.shape[1])


@functools.lru_cache(maxsize=64)
def random_composition(outer: int, rank: int, width: int, value_dim: int, inner: int) -> float:
    """The mean ratio |A B C D| / (|A B| |C D|) of normal random matrices: what heads of random weights compose.

    A [outer, rank], B [rank, width], C [width, value_dim], D [value_dim, inner], all entries independent. Near
    1/sqrt(width), whatever the ranks: the mean square of |A B C D| is that of |A B| |C D| over width. Draws are taken
    because for small matrices the mean of a ratio is not the ratio of means.

    Args:
        outer, rank: of the later head's other side, and its D (or E).
        width: M, what the earlier head writes to.
        value_dim, inner: E of the earlier head, and the width that it reads.

    Returns:
        The mean over draws from a fixed seed, with a standard error of 0.2 % of it.

    Example:
        >>> from headwise.heads.circuits import random_composition
        >>> round(random_composition(576, 64, 576, 64, 576), 3), round(576**-0.5, 3)
        (0.042, 0.042)
    """
    generator = torch.Generator(device="cpu").manual_seed(0)

    at_once = max(1, min(_AT_ONCE, 2**20 // (max(outer, width, inner) * max(rank, value_dim))))

    def draw(rows: int, columns: int) -> Tensor:
        return torch.randn(at_once, rows, columns, generator=generator, dtype=torch.float64, device="cpu")

    found: list[float] = []
    error = math.inf
    while len(found) < _FEWEST or (len(found) < _MOST and error > _ENOUGH * statistics.fmean(found)):
        A, B, C, D = draw(outer, rank), draw(rank, width), draw(width, value_dim), draw(value_dim, inner)
        # |A X D|^2 = <A^T A, X D D^T X^T>, so only the Gram matrices of the outer factors matter
        left, right, X = A.mT @ A, D @ D.mT, B @ C
        whole = (left * (X @ right @ X.mT)).sum((1, 2))
        parts = (left * (B @ B.mT)).sum((1, 2)) * (right * (C.mT @ C)).sum((1, 2))
        found += (whole / parts).sqrt().tolist()
        error = statistics.stdev(found) / len(found) ** 0.5
    return statistics.fmean(found)
