"""``python -m headwise.testing --backend NAME``: a backend against the float64 definition, as a table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from headwise.errors import HeadwiseError
from headwise.testing.cases import CASES
from headwise.testing.suite import backend_of, check_backend
from headwise.testing.truth import DTYPES

__all__ = ["main"]


def main(words: Sequence[str] | None = None) -> int:
    """Runs the check that its words ask for; 0 where nothing failed, 1 where something did, 2 for wrong words."""
    parser = argparse.ArgumentParser(
        prog="python -m headwise.testing",
        description="Holds a backend to the float64 definition: every case, dtype and promise; some minutes.",
        epilog="Example: python -m headwise.testing --backend my_package.kernels:backend --dtype f32 --only causal",
    )
    parser.add_argument("--backend", required=True, help="a name, or module:object for a backend of your own")
    parser.add_argument("--dtype", action="append", choices=DTYPES, help="f64, f32, bf16 or f16; again for more; all")
    parser.add_argument("--only", action="append", metavar="TEXT", help="cases whose name holds this; again for more")
    parser.add_argument("--random", type=int, default=100, metavar="N", help="random calls a dtype (100)")
    asked = parser.parse_args(words)
    texts = asked.only or [""]
    cases = [case for name, case in CASES.items() if any(text in name for text in texts)]
    if not cases:
        parser.error(f"no case's name holds {' or '.join(map(repr, texts))}")
    try:
        backend, dtypes = backend_of(asked.backend), asked.dtype or list(DTYPES)
        report = check_backend(backend, dtypes, cases, asked.random, progress=_said if sys.stderr.isatty() else None)
    except HeadwiseError as error:
        parser.error(str(error))
    if sys.stderr.isatty():
        _said("")
    sys.stdout.write(f"{report}\n")
    return 0 if report.ok else 1


def _said(line: str) -> None:
    """One line that the next one writes over."""
    sys.stderr.write(f"\r\x1b[K{line}")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
