"""Connections that have not sent a whole request: how many are kept, and for how long.

The server underneath (uvicorn) limits what it answers at once and how long a connection rests between two requests,
but waits without limit for the rest of a request.
"""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

LONGEST_S = 10.0
"""For a whole request, body included: a browser on this machine takes milliseconds."""
MOST = 512
"""One that waits costs next to nothing. Of more than these the one that has waited longest is closed: with so many,
whoever sends a whole request is through before it would be that one, however fast others come back."""
_SHARE_OF_DESCRIPTORS = 0.5
_UNFINISHED = (h11.IDLE, h11.SEND_BODY)


def _room() -> int:
    """The number kept: fewer where a process may have few files open."""
    try:
        import resource
    except ImportError:  # Windows
        return MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else min(MOST, int(soft * _SHARE_OF_DESCRIPTORS))


class HalfOpen:
    """The connections from which a request, or the rest of one, is still to come, in the order in which they began."""

    def __init__(self, longest_s: float = LONGEST_S, most: int | None = None) -> None:
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
