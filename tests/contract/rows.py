"""Every row of USER_CASES A1 to A10, and what holds it: a test, a benchmark, or why nothing does yet."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EXPECTED", "ROWS", "Bench", "Held", "NotYet"]


@dataclass(frozen=True)
class Held:
    """Tests of tests/contract whose docstrings name the row, or those of elsewhere: "folder/file.py::test"."""

    elsewhere: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bench:
    """What is measured: a part of the names of benchmarks."""

    named: str


@dataclass(frozen=True)
class NotYet:
    """Why there is no test."""

    why: str


def _numbers(part: str, *numbers: int) -> list[str]:
    return [f"{part}.{n}" for n in numbers]


EXPECTED: list[str] = [
    *_numbers("A1", 1, 2, 4, 6, 8, 9, 11, 13, 14, 16, 17, 18, 20, 22, 24, 25, 27, 29, 30, 31),
    *_numbers("A2", 32, 34, 35, 36, 37, 39, 41, 42, 43, 45),
    *_numbers("A3", 46, 48, 49, 50, 53, 54, 55, 56, 58, 59, 61, 63, 64, 66),
    *_numbers("A4", 67, 68, 69, 71, 73, 74, 75),
    *_numbers("A5", 76, 77, 78, 79, 81, 82),
    *_numbers("A6", 83, 84, 86, 87, 88, 89, 90),
    *_numbers("A7", 91, 92, 94, 95, 96, 99),
    *_numbers("A8", 100, 101, 102, 103, 104, 105, 107, 109, 110, 111, 113, 114, 115),
    *_numbers("A9", 116, 118, 119, 120, 121, 123, 124, 125),
    *_numbers("A10", 126, 127, 128, 129),
]

HERE = Held()
ROWS: dict[str, Held | Bench | NotYet] = {
    **dict.fromkeys([row for row in EXPECTED if row.startswith(("A1.", "A2.", "A3.", "A6.", "A8."))], HERE),
    "A4.67": Bench("full T=512"),
    "A4.68": Bench("alibi"),
    "A4.69": Bench("padding 50 %"),
    "A4.71": HERE,
    "A4.73": HERE,
    "A4.74": Bench("decode 32/8"),
    "A4.75": Bench("causal T=2048"),
    "A5.76": HERE,
    "A5.77": NotYet("kernels for graphics processors are not in this version; on CPU it is the sweep of A4.67"),
    "A5.78": HERE,
    "A5.79": HERE,
    "A5.81": NotYet("kernels for graphics processors are not in this version"),
    "A5.82": Bench("padding 50 %"),
    "A7.91": HERE,
    "A7.92": HERE,
    "A7.94": HERE,
    "A7.95": HERE,
    "A7.96": HERE,
    "A7.99": HERE,
    **dict.fromkeys(["A9.116", "A9.118", "A9.119", "A9.120", "A9.123", "A9.124"], HERE),
    "A9.121": Held(
        (
            "viewer/test_browser.py::test_the_text_shows_what_a_token_attends_to",
            "viewer/test_browser.py::test_zoomed_to_single_cells_it_says_their_numbers",
        )
    ),
    "A9.125": Held(("viewer/test_browser.py::test_long_texts_keep_few_elements",)),
    "A10.126": NotYet("installing into an empty environment is done by the builds of wheels, not by a test"),
    "A10.127": Held(("house/test_tree.py::test_runtime_dependencies_are_torch",)),
    "A10.128": Held(("house/test_imports.py::test_import_headwise_costs_torch_and_nothing_else",)),
    "A10.129": Held(("cli/test_frame.py::test_info_says_versions_and_every_backend",)),
}
