"""A ``skyline receive`` process on a host, reached through the user's ssh with its configuration."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from shlex import quote
from typing import IO

from skyline.errors import Cancelled, SkylineError, UsageError
from skyline.version import __version__

_MARK = b"skyline-host:"
_MOST_LINES = 1000
"""Largest number of lines that a login shell may print before ours."""
_LONGEST_LINE_BYTES = 1 << 16
_END_TIMEOUT_S = 30.0
"""Longest wait in s for the orderly end of a run on the host."""
_LISTENER_TIMEOUT_S = 2.0
"""Longest wait in s for the last lines: a connection that ssh shares keeps the stream open after the run."""
_LOOK_EVERY_S = 0.1
"""Interval in s at which a cancellation is checked."""
_UNREACHABLE = 255
"""Exit code of ssh if it could not connect (man ssh, EXIT STATUS)."""
_FIND = (
    "set -- skyline; command -v skyline >/dev/null 2>&1 || "
    "{ set -- python3 -m skyline; python3 -c 'import skyline' </dev/null >/dev/null 2>&1 || set --; }"
)


class HostConnection:
    """The program on the host, with its stdin and stdout. Leaving the context manager ends the run there.

    ``listener`` gets each line that ssh and the host print. Without a listener, the lines appear on stderr.
    Once ``cancel`` is set, the connection is dropped, and the run on the host ends with it. Entering raises
    UsageError if the host cannot be reached or does not have this version of Skyline.
    """

    def __init__(
        self,
        host: str,
        skyline: str,
        listener: Callable[[str], None] | None = None,
        cancel: threading.Event | None = None,
    ) -> None:
        if host.startswith("-") or not host.strip():
            raise UsageError(
                f"{host!r} is not the name of a host", hint="Name one as for ssh: --host user@gpubox"
            )
        self.host = host
        self._skyline = skyline
        self._listener = listener
        self._cancel = cancel
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._last_line = ""

    def __enter__(self) -> HostConnection:
        program = shutil.which("ssh")
        if program is None:
            raise UsageError("There is no ssh on the PATH", hint="Install an SSH client, such as OpenSSH.")
        # Without a terminal nobody could answer a question.
        asks = self._listener is None and sys.stdin.isatty()
        batch = () if asks else ("-o", "BatchMode=yes")
        self._process = subprocess.Popen(
            [program, "-T", "-C", *batch, "--", self.host, remote_command(self._skyline)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if self._listener is None else subprocess.PIPE,
        )
        if self._listener is not None:
            self._thread = threading.Thread(target=self._listen, args=(self._listener,), daemon=True)
            self._thread.start()
        if self._cancel is not None:
            threading.Thread(target=self._drop_once, args=(self._cancel,), daemon=True).start()
        try:
            self._check_version(self._version())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def to_host(self) -> IO[bytes]:
        """The program's stdin."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def from_host(self) -> IO[bytes]:
        """The program's stdout."""
        assert self._process.stdout is not None
        return self._process.stdout

    def reason(self, otherwise: str) -> str:
        """The last unindented line that was printed, as the end of a message.

        ``otherwise`` replaces it if stderr shows all lines.
        """
        if self._thread is None:
            return f"; {otherwise}"
        self._thread.join(_LISTENER_TIMEOUT_S)
        return f": {self._last_line}" if self._last_line else ""

    def lost(self) -> SkylineError:
        """The error for a stream that ended too early."""
        self._end()
        if self._cancelled:
            return Cancelled("cancelled")
        code = self._process.returncode
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return UsageError(
            f"The connection to {self.host} ended before the result came (ssh: {how}), and with it the run there",
            hint="Run the command again; lines above may have the reason.",
        )

    def _version(self) -> str:
        """The answer to ``skyline --version`` on the host. Empty without Skyline."""
        for _ in range(_MOST_LINES):
            line = self.from_host.readline(_LONGEST_LINE_BYTES)
            if not line:
                break
            if line.startswith(_MARK):
                return line.removeprefix(_MARK).decode("utf-8", "replace").strip()
        self._end()
        if self._cancelled:
            raise Cancelled("cancelled")
        code = self._process.returncode
        if code == _UNREACHABLE:
            raise UsageError(
                f"{self.host} could not be reached{self.reason('ssh printed the reason above')}",
                hint=f"Make this work first: ssh -o BatchMode=yes {self.host} true",
            )
        raise UsageError(
            f"{self.host} did not start a shell (ssh: exit code {code})", hint=f"Try: ssh {self.host} true"
        )

    def _check_version(self, found: str) -> None:
        if found == f"skyline {__version__}":
            return
        install = f"Install it there: ssh {self.host} pipx install skyline-profiler=={__version__}"
        if not found:
            what = (
                f"Skyline does not start with {self._skyline!r} on {self.host}"
                if self._skyline
                else f"Skyline is not installed on {self.host}"
            )
            raise UsageError(
                what,
                hint=f"{install}; or name the command that starts it there: --host-skyline PATH",
            )
        raise UsageError(
            f"{self.host} has {found}, and this is skyline {__version__}; both must be the same",
            hint=f"{install} --force; or install {found.removeprefix('skyline ')} here.",
        )

    @property
    def _cancelled(self) -> bool:
        return self._cancel is not None and self._cancel.is_set()

    def _drop_once(self, cancel: threading.Event) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            if cancel.is_set():
                self._process.terminate()
                return

    def _listen(self, listener: Callable[[str], None]) -> None:
        assert self._process.stderr is not None
        for data in self._process.stderr:
            line = data.decode("utf-8", "replace").rstrip("\r\n")
            # Indented lines belong to a traceback or a hint.
            if line[:1].strip():
                self._last_line = line.removeprefix("skyline: ")
            listener(line)

    def _end(self) -> None:
        """Close the streams, which ends the run on the host, and wait until it is gone."""
        self._over.set()
        with contextlib.suppress(OSError):
            self.to_host.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except BaseException as error:
            # A second Ctrl+C stops the wait: the host ends the run when it finds the connection closed.
            self._process.terminate()
            self._process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
        finally:
            self.from_host.close()


def remote_command(skyline: str) -> str:
    """The command line for the host: in a login shell's environment, print the version, then run ``skyline receive``.

    ``skyline`` is a command in the syntax of a POSIX shell. If empty, it is the one on the PATH, or Python's
    module.
    """
    script = (
        f"{f'set -- {skyline}' if skyline else _FIND}; version=; "
        '[ $# -gt 0 ] && version=$("$@" --version </dev/null 2>/dev/null); '
        f'echo "{_MARK.decode()} $version"; [ "$version" = "skyline {__version__}" ] && exec "$@" receive'
    )
    return f'exec "$SHELL" -l -c {quote("exec sh -c " + quote(script))}'
