"""Named calls of attention that together use every option, each with what it is there for.

Each axis is its own prime wherever the options allow it, so that two axes that are mixed up cannot go unnoticed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headwise.observers import (
    Contribution,
    Crop,
    Entropy,
    LogSumExp,
    Map,
    MassOn,
    MassWhere,
    MaxLogit,
    Observer,
    Offsets,
    Received,
    Segments,
    TopKeys,
)
from headwise.ops import Attended, attend
from headwise.products import finite_part
from headwise.spec import (
    Alibi,
    Bias,
    Blocks,
    Causal,
    Chunks,
    Dense,
    Documents,
    Mask,
    Padding,
    Prefix,
    RelativeBias,
    Rule,
    ScoreRule,
    SoftCap,
    Window,
)

__all__ = ["CASES", "Call", "Case", "Draw", "questions"]


@dataclass(frozen=True, eq=False)
class Call:
    """One call of attention: operands and the keywords of ``hw.attention``.

    Attributes:
        q: queries [B, H, T, D].
        k: keys [B, Hk, S, D].
        v: values [B, Hk, S, E].
        options: keywords, without ``backend`` and ``observe``.

    Example:
        >>> from headwise.testing import CASES
        >>> call = CASES["plain"].make(torch.float32)
        >>> call.run("reference").out.shape == call.q.shape
        True
    """

    q: Tensor
    k: Tensor
    v: Tensor
    options: dict[str, Any] = field(default_factory=dict)

    def run(self, backend: Any = None, observe: Any = (), seed: int = 5) -> Attended:
        """Makes the call; the same seed drops the same cells."""
        torch.manual_seed(seed)
        return attend(self.q, self.k, self.v, **self.options, backend=backend, observe=observe)

    def leaves(self) -> dict[str, Tensor]:
        """Every float tensor that may carry a gradient, by name."""
        found = {"q": self.q, "k": self.k, "v": self.v}
        for n, rule in enumerate(self.options.get("scores", ())):
            parameter = rule.parameter()
            if parameter is not None:
                found[f"scores.{n}"] = parameter
        return found | {name: self.options[name] for name in ("sinks", "gate") if name in self.options}

    def over(self, leaves: dict[str, Tensor]) -> Call:
        """The same call with some of its leaves replaced."""
        options = dict(self.options)
        if "scores" in options:
            options["scores"] = tuple(
                rule.with_parameter(leaves[f"scores.{n}"]) if f"scores.{n}" in leaves else rule
                for n, rule in enumerate(options["scores"])
            )
        options |= {name: leaves[name] for name in ("sinks", "gate") if name in leaves}
        return Call(leaves.get("q", self.q), leaves.get("k", self.k), leaves.get("v", self.v), options)

    def to(self, dtype: torch.dtype) -> Call:
        """The same numbers in another dtype."""
        return self.over({name: leaf.detach().to(dtype) for name, leaf in self.leaves().items()})

    def finite(self) -> Call:
        """The same call with 0 for NaN and inf in q, k and v: what they poison says nothing about rounding."""
        return self.over({name: finite_part(getattr(self, name)) for name in "qkv"})

    def fresh(self) -> tuple[Call, dict[str, Tensor]]:
        """The same call over leaves that require a gradient, and those leaves; strides are kept."""
        leaves = {name: leaf.detach().requires_grad_() for name, leaf in self.leaves().items()}
        return self.over(leaves), leaves


class Draw:
    """Numbers of one case: everything comes from one seed, drawn in float64 and rounded once to the dtype.

    Args:
        dtype: of the operands and of every float option.
        seed: of the generator.
    """

    B, H, T, S, D, E = 2, 3, 11, 13, 5, 7

    def __init__(self, dtype: torch.dtype, seed: int) -> None:
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, size: float = 1.0) -> Tensor:
        """Normal numbers times ``size``."""
        return (torch.randn(shape, generator=self.generator, dtype=torch.float64) * size).to(self.dtype)

    def keep(self, *shape: int, share: float = 0.6) -> Tensor:
        """Bools, True with probability ``share``."""
        return torch.rand(shape, generator=self.generator) < share

    def ints(self, high: int, *shape: int, low: int = 0) -> Tensor:
        """Integers from low to high - 1."""
        return torch.randint(low, high, shape, generator=self.generator)

    def call(self, *, Hk: int | None = None, fused: bool = False, **changes: Any) -> Call:
        """A call with the usual sizes; capital letters change a size, small ones are options.

        Args:
            Hk: key/value heads; None = H.
            fused: E = D, which torch's fused kernel asks for.
            changes: sizes and options.
        """
        size = {name: changes.pop(name, getattr(self, name)) for name in "BHTSDE"}
        B, H, T, S, D = (size[name] for name in "BHTSD")
        E = D if fused else size["E"]
        heads = H if Hk is None else Hk
        # Queries are stretched until rows are peaked: on flat rows a wrong option hides inside the tolerance.
        q = self.normal(B, H, T, D, size=2.0)
        return Call(q, self.normal(B, heads, S, D), self.normal(B, heads, S, E), changes)


Build = Callable[[Draw], Call]


@dataclass(frozen=True, eq=False)
class Case:
    """A named call.

    Attributes:
        name: what tests call it.
        build: makes the call from drawn numbers.
        exercises: the classes and options that it is there for.
        sdpa: a part of the sentence with which torch's fused kernel refuses it; None = it takes the case.
        gradients: False where NaN reaches the output, so that there is nothing to differentiate.
    """

    name: str
    build: Build
    exercises: tuple[Any, ...] = ()
    sdpa: str | None = None
    gradients: bool = True

    def make(self, dtype: torch.dtype, seed: int = 0) -> Call:
        """The call, its numbers drawn from a seed."""
        return self.build(Draw(dtype, seed))


CASES: dict[str, Case] = {}

_WIDTH = "value width"
_SHAPE = "neither a rectangle nor a triangle"
_RULES = "without a T x S bias"


def _case(name: str, *exercises: Any, sdpa: str | None = None, gradients: bool = True) -> Callable[[Build], Build]:
    def register(build: Build) -> Build:
        assert name not in CASES, name
        CASES[name] = Case(name, build, exercises, sdpa, gradients)
        return build

    return register


def _masked(name: str, *exercises: Any, **sizes: Any) -> Callable[[Callable[[Draw], Mask]], Callable[[Draw], Mask]]:
    """Two cases of a mask: E != D, and E = D so that nothing but the mask stands in the fused kernel's way."""
    sdpa, gradients = sizes.pop("sdpa", _SHAPE), sizes.pop("gradients", True)

    def register(mask: Callable[[Draw], Mask]) -> Callable[[Draw], Mask]:
        _case(name, *exercises, sdpa=_WIDTH, gradients=gradients)(lambda draw: draw.call(mask=mask(draw), **sizes))
        _case(f"{name}, E = D", *exercises, sdpa=sdpa, gradients=gradients)(
            lambda draw: draw.call(mask=mask(draw), fused=True, **sizes)
        )
        return mask

    return register


# --- no mask, shapes and heads -----------------------------------------------------------------------------------

_case("plain", "E = D")(lambda draw: draw.call(fused=True))
_case("plain, E != D", "E != D", sdpa=_WIDTH)(lambda draw: draw.call())
_case("self attention", "T = S")(lambda draw: draw.call(fused=True, S=11))
_case("more queries than keys", "T > S")(lambda draw: draw.call(fused=True, T=17))
_case("one query", "T = 1")(lambda draw: draw.call(fused=True, T=1, mask=Causal()))
_case("one key", "S = 1")(lambda draw: draw.call(fused=True, S=1))
_case("one of each", "B = H = 1")(lambda draw: draw.call(fused=True, B=1, H=1, T=1, S=1, D=1))
_case("no queries", "T = 0", sdpa="an axis is empty")(lambda draw: draw.call(fused=True, T=0, mask=Causal()))
_case("no keys", "S = 0", sdpa="an axis is empty")(lambda draw: draw.call(fused=True, S=0, mask=Causal()))
_case("no batch", "B = 0", sdpa="an axis is empty")(lambda draw: draw.call(fused=True, B=0))
_case("no value width", "E = 0", sdpa=_WIDTH)(lambda draw: draw.call(E=0))
_case("longer and odd", "odd lengths", sdpa=_SHAPE)(lambda draw: draw.call(fused=True, B=1, T=67, S=71, mask=Causal()))
_case("longer, odd and square", "odd lengths")(lambda draw: draw.call(fused=True, B=1, T=71, S=71, mask=Causal()))
_case("grouped heads", "GQA")(lambda draw: draw.call(fused=True, H=6, Hk=3, mask=Causal(), T=13))
_case("grouped heads, E != D", "GQA", sdpa=_WIDTH)(lambda draw: draw.call(H=6, Hk=2, mask=Causal()))
_case("one key head", "MQA")(lambda draw: draw.call(fused=True, H=5, Hk=1))
_case("uneven groups", "kv_heads", sdpa="uneven groups")(
    lambda draw: draw.call(fused=True, H=5, Hk=2, kv_heads=(0, 0, 0, 1, 1), mask=Causal())
)
_case("key heads out of order", "kv_heads", sdpa="uneven groups")(
    lambda draw: draw.call(fused=True, H=5, Hk=3, kv_heads=(2, 0, 2, 1, 0))
)
_case("a key head that nobody reads", "kv_heads", sdpa="uneven groups")(
    lambda draw: draw.call(fused=True, H=3, Hk=3, kv_heads=(2, 2, 0))
)
_case("scale", "scale")(lambda draw: draw.call(fused=True, scale=0.3))
_case("negative scale", "scale")(lambda draw: draw.call(fused=True, scale=-0.7))
_case("scale of nothing", "scale")(lambda draw: draw.call(fused=True, scale=0.0))
_case("large logits", "logits of 100")(lambda draw: draw.call(fused=True, scale=6.0))


@_case("heads beside the width", "strides")
def _heads_last(draw: Draw) -> Call:
    call = draw.call(fused=True)
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (call.q, call.k, call.v))
    return Call(q, k, v, {"mask": Causal(align="start")})


@_case("every second element", "strides", sdpa="not contiguous")
def _steps(draw: Draw) -> Call:
    call = draw.call(fused=True, T=22, S=26, D=10, mask=Causal())
    q, k, v = (x[:, :, ::2, ::2] for x in (call.q, call.k, call.v))
    return Call(q, k, v, call.options)


@_case("one sequence for the whole batch", "strides of 0")
def _expanded(draw: Draw) -> Call:
    call = draw.call(fused=True)
    k, v = (x[:1].expand(2, -1, -1, -1) for x in (call.k, call.v))
    return Call(call.q, k, v, call.options)


@_case("width outside the length", "strides", sdpa="not contiguous")
def _width_first(draw: Draw) -> Call:
    call = draw.call(fused=True)
    q, k, v = (x.mT.contiguous().mT for x in (call.q, call.k, call.v))
    return Call(q, k, v, call.options)


# --- masks -------------------------------------------------------------------------------------------------------

_case("causal", Causal, sdpa=_SHAPE)(lambda draw: draw.call(fused=True, mask=Causal()))
_case("causal, square", Causal)(lambda draw: draw.call(fused=True, T=13, mask=Causal()))
_case("causal from the start", Causal, "align")(lambda draw: draw.call(fused=True, mask=Causal(align="start")))
_case("causal, T > S: empty rows", Causal, "empty rows")(lambda draw: draw.call(fused=True, T=17, mask=Causal()))
_case("causal, E != D", Causal, sdpa=_WIDTH)(lambda draw: draw.call(mask=Causal()))
_case("a chunk of a static buffer", "q_start", sdpa=_SHAPE)(
    lambda draw: draw.call(fused=True, mask=Causal(), q_start=1)
)
_case("a prompt in a static buffer", "q_start")(lambda draw: draw.call(fused=True, mask=Causal(), q_start=0))
_case("queries before the first key", "q_start")(lambda draw: draw.call(fused=True, mask=Causal(), q_start=-3))
_case("queries past the last key", "q_start")(lambda draw: draw.call(fused=True, mask=Causal(), q_start=40))
_case("a start for each sequence", "q_start [B]", sdpa=_SHAPE)(
    lambda draw: draw.call(fused=True, mask=Causal(), q_start=torch.tensor([-2, 1]))
)
_case("a decoding step for each sequence", "q_start [B]")(
    lambda draw: draw.call(fused=True, T=1, mask=Causal(), q_start=torch.tensor([4, 9]))
)
_case("a start for each sequence, everything that counts", "q_start [B]", Window, Chunks, sdpa=_RULES)(
    lambda draw: draw.call(
        H=6,
        Hk=3,
        mask=(Causal() & Window(4, None)) | Chunks(5),
        q_start=torch.tensor([-1, 3], dtype=torch.int32),
        scores=(Alibi(draw.normal(2, 6).abs()), RelativeBias(draw.normal(6, 5), zero=3)),
    )
)


@_masked("window", Window)
def _window(draw: Draw) -> Mask:
    return Window(before=3, after=2)


@_masked("window of oneself", Window)
def _window_of_one(draw: Draw) -> Mask:
    return Window(0, 0)


@_masked("causal window", Causal, Window, "&")
def _causal_window(draw: Draw) -> Mask:
    return Causal() & Window(before=2)


@_masked("prefix", Prefix, sdpa=None)
def _prefix(draw: Draw) -> Mask:
    return Prefix(5)


@_masked("prefix language model", Prefix, Causal, "|")
def _prefix_lm(draw: Draw) -> Mask:
    return Causal() | Prefix(torch.tensor([9, 4]))


@_masked("prefix longer than everything, and none", Prefix, "empty rows", sdpa=None)
def _prefix_ends(draw: Draw) -> Mask:
    return Prefix(torch.tensor([99, 0]))


@_masked("lengths", Padding, sdpa=None)
def _lengths(draw: Draw) -> Mask:
    return Padding(torch.tensor([13, 6]))


@_masked("one length", Padding, sdpa=None)
def _one_length(draw: Draw) -> Mask:
    return Padding(4)


def _left(length: int, *pads: int) -> Tensor:
    return torch.arange(length) >= torch.tensor(pads)[:, None]


@_masked("left padding", Padding, sdpa=None)
def _left_padding(draw: Draw) -> Mask:
    return Padding(_left(13, 0, 7))


@_masked("left padding, causal", Padding, Causal, "&", sdpa=None, T=13)
def _left_causal(draw: Draw) -> Mask:
    return Causal() & Padding(_left(13, 0, 5), queries=_left(13, 0, 5))


@_masked("padding with holes", Padding, "several runs")
def _holes(draw: Draw) -> Mask:
    return Padding(draw.keep(2, 13))


@_masked("padding with holes, causal, padded queries", Padding, Causal, "&", "empty rows")
def _holes_causal(draw: Draw) -> Mask:
    return Causal() & Padding(draw.keep(2, 13), queries=draw.keep(2, 11))


@_masked("everything is padding", Padding, "empty rows", sdpa=None)
def _all_padding(draw: Draw) -> Mask:
    return Padding(torch.zeros(2, 13, dtype=torch.bool))


@_masked("packed documents", Documents, T=13)
def _packed(draw: Draw) -> Mask:
    return Documents(torch.tensor([0] * 4 + [1] * 1 + [2] * 8))


@_masked("packed documents, causal, one empty", Documents, Causal, "from_offsets", T=13)
def _offsets(draw: Draw) -> Mask:
    return Causal() & Documents.from_offsets(torch.tensor([0, 5, 5, 13]))


@_masked("documents across, one without keys", Documents, "empty rows")
def _across(draw: Draw) -> Mask:
    return Documents.from_offsets(torch.tensor([0, 3, 7, 11]), torch.tensor([0, 6, 6, 13]))


@_masked("documents that return", Documents, "several runs")
def _returning(draw: Draw) -> Mask:
    return Documents(draw.ints(3, 2, 11), draw.ints(3, 2, 13))


@_masked("documents shared by the queries only", Documents, "several runs")
def _shared_ids(draw: Draw) -> Mask:
    return Documents(draw.ints(3, 11, low=-1), draw.ints(3, 2, 13, low=-1))


@_masked("documents of one token, more runs than are kept", Documents, T=5, S=179)
def _many_runs(draw: Draw) -> Mask:
    return Documents(draw.ints(2, 5), draw.ints(2, 179))


@_masked("padding with more holes than are kept", Padding, S=149, T=7)
def _many_holes(draw: Draw) -> Mask:
    return Padding(draw.keep(2, 149, share=0.5))


@_masked("chunks", Chunks, Causal, "&")
def _chunks(draw: Draw) -> Mask:
    return Causal() & Chunks(4)


@_masked("chunks from the padding", Chunks)
def _chunks_from(draw: Draw) -> Mask:
    return Chunks(3, start=torch.tensor([1, 7]))


@_masked("blocks", Blocks)
def _blocks(draw: Draw) -> Mask:
    return Blocks(draw.keep(4, 5), size=3)


@_masked("blocks for each head", Blocks, "per head")
def _blocks_head(draw: Draw) -> Mask:
    return Blocks(draw.keep(3, 3, 4, share=0.4), size=4)


@_masked("blocks for each head and sequence", Blocks, "per head")
def _blocks_batch(draw: Draw) -> Mask:
    return Blocks(draw.keep(2, 3, 6, 7, share=0.4), size=2)


@_masked("dense", Dense)
def _dense(draw: Draw) -> Mask:
    return Dense(draw.keep(2, 3, 11, 13))


@_masked("dense, one for all", Dense)
def _dense_shared(draw: Draw) -> Mask:
    return Dense(draw.keep(11, 13))


@_masked("dense, for each head", Dense, "per head")
def _dense_head(draw: Draw) -> Mask:
    return Dense(draw.keep(3, 1, 13))


@_masked("dense, for each sequence and query", Dense, "empty rows")
def _dense_rows(draw: Draw) -> Mask:
    return Dense(draw.keep(2, 1, 11, 1))


@_masked("dense with empty rows and unseen keys", Dense, "empty rows")
def _dense_dead(draw: Draw) -> Mask:
    keep = draw.keep(2, 3, 11, 13)
    keep[:, :, 4:7] = False
    keep[0, 1] = False
    keep[..., 8:11] = False
    return Dense(keep)


@_masked("rule", Rule, Causal, "&")
def _rule(draw: Draw) -> Mask:
    return Causal() & Rule(lambda b, h, i, j: (i + j + h + b) % 3 != 0)


@_masked("rule or window", Rule, Window, "|")
def _rule_or(draw: Draw) -> Mask:
    return Window(1, 1) | Rule(lambda b, h, i, j: (j % 5 == 0) & (h > 0))


@_masked("global tokens beside a window", Window, Dense, "|", "several runs")
def _global(draw: Draw) -> Mask:
    ends = torch.zeros(11, 13, dtype=torch.bool)
    ends[0], ends[:, 0] = True, True
    return Window(1, 1) | Dense(ends)


@_masked("a union of three runs, cut by a fourth", "&", "|", Causal, Prefix, Window, Chunks, "several runs")
def _union(draw: Draw) -> Mask:
    return Causal() & (Prefix(2) | Window(1, 0) | Chunks(4)) & Padding(torch.tensor([13, 9]))


@_masked("or of ands", "&", "|", Causal, Prefix, Documents, Padding, T=13)
def _or_of_ands(draw: Draw) -> Mask:
    return (Causal() & Documents(draw.ints(2, 2, 13))) | (Prefix(3) & Padding(draw.keep(2, 13)))


@_masked("masks that leave nothing in common", Window, Dense, "&", "empty rows")
def _nothing(draw: Draw) -> Mask:
    return Window(0, 1) & Dense(torch.zeros(1, 1, 1, 13, dtype=torch.bool))


# --- score rules, sinks, gate, dropout ---------------------------------------------------------------------------

_case("soft cap", SoftCap, sdpa=_RULES)(lambda draw: draw.call(fused=True, scores=(SoftCap(1.5),)))
_case("soft cap under a mask", SoftCap, sdpa=_RULES)(lambda draw: draw.call(mask=Causal(), scores=(SoftCap(0.5),)))
_case("alibi", Alibi, sdpa=_RULES)(lambda draw: draw.call(mask=Causal(), scores=(Alibi(draw.normal(3).abs()),)))
_case("alibi both ways, for each sequence", Alibi, sdpa=_RULES)(
    lambda draw: draw.call(scores=(Alibi(draw.normal(2, 3)),))
)
_case("relative table", RelativeBias, sdpa=_RULES)(
    lambda draw: draw.call(scores=(RelativeBias(draw.normal(3, 7), zero=4),))
)
_case("relative table, zero outside", RelativeBias, sdpa=_RULES)(
    lambda draw: draw.call(mask=Causal(), scores=(RelativeBias(draw.normal(3, 3), zero=-2),))
)


def _biased(shape: tuple[int, ...], mask: Mask | None) -> None:
    def build(draw: Draw) -> Call:
        options: dict[str, Any] = {} if mask is None else {"mask": mask}
        return draw.call(scores=(Bias(draw.normal(*shape, size=2.0)),), **options)

    _case(f"bias {list(shape)}", Bias, sdpa=_RULES)(build)


for _shape in [(2, 3, 11, 13), (3, 11, 13), (1, 3, 11, 13), (1, 1, 11, 13), (11, 13), (2, 1, 1, 13), (2, 1, 11, 1)]:
    _biased(_shape, Causal())
for _shape in [(13,), (1, 3, 1, 1), (3, 1, 13), (2, 1, 11, 13), (1,), (), (1, 1, 1, 1)]:
    _biased(_shape, None)


def _holed(draw: Draw, *shape: int) -> Tensor:
    return draw.normal(*shape).masked_fill(~draw.keep(*shape), float("-inf"))


_case("bias that hides", Bias, "-inf", sdpa=_RULES)(lambda draw: draw.call(scores=(Bias(_holed(draw, 2, 3, 11, 13)),)))
_case("bias that hides, before a soft cap", Bias, SoftCap, "-inf", sdpa=_RULES)(
    lambda draw: draw.call(mask=Causal(), scores=(Bias(_holed(draw, 2, 1, 1, 13)), SoftCap(1.0)))
)
_case("bias that hides whole rows", Bias, "-inf", "empty rows", sdpa=_RULES)(
    lambda draw: draw.call(scores=(Bias(_holed(draw, 2, 1, 11, 1)), Bias(draw.normal(3, 1, 1))))
)
_case("a strided bias", Bias, "strides", sdpa=_RULES)(
    lambda draw: draw.call(scores=(Bias(draw.normal(13, 3, 22, size=2.0).permute(1, 2, 0)[:, ::2]),))
)
_case("score rule", ScoreRule, sdpa=_RULES)(
    lambda draw: draw.call(
        mask=Causal(), scores=(ScoreRule(lambda s, b, h, i, j: s * (1 + 0.1 * h) - 0.3 * (i - j).abs() + 0.1 * b),)
    )
)
_case("score rule that hides", ScoreRule, "-inf", "empty rows", sdpa=_RULES)(
    lambda draw: draw.call(
        scores=(ScoreRule(lambda s, b, h, i, j: s.masked_fill(((i + 2 * j) % 3 == 0) | (i == 4), float("-inf"))),)
    )
)
_case("score rule that hides, before a soft cap", ScoreRule, SoftCap, "-inf", sdpa=_RULES)(
    lambda draw: draw.call(
        scores=(ScoreRule(lambda s, b, h, i, j: s.masked_fill((i + j) % 3 == 0, float("-inf"))), SoftCap(1.0)),
    )
)
_case("every rule in a row", SoftCap, Alibi, RelativeBias, Bias, ScoreRule, sdpa=_RULES)(
    lambda draw: draw.call(
        H=6,
        Hk=3,
        mask=Causal() & Window(6, None),
        scores=(
            SoftCap(2.0),
            Alibi(draw.normal(6).abs()),
            RelativeBias(draw.normal(6, 5), zero=2),
            Bias(_holed(draw, 2, 1, 1, 13)),
            ScoreRule(lambda s, b, h, i, j: s + 0.2 * torch.sin(s)),
            SoftCap(3.0),
        ),
    )
)
_case("sinks", "sinks", sdpa="sinks")(lambda draw: draw.call(fused=True, sinks=draw.normal(3, size=2.0)))
_case("sinks, causal, empty rows, grouped", "sinks", "empty rows", sdpa="sinks")(
    lambda draw: draw.call(fused=True, H=6, Hk=3, T=17, mask=Causal(), sinks=draw.normal(6, size=3.0))
)
_case("sinks far above and far below", "sinks", sdpa="sinks")(
    lambda draw: draw.call(fused=True, sinks=torch.tensor([40.0, -40.0, 0.0], dtype=draw.dtype))
)
_case("gate [H]", "gate")(lambda draw: draw.call(fused=True, gate=draw.normal(3)))
_case("gate [B,H]", "gate")(lambda draw: draw.call(fused=True, gate=draw.normal(2, 3)))
_case("gate [B,H,T]", "gate", sdpa=_WIDTH)(lambda draw: draw.call(mask=Causal(), gate=draw.normal(2, 3, 11)))
_case("gates of nothing", "gate")(
    lambda draw: draw.call(fused=True, gate=torch.tensor([0.0, 1.0, -0.0], dtype=draw.dtype))
)
_case("dropout", "dropout", sdpa="dropout")(lambda draw: draw.call(fused=True, dropout=0.3))
_case("dropout of nearly everything", "dropout", sdpa="dropout")(lambda draw: draw.call(fused=True, dropout=0.9))
_case("dropout with all else", "dropout", "sinks", "gate", "empty rows", sdpa=_RULES)(
    lambda draw: draw.call(
        H=6,
        Hk=2,
        dropout=0.4,
        mask=Causal() & Padding(draw.keep(2, 13)),
        scores=(SoftCap(3.0), Alibi(draw.normal(6).abs())),
        sinks=draw.normal(6),
        gate=draw.normal(2, 6),
    )
)


# --- operands that are not finite --------------------------------------------------------------------------------


def _spoiled(call: Call, keys: slice, *, k: float = float("nan"), v: float = float("nan")) -> Call:
    spoiled_k, spoiled_v = call.k.clone(), call.v.clone()
    spoiled_k[:, :, keys], spoiled_v[:, :, keys] = k, v
    return Call(call.q, spoiled_k, spoiled_v, call.options)


for _what, _k, _v in (("NaN", "nan", "nan"), ("inf", "inf", "-inf")):
    _case(f"{_what} in hidden keys and values", "not finite", sdpa="NaN or inf")(
        lambda draw, k=_k, v=_v: _spoiled(  # type: ignore[misc]
            draw.call(fused=True, mask=Padding(torch.tensor([9, 9]))), slice(9, 13), k=float(k), v=float(v)
        )
    )
    _case(f"{_what} in hidden keys and values, with all else", "not finite", sdpa=_RULES)(
        lambda draw, k=_k, v=_v: _spoiled(  # type: ignore[misc]
            draw.call(
                H=6,
                Hk=3,
                mask=Causal() & Padding(torch.arange(13).expand(2, -1) % 5 != 2),
                scores=(SoftCap(2.0), Bias(draw.normal(3, 11, 13)[:1])),
                sinks=draw.normal(6),
                dropout=0.2,
            ),
            slice(2, 13, 5),
            k=float(k),
            v=float(v),
        )
    )


@_case("NaN in a query, a key and a value that are seen", "not finite", sdpa=_SHAPE, gradients=False)
def _seen_nan(draw: Draw) -> Call:
    call = draw.call(fused=True, H=6, Hk=3, mask=Causal())
    q, k, v = call.q.clone(), call.k.clone(), call.v.clone()
    q[0, 1, 3], k[0, 1, 9], v[1, 2, 8, 1] = float("nan"), float("nan"), float("nan")
    return Call(q, k, v, call.options)


@_case("inf in a query, a key and a value that are seen", "not finite", sdpa="NaN or inf", gradients=False)
def _seen_inf(draw: Draw) -> Call:
    call = draw.call(fused=True)
    q, k, v = call.q.clone(), call.k.clone(), call.v.clone()
    q[0, 0, 3, 1], k[0, 1, 9, 0] = float("inf"), float("inf")
    v[1, 2, 8, 1], v[1, 1, 8, 2], v[1, 1, 9, 2] = float("-inf"), float("inf"), float("-inf")
    return Call(q, k, v, call.options)


# --- questions ---------------------------------------------------------------------------------------------------


def questions(call: Call, seed: int = 0) -> tuple[Observer, ...]:
    """Every built-in question, some of them twice, that fit a call.

    Args:
        call: asked about.
        seed: of the targets, labels and groups.

    Example:
        >>> from headwise.testing import CASES, questions
        >>> call = CASES["plain"].make(torch.float32)
        >>> sorted(call.run(observe=questions(call)).seen)[:3]
        ['blurred', 'contribution', 'crop']
    """
    draw = Draw(torch.float64, seed)
    (B, H, T, _), (S, E) = call.q.shape, call.v.shape[-2:]
    weight = draw.normal(17, H * E).to(call.q.dtype)
    return (
        LogSumExp(),
        MaxLogit(),
        Entropy(),
        Received(),
        Offsets(limit=6, after=3),
        Offsets(limit=40, name="far_offsets"),
        TopKeys(3),
        TopKeys(19, name="all_keys"),
        MassOn(draw.ints(S, B, T, 4, low=-1)),
        MassOn(draw.ints(S, T, 1, low=-1), name="mass_on_shared"),
        MassWhere(draw.ints(4, B, T, low=-1), draw.ints(4, B, S, low=-1)),
        MassWhere(draw.ints(3, T), draw.ints(3, S), name="mass_where_shared"),
        Segments(draw.ints(3, B, T, low=-1), draw.ints(5, B, S, low=-1)),
        Segments(draw.ints(3, T), draw.ints(2, S), name="segments_shared"),
        Map(3, 4),
        Map(13, 5, name="stretched"),
        Map(2, 2, rows=slice(1, -2), cols=slice(3, 11), pool="mean", name="blurred"),
        Map(4, 3, pool="max", name="peaks"),
        Crop(slice(2, 9), slice(1, -1)),
        Contribution(weight),
    )
