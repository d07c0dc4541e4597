"""The terminals that are attached to a run: they receive its state, and may send requests."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from skyline.watch.heard_run import HeardRun, listening

_RECENT = 20
"""The number of messages that a new client receives first."""
_MOST_PENDING_BYTES = 1 << 18
_LONGEST_REQUEST_BYTES = 1 << 12

Message = dict[str, Any]


@dataclass(slots=True)
class _Client:
    connection: socket.socket
    pending: bytearray = field(default_factory=bytearray)
    received: bytes = b""


class Clients:
    """Talks with attached terminals in lines of JSON while the watcher listens to the run.

    The run waits for no client: a client that has ended, does not read or sends nonsense is dropped. A new
    client gets ``facts`` first, and ``asked`` answers a request. Messages may come from several threads.
    """

    def __init__(self, run: HeardRun, facts: Callable[[], Message], asked: Callable[[str], Message]) -> None:
        self._run = run
        self._facts = facts
        self._asked = asked
        self._clients: dict[int, _Client] = {}
        self._said: deque[str] = deque(maxlen=_RECENT)
        self._status: Message | None = None
        self._count = 0
        self._lock = threading.RLock()
        self._listener = listening(run.clients_address)
        run.when_readable(self._listener, self._accept)

    def say(self, text: str) -> None:
        """Sends a message about the run, such as an alert."""
        with self._lock:
            self._said.append(text)
            self._tell({"kind": "said", "text": text})

    def draw(self, status: str) -> None:
        """Sends the state of the run in one line."""
        with self._lock:
            message = {"kind": "status", "text": status}
            if status and message != self._status:
                self._status = message
                self._tell(message)

    def end(self, code: int | None) -> None:
        """Reports that the run has ended with this exit code; None if it is unknown."""
        with self._lock:
            self._tell({"kind": "end", "exit_code": code})

    def close(self) -> None:
        """Closes all connections."""
        with self._lock:
            for client in self._clients.values():
                client.connection.close()
            self._clients.clear()
            self._listener.close()

    def _accept(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._count += 1
            number = self._count
            client = self._clients[number] = _Client(connection)
            self._run.when_readable(connection, partial(self._read, number))
            said = [{"kind": "said", "text": text} for text in self._said]
            status = [self._status] if self._status is not None else []
            for message in ({"kind": "run", **self._facts()}, *said, *status):
                self._send(number, client, message)

    def _read(self, number: int) -> None:
        with self._lock:
            client = self._clients.get(number)
            if client is None:
                return
            try:
                data = client.connection.recv(_LONGEST_REQUEST_BYTES)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            *lines, client.received = (client.received + data).split(b"\n")
            if not data or len(client.received) > _LONGEST_REQUEST_BYTES:
                self._leave_out(number)
                return
            for line in lines:
                try:
                    request: Any = json.loads(line)
                    name = str(request["ask"])
                except (ValueError, TypeError, KeyError):
                    self._leave_out(number)
                    return
                self._send(number, client, {"kind": "answer", **self._asked(name)})

    def _tell(self, message: Message) -> None:
        for number, client in list(self._clients.items()):
            self._send(number, client, message)

    def _send(self, number: int, client: _Client, message: Message) -> None:
        client.pending += json.dumps(message).encode() + b"\n"
        try:
            while client.pending:
                del client.pending[: client.connection.send(client.pending)]
        except BlockingIOError:
            if len(client.pending) > _MOST_PENDING_BYTES:
                self._leave_out(number)
        except OSError:
            self._leave_out(number)

    def _leave_out(self, number: int) -> None:
        client = self._clients.pop(number, None)
        if client is not None:
            with contextlib.suppress(KeyError, ValueError):
                self._run.no_longer(client.connection)
            client.connection.close()
