"""The standard streams of a run: its output, which is passed on while only its end is kept, and its empty input."""

from __future__ import annotations

import codecs
import os
import re
import struct
import threading
from typing import IO

from skyline.capture.request import OutputCallback

_KEPT_BYTES = 64 * 1024
_CHUNK_BYTES = 65536
_MOST_PASSED_ON_BYTES = 8 << 20
_JOIN_S = 1.0
_LONGEST_LINE = 2000
_PROFILER_CHATTER = re.compile(
    rb"^USDT:.*Profiler.*\n?|\[W\d* [^\r\n]{0,99}CPUAllocator.{0,99}Memory block of unknown size.*\n?",
    re.MULTILINE,
)
"""Messages of PyTorch's own profiler on standard error. The second kind may follow a progress bar on its line."""
_MAYBE_CHATTER = re.compile(rb"(?:^USDT:|\[W\d* )[^\r\n]*\Z", re.MULTILINE)
"""An unfinished line that may become such a message: its end is written separately."""
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class ScriptOutput:
    """Drains the pipe of a child's stdout and stderr, so that large output neither blocks a script nor fills a disk."""

    def __init__(self, stream: IO[bytes], callback: OutputCallback | None) -> None:
        self._stream = stream
        self._callback = callback
        self._kept = bytearray()
        self._passed_on = 0
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._drain, name="skyline-output", daemon=True)
        self._thread.start()

    @property
    def passed_on(self) -> bool:
        """True if a callback receives the output."""
        return self._callback is not None

    def tail(self, lines: int = 20) -> str:
        """The last lines that were printed; a line that was redrawn several times appears in its last state."""
        self._thread.join(timeout=_JOIN_S)
        return self.tail_now(lines)

    def tail_now(self, lines: int = 20) -> str:
        """The last lines so far, while the script continues."""
        with self._lock:
            text = bytes(self._kept).decode("utf-8", "replace")
        # Not splitlines(): a progress bar returns to the start of its line.
        rows = [
            row.rstrip("\r").rpartition("\r")[2] for row in _CONTROL.sub("", text).rstrip("\n").split("\n")
        ]
        return "\n".join(row[-_LONGEST_LINE:] for row in rows[-lines:])

    def close(self) -> None:
        """Close the stream: every process of the run has ended."""
        self._thread.join(timeout=_JOIN_S)
        if not self._thread.is_alive():
            self._stream.close()

    def _drain(self) -> None:
        descriptor = self._stream.fileno()
        held = b""
        while True:
            try:
                chunk = os.read(descriptor, _CHUNK_BYTES)
            except OSError:
                chunk = b""
            ended = not chunk
            chunk = held + chunk
            found = None if ended else _MAYBE_CHATTER.search(chunk, max(0, len(chunk) - _LONGEST_LINE))
            chunk, held = (chunk[: found.start()], chunk[found.start() :]) if found else (chunk, b"")
            chunk = _PROFILER_CHATTER.sub(b"", chunk)
            with self._lock:
                self._kept += chunk
                del self._kept[:-_KEPT_BYTES]
            if chunk:
                self._pass_on(chunk)
            if ended:
                return

    def _pass_on(self, chunk: bytes) -> None:
        if self._callback is None or self._passed_on > _MOST_PASSED_ON_BYTES:
            return
        self._passed_on += len(chunk)
        self._callback(self._decode(chunk))
        if self._passed_on > _MOST_PASSED_ON_BYTES:
            self._callback(
                f"\n[more than {_MOST_PASSED_ON_BYTES >> 20} MB of output: no more of it is shown]\n"
            )


_COLUMNS, _LINES = 80, 24


class EmptyTerminal:
    """A pseudo-terminal with a size, on whose slave end every read returns the end of input at once.

    Scripts ask their standard input for the width of the terminal (``stty size``), and wait for text on it only if it
    is no terminal. Raises OSError if the system has no pseudo-terminals.
    """

    def __init__(self) -> None:
        try:
            import termios
            from fcntl import ioctl
        except ImportError as error:
            raise OSError("no terminals on this platform") from error
        self._master, slave = os.openpty()
        self.descriptor = -1
        """The standard input of a run."""
        try:
            lines, columns = _size()
            ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            mode = termios.tcgetattr(slave)
            # No line mode, minimum of 0 bytes and 0 s: a read without input returns at once, empty.
            mode[3] &= ~(termios.ICANON | termios.ECHO)
            mode[6][termios.VMIN] = mode[6][termios.VTIME] = 0
            termios.tcsetattr(slave, termios.TCSANOW, mode)
            # Read-only, since nobody would drain what is written to it. It is nobody's controlling terminal, so
            # that the run gets no signal when it is closed.
            self.descriptor = os.open(os.ttyname(slave), os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        except (OSError, termios.error) as error:
            os.close(self._master)
            raise OSError(str(error)) from error
        finally:
            os.close(slave)

    def close(self) -> None:
        """Close the terminal: the run has ended."""
        os.close(self.descriptor)
        os.close(self._master)


def empty_terminal() -> EmptyTerminal | None:
    """A new terminal; None if the system has no pseudo-terminals, or no free one."""
    try:
        return EmptyTerminal()
    except OSError:
        return None


def _size() -> tuple[int, int]:
    """Lines and columns of the terminal of this process; a default if it has none."""
    for descriptor in (2, 1, 0):
        try:
            columns, lines = os.get_terminal_size(descriptor)
        except OSError:
            continue
        if columns and lines:
            return lines, columns
    return _LINES, _COLUMNS
