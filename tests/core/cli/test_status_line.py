"""The last row of a terminal, while a program writes above it."""

from __future__ import annotations

import io
import os
import struct
import sys
from collections.abc import Iterator

import pytest

from skyline.cli.status_line import StatusLine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, io.TextIOWrapper]]:
    """The reading end of a terminal of 24 rows, and the stream that writes to it."""
    import fcntl
    import pty
    import termios

    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(writer, "w") as stream:
        yield reader, stream
    os.close(reader)


def test_the_last_row_is_kept_free_and_given_back(terminal: tuple[int, io.TextIOWrapper]) -> None:
    reader, stream = terminal
    status = StatusLine(stream)
    status.draw("iteration 5 \x1b[2J· 12 it/s")
    first = os.read(reader, 1000).decode()
    assert "\x1b[1;23r" in first
    # Commands to the terminal in a text from elsewhere are not passed on.
    assert first.endswith("\x1b7\x1b[24;1H\x1b[Kiteration 5 [2J· 12 it/s\x1b8")
    status.draw("x" * 100)
    second = os.read(reader, 1000).decode()
    assert "23r" not in second
    assert second.count("x") == 38
    status.say("alert")
    assert os.read(reader, 1000).decode() == "\r\x1b[Kalert\r\n"
    status.close()
    assert "\x1b[r\x1b[24;1H\x1b[K" in os.read(reader, 1000).decode()


def test_nothing_is_drawn_elsewhere(
    terminal: tuple[int, io.TextIOWrapper], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = io.StringIO()
    status = StatusLine(file)
    status.draw("iteration 5")
    status.say("alert")
    status.close()
    assert file.getvalue() == "alert\n"
    reader, stream = terminal
    monkeypatch.setenv("TERM", "dumb")
    dumb = StatusLine(stream)
    dumb.draw("iteration 5")
    dumb.say("alert")
    assert b"iteration" not in os.read(reader, 1000)
