"""Rotary position embedding: queries and keys are turned by angles that grow with their positions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from headwise.elsewhere import near
from headwise.errors import ShapeError, SpecError, axes, sentence
from headwise.nn.checking import one_of
from headwise.nn.rotating import rotated
from headwise.nn.scaling import SCALINGS, Scaling, ladder
from headwise.tracing import followed

__all__ = ["Axes", "Pairing", "Rotary"]

Pairing = Literal["halves", "neighbours"]
Layout = Literal["blocks", "interleaved", "own", "alternating"]


@dataclass(frozen=True)
class Axes:
    """Several positions a token, such as the row and the column of an image patch: which pair turns by which.

    Args:
        sizes: how many of the W/2 pairs turn by each axis; they add up to W/2.
        layout: which pairs, and at which speed, w_k = base^(-2k/W) being the ladder of all W/2 pairs:
            "blocks": pair k turns at w_k; the first sizes[0] pairs by axis 0, and so on (Qwen2-VL's text);
            "interleaved": pair k turns at w_k; axes take turns while they have pairs left, and axis 0 takes the rest
            (Qwen3-VL);
            "own": blocks, and each has a ladder of its own size (Qwen2-VL's and most other vision towers);
            "alternating": blocks of equal size, axis a of A at w_a, w_(a+A), w_(a+2A) ... (Pixtral).

    Raises:
        SpecError: if sizes or layout are none of these.

    Example:
        >>> from headwise.nn.rotary import Axes
        >>> Axes((8, 8), "own").of_pairs()
        (0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1)
    """

    sizes: tuple[int, ...]
    layout: Layout = "blocks"

    def __post_init__(self) -> None:
        sizes = tuple(self.sizes) if isinstance(self.sizes, (tuple, list)) else ()
        if not sizes or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in sizes):
            raise SpecError(sentence("Axes", f"sizes is {self.sizes!r}", "it says how many pairs turn by each axis"))
        object.__setattr__(self, "sizes", sizes)
        one_of("Axes", "layout", self.layout, get_args(Layout))
        if self.layout == "alternating" and len(set(sizes)) > 1:
            raise SpecError(sentence("Axes", f"sizes are {sizes}", "axes that alternate have equal numbers of pairs"))

    def of_pairs(self) -> tuple[int, ...]:
        """The axis that each pair turns by."""
        blocks = tuple(axis for axis, size in enumerate(self.sizes) for _ in range(size))
        if self.layout != "interleaved":
            return blocks
        A = len(self.sizes)
        return tuple(k % A if k < A * self.sizes[k % A] else 0 for k in range(len(blocks)))


@dataclass(frozen=True)
class Rotary:
    """Rotary position embedding (RoPE): pair k of a query or key at position t is turned by the angle t w_k.

        (x, y) -> (x cos - y sin, x sin + y cos),    w_k = base^(-2k / W),    k = 0 .. W/2 - 1

    A score q.k then depends on positions only by their difference. Angles are worked out in float64, and their cosines
    and sines rounded once.

    Args:
        width: W, the rotated width, even; the rest of a head is left as it is. None = the whole head.
        base: the base of the ladder of frequencies, "rope_theta".
        pairing: which numbers form pair k: "halves" (k, k + W/2), as most of transformers' models, or "neighbours"
            (2k, 2k + 1), as the paper and GPT-J. The two differ by a permutation of weights, `headwise.nn.convert`.
        scaling: how frequencies are changed for longer texts, such as ``Yarn(factor=4.0, ...)``; None = not.
        axes: for tokens with several positions, such as image patches; None = one position.

    Raises:
        SpecError: if a field is out of its range.

    Source:
        Su et al. 2021, "RoFormer" (arXiv 2104.09864), section 3.2.2.

    Example:
        >>> import torch
        >>> from headwise.nn import Rotary
        >>> q, k = torch.randn(1, 2, 5, 8), torch.randn(1, 2, 5, 8)
        >>> turned = Rotary().rotate(q, 0) @ Rotary().rotate(k, 0).mT
        >>> shifted = Rotary().rotate(q, 100) @ Rotary().rotate(k, 100).mT
        >>> torch.allclose(turned, shifted, atol=1e-4)
        True
    """

    width: int | None = None
    base: float = 10_000.0
    pairing: Pairing = "halves"
    scaling: Scaling | None = None
    axes: Axes | None = None

    def __post_init__(self) -> None:
        if self.width is not None and not (_is_int(self.width) and self.width > 0 and self.width % 2 == 0):
            raise SpecError(
                sentence("Rotary", f"width is {self.width!r}", "numbers turn in pairs: it is even and above 0")
            )
        if isinstance(self.base, bool) or not isinstance(self.base, (int, float)) or not 0 < self.base < math.inf:
            raise SpecError(sentence("Rotary", f"base is {self.base!r}", "it is a finite number above 0"))
        one_of("Rotary", "pairing", self.pairing, get_args(Pairing))
        if self.scaling is not None and not isinstance(self.scaling, Scaling):
            todo = "A dict of transformers' rope_parameters goes to Rotary.from_parameters."
            rule = f"it is None or one of {', '.join(kind.__name__ for kind in SCALINGS.values())}"
            raise SpecError(sentence("Rotary", f"scaling is {self.scaling!r}", rule, todo=todo))
        if self.axes is not None and not isinstance(self.axes, Axes):
            raise SpecError(sentence("Rotary", f"axes is {self.axes!r}", "it is None or an Axes"))
        if self.axes is not None and self.width is not None and 2 * sum(self.axes.sizes) != self.width:
            what = f"axes have {sum(self.axes.sizes)} pairs, width {self.width} has {self.width // 2}"
            raise SpecError(sentence("Rotary", what, "every pair turns by one axis"))

    @classmethod
    def from_config(cls, config: Any, layer_type: str | None = None) -> Rotary:
        """The rotary embedding of a model of transformers.

        Args:
            config: its config (of the text part), with ``rope_parameters``.
            layer_type: whose parameters, in models where kinds of layers differ, such as "sliding_attention".

        Returns:
            A Rotary with transformers' pairing, "halves". Models that pair neighbours (GPT-J, Cohere, GLM) and those
            with several axes say so in their code only: use `dataclasses.replace`.

        Raises:
            SpecError: if there are no parameters, or of an unknown type.

        Example:
            >>> from headwise.nn import Rotary
            >>> from transformers import LlamaConfig
            >>> Rotary.from_config(LlamaConfig(rope_parameters={"rope_type": "default", "rope_theta": 500000.0}))
            Rotary(width=128, base=500000.0, pairing='halves', scaling=None, axes=None)
        """
        parameters = getattr(config, "rope_parameters", None) or {}
        if layer_type is not None and layer_type in parameters:
            parameters = parameters[layer_type]
        elif parameters and all(isinstance(value, Mapping) for value in parameters.values()):
            rule = f"name one of {', '.join(parameters)}"
            raise SpecError(sentence("Rotary.from_config", f"layer_type is {layer_type!r}", rule))
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return cls.from_parameters(parameters, head_dim, getattr(config, "max_position_embeddings", None))

    @classmethod
    def from_parameters(
        cls, parameters: Mapping[str, Any], head_dim: int, max_position_embeddings: int | None = None
    ) -> Rotary:
        """A Rotary from parameters as transformers' configs name them.

        Args:
            parameters: "rope_theta", "partial_rotary_factor", "rope_type" ("default", "linear", "dynamic", "yarn",
                "llama3", "longrope") and what that type needs.
            head_dim: D, the width of a head.
            max_position_embeddings: of the model; some types need it.

        Returns:
            A Rotary with the pairing "halves".

        Raises:
            SpecError: if the type is unknown or lacks a parameter.

        Example:
            >>> from headwise.nn import Rotary
            >>> Rotary.from_parameters({"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}, 64).scaling
            Linear(factor=2.0)
        """
        kind = parameters.get("rope_type", parameters.get("type", "default")) or "default"
        width = int(head_dim * (parameters.get("partial_rotary_factor") or 1.0))
        scaling = None
        if kind != "default":
            if kind not in SCALINGS:
                known = f"known are default, {', '.join(SCALINGS)}"
                raise SpecError(sentence("Rotary", f"there is no scaling {kind!r}", known, todo=near(kind, SCALINGS)))
            scaling = SCALINGS[kind].from_parameters(parameters, max_position_embeddings)
        return cls(width, float(parameters.get("rope_theta", 10_000.0)), scaling=scaling)

    def rotate(self, x: Tensor, positions: int | Tensor, *, inplace: bool = False) -> Tensor:
        """Turns queries or keys by their positions.

        Args:
            x: [B,H,T,D], float; any strides.
            positions: of the T tokens: an int, that of the first where they follow each other, or a tensor [T] or
                [B,T], with several axes [A,T] or [A,B,T].
            inplace: write the result over x where torch allows it (no gradient recorded, no transform that follows):
                faster for whoever has no more use for x.

        Returns:
            [B,H,T,D] in x's dtype; x itself where ``inplace`` could be done.

        Raises:
            ShapeError: if x is narrower than the rotated width, or positions do not fit.

        Example:
            >>> import torch
            >>> from headwise.nn import Rotary
            >>> x = torch.tensor([[[[1.0, 0.0]]]])
            >>> Rotary().rotate(x, 1)
            tensor([[[[0.5403, 0.8415]]]])
        """
        if not isinstance(x, Tensor) or x.dim() != 4 or not x.is_floating_point():
            found = f"{axes('x', x, '')} of {x.dtype}" if isinstance(x, Tensor) else f"x is a {type(x).__name__}"
            raise ShapeError(sentence("Rotary", found, "queries and keys are [B,H,T,D] floats"))
        cos, sin = self._looked_up(positions, x)
        return rotated(x, cos, sin, self.pairing, inplace)

    def angles(self, positions: int | Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines for `rotate`, times the scaling's attention factor.

        Args:
            positions: as for `rotate`.
            x: what will be turned, [B,H,T,D].

        Returns:
            cos, sin: [T,W/2] or [B,T,W/2], float32, of float64 tensors float64.

        Example:
            >>> import torch
            >>> from headwise.nn import Rotary
            >>> Rotary(width=4).angles(3, torch.zeros(1, 1, 2, 8))[0].shape
            torch.Size([2, 2])
        """
        cos, sin = self._looked_up(positions, x)
        return cos.clone(), sin.clone()

    def _looked_up(self, positions: int | Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        """Cosines and sines, to be read only: layers share them."""
        width = self.fitted(x.shape[-1]).width
        assert width is not None
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        T = x.shape[-2]
        if not isinstance(positions, Tensor):
            if isinstance(positions, bool) or not isinstance(positions, (int, torch.SymInt)):
                rule = "it is an int, the position of the first token, or a tensor"
                raise ShapeError(sentence("Rotary", f"positions is {positions!r}", rule))
            if self.axes is not None:
                what, rule = f"positions is {positions!r}", "every axis has positions of its own"
                raise ShapeError(sentence("Rotary", what, f"{rule}: a tensor [A,T] or [A,B,T]"))
            fixed = self.scaling is None or not self.scaling.by_length
            if fixed and isinstance(positions, int) and isinstance(T, int) and not followed(x):
                return _rows(self, width, positions, T, x.device, wide)
            at = torch.arange(T, device=x.device, dtype=torch.int64) + positions
            return self._angles(at, width, positions + T, wide)
        self._check_positions(positions, x)
        length = None
        if self.scaling is not None and self.scaling.by_length:
            length = int(positions.max()) + 1 if positions.numel() else 0
        return self._angles(positions.to(x.device), width, length, wide)

    def fitted(self, head_dim: int) -> Rotary:
        """The same embedding with its width spelled out, for heads of a width.

        Raises:
            ShapeError: if the head is narrower than the rotated width, or odd, or the axes do not fill it.

        Example:
            >>> from headwise.nn import Rotary
            >>> Rotary().fitted(64).width
            64
        """
        width = head_dim if self.width is None else self.width
        if width > head_dim:
            todo = f"Use Rotary(width={head_dim - head_dim % 2})."
            raise ShapeError(
                sentence(
                    "Rotary", f"width is {width}, heads are {head_dim} wide", "no more than a head turns", todo=todo
                )
            )
        if width % 2:
            todo = f"Use Rotary(width={width - 1})."
            raise ShapeError(sentence("Rotary", f"heads are {width} wide", "numbers turn in pairs", todo=todo))
        return self if self.width is not None else Rotary(width, self.base, self.pairing, self.scaling, self.axes)

    def _angles(self, at: Tensor, width: int, length: Any, wide: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and sines at positions [..., T], or [A, ..., T] with several axes."""
        speeds = self._speeds(width, length, at.device)
        if self.axes is None:
            turns = at.double()[..., None] * speeds
        else:
            axis = torch.tensor(self.axes.of_pairs(), device=at.device, dtype=torch.int64)
            turns = (at.double()[axis].movedim(0, -1) * speeds).contiguous()
        factor = 1.0 if self.scaling is None else self.scaling.attention
        return (turns.cos() * factor).to(wide), (turns.sin() * factor).to(wide)

    def _speeds(self, width: int, length: Any, device: torch.device) -> Tensor:
        """w_k of every pair, float64 [W/2]."""
        if self.axes is not None and self.axes.layout == "own":
            parts = [self._ladder(2 * size, length, device) for size in self.axes.sizes]
            return torch.cat(parts)
        ladder = self._ladder(width, length, device)
        if self.axes is not None and self.axes.layout == "alternating":
            return ladder.view(-1, len(self.axes.sizes)).T.flatten()
        return ladder

    def _ladder(self, width: int, length: Any, device: torch.device) -> Tensor:
        if self.scaling is not None:
            return self.scaling.speeds(self.base, width, length, device)
        return ladder(self.base, width, device)

    def _check_positions(self, positions: Tensor, x: Tensor) -> None:
        B, _, T, _ = x.shape
        shapes: tuple[tuple[int, ...], ...] = ((T,), (B, T), (1, T))
        letters = "[T] or [B,T]"
        if self.axes is not None:
            A = len(self.axes.sizes)
            shapes, letters = ((A, T), (A, B, T), (A, 1, T)), f"[A={A},T] or [A={A},B,T]"
        if positions.dtype == torch.bool or positions.is_complex() or tuple(positions.shape) not in shapes:
            raise ShapeError(
                sentence(
                    "Rotary",
                    f"positions is {list(positions.shape)} of {positions.dtype}",
                    f"it holds numbers {letters}",
                    axes("x", x, "B H T D"),
                )
            )


ROWS = 4096  # of a table that layers and calls share: a megabyte for a head of 64


def _rows(
    rotary: Rotary, width: int, start: int, T: int, device: torch.device, wide: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Angles of positions that follow each other, which every layer of a model asks for at every call."""
    table, first = divmod(start, ROWS)
    if start < 0 or first + T > ROWS:
        return _run(rotary, width, start, T, device, wide)
    cos, sin = _table(rotary, width, table, device, wide)
    return cos[first : first + T], sin[first : first + T]


@lru_cache(maxsize=32)
def _table(rotary: Rotary, width: int, table: int, device: torch.device, wide: torch.dtype) -> tuple[Tensor, Tensor]:
    return _made(rotary, width, table * ROWS, ROWS, device, wide)


@lru_cache(maxsize=2)  # of the text that is read now; a model may have two kinds of layers
def _run(
    rotary: Rotary, width: int, start: int, T: int, device: torch.device, wide: torch.dtype
) -> tuple[Tensor, Tensor]:
    return _made(rotary, width, start, T, device, wide)


def _made(
    rotary: Rotary, width: int, start: int, T: int, device: torch.device, wide: torch.dtype
) -> tuple[Tensor, Tensor]:
    with torch.inference_mode(False), torch.no_grad():
        return rotary._angles(torch.arange(start, start + T, device=device, dtype=torch.int64), width, start + T, wide)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
