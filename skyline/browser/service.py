"""Serves the page over HTTP on the loopback address: the socket, the serving thread, and the limits."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import re
import secrets
import socket
import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h11
import msgspec
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from skyline.analysis.best import Constraints
from skyline.analysis.estimate import curve_under, estimate
from skyline.browser.changes import ChangeAnswer, ChangeOptions, Changes
from skyline.browser.subject import Shown, ShownProfile
from skyline.errors import SkylineError
from skyline.report import html
from skyline.report.build import best_report
from skyline.report.schema import BestReport, EstimateReport
from skyline.stage_failures import failure
from skyline.whatif.question import Question

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

logger = logging.getLogger(__name__)

_HERE = re.compile(r"(?:127\.0\.0\.1|localhost)(?::\d{1,5})?", re.ASCII)
_LONGEST_QUESTION = 100_000
_BEAT_S = 10.0
_JSON = "application/json"
_PREDICTED = ("simulate", "curve", "best")
_CHANGED = ("preview", "apply", "revert")
"""POST requests that need a server with write access. Predictions are POST requests too."""
_SCRIPTS = ("tables.js", "timeline.js", "served-page.js")
_STATIC = {**dict.fromkeys(_SCRIPTS, "text/javascript"), "live.css": "text/css"}
_HEADERS = {
    "Cache-Control": "no-store",
    # The page contains inline styles for the report and its bars, but scripts only by file name.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Answers:
    """An ASGI application about one subject.

    A request must name the loopback address of this machine as its host, with any port, because the port may be
    forwarded. A request with another host is refused, so that a foreign page cannot reach the server under its own
    name.
    """

    def __init__(self, subject: ShownProfile, script: str, token: str, changes: Changes | None) -> None:
        self._subject = subject
        self._script = script
        self._token = token
        self._changes = changes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        request = Request(scope, receive)
        try:
            response = await self._response(request)
        except ClientDisconnect:
            return
        await response(scope, receive, send)

    async def _response(self, request: Request) -> Response:
        # Always read the body first: a refusal sent while a body is arriving is lost when the connection closes.
        body = await _body(request)
        name, shown = self._name(request), self._subject.shown
        if name is None:
            return _refusal()
        if request.method == "POST" and name in (*_PREDICTED, *_CHANGED) and shown is not None:
            return await self._told(name, request, body, shown)
        if request.method != "GET":
            return _refusal()
        if name == "":
            writes = self._changes is not None
            page = await run_in_threadpool(live_page, shown, self._script, writes=writes)
            return _response("text/html", page.encode())
        if name in _STATIC:
            return _response(_STATIC[name], static(name))
        if name == "profile" and shown is not None:
            return _response(_JSON, await run_in_threadpool(msgspec.json.encode, shown.report))
        if name == "timeline" and shown is not None:
            return _response("application/gzip", await run_in_threadpool(_timeline, shown))
        if name == "news":
            return StreamingResponse(self._news(), media_type="text/event-stream", headers=_HEADERS)
        return _refusal()

    def _name(self, request: Request) -> str | None:
        """The path after the token. None if the request has no valid token or a foreign host."""
        path: str = request.scope["path"]
        token, slash, name = path.removeprefix("/").partition("/")
        known = hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token.encode())
        here = _HERE.fullmatch(request.headers.get("host", ""))
        return name if known and slash and here else None

    async def _told(self, name: str, request: Request, body: bytes | None, shown: Shown) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if body is None or kind != _JSON:
            return _refusal(HTTPStatus.BAD_REQUEST)
        try:
            asked = msgspec.json.decode(body, type=ChangeOptions)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            return _refusal(HTTPStatus.BAD_REQUEST)
        if name in _CHANGED and self._changes is None:
            return _refusal()
        told = await run_in_threadpool(self._answer, name, asked, shown)
        return _response(_JSON, msgspec.json.encode(told))

    def _answer(self, name: str, asked: ChangeOptions, shown: Shown) -> object:
        try:
            question = Question.parse(asked.batchSize, asked.whatifs)
            if name in _PREDICTED or self._changes is None:
                return _predicted(name, question, shown)
            if name == "revert":
                return self._changes.take_back()
            change = self._changes.apply if name == "apply" else self._changes.preview
            return change(shown.analysis, question, asked.removes)
        except SkylineError as error:
            text = f"{error.message}. {error.hint}".strip()
        except Exception as error:
            logger.info("a question could not be answered", exc_info=True)
            text = f"{failure(error)}."
        return ChangeAnswer(text)

    async def _news(self) -> AsyncIterator[str]:
        """The news as server-sent events, until the page disconnects or the server stops."""
        subject, known = self._subject, None
        loop, changed = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(changed.set)

        with subject.followed(wake):
            while not subject.closed:
                changed.clear()
                news = subject.news
                if news != known:
                    known = news
                    yield f"data: {msgspec.json.encode(news).decode()}\n\n"
                    continue
                try:
                    await asyncio.wait_for(changed.wait(), _BEAT_S)
                except asyncio.TimeoutError:
                    yield ": still here\n\n"


def _timeline(shown: Shown) -> bytes:
    """The recording and its simulation as a trace for Perfetto."""
    from skyline.report.cells import by_cells
    from skyline.report.perfetto import chrome_trace

    return chrome_trace(by_cells(shown.analysis.profile), shown.analysis.timeline)


def _predicted(name: str, question: Question, shown: Shown) -> EstimateReport | BestReport:
    """The prediction as the language server answers it. ``curve`` adds the batch-size curve under the what-ifs."""
    if name == "best":
        return best_report(shown.analysis, Constraints(rewritable=True))
    found = estimate(shown.analysis, question)
    return replace(found, curve=curve_under(shown.analysis, question.choices)) if name == "curve" else found


async def _body(request: Request) -> bytes | None:
    """The body of a request. None if it is longer than any question."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LONGEST_QUESTION:
            return None
    return body


def _response(kind: str, body: bytes) -> Response:
    return Response(body, media_type=kind, headers=_HEADERS)


def _refusal(status: HTTPStatus = HTTPStatus.NOT_FOUND) -> Response:
    # The rest of a body that is too long stays unread. Close, so that it is not taken for the next request.
    headers = {**_HEADERS, "Connection": "close"}
    return Response(f"{status.phrase}\n", status, headers, "text/plain")


_NEWS, _VERDICT_ENDS = "<main>", "</section>"


def live_page(shown: Shown | None, script: str, *, writes: bool = False) -> str:
    """The report with a panel for questions below its verdict. Without a profile, a page that waits for one.

    ``writes``: the panel can also show a change as a diff, write it into the code and undo it.
    """
    environment = Environment(
        loader=PackageLoader("skyline.browser", "static"), autoescape=True, undefined=StrictUndefined
    )
    if shown is None:
        return environment.get_template("waiting.html").render(script=script)
    report = shown.report
    panel = environment.get_template("panel.html").render(
        writes=writes, trace=f"{Path(report.script).stem}.json.gz"
    )
    page = html.render(report, shown.whatifs, shown.analysis.profile.sources, answers=False)
    page = page.replace("</head>", '<link rel="stylesheet" href="live.css"></head>', 1)
    page = page.replace(_NEWS, f'<main data-number="{shown.number}"><p id="status" role="status"></p>', 1)
    page = page.replace(_VERDICT_ENDS, _VERDICT_ENDS + panel, 1)
    scripts = "".join(f'<script src="{name}"></script>' for name in _SCRIPTS)
    return page.replace("</body>", f"{scripts}</body>", 1)


def static(name: str) -> bytes:
    """A static file that the page loads from this server."""
    return files("skyline.browser").joinpath("static", name).read_bytes()


LOOPBACK = "127.0.0.1"
_BACKLOG = 512
_MOST_ANSWERED = 256
"""Maximum number of connections, including pages that wait for news, but not those without a request yet."""
_LONGEST_HEAD = 16_384
"""Maximum size of a request without its body, in bytes."""
_IDLE_S = 5
_FAREWELL_S = 1
_JOIN_S = 5.0


class Service:
    """Serves one subject until it is closed. Raises OSError if the port is taken.

    Without ``changes`` it writes nothing. Every path begins with a token that is generated at each start.
    """

    def __init__(
        self,
        subject: ShownProfile,
        script: str,
        port: int = 0,
        half_open: HalfOpen | None = None,
        changes: Changes | None = None,
    ) -> None:
        self._socket = socket.socket()
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind((LOOPBACK, port))
            self._socket.listen(_BACKLOG)
        except (OSError, OverflowError):
            self._socket.close()
            raise
        self.subject = subject
        self.port: int = self._socket.getsockname()[1]
        self.token = secrets.token_urlsafe(24)
        self.half_open = HalfOpen() if half_open is None else half_open
        self._server = Server(
            Config(
                Answers(subject, script, self.token, changes),
                http=self.half_open.connection,  # pyright: ignore[reportArgumentType]
                ws="none",
                lifespan="off",
                # Requests are not logged, because their path contains the token.
                access_log=False,
                log_config=None,
                log_level="critical",
                proxy_headers=False,
                server_header=False,
                backlog=_BACKLOG,
                limit_concurrency=self.half_open.most + _MOST_ANSWERED,
                timeout_keep_alive=_IDLE_S,
                timeout_graceful_shutdown=_FAREWELL_S,
                h11_max_incomplete_event_size=_LONGEST_HEAD,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="browser page", daemon=True
        )

    @property
    def url(self) -> str:
        """The URL of the page."""
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def close(self) -> None:
        """Close all connections and the port."""
        self.subject.close()
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
        self._socket.close()


LONGEST_HALF_OPEN_S = 10.0
"""Time limit for a whole request including its body. A browser on this machine needs milliseconds."""
MOST_HALF_OPEN = 512
"""Maximum number of connections that wait for a request, which cost almost nothing. Beyond it, the oldest is closed.
With so many places, a client that sends a whole request at once is served before it becomes the oldest."""
_SHARE_OF_DESCRIPTORS = 0.5
_UNFINISHED = (h11.IDLE, h11.SEND_BODY)


def _room() -> int:
    """The number of waiting connections to keep. Fewer if the process may open only few files."""
    try:
        import resource
    except ImportError:  # Windows
        return MOST_HALF_OPEN
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        MOST_HALF_OPEN
        if soft == resource.RLIM_INFINITY
        else min(MOST_HALF_OPEN, int(soft * _SHARE_OF_DESCRIPTORS))
    )


class HalfOpen:
    """The connections that have not yet sent a whole request, in the order in which they started to wait."""

    def __init__(self, longest_s: float = LONGEST_HALF_OPEN_S, most: int | None = None) -> None:
        self._longest_s = longest_s
        self.most = most or _room()
        self._waiting: dict[_Connection, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def connection(self, **options: Any) -> asyncio.Protocol:
        """A new connection. uvicorn calls this in place of its own protocol class."""
        return _Connection(self, **options)

    def wait_for(self, connection: _Connection) -> None:
        """Start the time limit for a request. It is not restarted by further bytes of the same request."""
        if connection in self._waiting:
            return
        if len(self._waiting) >= self.most:
            self._close(next(iter(self._waiting)))
        loop = asyncio.get_running_loop()
        self._waiting[connection] = loop.call_later(self._longest_s, self._close, connection)

    def let_go(self, connection: _Connection) -> None:
        """Stop the time limit: the request is complete, or the connection has ended."""
        timer = self._waiting.pop(connection, None)
        if timer is not None:
            timer.cancel()

    def _close(self, connection: _Connection) -> None:
        self.let_go(connection)
        connection.transport.abort()


class _Connection(H11Protocol):
    def __init__(self, half_open: HalfOpen, **options: Any) -> None:
        super().__init__(**options)
        self._half_open = half_open

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._half_open.wait_for(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._half_open.let_go(self)
        super().connection_lost(exc)

    def handle_events(self) -> None:
        """Handle new bytes or the end of an answer: start or stop the time limit."""
        super().handle_events()
        if self.conn.their_state in _UNFINISHED and not self.transport.is_closing():
            self._half_open.wait_for(self)
        else:
            self._half_open.let_go(self)
