"""The line to the watcher: records as lines of JSON, written without ever waiting."""

from __future__ import annotations

import json
import os
import socket

_MOST_PENDING_BYTES = 1 << 20
_FLAGS = getattr(socket, "MSG_NOSIGNAL", 0)


class Stream:
    """Connects with the first record. Once the watcher is gone, records are dropped.

    A forked process opens a line of its own with its first record.
    """

    def __init__(self, address):
        self._address = address
        self._socket = None
        self._owner = None
        self._pending = bytearray()
        self._received = b""
        self.dropped = 0

    def send(self, **record):
        """Pass a record on, or drop it if the watcher does not read."""
        if not self._connected():
            return
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
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
            self.close()

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
            self.close()
            return []
        *lines, self._received = (self._received + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def _connected(self):
        if self._owner == os.getpid():
            return self._socket is not None
        self._owner = os.getpid()
        self._pending.clear()
        try:
            made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            if not _FLAGS and hasattr(socket, "SO_NOSIGPIPE"):
                made.setsockopt(socket.SOL_SOCKET, socket.SO_NOSIGPIPE, 1)
            made.setblocking(False)
            made.connect(self._address)
            self._socket = made
        except OSError:
            self._socket = None
        return self._socket is not None

    def close(self):
        """Send nothing further."""
        self._pending.clear()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
