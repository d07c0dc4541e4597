"""The sockets of a run under watch: its processes report on one, attached terminals talk on another."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from skyline.watch.records import Record, parsed

SOCKETS = "skyline-watch-"
"""The prefix of the names of socket folders."""
_HOOKS, _CLIENTS = "socket", "clients"
TICK_S = 0.5

Heard = Callable[[int, Record], None]


def listening(address: str) -> socket.socket:
    """A socket at this address that only this user may open. It replaces a socket that a dead process left there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(address)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        made.bind(address)
        os.chmod(address, 0o600)
        made.listen(64)
    except OSError:
        made.close()
        raise
    made.setblocking(False)
    return made


class HeardRun(ABC):
    """A run whose hooks connect to a socket in ``folder``. The watcher never ends it, even if it is killed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._selector = selectors.DefaultSelector()
        self._listener = listening(self.hooks_address)
        self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._connections: dict[int, socket.socket] = {}
        self._rests: dict[int, bytes] = {}
        self._paused: set[int] = set()
        self._heard: Heard = lambda number, record: None

    @property
    def hooks_address(self) -> str:
        """The address to which the hooks of the run's processes connect."""
        return str(self.folder / _HOOKS)

    @property
    def clients_address(self) -> str:
        """The address for terminals that attach."""
        return clients_address(self.folder)

    @abstractmethod
    def listen(self, heard: Heard, tick: Callable[[], None]) -> int | None:
        """Passes on records until the run has ended; returns its exit code, None if unknown."""

    @abstractmethod
    def root(self) -> int:
        """The number of the process that was started; the others are its descendants."""

    def when_readable(self, source: Any, act: Callable[[], None]) -> None:
        """Calls ``act`` while listening, each time that there is something to read from ``source``."""
        self._selector.register(source, selectors.EVENT_READ, act)

    def no_longer(self, source: Any) -> None:
        """Undoes ``when_readable``."""
        self._selector.unregister(source)

    def command(self, number: int, command: dict[str, object]) -> None:
        """Passes a command on to the process with this number of ``heard``."""
        connection = self._connections.get(number)
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.send(json.dumps(command).encode() + b"\n")

    def pause(self, processes: Sequence[int]) -> None:
        """Stops processes of the run until somebody continues them, or a signal arrives for the run."""
        for process in processes:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGSTOP)
                self._paused.add(process)

    def go_on(self) -> None:
        """Continues all stopped processes, whoever stopped them."""
        stopped = set(self._paused)
        with contextlib.suppress(psutil.Error):
            started = psutil.Process(self.root())
            for one in (started, *started.children(recursive=True)):
                with contextlib.suppress(psutil.Error):
                    if one.status() == psutil.STATUS_STOPPED:
                        stopped.add(one.pid)
        for process in stopped:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGCONT)
        self._paused.clear()

    def close(self) -> None:
        """Closes the sockets; a run that has not ended goes on."""
        for connection in self._connections.values():
            connection.close()
        self._listener.close()
        self._selector.close()

    def _take(self, timeout_s: float) -> bool:
        """Handles everything that has arrived; False if there was nothing."""
        ready = self._selector.select(timeout_s)
        for key, _ in ready:
            key.data()
        return bool(ready)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            number = len(self._rests)
            self._connections[number], self._rests[number] = connection, b""
            self._selector.register(connection, selectors.EVENT_READ, partial(self._read, number))

    def _read(self, number: int) -> None:
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
            self._heard(number, parsed(line))


def clients_address(folder: Path) -> str:
    """The address for terminals, in the folder of a run's sockets."""
    return str(folder / _CLIENTS)
