"""Every case, dtype and promise asked of one backend, and what came of it as a table of plain text."""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from headwise.backends import TABLE, Backend
from headwise.errors import SpecError, sentence
from headwise.testing.calls import Case
from headwise.testing.cases import CASES
from headwise.testing.fuzz import random_calls, same_as_reference
from headwise.testing.promises import PROMISES, name_of, refusal
from headwise.testing.truth import DTYPES

__all__ = ["Finding", "Report", "backend_of", "check_backend"]

RANDOM = "random calls"
_REASONS = 8


@dataclass(frozen=True)
class Finding:
    """What came of one promise about one case.

    Attributes:
        case: its name, or the seed of a random call.
        dtype: "f64", "f32", "bf16" or "f16".
        promise: one of ``PROMISES``, "refusal", or "random calls".
        refused: the backend's reason; "" where it took the case.
        failed: what is wrong, with numbers; "" where nothing is.
    """

    case: str
    dtype: str
    promise: str
    refused: str = ""
    failed: str = ""


@dataclass
class Report:
    """All findings about a backend; ``str()`` is the table.

    Attributes:
        backend: its name.
        findings: in the order in which they were made.
    """

    backend: str
    findings: list[Finding] = field(default_factory=list)

    @property
    def failed(self) -> list[Finding]:
        """The findings that are faults."""
        return [found for found in self.findings if found.failed]

    @property
    def ok(self) -> bool:
        """Whether there is no fault, and at least one case was not refused."""
        return not self.failed and any(not found.refused for found in self.findings)

    def __str__(self) -> str:
        lines = [f"{self.backend}: {self._counted()}", ""]
        lines += [f"{'':16}{'passed':>9}{'refused':>9}{'failed':>9}"]
        for promise in dict.fromkeys(found.promise for found in self.findings):
            of = [found for found in self.findings if found.promise == promise]
            refused, failed = sum(bool(f.refused) for f in of), sum(bool(f.failed) for f in of)
            lines.append(f"{promise:16}{len(of) - refused - failed:9}{refused:9}{failed:9}")
        return "\n".join([*lines, *self._reasons(), *self._faults()])

    def _counted(self) -> str:
        cases = {found.case for found in self.findings if found.promise != RANDOM}
        dtypes = dict.fromkeys(found.dtype for found in self.findings)
        return f"{len(cases)} cases in {', '.join(dtypes) or 'no dtype'}"

    def _reasons(self) -> list[str]:
        """Each reason once, with how many calls it was given for."""
        calls = {(found.case, found.dtype): found.refused for found in self.findings if found.refused}
        said = Counter(calls.values())
        lines = [f"  {count} calls: {why}" for why, count in said.most_common(_REASONS)]
        more = [f"  and {len(said) - _REASONS} more reasons"] if len(said) > _REASONS else []
        return ["", "refused:", *lines, *more] if said else []

    def _faults(self) -> list[str]:
        """The first fault of each promise, and how many more there are."""
        lines = ["", "failed, the first of each:"] * bool(self.failed)
        for promise in dict.fromkeys(found.promise for found in self.failed):
            of = [found for found in self.failed if found.promise == promise]
            more = f" (and {len(of) - 1} more)" if len(of) > 1 else ""
            lines.append(f"  {promise}, {of[0].case!r} in {of[0].dtype}{more}: {of[0].failed}")
        return lines


def backend_of(name: str) -> str | Backend:
    """A backend by its name in headwise, or ``module:object`` for one of somebody else's, or a class that makes one.

    Raises:
        SpecError: there is no such backend, or the object is none.

    Example:
        >>> from headwise.testing.suite import backend_of
        >>> backend_of("headwise.backends:Blocked").name
        'blocked'
    """
    if ":" not in name:
        known = [backend.name for backend in TABLE]
        if name not in known:
            raise SpecError(sentence("backend", f"there is no backend {name!r}", f"there are {', '.join(known)}"))
        return name
    module, _, path = name.partition(":")
    rule = "module:object is a module that can be imported and an object in it"
    try:
        found: Any = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise SpecError(sentence("backend", f"{name!r} is not there ({error})", rule)) from error
    found = found() if isinstance(found, type) else found
    if not isinstance(found, Backend):
        raise SpecError(sentence("backend", f"{name!r} is {found!r}", "a backend has name, refuse, forward, backward"))
    return found


def check_backend(
    backend: str | Backend,
    dtypes: Iterable[str] = tuple(DTYPES),
    cases: Iterable[Case] | None = None,
    random: int = 0,
    progress: Callable[[str], Any] | None = None,
) -> Report:
    """Asks every promise about every case of a backend, against float64.

    The output, log-sum-exp, every built-in question, gradients, refusals, strides, operands that stay as they are, and
    the same bits on any number of threads. A float result may be ``2 * E + u`` from the exact one, `headwise.testing.
    allowed`. Nothing that a backend raises ends the check: it is a finding.

    Args:
        backend: a name, or an object with ``name``, ``refuse``, ``forward`` and ``backward``.
        dtypes: of "f64", "f32", "bf16", "f16".
        cases: which ones; None = all of ``CASES``.
        random: how many random calls are compared with the reference, too.
        progress: called with a line before each case.

    Returns:
        Report: ``.ok``, ``.failed``, ``.findings``; ``print(report)`` shows the table.

    Example:
        >>> from headwise.testing import CASES, check_backend
        >>> report = check_backend("blocked", ["f32"], [CASES["causal"], CASES["sinks"]])
        >>> print(report)
        blocked: 2 cases in f32
        <BLANKLINE>
                           passed  refused   failed
        output                  2        0        0
        answers                 2        0        0
        gradients               2        0        0
        operands kept           2        0        0
        strides                 2        0        0
        same bits               2        0        0
    """
    report = Report(name_of(backend))
    every = list(CASES.values() if cases is None else cases)
    for n, case in enumerate(every):
        if progress is not None:
            progress(f"{n + 1} of {len(every)}: {case.name}")
        for dtype in dtypes:
            report.findings += _of_case(case, dtype, backend)
    for dtype in dtypes if random else ():
        report.findings += _of_random(random, dtype, backend)
    return report


def _of_case(case: Case, dtype: str, backend: Any) -> Iterator[Finding]:
    found = _asked(lambda: refusal(case, DTYPES[dtype], backend))
    if isinstance(found, _Fault):
        yield Finding(case.name, dtype, "refusal", failed=found.text)
        return
    for name, promise in PROMISES.items():
        if found is not None:
            yield Finding(case.name, dtype, name, refused=found)
            continue
        fault = _asked(lambda promise=promise: promise(case, DTYPES[dtype], backend))
        yield Finding(case.name, dtype, name, failed=fault.text if isinstance(fault, _Fault) else "")


def _of_random(count: int, dtype: str, backend: Any) -> Iterator[Finding]:
    for seed, call in enumerate(random_calls(count, DTYPES[dtype])):
        found = _asked(lambda call=call: same_as_reference(call, backend))
        name = f"seed {seed}"
        if isinstance(found, _Fault):
            yield Finding(name, dtype, RANDOM, failed=found.text)
        else:
            yield Finding(name, dtype, RANDOM, refused=found or "")


@dataclass(frozen=True)
class _Fault:
    text: str


def _asked(question: Any) -> Any:
    """The answer to a question, or the fault that it met."""
    state = torch.get_rng_state()
    try:
        return question()
    except AssertionError as error:
        return _Fault(str(error))
    except Exception as error:  # noqa: BLE001  (a backend of somebody else's may raise anything, and that is a finding)
        return _Fault(f"it raised {type(error).__name__}: {error}".splitlines()[0])
    finally:
        torch.set_rng_state(state)
