"""Heads as things to study: what each head of a model does, each score beside its chance level."""

from headwise.heads.ablate import ablate
from headwise.heads.attribution import Attribution, Contributions, attribution, contributions
from headwise.heads.circuits import copying, directions, ov, qk, score_scale, virtual
from headwise.heads.composition import composition
from headwise.heads.curve import Curve, Point, pruning_curve
from headwise.heads.drift import Drift
from headwise.heads.factored import FactoredMatrix
from headwise.heads.frame import HeadTable
from headwise.heads.gates import Gates, train_gates
from headwise.heads.grouped import to_gqa, uptrain
from headwise.heads.importance import importance
from headwise.heads.knock_out import knock_out
from headwise.heads.patch import freeze, patch
from headwise.heads.paths import Paths, paths
from headwise.heads.prune import prune
from headwise.heads.random_tokens import random_token_scores
from headwise.heads.relations import RelationScore, relation_scores
from headwise.heads.retrieval import Needle, RetrievalScore, retrieval_scores
from headwise.heads.scores import KINDS, MIXED, Head, Kind, Reading, kind_of, lift, score_heads
from headwise.heads.table import head_table

__all__ = [
    "KINDS",
    "MIXED",
    "Attribution",
    "Contributions",
    "Curve",
    "Drift",
    "FactoredMatrix",
    "Gates",
    "Head",
    "HeadTable",
    "Kind",
    "Needle",
    "Paths",
    "Point",
    "Reading",
    "RelationScore",
    "RetrievalScore",
    "ablate",
    "attribution",
    "composition",
    "contributions",
    "copying",
    "directions",
    "freeze",
    "head_table",
    "importance",
    "kind_of",
    "knock_out",
    "lift",
    "ov",
    "patch",
    "paths",
    "prune",
    "pruning_curve",
    "qk",
    "random_token_scores",
    "relation_scores",
    "retrieval_scores",
    "score_heads",
    "score_scale",
    "to_gqa",
    "train_gates",
    "uptrain",
    "virtual",
]
