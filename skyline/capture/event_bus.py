"""Takes the calls of a run's processes: the one that was started, and the one that turns out to train."""

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
    """Events come from every process that called; commands go to the one that called last.

    A script may train in a process that it starts itself. That process calls when it makes its first step,
    and from then on it is the one to talk to; the first one may still tell how the script ended.

    Its socket lies in ``folder``. Raises OSError where it cannot, as where the path is too long for a socket.
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
        """Where to call."""
        return str(self._listener.address)

    def wait_for_call(self, timeout_s: float) -> bool:
        """True if a process has called, waiting for it a little."""
        return self._called.wait(timeout_s)

    def send(self, message: Event) -> None:
        """To the process that is observed. Raises OSError when it is gone."""
        if not self._lines:
            raise BrokenPipeError("no process is there")
        self._lines[-1].send_bytes(json.dumps(message).encode())

    def waiting(self) -> bool:
        """True if an event can be taken at once."""
        return bool(self._lines) and bool(wait(self._lines, 0))

    def next_event(self, timeout_s: float) -> Event | None:
        """The next event of any process, None if there is none in time; EOFError once all have hung up."""
        if not self._lines:
            raise EOFError
        for line in cast("list[Connection]", wait(list(self._lines), timeout_s)):
            try:
                return cast("Event", json.loads(line.recv_bytes(_LONGEST_EVENT_BYTES)))
            except (EOFError, OSError, ValueError, RecursionError):  # it hung up, or says no event
                self._lines.remove(line)
                line.close()
                if not self._lines:
                    raise EOFError from None
        return None

    def close(self) -> None:
        """Take no more calls. May be called again."""
        if self._closing:
            return
        self._closing = True
        try:
            # Before the call below, which needs a descriptor of which there may be no other.
            self._hang_up()
            # Nothing but a call ends the wait for one. It awaits no answer: where no descriptor is left there is none.
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as caller:
                caller.settimeout(_JOIN_S)
                caller.connect(self.address)
            self._thread.join(_JOIN_S)
        finally:
            # Also after a second Ctrl+C: a listener that stays open removes its socket when Python ends, with a
            # traceback because the folder is gone by then.
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
                # Without a descriptor for it the same call fails again at once.
                time.sleep(_RETRY_S)
                continue
            if self._closing:
                line.close()
                return
            self._lines.append(line)
            self._called.set()
