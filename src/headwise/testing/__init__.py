"""What headwise's own tests are made of, shipped for whoever writes a backend of their own.

``cases.CASES`` are named calls that together use every option; ``budget`` says how far from the exact numbers a float
result may be. A backend that answers every case within its budget, or refuses it with a reason, is a backend.
"""

from headwise.testing.budget import allowed, far, fused, spacing, three_op, within
from headwise.testing.cases import CASES, Call, Case, Draw, questions

__all__ = [
    "CASES",
    "Call",
    "Case",
    "Draw",
    "allowed",
    "far",
    "fused",
    "questions",
    "spacing",
    "three_op",
    "within",
]
