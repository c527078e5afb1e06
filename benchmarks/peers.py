"""What a user could call instead, each as fast as a user could call it: inputs in its own layout, masks written before.

``prepare`` does everything that a user does once; what it returns does one call. Half of a peer is here (those that are
torch), the others, which come with a package of their own, are in ``runtimes``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from headwise import spec
from headwise.plan import Plan, make_plan
from headwise.testing.calls import Call

__all__ = [
    "Peer",
    "Ready",
    "Refusal",
    "Written",
    "is_decoding",
    "known",
    "mask_mod",
    "packed",
    "score_mod",
    "torch_op",
    "unfused_op",
    "written",
]

SCORES_LIMIT = 4 * 2**30


@dataclass(frozen=True)
class Ready:
    """A call that is ready to go.

    Attributes:
        step: one call, with nothing else in it.
        output: what it computed, as [B, H, T, E]; given what ``step`` returned.
        holds: what is read in place, and must live as long as ``step`` is called.
    """

    step: Callable[[], Any]
    output: Callable[[Any], Tensor] = lambda found: found
    holds: Any = None


@dataclass(frozen=True)
class Peer:
    """Something that computes attention.

    Attributes:
        name: in tables.
        environment: the Python that it runs in, a key of ``environments.PACKAGES``.
        prepare: makes a call ready; ``Refusal`` where it cannot do it.
    """

    name: str
    environment: str
    prepare: Callable[[Call], Ready]


class Refusal(Exception):
    """A sentence that says why a peer is not timed."""


@dataclass(frozen=True)
class Written:
    """Masks and scores as other libraries take them.

    Attributes:
        causal: the mask is a triangle and nothing else.
        added: what is added to the scores, -inf where hidden, broadcastable to [B, H, T, S]; None = nothing.
    """

    causal: bool
    added: Tensor | None


def plan_of(call: Call) -> Plan:
    """The call, planned."""
    return make_plan("benchmarks", call.q, call.k, call.v, spec.AttentionSpec(**call.options))


def written(call: Call) -> Written:
    """The options of a call as one tensor, as small as it can be, in the operands' dtype."""
    mask, rules = call.options.get("mask"), call.options.get("scores", ())
    (_, _, T, _), S = call.q.shape, call.k.shape[2]
    if not rules and (mask is None or (isinstance(mask, hw.Causal) and T == S)):
        return Written(mask is not None, None)
    plan = plan_of(call)
    cells = plan.geometry.whole()
    added = torch.zeros((1, 1, 1, 1))
    if rules:
        # What rules make of scores that are 0; every rule of a bench adds the same in each sequence.
        added = plan.apply_rules(torch.zeros((1, call.q.shape[1], T, S)), cells)[0]
    if mask is not None:
        added = torch.where(mask.keep(cells), added, -math.inf)
    return Written(False, added.to(call.q.dtype).contiguous())


def is_decoding(call: Call) -> bool:
    """Whether the query heads of a group can be laid beside each other as the queries of one head."""
    return call.q.shape[2] == 1 and call.q.shape[1] != call.k.shape[1] and not call.options


def packed(name: str, environment: str, prepare: Callable[[Call], Ready]) -> Peer:
    """A peer that is given the query heads of a group as rows, ``q.view(B, Hk, G, D)``: keys are read once a group."""

    def pack(call: Call) -> Ready:
        if not is_decoding(call):
            raise Refusal("packing the group is for one query and no options")
        shape = call.q.shape
        ready = prepare(Call(call.q.reshape(shape[0], call.k.shape[1], -1, shape[3]), call.k, call.v))
        return Ready(ready.step, lambda found: ready.output(found).reshape(shape), ready)

    return Peer(f"{name}, packed", environment, pack)


# --- torch -------------------------------------------------------------------------------------------------------


def torch_op(call: Call) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """torch's ``scaled_dot_product_attention`` with the options of a call, of any q, k and v."""
    said = written(call)
    return functools.partial(
        torch.nn.functional.scaled_dot_product_attention,
        attn_mask=said.added,
        is_causal=said.causal,
        enable_gqa=call.q.shape[1] != call.k.shape[1],
    )


def _torch(call: Call) -> Ready:
    op = torch_op(call)
    return Ready(lambda: op(call.q, call.k, call.v))


def unfused_op(call: Call) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Product, softmax, product; the scores [B, H, T, S] exist."""
    (B, H, T, D), (_, Hk, S, _) = call.q.shape, call.k.shape
    if B * H * T * S * call.q.element_size() > SCORES_LIMIT:
        raise Refusal("its scores are larger than 4 GiB")
    if Hk != H and not is_decoding(call):
        raise Refusal("it is given grouped heads when decoding only")
    said = written(call)
    added = said.added
    if said.causal:
        added = torch.full((T, S), -math.inf, dtype=call.q.dtype).triu_(1)

    def op(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        score = (q * D**-0.5).reshape(B, Hk, -1, D) @ k.mT
        if added is not None:
            score = score + added if score.requires_grad else score.add_(added)
        return (score.softmax(-1) @ v).reshape(B, H, T, v.shape[-1])

    return op


def _unfused(call: Call) -> Ready:
    op = unfused_op(call)
    return Ready(lambda: op(call.q, call.k, call.v))


# --- flex attention, compiled ------------------------------------------------------------------------------------


def mask_mod(mask: Any, shift: int) -> Callable[..., Any]:
    """A mask as flex attention takes it; query i stands at i + shift."""
    match mask:
        case spec.And():
            parts = [mask_mod(part, shift) for part in mask.masks]
            return lambda b, h, i, j: functools.reduce(lambda x, y: x & y, [part(b, h, i, j) for part in parts])
        case hw.Causal():
            return lambda b, h, i, j: i + shift >= j
        case hw.Window(before=int(before), after=0):
            return lambda b, h, i, j: (i + shift >= j) & (i + shift - j <= before)
        case hw.Documents(ids=ids, key_ids=None) if ids.dim() == 1:
            return lambda b, h, i, j: ids[i] == ids[j]
        case hw.Padding(keep_or_lengths=lengths, queries=None):
            return lambda b, h, i, j: j < lengths[b]
    raise Refusal(f"no bench says {type(mask).__name__} to it")


def score_mod(rule: Any, shift: int) -> Callable[..., Any]:
    match rule:
        case hw.Alibi(slopes=slopes):
            return lambda score, b, h, i, j: score - slopes[h] * (i + shift - j).abs()
        case hw.RelativeBias(table=table, zero=zero):
            last = table.shape[1] - 1
            return lambda score, b, h, i, j: score + table[h, (j - i - shift + zero).clamp(0, last)]
    raise Refusal(f"no bench says {type(rule).__name__} to it")


def _flex(call: Call) -> Ready:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()  # each bench compiles for its own sizes; what others compiled would only count to a limit
    (B, H, T, _), (_, Hk, S, _) = call.q.shape, call.k.shape
    mask, rules = call.options.get("mask"), call.options.get("scores", ())
    if len(rules) > 1:
        raise Refusal("no bench gives it two rules")
    blocks = None
    if mask is not None:
        batch = B if any(part.per_batch for part in mask.parts()) else None
        blocks = create_block_mask(mask_mod(mask, S - T), batch, None, T, S, device="cpu")
    rule = score_mod(rules[0], S - T) if rules else None
    compiled = torch.compile(flex_attention, dynamic=False)

    def step() -> Tensor:
        return compiled(call.q, call.k, call.v, score_mod=rule, block_mask=blocks, enable_gqa=Hk != H)

    step()  # compiles
    return Ready(step)


@functools.cache
def known() -> dict[str, Peer]:
    """Every peer by its name; none of their packages is loaded yet."""
    from benchmarks.runtimes import RUNTIMES

    peers = [
        Peer("torch", "here", _torch),
        packed("torch", "here", _torch),
        Peer("unfused", "here", _unfused),
        Peer("flex", "here", _flex),
    ]
    for name, environment, prepare in RUNTIMES:
        peers += [Peer(name, environment, prepare), packed(name, environment, prepare)]
    return {peer.name: peer for peer in peers}
