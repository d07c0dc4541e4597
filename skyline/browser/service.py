"""The page over HTTP on the loopback address, for whoever knows the token."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from skyline.browser.page import answer, live_page, static
from skyline.browser.subject import Subject
from skyline.errors import SkylineError
from skyline.report.build import encode
from skyline.report.protocol import QuestionOptions
from skyline.whatif.question import Choice, Question

LOOPBACK = "127.0.0.1"
_LONGEST_QUESTION = 100_000
_BEAT_S = 10.0
_STATIC = {"live.js": "text/javascript", "live.css": "text/css"}
_HEADERS = {
    "Cache-Control": "no-store",
    # The report's styles and the places of its bars are written into the page; no script is, but ours by name.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Service(ThreadingHTTPServer):
    """Serves one subject until it is closed; OSError where the port is taken.

    Every address begins with a token that is new for each start. A request that names another host than the loopback
    address is refused, so that no page from elsewhere can come here by a name of its own.
    """

    daemon_threads = True

    def __init__(self, subject: Subject, script: str, port: int = 0) -> None:
        super().__init__((LOOPBACK, port), _Handler)
        self.subject = subject
        self.script = script
        self.token = secrets.token_urlsafe(24)
        self._thread = threading.Thread(target=self.serve_forever, name="browser page", daemon=True)

    @property
    def url(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, str]:
        """As whom a browser may address this."""
        return f"{LOOPBACK}:{self.server_port}", f"localhost:{self.server_port}"

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def close(self) -> None:
        """Let go of every page and of the port."""
        self.subject.close()
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Service  # pyright: ignore[reportIncompatibleVariableOverride]
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self._name()
        if name == "":
            page = live_page(self.server.subject.shown, self.server.script)
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", page.encode())
        elif name in _STATIC:
            self._send(HTTPStatus.OK, f"{_STATIC[name]}; charset=utf-8", static(name))
        elif name == "profile" and (shown := self.server.subject.shown) is not None:
            self._send(HTTPStatus.OK, "application/json", encode(shown.report))
        elif name == "news":
            self._tell()
        else:
            self._refuse()

    def do_POST(self) -> None:
        shown = self.server.subject.shown
        if self._name() != "simulate" or shown is None:
            self._refuse()
            return
        try:
            length = int(self.headers.get("Content-Length", ""))
        except ValueError:
            length = -1
        if self.headers.get_content_type() != "application/json" or not 0 <= length <= _LONGEST_QUESTION:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        try:
            asked = msgspec.json.decode(self.rfile.read(length), type=QuestionOptions)
            question = Question(asked.batchSize, tuple(Choice.parse(text) for text in asked.whatifs))
            told = answer(self.server.subject.estimate(question), shown)
        except SkylineError as error:
            told = {"text": f"{error.message}. {error.hint}".strip(), "applicable": False}
        except msgspec.DecodeError:
            self._refuse(HTTPStatus.BAD_REQUEST)
            return
        self._send(HTTPStatus.OK, "application/json", json.dumps(told).encode())

    def _name(self) -> str | None:
        """What is asked for below the token; None for whoever may not ask."""
        token, slash, name = self.path.removeprefix("/").partition("/")
        known = hmac.compare_digest(token.encode(), self.server.token.encode())
        return name if known and slash and self.headers.get("Host") in self.server.hosts else None

    def _tell(self) -> None:
        """News as they come, as server-sent events, until the page or the server goes."""
        self._head(HTTPStatus.OK, "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        subject, known = self.server.subject, None
        while not subject.closed:
            news = subject.wait(known, _BEAT_S)
            line = (
                f"data: {msgspec.json.encode(news).decode()}\n\n" if news is not None else ": still here\n\n"
            )
            known = news or known
            try:
                self.wfile.write(line.encode())
                self.wfile.flush()
            except OSError:
                return

    def _refuse(self, status: HTTPStatus = HTTPStatus.NOT_FOUND) -> None:
        # What was sent along is not read: it must not be taken for the next request.
        self.close_connection = True
        self._send(status, "text/plain; charset=utf-8", f"{status.phrase}\n".encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self._head(status, kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _head(self, status: HTTPStatus, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in _HEADERS.items():
            self.send_header(name, value)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the address holds the token."""
