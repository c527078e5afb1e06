"""Connections that never ask, and questions that nobody waits for, must not keep a viewer from answering others."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest
import torch

import headwise as hw
from headwise.viewer import Answers, Cancelled, Scene, connections
from headwise.viewer.server import serve


def scene(T: int = 20) -> Scene:
    q = torch.randn(1, 2, T, 8)
    return Scene.of({"run": {"layers.0.attn": hw.Pattern(q, q, mask=hw.Causal())}})


def test_half_a_request_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "PATIENCE", 0.2)
    with serve(Answers(scene())) as server, socket.create_connection(("127.0.0.1", server.port), timeout=300) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost:")
        with contextlib.suppress(ConnectionResetError):
            assert slow.recv(10) == b""


def test_only_so_many_connections_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST", 3)
    with serve(Answers(scene())) as server:
        held = [socket.create_connection(("127.0.0.1", server.port), timeout=300) for _ in range(3)]
        for one in held:
            one.sendall(b"GET / HT")
        deadline = time.monotonic() + 300
        while True:  # the server has seen the three when it sends the fourth away
            with socket.create_connection(("127.0.0.1", server.port), timeout=300) as one:
                one.sendall(f"GET /?token={server.token} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n\r\n".encode())
                try:
                    refused = one.recv(12) == b""
                except ConnectionError:
                    refused = True
            if refused:
                break
            assert time.monotonic() < deadline
        for one in held:
            one.close()


def test_row_facts_that_nobody_waits_for_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A profile, a column and a hidden sink find the facts of a head first: in pieces, with a look between them."""
    from headwise.backends import observing

    monkeypatch.setattr(observing, "AT_ONCE", 1)
    monkeypatch.setattr(observing, "LEAST", 4)
    shown = {"run": 0, "layer": 0, "head": 1, "b": 0}
    tile = {**shown, "pool": "mean", "hide": 1, "norm": 1, "z": 0, "r": 0, "c": 0}
    for name, params in (("profile", shown), ("tile", tile)):
        looks = 0

        def cancelled() -> bool:
            nonlocal looks
            looks += 1
            return looks > 3

        with pytest.raises(Cancelled):
            Answers(scene()).answer(name, params, cancelled)
        assert looks == 4


def test_facts_found_in_pieces_by_two_threads_are_the_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    from headwise.backends import observing

    q = torch.randn(1, 2, 50, 8)
    whole = hw.Pattern(q, q, mask=hw.Causal()).facts()
    monkeypatch.setattr(observing, "AT_ONCE", 1)
    monkeypatch.setattr(observing, "LEAST", 3)
    pattern = hw.Pattern(q, q, mask=hw.Causal())
    threads = [threading.Thread(target=pattern.settle) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for found, wanted in zip(pattern.facts(), whole, strict=True):
        torch.testing.assert_close(found, wanted)
