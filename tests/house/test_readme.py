"""Every ``python`` block of the documents runs as whoever types it runs it: in order, in one namespace a document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]
DOCUMENTS = [path for path in (REPO / "README.md", *sorted((REPO / "docs").rglob("*.md"))) if path.exists()]
FENCE = re.compile(r"^( *)```(.*)$")
REASON = re.compile(r"python no-run: \S.*")


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """The first line number and the code of each block fenced as python.

    ```` ```python no-run: why ```` is left out, for a reason that it has to state.
    """
    language, start, lines, indent = None, 0, [], ""
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if language is None:
            if fence:
                indent, language, start, lines = fence[1], fence[2].strip(), number + 1, []
                if language.startswith("python") and language != "python" and not REASON.fullmatch(language):
                    raise ValueError(f"the block of line {number} does not run, and does not say why: {language}")
        elif fence and not fence[2].strip():
            if language == "python":
                yield start, "\n".join(lines)
            language = None
        else:
            lines.append(line.removeprefix(indent))
    if language is not None:
        raise ValueError(f"the block that begins on line {start - 1} is never closed")


def run(text: str, name: str) -> dict[str, Any]:
    """Runs all blocks of a document; errors point at its own lines. Returns what stands at its end."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for start, code in blocks(text):
        # Blank lines in front, so that a traceback shows the line of the document.
        exec(compile("\n" * (start - 1) + code, name, "exec"), namespace)
    return namespace


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(REPO)))
def test_documents_run(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stands = run(path.read_text(), str(path))
    if path.name == "README.md":  # what its comments promise
        counted = stands["pattern"].ask(stands["Histogram"]())["histogram"]
        assert f"# {int(counted.sum())}: 8 heads" in path.read_text() and int(counted.sum()) == 8 * 4096 * 4097 // 2
        assert (tmp_path / "layer.onnx").stat().st_size > 1000


def test_the_readme_has_examples() -> None:
    assert len(list(blocks((REPO / "README.md").read_text()))) >= 1


def test_the_runner_can_fail() -> None:
    text = "words\n```python\nx = 1\n```\n```text\nnot code(\n```\n```python\nassert x == 2, 'seen'\n```\n"
    with pytest.raises(AssertionError, match="seen") as caught:
        run(text, "page.md")
    assert caught.traceback[-1].lineno == 8
    assert "x" not in run("```python no-run: it divides by zero\nx = 1 / 0\n```\n", "page.md")
    for silent in ("python no-run", "python no-run:", "python skip"):
        with pytest.raises(ValueError, match="line 1 does not run, and does not say why"):
            run(f"```{silent}\nx = 1 / 0\n```\n", "page.md")
    with pytest.raises(ValueError, match="line 1 is never closed"):
        run("```python\nx = 1\n", "page.md")
