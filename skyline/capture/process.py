"""Starts a run's process in a fresh interpreter, and defines the interface of other ways to start one."""

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
"""True if the system has process groups and Unix sockets: a run is ended as a group, and connects to a socket."""
HAS_SUBREAPER = sys.platform == "linux"
"""True if a run's process is a subreaper (``child/subreaper.py``), which is the parent of the script's process."""


@dataclass(frozen=True, slots=True)
class Start:
    """The parameters to start a run's process; it connects to ``address`` and authenticates itself with ``key``.

    ``stdin`` is a descriptor that still belongs to the caller; None for an empty standard input. A ``plain`` process
    has imported at most PyTorch, and not its compiler.
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
    """The leader of its own session; stdout and stderr share one pipe, and stdin is empty."""

    @property
    def pid(self) -> int:
        """ID of the process and of its group."""
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
"""Starts a run's process. Raises OSError if it cannot be started."""


def start_fresh(start: Start) -> RunningProcess:
    """A run's process in a new interpreter, which has imported nothing yet."""
    return subprocess.Popen(
        [start.interpreter, str(ENTRY), start.address],
        cwd=start.working_directory,
        env={**start.environment, CHANNEL_KEY: start.key.hex()},
        stdin=subprocess.DEVNULL if start.stdin is None else start.stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
