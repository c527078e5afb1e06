"""The widget in a real JupyterLab: a cell ends with a view, and its map says what the pattern holds."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from opened import number, rest, shown

import headwise as hw

pytestmark = pytest.mark.xdist_group("browser")

CELL = """import torch, headwise as hw
q = torch.arange(2 * 40 * 8).view(1, 2, 40, 8).sin()
hw.view(hw.Pattern(q, q, mask=hw.Causal()), tokens=[f"t{n}" for n in range(40)], title="In a notebook")"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where JupyterLab runs, with a notebook of one cell."""
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed")
    folder = tmp_path_factory.mktemp("lab")
    cell = {"cell_type": "code", "id": "a", "source": CELL, "metadata": {}, "outputs": [], "execution_count": None}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "view.ipynb").write_text(json.dumps(notebook))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["--no-browser", "--allow-root", f"--port={port}", "--ServerApp.ip=127.0.0.1", f"--notebook-dir={folder}"]
    settings = [
        "--IdentityProvider.token=abc",
        "--LabApp.news_url=",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    where = {
        name: str(folder / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")
    }
    log = (folder / "log").open("w")
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *words, *settings],
        env={**os.environ, **where, "OMP_NUM_THREADS": "1"},
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    try:
        address = f"http://127.0.0.1:{port}"
        late = time.monotonic() + 600  # ends what hangs, and is no measure of anything
        while True:
            try:
                urllib.request.urlopen(f"{address}/api?token=abc", timeout=60).read()
                break
            except OSError:
                assert process.poll() is None and time.monotonic() < late, (folder / "log").read_text()
                time.sleep(0.2)
        yield f"{address}/lab/tree/view.ipynb?token=abc"
    finally:
        process.terminate()
        process.wait(300)
        log.close()


def run(tab: Any) -> None:
    """Runs the first cell. What is run before JupyterLab has opened its session is lost without a word, so again."""
    from playwright.sync_api import TimeoutError as Late

    for _ in range(30):
        tab.locator(".jp-Notebook .jp-Cell").first.click()
        tab.keyboard.press("Escape")
        tab.keyboard.press("Shift+Enter")
        with contextlib.suppress(Late):
            begun = "() => /[0-9*]/.test(document.querySelector('.jp-InputPrompt').textContent)"
            tab.wait_for_function(begun, timeout=10_000)
            return
    pytest.fail("JupyterLab ran no cell")


def test_the_widget_shows_exact_numbers(lab: str, tab: Any) -> None:
    tab.set_default_timeout(300_000)
    tab.goto(lab)
    tab.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']")
    run(tab)
    tab.wait_for_selector("[data-z][data-ready='1']")
    assert tab.locator("h1", has_text="In a notebook").count() == 1
    assert tab.locator("[data-head]").count() == 2
    plot = tab.locator("[data-z] .map-plot").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    tab.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.7)
    rest(tab, 200)
    said = " ".join(tab.locator("[data-z] output").first.inner_text().split())
    query, key = (int(said.split(f"{word} ", 1)[1].split()[0]) for word in ("query", "key"))
    q = torch.arange(2 * 40 * 8).view(1, 2, 40, 8).sin()
    head = int(tab.locator("[data-here]").get_attribute("data-head").split(".")[1])
    wanted = float(hw.Pattern(q, q, mask=hw.Causal())[0, head, query, key])
    assert shown(number(said)) == pytest.approx(shown(wanted), rel=1e-6)
    assert f"t{query}" in said and f"t{key}" in said
    # JupyterLab's own complaints of what it cannot reach are not ours; an exception in the page is.
    tab.said[:] = [line for line in tab.said if "Error" in line and "Failed to load resource" not in line]
