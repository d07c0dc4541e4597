"""The standard input of a run: a terminal with nothing to read, where the platform has such things."""

from __future__ import annotations

import os
import struct

_COLUMNS, _LINES = 80, 24


class EmptyTerminal:
    """A pseudo-terminal of a size, at whose slave end every reader finds the end of input at once.

    Scripts ask their standard input how wide the terminal is (``stty size``), and wait for words only where it is
    none. Raises OSError where there are no pseudo-terminals.
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
            # Without lines, and asked for no byte in no time: a read that finds nothing returns nothing.
            mode[3] &= ~(termios.ICANON | termios.ECHO)
            mode[6][termios.VMIN] = mode[6][termios.VTIME] = 0
            termios.tcsetattr(slave, termios.TCSANOW, mode)
            # For reading alone, since nobody would empty what is written to it; and nobody's controlling terminal,
            # so that its end is no signal to the run.
            self.descriptor = os.open(os.ttyname(slave), os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        except (OSError, termios.error) as error:
            os.close(self._master)
            raise OSError(str(error)) from error
        finally:
            os.close(slave)

    def close(self) -> None:
        """The run has ended."""
        os.close(self.descriptor)
        os.close(self._master)


def empty_terminal() -> EmptyTerminal | None:
    """None where there are no pseudo-terminals, or no more of them."""
    try:
        return EmptyTerminal()
    except OSError:
        return None


def _size() -> tuple[int, int]:
    """Lines and columns of the terminal that we are in, if we are in one."""
    for descriptor in (2, 1, 0):
        try:
            columns, lines = os.get_terminal_size(descriptor)
        except OSError:
            continue
        if columns and lines:
            return lines, columns
    return _LINES, _COLUMNS
