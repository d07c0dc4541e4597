from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest

from skyline_tui.first_frame import first_frame


@pytest.fixture
def terminal() -> Iterator[tuple[TextIO, int]]:
    outside, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    with os.fdopen(inside, "w") as stream:
        yield stream, outside
    os.close(outside)


def drawn_on(outside: int) -> str:
    """All that was written so far."""
    found = b""
    while select.select([outside], [], [], 0.2)[0]:
        found += os.read(outside, 1000)
    return found.decode()


def test_the_script_is_named_before_the_interface_is_there(terminal: tuple[TextIO, int]) -> None:
    stream, outside = terminal
    with first_frame(Path("/project/train\x1b[2J.py"), stream):
        drawn = drawn_on(outside)
    assert "Skyline" in drawn
    assert "train[2J.py" in drawn
    assert drawn.count("\x1b[?1049h") == 1
    assert "\x1b[?1049l" not in drawn


def test_a_failed_start_leaves_the_usual_screen(terminal: tuple[TextIO, int]) -> None:
    stream, outside = terminal
    with pytest.raises(ImportError), first_frame(Path("train.py"), stream):
        raise ImportError("textual")
    assert drawn_on(outside).endswith("\x1b[?25h\x1b[?1049l")


def test_the_start_imports_neither_textual_nor_the_analysis() -> None:
    found = "[name for name in ('textual', 'pygls', 'numpy', 'skyline.analysis') if name in sys.modules]"
    code = f"import sys, skyline_tui.main; print({found})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
