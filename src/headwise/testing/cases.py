"""Named calls of attention that together use every option, each with what it is there for.

Each axis is its own prime wherever the options allow it, so that two axes that are mixed up cannot go unnoticed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from headwise.spec import (
    Alibi,
    Bias,
    Causal,
    GridBias,
    Mask,
    Padding,
    RelativeBias,
    ScoreRule,
    SoftCap,
    T5Bias,
    Window,
)
from headwise.testing import mask_cases  # noqa: F401  (they register themselves)
from headwise.testing.calls import CASES, PYTHON, RULES, SHAPE, WIDTH, Call, Case, Draw, case, int64
from headwise.testing.questions import questions

__all__ = ["CASES", "Call", "Case", "Draw", "questions"]


# --- no mask, shapes and heads -----------------------------------------------------------------------------------

case("plain", "E = D")(lambda draw: draw.call(fused=True))
case("plain, E != D", "E != D", sdpa=WIDTH)(lambda draw: draw.call())
case("self attention", "T = S")(lambda draw: draw.call(fused=True, S=11))
case("more queries than keys", "T > S")(lambda draw: draw.call(fused=True, T=17))
case("one query", "T = 1")(lambda draw: draw.call(fused=True, T=1, mask=Causal()))
case("one key", "S = 1")(lambda draw: draw.call(fused=True, S=1))
case("one of each", "B = H = 1")(lambda draw: draw.call(fused=True, B=1, H=1, T=1, S=1, D=1))
case("no queries", "T = 0", sdpa="an axis is empty")(lambda draw: draw.call(fused=True, T=0, mask=Causal()))
case("no keys", "S = 0", sdpa="an axis is empty")(lambda draw: draw.call(fused=True, S=0, mask=Causal()))
case("no batch", "B = 0", sdpa="an axis is empty")(lambda draw: draw.call(fused=True, B=0))
case("no value width", "E = 0", sdpa=WIDTH)(lambda draw: draw.call(E=0))
case("longer and odd", "odd lengths", sdpa=SHAPE)(lambda draw: draw.call(fused=True, B=1, T=67, S=71, mask=Causal()))
case("longer, odd and square", "odd lengths")(lambda draw: draw.call(fused=True, B=1, T=71, S=71, mask=Causal()))
case("grouped heads", "GQA")(lambda draw: draw.call(fused=True, H=6, Hk=3, mask=Causal(), T=13))
case("grouped heads, E != D", "GQA", sdpa=WIDTH)(lambda draw: draw.call(H=6, Hk=2, mask=Causal()))
case("one key head", "MQA")(lambda draw: draw.call(fused=True, H=5, Hk=1))
case("uneven groups", "kv_heads", sdpa="uneven groups")(
    lambda draw: draw.call(fused=True, H=5, Hk=2, kv_heads=(0, 0, 0, 1, 1), mask=Causal())
)
case("key heads out of order", "kv_heads", sdpa="uneven groups")(
    lambda draw: draw.call(fused=True, H=5, Hk=3, kv_heads=(2, 0, 2, 1, 0))
)
case("a key head that nobody reads", "kv_heads", sdpa="uneven groups")(
    lambda draw: draw.call(fused=True, H=3, Hk=3, kv_heads=(2, 2, 0))
)
case("scale", "scale")(lambda draw: draw.call(fused=True, scale=0.3))
case("negative scale", "scale")(lambda draw: draw.call(fused=True, scale=-0.7))
case("scale of nothing", "scale")(lambda draw: draw.call(fused=True, scale=0.0))
case("large logits", "logits of 100")(lambda draw: draw.call(fused=True, scale=6.0))


@case("heads beside the width", "strides")
def _heads_last(draw: Draw) -> Call:
    call = draw.call(fused=True)
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in (call.q, call.k, call.v))
    return Call(q, k, v, {"mask": Causal(align="start")})


@case("every second element", "strides", sdpa="not contiguous")
def _steps(draw: Draw) -> Call:
    call = draw.call(fused=True, T=22, S=26, D=10, mask=Causal())
    q, k, v = (x[:, :, ::2, ::2] for x in (call.q, call.k, call.v))
    return Call(q, k, v, call.options)


@case("one sequence for the whole batch", "strides of 0")
def _expanded(draw: Draw) -> Call:
    call = draw.call(fused=True)
    k, v = (x[:1].expand(2, -1, -1, -1) for x in (call.k, call.v))
    return Call(call.q, k, v, call.options)


@case("width outside the length", "strides", sdpa="not contiguous")
def _width_first(draw: Draw) -> Call:
    call = draw.call(fused=True)
    q, k, v = (x.mT.contiguous().mT for x in (call.q, call.k, call.v))
    return Call(q, k, v, call.options)


# --- score rules, sinks, gate, dropout ---------------------------------------------------------------------------

case("soft cap", SoftCap, sdpa=RULES)(lambda draw: draw.call(fused=True, scores=(SoftCap(1.5),)))
case("soft cap under a mask", SoftCap, sdpa=RULES)(lambda draw: draw.call(mask=Causal(), scores=(SoftCap(0.5),)))
case("alibi", Alibi, sdpa=RULES)(lambda draw: draw.call(mask=Causal(), scores=(Alibi(draw.normal(3).abs()),)))
case("alibi both ways, for each sequence", Alibi, sdpa=RULES)(
    lambda draw: draw.call(scores=(Alibi(draw.normal(2, 3)),))
)
case("alibi, positions that restart", Alibi, "positions", sdpa=RULES)(
    lambda draw: draw.call(
        T=13, mask=Causal(), scores=(Alibi(draw.normal(3).abs(), positions=int64([*range(6), *range(7)])),)
    )
)
case("alibi, positions of each sequence", Alibi, "positions", sdpa=RULES)(
    lambda draw: draw.call(
        scores=(Alibi(draw.normal(2, 3), positions=draw.ints(20, 2, 11), key_positions=draw.normal(13, size=5.0)),),
    )
)
case("alibi, keys of a ring", Alibi, "positions", "q_start [B]", SoftCap, sdpa=RULES)(
    lambda draw: draw.call(
        H=6,
        Hk=3,
        q_start=int64([30, 9]),
        scores=(Alibi(draw.normal(6).abs(), key_positions=int64(range(13)).roll(5) + 17), SoftCap(4.0)),
    )
)
case("the bias of t5", RelativeBias.t5, T5Bias, sdpa=RULES)(
    lambda draw: draw.call(scores=(RelativeBias.t5(draw.normal(8, 3), bidirectional=True, max_distance=9),))
)
case("the bias of t5, backwards, a start for each sequence", RelativeBias.t5, T5Bias, "q_start [B]", sdpa=RULES)(
    lambda draw: draw.call(
        mask=Causal(),
        q_start=int64([7, 2]),
        scores=(SoftCap(4.0), RelativeBias.t5(draw.normal(5, 3), bidirectional=False, max_distance=7)),
    )
)
case("the bias of a picture", Bias.grid, GridBias, sdpa=RULES)(
    lambda draw: draw.call(T=12, S=12, scores=(Bias.grid(draw.normal(35, 3), 3, 4),))
)
case("the bias of a picture, a class token, grouped", Bias.grid, GridBias, Alibi, "GQA", sdpa=RULES)(
    lambda draw: draw.call(
        H=6, Hk=3, T=13, scores=(Alibi(draw.normal(6).abs()), Bias.grid(draw.normal(38, 6), 3, 4), SoftCap(4.0))
    )
)
case("the bias of a picture that hides an offset", Bias.grid, GridBias, SoftCap, "-inf", sdpa=RULES)(
    lambda draw: draw.call(T=12, S=12, scores=(Bias.grid(_holed(draw, 35, 3), 3, 4), SoftCap(4.0)))
)
case("relative table", RelativeBias, sdpa=RULES)(
    lambda draw: draw.call(scores=(RelativeBias(draw.normal(3, 7), zero=4),))
)
case("relative table, zero outside", RelativeBias, sdpa=RULES)(
    lambda draw: draw.call(mask=Causal(), scores=(RelativeBias(draw.normal(3, 3), zero=-2),))
)


def _biased(shape: tuple[int, ...], mask: Mask | None) -> None:
    def build(draw: Draw) -> Call:
        options: dict[str, Any] = {} if mask is None else {"mask": mask}
        return draw.call(scores=(Bias(draw.normal(*shape, size=2.0)),), **options)

    case(f"bias {list(shape)}", Bias, sdpa=RULES)(build)


for _shape in [(2, 3, 11, 13), (3, 11, 13), (1, 3, 11, 13), (1, 1, 11, 13), (11, 13), (2, 1, 1, 13), (2, 1, 11, 1)]:
    _biased(_shape, Causal())
for _shape in [(13,), (1, 3, 1, 1), (3, 1, 13), (2, 1, 11, 13), (1,), (), (1, 1, 1, 1)]:
    _biased(_shape, None)


def _holed(draw: Draw, *shape: int) -> Tensor:
    return draw.normal(*shape).masked_fill(~draw.keep(*shape), float("-inf"))


case("bias that hides", Bias, "-inf", sdpa=RULES)(lambda draw: draw.call(scores=(Bias(_holed(draw, 2, 3, 11, 13)),)))
case("bias that hides, before a soft cap", Bias, SoftCap, "-inf", sdpa=RULES)(
    lambda draw: draw.call(mask=Causal(), scores=(Bias(_holed(draw, 2, 1, 1, 13)), SoftCap(1.0)))
)
case("bias that hides whole rows", Bias, "-inf", "empty rows", sdpa=RULES)(
    lambda draw: draw.call(scores=(Bias(_holed(draw, 2, 1, 11, 1)), Bias(draw.normal(3, 1, 1))))
)
case("a strided bias", Bias, "strides", sdpa=RULES)(
    lambda draw: draw.call(scores=(Bias(draw.normal(13, 3, 22, size=2.0).permute(1, 2, 0)[:, ::2]),))
)
case("score rule", ScoreRule, sdpa=RULES, native=PYTHON)(
    lambda draw: draw.call(
        mask=Causal(), scores=(ScoreRule(lambda s, b, h, i, j: s * (1 + 0.1 * h) - 0.3 * (i - j).abs() + 0.1 * b),)
    )
)
case("score rule that hides", ScoreRule, "-inf", "empty rows", sdpa=RULES, native=PYTHON)(
    lambda draw: draw.call(
        scores=(ScoreRule(lambda s, b, h, i, j: s.masked_fill(((i + 2 * j) % 3 == 0) | (i == 4), float("-inf"))),)
    )
)
case("score rule that hides, before a soft cap", ScoreRule, SoftCap, "-inf", sdpa=RULES, native=PYTHON)(
    lambda draw: draw.call(
        scores=(ScoreRule(lambda s, b, h, i, j: s.masked_fill((i + j) % 3 == 0, float("-inf"))), SoftCap(1.0)),
    )
)
case("every rule in a row", SoftCap, Alibi, RelativeBias, Bias, ScoreRule, sdpa=RULES, native=PYTHON)(
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
case("sinks", "sinks", sdpa="sinks")(lambda draw: draw.call(fused=True, sinks=draw.normal(3, size=2.0)))
case("sinks, causal, empty rows, grouped", "sinks", "empty rows", sdpa="sinks")(
    lambda draw: draw.call(fused=True, H=6, Hk=3, T=17, mask=Causal(), sinks=draw.normal(6, size=3.0))
)
case("sinks far above and far below", "sinks", sdpa="sinks")(
    lambda draw: draw.call(fused=True, sinks=torch.tensor([40.0, -40.0, 0.0], dtype=draw.dtype, device="cpu"))
)
case("gate [H]", "gate")(lambda draw: draw.call(fused=True, gate=draw.normal(3)))
case("gate [B,H]", "gate")(lambda draw: draw.call(fused=True, gate=draw.normal(2, 3)))
case("gate [B,H,T]", "gate", sdpa=WIDTH)(lambda draw: draw.call(mask=Causal(), gate=draw.normal(2, 3, 11)))
case("gates of nothing", "gate")(
    lambda draw: draw.call(fused=True, gate=torch.tensor([0.0, 1.0, -0.0], dtype=draw.dtype, device="cpu"))
)
case("dropout", "dropout", sdpa="dropout")(lambda draw: draw.call(fused=True, dropout=0.3))
case("dropout of nearly everything", "dropout", sdpa="dropout")(lambda draw: draw.call(fused=True, dropout=0.9))
case("dropout with all else", "dropout", "sinks", "gate", "empty rows", sdpa=RULES)(
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
    case(f"{_what} in hidden keys and values", "not finite", sdpa="NaN or inf")(
        lambda draw, k=_k, v=_v: _spoiled(  # type: ignore[misc]
            draw.call(fused=True, mask=Padding(int64([9, 9]))), slice(9, 13), k=float(k), v=float(v)
        )
    )
    case(f"{_what} in hidden keys and values, with all else", "not finite", sdpa=RULES)(
        lambda draw, k=_k, v=_v: _spoiled(  # type: ignore[misc]
            draw.call(
                H=6,
                Hk=3,
                mask=Causal() & Padding(int64(range(13)).expand(2, -1) % 5 != 2),
                scores=(SoftCap(2.0), Bias(draw.normal(3, 11, 13)[:1])),
                sinks=draw.normal(6),
                dropout=0.2,
            ),
            slice(2, 13, 5),
            k=float(k),
            v=float(v),
        )
    )


@case("NaN in a query, a key and a value that are seen", "not finite", sdpa=SHAPE, gradients=False)
def _seen_nan(draw: Draw) -> Call:
    call = draw.call(fused=True, H=6, Hk=3, mask=Causal())
    q, k, v = call.q.clone(), call.k.clone(), call.v.clone()
    q[0, 1, 3], k[0, 1, 9], v[1, 2, 8, 1] = float("nan"), float("nan"), float("nan")
    return Call(q, k, v, call.options)


@case("inf in a query, a key and a value that are seen", "not finite", sdpa="NaN or inf", gradients=False)
def _seen_inf(draw: Draw) -> Call:
    call = draw.call(fused=True)
    q, k, v = call.q.clone(), call.k.clone(), call.v.clone()
    q[0, 0, 3, 1], k[0, 1, 9, 0] = float("inf"), float("inf")
    v[1, 2, 8, 1], v[1, 1, 8, 2], v[1, 1, 9, 2] = float("-inf"), float("inf"), float("-inf")
    return Call(q, k, v, call.options)
