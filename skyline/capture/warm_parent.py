"""A resident process that has imported torch, and the processes for runs that it forks."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from multiprocessing import reduction
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any

import psutil

from skyline.capture.process import ENTRY, Start
from skyline.capture.process_family import RUN_TAG

_FORK_TIMEOUT_S = 20.0
_LEAVE_TIMEOUT_S = 3.0
_LOOK_S = 0.2
_TOLD_WITHIN_S = 1.0
_UNKNOWN_STATUS = -int(getattr(signal, "SIGKILL", signal.SIGTERM))
"""Reported exit status of a run whose resident parent is gone: the parent's end also ends its runs."""

_NO_RUN = "0" * 16
"""Placeholder for a run's tag: the forks overwrite it with theirs."""

Stamp = tuple[tuple[str, int, int, int], ...]


class CannotFork(OSError):
    """The resident process is gone or does not answer: the run must be started in another way."""


class ForkedProcess:
    """A run's process that the resident process forked; the resident process reports its exit status."""

    def __init__(self, pid: int, stdout: IO[bytes]) -> None:
        self.pid = pid
        self.stdout: IO[bytes] | None = stdout
        self._ended = threading.Event()
        self._status = _UNKNOWN_STATUS

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._status if self._ended.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status; raises ``subprocess.TimeoutExpired``."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while not self._ended.wait(max(0.0, min(_LOOK_S, deadline - time.monotonic()))):
            # The resident process reports the exit status, unless it was stopped itself.
            if _is_over(self.pid) and not self._ended.wait(_TOLD_WITHIN_S):
                self.end(_UNKNOWN_STATUS)
            elif time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return self._status

    def end(self, status: int) -> None:
        """Store the exit status."""
        self._status = status
        self._ended.set()


def _is_over(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def start_resident(start: Start, descriptor: int) -> subprocess.Popen[bytes]:
    """Start the resident process, which serves the channel of this descriptor."""
    return subprocess.Popen(
        [start.interpreter, str(ENTRY), "--warm", str(descriptor), *(["--plain"] if start.plain else [])],
        cwd=start.working_directory,
        env={**start.environment, RUN_TAG: _NO_RUN},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        start_new_session=True,
    )


class WarmParent:
    """One resident process; it ends, with all its forks, when this end of its channel closes."""

    def __init__(self, start: Start) -> None:
        self._forking = threading.Lock()
        self._state = threading.Condition()
        self._files: list[str] | None = None
        self._stamp: Stamp = ()
        self._environment = start.environment
        self._variables: list[str] = []
        self._answers: dict[int, ForkedProcess] = {}
        self._outputs: dict[int, IO[bytes]] = {}
        self._running: dict[int, ForkedProcess] = {}
        self._number = 0
        self._gone = False
        self._socket, theirs = socket.socketpair()
        self._control = Connection(os.dup(self._socket.fileno()))
        try:
            self._process = start_resident(start, theirs.fileno())
        except OSError:
            self._control.close()
            self._socket.close()
            raise
        finally:
            theirs.close()
        self._reader = threading.Thread(target=self._listen, name="skyline-warm", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        """ID of the resident process."""
        return self._process.pid

    @property
    def busy(self) -> bool:
        """True if a run is in progress in one of its forks."""
        with self._state:
            return bool(self._running)

    def is_current(self, environment: Mapping[str, str]) -> bool:
        """True if it is alive, and its imports match the files on disk and this environment."""
        with self._state:
            files, stamp, variables = self._files, self._stamp, self._variables
            if self._gone:
                return False
        if any(environment.get(name) != self._environment.get(name) for name in variables):
            return False
        return files is None or _stamp(files) == stamp

    def wait_ready(self, timeout_s: float, cancel: threading.Event) -> bool:
        """Wait until it can fork; False if it ended, was cancelled or took longer."""
        slept = 0.0
        with self._state:
            while self._files is None and not self._gone and not cancel.is_set() and slept < timeout_s:
                self._state.wait(0.05)
                slept += 0.05
            return self._files is not None and not self._gone

    def fork(self, start: Start) -> ForkedProcess:
        """Fork a run's process; raises CannotFork."""
        reading, writing = os.pipe()
        output = os.fdopen(reading, "rb", buffering=0)
        number = -1
        try:
            number = self._ask(start, output, writing)
            with self._state:
                self._state.wait_for(lambda: number in self._answers or self._gone, _FORK_TIMEOUT_S)
                process = self._answers.pop(number, None)
                self._outputs.pop(number, None)
            if process is None:
                raise CannotFork("the resident process does not answer")
            return process
        except OSError as error:
            with self._state:
                self._outputs.pop(number, None)
            output.close()
            raise CannotFork(str(error)) from error
        finally:
            os.close(writing)

    def _ask(self, start: Start, output: IO[bytes], writing: int) -> int:
        """Send the request, and return its number."""
        with self._forking:
            self._number += 1
            with self._state:
                self._outputs[self._number] = output
            message = json.dumps(
                {
                    "number": self._number,
                    "address": start.address,
                    "key": start.key.hex(),
                    "environment": dict(start.environment),
                    "directory": str(start.working_directory),
                }
            ).encode()
            self._control.send_bytes(message)
            reduction.sendfds(self._socket, [writing] if start.stdin is None else [writing, start.stdin])
            return self._number

    def close(self) -> None:
        """End it and its forks."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        try:
            self._process.wait(_LEAVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_LEAVE_TIMEOUT_S)
        self._control.close()
        self._socket.close()

    def _listen(self) -> None:
        try:
            while True:
                message = json.loads(self._control.recv_bytes())
                with self._state:
                    self._take(message)
                    self._state.notify_all()
        except (EOFError, OSError, ValueError):
            pass
        with self._state:
            self._gone = True
            for process in self._running.values():
                try:
                    os.kill(process.pid, signal.SIGTERM)
                except OSError:
                    pass
                process.end(_UNKNOWN_STATUS)
            self._running.clear()
            self._state.notify_all()
        self._process.wait()

    def _take(self, message: dict[str, Any]) -> None:
        match message["event"]:
            case "ready":
                self._stamp = _stamp(message["files"])
                self._files, self._variables = message["files"], message["variables"]
            case "forked":
                number, pid = message["number"], message["pid"]
                output = self._outputs.get(number)
                if output is None:
                    # Nobody is waiting for this process any more.
                    os.kill(pid, signal.SIGTERM)
                else:
                    self._answers[number] = self._running[pid] = ForkedProcess(pid, output)
            case "ended":
                process = self._running.pop(message["pid"], None)
                if process is not None:
                    process.end(message["status"])
            case _:
                # The resident process cannot import torch and exits; a fresh process reports the reason.
                pass


def _stamp(files: list[str]) -> Stamp:
    """A value that changes if one of these files is replaced, or if something is installed into a folder."""
    found: list[tuple[str, int, int, int]] = []
    for file in files:
        try:
            status = os.stat(Path(file))
        except OSError:
            found.append((file, 0, 0, 0))
            continue
        found.append((file, status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)
