"""The linear parts of a model: heads, norms without their scale, embeddings, rotations, and who reads whom."""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headwise.errors import SpecError, UnsupportedError, sentence
from headwise.models.families import CROSS, STREAMS, factors, scores_are_bilinear
from headwise.models.projections import Projections, projections, refuse_quantised
from headwise.models.sites import whole

__all__ = [
    "Norm",
    "Side",
    "crosses",
    "embeddings",
    "last_norm",
    "layer_with",
    "module_before",
    "module_behind",
    "moves",
    "norm_before",
    "norm_behind",
    "numbered",
    "reaches_logits",
    "refuse_unless_bilinear",
    "rotation",
    "side_of",
    "stack_of",
    "unembedding",
    "wide",
]


def wide(tensor: Tensor) -> Tensor:
    """A weight detached, in float32, or in float64 if it is that already: half precision is no dtype to multiply in."""
    tensor = tensor.detach()
    return tensor if tensor.dtype == torch.float64 else tensor.float()


class Side(NamedTuple):
    """One projection of a head, ``x @ weight.T + bias``.

    Attributes:
        weight: [D, M].
        bias: [D], zeros where the layer has none.
    """

    weight: Tensor
    bias: Tensor


@dataclass(frozen=True, eq=False)
class Norm:
    """A norm without its scale: ``norm(x) = (x - mean(x) if centred else x) / size(x) * gain + shift``.

    Attributes:
        gain: [M].
        shift: [M].
        centred: whether the mean is taken out (LayerNorm), or not (RMSNorm).
    """

    gain: Tensor
    shift: Tensor
    centred: bool

    @classmethod
    def of(cls, module: nn.Module, width: int) -> Norm:
        """Reads a norm: LayerNorm's parameters, or what an RMSNorm of any kind does to a row whose size is known."""
        if isinstance(module, nn.LayerNorm):
            gain = (
                torch.ones(width, dtype=torch.float32, device="cpu") if module.weight is None else wide(module.weight)
            )
            shift = torch.zeros_like(gain) if module.bias is None else wide(module.bias)
            return cls(gain, shift, True)
        parameter = next(module.parameters())
        # A row of such numbers has that size to the last bit, whatever eps is; the gain may be w or 1 + w.
        row = torch.full((1, width), 2.0**15, dtype=wide(parameter).dtype, device=parameter.device)
        with torch.no_grad():
            gain = wide(module.forward(row)[0])  # forward: no hook of the user's hears of it
        return cls(gain, torch.zeros_like(gain), False)

    def into(self, side: Side) -> Side:
        """A projection that reads the norm's output, as one that reads the row divided by its size."""
        weight = side.weight * self.gain
        if self.centred:
            weight = weight - weight.mean(-1, keepdim=True)
        return Side(weight, side.bias + side.weight @ self.shift)

    def sizes(self, rows: Tensor, module: nn.Module) -> Tensor:
        """What the norm divides each row [..., M] by, [..., 1], its eps included."""
        eps: Any = next((getattr(module, name) for name in ("eps", "variance_epsilon") if hasattr(module, name)), 0.0)
        rows = wide(rows)
        rows = rows - rows.mean(-1, keepdim=True) if self.centred else rows
        return (rows.square().mean(-1, keepdim=True) + eps).sqrt()


def layer_with(model: nn.Module, layer: str | int, head: int, who: str) -> Projections:
    """The projections of the layer that a head is of.

    Raises:
        SpecError: no such layer or head.
        UnsupportedError: an unknown family.
    """
    p = projections(model, layer, who)
    number = whole(head)
    if number is None or not 0 <= number < p.heads:
        rule = f"{p.site} has heads 0 to {p.heads - 1}" if p.heads else f"{p.site} has no heads"
        raise SpecError(sentence(who, f"head is {head!r}", rule))
    return p


def side_of(p: Projections, which: str, head: int) -> Side:
    """A head's projection to "q", or a key/value head's to "k" or "v"."""
    part = getattr(p, which)
    weight, bias = wide(part.weight(head)), part.bias(head)
    return Side(weight, weight.new_zeros(len(weight)) if bias is None else wide(bias))


def moves(model: nn.Module, p: Projections, head: int, fold_norm: bool, who: str) -> tuple[Side, Tensor]:
    """A head's value projection and its part of W_O [M, E]."""
    v, W_O = side_of(p, "v", p.kv_heads[head]), wide(p.o.weight(head))
    if not fold_norm:
        return v, W_O
    before = norm_before(model, p, who)
    behind = norm_behind(model, p)
    return (v if crosses(p.site) else before.into(v)), (W_O if behind is None else W_O * behind.gain[:, None])


def refuse_unless_bilinear(p: Projections, who: str) -> None:
    """Raises UnsupportedError where scores are no bilinear form of what a module is given."""
    if not scores_are_bilinear(p.module):
        raise UnsupportedError(
            sentence(
                who,
                f"{p.site} norms its queries and keys",
                "such scores are no bilinear form of the residual stream, so no matrix gives them",
                todo="OV and V-composition are defined; hw.trace gives the pattern of a text.",
            )
        )


def numbered(site: str) -> str:
    """The layer that a site stands in: its name up to the first number."""
    found = re.match(r"(.*?\d+)(?=\.|$)", site)
    return found[1] if found else site


def stack_of(site: str) -> str:
    """The list of layers that a site stands in, ``model.layers`` for ``model.layers.3.self_attn``."""
    return numbered(site).rpartition(".")[0]


def crosses(site: str) -> bool:
    """Whether a site reads its keys and values from another stack."""
    return CROSS.search(site) is not None


def module_before(model: nn.Module, p: Projections, who: str) -> nn.Module:
    """The norm module between the residual stream and a site.

    Raises:
        UnsupportedError: the model norms after it adds.
    """
    holder = model.get_submodule(p.site.rpartition(".")[0])
    names = [name for name in p.layout.norm if hasattr(holder, name)]
    if not names:
        raise UnsupportedError(
            sentence(
                who,
                f"no norm stands before {p.site}, {type(model).__name__} norms what its layers give",
                "fold_norm folds the norm that a head reads through",
                todo="Leave fold_norm=False.",
            )
        )
    leaf = p.site.rpartition(".")[2]
    return holder.get_submodule(next((name for name in names if name.startswith(leaf)), names[0]))


def norm_before(model: nn.Module, p: Projections, who: str) -> Norm:
    """The norm between the residual stream and a site; raises as `module_before`."""
    return Norm.of(module_before(model, p, who), p.q.matrix.shape[1])


def norm_behind(model: nn.Module, p: Projections) -> Norm | None:
    """The norm over what a site adds to the residual stream; None = it adds its output as it is."""
    module = module_behind(model, p)
    return None if module is None else Norm.of(module, p.o.matrix.shape[0])


def module_behind(model: nn.Module, p: Projections) -> nn.Module | None:
    """The module of `norm_behind`."""
    stream = STREAMS.get(type(p.module).__name__)
    if stream is None or not stream.behind:
        return None
    return model.get_submodule(f"{numbered(p.site)}.{stream.behind[0]}")


def last_norm(model: nn.Module, p: Projections, who: str) -> nn.Module:
    """The norm between the residual stream that a site adds to and the unembedding.

    Raises:
        UnsupportedError: it is not known for this family, or there is none.
    """
    stream = STREAMS.get(type(p.module).__name__)
    if stream is None:
        raise UnsupportedError(
            sentence(
                who,
                f"{type(model).__name__} norms what its layers give, or its last norm is not known",
                "what a head adds reaches the logits through one norm in models that norm first",
                todo=f"Known are models with {', '.join(sorted(STREAMS))}.",
            )
        )
    parent = stack_of(p.site).rpartition(".")[0]
    return model.get_submodule(f"{parent}.{stream.norm}".removeprefix("."))


def embeddings(model: Any, who: str, tokens: slice = slice(None)) -> Tensor:
    """W_E [V, M], as the residual stream meets it: what the embedding gives for each token, scaled as in the model.

    Raises:
        UnsupportedError: the model reads no tokens.
    """
    module = model.get_input_embeddings()
    if not isinstance(module, nn.Embedding):
        kind = type(model).__name__
        raise UnsupportedError(
            sentence(who, f"{kind} reads no tokens, it embeds by a {type(module).__name__}", "there is no W_E")
        )
    refuse_quantised(who, "the embedding", module)
    ids = torch.arange(module.weight.shape[0], device=module.weight.device, dtype=torch.int64)[tokens]
    with torch.no_grad():
        return wide(module.forward(ids)) * factors(model).embedding


def unembedding(model: Any, who: str) -> Side:
    """W_U as a projection [V, M] to logits, with what the model multiplies them by, before any soft cap.

    Raises:
        UnsupportedError: the model gives no logits over tokens.
    """
    module = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if module is None:
        raise UnsupportedError(
            sentence(
                who,
                f"{type(model).__name__} has no unembedding",
                "logits over tokens come from a language model's head",
                todo='Load it with its head (AutoModelForCausalLM), or ask between="residual".',
            )
        )
    refuse_quantised(who, "the unembedding", module)
    weight = wide(module.weight)
    bias = getattr(module, "bias", None)
    by = factors(model)
    bias = weight.new_zeros(len(weight)) if bias is None else wide(bias) * by.logits
    return Side(weight if by.last == by.logits == 1 else weight * (by.last * by.logits), bias)


def reaches_logits(model: Any, site: str) -> bool:
    """Whether what a site adds goes to the logits without passing other heads: not in an encoder of a decoder."""
    if not getattr(model.config, "is_encoder_decoder", False):
        return True
    decoder = model.get_decoder()
    name = next(name for name, module in model.named_modules() if module is decoder)
    return site.startswith(f"{name}.")


def rotation(model: nn.Module, p: Projections, offset: int | Iterable[int], who: str) -> Tensor:
    """R [D, D], the mean over offsets d of the turn between a query and the key d before it: score = q R k^T.

    It is what the model's own functions do to the unit vectors, so partial rotations, long-context frequencies and
    their factor on the score are in it. Frequencies that depend on the length of the text are those of a short one.
    """
    offsets = [offset] if whole(offset) is not None or not isinstance(offset, Iterable) else list(offset)
    distances = [d for d in map(whole, offsets) if d is not None]
    rotary = copy.deepcopy(_rotary(model, p.site))  # some remember the longest text that they saw
    if rotary is None or not offsets or len(distances) < len(offsets):
        what = (
            f"offset is {offset!r}" if rotary is not None else f"{p.site} has no rotary embedding, offset is {offset!r}"
        )
        rule = (
            "an offset is how far the key lies before the query, for models with rotary positions: an int, or several"
        )
        raise SpecError(sentence(who, what, rule, todo="Leave offset=None for W_Q^T W_K itself."))
    unit = torch.eye(p.head_dim, dtype=wide(p.q.matrix).dtype, device=p.q.matrix.device)
    if not getattr(p.module, "use_rope", True):  # a layer of SmolLM 3 without positions
        return unit
    turn = sys.modules[type(p.module).__module__].apply_rotary_pos_emb
    kind = getattr(p.module, "layer_type", None) if hasattr(rotary, "layer_types") else None
    positions = torch.tensor([[*distances, 0]], device=unit.device, dtype=torch.int64)
    with torch.no_grad():
        cos, sin = rotary.forward(unit[None], positions, *([kind] if kind else []))
        rows = unit[:, None].expand(-1, len(distances) + 1, -1)[None]  # [1, D, offsets, D]: heads are the unit vectors
        turned = turn(rows, rows, cos, sin)[0][0]
    return (turned[:, :-1].mean(1) @ turned[:, -1].T).to(unit.dtype)


def _rotary(model: nn.Module, site: str) -> nn.Module | None:
    """The rotary embedding that a site's positions come from: that of the nearest module around it."""
    while site:
        site = site.rpartition(".")[0]
        found = getattr(model.get_submodule(site), "rotary_emb", None)
        if isinstance(found, nn.Module):
            return found
    return None
