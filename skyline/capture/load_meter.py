"""Measures the load of the machine, by a run and by other programs."""

from __future__ import annotations

import time

import psutil

from skyline.capture.child_process import ChildProcess
from skyline.trace.facts import MachineLoad

_SHORTEST_S = 0.2
"""The system counts processor time in hundredths of a second."""


def busy_s() -> float:
    """Processor time that the whole machine has spent on anything."""
    times = psutil.cpu_times()
    waiting = getattr(times, "iowait", 0.0)
    # A virtual machine's guests are counted in its user time already.
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return sum(times) - times.idle - waiting - guests


class LoadMeter:
    """Measures from when it is made."""

    def __init__(self, child: ChildProcess) -> None:
        self._child = child
        self._busy_s, self._own_s, self._began = busy_s(), child.cpu_s(), time.monotonic()

    def read(self) -> MachineLoad | None:
        """The load so far; None where too little time has passed, or the run is over."""
        elapsed = time.monotonic() - self._began
        own_s = self._child.cpu_s() - self._own_s
        if elapsed < _SHORTEST_S or own_s < 0:
            return None
        others_s = max(0.0, busy_s() - self._busy_s - own_s)
        return MachineLoad(own_s / elapsed, others_s / elapsed, psutil.cpu_count() or 1)
