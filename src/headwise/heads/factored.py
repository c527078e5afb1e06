"""A matrix of low rank, kept as the two thin factors it is made of."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise.errors import ShapeError, UnsupportedError, sentence
from headwise.pattern import DENSE_LIMIT

__all__ = ["FactoredMatrix", "Svd", "eigenvalue_ratios", "triangle"]


class Svd(NamedTuple):
    """A singular value decomposition: the matrix is ``u @ diag(s) @ v.T``.

    Attributes:
        u: left singular vectors [m, k], orthonormal columns.
        s: singular values [k], the largest first.
        v: right singular vectors [n, k], orthonormal columns.
    """

    u: Tensor
    s: Tensor
    v: Tensor


class FactoredMatrix:
    """The matrix M = A B of rank at most r, never formed: memory (m + n) r.

    The factors keep their dtype in products and entries. Norm, eigenvalues and singular values are worked out in
    float64 on r x r matrices, whatever the factors' dtype: they are cheap, and sums of squares lose half the digits.

    Args:
        a: A [m, r], a float dtype.
        b: B [r, n], of the same dtype.

    Raises:
        ShapeError: the factors are no matrices, or their inner sizes or dtypes differ.

    Example:
        >>> import torch
        >>> from headwise.heads.factored import FactoredMatrix
        >>> matrix = FactoredMatrix(torch.ones(50_000, 2), torch.ones(2, 50_000))
        >>> matrix.shape, matrix.rank, float(matrix[7, 9])
        ((50000, 50000), 2, 2.0)
        >>> round(matrix.norm()), round(matrix.trace())
        (100000, 100000)
    """

    def __init__(self, a: Tensor, b: Tensor) -> None:
        if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
            raise ShapeError(
                sentence(
                    "FactoredMatrix",
                    f"a is {tuple(a.shape)} of {a.dtype}, b is {tuple(b.shape)} of {b.dtype}",
                    "the factors are a [m, r] and b [r, n] of one dtype",
                )
            )
        self.a, self.b = a, b

    @property
    def shape(self) -> tuple[int, int]:
        """(m, n)."""
        return self.a.shape[0], self.b.shape[1]

    @property
    def rank(self) -> int:
        """r, the inner size of the factors; the matrix's rank is at most that."""
        return self.a.shape[1]

    @property
    def T(self) -> FactoredMatrix:
        """The transpose."""
        return FactoredMatrix(self.b.T, self.a.T)

    def __repr__(self) -> str:
        return f"FactoredMatrix([{self.shape[0]}, {self.shape[1]}], rank {self.rank})"

    def __matmul__(self, other: Tensor | FactoredMatrix) -> Any:
        """M times a vector or matrix, a Tensor; M times another factored matrix, a factored one of the smaller rank."""
        self._refuse_unless(self.shape[1], other.shape[0], other)
        if isinstance(other, FactoredMatrix):
            middle = self.b @ other.a
            if self.rank <= other.rank:
                return FactoredMatrix(self.a, middle @ other.b)
            return FactoredMatrix(self.a @ middle, other.b)
        return self.a @ (self.b @ other)

    def __rmatmul__(self, other: Tensor) -> Tensor:
        """Rows times M: [..., m] @ M is [..., n]."""
        self._refuse_unless(other.shape[-1], self.shape[0], other)
        return (other @ self.a) @ self.b

    def _refuse_unless(self, left: int, right: int, other: Any) -> None:
        if left != right:
            raise ShapeError(
                sentence(
                    "FactoredMatrix",
                    f"a product of {left} columns with {right} rows",
                    "the inner sizes of a product agree",
                    f"{self!r}, the other is {list(other.shape)}",
                )
            )

    def __getitem__(self, index: Any) -> Tensor:
        """Exact entries: ``m[rows, cols]``, each an int, a slice or indices; indices in both give the block, not pairs.

        A list or tensor of n indices is n rows or columns, so ``m[[1, 5], [2, 3, 4]]`` is 2 x 3.
        """
        rows, cols = index if isinstance(index, tuple) else (index, slice(None))
        a, b = self.a[_picked(rows)], self.b[:, _picked(cols)]
        cells = a.numel() // max(self.rank, 1) * (b.numel() // max(self.rank, 1))
        self._refuse_above(cells, "the entries asked for")
        return a @ b

    def _refuse_above(self, cells: int, what: str) -> None:
        if cells > DENSE_LIMIT:
            raise UnsupportedError(
                sentence(
                    "FactoredMatrix",
                    f"{what} are {cells:,} numbers, {cells * self.a.element_size() / 2**30:.1f} GiB",
                    f"at most {DENSE_LIMIT:,} are handed out at once",
                    repr(self),
                    "Ask for what you need instead: m[rows, cols], x @ m, m.svd(), m.eigenvalues(), m.norm().",
                )
            )

    def to_dense(self) -> Tensor:
        """The whole matrix [m, n].

        Raises:
            UnsupportedError: it has more entries than a pattern hands out; the message says what to ask instead.
        """
        self._refuse_above(self.shape[0] * self.shape[1], "all entries")
        return self.a @ self.b

    def norm(self) -> float:
        """Frobenius norm, the root of the sum of squares, from the r x r triangles of both factors."""
        return float(torch.linalg.matrix_norm(triangle(self.a) @ triangle(self.b.T).T))

    def trace(self) -> float:
        """Sum of the diagonal, which is the sum of the eigenvalues.

        Raises:
            ShapeError: the matrix is not square.
        """
        return float(self._turned().trace())

    def eigenvalues(self) -> Tensor:
        """The eigenvalues that may differ from 0, complex128 [r], the largest first: those of B A, which is r x r.

        A B and B A have the same eigenvalues but for zeros; where r exceeds m the rest of the m are zeros already.

        Raises:
            ShapeError: the matrix is not square.
        """
        found = torch.linalg.eigvals(self._turned())
        return found[found.abs().argsort(descending=True)]

    def eigenvalue_ratio(self) -> float:
        """Sum of the eigenvalues over the sum of their absolute values, in [-1, 1].

        1: all are positive reals, so along each eigenvector the matrix maps a thing to more of itself. It is evidence,
        no proof: eigenvectors need not be orthogonal. 0 for a matrix of zeros.

        Raises:
            ShapeError: the matrix is not square.

        Source:
            Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits", "Summarizing OV/QK Matrices".

        Example:
            >>> import torch
            >>> from headwise.heads.factored import FactoredMatrix
            >>> FactoredMatrix(torch.eye(3), torch.diag(torch.tensor([1.0, 2.0, -1.0]))).eigenvalue_ratio()
            0.5
        """
        return float(eigenvalue_ratios(self._turned()))

    def _turned(self) -> Tensor:
        if self.shape[0] != self.shape[1]:
            raise ShapeError(
                sentence("FactoredMatrix", f"the matrix is {self.shape}", "eigenvalues are those of a square matrix")
            )
        return self.b.double() @ self.a.double()

    def svd(self, k: int | None = None) -> Svd:
        """The largest k singular values and their vectors (None = all r), through QR of both factors.

        Vectors are in the factors' dtype. The sign of a pair is chosen so that the largest entry of ``u`` is positive.
        """
        qa, ra = torch.linalg.qr(self.a.double())
        qb, rb = torch.linalg.qr(self.b.T.double())
        u, s, vh = torch.linalg.svd(ra @ rb.T, full_matrices=False)
        u, s, v = qa @ u[:, :k], s[:k], qb @ vh.T[:, :k]
        peak = u.gather(0, u.abs().argmax(0, keepdim=True))
        sign = torch.where(peak < 0, -1.0, 1.0).to(u.dtype)
        return Svd((u * sign).to(self.a.dtype), s.to(self.a.dtype), (v * sign).to(self.a.dtype))


def eigenvalue_ratios(matrices: Tensor) -> Tensor:
    """Sum of the eigenvalues over the sum of their absolute values, for matrices [..., r, r]; 0 where all are 0."""
    found = torch.linalg.eigvals(matrices)
    total = found.abs().sum(-1)
    return torch.where(total > 0, found.sum(-1).real / total, torch.zeros_like(total))


def triangle(tall: Tensor) -> Tensor:
    """R of the QR decomposition, in float64: as long in every direction as the matrix itself."""
    return torch.linalg.qr(tall.double(), mode="r").R


def _picked(index: Any) -> Any:
    return torch.as_tensor(index, device="cpu") if isinstance(index, (list, range)) else index
