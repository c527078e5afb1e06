"""Keys and values in pages and in eight bits: whoever reads them, as they lie, reads the tensor they stand for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

import headwise as hw
from headwise.backends import running
from headwise.nn.quantised import quantised

F32, BF16, F16, F64 = torch.float32, torch.bfloat16, torch.float16, torch.float64
NAN = float("nan")


def paged(x: Tensor, size: int) -> hw.Paged:
    """A tensor [B,Hk,S,W] cut into pages in any order, between pages of NaN, the rest of the last page NaN."""
    B, Hk, S, W = x.shape
    columns = -(-S // size)
    table = torch.randperm(B * columns + 3)[: B * columns].view(B, columns).int()
    pool = torch.full((B * columns + 3, Hk, size, W), NAN, dtype=x.dtype)
    for b in range(B):
        for j in range(S):
            pool[table[b, j // size], :, j % size] = x[b, :, j]
    return hw.Paged(pool, table, S)


def eight_bits(x: Tensor) -> hw.Quantised:
    numbers, scales = quantised(x)
    return hw.Quantised(numbers, scales.squeeze(-1), x.dtype)


def call(dtype: torch.dtype, T: int, S: int, D: int, E: int, Hk: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(T + S)
    return tuple(torch.randn(2, h, n, w).to(dtype) for h, n, w in ((4, T, D), (Hk, S, D), (Hk, S, E)))  # type: ignore[return-value]


SIZES = [(1, 300, 64, 64), (1, 33, 5, 7), (2, 700, 24, 40), (64, 513, 32, 16), (7, 7, 3, 3), (1, 2100, 16, 16)]
OPTIONS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "causal": {"mask": hw.Causal()},
    "window": {"mask": hw.Window(9, 0) | hw.Prefix(2)},
    "everything": {
        "mask": hw.Causal() & hw.Padding(torch.tensor([5, 2000])), "scores": (hw.SoftCap(2.0), hw.Alibi(torch.rand(4))),
        "sinks": torch.ones(4), "gate": torch.tensor([1.0, 0.0, 2.0, 1.0]), "scale": 0.4,
    },
}  # fmt: skip


@pytest.mark.parametrize("options", list(OPTIONS))
@pytest.mark.parametrize("dtype", [F32, BF16, F16, F64], ids=str)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_pages_and_eight_bits_are_what_they_stand_for(
    sizes: tuple[int, int, int, int], dtype: torch.dtype, options: str
) -> None:
    q, k, v = call(dtype, *sizes)
    asked = OPTIONS[options]
    want = hw.attention(q, k, v, **asked)
    for size in (1, 3, 16):
        for keys, values in ((paged(k, size), paged(v, size)), (paged(k, size), v)):
            got = hw.attention(q, keys, values, **asked)
            if dtype == F64:  # by torch's products, whose order of summing follows the strides
                torch.testing.assert_close(got, want, atol=1e-12, rtol=0)
            else:
                assert torch.equal(got, want)
    small, light = eight_bits(k), eight_bits(v)
    got, whole = hw.attention(q, small, light, **asked), hw.attention(q, small.dense(), light.dense(), **asked)
    assert got.dtype == dtype
    if dtype in (F16, BF16):  # the tensor that they stand for rounds every number
        assert torch.equal(got, whole)
    else:
        tolerance = 1e-12 if dtype == F64 else 3e-6
        torch.testing.assert_close(got, whole, atol=tolerance * float(v.abs().max()), rtol=tolerance)
    assert torch.equal(small.dense(), (small.numbers.double() * small.scales.double()[..., None]).to(dtype))


def test_they_lie_where_they_are() -> None:
    """No tensor of the past is made for a token: the largest that torch allocates is the output."""
    if not running().startswith(("avx", "neon", "portable")):
        pytest.skip("without the kernels they are made dense")
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        elements = 0

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = func(*args, **(kwargs or {}))
            if isinstance(out, Tensor) and out.untyped_storage().nbytes() > 0:
                self.elements = max(self.elements, out.untyped_storage().nbytes() // out.element_size())
            return out

    q, k, v = call(F32, 1, 4096, 16, 16)
    for keys, values in ((paged(k, 16), paged(v, 16)), (eight_bits(k), eight_bits(v))):
        with Largest() as made:
            hw.attention(q, keys, values, mask=hw.Causal())
        assert 0 < made.elements <= 4 * 4096, made.elements


@pytest.mark.parametrize("make", [lambda x: paged(x, 3), eight_bits], ids=["pages", "eight bits"])
def test_every_other_way_reads_them_too(make: Any) -> None:
    q, k, v = call(F32, 5, 11, 8, 6)
    keys, values = make(k), make(v)
    k, v = keys.dense(), values.dense()
    want = hw.attend(q, k, v, mask=hw.Causal(), observe=[hw.Entropy(), hw.TopKeys(2)])
    got = hw.attend(q, keys, values, mask=hw.Causal(), observe=[hw.Entropy(), hw.TopKeys(2)])
    assert torch.equal(got.out, want.out)
    assert torch.equal(got.seen["entropy"], want.seen["entropy"])
    assert torch.equal(got.pattern.to_dense(), want.pattern.to_dense())
    for backend in ("reference", "blocked", None):
        near = hw.attention(q, keys, values, mask=hw.Causal(), backend=backend)
        torch.testing.assert_close(near, want.out, atol=2e-6, rtol=1e-5)
    assert hw.explain(q, keys, values).chosen == hw.explain(q, k, v).chosen
    assert torch.equal(keys.columns(2, 5).dense(), k[..., 2:5])
    leaf = q.clone().requires_grad_()
    hw.attention(leaf, keys, values, mask=hw.Causal()).sum().backward()
    again = q.clone().requires_grad_()
    hw.attention(again, k, v, mask=hw.Causal()).sum().backward()
    assert torch.equal(leaf.grad, again.grad)  # type: ignore[arg-type]
    dropped = []
    for a, b in ((keys, values), (k, v)):
        torch.manual_seed(1)
        dropped.append(hw.attention(q, a, b, dropout=0.5))
    assert torch.equal(*dropped)


def test_hidden_tokens_may_hold_anything() -> None:
    q, k, v = call(F32, 1, 40, 8, 8)
    want = hw.attention(q, k, v, mask=hw.Window(4, 0))
    k, v = k.clone(), v.clone()
    k[:, :, :30], v[:, :, :30] = NAN, NAN
    for keys, values in ((paged(k, 3), paged(v, 3)), (paged(k, 16), v)):
        assert torch.equal(hw.attention(q, keys, values, mask=hw.Window(4, 0)), want)

    def hidden(x: Tensor) -> hw.Quantised:
        """Where the last 10 tokens are shown, any numbers and scales of NaN before them."""
        stored = eight_bits(x)
        numbers, scales = stored.numbers.clone(), stored.scales.clone()
        numbers[:, :, :30], scales[:, :, :30] = -128, NAN
        return hw.Quantised(numbers, scales)

    keys, values = eight_bits(k.nan_to_num(0.5)), eight_bits(v.nan_to_num(0.5))
    want = hw.attention(q, keys, values, mask=hw.Window(4, 0))
    assert torch.equal(hw.attention(q, hidden(k), hidden(v), mask=hw.Window(4, 0)), want)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda p: hw.Paged(p, torch.tensor([[0, 3]], dtype=torch.int32), 3),
            "names pages 0 to 3; the pool has pages 0",
        ),
        (lambda p: hw.Paged(p, torch.tensor([[-1, 0]], dtype=torch.int32), 3), "the table names pages -1 to 0"),
        (lambda p: hw.Paged(p, torch.tensor([[0]], dtype=torch.int32), 3), "a page for every 2 of 3 tokens, so n is 2"),
        (lambda p: hw.Paged(p, torch.zeros(1, 2, dtype=torch.int64), 3), "of torch.int64; it is int32"),
        (lambda p: hw.Paged(p, torch.zeros(1, 2).int(), -3), "length is -3; it counts tokens"),
        (lambda p: hw.Paged(p, torch.zeros(1, 2).int(), 1.5), "length is 1.5; it counts tokens"),
        (lambda p: hw.Paged(p, torch.zeros(1, 2).int(), True), "length is True; it counts tokens"),
        (lambda p: hw.Paged(p, torch.zeros(1, 2).int().to("meta"), 3), "the table is on meta; it is on the CPU"),
        (
            lambda p: hw.Quantised(p.to(torch.int8), torch.zeros(3, 1, 2, device="meta")),
            "numbers are on cpu, scales on meta",
        ),
        (lambda p: hw.Paged(p[0], torch.zeros(1, 2, dtype=torch.int32), 3), r"a pool is \[pages,Hk,P,width\]"),
        (lambda p: hw.Quantised(p, torch.zeros(1)), "they are int8"),
        (lambda p: hw.Quantised(p.to(torch.int8), torch.zeros(3, 1)), r"one a token and head: \[3, 1, 2\]"),
        (
            lambda p: hw.attention(torch.zeros(1, 1, 1, 4, dtype=BF16), hw.Paged(p, torch.zeros(1, 2).int(), 3), p),
            "k is torch.float32, q is torch.bfloat16",
        ),
        (
            lambda p: hw.attention(torch.zeros(1, 1, 1, 5), hw.Paged(p, torch.zeros(1, 2).int(), 3), p[:1, :, :1]),
            "k has width 4, q has 5",
        ),
    ],
)
def test_bad_input(make: Any, said: str) -> None:
    with pytest.raises(hw.ShapeError, match=said):
        make(torch.zeros(3, 1, 2, 4))


def test_a_cache_looks_through_its_table_no_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """It made the table itself, and hands it on, checked or cut, at every token."""
    cache = hw.nn.PagedCache(page_size=2)
    k = torch.randn(1, 2, 5, 4)
    cache.append(k, k)
    monkeypatch.setattr(hw.Paged, "__post_init__", None)
    cache.append(k, k)
    keys, _ = cache.stored()
    assert keys.shape == (1, 2, 10, 4)
    assert torch.equal(keys.columns(1, 3).dense(), torch.cat((k, k), 2)[..., 1:3])
