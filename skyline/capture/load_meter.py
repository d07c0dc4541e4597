"""Measures the load that a run and other programs put on the machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil

from skyline.trace.facts import MachineLoad

if TYPE_CHECKING:
    from skyline.capture.child_process import ChildProcess

_SHORTEST_S = 0.2
"""The system counts processor time in hundredths of a second."""


def busy_s() -> float:
    """Processor time in s that the whole machine has been busy since it started."""
    times = psutil.cpu_times()
    waiting = getattr(times, "iowait", 0.0)
    # User time already includes the time of virtual guests.
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return sum(times) - times.idle - waiting - guests


class LoadMeter:
    """Measures from its creation on, except while it is paused."""

    def __init__(self, child: ChildProcess) -> None:
        self._child = child
        self._spent = (0.0, 0.0, 0.0, 0.0)
        self._since: tuple[float, ...] | None = self._now()

    def pause(self) -> None:
        """Count nothing until ``go_on``."""
        self._spent, self._since = self._so_far(), None

    def go_on(self) -> None:
        """Continue to count."""
        self._since = self._now()

    def read(self) -> MachineLoad | None:
        """The load so far; None if too little time has passed, or the run is over."""
        elapsed, busy, script, further = self._so_far()
        if elapsed < _SHORTEST_S or script < 0 or further < 0:
            return None
        others = max(0.0, busy - script - further)
        cores = psutil.cpu_count() or 1
        return MachineLoad((script + further) / elapsed, others / elapsed, cores, further / elapsed)

    def _so_far(self) -> tuple[float, float, float, float]:
        if self._since is None:
            return self._spent
        elapsed, busy, script, further = (
            spent + now - since
            for spent, now, since in zip(self._spent, self._now(), self._since, strict=True)
        )
        return elapsed, busy, script, further

    def _now(self) -> tuple[float, ...]:
        """Seconds of the clock, and processor seconds of the machine, the script and the script's other processes."""
        return (time.monotonic(), busy_s(), *self._child.cpu_s())
