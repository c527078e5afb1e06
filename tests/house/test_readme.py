"""Every ``python`` block of the documents runs, in order, in one namespace a document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
DOCUMENTS = [path for path in (REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))) if path.exists()]
FENCE = re.compile(r"^( *)```(.*)$")


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """The first line number and the code of each block fenced as python. ```` ```python no-run ```` is left out."""
    language, start, lines, indent = None, 0, [], ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if language is None:
            if fence:
                indent, language, start, lines = fence[1], fence[2].strip(), number + 1, []
        elif fence and not fence[2].strip():
            if language == "python":
                yield start, "\n".join(lines)
            language = None
        else:
            lines.append(line.removeprefix(indent))
    if language is not None:
        raise ValueError(f"the block that begins on line {start - 1} is never closed")


def run(text: str, name: str) -> int:
    """Runs all blocks of a document; errors point at its own lines."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    count = 0
    for start, code in blocks(text):
        # Blank lines in front, so that a traceback shows the line of the document.
        exec(compile("\n" * (start - 1) + code, name, "exec"), namespace)
        count += 1
    return count


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPO)))
def test_documents_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(path.read_text(), str(path))


def test_the_readme_has_examples() -> None:
    assert len(list(blocks((REPO / "README.md").read_text()))) >= 1


def test_the_runner_can_fail() -> None:
    text = "words\n```python\nx = 1\n```\n```text\nnot code(\n```\n```python\nassert x == 2, 'seen'\n```\n"
    with pytest.raises(AssertionError, match="seen") as caught:
        run(text, "page.md")
    assert caught.traceback[-1].lineno == 8
    assert run("```python no-run\n1 / 0\n```\n", "page.md") == 0
    with pytest.raises(ValueError, match="line 1 is never closed"):
        run("```python\nx = 1\n", "page.md")
