"""The native backend as one of a test's parameters: skipped where headwise was built without a compiler."""

from __future__ import annotations

import pytest

from headwise.backends import TABLE

HERE = any(backend.name == "native" for backend in TABLE)
NATIVE = pytest.param("native", marks=pytest.mark.skipif(not HERE, reason="built without native kernels; make native"))
