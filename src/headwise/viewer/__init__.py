"""Seeing patterns: a page and a notebook widget that zoom a pattern like a map, and pictures of it."""

from headwise.viewer.answers import Answer, Answers, Cancelled
from headwise.viewer.axes import Axis, Grid, Tokens
from headwise.viewer.scene import COLOURS, TOO_FEW, Scene
from headwise.viewer.view import View, view

__all__ = [
    "COLOURS",
    "TOO_FEW",
    "Answer",
    "Answers",
    "Axis",
    "Cancelled",
    "Grid",
    "Scene",
    "Tokens",
    "View",
    "view",
]
