"""Weights of attention layers between headwise, torch and transformers, as plain state dicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import torch
from torch import Tensor, nn

from headwise.errors import ShapeError, SpecError, UnsupportedError, axes, sentence
from headwise.nn.attention import MultiHeadAttention
from headwise.nn.rotary import Pairing
from headwise.tracing import plain

__all__ = ["LAYOUTS", "Layout", "from_state", "from_torch", "rope_pairing", "to_state", "to_torch"]

State = Mapping[str, Tensor]

_OURS = ("q_proj", "k_proj", "v_proj", "o_proj")
_KINDS = ("weight", "bias")


@dataclass(frozen=True)
class Layout:
    """How a library writes the four projections of an attention layer down.

    Args:
        names: of the query, key, value and output projection; a name that several share holds them packed, one below
            the other.
        turned: whether weights are [in, out] as in transformers' Conv1D, rather than [out, in] as in Linear.
        beside: what else stands in the layer and is no part of attention, as the norm behind BERT's; left out.
        shared: what else stands in the layer under the same name in headwise's.

    Example:
        >>> from headwise.nn.convert import LAYOUTS
        >>> LAYOUTS["gpt2"].names
        ('c_attn', 'c_attn', 'c_attn', 'c_proj')
    """

    names: tuple[str, str, str, str]
    turned: bool = False
    beside: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()

    def key(self, name: str, kind: str) -> str:
        """The key of a projection's weight or bias."""
        return f"{name}.{kind}"

    def keys(self) -> set[str]:
        """Every key that is read or written."""
        return {self.key(name, kind) for name in self.names for kind in _KINDS}


@dataclass(frozen=True)
class _Torch(Layout):
    """torch.nn.MultiheadAttention, whose parameters stand side by side in the module itself."""

    def key(self, name: str, kind: str) -> str:
        return f"{name}.{kind}" if name == "out_proj" else f"{name}_{kind}"


#: The layouts by name. "torch": nn.MultiheadAttention; where keys or values have a width of their own it keeps three
#: weights and one packed bias, which is read as well. "llama" is that of most of transformers' newer models (Mistral,
#: Qwen2, Qwen3, gpt-oss, ViT, ...) and of headwise itself.
LAYOUTS: Mapping[str, Layout] = {
    "torch": _Torch(("in_proj", "in_proj", "in_proj", "out_proj")),
    "llama": Layout(_OURS, beside=("rotary_emb.inv_freq",), shared=("q_norm.weight", "k_norm.weight", "sinks")),
    "gpt2": Layout(("c_attn", "c_attn", "c_attn", "c_proj"), turned=True, beside=("bias", "masked_bias")),
    "gpt2 cross": Layout(("q_attn", "c_attn", "c_attn", "c_proj"), turned=True, beside=("bias", "masked_bias")),
    "bert": Layout(
        ("self.query", "self.key", "self.value", "output.dense"),
        beside=("output.LayerNorm.weight", "output.LayerNorm.bias"),
    ),
    "vit": Layout(("attention.query", "attention.key", "attention.value", "output.dense")),
    "t5": Layout(("q", "k", "v", "o")),
    "timm": Layout(("qkv", "qkv", "qkv", "proj")),
}

_WHY_NOT = {
    "bias_k": "a learned key behind all others (add_bias_kv) has no place in four projections",
    "bias_v": "a learned value behind all others (add_bias_kv) has no place in four projections",
    "relative_attention_bias.weight": "a score rule: leave it out, and give the layer scores=(RelativeBias(...),)",
    "q_norm.weight": "this layout has no norm of queries",
    "k_norm.weight": "this layout has no norm of keys",
    "sinks": "this layout has no sinks",
}


def from_state(state: State, layout: str) -> dict[str, Tensor]:
    """The weights of another library's attention layer under the names of `headwise.MultiHeadAttention`.

    Args:
        state: the layer's ``state_dict()``; nothing is copied that need not be.
        layout: a name in ``LAYOUTS``: "torch", "llama", "gpt2", "gpt2 cross", "bert", "vit", "t5" or "timm".

    Returns:
        ``q_proj.weight`` [H*D,M], ``k_proj.weight`` [Hk*D,kdim], ``v_proj.weight`` [Hk*D,vdim], ``o_proj.weight``
        [M,H*D], and the biases, norms and sinks that there are. What is no weight is for the layer's constructor:
        heads, ``rotary``, ``scale`` (1.0 in "t5").

    Raises:
        SpecError: no such layout, or weights that it lacks.
        UnsupportedError: something in the state that the four projections cannot say.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.nn.convert import from_state
        >>> theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        >>> layer = hw.MultiHeadAttention(8, 2)
        >>> layer.load_state_dict(from_state(theirs.state_dict(), "torch"))
        <All keys matched successfully>
    """
    form = _layout("from_state", layout)
    for key, tensor in state.items():
        _refuse_quantised("from_state", key, tensor)
    form, state = _separate(form, state)
    _check_keys(form, layout, state)
    found: dict[str, Tensor] = {}
    for kind in _KINDS:
        for name in dict.fromkeys(form.names):
            whole = state.get(form.key(name, kind))
            ours = [own for own, theirs in zip(_OURS, form.names, strict=True) if theirs == name]
            if whole is None:
                continue
            if form.turned and kind == "weight":
                whole = whole.mT
            if whole.shape[0] % len(ours):
                rule = f"it packs {len(ours)} projections of one size"
                raise ShapeError(sentence("from_state", f"{name}.{kind} has {whole.shape[0]} rows", rule))
            found.update({f"{own}.{kind}": part for own, part in zip(ours, whole.chunk(len(ours)), strict=True)})
    ordered = [f"{own}.{kind}" for own in _OURS for kind in _KINDS if f"{own}.{kind}" in found]
    return {**{key: found[key] for key in ordered}, **_shared(form, state)}


def to_state(state: State, layout: str) -> dict[str, Tensor]:
    """The weights of a `headwise.MultiHeadAttention` under the names of another library's attention layer.

    Args:
        state: the layer's ``state_dict()``.
        layout: as of `from_state`.

    Returns:
        What the other layer's ``load_state_dict`` takes; what stands beside attention in it, such as BERT's norm, is
        not there (``strict=False``).

    Raises:
        SpecError: no such layout, or weights that it lacks.
        UnsupportedError: key heads that the layout packs with query heads of another size, one bias of several missing,
            or something that is no projection.

    Example:
        >>> import headwise as hw
        >>> from headwise.nn.convert import to_state
        >>> state = to_state(hw.MultiHeadAttention(8, 2).state_dict(), "gpt2")
        >>> {key: list(value.shape) for key, value in state.items()}
        {'c_attn.weight': [8, 24], 'c_attn.bias': [24], 'c_proj.weight': [8, 8], 'c_proj.bias': [8]}
    """
    form = _layout("to_state", layout)
    for key, tensor in state.items():
        _refuse_quantised("to_state", key, tensor)
    _check_keys(replace(LAYOUTS["llama"], shared=form.shared), layout, state)
    if isinstance(form, _Torch) and len({state[f"{own}.weight"].shape[1] for own in _OURS[:3]}) > 1:
        form = _SEPARATE
    found: dict[str, Tensor] = {}
    for name in dict.fromkeys(form.names):
        for kind in _KINDS:
            ours = [f"{own}.{kind}" for own, theirs in zip(_OURS, form.names, strict=True) if theirs == name]
            parts = [state[key] for key in ours if key in state]
            if not parts:
                continue
            if len(parts) < len(ours):
                rule = f"{layout} packs the biases of {_listed(ours)}: all are there or none"
                raise UnsupportedError(sentence("to_state", f"only {len(parts)} of them have a bias", rule))
            if len({part.shape for part in parts}) > 1:
                shapes = _listed(f"{key} {list(part.shape)}" for key, part in zip(ours, parts, strict=True))
                rule = f"{layout} packs projections of one size, and has no grouped heads"
                raise UnsupportedError(sentence("to_state", shapes, rule))
            whole = torch.cat(parts) if len(parts) > 1 else parts[0]
            found[form.key(name, kind)] = whole.mT.contiguous() if form.turned and kind == "weight" else whole
    found = _with_one_bias(found) if form is _SEPARATE else found
    return {**found, **_shared(form, state)}


#: nn.MultiheadAttention where kdim or vdim differ from embed_dim: three weights, and still one bias.
_SEPARATE = _Torch(("q_proj", "k_proj", "v_proj", "out_proj"))
_PACKED_BIAS = "in_proj_bias"


def _separate(form: Layout, state: State) -> tuple[Layout, State]:
    """The layout of torch's three weights, and its one bias cut in three, where the state is of that kind."""
    if not isinstance(form, _Torch) or "q_proj_weight" not in state:
        return form, state
    rest = {key: value for key, value in state.items() if key != _PACKED_BIAS}
    if _PACKED_BIAS in state:
        cut = zip(_SEPARATE.names[:3], state[_PACKED_BIAS].chunk(3), strict=True)
        rest.update({f"{name}_bias": part for name, part in cut})
    return _SEPARATE, rest


def _with_one_bias(found: dict[str, Tensor]) -> dict[str, Tensor]:
    names = [f"{name}_bias" for name in _SEPARATE.names[:3]]
    biases = [found.pop(name) for name in names if name in found]
    if len(biases) not in (0, 3) or len({b.shape for b in biases}) > 1:
        rule = "torch packs the three biases of queries, keys and values, of one size"
        raise UnsupportedError(sentence("to_state", f"{len(biases)} biases, {[list(b.shape) for b in biases]}", rule))
    return {**found, _PACKED_BIAS: torch.cat(biases)} if biases else found


def _layout(who: str, name: str) -> Layout:
    if name not in LAYOUTS:
        raise SpecError(sentence(who, f"there is no layout {name!r}", f"known are {', '.join(LAYOUTS)}"))
    return LAYOUTS[name]


def _check_keys(form: Layout, layout: str, state: State) -> None:
    missing = [key for name in form.names if (key := form.key(name, "weight")) not in state]
    if missing:
        some = _listed(list(state)[:6]) or "nothing"
        raise SpecError(sentence(layout, f"{missing[0]!r} is missing", f"the state holds {some}"))
    known = {*form.keys(), *form.beside, *form.shared}
    for key in state:
        if key not in known:
            rule = _WHY_NOT.get(key, "only the weights and biases of four projections are converted")
            raise UnsupportedError(sentence(layout, f"{key!r} cannot be converted", rule))


def _refuse_quantised(who: str, name: str, tensor: Tensor) -> None:
    if not plain(tensor):
        what = f"{name} is a {type(tensor).__module__}.{type(tensor).__name__}"
        rule = "weights are cut and joined where they are plain tensors"
        raise UnsupportedError(sentence(who, what, rule, todo="Dequantise it first."))


def _shared(form: Layout, state: State) -> dict[str, Tensor]:
    return {key: state[key] for key in form.shared if key in state}


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)


def from_torch(module: nn.MultiheadAttention) -> MultiHeadAttention:
    """A `headwise.MultiHeadAttention` with the weights of torch's layer, four Linears that are really called.

    Args:
        module: a `torch.nn.MultiheadAttention`, or headwise's drop-in place for it.

    Returns:
        A new layer on the same device, in the same dtype and mode, with copies of the weights. Inputs are [B,T,M],
        whatever ``module.batch_first`` says, and masks headwise's.

    Raises:
        SpecError: the layer is another.
        UnsupportedError: it has ``add_bias_kv`` or ``add_zero_attn``.

    Example:
        >>> import torch
        >>> from headwise.nn.convert import from_torch
        >>> theirs, x = torch.nn.MultiheadAttention(8, 2, batch_first=True), torch.randn(1, 3, 8)
        >>> torch.allclose(from_torch(theirs)(x), theirs(x, x, x)[0], atol=1e-6)
        True
    """
    if not isinstance(module, nn.MultiheadAttention):
        what = f"the layer is a {type(module).__name__}"
        raise SpecError(sentence("from_torch", what, "it is a torch.nn.MultiheadAttention"))
    if module.add_zero_attn:
        rule = "a key of zeros behind all others (add_zero_attn) has no place in four projections"
        raise UnsupportedError(sentence("from_torch", "add_zero_attn cannot be converted", rule))
    state = from_state(module.state_dict(), "torch")
    weight = state["q_proj.weight"]
    options: dict[str, Any] = {"bias": "q_proj.bias" in state, "out_bias": "o_proj.bias" in state}
    options.update({"dropout": module.dropout, "device": weight.device, "dtype": weight.dtype})
    if not module._qkv_same_embed_dim:
        options.update({"kdim": module.kdim, "vdim": module.vdim})
    layer = MultiHeadAttention(module.embed_dim, module.num_heads, **options)
    layer.load_state_dict(state)
    return layer.train(module.training)


def to_torch(module: MultiHeadAttention, *, batch_first: bool = True) -> nn.MultiheadAttention:
    """A `torch.nn.MultiheadAttention` with the weights of headwise's layer.

    Args:
        module: a layer whose heads are not grouped, of width M / H, and which has no mask, score rules, sinks, scale or
            whatever else torch's layer does not know.
        batch_first: of the new layer.

    Returns:
        A new layer on the same device, in the same dtype and mode, with copies of the weights.

    Raises:
        UnsupportedError: torch's layer cannot say what this one does.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.nn.convert import to_torch
        >>> ours, x = hw.MultiHeadAttention(8, 2), torch.randn(1, 3, 8)
        >>> torch.allclose(to_torch(ours)(x, x, x)[0], ours(x), atol=1e-6)
        True
    """
    beyond = _beyond_torch(module)
    if beyond:
        rule = "torch's layer has plain heads of width M / H, and nothing else of its own"
        raise UnsupportedError(sentence("to_torch", f"the layer has {_listed(beyond)}", rule))
    state = to_state(module.state_dict(), "torch")
    if (_PACKED_BIAS in state) != ("out_proj.bias" in state):
        rule = "torch's layer has a bias everywhere or nowhere"
        raise UnsupportedError(sentence("to_torch", "only some projections have a bias", rule))
    weight = module.o_proj.weight
    theirs = nn.MultiheadAttention(
        module.d_model,
        module.heads,
        dropout=module.dropout,
        bias=_PACKED_BIAS in state,
        kdim=module.kdim,
        vdim=module.vdim,
        batch_first=batch_first,
        device=weight.device,
        dtype=weight.dtype,
    )
    theirs.load_state_dict(state)
    return theirs.train(module.training)


def _beyond_torch(module: MultiHeadAttention) -> list[str]:
    """What a layer has that torch's does not know."""
    config = module.config
    said = {
        f"{config.kv_heads} key heads for {config.heads} query heads": config.kv_heads != config.heads,
        f"heads of width {config.head_dim}": config.head_dim * config.heads != config.d_model,
        "a scale of its own": module.scale is not None,
        "a mask": config.mask is not None,
        "score rules": bool(config.scores),
        "rotary positions": config.rotary is not None,
        "norms of queries and keys": config.qk_norm is not None,
        "sinks": config.sinks is not None,
        "gates": config.gate is not None,
    }
    return [what for what, true in said.items() if true]


def rope_pairing(weight: Tensor, heads: int, old: Pairing, new: Pairing, rotary_dim: int | None = None) -> Tensor:
    """Rows of a query or key projection, reordered for the other pairing of rotary embeddings.

    With W the rotated width, pair k of a head is its rows (k, k + W/2) in "halves" and (2k, 2k + 1) in "neighbours".
    A layer whose q_proj and k_proj are both reordered gives the same output under the other pairing, since q.k does not
    see the order. Rows behind W stay where they are.

    Args:
        weight: [heads*D, M], or a bias [heads*D].
        heads: of this projection: H for queries, Hk for keys.
        old: "halves" (most of transformers' models) or "neighbours" (GPT-J, Llama's own files).
        new: the pairing that is wanted.
        rotary_dim: W, even; None = D.

    Returns:
        A new tensor of the same shape.

    Raises:
        SpecError: no such pairing.
        ShapeError: rows that the heads do not divide, or a width that the head does not have.

    Example:
        >>> import torch
        >>> from headwise.nn.convert import rope_pairing
        >>> rope_pairing(torch.arange(6), 1, "halves", "neighbours", rotary_dim=4)
        tensor([0, 2, 1, 3, 4, 5])
    """
    for name, value in (("old", old), ("new", new)):
        if value not in get_args(Pairing):
            raise SpecError(sentence("rope_pairing", f"{name} is {value!r}", 'it is "halves" or "neighbours"'))
    _refuse_quantised("rope_pairing", "weight", weight)
    if heads < 1 or weight.dim() == 0 or weight.shape[0] % heads:
        what = f"{weight.shape[0] if weight.dim() else 0} rows cannot be cut into {heads} heads"
        raise ShapeError(sentence("rope_pairing", what, "a projection has heads*D rows", axes("weight", weight, "N M")))
    D = weight.shape[0] // heads
    W = D if rotary_dim is None else rotary_dim
    if not 0 < W <= D or W % 2:
        raise ShapeError(sentence("rope_pairing", f"rotary_dim is {W}", f"it is even, at least 2 and at most D={D}"))
    order = torch.arange(D, device=weight.device, dtype=torch.int64)
    if old != new:
        pairs = (2, W // 2) if old == "halves" else (W // 2, 2)
        order[:W] = order[:W].view(pairs).mT.flatten()
    return weight.unflatten(0, (heads, D)).index_select(1, order).flatten(0, 1)
