"""What the tests of the server share: a scene, requests as they stand, and answers that wait at a gate."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

import torch

import headwise as hw
from headwise.viewer import Scene
from headwise.viewer.answers import Answer
from headwise.viewer.server import Server
from headwise.viewer.tiles import Cancelled

SOON = 300  # seconds; ends what hangs, and is no measure of anything
TOKEN = "a-token-of-the-tests_0123"
EVIL = "<script>alert(1)</script>"
TILE = {"run": 0, "layer": 1, "head": 2, "b": 0, "pool": "mean", "hide": 0, "norm": 0, "z": 0, "r": 0, "c": 0}
PATHS = ("/", "/viewer.js", "/ask/scene", "/nothing")


def scene() -> Scene:
    """Two layers of three heads over 40 tokens, one of which would like to be markup."""
    made = torch.Generator().manual_seed(0)
    patterns = {
        f"layer.{n}": hw.Pattern(
            torch.randn(1, 3, 40, 8, generator=made), torch.randn(1, 3, 40, 8, generator=made), mask=hw.Causal()
        )
        for n in range(2)
    }
    return Scene.of({"run": patterns}, tokens=[EVIL, *(f"word{n}" for n in range(39))], title=EVIL)


def get(
    at: Server,
    path: str,
    params: Mapping[str, Any] | str | None = None,
    *,
    token: str | None = TOKEN,
    method: str = "GET",
    host: str | None = "127.0.0.1:{port}",
    **headers: str,
) -> tuple[int, http.client.HTTPMessage, bytes]:
    """Status, headers and body. The path goes out as it stands, which a well-meant client would not let it."""
    query = params if isinstance(params, str) else urlencode({**(params or {}), **({"token": token} if token else {})})
    connection = http.client.HTTPConnection("127.0.0.1", at.port, timeout=SOON)
    connection.putrequest(method, f"{path}?{query}" if query else path, skip_host=True)
    if host is not None:
        connection.putheader("Host", host.format(port=at.port))
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value.format(port=at.port))
    connection.endheaders()
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, answer.headers, body


def unframed(frame: bytes) -> tuple[Any, bytes]:
    length = int.from_bytes(frame[:4], "little")
    return json.loads(frame[4 : 4 + length]), frame[4 + length :]


def said(body: bytes) -> str:
    told: str = json.loads(body)["sentence"]
    assert told.endswith(".")
    assert "\n" not in told
    return told


class Gated:
    """Answers that wait at a gate, and tell what became of them."""

    def __init__(self) -> None:
        self.begun, self.gate = threading.Semaphore(0), threading.Event()
        self.ran: list[str] = []
        self.told: list[bool] = []

    def urgency(self, name: str) -> int:
        return 0

    def work(self) -> bool:
        return False

    def answer(
        self, name: str, params: Mapping[str, str | int], cancelled: Callable[[], bool] = lambda: False
    ) -> Answer:
        if name == "fails":
            raise RuntimeError("a secret path")
        self.ran.append(str(params.get("n")))
        self.begun.release()
        while not (self.gate.wait(0.005) or cancelled()):
            pass
        self.told.append(cancelled())
        if cancelled():
            raise Cancelled
        return Answer({"n": params.get("n")}, torch.zeros(1))


def leave(at: Server, n: str) -> http.client.HTTPConnection:
    """Asks, and leaves the answer to be waited for."""
    asking = http.client.HTTPConnection("127.0.0.1", at.port, timeout=SOON)
    asking.request("GET", f"/ask/a?n={n}&token={TOKEN}")
    return asking


def taken(asking: http.client.HTTPConnection) -> tuple[int, bytes]:
    """Status and body of what ``leave`` asked."""
    answer = asking.getresponse()
    body = answer.read()
    asking.close()
    return answer.status, body


def waiting(at: Server, count: int) -> None:
    """Returns once so many questions wait."""
    while len(at._work._waiting) != count:
        threading.Event().wait(0.005)
