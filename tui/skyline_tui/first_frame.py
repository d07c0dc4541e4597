"""The first frame, drawn before the interface is imported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from skyline.foreign_text import cleaned

_OTHER_SCREEN, _USUAL_SCREEN = "\x1b[?1049h", "\x1b[?1049l"
_HIDDEN_CURSOR, _SHOWN_CURSOR = "\x1b[?25l", "\x1b[?25h"
_CLEARED = "\x1b[2J\x1b[H"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
"""A terminal that supports these codes shows the text between them all at once; others ignore the codes."""
_BOLD, _DIM, _PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"


@contextmanager
def first_frame(script: Path, terminal: TextIO) -> Iterator[None]:
    """Show the name of the script while the interface is imported. The interface then draws over it.

    Restores the terminal if the interface does not start.
    """
    width = os.get_terminal_size(terminal.fileno()).columns
    name = cleaned(script.name)[: max(0, width - len(" Skyline   "))]
    terminal.write(
        f"{_BEGIN}{_OTHER_SCREEN}{_HIDDEN_CURSOR}{_CLEARED} {_BOLD}Skyline{_PLAIN}   {_BOLD}{name}{_PLAIN}\r\n"
        f" {_DIM}starting{_PLAIN}{_END}"
    )
    terminal.flush()
    try:
        yield
    except BaseException:
        terminal.write(f"{_SHOWN_CURSOR}{_USUAL_SCREEN}")
        terminal.flush()
        raise
