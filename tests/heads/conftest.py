"""The tiny models of tests/models, for tests of their heads."""

from __future__ import annotations

from zoo import quiet, zoo

__all__ = ["quiet", "zoo"]
