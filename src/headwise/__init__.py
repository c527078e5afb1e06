"""headwise: multi-head attention whose pattern can be asked for anything and is never stored.

attention()  the output alone
attend()     the output, and answers about the pattern
Pattern      the T x S pattern as a lazy object: index it, zoom it, reduce it
observe()    the same questions asked of every head of a whole model while it runs
"""

from typing import Any

from headwise import spec
from headwise.errors import HeadwiseError, ShapeError, SpecError, UnavailableError, UnsupportedError
from headwise.observers import (
    Contribution,
    Crop,
    Entropy,
    LogSumExp,
    Map,
    MassOn,
    MassWhere,
    MaxLogit,
    Offsets,
    Received,
    Segments,
    TopKeys,
)
from headwise.ops import attend, attention, explain
from headwise.pattern import Pattern
from headwise.spec import (
    Alibi,
    Bias,
    Blocks,
    Causal,
    Chunks,
    Dense,
    Documents,
    Global,
    Padding,
    Paged,
    Prefix,
    Quantised,
    RelativeBias,
    Rule,
    ScoreRule,
    SoftCap,
    Spans,
    Strided,
    Tree,
    Window,
)
from headwise.spec import recipes as masks

__version__ = "0.1.0"

# Loaded on first use, from where it stands; "" is a package of ours. `import headwise` costs torch and nothing heavy.
_LATER = {
    "MultiHeadAttention": "headwise.nn",
    "ablate": "headwise.heads",
    "decompositions": "headwise.exporting",
    "everywhere": "headwise.models",
    "freeze": "headwise.heads",
    "head_table": "headwise.heads",
    "heads": "",
    "importance": "headwise.heads",
    "knock_out": "headwise.heads",
    "load": "headwise.models",
    "models": "",
    "nn": "",
    "observe": "headwise.models",
    "patch": "headwise.heads",
    "prune": "headwise.heads",
    "restore": "headwise.models",
    "sites": "headwise.models",
    "to_gqa": "headwise.heads",
    "trace": "headwise.models",
    "use": "headwise.models",
    "view": "headwise.viewer",
}

__all__ = [
    "Alibi",
    "Bias",
    "Blocks",
    "Causal",
    "Chunks",
    "Contribution",
    "Crop",
    "Dense",
    "Documents",
    "Entropy",
    "Global",
    "HeadwiseError",
    "LogSumExp",
    "Map",
    "MassOn",
    "MassWhere",
    "MaxLogit",
    "MultiHeadAttention",
    "Offsets",
    "Padding",
    "Paged",
    "Pattern",
    "Prefix",
    "Quantised",
    "Received",
    "RelativeBias",
    "Rule",
    "ScoreRule",
    "Segments",
    "ShapeError",
    "SoftCap",
    "Spans",
    "SpecError",
    "Strided",
    "TopKeys",
    "Tree",
    "UnavailableError",
    "UnsupportedError",
    "Window",
    "ablate",
    "attend",
    "attention",
    "decompositions",
    "everywhere",
    "explain",
    "freeze",
    "head_table",
    "heads",
    "importance",
    "knock_out",
    "load",
    "masks",
    "models",
    "nn",
    "observe",
    "patch",
    "prune",
    "restore",
    "sites",
    "spec",
    "to_gqa",
    "trace",
    "use",
    "view",
]


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'headwise' has no attribute {name!r}")
    from importlib import import_module

    home = _LATER[name]
    return getattr(import_module(home), name) if home else import_module(f"headwise.{name}")


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__"})
