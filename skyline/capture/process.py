"""Where a run's process comes from: a fresh interpreter, or whatever else can start one."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import IO, Protocol

from skyline.lazy_dataclass import dataclass

ENTRY = Path(__file__).parent / "child" / "__main__.py"
CHANNEL_KEY = "SKYLINE_CHANNEL_KEY"
HAS_GROUPS = hasattr(os, "killpg") and hasattr(socket, "AF_UNIX")
"""True if the system has process groups and Unix sockets: a run is ended as a group, and calls at a socket."""
HAS_SUBREAPER = sys.platform == "linux"
"""True if a run's process is the subreaper (``child/subreaper.py``), which has the script's own process below it."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a run's process; it calls back at ``address`` and authenticates itself with ``key``.

    ``stdin`` is a descriptor that stays the caller's; None for one with nothing to read. A ``plain`` one has imported
    PyTorch at most, and not its compiler.
    """

    interpreter: str
    working_directory: Path
    environment: Mapping[str, str]
    address: str
    key: bytes
    cancel: threading.Event = field(default_factory=threading.Event)
    stdin: int | None = None
    plain: bool = False


class RunningProcess(Protocol):
    """The leader of its own session; the script's stdout and stderr are on one pipe, with nothing to read on stdin."""

    @property
    def pid(self) -> int:
        """Of the process and of its group."""
        ...

    @property
    def stdout(self) -> IO[bytes] | None:
        """Its stdout and stderr."""
        ...

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        ...

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status; raises ``subprocess.TimeoutExpired``."""
        ...


Starter = Callable[[Start], RunningProcess]
"""Raises OSError where the process cannot be started."""


def start_fresh(start: Start) -> RunningProcess:
    """A new interpreter, which has everything still to import."""
    return subprocess.Popen(
        [start.interpreter, str(ENTRY), start.address],
        cwd=start.working_directory,
        env={**start.environment, CHANNEL_KEY: start.key.hex()},
        stdin=subprocess.DEVNULL if start.stdin is None else start.stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
