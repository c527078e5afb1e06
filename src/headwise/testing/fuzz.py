"""Random calls from the whole space of options, from a seed or from hypothesis, and their comparison with float64.

Whoever chooses is an object with `integer`, `one_of` and `flip`, so that a plain seed serves where hypothesis is not
installed, and hypothesis shrinks what it finds where it is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from headwise import spec
from headwise.errors import UnsupportedError
from headwise.products import finite_part
from headwise.spec import Mask, Rules, recipes
from headwise.testing.budget import allowed, fused, spacing, three_op, within
from headwise.testing.calls import Call, Draw

__all__ = ["Chance", "Chooser", "calls", "random_call", "random_calls", "random_mask", "same_as_reference", "spoil"]

F64, F32 = torch.float64, torch.float32
NAN, INF = float("nan"), float("inf")


class Chooser(Protocol):
    """Where the choices of a random call come from."""

    def integer(self, low: int, high: int) -> int:
        """An int from low to high, both included."""

    def one_of(self, options: Sequence[Any]) -> Any:
        """One of a few things."""

    def flip(self, chance: float = 0.5) -> bool:
        """True now and then."""


class Chance:
    """Choices from a seed.

    Example:
        >>> from headwise.testing.fuzz import Chance
        >>> Chance(3).integer(0, 9) == Chance(3).integer(0, 9)
        True
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def one_of(self, options: Sequence[Any]) -> Any:
        return self._random.choice(options)

    def flip(self, chance: float = 0.5) -> bool:
        return self._random.random() < chance


class _Hypothesis:
    """Choices of hypothesis, which shrinks them."""

    def __init__(self, draw: Any, strategies: Any) -> None:
        self._draw, self._strategies = draw, strategies

    def integer(self, low: int, high: int) -> int:
        return int(self._draw(self._strategies.integers(low, high)))

    def one_of(self, options: Sequence[Any]) -> Any:
        return options[self.integer(0, len(options) - 1)]

    def flip(self, chance: float = 0.5) -> bool:
        return self.integer(0, 99) >= 100 - round(100 * chance)


@dataclass(frozen=True)
class _Maker:
    """Chooses the parts of one call of known sizes."""

    choose: Chooser
    numbers: Draw
    B: int
    H: int
    T: int
    S: int

    def share(self) -> float:
        """How much of a bool tensor is True."""
        return float(self.choose.one_of([0.1, 0.5, 0.9]))

    def few(self) -> int:
        return self.choose.integer(0, 9)

    def some(self, *axes: int) -> list[int]:
        """The last few of some axes, each in full or 1."""
        return [n if self.choose.flip() else 1 for n in axes][self.choose.integer(0, len(axes) - 1) :]

    def lengths(self, beyond: int) -> int | Tensor:
        """A count of tokens, or one for each row."""
        return self.numbers.ints(self.S + beyond, self.B) if self.choose.flip() else self.few()


def _causal(m: _Maker) -> Mask:
    return spec.Causal(align=m.choose.one_of(["end", "start"]))


def _window(m: _Maker) -> Mask:
    before, after = (m.few() if m.choose.flip(0.8) else None for _ in range(2))
    return spec.Window(before, after)


def _padding(m: _Maker) -> Mask:
    if m.choose.flip(0.3):
        return spec.Padding(m.lengths(2))
    queries = m.numbers.keep(m.B, m.T, share=0.8) if m.choose.flip() else None
    return spec.Padding(m.numbers.keep(m.B, m.S, share=m.share()), queries)


def _documents(m: _Maker) -> Mask:
    groups, rows = m.choose.integer(1, 4), (m.B,) if m.choose.flip() else ()
    return spec.Documents(m.numbers.ints(groups, *rows, m.T), m.numbers.ints(groups, *rows, m.S))


def _chunks(m: _Maker) -> Mask:
    start: Any = m.numbers.ints(6, m.B, low=-2) if m.choose.flip() else m.choose.integer(-3, 5)
    return spec.Chunks(m.choose.integer(1, 9), start)


def _blocks(m: _Maker) -> Mask:
    tile, align = m.choose.integer(1, 9), m.choose.one_of(["start", "end"])
    lead = m.choose.one_of([(), (m.H,), (m.B, m.H), (1, m.H), (m.B, 1)])
    return spec.Blocks(m.numbers.keep(*lead, -(-m.T // tile), -(-m.S // tile), share=m.share()), tile, align)


def _dense(m: _Maker) -> Mask:
    return spec.Dense(m.numbers.keep(*m.some(m.B, m.H, m.T, m.S), share=m.share()))


def _global(m: _Maker) -> Mask:
    if m.choose.flip():
        return spec.Global(m.numbers.ints(m.S + 1, m.B))
    return spec.Global(m.numbers.keep(*m.choose.one_of([(m.S,), (m.B, m.S)]), share=m.share()))


def _tree(m: _Maker) -> Mask:
    return spec.Tree([int(m.numbers.ints(n + 1, 1)) - 1 for n in range(m.T)])


def _spans(m: _Maker) -> Mask:
    b = (m.B,) if m.choose.integer(0, 1) else ()
    start, length = (m.numbers.ints(m.S + 3, *b, m.T, low=-2) for _ in range(2))
    return spec.Spans(start, start + length)


def _rule(m: _Maker) -> Mask:
    a, b, c = (m.choose.integer(1, 4) for _ in range(3))
    return spec.Rule(lambda bb, h, i, j: (a * i + b * j + h + bb) % (c + 1) != 0)


def _recipe(m: _Maker) -> Mask:
    few = m.choose.integer
    kinds: list[Callable[[], Mask]] = [
        lambda: recipes.longformer(2 * few(0, 4), m.numbers.keep(m.B, m.S, share=0.2)),
        lambda: recipes.bigbird(max(m.S, 1), m.H, size=few(1, 6), random=few(0, 2), seed=few(0, 9)),
        lambda: recipes.prefix_lm(m.lengths(2)),
        lambda: recipes.chunked_local(few(1, 9)),
        lambda: recipes.dilated(few(0, 4), few(1, 4), few(0, 2)),
        lambda: recipes.streaming(few(0, 3), few(1, 6)),
    ]
    return m.choose.one_of(kinds)()


_MASKS: dict[str, Callable[[_Maker], Mask]] = {
    "causal": _causal,
    "window": _window,
    "prefix": lambda m: spec.Prefix(m.lengths(3)),
    "padding": _padding,
    "documents": _documents,
    "chunks": _chunks,
    "blocks": _blocks,
    "dense": _dense,
    "global": _global,
    "strided": lambda m: spec.Strided(m.choose.integer(1, 5)),
    "tree": _tree,
    "spans": _spans,
    "rule": _rule,
    "recipe": _recipe,
}


def random_mask(make: _Maker, depth: int = 2) -> Mask:
    """A mask, or two of them joined by & or |."""
    if depth and make.choose.flip(0.4):
        one, other = random_mask(make, depth - 1), random_mask(make, depth - 1)
        return one & other if make.choose.flip() else one | other
    return _MASKS[make.choose.one_of(list(_MASKS))](make)


def _alibi(m: _Maker) -> Rules:
    places = m.numbers.ints(30, m.T) if m.choose.flip() else None
    keys = m.numbers.normal(m.B, m.S, size=9.0) if places is not None or m.choose.flip() else None
    return spec.Alibi(m.numbers.normal(*((m.B, m.H) if m.choose.flip() else (m.H,))), places, keys)


def _table(m: _Maker) -> Rules:
    return spec.RelativeBias(m.numbers.normal(m.H, m.choose.integer(1, 9)), m.choose.integer(-3, 12))


def _bias(m: _Maker) -> Rules:
    shape = m.some(m.B, m.H, m.T, m.S) if m.choose.flip(0.8) else []
    bias = m.numbers.normal(*shape)
    return spec.Bias(bias.masked_fill(~m.numbers.keep(*shape, share=0.8), -INF) if m.choose.flip() else bias)


def _own(m: _Maker) -> Rules:
    hidden = m.choose.integer(0, 3)
    return spec.ScoreRule(lambda s, b, h, i, j: (s * 0.9 + 0.1 * h).masked_fill((i + j + b) % 8 < hidden, -INF))


_RULES: tuple[Callable[[_Maker], Rules], ...] = (
    lambda m: spec.SoftCap(m.choose.one_of([0.3, 2.0, 50.0])),
    _alibi,
    _table,
    _bias,
    _own,
)


def _options(m: _Maker, Hk: int) -> dict[str, Any]:
    choose, numbers = m.choose, m.numbers
    found: dict[str, Any] = {}
    if choose.flip(0.8):
        found["mask"] = random_mask(m)
    rules = tuple(choose.one_of(_RULES)(m) for _ in range(choose.one_of([0, 0, 1, 1, 2, 3])))
    if rules:
        found["scores"] = rules
    if choose.flip(0.25):
        found["q_start"] = numbers.ints(20, m.B, low=-4) if choose.flip() else choose.integer(-4, 25)
    if choose.flip(0.25):
        found["sinks"] = numbers.normal(m.H, size=2.0)
    if choose.flip(0.2):
        shape = choose.one_of([(m.H,), (m.B, m.H), (m.B, m.H, m.T)])
        found["gate"] = numbers.normal(*shape) * numbers.keep(*shape, share=0.8)
    if choose.flip(0.2):
        found["dropout"] = choose.one_of([0.1, 0.5])
    if choose.flip(0.2) and Hk > 1:
        found["kv_heads"] = tuple(numbers.ints(Hk, m.H).tolist())
    if choose.flip(0.25):
        found["scale"] = choose.one_of([0.0, 0.1, -1.0, 3.0])
    return found


def _length(choose: Chooser, longest: int) -> int:
    """Mostly short, now and then longer or none."""
    short = min(19, longest)
    return choose.integer(*choose.one_of([(1, short)] * 8 + [(short, longest), (0, 0)]))


def random_call(choose: Chooser, dtype: torch.dtype = F64, longest: int = 70) -> Call:
    """One call: any sizes, mask, rules, options and strides.

    Args:
        choose: where choices come from, `Chance(seed)` or hypothesis.
        dtype: of the operands.
        longest: T and S at most, one call in five with one of 20 or more; one in five has no queries or no keys.

    Example:
        >>> import torch
        >>> from headwise.testing.fuzz import Chance, random_call
        >>> call = random_call(Chance(1), torch.float32)
        >>> call.run().out.dtype
        torch.float32
    """
    group, Hk = choose.one_of([(1, 1), (1, 2), (2, 1), (3, 2), (1, 3)])
    size = {
        "B": choose.integer(*choose.one_of([(1, 3)] * 9 + [(0, 0)])),
        "H": group * Hk,
        "T": _length(choose, longest),
        "S": _length(choose, longest),
    }
    numbers = Draw(dtype, choose.integer(0, 2**31))
    make = _Maker(choose, numbers, **size)
    call = numbers.call(Hk=Hk, D=choose.integer(1, 4), E=choose.integer(1, 4), **size, **_options(make, Hk))
    if choose.flip():
        swap = choose.one_of([(0, 2, 1, 3), (2, 1, 0, 3), (0, 1, 3, 2)])
        back = [swap.index(axis) for axis in range(4)]
        q, k, v = (x.permute(swap).contiguous().permute(back) for x in (call.q, call.k, call.v))
        call = Call(q, k, v, call.options)
    return call


def spoil(call: Call, choose: Chooser) -> Call:
    """The same call with NaN and inf in some entries of q, k and v, whoever sees them."""
    parts = [x.clone() for x in (call.q, call.k, call.v)]
    for _ in range(choose.integer(1, 3)):
        x = choose.one_of(parts)
        if x.numel():
            x[tuple(choose.integer(0, n - 1) for n in x.shape)] = choose.one_of([NAN, INF, -INF])
    return Call(parts[0], parts[1], parts[2], call.options)


def random_calls(count: int, dtype: torch.dtype = F64, seed: int = 0) -> Iterator[Call]:
    """So many calls from a seed; every fourth has NaN and inf in its operands.

    Example:
        >>> import torch
        >>> from headwise.testing.fuzz import random_calls, same_as_reference
        >>> for call in random_calls(5, torch.float64):
        ...     same_as_reference(call, "blocked")
    """
    for n in range(count):
        choose = Chance(seed * 1_000_003 + n)
        call = random_call(choose, dtype)
        yield spoil(call, choose) if n % 4 == 3 else call


def calls(dtype: torch.dtype = F64, *, spoiled: bool = False, longest: int = 70) -> Any:
    """A strategy of hypothesis: random calls, which it shrinks to small ones where it finds a fault.

    Args:
        dtype: of the operands.
        spoiled: with NaN and inf in some entries.
        longest: T and S at most.

    Returns:
        A ``SearchStrategy`` of `Call`, for ``hypothesis.given``.

    Raises:
        ImportError: hypothesis is not installed; `random_calls` needs none.

    Example:
        >>> import hypothesis, torch
        >>> from headwise.testing.fuzz import calls, same_as_reference
        >>> few = hypothesis.settings(max_examples=3, deadline=None, database=None, derandomize=True)
        >>> @few
        ... @hypothesis.given(calls(torch.float32))
        ... def test_mine(call):
        ...     same_as_reference(call, "blocked")
        >>> test_mine()
    """
    from hypothesis import strategies as st

    @st.composite
    def drawn(draw: Any) -> Call:
        choose = _Hypothesis(draw, st)
        call = random_call(choose, dtype, longest)
        return spoil(call, choose) if spoiled else call

    return drawn()


def same_as_reference(call: Call, backend: Any) -> str | None:
    """Output and log-sum-exp of a call are those of the reference in float64, within the budget that torch needs.

    Returns:
        The reason why the backend refuses the call; None where it was compared.

    Raises:
        AssertionError: they are not, with numbers.

    Example:
        >>> import torch
        >>> from headwise.testing.fuzz import Chance, random_call, same_as_reference
        >>> same_as_reference(random_call(Chance(0), torch.float32), "blocked")
    """
    name = backend if isinstance(backend, str) else backend.name
    try:
        got = call.run(backend)
    except UnsupportedError as error:
        return error.reasons.get(name) or str(error)
    exact = call.to(F64).run("reference")
    if call.q.dtype == F64:
        out_budget, lse_budget = 1e-10, 1e-10
    else:
        out_budget, lse_budget = _budgets(call.finite(), "sdpa" if name == "sdpa" else "")
    within(got.out, exact.out, out_budget, "out")
    within(got.lse, exact.lse, lse_budget, "lse")
    return None


def _budgets(call: Call, kind: str) -> tuple[float, float]:
    """Of output and log-sum-exp: what torch needs, and no less than a few roundings of the largest numbers.

    A call of few cells may be one where torch is hardly off by chance, and there is no second one to measure.
    """
    exact = call.to(F64).run("reference")
    score = float(finite_part(exact.lse).abs().max()) if exact.lse.numel() else 0.0
    size = max([1.0, *(float(x.abs().max()) for x in (exact.out, call.v) if x.numel())])
    forms = [form for form in (fused(call), three_op(call)[0]) if form is not None]
    rounded = spacing(size, call.q.dtype) + 8 * spacing(size * max(1.0, score), F32)
    measured = call if kind == "sdpa" else call.to(F32)
    lse = allowed(exact.lse, [three_op(measured)[1]], F32)
    return max(allowed(exact.out, forms, call.q.dtype), rounded), max(lse, 8 * spacing(max(1.0, score), F32))
