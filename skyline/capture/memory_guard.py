"""Watches how much memory a run takes, and ends it before the machine suffers."""

from __future__ import annotations

import os
import signal
import threading

import psutil

_SHARE_OF_AVAILABLE = 0.9
_INTERVAL_S = 1.0
"""Seldom, because looking costs time on the cores that are being measured."""


class MemoryGuard:
    """A thread that sums the resident memory of a process and its descendants and kills the group over a limit.

    Pages that forked workers share with their parent are counted for each: the sum errs on the safe side.
    """

    def __init__(self, pid: int, limit_bytes: int | None) -> None:
        self.limit_bytes = limit_bytes or int(psutil.virtual_memory().available * _SHARE_OF_AVAILABLE)
        self.seen_bytes = 0
        self.exceeded = False
        self._pid = pid
        self._stopped = threading.Event()
        threading.Thread(target=self._watch, name="skyline-memory-guard", daemon=True).start()

    def stop(self) -> None:
        """The run is over."""
        self._stopped.set()

    def _watch(self) -> None:
        while not self._stopped.wait(_INTERVAL_S):
            self.seen_bytes = _resident_bytes(self._pid)
            if self.seen_bytes > self.limit_bytes:
                self.exceeded = True
                try:
                    os.killpg(self._pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                return


def _resident_bytes(pid: int) -> int:
    try:
        root = psutil.Process(pid)
        family = [root, *root.children(recursive=True)]
    except psutil.Error:
        return 0
    total = 0
    for process in family:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue
    return total
