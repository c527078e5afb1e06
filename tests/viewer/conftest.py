"""Modules beside these tests that several of them read, and a browser."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

BINARY = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = """
    --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking --disable-component-update
    --disable-sync --no-first-run --no-default-browser-check --disable-extensions --disable-quic
""".split()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A headless browser."""
    if BINARY is None:
        pytest.skip("no chromium here; `make test` installs it where it may")
    from playwright.sync_api import sync_playwright

    os.environ.setdefault("NODE_NO_WARNINGS", "1")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BINARY, args=FLAGS, timeout=300_000)
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """A page of 1440 x 900 that asks nobody but this machine, and says nothing of errors at the end."""
    context = chromium.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True)
    context.set_default_timeout(300_000)  # ends what hangs, and is no measure of anything
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: message.type in ("error", "warning") and said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: _at_home(request.url) or said.append(f"asks {request.url}"))
    page.said = said
    yield page
    context.close()
    assert said == []


def _at_home(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "file:", "data:", "blob:", "about:"))
