"""Whether the compiled module is here, and what is said where it is not.

Its absence, and nothing else, leaves the native backend out.
"""

from __future__ import annotations

import os

import torch

from headwise.errors import SpeedWarning, UnavailableError, sentence, warn
from headwise.plan import Plan
from headwise.spec import Rule, ScoreRule

__all__ = ["ABSENT", "say_absent"]

#: Why there are no kernels: headwise was installed where there was no compiler. None where they are here.
ABSENT: str | None = None

# Any other failure to import, of the module or of the Python around it, is a fault that somebody has to see.
try:
    import headwise._native  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "headwise._native":
        raise
    ABSENT = str(error)
except ImportError as error:
    raise UnavailableError(
        sentence(
            "headwise",
            f"its compiled module {error.path or 'headwise._native'} does not load ({error})",
            "only where that file is absent does headwise run without its kernels",
            todo="Build it anew (pip install --force-reinstall --no-deps --no-cache-dir . in a checkout of headwise;"
            " make native if it is installed editable), or delete it: everything works without, more slowly.",
        )
    ) from error


_SILENT = "HEADWISE_WITHOUT_NATIVE"
_said = False


def say_absent(who: str, plan: Plan) -> None:
    """Warns of a call that the kernels would have computed, the first time; never under HEADWISE_WITHOUT_NATIVE=1."""
    global _said
    if _said or os.environ.get(_SILENT, "") not in ("", "0") or not _for_kernels(plan):
        return
    _said = True
    warn(
        sentence(
            who,
            "the native kernels are not there, so this and every later call is computed by torch, 2 to 7 times slower",
            "headwise was installed where they could not be compiled",
            todo="'headwise info' says how to get them. To run without them and not be told, set"
            f" {_SILENT}=1, or ignore the category headwise.errors.SpeedWarning.",
        ),
        SpeedWarning,
    )


def _for_kernels(plan: Plan) -> bool:
    """Whether the kernels would have taken a plan, as far as that can be said without them."""
    mask = plan.spec.mask
    of_python = mask is not None and any(isinstance(part, Rule) for part in mask.parts())
    of_python = of_python or any(isinstance(rule, ScoreRule) for rule in plan.spec.scores)
    on_cpu = plan.geometry.device.type == "cpu"
    return on_cpu and not of_python and plan.q.dtype in (torch.float32, torch.bfloat16, torch.float16)
