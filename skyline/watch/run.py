"""The run under watch: its command, started unchanged, and the socket on which its processes report."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from skyline.watch.records import Record, parsed

STARTUP = Path(__file__).resolve().parent.parent / "capture" / "child" / "watching" / "startup"
_TICK_S = 0.5
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")

Heard = Callable[[int, Record], None]


class WatchedProcess:
    """A process that inherits input, output and terminal, and whose hooks connect to a socket of ours.

    It is not ours to end: it goes on if we are killed.
    """

    def __init__(self, command: Sequence[str], *, share: float, every_s: float) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="skyline-watch-", ignore_cleanup_errors=True)
        address = os.path.join(self._folder.name, "socket")
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(address)
        self._listener.listen(64)
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._connections: dict[int, socket.socket] = {}
        self._rests: dict[int, bytes] = {}
        self._paused: set[int] = set()
        settings = json.dumps({"address": address, "share": share, "every_s": every_s})
        path = os.pathsep.join(filter(None, (str(STARTUP), os.environ.get("PYTHONPATH"))))
        try:
            self.process = subprocess.Popen(
                list(command), env={**os.environ, "PYTHONPATH": path, "SKYLINE_WATCH": settings}
            )
        except BaseException:
            self.close()
            raise
        reader, self._ended = os.pipe()
        self._selector.register(reader, selectors.EVENT_READ)
        self._reader = reader
        threading.Thread(target=self._await_end, daemon=True).start()

    def listen(self, heard: Heard, tick: Callable[[], None]) -> int:
        """Pass on records until the process has ended; its return code."""
        running = True
        while running:
            running = self._take(heard, _TICK_S)
            tick()
        while self._take(heard, 0.0):
            pass
        return self.process.wait()

    def command(self, number: int, command: dict[str, object]) -> None:
        """Pass a command on to the process with this number of ``heard``."""
        connection = self._connections.get(number)
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.send(json.dumps(command).encode() + b"\n")

    def pause(self, processes: Sequence[int]) -> None:
        """Stop processes of the run until somebody continues them (``kill -CONT``), or a signal comes for the run."""
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGSTOP)
                self._paused.add(process)

    def close(self) -> None:
        """Remove the socket; the process, if it still runs, goes on."""
        for connection in self._connections.values():
            connection.close()
        self._listener.close()
        self._selector.close()
        self._folder.cleanup()

    @contextlib.contextmanager
    def forwarded_signals(self) -> Generator[None]:
        """Signals to us go to the process. Ctrl+C on a terminal reaches it by itself."""

        def forward(number: int, _: object) -> None:
            if number != signal.SIGINT or not _in_foreground():
                with contextlib.suppress(ProcessLookupError):
                    self.process.send_signal(number)
            # A paused process takes no signal in.
            for process in self._paused:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGCONT)
            self._paused.clear()

        numbers = [signal.SIGINT, *(getattr(signal, name) for name in _FORWARDED)]
        before = {number: signal.signal(number, forward) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _await_end(self) -> None:
        self.process.wait()
        os.close(self._ended)

    def _take(self, heard: Heard, timeout_s: float) -> bool:
        """Handle what has arrived; False once the process has ended, or nothing more is there."""
        ready = self._selector.select(timeout_s)
        goes_on = bool(ready) or timeout_s > 0
        for key, _ in ready:
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj == self._reader:
                self._selector.unregister(self._reader)
                os.close(self._reader)
                goes_on = False
            else:
                self._read(key.data, heard)
        return goes_on

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            number = len(self._rests)
            self._connections[number], self._rests[number] = connection, b""
            self._selector.register(connection, selectors.EVENT_READ, number)

    def _read(self, number: int, heard: Heard) -> None:
        connection = self._connections[number]
        try:
            data = connection.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(connection)
            connection.close()
            del self._connections[number]
            return
        *lines, self._rests[number] = (self._rests[number] + data).split(b"\n")
        for line in lines:
            heard(number, parsed(line))


def _in_foreground() -> bool:
    """True if the terminal sends its signals to our process group."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
