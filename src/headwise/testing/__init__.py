"""What headwise's own tests are made of, shipped for whoever writes a backend or a model of their own.

``CASES`` are named calls that together use every option, ``definition`` says in float64 what each of them is,
``budget`` how far a float result may be from that. `check_backend` asks a backend all of it, and so does
``python -m headwise.testing --backend NAME``: one that answers every case within its budget, or refuses it with a
reason, is a backend. ``fuzz`` draws further calls at random. `check_causal` finds the position of any model that sees a
later one.
"""

from headwise.testing.answers import answers
from headwise.testing.budget import allowed, far, fused, spacing, three_op, within
from headwise.testing.cases import CASES, Call, Case, Draw, questions
from headwise.testing.causal import Causality, Leak, check_causal
from headwise.testing.definition import Exact, define
from headwise.testing.fuzz import calls, random_call, random_calls, same_as_reference
from headwise.testing.suite import Report, check_backend

__all__ = [
    "CASES",
    "Call",
    "Case",
    "Causality",
    "Draw",
    "Exact",
    "Leak",
    "Report",
    "allowed",
    "answers",
    "calls",
    "check_backend",
    "check_causal",
    "define",
    "far",
    "fused",
    "questions",
    "random_call",
    "random_calls",
    "same_as_reference",
    "spacing",
    "three_op",
    "within",
]
