"""Heads as things to study: what each head of a model does, each score beside its chance level."""

from headwise.heads.scores import KINDS, MIXED, Head, Kind, Reading, kind_of, lift, score_heads

__all__ = ["KINDS", "MIXED", "Head", "Kind", "Reading", "kind_of", "lift", "score_heads"]
