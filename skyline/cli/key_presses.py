"""Single keys of a terminal, read without Enter."""

from __future__ import annotations

import os
import sys
from typing import Any

try:
    import termios
    import tty
except ImportError:  # Windows
    termios = tty = None


class KeyPresses:
    """Keys typed on standard input, without echo. Empty if this process does not control a terminal."""

    def __init__(self) -> None:
        self.sources: list[int] = []
        self._before: list[Any] | None = None

    def __enter__(self) -> KeyPresses:
        """Switch the terminal to single keys."""
        if termios is None or tty is None or not sys.stdin.isatty():
            return self
        number = sys.stdin.fileno()
        try:
            # Only a foreground process may change the terminal: a background process would be stopped.
            if os.tcgetpgrp(number) == os.getpgrp():
                self._before = termios.tcgetattr(number)
                tty.setcbreak(number)
                self.sources = [number]
        except (OSError, termios.error):
            pass
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the terminal."""
        if self._before is not None and termios is not None:
            termios.tcsetattr(self.sources[0], termios.TCSADRAIN, self._before)

    def read(self) -> str:
        """The keys typed since the last call; empty if the terminal is gone."""
        try:
            return os.read(self.sources[0], 64).decode("utf-8", "replace")
        except OSError:
            return ""
