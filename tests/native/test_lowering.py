"""What becomes of a plan: what is refused and why, and how little a mask costs in numbers of its own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from typing_extensions import Self

import headwise as hw
from headwise.plan import make_plan
from headwise.spec import AttentionSpec

kernels = pytest.importorskip(
    "headwise._native", reason="no native kernels here: there was no compiler; run: make native"
)

from headwise.backends.native import Native  # noqa: E402
from headwise.backends.native.lowering import lower  # noqa: E402

X = torch.zeros(1, 2, 5, 8)


def said(*operands: Tensor, **options: Any) -> str | None:
    return Native().refuse(make_plan("test", *operands, AttentionSpec(**options)))


class Wrapped(torch.Tensor):
    """A tensor that keeps its numbers elsewhere, as those of quantization libraries do."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> Self:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)  # type: ignore[attr-defined]

    def __init__(self, inner: Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inside = [x.inner if isinstance(x, Wrapped) else x for x in args]
        return func(*inside, **(kwargs or {}))


def many(n: int) -> hw.spec.Mask:
    """n masks that no run can say."""
    mask: hw.spec.Mask = hw.Dense(torch.ones(5, 5).bool())
    for _ in range(n - 1):
        mask = mask & hw.Dense(torch.ones(5, 5).bool())
    return mask


def deep(n: int) -> hw.spec.Mask:
    """n masks, each inside the right side of the one before."""
    mask: hw.spec.Mask = hw.Dense(torch.ones(5, 5).bool())
    for turn in range(n - 1):
        mask = hw.Dense(torch.ones(5, 5).bool()) | mask if turn % 2 else hw.Dense(torch.ones(5, 5).bool()) & mask
    return mask


WIDE = torch.zeros(1, 1, 2, 577)


@pytest.mark.parametrize(
    ("operands", "options", "reason"),
    [
        ([X.double()] * 3, {}, "the operands are torch.float64, and the kernels compute in float32"),
        ([WIDE, WIDE, WIDE[..., :4]], {}, "a head is 577 wide (D=577, E=4), and the kernels take widths up to 576"),
        ([WIDE[..., :4], WIDE[..., :4], WIDE], {}, "a head is 577 wide (D=4, E=577)"),
        ([X, *[X[:, :, :1].expand(1, 2, 2**31, 8)] * 2], {}, "there are 2147483648 tokens (T=5, S=2147483648)"),
        ([X] * 3, {"mask": hw.Rule(lambda b, h, i, j: j < i)}, "only Python knows which cells a Rule keeps"),
        ([X] * 3, {"scores": (hw.ScoreRule(lambda s, b, h, i, j: s),)}, "only Python knows what a ScoreRule makes"),
        ([X] * 3, {"scores": (hw.SoftCap(2.0),) * 9}, "there are 9 score rules, and the kernels hold 8"),
        ([X] * 3, {"scores": (hw.Bias(torch.zeros(5, 5).double()),)}, "the Bias is torch.float64"),
        ([X] * 3, {"mask": many(17)}, "the mask combines up to 33 conditions"),
        ([X] * 3, {"mask": deep(9)}, "17 conditions, 9 deep, and the kernels hold 32, 8 deep"),
        ([Wrapped(X), X, X], {}, "a Wrapped keeps its numbers where only its own class finds them"),
        ([X] * 3, {"sinks": Wrapped(torch.zeros(2))}, "a Wrapped keeps its numbers"),
    ],
)
def test_refusals(operands: list[Tensor], options: dict[str, Any], reason: str) -> None:
    assert reason in str(said(*operands, **options))


@pytest.mark.parametrize(
    "options",
    [
        {"scores": (hw.SoftCap(2.0),) * 8},
        {"scores": (hw.Alibi(torch.zeros(2).double()), hw.RelativeBias(torch.zeros(2, 3).double(), 1))},
        {"mask": many(16)},
        {"mask": deep(8)},
        {"mask": hw.Causal() & (hw.Prefix(3) | hw.Window(1, 1)) & hw.Padding(torch.tensor([4]))},
    ],
)
def test_up_to_there_it_runs(options: dict[str, Any]) -> None:
    q, k, v = (torch.randn(1, 2, 5, 8) for _ in range(3))
    assert said(q, k, v, **options) is None
    torch.testing.assert_close(
        hw.attention(q, k, v, **options, backend="native"), hw.attention(q, k, v, **options, backend="reference")
    )


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # by torch itself, at the first dual number
def test_a_forward_mode_tangent_is_not_lost() -> None:
    """The kernels would return numbers without it."""
    from torch.autograd import forward_ad

    from headwise.backends import quick

    q, k, v = (torch.randn(1, 2, 5, 8) for _ in range(3))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(q, torch.ones_like(q))
        assert "forward-mode tangent" in str(said(dual, k, v))
        assert said(q, k, v) is None
        assert quick(dual, k, v, None, None, None, None) is None


N = 1_000_000
LONG = torch.zeros(1, 1, 1, 4).expand(1, 1, N, 4)


def held(mask: hw.spec.Mask) -> int:
    """Bytes of the tensors that lowering a mask of a million tokens made."""
    lowered = lower(make_plan("test", LONG, LONG, LONG, AttentionSpec(mask=mask)))
    theirs = {x.data_ptr() for x in (LONG, *mask.tensors())}
    return sum(x.numel() * x.element_size() for x in lowered.held if x.data_ptr() not in theirs)


KEEP = torch.ones(1, N, dtype=torch.bool)


@pytest.mark.parametrize(
    ("mask", "size"),
    [
        (hw.Causal(), 0),
        (hw.Causal(align="start"), 0),
        (hw.Causal() & hw.Window(4095, 0), 0),
        (hw.Window(7, 2**60), 0),
        (hw.Prefix(7), 8),
        (hw.Causal() & hw.Padding(torch.tensor([999])), 8),
        (hw.Causal() & hw.Padding(torch.arange(N)[None] % (N // 4) > 3), 4 * 8),
        (hw.Causal() & hw.Chunks(8192), 8 * N),
        (hw.Causal() | hw.Prefix(7), 2 * 8 * N),
        (hw.Documents(torch.arange(N) // 1000) & hw.Causal(), 8 * N),
        (hw.Padding(KEEP, queries=KEEP), 8 * N),
        (hw.Padding(torch.arange(N)[None] % 1000 > 3), 8),  # a thousand runs: their hull, and the mask read in place
        (hw.Dense(KEEP) & hw.Causal(), 8),
    ],
    ids=str,
)
def test_what_a_mask_of_a_million_tokens_takes(mask: hw.spec.Mask, size: int) -> None:
    """Nothing in closed form, and where there are runs 8 bytes a query and run, once where all queries see the same."""
    assert held(mask) == size


@pytest.mark.parametrize("runs", [1, 2, 31, 32, 33, 40])
def test_padding_of_few_and_of_many_runs(runs: int) -> None:
    """Up to 32 runs are a table; from then on the mask is read where it lies."""
    S = 4 * runs + 1
    keep = torch.zeros(2, S, dtype=torch.bool)
    keep[:, 1 : 4 * runs : 4] = True
    keep[1, 2 : 4 * runs : 8] = True
    q, k, v = torch.randn(2, 1, 7, 4), torch.randn(2, 1, S, 4), torch.randn(2, 1, S, 4)
    for mask in (hw.Padding(keep), hw.Padding(keep, queries=torch.rand(2, 7) < 0.7), hw.Causal() & hw.Padding(keep)):
        want = hw.attention(q, k, v, mask=mask, backend="reference")
        torch.testing.assert_close(hw.attention(q, k, v, mask=mask, backend="native"), want)


def test_tables_of_several_blocks_of_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks may differ in how many runs a row has; the shorter are filled up with empty runs."""
    from headwise.backends.native import masks

    monkeypatch.setattr(masks, "ROWS", 5)
    q, k, v = torch.randn(2, 1, 23, 4), torch.randn(2, 1, 29, 4), torch.randn(2, 1, 29, 4)
    ids = (torch.arange(23) // 6, torch.arange(29) % 3)
    holes = hw.Padding(torch.arange(29).expand(2, 29) % 5 != 2)
    for mask in (
        hw.Documents(*ids),
        holes & hw.Chunks(4),
        hw.Chunks(7, torch.tensor([1, 3])) | hw.Window(2, 0),
        hw.Blocks(torch.rand(12, 15) < 0.4, 2),
    ):
        want = hw.attention(q, k, v, mask=mask, backend="reference")
        torch.testing.assert_close(hw.attention(q, k, v, mask=mask, backend="native"), want)
