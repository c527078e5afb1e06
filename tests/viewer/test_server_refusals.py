"""Whoever has not the address, or comes from elsewhere, gets nothing; a wrong question gets a sentence."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from serving import EVIL, PATHS, SOON, TILE, TOKEN, get, said, scene, unframed

from headwise.viewer import Answers
from headwise.viewer.server import Server, serve


@pytest.fixture(scope="module")
def served() -> Iterator[Server]:
    """A server of the scene."""
    with serve(Answers(scene()), token=TOKEN) as made:
        yield made


# Who is refused.

WRONG = {
    "none": None, "another": "b" * len(TOKEN), "its beginning": TOKEN[:-1], "longer": TOKEN + "0", "empty": "",
    "letters of no alphabet": "ß" * len(TOKEN), "other case": TOKEN.upper(), "nul": TOKEN + "\0",
}  # fmt: skip


@pytest.mark.parametrize("token", WRONG.values(), ids=WRONG)
def test_without_the_token_there_is_nothing(served: Server, token: str | None) -> None:
    for path in PATHS:
        status, headers, body = get(served, path, token=token)
        assert (status, body) == (403, b"the token is missing or wrong\n")
        assert headers["content-type"] == "text/plain; charset=utf-8"
    if token and token.isascii() and token.isprintable():
        assert get(served, "/ask/scene", token=None, X_Headwise_Token=token)[0] == 403
        # A wrong header is not made good by the address.
        assert get(served, "/ask/scene", X_Headwise_Token=token)[0] == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200),
        ("localhost:{port}", 200),
        ("LOCALHOST:{port}", 200),
        ("[::1]:{port}", 200),
        ("127.0.0.1", 403),
        ("127.0.0.1:1{port}", 403),
        ("127.0.0.1:80", 403),
        ("evil.example:{port}", 403),
        ("127.0.0.1.evil.example:{port}", 403),
        ("localhost.:{port}", 403),
        ("10.0.0.1:{port}", 403),
        ("user@127.0.0.1:{port}", 403),
        ("", 403),
    ],
)
def test_only_names_of_this_server_are_served(served: Server, host: str, status: int) -> None:
    assert [get(served, path, host=host)[0] for path in PATHS[:3]] == [status] * 3


def test_a_request_to_no_host_or_to_two_is_refused(served: Server) -> None:
    assert get(served, "/", host=None)[0] in (400, 403)
    two = f"GET /?token={TOKEN} HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\nHost: evil.example\r\n\r\n"
    old = f"GET /?token={TOKEN} HTTP/1.0\r\n\r\n"
    for words in (two, old):
        with socket.create_connection(("127.0.0.1", served.port), timeout=SOON) as plain:
            plain.sendall(words.encode())
            assert plain.recv(100).split()[1] in (b"400", b"403")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 200),
        ("http://localhost:{port}", 403),  # another origin than the one that is asked
        ("http://127.0.0.1:1{port}", 403),
        ("https://127.0.0.1:{port}", 403),
        ("http://evil.example", 403),
        ("null", 403),
        ("", 403),
    ],
)
def test_pages_of_other_origins_get_nothing(served: Server, origin: str, status: int) -> None:
    found = [get(served, path, Origin=origin) for path in PATHS[:3]]
    assert [status for status, _, _ in found] == [status] * 3
    assert not any(name.lower().startswith("access-control") for _, headers, _ in found for name in headers)


def test_other_sites_may_link_to_the_page_and_no_more(served: Server) -> None:
    for site in ("cross-site", "same-site", "anything"):
        assert get(served, "/", Sec_Fetch_Site=site)[0] == 200
        assert get(served, "/viewer.js", Sec_Fetch_Site=site)[0] == 403
        assert get(served, "/ask/scene", Sec_Fetch_Site=site)[0] == 403
    for site in ("same-origin", "none"):
        assert get(served, "/ask/scene", Sec_Fetch_Site=site)[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "PROPFIND"])
def test_only_get_and_head(served: Server, method: str) -> None:
    assert [get(served, path, method=method)[0] for path in PATHS] == [405] * 4


def test_head_is_get_without_a_body(served: Server) -> None:
    for path in PATHS:
        (status, headers, body), (same, wanted, whole) = get(served, path, method="HEAD"), get(served, path)
        assert (status, headers["content-length"], body) == (same, str(len(whole)), b"")
        assert headers["content-type"] == wanted["content-type"]


def test_every_answer_bears_the_headers(served: Server) -> None:
    found = [get(served, path) for path in PATHS]
    found += [get(served, "/", token=None), get(served, "/", method="POST"), get(served, "/ask/no")]
    assert [status for status, _, _ in found] == [200, 200, 200, 404, 403, 405, 400]
    for _, headers, _ in found:
        assert headers["content-security-policy"] == (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data: blob:; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers


# What is asked wrongly.


@pytest.mark.parametrize(
    "path",
    [
        "/../etc/passwd", "/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd", "//", "/./",
        "/viewer.js/", "/viewer.js/../server.py", "/served.html", "/page.css", "/assets/viewer.js", "/ask", "/ask/",
        "/ask/../scene", "/ask/%2e%2e/scene", "/ask/scene/", "/ask//scene", "/ask/scene%00", "/ask/scene%0a",
        "/..\\..\\server.py", "/%ff", "/static/../../server.py", "http://127.0.0.1/etc/passwd",
    ],
)  # fmt: skip
def test_a_path_is_never_opened(served: Server, path: str) -> None:
    status, _, body = get(served, path)
    assert status in (400, 404)
    assert body in (b"there is nothing here\n", b"Invalid HTTP request received.")


QUESTIONS: dict[str, tuple[str, Mapping[str, Any] | str, str]] = {
    "unknown": ("nothing", {}, "no question 'nothing'"),
    "unknown parameter": ("tile", {**TILE, "x": 1}, "no parameter 'x'"),
    "missing": ("tile", {"run": 0}, "is missing"),
    "negative": ("tile", {**TILE, "r": -1}, "r is '-1'"),
    "beyond": ("tile", {**TILE, "r": 1}, "r is 1"),
    "beyond any int": ("tile", {**TILE, "c": 10**30}, "c is "),
    "level": ("tile", {**TILE, "z": 10**9}, "z is 1000000000"),
    "layer": ("tile", {**TILE, "layer": 99}, "layer is 99"),
    "no number": ("row", {"run": 0, "heads": "0.0", "b": 0, "i": "1e3"}, "i is '1e3'"),
    "arabic digits": ("row", {"run": 0, "heads": "0.0", "b": 0, "i": "\u0661"}, "i is "),
    "no head": ("row", {"run": 0, "heads": "0.0,9.9", "b": 0, "i": 1}, "no head '9.9'"),
    "markup": ("tile", {**TILE, "pool": EVIL}, "pool is "),
    "twice": ("scene", f"token={TOKEN}&a=1&a=1", "a parameter is given twice"),
    "no text": ("scene", f"token={TOKEN}&a=%ff", "no UTF-8 text"),
    "long": ("scene", f"a={'1' * 20_000}", "the question is too long"),
    "many": ("scene", "&".join(f"a{n}=1" for n in range(25)), "the question is too long"),
}


@pytest.mark.parametrize("case", QUESTIONS)
def test_a_question_that_makes_no_sense_gets_a_sentence(served: Server, case: str) -> None:
    name, params, told = QUESTIONS[case]
    status, headers, body = get(served, f"/ask/{name}", params, X_Headwise_Token=TOKEN)
    assert (status, headers["content-type"]) == (400, "application/json")
    assert told in said(body)
    assert len(body) < 500


def test_a_request_without_end_is_no_burden(served: Server) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=SOON) as plain:
        plain.sendall(b"GET /" + b"a" * 200_000)
        assert plain.recv(100).split()[1] == b"400"
    assert get(served, "/ask/scene")[0] == 200


def test_a_text_that_is_markup_stays_text(served: Server) -> None:
    _, headers, body = get(served, "/ask/scene")
    assert headers["content-type"] == "application/octet-stream"
    assert unframed(body)[0]["axes"][0]["labels"][0] == EVIL
    assert EVIL.encode() not in get(served, "/")[2]
    evil = {"Host": EVIL, "Origin": EVIL, "X-Headwise-Token": EVIL}
    found = [get(served, "/", **{name.replace("-", "_"): value}, host=None) for name, value in evil.items()]
    found += [get(served, f"/{EVIL}"), get(served, "/ask/tile", {**TILE, EVIL: EVIL}), get(served, "/", {"a": EVIL})]
    for status, headers, body in found:
        assert status == 200 or headers["content-type"] != "text/html; charset=utf-8"
        assert b"<script>" not in body or headers["content-type"] == "application/json"
