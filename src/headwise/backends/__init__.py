"""The backends in the order in which they are tried, and the choice among them."""

from __future__ import annotations

from typing import Any

from headwise.backends.blocked import Blocked
from headwise.backends.compiled import ABSENT, say_absent
from headwise.backends.observing import Settled, survey
from headwise.backends.protocol import Backend, Result, RowFacts, Tangents
from headwise.backends.reference import Reference
from headwise.backends.sdpa import Sdpa
from headwise.errors import SpecError, SpeedWarning, UnavailableError, UnsupportedError, sentence, warn
from headwise.plan import Plan

__all__ = [
    "TABLE",
    "Backend",
    "Blocked",
    "Reference",
    "Result",
    "RowFacts",
    "Settled",
    "Tangents",
    "all_reasons",
    "choose",
    "quick",
    "running",
    "stored",
    "survey",
    "turn",
]

RESERVED = {
    "flex": "the flex backend does not exist yet",
    "triton": "the triton backend does not exist yet",
}

if ABSENT is None:
    from headwise.backends.native import Native, quick, running, stored, turn

    _NATIVE: tuple[Backend, ...] = (Native(),)
else:
    RESERVED["native"] = (
        f"the native CPU kernels are not here ({ABSENT}); with a C++17 compiler and Python's headers,"
        " HEADWISE_REQUIRE_NATIVE=1 pip install --force-reinstall --no-deps --no-cache-dir . in a checkout of headwise"
        " builds them or says why it cannot"
    )
    _NATIVE = ()

    def quick(*_: Any) -> None:  # type: ignore[misc]
        """Nothing is quick without the kernels."""

    def running() -> str:
        """No kernels run."""
        return "no kernels"

    def stored(*_: Any) -> None:  # type: ignore[misc]
        """Nothing is read as it lies without the kernels."""

    def turn(*_: Any) -> None:  # type: ignore[misc]
        """Nothing turns without the kernels."""


# The first that does not refuse computes the output: the fastest first, the definition last.
TABLE: tuple[Backend, ...] = (*_NATIVE, Sdpa(), Blocked(), Reference())
_FASTEST = _NATIVE[0] if _NATIVE else None  # whoever is computed by it has nothing to be told


def choose(who: str, plan: Plan, wanted: Any, *, runs: bool = True) -> Backend:
    """The backend for a plan: the one that is named, or else the first in the table that does not refuse.

    Args:
        who: who asks, for messages.
        plan: the call.
        wanted: a name, a backend, or None.
        runs: whether it is going to compute the plan; warnings of what that takes are for whoever waits for it.

    Raises:
        SpecError: there is no backend of that name.
        UnavailableError: the name is reserved.
        UnsupportedError: the named backend refuses; it never falls back.
    """
    if wanted is not None:
        return _named(who, plan, wanted)
    for backend in TABLE:
        if backend.refuse(plan) is None:
            if runs and backend is not _FASTEST:
                _say_slow(who, plan, backend)
            return backend
    raise AssertionError("the reference backend refuses nothing")


def all_reasons(plan: Plan) -> dict[str, str]:
    """What every backend says of a plan."""
    said = {name: why for name, why in RESERVED.items() if name == "native"}
    for backend in TABLE:
        said[backend.name] = backend.refuse(plan) or "can run"
    return {**said, **{name: why for name, why in RESERVED.items() if name not in said}}


def _named(who: str, plan: Plan, wanted: Any) -> Backend:
    backend = wanted
    if isinstance(wanted, str):
        if wanted in RESERVED:
            raise UnavailableError(sentence(who, f"backend {wanted!r} is not available", RESERVED[wanted]))
        by_name = {backend.name: backend for backend in TABLE}
        if wanted not in by_name:
            raise SpecError(sentence(who, f"there is no backend {wanted!r}", f"there are {', '.join(by_name)}"))
        backend = by_name[wanted]
    elif isinstance(wanted, type) or not isinstance(wanted, Backend):
        raise SpecError(
            sentence(
                who, f"backend is {wanted!r}", "a backend is a name or an object with name, refuse, forward, backward"
            )
        )
    reason = backend.refuse(plan)
    if reason is not None:
        raise UnsupportedError(sentence(who, f"backend {backend.name!r} refuses", reason), {backend.name: reason})
    return backend


_warned: set[str] = set()


def _say_slow(who: str, plan: Plan, backend: Backend) -> None:
    """Says once that there are no kernels, and once for each reason that the pattern will be formed in full."""
    if not _NATIVE:
        say_absent(who, plan)
    if backend is not TABLE[-1]:
        return
    reason = TABLE[-2].refuse(plan) or ""
    if reason in _warned:
        return
    _warned.add(reason)
    warn(
        sentence(
            who,
            "the reference backend runs, which forms the whole T x S pattern",
            f"{TABLE[-2].name} refuses: {reason}",
        ),
        SpeedWarning,
    )
