"""Low-rank matrices against the dense matrices they stand for, in float64."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from headwise.errors import ShapeError, UnsupportedError
from headwise.heads.factored import FactoredMatrix, eigenvalue_ratios
from headwise.pattern import DENSE_LIMIT


def factors(m: int, r: int, n: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    a, b = torch.randn(m, r, generator=generator, dtype=torch.float64), torch.randn(r, n, generator=generator).double()
    return a.to(dtype), b.to(dtype)


@pytest.fixture
def square() -> tuple[FactoredMatrix, Tensor]:
    a, b = factors(11, 3, 11)
    return FactoredMatrix(a, b), a @ b


def close(ours: Tensor, dense: Tensor, tolerance: float = 1e-12) -> None:
    torch.testing.assert_close(ours, dense, atol=tolerance, rtol=tolerance)


def test_products() -> None:
    (a, b), (c, d) = factors(7, 2, 5), factors(5, 4, 9, seed=1)
    one, two = FactoredMatrix(a, b), FactoredMatrix(c, d)
    x = torch.randn(3, 2, 7, dtype=torch.float64)
    close(x @ one, x @ (a @ b))
    close(one @ torch.ones(5, dtype=torch.float64), (a @ b).sum(1))
    close(one @ c, a @ b @ c)
    for product, rank in ((one @ two, 2), (two.T @ one.T, 2)):
        assert isinstance(product, FactoredMatrix)
        assert product.rank == rank
    close((one @ two).to_dense(), a @ b @ c @ d)
    close((two.T @ one.T).to_dense(), (a @ b @ c @ d).T)


def test_shape_and_transpose() -> None:
    a, b = factors(7, 2, 5)
    one = FactoredMatrix(a, b)
    assert (one.shape, one.rank, one.T.shape) == ((7, 5), 2, (5, 7))
    close(one.T.to_dense(), (a @ b).T)


def test_norm_and_trace(square: tuple[FactoredMatrix, Tensor]) -> None:
    ours, dense = square
    assert ours.norm() == pytest.approx(float(dense.square().sum().sqrt()), rel=1e-12)
    assert ours.trace() == pytest.approx(float(dense.diagonal().sum()), rel=1e-12)


def test_norm_keeps_its_digits_where_the_factors_nearly_cancel() -> None:
    """A B is 1e-5 of |A| |B|: a norm through Gram matrices in float32 has no digit left."""
    a = torch.randn(200, 2, dtype=torch.float64)
    b = torch.randn(1, 200, dtype=torch.float64)
    a, b = a.float(), torch.cat([b, -b * (1 + 1e-5)]).float()
    a[:, 1] = a[:, 0]
    dense = a.double() @ b.double()
    assert FactoredMatrix(a, b).norm() == pytest.approx(float(dense.norm()), rel=1e-6)


@pytest.mark.parametrize("rank", [3, 11, 14])
def test_eigenvalues_are_those_of_the_dense_matrix(rank: int) -> None:
    a, b = factors(11, rank, 11, seed=2)
    ours = FactoredMatrix(a, b).eigenvalues()
    dense = torch.linalg.eigvals(a @ b)
    assert ours.shape == (rank,)
    assert bool((ours.abs().diff() <= 1e-9).all())
    for value in ours:
        size = float(value.abs())
        assert size < 1e-9 or float((dense - value).abs().min()) < 1e-9 * max(1, size)
    close(ours.sum().real, dense.sum().real, 1e-9)
    expected = float(dense.sum().real / dense.abs().sum())
    assert FactoredMatrix(a, b).eigenvalue_ratio() == pytest.approx(expected, abs=1e-9)


def test_eigenvalue_ratio_of_known_matrices() -> None:
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]])
    stack = torch.stack([torch.eye(2), -torch.eye(2), turn, torch.zeros(2, 2)])
    assert eigenvalue_ratios(stack).tolist() == pytest.approx([1.0, -1.0, 0.0, 0.0], abs=1e-6)


def test_svd() -> None:
    a, b = factors(11, 4, 6)
    u, s, v = FactoredMatrix(a, b).svd()
    dense = torch.linalg.svdvals(a @ b)
    close(s, dense[:4])
    close(u @ s.diag() @ v.T, a @ b)
    close(u.T @ u, torch.eye(4, dtype=torch.float64))
    close(v.T @ v, torch.eye(4, dtype=torch.float64))
    assert bool((u.gather(0, u.abs().argmax(0, keepdim=True)) > 0).all())
    two = FactoredMatrix(a, b).svd(2)
    assert (two.u.shape, two.s.shape, two.v.shape) == ((11, 2), (2,), (6, 2))
    close(two.s, dense[:2])


@pytest.mark.parametrize(
    "index",
    [3, -1, slice(2, 5), (3, 4), (slice(None), 2), (slice(1, 9, 3), slice(None, 4)), torch.tensor([5, 0])],
    ids=str,
)
def test_entries(square: tuple[FactoredMatrix, Tensor], index: object) -> None:
    ours, dense = square
    close(ours[index], dense[index])  # type: ignore[index]


def test_indices_on_both_sides_are_a_block(square: tuple[FactoredMatrix, Tensor]) -> None:
    ours, dense = square
    close(ours[[1, 5], [2, 3, 4]], dense[[1, 5]][:, [2, 3, 4]])
    close(ours[range(2), torch.tensor([0])], dense[:2, :1])


def test_what_is_too_large_is_refused_with_what_to_ask() -> None:
    n = int(DENSE_LIMIT**0.5) + 1
    big = FactoredMatrix(torch.ones(n, 1), torch.ones(1, n))
    with pytest.raises(UnsupportedError, match=r"67,125,249 numbers, 0\.3 GiB.*rank 1.*Ask for.*m\.svd\(\)"):
        big.to_dense()
    with pytest.raises(UnsupportedError, match="the entries asked for"):
        big[:, :]
    assert big[: n - 2, : n - 2].shape == (n - 2, n - 2)
    assert big.norm() == pytest.approx(n)


def test_refusals() -> None:
    a, b = factors(7, 2, 5)
    for wrong in ((a, b.T), (a, b.float()), (a[0], b)):
        with pytest.raises(ShapeError, match=r"a \[m, r\] and b \[r, n\]"):
            FactoredMatrix(*wrong)
    one = FactoredMatrix(a, b)
    for product in (lambda: one @ torch.ones(7).double(), lambda: torch.ones(5).double() @ one, lambda: one @ one):
        with pytest.raises(ShapeError, match="columns with"):
            product()
    for asked in (one.trace, one.eigenvalues, one.eigenvalue_ratio):
        with pytest.raises(ShapeError, match="square"):
            asked()


def test_factors_in_half_precision_keep_their_dtype_and_have_exact_spectra() -> None:
    a, b = factors(9, 2, 9, dtype=torch.bfloat16)
    ours = FactoredMatrix(a, b)
    assert ours.svd().u.dtype == torch.bfloat16
    expected = torch.linalg.eigvals(a.double() @ b.double()).abs().max()
    close(ours.eigenvalues()[0].abs(), expected)
