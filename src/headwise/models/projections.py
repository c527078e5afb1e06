"""Where the weights of each head of a model lie, whatever the family: its rows of W_Q, W_K, W_V and columns of W_O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from headwise.errors import UnsupportedError, sentence
from headwise.models.families import LAYOUTS, Layout
from headwise.models.library import transformers
from headwise.models.sites import find_sites, refuse_if_outside, resolve_sites
from headwise.tracing import plain

__all__ = [
    "KEPT",
    "Kept",
    "Part",
    "Projections",
    "kept_heads",
    "layout_of",
    "linear_of",
    "projections",
    "refuse_quantised",
]

#: The attribute by which an attention module says that it was pruned.
KEPT = "headwise_kept"


class Kept(NamedTuple):
    """Which heads a pruned attention module still has.

    Attributes:
        heads: for each query head its number before pruning, ascending.
        kv_heads: for each query head the key/value head that it reads.
        groups: for each key/value head its number before pruning, ascending.
    """

    heads: tuple[int, ...]
    kv_heads: tuple[int, ...]
    groups: tuple[int, ...]

    @property
    def even(self) -> bool:
        """Whether query head h reads key/value head h // (H / Hk), as every library takes for granted."""
        share = len(self.heads) // max(len(self.groups), 1)
        return self.kv_heads == tuple(h // max(share, 1) for h in range(len(self.heads)))


def kept_heads(module: nn.Module) -> Kept | None:
    """What a pruned attention module says about its heads; None = it was never pruned."""
    kept: Kept | None = getattr(module, KEPT, None)
    return kept


@dataclass(frozen=True, eq=False)
class Part:
    """One projection of an attention module, head by head.

    Attributes:
        name: of the linear layer in the model.
        linear: the layer, an ``nn.Linear`` or transformers' ``Conv1D``.
        rows: int64 [heads, width], for each head its output features, or input features of the output projection.
        outward: whether it is the output projection.
    """

    name: str
    linear: nn.Module
    rows: Tensor
    outward: bool = False

    @property
    def matrix(self) -> Tensor:
        """All of the layer's weight, [out, in] as ``nn.Linear`` has it."""
        weight: Tensor = self.linear.weight  # type: ignore[assignment]
        return weight if isinstance(self.linear, nn.Linear) else weight.T

    def weight(self, head: int) -> Tensor:
        """The weight of one head: [D, M], of the output projection [M, E]."""
        rows = self.rows[head].to(self.matrix.device)
        return self.matrix[:, rows] if self.outward else self.matrix[rows]

    def bias(self, head: int) -> Tensor | None:
        """The bias of one head [D], None where the layer has none; the output projection's belongs to no head."""
        bias: Tensor | None = getattr(self.linear, "bias", None)
        return None if bias is None or self.outward else bias[self.rows[head].to(bias.device)]


@dataclass(frozen=True, eq=False)
class Projections:
    """The weights of one attention module's heads.

    Head h of a token x, which is what the module is given, after the norm of models that norm first, has the query
    ``x @ q.weight(h).T + q.bias(h)``, key and value likewise with g = kv_heads[h], and adds ``z @ o.weight(h).T`` to
    the output, z [T, E] being its mix of values; ``o_bias`` is added once.

    Attributes:
        site: name of the module.
        module: the module.
        layout: how its weights lie.
        q, k, v, o: its projections; k and v by key/value head.
        kv_heads: for each query head the key/value head that it reads.
        original_heads: for each query head its number before pruning.
        head_dim: D.
        value_dim: E.
    """

    site: str
    module: nn.Module
    layout: Layout
    q: Part
    k: Part
    v: Part
    o: Part
    kv_heads: tuple[int, ...]
    original_heads: tuple[int, ...]

    @property
    def heads(self) -> int:
        """Number of query heads, H."""
        return len(self.kv_heads)

    @property
    def groups(self) -> int:
        """Number of key/value heads, Hk."""
        return len(self.k.rows)

    @property
    def head_dim(self) -> int:
        """Width of queries and keys, D."""
        return self.q.rows.shape[1]

    @property
    def value_dim(self) -> int:
        """Width of values, E."""
        return self.v.rows.shape[1]

    @property
    def o_bias(self) -> Tensor | None:
        """Bias of the output projection [M], or None."""
        bias: Tensor | None = getattr(self.o.linear, "bias", None)
        return bias

    def w_o(self) -> Tensor:
        """W_O [M, H * E], as ``hw.Contribution`` takes it."""
        return self.o.matrix


def projections(model: nn.Module, layer: str | int, who: str = "projections") -> Projections:
    """Finds the weights of one layer's heads.

    Args:
        model: a transformers model.
        layer: a site's name or its index in ``hw.sites(model)``.
        who: the function that asks, for the message.

    Returns:
        The projections: views of the model's own weights, nothing is copied until a head is asked for.

    Raises:
        SpecError: the model has no such layer.
        UnsupportedError: how the weights of this class of attention lie is not known.

    Example:
        >>> from headwise.models.projections import projections
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=2, n_embd=8, vocab_size=16, n_positions=8))
        >>> p = projections(model, 0)
        >>> p.heads, p.q.weight(1).shape, p.o.weight(1).shape
        (2, torch.Size([4, 8]), torch.Size([8, 4]))
    """
    refuse_if_outside(who, model)
    found = find_sites(model)
    (site,) = resolve_sites(who, list(found), [layer])
    return _of_module(model, site, found[site], who)


def _of_module(model: nn.Module, site: str, module: nn.Module, who: str) -> Projections:
    layout = layout_of(model, site, module)
    if layout is None:
        known = ", ".join(sorted(name.removesuffix("Attention").removesuffix("Self") for name in LAYOUTS))
        raise UnsupportedError(
            sentence(
                who,
                f"{site} is a {type(module).__name__}",
                f"how the weights of its heads lie is not known; known are {known}",
                todo="The model is unchanged.",
            )
        )
    for name in dict.fromkeys(layout[:4]):
        _refuse_unless_readable(who, *linear_of(model, site, name))
    D = int(getattr(module, layout.head_dim))
    q, k, v = _inward(model, site, layout, D)
    o = linear_of(model, site, layout.o)
    H, groups = len(q.rows), len(k.rows)
    kept = kept_heads(module)
    E = _width(o[1], inward=True) // H if H else D
    columns = torch.arange(H * E, dtype=torch.int64, device="cpu").view(H, E)
    kv_heads = kept.kv_heads if kept else tuple(h // (H // groups) for h in range(H))
    heads = kept.heads if kept else tuple(range(H))
    return Projections(site, module, layout, q, k, v, Part(*o, columns, outward=True), kv_heads, heads)


def layout_of(model: nn.Module, site: str, module: nn.Module) -> Layout | None:
    """The first layout of a module's class whose layers it has."""
    for layout in LAYOUTS.get(type(module).__name__, ()):
        try:
            for name in layout[:4]:
                linear_of(model, site, name)
        except AttributeError:
            continue
        return layout
    return None


def linear_of(model: nn.Module, site: str, name: str) -> tuple[str, nn.Module]:
    """A linear layer of a site and its name in the model."""
    path = f"{site.rpartition('.')[0]}.{name[1:]}" if name.startswith("^") else f"{site}.{name}"
    path = path.removeprefix(".")
    return path, model.get_submodule(path)


def _refuse_unless_readable(who: str, name: str, linear: nn.Module) -> None:
    """Raises UnsupportedError where a layer's weight is not what it multiplies with: adapters, packed integers."""
    linears = isinstance(linear, (nn.Linear, transformers(who, "pytorch_utils").Conv1D))
    weight = getattr(linear, "weight", None)
    if linears and isinstance(weight, Tensor) and weight.is_floating_point() and weight.dim() == 2:
        refuse_quantised(who, name, linear)
        return
    kind = f"{type(linear).__module__}.{type(linear).__name__}"
    raise UnsupportedError(
        sentence(
            who,
            f"{name} is a {kind}",
            "the weights of heads are read from plain linear layers of floats",
            todo="Merge adapters into the weights first. The model is unchanged.",
        )
    )


def refuse_quantised(who: str, name: str, module: nn.Module) -> None:
    """Raises UnsupportedError where a module's weight or bias is of a class that hides numbers behind a tensor's face.

    Quantised weights say that they are floats, and know few operations besides the product.
    """
    for kind in ("weight", "bias"):
        tensor = getattr(module, kind, None)
        if isinstance(tensor, Tensor) and not plain(tensor):
            raise UnsupportedError(
                sentence(
                    who,
                    f"the {kind} of {name} is a {type(tensor).__module__}.{type(tensor).__name__}",
                    "weights are read and cut where they are plain tensors of floats",
                    todo="Load the model without quantising it, or dequantise it first. The model is unchanged.",
                )
            )


def _width(linear: nn.Module, inward: bool) -> int:
    """Number of a layer's input or output features."""
    weight: Any = linear.weight
    out, into = weight.shape if isinstance(linear, nn.Linear) else weight.shape[::-1]
    return int(into if inward else out)


def _inward(model: nn.Module, site: str, layout: Layout, D: int) -> Sequence[Part]:
    """The projections to queries, keys and values, each with the rows of each head."""
    names = layout[:3]
    together = [name for name in names if names.count(name) > 1]
    parts = []
    for at, name in enumerate(names):
        path, linear = linear_of(model, site, name)
        rows = torch.arange(_width(linear, inward=False), dtype=torch.int64, device="cpu")
        if name in together:
            share = rows.view(-1, len(together), D) if layout.packed == "heads" else rows.view(len(together), -1, D)
            place = at - (3 - len(together))
            rows = share[:, place] if layout.packed == "heads" else share[place]
        parts.append(Part(path, linear, rows.reshape(-1, D)))
    return parts
