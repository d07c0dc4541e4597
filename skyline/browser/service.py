"""The page over HTTP on the loopback address: the socket, the thread that serves it, and its limits."""

from __future__ import annotations

import secrets
import socket
import threading

from uvicorn import Config, Server

from skyline.browser.answers import Answers
from skyline.browser.half_open import HalfOpen
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
