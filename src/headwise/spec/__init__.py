"""What attention is asked for: masks, score rules and options, as small frozen values."""

from headwise.spec.attention import AttentionSpec
from headwise.spec.geometry import Cells, Geometry
from headwise.spec.intervals import Intervals
from headwise.spec.masks import (
    And,
    Blocks,
    Causal,
    Chunks,
    Dense,
    Documents,
    Mask,
    Or,
    Padding,
    Prefix,
    Rule,
    Window,
)
from headwise.spec.scores import Alibi, Bias, RelativeBias, Rules, ScoreRule, SoftCap

__all__ = [
    "Alibi",
    "And",
    "AttentionSpec",
    "Bias",
    "Blocks",
    "Causal",
    "Cells",
    "Chunks",
    "Dense",
    "Documents",
    "Geometry",
    "Intervals",
    "Mask",
    "Or",
    "Padding",
    "Prefix",
    "RelativeBias",
    "Rule",
    "Rules",
    "ScoreRule",
    "SoftCap",
    "Window",
]
