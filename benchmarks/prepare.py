"""How a bench becomes sides that can take turns, and what is checked before: calls of attention."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import headwise as hw
from benchmarks import gate
from benchmarks.cases import Bench, visible_share
from benchmarks.peers import Peer, Refusal, torch_op, unfused_op
from headwise.nn.quantised import quantised
from headwise.testing.budget import allowed, fused, spacing, three_op
from headwise.testing.calls import Call, Draw

__all__ = ["OURS", "Prepared", "backward", "decode", "forward", "memory", "observed", "overhead"]

OURS = "headwise"
#: Seconds of a call above which a peer is not timed.
PATIENCE = 20.0


@dataclass(frozen=True)
class Prepared:
    """Sides ready to take turns.

    Attributes:
        sides: what to call, by name, ours first.
        refused: why a peer is not among them.
        gate: our error and its budget.
        backend: which of our backends ran.
        gflop: useful arithmetic of a call, on the visible cells; 0 = not counted.
        size: unique bytes of its operands and its output; 0 = not counted.
        extra: anything else for the record.
        holds: what must live as long as the sides are called.
    """

    sides: dict[str, Callable[[], Any]]
    refused: dict[str, str] = field(default_factory=dict)
    gate: dict[str, float] = field(default_factory=dict)
    backend: str = ""
    gflop: float = 0.0
    size: int = 0
    extra: dict[str, Any] = field(default_factory=dict)
    holds: Any = None


def _ours(call: Call) -> Callable[[], Tensor]:
    return lambda: hw.attention(call.q, call.k, call.v, **call.options)


def _said(call: Call, observers: Sequence[Any] = ()) -> tuple[str, float, int]:
    """The backend, the GFLOP of a forward and the bytes that it cannot do without."""
    told = hw.explain(call.q, call.k, call.v, **call.options, observe=observers)
    widths = call.q.shape[-1] + call.v.shape[-1]
    size = sum(x.numel() * x.element_size() for x in (call.q, call.k, call.v, call.q))
    return told.chosen, 2 * told.visible * call.q.shape[1] * widths / 1e9, size


def forward(bench: Bench, peers: Sequence[Peer]) -> Prepared:
    """The output alone, beside each peer's."""
    call = bench.call()
    truth = gate.expected(call)
    sides: dict[str, Callable[[], Any]] = {OURS: _ours(call)}
    right = gate.judge(sides[OURS](), truth)
    refused, held = {}, []
    for peer in peers:
        try:
            ready = peer.prepare(call)
            start = time.perf_counter()
            found = ready.step()
            taken = time.perf_counter() - start
            why = gate.same_work(ready.output(found), truth, call.q.dtype)
            if why is None and taken > PATIENCE:
                why = f"one call took {taken:.3g} s, and there was no second"
        except (Refusal, RuntimeError, ImportError) as reason:
            why = f"{type(reason).__name__}: {reason}" if not isinstance(reason, Refusal) else str(reason)
        if why is None:
            sides[peer.name] = ready.step
            held.append(ready)
        else:
            refused[peer.name] = why
    return Prepared(sides, refused, right, *_said(call), holds=held)


decode = forward


def stored(bench: Bench, peers: Sequence[Peer]) -> Prepared:
    """A token over a past in pages or in eight bits, read as it lies; beside the same numbers as one tensor, and beside
    making that tensor for torch's op at every token, which is what is done elsewhere."""
    call = bench.call()
    kept = [_kept(x, bench.axes["work"]) for x in (call.k, call.v)]
    dense = Call(call.q, kept[0].dense(), kept[1].dense(), call.options)
    op = torch_op(dense)
    sides = {
        OURS: lambda: hw.attention(call.q, *kept, **call.options),
        "plain": _ours(dense),
        "torch": lambda: op(call.q, *(x.dense() for x in kept)),
    }
    right = gate.judge(sides[OURS](), gate.expected(dense))
    size = sum(
        x.numbers.numel() + 4 * x.scales.numel()
        if isinstance(x, hw.Quantised)
        else x.length * len(x.table) * x.pool[0, :, 0].numel() * x.pool.element_size()
        for x in kept
    )
    backend, gflop, _ = _said(dense)
    return Prepared(sides, {}, right, backend, gflop, size)


def _kept(x: Tensor, work: str) -> hw.Paged | hw.Quantised:
    """Keys or values as a cache would hold them; pages lie in no order."""
    if "int8" in work:
        numbers, scales = quantised(x)
        return hw.Quantised(numbers, scales.squeeze(-1), x.dtype)
    (B, Hk, S, width), size = x.shape, int(work.rpartition(" ")[2])
    count = -(-S // size)
    whole = torch.nn.functional.pad(x, (0, 0, 0, count * size - S)).view(B, Hk, count, size, width)
    table = torch.randperm(B * count, generator=torch.Generator().manual_seed(0)).view(B, count)
    pool = x.new_empty(B * count, Hk, size, width)
    pool[table] = whole.transpose(1, 2)
    return hw.Paged(pool, table.int(), S)


def latent(bench: Bench, peers: Sequence[Peer]) -> Prepared:
    """A token of DeepSeek's 128 heads over latents of 512 + 64 numbers, one key/value head for all of them."""
    call = bench.call()
    call = Call(call.q, call.k, call.k[..., :512], call.options)  # values are a part of the keys, in the same memory
    op = torch_op(call)
    sides = {OURS: _ours(call), "torch": lambda: op(call.q, call.k, call.v)}
    right = gate.judge(sides[OURS](), gate.expected(call))
    backend, gflop, _ = _said(call)
    return Prepared(sides, {}, right, backend, gflop, call.k.numel() * call.k.element_size())


def structured(bench: Bench, peers: Sequence[Peer]) -> Prepared:
    """The output under a mask, beside our own causal one over all its keys; arithmetic counted cell by cell."""
    call = bench.call()
    (B, H, _, D), (S, E) = call.q.shape, call.v.shape[-2:]
    square = Draw(call.q.dtype, seed=0).call(fused=True, B=B, H=H, T=S, S=S, D=D, mask=hw.Causal())
    sides = {OURS: _ours(call), "causal": _ours(square)}
    right = gate.judge(sides[OURS](), gate.expected(call))
    gflop = 2 * visible_share(call) * B * H * call.q.shape[2] * S * (D + E) / 1e9
    return Prepared(sides, {}, right, _said(call)[0], gflop)


def overhead(bench: Bench, peers: Sequence[Peer]) -> Prepared:
    """So little work that what is left is the way to it; beside torch's op without a mask where it has no such one."""
    call = bench.call()
    right = gate.judge(_ours(call)(), gate.expected(call))
    causal = isinstance(call.options.get("mask"), hw.Causal)
    bare = torch_op(Call(call.q, call.k, call.v, {"mask": hw.Causal()} if causal else {}))
    sides = {OURS: _ours(call), "torch": lambda: bare(call.q, call.k, call.v)}
    return Prepared(sides, {}, right, _said(call)[0])


# --- forward + backward ------------------------------------------------------------------------------------------


def backward(bench: Bench, peers: Sequence[Peer]) -> Prepared:
    """Output and derivatives of q, k and v; peers are torch's op and the three ops, through torch's autograd."""
    call = bench.call()
    grad = torch.randn(call.q.shape, generator=torch.Generator().manual_seed(2)).to(call.q.dtype)
    leaves = [x.detach().requires_grad_() for x in (call.q, call.k, call.v)]

    def step_of(op: Callable[..., Tensor]) -> Callable[[], Any]:
        def step() -> Any:
            with torch.enable_grad():
                return torch.autograd.grad(op(*leaves), leaves, grad)

        return step

    ops: dict[str, Callable[..., Tensor]] = {OURS: lambda q, k, v: hw.attention(q, k, v, **call.options)}
    makers = {"torch": torch_op, "unfused": unfused_op}
    ops |= {peer.name: makers[peer.name](call) for peer in peers if peer.name in makers}
    sides = {name: step_of(op) for name, op in ops.items()}
    right = _judge_gradients(sides[OURS](), call, grad)
    backend, gflop, size = _said(call)
    # Five products on the way back, one of them (the scores) made again, beside two on the way there.
    return Prepared(sides, {}, right, backend, 3.5 * gflop, size)


def _judge_gradients(found: Sequence[Tensor], call: Call, grad: Tensor) -> dict[str, float]:
    """Two heads, all rows, as the conformance suite does: three derivatives are one result, rounded once more."""
    heads = [0, call.q.shape[1] - 1]
    part = Call(*(x[:, heads] for x in (call.q, call.k, call.v)), call.options)

    def whole(make: Callable[[Call], Tensor], made: Call, weights: Tensor) -> Tensor:
        fresh, leaves = made.fresh()
        with torch.enable_grad():
            grads = torch.autograd.grad(make(fresh), [leaves[name] for name in "qkv"], weights)
        return torch.cat([g.flatten() for g in grads])

    grad = grad[:, heads]
    forms = [whole(lambda made, way=way: three_op(made, as_fused=way)[0], part, grad) for way in (False, True)]
    forms.append(whole(fused, part, grad))
    exact = whole(lambda made: three_op(made)[0], part.to(torch.float64), grad.double())
    budget = allowed(exact, forms, call.q.dtype) + spacing(float(exact.abs().max()), call.q.dtype)
    error = gate.far(torch.cat([g[:, heads].flatten() for g in found]), exact)
    if not error <= budget:
        raise gate.WrongAnswer(f"derivatives are {error:.3g} from float64, {budget:.3g} is allowed")
    return {"error": error, "allowed": budget}


# --- observers ---------------------------------------------------------------------------------------------------


def observed(bench: Bench, peers: Sequence[Peer]) -> Prepared:
    """The output and answers about the pattern, beside our own output alone."""
    assert bench.ask is not None
    call = bench.call()
    asked = bench.ask(call)

    def ask() -> Any:
        return hw.attend(call.q, call.k, call.v, **call.options, observe=asked)

    found = ask()
    # The definitions would take minutes at this length; the conformance suite holds blocked to them.
    right = gate.same_answers(found.seen, call.to(torch.float64).run("blocked", asked).seen)
    gate.judge(found.out, gate.expected(call))
    backend, gflop, size = _said(call, asked)
    return Prepared({OURS: ask, "plain": _ours(call)}, {}, right, backend, gflop, size)


LENGTHS = (2048, 8192)
#: What is freed goes back to the system at once; otherwise a call would live on what the process had before.
RETURNED = {"MALLOC_MMAP_THRESHOLD_": "16384", "MALLOC_TRIM_THRESHOLD_": "0"}


def memory(bench: Bench, peers: Sequence[Peer]) -> Prepared:
    """How far memory rises in a fresh process that asks everything, at two lengths; nothing is timed."""
    mib = {}
    for length in LENGTHS:
        command = [sys.executable, "-m", "benchmarks.prepare", bench.name, str(length)]
        run = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | RETURNED)
        mib[str(length)] = json.loads(run.stdout.splitlines()[-1])
    return Prepared({}, extra={"mib": mib})


def _child(name: str, length: int) -> None:
    """Prints how many MiB a call with observers takes above its operands, its answers included."""
    from benchmarks.cases import BENCHES
    from benchmarks.observed import peak_kib, reset_peak, size_kib
    from headwise.testing.calls import Draw

    bench = BENCHES[name]
    assert bench.ask is not None
    options = {"fused": True, "B": 1, "H": 8, "D": 64, "mask": hw.Causal()}
    small, call = (Draw(torch.float32, seed=0).call(T=T, S=T, **options) for T in (64, length))
    with torch.no_grad():
        small.run(observe=bench.ask(small))  # threads, libraries and buffers of a process are no memory of a call
        asked = bench.ask(call)
        before = size_kib()
        reset_peak()
        call.run(observe=asked)
    print(json.dumps((peak_kib() - before) / 1024))


if __name__ == "__main__":
    _child(sys.argv[1], int(sys.argv[2]))
