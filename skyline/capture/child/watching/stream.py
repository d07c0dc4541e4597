"""The connection to the watcher: records as lines of JSON, written without waiting."""

from __future__ import annotations

import json
import os
import socket
import time

_MOST_PENDING_BYTES = 1 << 20
_RETRY_S = 1.0
"""Seconds between attempts to connect while nobody listens; an attempt takes some microseconds."""
_FIRST_WINDOWS = 5
"""Number of first windows that are stored: rules compare the loss with the loss in these windows."""
_FLAGS = getattr(socket, "MSG_NOSIGNAL", 0)


class Stream:
    """Connects at the first record. While nobody listens, records are dropped.

    A watcher that connects later, because the first one was killed, first receives the start, the lines, the parameters
    and the first windows. A forked process opens its own connection at its first record.
    """

    def __init__(self, address):
        self._address = address
        self._socket = None
        self._owner = None
        self._closed = False
        self._retry_at = 0.0
        self._pending = bytearray()
        self._received = b""
        self._kept = {}
        self._windows = 0
        self.dropped = 0

    def send(self, **record):
        """Send a record, or drop it if the watcher does not read."""
        connected = self._connected()
        key = self._key(record)
        if key is not None:
            self._kept[key] = _line({**record, "earlier": True} if record["kind"] == "window" else record)
        if not connected:
            return
        line = _line(record)
        if len(self._pending) + len(line) > _MOST_PENDING_BYTES:
            self.dropped += 1
            return
        self._pending += line
        try:
            while self._pending:
                del self._pending[: self._socket.send(self._pending, _FLAGS)]
        except BlockingIOError:
            pass
        except OSError:
            self._lose()

    def commands(self):
        """Commands of the watcher that have arrived."""
        if self._socket is None:
            return []
        try:
            data = self._socket.recv(1 << 16)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self._lose()
            return []
        *lines, self._received = (self._received + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def close(self):
        """Send nothing further."""
        self._closed = True
        self._lose()

    def _key(self, record):
        """The key under which this record is stored for a later watcher; None if that does not need it."""
        kind = record["kind"]
        if kind == "start":
            return kind
        if kind == "line":
            return kind, record["site"]
        if kind == "parameters":
            return kind, len(self._kept)
        if kind == "window" and self._windows < _FIRST_WINDOWS:
            self._windows += 1
            return kind, self._windows
        return None

    def _connected(self):
        if self._owner != os.getpid():
            # In a forked process, the connection belongs to the parent.
            self._owner, self._socket, self._retry_at = os.getpid(), None, 0.0
            self._pending.clear()
            self._kept.clear()
        if self._socket is None and not self._closed and time.monotonic() >= self._retry_at:
            self._connect()
        return self._socket is not None

    def _connect(self):
        made = None
        try:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            if not _FLAGS and hasattr(socket, "SO_NOSIGPIPE"):
                made.setsockopt(socket.SOL_SOCKET, socket.SO_NOSIGPIPE, 1)
            made.setblocking(False)
            made.connect(self._address)
        except OSError:
            if made is not None:
                made.close()
            self._retry_at = time.monotonic() + _RETRY_S
            return
        self._socket = made
        self._pending += b"".join(self._kept.values())

    def _lose(self):
        self._pending.clear()
        self._received = b""
        self._retry_at = time.monotonic() + _RETRY_S
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _line(record):
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"
