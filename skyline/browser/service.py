"""The page over HTTP on the loopback address: the socket, the thread that serves it, and its limits."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from typing import Any

import h11
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from skyline.browser.answers import Answers
from skyline.browser.subject import ShownProfile

LOOPBACK = "127.0.0.1"
_BACKLOG = 512
_MOST_ANSWERED = 256
"""Connections at once, pages that wait for news included; those that have asked nothing yet do not count."""
_LONGEST_HEAD = 16_384
"""Bytes of a request without its body."""
_IDLE_S = 5
_FAREWELL_S = 1
_JOIN_S = 5.0


class Service:
    """Serves one subject until it is closed; OSError where the port is taken.

    Every address begins with a token that is new for each start.
    """

    def __init__(
        self, subject: ShownProfile, script: str, port: int = 0, half_open: HalfOpen | None = None
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
        hosts = f"{LOOPBACK}:{self.port}", f"localhost:{self.port}"
        self.half_open = HalfOpen() if half_open is None else half_open
        self._server = Server(
            Config(
                Answers(subject, script, self.token, hosts),
                http=self.half_open.connection,  # pyright: ignore[reportArgumentType]
                ws="none",
                lifespan="off",
                # The address holds the token.
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
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def close(self) -> None:
        """Let go of every page and of the port."""
        self.subject.close()
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
        self._socket.close()


LONGEST_HALF_OPEN_S = 10.0
"""For a whole request, body included: a browser on this machine takes milliseconds."""
MOST_HALF_OPEN = 512
"""One that waits costs next to nothing. Of more than these the one that has waited longest is closed: with so many,
whoever sends a whole request is through before it would be that one, however fast others come back."""
_SHARE_OF_DESCRIPTORS = 0.5
_UNFINISHED = (h11.IDLE, h11.SEND_BODY)


def _room() -> int:
    """The number kept: fewer where a process may have few files open."""
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
    """The connections from which a request, or the rest of one, is still to come, in the order in which they began."""

    def __init__(self, longest_s: float = LONGEST_HALF_OPEN_S, most: int | None = None) -> None:
        self._longest_s = longest_s
        self.most = most or _room()
        self._waiting: dict[_Connection, asyncio.TimerHandle] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def connection(self, **options: Any) -> asyncio.Protocol:
        """A new connection, as uvicorn makes them."""
        return _Connection(self, **options)

    def wait_for(self, connection: _Connection) -> None:
        """A request is to come. The time runs on if one was to come already: bytes that trickle in do not renew it."""
        if connection in self._waiting:
            return
        if len(self._waiting) >= self.most:
            self._close(next(iter(self._waiting)))
        loop = asyncio.get_running_loop()
        self._waiting[connection] = loop.call_later(self._longest_s, self._close, connection)

    def let_go(self, connection: _Connection) -> None:
        """The request is there, or the connection is over."""
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
        """Called with new bytes, and when an answer is complete."""
        super().handle_events()
        if self.conn.their_state in _UNFINISHED and not self.transport.is_closing():
            self._half_open.wait_for(self)
        else:
            self._half_open.let_go(self)
