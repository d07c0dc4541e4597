"""The whole program in a real terminal: keys and mouse go in as bytes, the screen comes out as bytes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(120)

DATA = Path(__file__).resolve().parent.parent / "data"
COLUMNS, ROWS = 120, 40
WAIT_S = 60.0


class Terminal:
    """A child on a pseudo-terminal, and everything it wrote."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self.written = ""
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            # Before the program looks, not while it starts.
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.chdir(folder)
            environment = {
                **os.environ,
                "TERM": "xterm-256color",
                "LANG": "C.UTF-8",
                "TEXTUAL_ANIMATIONS": "none",
                # Whoever runs the tests may have set these, and they go before what the terminal says.
                "COLUMNS": str(COLUMNS),
                "LINES": str(ROWS),
            }
            os.execvpe(sys.executable, [sys.executable, *arguments], environment)

    def send(self, keys: str) -> None:
        os.write(self._end, keys.encode())

    def until(self, *words: str) -> str:
        """What was written since the last call, once all these words were."""
        deadline = time.monotonic() + WAIT_S
        while not all(word in _plain(self.written) for word in words):
            if time.monotonic() > deadline:
                raise AssertionError(f"waited in vain for {words} in:\n{_plain(self.written)[-4000:]}")
            if select.select([self._end], [], [], 0.2)[0]:
                with contextlib.suppress(OSError):
                    self.written += os.read(self._end, 1 << 16).decode("utf-8", "replace")
        seen, self.written = self.written, ""
        return seen

    def exit_code(self) -> int:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if select.select([self._end], [], [], 0.1)[0]:
                    os.read(self._end, 1 << 16)
            gone, status = os.waitpid(self.pid, os.WNOHANG)
            if gone:
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("the program did not end")

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._end)


def _plain(text: str) -> str:
    """Without control sequences: the words in the order in which they were written."""
    return re.sub(r"\x1b(\[[0-9;?<>=]*[ -/]*[@-~]|[\]P^_].*?(\x07|\x1b\\)|.)", "", text)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    saved = tmp_path / "linear.profile.json.gz"
    shutil.copy(DATA / "linear.profile.json.gz", saved)
    opened = Terminal(["-P", "-m", "skyline", "tui", saved.name] if sys.version_info >= (3, 11)
                      else ["-m", "skyline", "tui", saved.name], tmp_path)  # fmt: skip
    yield opened
    opened.close()


def test_a_saved_profile_by_keys_and_mouse(terminal: Terminal) -> None:
    terminal.until("recording", "per iteration", "What-ifs")
    terminal.send("2")
    terminal.until("[2 Lines]", "t: modules")
    terminal.send("3")
    terminal.until("measured, while recorded", "simulated", "critical")
    # A click on the first title, as a terminal reports it: button, column and row, from 1.
    terminal.send("\x1b[<0;8;3M\x1b[<0;8;3m")
    terminal.until("[1 Overview]")
    terminal.send("?")
    terminal.until("Keys and signs")
    terminal.send("\x1b")
    time.sleep(0.5)
    terminal.send("q")
    assert terminal.exit_code() == 0
