"""What a head does, read off its weights: where it looks (QK), what it moves (OV), and whether it copies.

Rows are tokens everywhere, ``x @ M``. Elhage et al. write columns, ``M x``, so their matrices stand transposed here:

    here                                there
    qk  W_Q^T W_K   score = x_i M x_j^T     W_QK = W_Q^T W_K    score = x_i^T W_QK x_j    the same matrix
    ov  W_V^T W_O^T   adds x_j M            W_OV = W_O W_V      adds W_OV x_j             the transpose

with W_Q, W_K [D, M], W_V [E, M], W_O [M, E] as ``nn.Linear`` holds them. x is what the attention module is given: in
models that norm first, the residual stream after that norm.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, UnsupportedError, sentence
from headwise.heads.composition import COMPOSITIONS, composition, feeds, random_composition
from headwise.heads.factored import FactoredMatrix, eigenvalue_ratios
from headwise.heads.reading import (
    Norm,
    Side,
    crosses,
    embeddings,
    last_norm,
    layer_with,
    moves,
    norm_before,
    reaches_logits,
    refuse_unless_bilinear,
    rotation,
    side_of,
    unembedding,
)
from headwise.models.projections import Projections, projections
from headwise.models.sites import sites

__all__ = [
    "COMPOSITIONS",
    "composition",
    "copying",
    "directions",
    "ov",
    "qk",
    "random_composition",
    "score_scale",
    "virtual",
]

_CHUNK = 8192  # tokens whose embeddings are held at once in float64


def qk(
    model: nn.Module,
    layer: str | int,
    head: int,
    *,
    between: str = "residual",
    offset: int | Iterable[int] | None = None,
    fold_norm: bool = False,
    biases: bool = False,
) -> FactoredMatrix:
    """Where a head looks: M = W_Q^T R W_K, rows for queries, columns for keys.

    ``score_ij = score_scale(model, layer) * x_i M x_j^T``, before soft caps, biases by position (T5, ALiBi) and masks,
    none of which is in M. With grouped heads W_K is that of the key/value head that the query head reads.

    Args:
        model: a transformers model of a known family.
        layer: a site's name or its index in ``hw.sites(model)``.
        head: a query head of it, 0 .. H-1.
        between: "residual", M is [M, M] between what the module is given; "tokens", [V, V] between token embeddings as
            the model scales them, W_E M W_E^T, without position embeddings.
        offset: for rotary models, how many tokens before the query the key stands: R is the turn between them. Several:
            R is the mean turn, of rank D still. None: R = I, what the head matches when positions are left out.
        fold_norm: whether x is the residual stream divided by its size alone: gain, shift and centring of the norm
            before the module move into M. The size differs from token to token, so it is in no matrix.
        biases: whether the biases are in M. In the residual stream x gets a last component of 1, and M is
            [M+1, M+1]; tokens stay as they are.

    Returns:
        The factored matrix of rank D.

    Raises:
        SpecError: no such layer or head, or an offset where nothing is rotary.
        UnsupportedError: an unknown family; queries and keys that are normed (Qwen 3, Gemma 3), whose scores are no
            bilinear form; tokens of a site that reads another stack; fold_norm where no norm stands before the module.

    Source:
        Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".

    Example:
        >>> import torch
        >>> from headwise.heads.circuits import qk
        >>> from transformers import LlamaConfig, LlamaModel
        >>> small = {
        ...     "hidden_size": 8,
        ...     "num_attention_heads": 2,
        ...     "num_key_value_heads": 1,
        ...     "num_hidden_layers": 1,
        ... }
        >>> model = LlamaModel(LlamaConfig(vocab_size=16, intermediate_size=8, **small))
        >>> qk(model, 0, 1), qk(model, 0, 1, between="tokens", offset=range(1, 5))
        (FactoredMatrix([8, 8], rank 4), FactoredMatrix([16, 16], rank 4))
    """
    p = layer_with(model, layer, head, "qk")
    refuse_unless_bilinear(p, "qk")
    q, k = side_of(p, "q", head), side_of(p, "k", p.kv_heads[head])
    if fold_norm:
        norm = norm_before(model, p, "qk")
        q = norm.into(q)
        # what another stack gives has no norm of this layer before it
        k = k if crosses(p.site) else norm.into(k)
    if offset is not None:
        R = rotation(model, p, offset, "qk")
        k = Side(R @ k.weight, R @ k.bias)
    if _tokens(between, "qk"):
        _refuse_crossing(p, "qk")
        E = embeddings(model, "qk")
        return FactoredMatrix(_read(E, q, biases), _read(E, k, biases).T)
    return FactoredMatrix(_homogeneous(q, biases), _homogeneous(k, biases).T)


def ov(
    model: nn.Module,
    layer: str | int,
    head: int,
    *,
    between: str = "residual",
    fold_norm: bool = False,
    biases: bool = False,
) -> FactoredMatrix:
    """What a head moves: M = W_V^T W_O^T, rows for the token it reads, columns for what it adds where it writes.

    ``out_i = sum_j p_ij x_j M``, and the output projection's bias, which belongs to no head. Between tokens M is the
    direct path alone: norms are left out unless folded, and so is what a masked language model (BERT) has between its
    last layer and its unembedding.

    Args:
        model: a transformers model of a known family.
        layer: a site's name or its index in ``hw.sites(model)``.
        head: a query head of it, 0 .. H-1.
        between: "residual", M is [M, M]; "tokens", [V, V], W_E M W_U: by how much a token that is fully attended to
            raises each logit, directly and not through later layers.
        fold_norm: whether x is the residual stream divided by its size alone, as in `qk`, and, between tokens, the last
            norm's gain and centring are in W_U; where the model norms what it adds (Gemma 2, 3), the gain of that too.
        biases: whether the value's bias is in M: [M+1, M] between residuals, x having a last component of 1.

    Returns:
        The factored matrix of rank E.

    Raises:
        SpecError: no such layer or head.
        UnsupportedError: an unknown family; tokens without an unembedding or of a head that does not reach it;
            fold_norm where no norm stands before the module.

    Source:
        Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits".

    Example:
        >>> import torch
        >>> from headwise.heads.circuits import ov
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16, n_positions=8))
        >>> ov(model, 0, 1), ov(model, 0, 1, between="tokens")[3].shape  # token 3's row: 16 logits
        (FactoredMatrix([8, 8], rank 4), torch.Size([16]))
    """
    p = layer_with(model, layer, head, "ov")
    v, W_O = moves(model, p, head, fold_norm, "ov")
    if not _tokens(between, "ov"):
        return FactoredMatrix(_homogeneous(v, biases), W_O.T)
    _refuse_crossing(p, "ov")
    _refuse_unless_logits(model, p, "ov")
    return FactoredMatrix(_read(embeddings(model, "ov"), v, biases), W_O.T @ _unembed(model, p, fold_norm, "ov").T)


def virtual(
    model: nn.Module, first: tuple[str | int, int], second: tuple[str | int, int], *, fold_norm: bool = False
) -> FactoredMatrix:
    """The virtual head of two: what the second moves of what the first wrote, ``ov(first) @ ov(second)``, [M, M].

    Args:
        model: a transformers model of a known family.
        first: (layer, head) of the earlier head.
        second: (layer, head) of the later one.
        fold_norm: as of `ov`.

    Raises:
        SpecError: the first head does not stand before the second, and as `ov`.

    Source:
        Elhage et al. 2021, "Virtual Attention Heads".

    Example:
        >>> import torch
        >>> from headwise.heads.circuits import ov, virtual
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8))
        >>> both = virtual(model, (0, 1), (1, 0))
        >>> both, torch.allclose(both.to_dense(), ov(model, 0, 1).to_dense() @ ov(model, 1, 0).to_dense())
        (FactoredMatrix([8, 8], rank 4), True)
    """
    for name, pair in (("first", first), ("second", second)):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise SpecError(sentence("virtual", f"{name} is {pair!r}", "it is (layer, head)", todo="Write (0, 3)."))
    names = sites(model)
    one, two = (layer_with(model, layer, head, "virtual") for layer, head in (first, second))
    if names.index(one.site) >= names.index(two.site) or not feeds(one, two, "v"):
        what = f"{two.site} reads nothing that {one.site} writes"
        raise SpecError(sentence("virtual", what, "the second head moves what the first wrote"))
    return ov(model, one.site, first[1], fold_norm=fold_norm) @ ov(model, two.site, second[1], fold_norm=fold_norm)


def copying(model: nn.Module, *, fold_norm: bool = False) -> Tensor:
    """Whether heads copy what they read: sum of the eigenvalues of W_E W_OV W_U over the sum of their absolute values.

    1: whichever tokens a head attends to, it raises the logits of those same tokens; -1: it lowers them; near 0 for a
    head of random weights. It is a summary, no proof: eigenvectors need not be orthogonal, and a direction that all
    embeddings share, as their mean, counts like any other. E x E matrices alone are decomposed, never V x V.

    Args:
        model: a transformers model of a known family, with an unembedding.
        fold_norm: as of `ov`. The published numbers are of models whose norms were folded.

    Returns:
        [L, H] float64 in [-1, 1], by site and query head. NaN where a layer has no such head, and where W_E W_OV W_U
        says nothing: in an encoder that a decoder reads, and in heads that read such an encoder.

    Raises:
        UnsupportedError: an unknown family, or no unembedding; fold_norm where norms come after.

    Source:
        Elhage et al. 2021, "Copying / primitive in-context learning".

    Example:
        >>> import torch
        >>> from headwise.heads.circuits import copying
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=3, n_embd=12, vocab_size=16, n_positions=8))
        >>> copying(model).shape
        torch.Size([2, 3])
    """
    layers = [projections(model, site, "copying") for site in sites(model)]
    found = torch.full((len(layers), max(p.heads for p in layers)), torch.nan, dtype=torch.float64, device="cpu")
    grams: dict[int, Tensor] = {}
    for at, p in enumerate(layers):
        if crosses(p.site) or not reaches_logits(model, p.site) or not p.heads:
            continue
        norm = last_norm(model, p, "copying") if fold_norm else None
        if id(norm) not in grams:
            grams[id(norm)] = _through_tokens(model, _unembed(model, p, fold_norm, "copying"))
        moved = [moves(model, p, head, fold_norm, "copying") for head in range(p.heads)]
        W_V = torch.stack([v.weight for v, _ in moved]).double()
        W_O = torch.stack([o for _, o in moved]).double()
        found[at, : p.heads] = eigenvalue_ratios(W_O.mT @ grams[id(norm)] @ W_V.mT).cpu()
    return found


def _through_tokens(model: nn.Module, W_U: Tensor) -> Tensor:
    """W_U^T W_E [M, M] in float64, over the tokens that both know, a few thousand at a time."""
    total = W_U.new_zeros(W_U.shape[1], W_U.shape[1], dtype=torch.float64)
    for start in range(0, len(W_U), _CHUNK):
        E = embeddings(model, "copying", slice(start, start + _CHUNK)).double()
        both = min(len(E), len(W_U) - start)
        total += W_U[start : start + both].double().T @ E[:both]
    return total


def score_scale(model: nn.Module, layer: str | int) -> float:
    """What a layer multiplies ``x_i M x_j^T`` of `qk` with: 1/sqrt(D) mostly, 1 in T5, the model's own in others.

    Example:
        >>> from headwise.heads.circuits import score_scale
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=16, n_positions=8))
        >>> score_scale(model, 0)
        0.5
    """
    p = projections(model, layer, "score_scale")
    scaling: Any = getattr(p.module, "scaling", None)
    return p.head_dim**-0.5 if scaling is None else float(scaling)


def directions(
    matrix: FactoredMatrix, tokenizer: Any = None, *, count: int = 5, tokens: int = 8
) -> list[dict[str, Any]]:
    """The singular directions of a matrix between tokens, each by the tokens that it reads and writes most.

    For `ov` the head turns ``read`` into ``write``; for `qk` queries on ``read`` look for keys on ``write``. Singular
    vectors come in pairs of no sign; the end of a direction that is shown is that of its left vector's largest entry.

    Args:
        matrix: of `qk` or `ov` with ``between="tokens"``.
        tokenizer: turns ids into strings; None leaves ids.
        count: directions, the strongest first.
        tokens: of each side.

    Returns:
        For each direction ``{"strength": singular value, "read": [(token, entry), ...], "write": [...]}``.

    Example:
        >>> import torch
        >>> from headwise.heads.circuits import directions
        >>> from headwise.heads.factored import FactoredMatrix
        >>> matrix = FactoredMatrix(torch.eye(4)[:, :1], 3 * torch.eye(4)[2:3])  # token 0 raises token 2
        >>> directions(matrix, count=1, tokens=1)
        [{'strength': 3.0, 'read': [(0, 1.0)], 'write': [(2, 1.0)]}]
    """
    u, s, v = matrix.svd(count)

    def top(vector: Tensor) -> list[tuple[Any, float]]:
        best = vector.topk(min(tokens, len(vector)))
        ids = best.indices.tolist()
        names = ids if tokenizer is None else [tokenizer.decode([i]) for i in ids]
        return list(zip(names, best.values.tolist(), strict=True))

    return [{"strength": float(s[n]), "read": top(u[:, n]), "write": top(v[:, n])} for n in range(len(s))]


def _unembed(model: nn.Module, p: Projections, fold_norm: bool, who: str) -> Tensor:
    """W_U [V, M] that a site's output meets."""
    W_U = unembedding(model, who)
    if fold_norm:
        W_U = Norm.of(last_norm(model, p, who), W_U.weight.shape[1]).into(W_U)
    return W_U.weight


def _read(E: Tensor, side: Side, biases: bool) -> Tensor:
    found = E @ side.weight.T
    return found + side.bias if biases else found


def _homogeneous(side: Side, biases: bool) -> Tensor:
    """The projection as [M, D], with its bias as one more row."""
    return torch.cat([side.weight.T, side.bias[None]]) if biases else side.weight.T


def _tokens(between: str, who: str) -> bool:
    if between not in ("residual", "tokens"):
        raise SpecError(sentence(who, f"between is {between!r}", 'between is "residual" or "tokens"'))
    return between == "tokens"


def _refuse_crossing(p: Projections, who: str) -> None:
    if crosses(p.site):
        raise UnsupportedError(
            sentence(
                who,
                f"{p.site} reads its keys and values from another stack",
                "those are no token embeddings",
                todo='Ask between="residual".',
            )
        )


def _refuse_unless_logits(model: nn.Module, p: Projections, who: str) -> None:
    if not reaches_logits(model, p.site):
        raise UnsupportedError(
            sentence(
                who,
                f"{p.site} stands in an encoder that a decoder reads",
                "what it adds reaches the logits through other heads alone",
                todo='Ask between="residual".',
            )
        )
