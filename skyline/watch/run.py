"""A watched run: its command, started unchanged."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from skyline.watch.heard_run import SOCKETS, TICK_S, Heard, HeardRun

STARTUP = Path(__file__).resolve().parent.parent / "capture" / "child" / "watching" / "startup"
_FORWARDED = ("SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


class WatchedProcess(HeardRun):
    """A child process that inherits input, output and terminal."""

    def __init__(self, command: Sequence[str], *, share: float, every_s: float) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix=SOCKETS)))
        self._runs = True
        settings = json.dumps({"address": self.hooks_address, "share": share, "every_s": every_s})
        path = os.pathsep.join(filter(None, (str(STARTUP), os.environ.get("PYTHONPATH"))))
        try:
            self.process = subprocess.Popen(
                list(command), env={**os.environ, "PYTHONPATH": path, "SKYLINE_WATCH": settings}
            )
        except BaseException:
            self.close()
            raise
        self._reader, self._ended = os.pipe()
        self.when_readable(self._reader, self._end_seen)
        threading.Thread(target=self._await_end, daemon=True).start()

    def root(self) -> int:
        """The number of the process."""
        return self.process.pid

    def listen(self, heard: Heard, tick: Callable[[], None]) -> int:
        """Passes on records until the process has ended; returns its exit code."""
        self._heard = heard
        while self._runs:
            self._take(TICK_S)
            tick()
        while self._take(0.0):
            pass
        return self.process.wait()

    def close(self) -> None:
        """Removes the sockets; a process that still runs goes on."""
        super().close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def forwarded_signals(self) -> Generator[None]:
        """Forwards our signals to the process. Ctrl+C on a terminal reaches it directly."""

        def forward(number: int, _: object) -> None:
            if number != signal.SIGINT or not _in_foreground():
                with contextlib.suppress(ProcessLookupError):
                    self.process.send_signal(number)
            # A paused process does not react to signals.
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

    def _end_seen(self) -> None:
        self.no_longer(self._reader)
        os.close(self._reader)
        self._runs = False


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
