"""Whole models: loading them, running their attention through headwise, and watching every head of them."""

from typing import TYPE_CHECKING, Any

from headwise.models.everywhere import everywhere
from headwise.models.library import transformers
from headwise.models.load import load
from headwise.models.observe import Answers, Seen, observe
from headwise.models.sites import sites
from headwise.models.trace import Trace, trace
from headwise.models.using import restore, use

if TYPE_CHECKING:
    from headwise.models.cache import GrowingCache

__all__ = [
    "Answers",
    "GrowingCache",
    "Seen",
    "Trace",
    "everywhere",
    "load",
    "observe",
    "restore",
    "sites",
    "trace",
    "use",
]


def __getattr__(name: str) -> Any:
    if name != "GrowingCache":
        raise AttributeError(f"module 'headwise.models' has no attribute {name!r}")
    transformers("GrowingCache", "cache_utils")  # says what to install where it is missing
    from headwise.models.cache import GrowingCache

    return GrowingCache
