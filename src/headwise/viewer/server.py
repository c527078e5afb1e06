"""The viewer over HTTP, for one reader on this machine: a page, its script, and questions with their answers.

Any other program or web page could send requests here, too. So every request needs the token of the address, must be
made to a name of this server (against DNS rebinding) and must not come from a page of another origin. No path of a
request is ever opened: the two files are read once, by their own names.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import json
import logging
import re
import secrets
import socket
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl

from typing_extensions import Self

from headwise.errors import HeadwiseError, SpecError, UnavailableError, sentence
from headwise.viewer.answers import Answer
from headwise.viewer.connections import bounded_protocol
from headwise.viewer.tiles import Cancelled
from headwise.viewer.work import Busy, Piece, Work

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

__all__ = ["Answering", "Server", "check_served", "serve"]

_LOG = logging.getLogger(__name__)
_LONGEST, _PARAMETERS = 16_384, 24  # bytes of a query string, and how many parameters it has at most
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,128}")
_ASK = re.compile(r"/ask/([a-z_]{1,32})")
_LOCAL = ("127.0.0.1", "localhost", "[::1]")

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "DENY",
}


class Answering(Protocol):
    """What a server asks: ``headwise.viewer.answers.Answers``."""

    def answer(self, name: str, params: Mapping[str, str | int], cancelled: Callable[[], bool] = ...) -> Answer: ...

    def urgency(self, name: str) -> int: ...

    def work(self) -> bool: ...


class Server:
    """A viewer that is being served, by threads of its own.

    Attributes:
        url: the address, token included.
        token: what every request must carry.
        port: where it listens.
        local: whether only this machine can reach it.
    """

    def __init__(self, url: str, token: str, port: int, local: bool, work: Work) -> None:
        self.url, self.token, self.port, self.local = url, token, port, local
        self._work = work
        self._uvicorn: Any = None
        self._thread: threading.Thread | None = None

    def wait(self) -> None:
        """Returns once the server has ended, by ``close()`` in another thread; Ctrl-C interrupts it."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(0.5)  # a join without an end cannot be interrupted on Windows

    def close(self) -> None:
        """Ends it: questions under way are refused, sockets closed, threads ended. A second call does nothing."""
        self._work.close()  # first: whoever waits for an answer gets a refusal, and nothing holds the server up
        if self._uvicorn is not None and self._thread is not None:
            self._uvicorn.should_exit = True
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Server({self.url})"

    def _start(self, app: Any, listener: socket.socket) -> None:
        """Runs uvicorn in a thread, without signal handlers and without touching the logging of this process."""
        uvicorn = import_module("uvicorn")
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http=bounded_protocol(),
            ws="none",
            lifespan="off",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=0.5,
        )
        # Addresses hold the token, so none is logged. As an argument it would silence other servers of this process.
        config.access_log = False
        self._uvicorn = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._run(listener)), name="headwise viewer server", daemon=True
        )
        self._thread.start()

    async def _run(self, listener: socket.socket) -> None:
        try:
            await self._uvicorn.serve(sockets=[listener])
        finally:
            listener.close()
            for connection in list(self._uvicorn.server_state.connections):  # readers that never took their answer
                connection.transport.abort()


def serve(answers: Answering, *, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> Server:
    """Serves a viewer from threads of this process; it answers once this returns.

    Args:
        answers: of the scene.
        host: where to listen. On anything but this machine's own loopback address, whoever in the network has the
            address (its token is in it, and nothing is encrypted) can look, too.
        port: 0 = a free one.
        token: 16 or more letters, digits, _ and -; None = a random one.

    Returns:
        The server: ``.url``, ``.wait()``, ``.close()``.

    Raises:
        SpecError: a host or port that cannot be listened on, or a token of other signs.
        UnavailableError: starlette or uvicorn is not installed.

    Example:
        >>> import torch, headwise as hw
        >>> from headwise.viewer import Answers, Scene
        >>> from headwise.viewer.server import serve
        >>> q = torch.zeros(1, 2, 5, 4)
        >>> scene = Scene.of({"run": {"layer": hw.Pattern(q, q, mask=hw.Causal())}})
        >>> with serve(Answers(scene), token="sixteen-letters-") as server:
        ...     server.url.replace(str(server.port), "PORT")
        'http://127.0.0.1:PORT/?token=sixteen-letters-'
    """
    _check_packages()
    token = secrets.token_urlsafe(24) if token is None else token
    if not _TOKEN.fullmatch(token):
        raise SpecError(sentence("serve", "the token is no token", "it has 16 to 128 letters, digits, _ and -"))
    page = _asset("served.html").replace(b"TOKEN", token.encode())
    script = _asset("viewer.js")
    listener = _listening(host, port)
    try:
        address, port = listener.getsockname()[:2]
        bound = ipaddress.ip_address(address)
        name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, host)  # all addresses, this machine's own among them
        work = Work(answers.work)
        server = Server(f"http://{_written(name)}:{port}/?token={token}", token, port, bound.is_loopback, work)
        known = _hosts(host, bound.is_unspecified, port)
        server._start(_App(answers, work, token, known, {"/": page, "/viewer.js": script}), listener)
    except BaseException:
        listener.close()
        raise
    return server


def check_served(host: str, port: int) -> None:
    """Raises what ``serve`` would for want of a package or a port: to be asked before long work, not after it.

    Raises:
        SpecError: a host or port that cannot be listened on.
        UnavailableError: starlette or uvicorn is not installed.

    Example:
        >>> from headwise.viewer.server import check_served
        >>> check_served("127.0.0.1", 70_000)
        Traceback (most recent call last):
        headwise.errors.SpecError: serve: port is 70000; ports are 0 (a free one) to 65535.
    """
    _check_packages()
    _listening(host, port).close()


class _Refused(Exception):
    """A request that is not answered: a status and a few words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words


class _App:
    """Answers requests (ASGI)."""

    def __init__(
        self, answers: Answering, work: Work, token: str, known: Callable[[str], bool], assets: Mapping[str, bytes]
    ) -> None:
        self._answers, self._work, self._token, self._known, self._assets = answers, work, token, known, assets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.requests import Request

        request = Request(scope, receive)
        try:
            response = await self._respond(request)
        except _Refused as refused:
            response = _text(refused.status, refused.words)
        except HeadwiseError as error:
            response = _said(400, " ".join(str(error).split()))
        except Busy as busy:
            response = _said(503, str(busy))
        except Cancelled:  # of what nobody waits for, and of what runs when the server ends
            response = _said(503, sentence("view", "the viewer has ended"))
        except Exception:  # noqa: BLE001  one failing question must not end the others
            _LOG.exception("a question to the viewer has failed")
            response = _said(500, sentence("view", "this question has failed", todo="The viewer's log says where."))
        if response is not None:
            await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response | None:
        """The answer; None where nobody waits for it any more."""
        self._check_sender(request)
        params = self._checked_params(request)
        path = request.scope["path"]
        if path in self._assets:
            kind = "text/html; charset=utf-8" if path == "/" else "text/javascript; charset=utf-8"
            return _response(200, self._assets[path], kind)
        asked = _ASK.fullmatch(path)
        if asked is None:
            raise _Refused(404, "there is nothing here")
        frame = await self._asked(request, asked[1], params)
        return None if frame is None else _response(200, frame, "application/octet-stream")

    def _check_sender(self, request: Request) -> None:
        """Refuses what comes through a foreign name or from a page of another origin."""
        if request.method not in ("GET", "HEAD"):
            raise _Refused(405, "only GET is answered")
        hosts, origins = request.headers.getlist("host"), request.headers.getlist("origin")
        if len(hosts) != 1 or not self._known(hosts[0].lower()):
            raise _Refused(403, "this name is not served")
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            raise _Refused(403, "another origin asks")
        # A link elsewhere may open the page; nothing else is for other sites, other ports of this machine among them.
        sites = request.headers.getlist("sec-fetch-site")
        if request.scope["path"] != "/" and any(site not in ("same-origin", "none") for site in sites):
            raise _Refused(403, "another site asks")

    def _checked_params(self, request: Request) -> dict[str, str]:
        """The parameters, without the token, which is checked."""
        fault: SpecError | None = None
        params: dict[str, str] = {}
        try:
            params = _params(request.scope["query_string"])
        except SpecError as error:  # said to those alone who have the token
            fault = error
        given = request.headers.getlist("x-headwise-token") or [params.get("token", "")]
        if len(given) != 1 or not secrets.compare_digest(given[0].encode(), self._token.encode()):
            raise _Refused(403, "the token is missing or wrong")
        if fault is not None:
            raise fault
        params.pop("token", None)
        return params

    async def _asked(self, request: Request, name: str, params: Mapping[str, str]) -> bytes | None:
        """An answer's bytes; None where whoever asked has gone."""

        def run(cancelled: Callable[[], bool]) -> bytes:
            return self._answers.answer(name, params, cancelled).frame()

        piece: Piece[bytes] = self._work.submit(self._answers.urgency(name), run)
        answer = asyncio.wrap_future(piece.future)
        gone = asyncio.ensure_future(_gone(request))
        try:
            waits: list[asyncio.Future[Any]] = [answer, gone]
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else None
        finally:
            answer.cancel()
            gone.cancel()
            piece.cancel()


async def _gone(request: Request) -> None:
    """Waits until whoever asked has closed the connection. What a request carries is thrown away."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _params(query: bytes) -> dict[str, str]:
    """A query string's parameters, each once."""
    if len(query) > _LONGEST or query.count(b"&") >= _PARAMETERS:
        limit = f"{_LONGEST} bytes and {_PARAMETERS} parameters"
        raise SpecError(sentence("view", "the question is too long", f"it has at most {limit}"))
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        raise SpecError(sentence("view", "the question is no UTF-8 text")) from None
    params = dict(pairs)
    if len(params) < len(pairs):
        raise SpecError(sentence("view", "a parameter is given twice"))
    return params


def _response(status: int, body: bytes, kind: str) -> Response:
    from starlette.responses import Response

    return Response(body, status, {**_HEADERS, "content-type": kind})


def _text(status: int, words: str) -> Response:
    return _response(status, f"{words}\n".encode(), "text/plain; charset=utf-8")


def _said(status: int, told: str) -> Response:
    """A sentence for the page to show."""
    return _response(status, json.dumps({"sentence": told}).encode(), "application/json")


def _check_packages() -> None:
    for package in ("starlette", "uvicorn"):
        try:
            import_module(package)
        except ImportError as missing:
            raise UnavailableError(
                sentence(
                    "serve",
                    f"package {missing.name} is not installed",
                    "the viewer is served by starlette and uvicorn",
                    todo="In a checkout of headwise run: pip install '.[view]'",
                )
            ) from missing


def _asset(name: str) -> bytes:
    """A file of ours."""
    try:
        return files("headwise.viewer").joinpath("assets", name).read_bytes()
    except FileNotFoundError as missing:
        todo = "In a checkout of headwise run: cd front && npm ci && npx vite build"
        raise UnavailableError(sentence("serve", f"{name} was not built", todo=todo)) from missing


def _listening(host: str, port: int) -> socket.socket:
    """A socket that takes connections from now on, whoever accepts them later."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65_535:
        raise SpecError(sentence("serve", f"port is {port!r}", "ports are 0 (a free one) to 65535"))
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=512)
    except OSError as cause:
        if cause.errno == errno.EADDRINUSE:
            what = f"port {port} of {host} is in use by another program"
            raise SpecError(sentence("serve", what, todo="Name another, or port 0 for a free one.")) from cause
        what = f"cannot listen on {host}, port {port}"
        raise SpecError(sentence("serve", what, cause.strerror or str(cause))) from cause
    except UnicodeError as cause:
        raise SpecError(sentence("serve", f"host is {host!r}", "it is a name or an address of this machine")) from cause


def _written(host: str) -> str:
    """A host as an address has it."""
    return f"[{host}]" if ":" in host else host


def _hosts(host: str, anywhere: bool, port: int) -> Callable[[str], bool]:
    """Tells whether a Host header is a name of this server."""
    names = [*_LOCAL, _written(host).lower(), *([socket.gethostname().lower()] if anywhere else [])]
    ends = [f":{port}", *([""] if port == 80 else [])]  # browsers leave out the usual port
    known = {name + end for name in names for end in ends}

    def is_known(given: str) -> bool:
        # Every address of the machine: what rebinding needs is a name, and an address is none.
        bare, _, end = given.rpartition(":")
        return given in known or (anywhere and end == str(port) and _is_address(bare))

    return is_known


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True
