"""Watches the memory, disk space and processes of a run, and ends it before it harms other programs."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import psutil

from skyline.capture.process_family import ProcessFamily
from skyline.lazy_dataclass import dataclass

_SHARE_OF_AVAILABLE = 0.9
_SHARE_OF_FREE_DISK = 0.5
_MOST_SCRATCH_BYTES = 20_000_000_000
_LEAST_FREE_DISK_BYTES = 100_000_000
_MOST_PROCESSES = 512
_INTERVAL_S = 1.0
"""This is rare, because a look takes time on the cores that are being measured."""
_GLANCE_S = 0.1
"""Reading the kernel's count of tasks takes some microseconds; only a jump in it causes a closer look."""
_MOST_FILES_COUNTED = 20_000


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of a run; None means a share of the amount that is free at its start.

    ``memory_bytes`` limits the resident memory of all its processes, ``scratch_bytes`` the files that it writes.
    """

    memory_bytes: int | None = None
    scratch_bytes: int | None = None
    processes: int = _MOST_PROCESSES


@dataclass(frozen=True, slots=True)
class Excess:
    """The message about a limit that was exceeded, and the advice for it."""

    message: str
    hint: str


class Guard:
    """A thread that checks a run's processes and files, and ends the run if it exceeds a limit.

    Pages that forked workers share with their parent are counted once per process: the sum is an upper bound.
    """

    def __init__(self, family: ProcessFamily, scratch: Path, limits: RunLimits) -> None:
        self._family = family
        self._scratch = scratch
        self._memory_bytes = limits.memory_bytes or int(
            psutil.virtual_memory().available * _SHARE_OF_AVAILABLE
        )
        self._scratch_bytes = limits.scratch_bytes or min(
            _MOST_SCRATCH_BYTES, int(shutil.disk_usage(scratch).free * _SHARE_OF_FREE_DISK)
        )
        self._processes = limits.processes
        self._tasks_at_start = _tasks()
        self.excess: Excess | None = None
        self._stopped = threading.Event()
        self._resting = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="skyline-guard", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching: the run is over."""
        self._stopped.set()

    def rest(self) -> None:
        """Pause while the run is stopped: checks would only take time from other runs that are being measured."""
        self._resting.set()

    def go_on(self) -> None:
        """Watch again: the run continues."""
        self._resting.clear()

    def _watch(self) -> None:
        glances = round(_INTERVAL_S / _GLANCE_S)
        left = glances
        while not self._stopped.wait(_GLANCE_S):
            if self._resting.is_set():
                continue
            left -= 1
            jumped = _tasks() - self._tasks_at_start > self._processes
            if left and not jumped:
                continue
            left = glances
            self.excess = self._look()
            if self.excess is not None:
                self._family.end()
                return

    def _look(self) -> Excess | None:
        members = self._family.members()
        if len(members) > self._processes:
            return Excess(
                f"The script started more than {self._processes} processes",
                "Start fewer workers for the profiling run; a script that starts itself again needs "
                'if __name__ == "__main__".',
            )
        memory = sum(map(_resident_bytes, members))
        if memory > self._memory_bytes:
            return Excess(
                f"The script and its workers grew to {_size(memory)} of memory, over the limit of "
                f"{_size(self._memory_bytes)}",
                "Profile it with a smaller batch size, or on a machine with more memory.",
            )
        written = _written_bytes(self._scratch)
        if written > self._scratch_bytes:
            return Excess(
                f"The script wrote {_size(written)} of files, over the limit of {_size(self._scratch_bytes)}",
                "Its files stay in the temporary folder until the run ends. Save less often in the "
                "profiling run, or allow writes everywhere with --side-effects allow.",
            )
        if written > _LEAST_FREE_DISK_BYTES and _free_bytes(self._scratch) < _LEAST_FREE_DISK_BYTES:
            return Excess(
                f"The temporary folder's disk is full; the script had written {_size(written)} of files there",
                "Set TMPDIR to a folder with more free space.",
            )
        return None


def _tasks() -> int:
    """Number of threads and processes on the machine; 0 if the kernel does not report it."""
    try:
        with open("/proc/loadavg", encoding="ascii") as line:
            return int(line.read().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0


def _resident_bytes(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0


def _written_bytes(folder: Path) -> int:
    """Disk space that a folder uses; only that of its first files if there are very many."""
    total = counted = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except OSError:
                continue
            counted += 1
        if counted > _MOST_FILES_COUNTED:
            break
    return total


def _free_bytes(folder: Path) -> int:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return _LEAST_FREE_DISK_BYTES


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e8 else f"{size_bytes / 1e6:.1f} MB"
