"""Attention as its documentation defines it, in float64, one row at a time: what every backend is held to.

Nothing here calls a mask's ``keep``, a rule's ``apply``, a backend or an observer. A mask is a function of one cell in
plain Python, a row reads the keys that it sees and no others, and torch's autograd gives the derivatives.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from headwise import spec
from headwise.testing.calls import Call

__all__ = ["Exact", "Sizes", "define", "sees", "survives"]

INF = math.inf


@dataclass(frozen=True)
class Sizes:
    """Sizes of a call, where its queries stand and what its heads read."""

    B: int
    H: int
    T: int
    S: int
    start: tuple[int, ...]
    kv: tuple[int, ...]

    @classmethod
    def of(cls, call: Call) -> Sizes:
        (B, H, T, _), (_, Hk, S, _) = call.q.shape, call.k.shape
        given = call.options.get("q_start")
        if given is None:
            given = S - T
        start = tuple(given.tolist()) if isinstance(given, Tensor) and given.dim() else (int(given),) * B
        kv = call.options.get("kv_heads")
        return cls(B, H, T, S, start, tuple(kv) if kv is not None else tuple(h * Hk // H for h in range(H)))


def _of_row(value: Any, b: int) -> int:
    return int(value[b]) if isinstance(value, Tensor) else value


def _is_global(tokens: Any, size: Sizes, b: int, at: int) -> bool:
    """Whether the token at a position of the key axis is a global one."""
    if not 0 <= at < size.S:
        return False
    if isinstance(tokens, Tensor) and tokens.dtype == torch.bool:
        return bool(_cell_of(tokens, b, at))
    return at < _of_row(tokens, b)


def _cell_of(tensor: Tensor, *index: int) -> Any:
    """An entry of a tensor that broadcasts to the index's axes."""
    wide = tensor.reshape((1,) * (len(index) - tensor.dim()) + tuple(tensor.shape))
    return wide[tuple(0 if n == 1 else at for at, n in zip(index, wide.shape, strict=True))].item()


def sees(mask: Any, size: Sizes, b: int, h: int, i: int, j: int) -> bool:
    """Whether query i may attend to key j."""
    pos = size.start[b] + i
    match mask:
        case None:
            return True
        case spec.And():
            return all(sees(m, size, b, h, i, j) for m in mask.masks)
        case spec.Or():
            return any(sees(m, size, b, h, i, j) for m in mask.masks)
        case spec.Causal():
            return j <= (i if mask.align == "start" else pos)
        case spec.Window():
            ahead = j - pos
            return not (mask.before is not None and -ahead > mask.before) and not (
                mask.after is not None and ahead > mask.after
            )
        case spec.Prefix():
            return j < _of_row(mask.lengths, b)
        case spec.Padding():
            given = mask.keep_or_lengths
            key = bool(given[b, j]) if isinstance(given, Tensor) and given.dim() == 2 else j < _of_row(given, b)
            return key and (mask.queries is None or bool(mask.queries[b, i]))
        case spec.Documents():
            keys = mask.ids if mask.key_ids is None else mask.key_ids
            return _cell_of(mask.ids, b, i) == _cell_of(keys, b, j)
        case spec.Chunks():
            first = _of_row(mask.start, b)
            return math.floor((pos - first) / mask.size) == math.floor((j - first) / mask.size)
        case spec.Blocks():
            row = math.floor((i if mask.align == "start" else pos) / mask.size)
            inside = 0 <= row < mask.keep_tiles.shape[-2]
            return inside and bool(_cell_of(mask.keep_tiles, b, h, row, j // mask.size))
        case spec.Dense():
            return bool(_cell_of(mask.keep_cells, b, h, i, j))
        case spec.Rule():
            index = (torch.tensor(n, dtype=torch.int64, device="cpu").reshape(1, 1, 1, 1) for n in (b, h, i, j))
            return bool(mask.fn(*index))
    return _sees_sparsely(mask, size, b, i, j)


def _sees_sparsely(mask: Any, size: Sizes, b: int, i: int, j: int) -> bool:
    """The same of masks that leave keys out in between."""
    pos = size.start[b] + i
    match mask:
        case spec.Global():
            return _is_global(mask.tokens, size, b, j) or _is_global(mask.tokens, size, b, pos)
        case spec.Spans():
            start, stop = (end[b if len(end) > 1 else 0] if end.dim() == 2 else end for end in (mask.start, mask.stop))
            return int(start[i]) <= j < int(stop[i])
        case spec.Strided():
            return (pos - j) % mask.step == 0
        case spec.Tree():
            wide = mask.parents.reshape(-1, mask.parents.shape[-1])
            line = wide[b if len(wide) > 1 else 0].tolist()
            token = i
            while token >= 0 and size.start[b] + token != j:
                token = line[token]
            return j < size.start[b] or token >= 0
    raise AssertionError(f"the definition does not know {mask!r}")


def _ruled(rule: Any, score: Tensor, keys: list[int], size: Sizes, b: int, h: int, i: int) -> Tensor:
    """One score rule on one row's scores."""
    pos = size.start[b] + i
    match rule:
        case spec.SoftCap():
            return rule.cap * torch.tanh(score / rule.cap)
        case spec.Alibi():
            slope = rule.slopes[h] if rule.slopes.dim() == 1 else rule.slopes[b, h]
            given = rule.positions if rule.key_positions is None else rule.key_positions
            at = pos if rule.positions is None else _cell_of(rule.positions, b, i)
            away = [abs(at - (j if given is None else _cell_of(given, b, j))) for j in keys]
            return score - slope.double() * torch.tensor(away, dtype=torch.float64, device="cpu")
        case spec.RelativeBias():
            last = rule.table.shape[1] - 1
            return score + rule.table[h, [min(max(j - pos + rule.zero, 0), last) for j in keys]].double()
        case spec.T5Bias():
            return score + rule.weights[[_bucket(rule, j - pos) for j in keys], h].double()
        case spec.GridBias():
            return score + torch.stack([_patches(rule, i, j)[h] for j in keys]).double()
        case spec.Bias():
            wide = rule.tensor.reshape((1,) * (4 - rule.tensor.dim()) + tuple(rule.tensor.shape))
            at = [0 if n == 1 else x for x, n in zip((b, h, i), wide.shape, strict=False)]
            row = wide[at[0], at[1], at[2]].double()
            return score + (row if len(row) == 1 else row[keys])
        case spec.ScoreRule():
            at_b, at_h, at_i = (torch.tensor(n, dtype=torch.int64, device="cpu").reshape(1, 1, 1, 1) for n in (b, h, i))
            return rule.fn(
                score[None, None, None], at_b, at_h, at_i, torch.tensor(keys, dtype=torch.int64, device="cpu")
            )[0, 0, 0]
    raise AssertionError(f"the definition does not know {rule!r}")


def _bucket(rule: Any, ahead: int) -> int:
    """The bucket of a distance, counted as T5's paper tells it."""
    each = len(rule.weights) // (2 if rule.bidirectional else 1)
    away, own = abs(min(ahead, ahead if rule.bidirectional else 0)), each // 2
    if away >= own:
        away = own + int(math.log(away / own) / math.log(rule.max_distance / own) * (each - own))
    return min(away, each - 1) + (each if rule.bidirectional and ahead > 0 else 0)


def _patches(rule: Any, i: int, j: int) -> Tensor:
    """The entry of two tokens of a picture, all heads of it."""
    token = len(rule.table) > (2 * rule.height - 1) * (2 * rule.width - 1)
    if token and 0 in (i, j):
        return rule.table[{(True, False): -3, (False, True): -2, (True, True): -1}[i == 0, j == 0]]
    (y, x), (down, along) = (divmod(n - token, rule.width) for n in (i, j))
    return rule.table[(y - down + rule.height - 1) * (2 * rule.width - 1) + x - along + rule.width - 1]


_WORD = 2**32


def _mix(x: int) -> int:
    x ^= x >> 16
    x = x * 0x21F0AAAD % _WORD
    x ^= x >> 15
    x = x * 0xD35A2D97 % _WORD
    return x ^ x >> 15


def survives(seed: int, dropout: float, b: int, h: int, i: int, j: int) -> bool:
    """Whether dropout leaves a cell: the counter hash, in Python's own integers."""
    low, high = seed % _WORD, seed >> 32
    row = low
    for index in (b, h, i):
        row = _mix((row * 0x9E3779B9 + index + 1) % _WORD)
    return _mix(_mix((row + j * 0x9E3779B9) % _WORD) ^ _mix(row ^ high)) >= round(dropout * _WORD)


@dataclass(frozen=True)
class Exact:
    """The definition's answer, float64: out and lse carry a graph, the rest is what observers are asked about."""

    size: Sizes
    out: Tensor
    lse: Tensor
    p: Tensor
    logits: Tensor
    visible: Tensor


def define(call: Call, seed: int = 5) -> Exact:
    """Attention, row by row; ``seed`` is what torch's generator is set to before the dropped cells are drawn."""
    size, options = Sizes.of(call), call.options
    q, k, v = (x.double() for x in (call.q, call.k, call.v))
    scale = options.get("scale")
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    dropout = options.get("dropout", 0.0)
    torch.manual_seed(seed)
    drawn = int(torch.randint(0, 2**62, (), dtype=torch.int64, device="cpu")) if dropout else 0
    full = (size.B, size.H, size.T, size.S)
    p, visible = torch.zeros(full, dtype=torch.float64, device="cpu"), torch.zeros(full, dtype=torch.bool, device="cpu")
    logits = torch.full(full, -INF, dtype=torch.float64, device="cpu")
    outs, lses = [], []
    for b in range(size.B):
        for h in range(size.H):
            for i in range(size.T):
                keys = [j for j in range(size.S) if sees(options.get("mask"), size, b, h, i, j)]
                score = (k[b, size.kv[h], keys] @ q[b, h, i]) * scale
                for rule in options.get("scores", ()):
                    keys, score = _alive(keys, _ruled(rule, score, keys, size, b, h, i))
                keys, score = _alive(keys, score)
                sink = None if options.get("sinks") is None else options["sinks"][h].double()
                row = _row(score, sink)
                visible[b, h, i, keys] = True
                logits[b, h, i, keys] = score.detach()
                p[b, h, i, keys] = row[0].detach()
                weight = row[0]
                if dropout:
                    left = [survives(drawn, dropout, b, h, i, j) for j in keys]
                    weight = weight * torch.tensor(left, dtype=torch.float64, device="cpu") / (1 - dropout)
                outs.append(_gated(weight @ v[b, size.kv[h], keys], options.get("gate"), b, h, i))
                lses.append(row[1])
    out = torch.stack(outs) if outs else q.new_zeros((0, v.shape[-1]))
    lse = torch.stack(lses) if lses else q.new_zeros(0)
    return Exact(size, out.reshape(*full[:3], v.shape[-1]), lse.reshape(full[:3]), p, logits, visible)


def _alive(keys: list[int], score: Tensor) -> tuple[list[int], Tensor]:
    """Leaves out the cells whose score is -inf: they are hidden, for good."""
    if not bool((score == -INF).any()):
        return keys, score
    alive = (score != -INF).nonzero()[:, 0].tolist()
    return [keys[n] for n in alive], score[alive]


def _row(score: Tensor, sink: Tensor | None) -> tuple[Tensor, Tensor]:
    """Probabilities and log-sum-exp of one row."""
    if not len(score):
        return score, score.new_full((), -INF)
    every = score if sink is None else torch.cat([score, sink[None]])
    p = torch.softmax(every, 0)[: len(score)]
    # "A score of +inf is no probability: its row is NaN": torch's log-sum-exp would say inf, with no p to go with it.
    return p, torch.logsumexp(every, 0) + (math.nan if bool((every == INF).any()) else 0.0)


def _gated(out: Tensor, gate: Tensor | None, b: int, h: int, i: int) -> Tensor:
    if gate is None:
        return out
    factor = gate[(h,) if gate.dim() == 1 else (b, h, i)[: gate.dim()]]
    return torch.where(factor == 0, torch.nan_to_num(out), out) * factor.double()
