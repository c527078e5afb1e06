"""The server hands out a page, its script and answers, many at once, and ends when it is told to."""

from __future__ import annotations

import asyncio
import functools
import http.client
import logging
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import torch
from serving import PATHS, SOON, TILE, TOKEN, Gated, get, leave, said, scene, taken, unframed, waiting

import headwise as hw
from headwise.viewer import Answers, server
from headwise.viewer.answers import Answer
from headwise.viewer.server import Server, serve
from headwise.viewer.work import Work


@pytest.fixture(scope="module")
def served() -> Iterator[Server]:
    """A server of the scene."""
    with serve(Answers(scene()), token=TOKEN) as made:
        yield made


def test_the_page_loads_its_script_with_the_token(served: Server) -> None:
    assert served.url == f"http://127.0.0.1:{served.port}/?token={TOKEN}"
    assert served.local
    page = httpx.get(served.url, timeout=SOON)
    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert '<html lang="en">' in page.text
    assert '<main id="headwise">' in page.text
    assert f'<script type="module" src="viewer.js?token={TOKEN}"></script>' in page.text
    script = httpx.get(page.url.join(f"viewer.js?token={TOKEN}"), timeout=SOON)
    assert script.status_code == 200
    assert script.content == files("headwise.viewer").joinpath("assets", "viewer.js").read_bytes()
    assert script.headers["content-type"] == "text/javascript; charset=utf-8"


@pytest.mark.parametrize("name", ["scene", "tile", "row", "profile"])
def test_an_answer_is_the_frame(served: Server, name: str) -> None:
    params: dict[str, Any] = {
        "scene": {},
        "tile": TILE,
        "row": {"run": 0, "heads": "0.1,1.2", "b": 0, "i": 30},
        "profile": {"run": 0, "layer": 0, "head": 1, "b": 0},
    }[name]
    status, headers, body = get(served, f"/ask/{name}", params)
    assert (status, headers["content-type"]) == (200, "application/octet-stream")
    assert body == Answers(scene()).answer(name, params).frame()


def test_the_token_may_stand_in_a_header(served: Server) -> None:
    status, _, body = get(served, "/ask/tile", TILE, token=None, X_Headwise_Token=TOKEN)
    assert status == 200
    assert unframed(body)[0]["h"] == 40


def test_background_work_goes_on_between_questions(served: Server) -> None:
    for _ in range(2000):
        _, _, body = get(served, "/ask/overview", {"run": 0, "b": 0, "since": 0})
        meta, maps = unframed(body)
        if meta["done"]:
            break
    assert (meta["done"], meta["exact"], len(meta["heads"])) == (True, 6, 6)
    assert maps


# Many at once.


def test_two_hundred_at_once_each_get_their_own_answer(served: Server) -> None:
    answers = Answers(scene())
    asked = [{**TILE, "layer": n % 2, "head": n % 3, "pool": ("mean", "max")[n % 4 // 2]} for n in range(200)]
    wanted = [answers.answer("tile", params).frame() for params in asked]

    async def ask() -> list[bytes]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(limits=limits, timeout=SOON, headers={"X-Headwise-Token": TOKEN}) as client:
            urls = [f"http://127.0.0.1:{served.port}/ask/tile?{urlencode(params)}" for params in asked]
            found = await asyncio.gather(*(client.get(url) for url in urls))
        assert {one.status_code for one in found} == {200}
        return [one.content for one in found]

    assert asyncio.run(ask()) == wanted


def test_what_waits_is_bounded_and_beyond_that_one_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "Work", functools.partial(Work, most=2))
    gated = Gated()
    with serve(gated, token=TOKEN) as at:
        first = leave(at, "first")
        assert gated.begun.acquire(timeout=SOON)
        oldest = leave(at, "oldest")
        waiting(at, 1)
        others = [leave(at, "a")]
        waiting(at, 2)
        others.append(leave(at, "b"))
        status, body = taken(oldest)
        assert (status, said(body)) == (503, "view: busy, 2 questions wait already; ask again.")
        gated.gate.set()
        assert [taken(asking)[0] for asking in (first, *others)] == [200] * 3
    assert gated.ran == ["first", "b", "a"]


def test_whoever_leaves_holds_nobody_up() -> None:
    gated = Gated()
    with serve(gated, token=TOKEN) as at:
        running = leave(at, "running")
        assert gated.begun.acquire(timeout=SOON)
        others = [leave(at, "other") for _ in range(20)]
        waiting(at, 20)
        for asking in others:
            asking.close()
        waiting(at, 0)
        running.close()  # the gate is shut: only being told lets it end
        later = leave(at, "later")
        assert gated.begun.acquire(timeout=SOON)
        gated.gate.set()
        status, body = taken(later)
        assert (status, unframed(body)[0]) == (200, {"n": "later"})
    assert gated.ran == ["running", "later"]
    assert gated.told == [True, False]


def test_an_unforeseen_fault_is_logged_and_the_server_lives_on(caplog: pytest.LogCaptureFixture) -> None:
    gated = Gated()
    gated.gate.set()
    with serve(gated, token=TOKEN) as at:
        with caplog.at_level(logging.ERROR):
            status, headers, body = get(at, "/ask/fails")
        assert (status, headers["content-type"]) == (500, "application/json")
        assert said(body) == "view: this question has failed. The viewer's log says where."
        assert "a secret path" in caplog.text
        assert get(at, "/ask/a", {"n": 1})[0] == 200


# Beginning and end.


def test_it_says_nothing_of_its_own_accord(capfd: pytest.CaptureFixture[str]) -> None:
    access = logging.getLogger("uvicorn.access")
    before = access.handlers, access.propagate, access.level
    with serve(Answers(scene()), token=TOKEN) as at:
        for path in PATHS:
            get(at, path)
            get(at, path, token=None)
    assert capfd.readouterr() == ("", "")
    assert (access.handlers, access.propagate, access.level) == before


def test_closing_ends_threads_sockets_and_whoever_waits() -> None:
    before = set(threading.enumerate())
    gated = Gated()
    at = serve(gated, token=TOKEN)
    asked = [leave(at, str(n)) for n in range(3)]
    assert gated.begun.acquire(timeout=SOON)
    waiting(at, 2)
    half = socket.create_connection(("127.0.0.1", at.port), timeout=SOON)
    half.sendall(b"GET /ask/a HTTP/1.1\r\n")  # a request that never ends
    idle = http.client.HTTPConnection("127.0.0.1", at.port, timeout=SOON)
    idle.request("GET", "/")
    idle.getresponse().read()  # and a connection that is kept
    at.close()
    at.close()
    at.wait()
    for asking in asked:
        status, body = taken(asking)
        assert (status, said(body)) == (503, "view: the viewer has ended.")
    assert half.recv(10) == b""
    half.close()
    idle.close()
    assert set(threading.enumerate()) == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", at.port), timeout=SOON)
    with serve(gated, port=at.port, token=TOKEN) as again:  # the port is free
        assert again.port == at.port


def test_a_reader_who_never_takes_an_answer_does_not_hold_the_end_up() -> None:
    class Large(Gated):
        def answer(self, name: str, params: Mapping[str, str | int], cancelled: Any = None) -> Answer:
            return Answer({}, torch.zeros(8 * 2**20))

    at = serve(Large(), token=TOKEN)
    asking = leave(at, "1")
    assert asking.sock.recv(10) == b"HTTP/1.1 2"
    at.close()
    assert not at._thread.is_alive()  # type: ignore[union-attr]
    asking.close()


def test_two_at_a_time_and_from_another_thread() -> None:
    found: list[Server] = []
    thread = threading.Thread(target=lambda: found.append(serve(Answers(scene()))))
    thread.start()
    thread.join()
    with serve(Answers(scene())) as one, found[0] as two:
        assert one.port != two.port
        assert one.token != two.token
        for at in (one, two):
            assert len(at.token) >= 32
            assert httpx.get(at.url, timeout=SOON).status_code == 200
        assert get(one, "/", token=two.token)[0] == 403


def test_a_port_in_use_is_said_in_a_sentence(served: Server) -> None:
    told = f"^serve: port {served.port} of 127.0.0.1 is in use by another program. Name another, or port 0 for a free "
    with pytest.raises(hw.errors.SpecError, match=told):
        serve(Answers(scene()), port=served.port)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "port": ({"port": 70_000}, "port is 70000; ports are 0"),
    "negative port": ({"port": -1}, "port is -1"),
    "port of words": ({"port": "80"}, "port is '80'"),
    "host": ({"host": "no.such.host.invalid"}, "cannot listen on no.such.host.invalid, port 0; "),
    "foreign host": ({"host": "192.0.2.1"}, "cannot listen on 192.0.2.1"),
    "no host": ({"host": "a" * 300}, "host is "),
    "short token": ({"token": "short"}, "the token is no token"),
    "token of markup": ({"token": '"><script>alert(1)</script>'}, "the token is no token"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_served_is_said_in_a_sentence(case: str) -> None:
    options, told = REFUSED[case]
    before = set(threading.enumerate())
    with pytest.raises(hw.errors.SpecError) as refused:
        serve(Answers(scene()), **options)
    assert told in str(refused.value)
    assert set(threading.enumerate()) == before


@pytest.mark.parametrize("absent", ["starlette", "uvicorn"])
def test_without_its_packages_it_says_what_to_install(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, absent, None)
    with pytest.raises(
        hw.errors.UnavailableError, match=rf"package {absent} is not installed; .*pip install '.\[view\]'"
    ):
        serve(Answers(scene()))


def test_on_all_addresses_every_address_is_a_name_and_no_foreign_name_is() -> None:
    with serve(Answers(scene()), host="0.0.0.0", token=TOKEN) as at:
        assert not at.local
        assert at.url == f"http://127.0.0.1:{at.port}/?token={TOKEN}"
        for host, status in {
            "127.0.0.1:{port}": 200,
            "192.168.1.5:{port}": 200,
            "[fe80::1]:{port}": 200,
            f"{socket.gethostname()}:{{port}}": 200,
            "192.168.1.5:80": 403,
            "evil.example:{port}": 403,
        }.items():
            assert get(at, "/", host=host)[0] == status, host


def test_an_ipv6_address_stands_in_brackets() -> None:
    known = server._hosts("::1", False, 80)
    assert [known(host) for host in ("[::1]:80", "[::1]", "::1:80", "[::2]:80", "localhost")] == [
        True, True, False, False, True,
    ]  # fmt: skip
