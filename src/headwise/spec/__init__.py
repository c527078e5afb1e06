"""What attention is asked for: masks, score rules and options, as small frozen values."""

from headwise.spec import recipes
from headwise.spec.attention import AttentionSpec
from headwise.spec.distance import Alibi, RelativeBias, T5Bias
from headwise.spec.geometry import Cells, Geometry
from headwise.spec.intervals import Intervals
from headwise.spec.masks import And, Mask, Or
from headwise.spec.positions import Causal, Chunks, Prefix, Window
from headwise.spec.scores import Bias, GridBias, Rules, ScoreRule, SoftCap
from headwise.spec.spans import Spans
from headwise.spec.sparse import Global, Strided, Tree
from headwise.spec.stored import Paged, Quantised, Stored
from headwise.spec.tokens import Documents, Padding
from headwise.spec.written import Blocks, Dense, Rule

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
    "Global",
    "GridBias",
    "Intervals",
    "Mask",
    "Or",
    "Padding",
    "Paged",
    "Prefix",
    "Quantised",
    "RelativeBias",
    "Rule",
    "Rules",
    "ScoreRule",
    "SoftCap",
    "Spans",
    "Stored",
    "Strided",
    "T5Bias",
    "Tree",
    "Window",
    "recipes",
]
