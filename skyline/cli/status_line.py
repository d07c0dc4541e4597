"""A status in the last row of a terminal, while a program writes in the rows above."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from skyline.foreign_text import cleaned
from skyline.report.place import middle

_LEAST_ROWS = 8
_SAVE, _RESTORE, _CLEAR = "\x1b7", "\x1b8", "\x1b[K"


class StatusLine:
    """Draws on standard error if that is a terminal. The output of the program scrolls in the rows above."""

    def __init__(self, stream: TextIO | None = None, *, wanted: bool = True) -> None:
        self._stream = stream or sys.stderr
        self._on = wanted and self._stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self._size = (0, 0)

    def say(self, message: str) -> None:
        """Print a message. On a terminal it overwrites an unfinished row, which the program then writes again."""
        start = f"\r{_CLEAR}" if self._stream.isatty() else ""
        self._stream.write(f"{start}{cleaned(message)}\n")
        self._stream.flush()

    def draw(self, text: str) -> None:
        """Show the text. An empty text leaves the row unchanged."""
        if not self._on or not text:
            return
        size = os.get_terminal_size(self._stream.fileno())
        if size.lines < _LEAST_ROWS:
            return
        head = ""
        if (size.columns, size.lines) != self._size:
            self._size = size.columns, size.lines
            # A line feed first, so that the cursor is above the last row.
            head = f"\n{_SAVE}\x1b[1;{size.lines - 1}r{_RESTORE}\x1b[1A"
        shown = middle(cleaned(text), size.columns - 1)
        self._stream.write(f"{head}{_SAVE}\x1b[{size.lines};1H{_CLEAR}{shown}{_RESTORE}")
        self._stream.flush()

    def close(self) -> None:
        """Release the row."""
        if self._size != (0, 0):
            rows = self._size[1]
            self._stream.write(f"{_SAVE}\x1b[r\x1b[{rows};1H{_CLEAR}{_RESTORE}")
            self._stream.flush()
            self._size = (0, 0)
