"""A program in a pseudo-terminal. Keys and mouse are sent as bytes; frames are read as bytes and drawn on a screen."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

FRAME_BEGINS, FRAME_ENDS = "\x1b[?2026h", "\x1b[?2026l"
_ASKS_FOR_FRAMES, _HAS_FRAMES = "\x1b[?2026$p", "\x1b[?2026;2$y"
_PIECE = re.compile(
    r"\x1b\[(?P<arguments>[0-9;?<>=]*)[ -/]*(?P<final>[@-~])"
    r"|\x1b(?:[\]P^_X].*?(?:\x07|\x1b\\)|[ -/]*[0-~])|\r|\n|(?P<text>[^\x1b\r\n]+)",
    re.DOTALL,
)


class Screen:
    """Cells into which text is written at a cursor. Colours are not stored."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self._cells = [[" "] * columns for _ in range(rows)]
        self._x, self._y = 0, 0

    def line(self, row: int) -> str:
        """The text of a row."""
        return "".join(self._cells[row])

    @property
    def text(self) -> str:
        """The text of all rows."""
        return "\n".join(self.line(row).rstrip() for row in range(self.rows))

    def find(self, words: str) -> tuple[int, int] | None:
        """Column and row at which some words begin. None if they are not on the screen."""
        for row in range(self.rows):
            column = self.line(row).find(words)
            if column >= 0:
                return column, row
        return None

    def write(self, output: str) -> None:
        """Process whole control sequences and text like a terminal."""
        for piece in _PIECE.finditer(output):
            if (text := piece["text"]) is not None:
                self._put(text)
            elif piece["final"] == "H":
                row, _, column = piece["arguments"].partition(";")
                self._y, self._x = int(row or 1) - 1, int(column or 1) - 1
            elif piece["final"] == "J":
                self._cells = [[" "] * self.columns for _ in range(self.rows)]
            elif piece.group() == "\r":
                self._x = 0
            elif piece.group() == "\n":
                self._y += 1

    def _put(self, text: str) -> None:
        if self._y < self.rows:
            row = self._cells[self._y]
            row[self._x : self._x + len(text)] = text
            del row[self.columns :]
        self._x += len(text)


class Terminal:
    """A child process on a pseudo-terminal with synchronized output, so that only whole frames are seen."""

    def __init__(self, command: Sequence[str], folder: Path, size: tuple[int, int]) -> None:
        self.screen = Screen(*size)
        self._unread = ""
        self.pid, self._end = pty.fork()
        if self.pid == 0:
            columns, rows = size
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.chdir(folder)
            environment = {
                **os.environ,
                "TERM": "xterm-256color",
                "COLORTERM": "truecolor",
                "LANG": "C.UTF-8",
            }
            for name in ("COLUMNS", "LINES", "NO_COLOR", "TERM_PROGRAM", "TEXTUAL_FPS"):
                environment.pop(name, None)
            os.execvpe(command[0], list(command), environment)

    def send(self, keys: str) -> float:
        """Type keys. Returns the time of typing."""
        now = time.perf_counter()
        os.write(self._end, keys.encode())
        return now

    def press(self, column: int, row: int) -> float:
        """Hold the left button down on a cell."""
        return self.send(f"\x1b[<0;{column + 1};{row + 1}M")

    def move(self, column: int, row: int) -> float:
        """Move the pointer with the button held."""
        return self.send(f"\x1b[<32;{column + 1};{row + 1}M")

    def release(self, column: int, row: int) -> float:
        """Release the button."""
        return self.send(f"\x1b[<0;{column + 1};{row + 1}m")

    def until(self, shows: Callable[[Screen], bool], limit_s: float) -> float:
        """The time of the last byte of the first frame that satisfies ``shows``. Raises TimeoutError."""
        deadline = time.monotonic() + limit_s
        while not shows(self.screen):
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not self._frame(left_s):
                raise TimeoutError(self.screen.text)
        return time.perf_counter()

    def watch(self, seconds: float) -> None:
        """Read frames for ``seconds`` seconds without a condition."""
        with contextlib.suppress(TimeoutError):
            self.until(lambda screen: False, seconds)

    def close(self) -> None:
        """Ask the program to quit, then end it."""
        with contextlib.suppress(OSError):
            os.write(self._end, b"\x03q")
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if select.select([self._end], [], [], 0.1)[0]:
                    os.read(self._end, 1 << 16)
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    break
        else:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._end)

    def _frame(self, limit_s: float) -> bool:
        """Draw one frame, or the output between two frames. False if none arrived in time."""
        deadline = time.monotonic() + limit_s
        while True:
            if _ASKS_FOR_FRAMES in self._unread:
                os.write(self._end, _HAS_FRAMES.encode())
                self._unread = self._unread.replace(_ASKS_FOR_FRAMES, "")
            before, ends, after = self._unread.partition(FRAME_ENDS)
            if ends:
                self._unread = after
                self.screen.write(before)
                return True
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not select.select([self._end], [], [], left_s)[0]:
                return False
            try:
                self._unread += os.read(self._end, 1 << 16).decode("utf-8", "ignore")
            except OSError as error:
                raise TimeoutError(f"the program ended:\n{self.screen.text}") from error
