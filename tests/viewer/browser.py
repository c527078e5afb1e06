"""A headless Chromium driven over two pipes: enough to open a file, click, read and take a picture."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from typing_extensions import Self

BINARY = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = """
    --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking
    --disable-component-update --disable-sync --no-first-run --no-default-browser-check --disable-extensions
    --remote-debugging-pipe
""".split()


class Browser:
    """One page. ``tell`` sends a command of the DevTools protocol, ``run`` evaluates JavaScript."""

    def __init__(self, width: int = 1280, height: int = 800, dark: bool = False, seconds: float = 90) -> None:
        assert BINARY, "no chromium here"
        self.seconds = seconds
        self.events: list[dict[str, Any]] = []
        self._folder = tempfile.mkdtemp()
        self._numbers = itertools.count(1)
        self._rest = b""
        read_commands, self._to = os.pipe()
        self._from, write_answers = os.pipe()
        # Chromium reads commands from descriptor 3 and writes answers to 4; bash puts them there.
        line = f'exec "$0" "$@" 3<&{read_commands} 4>&{write_answers}'
        words = [BINARY, *FLAGS, f"--user-data-dir={self._folder}", f"--window-size={width},{height}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", line, *words],
            pass_fds=(read_commands, write_answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_commands)
        os.close(write_answers)
        self._session: str | None = None
        targets = self.tell("Target.getTargets")["targetInfos"]
        target = next(found["targetId"] for found in targets if found["type"] == "page")
        self._session = self.tell("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.tell(f"{domain}.enable")
        self.tell(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )
        self.tell(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._folder, ignore_errors=True)

    def tell(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") != number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                found: dict[str, Any] = answer["result"]
                return found

    def _next(self) -> dict[str, Any]:
        end = time.monotonic() + self.seconds
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], max(0, end - time.monotonic()))
            chunk = os.read(self._from, 1 << 20) if ready else b""
            if not chunk:
                raise TimeoutError("chromium does not answer")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def open(self, path: Path) -> None:
        self.tell("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + self.seconds
        while self.run("document.readyState") != "complete" or not self.run("document.querySelector('.cell') !== null"):
            if time.monotonic() > end:
                raise TimeoutError(f"the page never drew itself: {self.events[-3:]}")
            time.sleep(0.1)

    def run(self, code: str) -> Any:
        """The value of an expression; an exception in the page is one here."""
        answer = self.tell("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """A real click in the middle of an element."""
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({selector!r}); e.scrollIntoView({{block: 'center'}});"
            " const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.tell("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        for kind in ("mousePressed", "mouseReleased"):
            self.tell("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.tell("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def picture(self, path: Path, whole: bool = False) -> None:
        data = self.tell("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))

    def complaints(self) -> list[str]:
        """Errors in the page's console and everything it asked the network for."""
        found = []
        for event in self.events:
            method, told = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(str(told["exceptionDetails"]))
            elif method == "Log.entryAdded" and told["entry"]["level"] == "error":
                found.append(told["entry"]["text"])
            elif method == "Network.requestWillBeSent" and not told["request"]["url"].startswith(("file:", "about:")):
                found.append(f"asked for {told['request']['url'][:80]}")
        return found
