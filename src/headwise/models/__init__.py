"""Whole models: loading them, running their attention through headwise, and watching every head of them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headwise.models.everywhere import everywhere
from headwise.models.library import transformers
from headwise.models.load import load
from headwise.models.observe import Answers, Seen, observe
from headwise.models.sites import sites
from headwise.models.trace import Trace, read_trace, trace, tracing
from headwise.models.using import restore, use

if TYPE_CHECKING:
    from headwise.models.adapter import TransformersCache
    from headwise.models.cache import GrowingCache

__all__ = [
    "Answers",
    "GrowingCache",
    "Seen",
    "Trace",
    "TransformersCache",
    "everywhere",
    "load",
    "observe",
    "read_trace",
    "restore",
    "sites",
    "trace",
    "tracing",
    "use",
]


# Classes of transformers' own kind, and where they stand: each imports it.
_LATER = {"GrowingCache": "headwise.models.cache", "TransformersCache": "headwise.models.adapter"}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'headwise.models' has no attribute {name!r}")
    transformers(name, "cache_utils")  # says what to install where it is missing
    return getattr(import_module(_LATER[name]), name)
