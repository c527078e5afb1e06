"""The exact numbers of a case, and how far a backend's may be from them: worked out once a case and dtype."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

from headwise.testing.budget import allowed, fused, spacing, three_op
from headwise.testing.calls import Call, Case
from headwise.testing.definition import Exact, define

__all__ = ["DTYPES", "SAME_F64", "budgets", "exact_gradients", "exact_of", "gradients", "weights"]

F64, F32 = torch.float64, torch.float32
DTYPES: dict[str, torch.dtype] = {"f64": F64, "f32": F32, "bf16": torch.bfloat16, "f16": torch.float16}
# The definition is float64 itself, so for float64 results there is nothing more exact to measure torch against: two
# ways to add up the same few numbers of size 1 differ by some units of 2e-16, and this is far from any real fault.
SAME_F64 = 1e-12


@cache
def exact_of(case: Case, dtype: torch.dtype) -> Exact:
    """What the definition says of a case, whose operands are rounded to a dtype first.

    Example:
        >>> import torch
        >>> from headwise.testing import CASES
        >>> from headwise.testing.truth import exact_of
        >>> exact_of(CASES["causal"], torch.float32).out.dtype
        torch.float64
    """
    return define(case.make(dtype))


@cache
def budgets(case: Case, dtype: torch.dtype, backend: str = "") -> tuple[float, float]:
    """How far output and log-sum-exp may be from the definition.

    Args:
        case: which one.
        dtype: of the operands.
        backend: its name. torch's own kernel is held to less: its exponentials are those of the operands' dtype.

    Example:
        >>> import torch
        >>> from headwise.testing import CASES
        >>> from headwise.testing.truth import budgets
        >>> max(budgets(CASES["causal"], torch.float32)) < 1e-5
        True
    """
    exact, call = exact_of(case, dtype), case.make(dtype)
    if dtype == F64:
        size = max([1.0, *(float(x.nan_to_num(0, 0, 0).abs().max()) for x in (exact.out, exact.lse) if x.numel())])
        return SAME_F64 * size, SAME_F64 * size
    if not case.gradients:  # something that is seen is not finite: measure where it is
        call = call.finite()
        exact = define(call)
    forms = [form for form in (fused(call), three_op(call)[0]) if form is not None]
    # Half-precision operands have a float32 log-sum-exp, so that is what torch is measured in.
    measured = call if backend == "sdpa" else call.to(F32)
    return allowed(exact.out, forms, dtype), allowed(exact.lse, [three_op(measured)[1]], F32)


def gradients(out: Tensor, lse: Tensor, leaves: dict[str, Tensor], factors: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """Derivatives of a fixed mixture of output and log-sum-exp (of rows that are not empty), by name of the leaf."""
    alive = lse != -torch.inf
    loss = (out * factors[0].to(out.dtype)).sum()
    loss = loss + (torch.where(alive, lse, 0.0) * factors[1].to(lse.dtype)).sum()
    if not loss.requires_grad:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    found = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if g is None else g for (name, leaf), g in zip(leaves.items(), found, strict=True)
    }


def weights(exact: Exact, dtype: torch.dtype, draw: int = 0) -> tuple[Tensor, Tensor]:
    """The mixture that is differentiated: of the output, and in float64 of log-sum-exp as well."""
    generator = torch.Generator(device="cpu").manual_seed(3 + draw)
    out, lse = (torch.randn(x.shape, generator=generator, dtype=F64, device="cpu") for x in (exact.out, exact.lse))
    return out.to(dtype), lse if dtype == F64 else torch.zeros_like(lse)


def _derivatives(made: Call, draw: int) -> tuple[dict[str, Tensor], list[dict[str, Tensor]]]:
    """Derivatives of one mixture by the definition, and of its output by torch's forms."""
    dtype = made.q.dtype
    call, leaves = made.fresh()
    exact = define(call)
    mixture = weights(exact, dtype, draw)
    wanted = {n: g.double() for n, g in gradients(exact.out, exact.lse, leaves, mixture).items()}
    if dtype == F64:
        return wanted, []
    call, leaves = made.finite().fresh()
    forms = [gradients(*three_op(call, as_fused=way), leaves, mixture) for way in (False, True)]
    out = fused(call)
    if out is not None:
        forms.append(gradients(out, torch.zeros(mixture[1].shape, dtype=dtype, device="cpu"), leaves, mixture))
    return wanted, forms


@cache
def exact_gradients(case: Case, dtype: torch.dtype) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Derivatives by the definition, through the output and (in float64) log-sum-exp, and how far one may be.

    How far torch's forms are is measured on four mixtures of the same output: over the few rows of a case one mixture
    is, now and then, hardly off by chance.

    Example:
        >>> import torch
        >>> from headwise.testing import CASES
        >>> from headwise.testing.truth import exact_gradients
        >>> wanted, budget = exact_gradients(CASES["sinks"], torch.float64)
        >>> sorted(wanted)
        ['k', 'q', 'sinks', 'v']
    """
    made = case.make(dtype)
    wanted, forms = _derivatives(made, 0)
    if dtype == F64:
        return wanted, {n: 1e-11 * max([1.0, float(g.abs().max())]) if g.numel() else 0.0 for n, g in wanted.items()}
    # The derivative is one result with several parts: where a part cancels to nothing (q of a row with one key), its
    # rounding is that of the sums it came from.
    whole, budget = torch.cat([g.flatten() for g in wanted.values()]), 0.0
    for exact, others in [(wanted, forms), *(_derivatives(made, draw) for draw in (1, 2, 3))]:
        joined = [torch.cat([g.flatten().double() for g in part.values()]) for part in (exact, *others)]
        budget = max(budget, allowed(joined[0], joined[1:], dtype))
    # It is rounded once more than an output is: the sums of the way there come back as factors of the way back.
    budget += spacing(float(whole.abs().max()), dtype) if whole.numel() else 0.0
    return wanted, dict.fromkeys(wanted, budget)
