"""The native backend as one of a test's parameters: skipped where headwise was built without a compiler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from headwise.backends.compiled import ABSENT

__all__ = ["HERE", "NATIVE", "by_native", "with_dtypes"]

HERE = ABSENT is None
by_native = pytest.mark.skipif(not HERE, reason="built without native kernels; make native")
NATIVE = pytest.param("native", marks=by_native)


def with_dtypes(backends: Sequence[str], dtypes: Sequence[torch.dtype]) -> list[Any]:
    """Parameters (backend, dtype): each of the backends with each dtype, and native with those but float64."""
    pairs: list[Any] = [(backend, dtype) for backend in backends for dtype in dtypes]
    return pairs + [pytest.param("native", dtype, marks=by_native) for dtype in dtypes if dtype != torch.float64]
