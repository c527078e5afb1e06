"""Whole models: loading them, running their attention through headwise, and watching every head of them."""

from headwise.models.everywhere import everywhere
from headwise.models.load import load
from headwise.models.observe import Answers, Seen, observe
from headwise.models.sites import sites
from headwise.models.trace import Trace, trace
from headwise.models.using import restore, use

__all__ = ["Answers", "Seen", "Trace", "everywhere", "load", "observe", "restore", "sites", "trace", "use"]
