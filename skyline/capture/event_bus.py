"""Accepts connections from a run's processes: the process that was started, and the process that trains."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener, wait
from pathlib import Path
from typing import Any, cast

Event = dict[str, Any]
_JOIN_S = 1.0
_RETRY_S = 0.05
_LONGEST_EVENT_BYTES = 64 << 20
_SOCKET = "calls"


class EventBus:
    """Receives events from every connected process, and sends commands to the one that connected last.

    A script may train in a process that it starts itself. That process connects at its first training step and
    receives all commands from then on; the first process may still report how the script ended.

    The socket is created in ``folder``. Raises OSError if that fails, for example if the path is too long.
    """

    def __init__(self, key: bytes, folder: Path) -> None:
        self._listener = Listener(str(folder / _SOCKET), "AF_UNIX", authkey=key)
        self._lines: list[Connection] = []
        self._called = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._accept, name="skyline-accept", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The address to connect to."""
        return str(self._listener.address)

    def wait_for_call(self, timeout_s: float) -> bool:
        """Wait for a first connection; True if there is one by then."""
        return self._called.wait(timeout_s)

    def send(self, message: Event) -> None:
        """Send a command to the observed process. Raises OSError if it is gone."""
        if not self._lines:
            raise BrokenPipeError("no process is there")
        self._lines[-1].send_bytes(json.dumps(message).encode())

    def waiting(self) -> bool:
        """True if an event can be received without waiting."""
        return bool(self._lines) and bool(wait(self._lines, 0))

    def next_event(self, timeout_s: float) -> Event | None:
        """The next event of any process, None if there is none in time. Raises EOFError once all have disconnected."""
        if not self._lines:
            raise EOFError
        for line in cast("list[Connection]", wait(list(self._lines), timeout_s)):
            try:
                return cast("Event", json.loads(line.recv_bytes(_LONGEST_EVENT_BYTES)))
            except (EOFError, OSError, ValueError, RecursionError):  # it disconnected, or sent no event
                self._lines.remove(line)
                line.close()
                if not self._lines:
                    raise EOFError from None
        return None

    def close(self) -> None:
        """Accept no more connections. May be called again."""
        if self._closing:
            return
        self._closing = True
        try:
            # This comes first because the connection below needs a descriptor, and there may be no free one.
            self._hang_up()
            # Only a connection ends the thread's wait for one. The answer to it is not awaited, because there is none
            # if no descriptor is left.
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as caller:
                caller.settimeout(_JOIN_S)
                caller.connect(self.address)
            self._thread.join(_JOIN_S)
        finally:
            # This must also run after a second Ctrl+C: a listener that stays open removes its socket when Python
            # ends, and prints a traceback because the folder is gone by then.
            self._listener.close()
            self._hang_up()

    def _hang_up(self) -> None:
        while self._lines:
            self._lines.pop().close()

    def _accept(self) -> None:
        while not self._closing:
            try:
                line = self._listener.accept()
            except (OSError, EOFError, AuthenticationError):
                if self._closing:
                    return
                # If no descriptor is free, the next attempt would fail again at once.
                time.sleep(_RETRY_S)
                continue
            if self._closing:
                line.close()
                return
            self._lines.append(line)
            self._called.set()
