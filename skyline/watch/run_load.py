"""The load of the machine while a run is watched: by its processes, and by other programs."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

from skyline.capture.load_meter import busy_s
from skyline.trace.facts import MachineLoad

_EVERY_S = 0.5
"""The least time between readings in s: the system counts processor time in hundredths of a second."""
_COST_SHARE = 0.002
"""The share of a processor that readings may take: a fifth of the one per cent that watching may cost."""
_COUNTED_LATE = 1.05
"""The factor by which a reading may exceed all cores, since processor time is counted in ticks."""


class RunLoadMeter:
    """Measures from one reading to the next; ``run_s`` gives the processor time of the run so far, None if unknown.

    The more processes a run has, the longer it takes to find them. The interval between readings limits their
    share of a processor.
    """

    def __init__(self, run_s: Callable[[], float | None]) -> None:
        self._run_s = run_s
        self._last: tuple[float, float, float] | None = None
        self._due_s = 0.0

    def read(self) -> MachineLoad | None:
        """The load since the last reading; None if the next one is not due yet, or the run's part is unknown."""
        now_s = time.monotonic()
        if now_s < self._due_s:
            return None
        began_s = time.thread_time()
        last, run_s = self._last, self._run_s()
        # The watcher does not count as another program.
        self._last = None if run_s is None else (now_s, busy_s() - time.process_time(), run_s)
        self._due_s = now_s + max(_EVERY_S, (time.thread_time() - began_s) / _COST_SHARE)
        if last is None or self._last is None:
            return None
        elapsed, busy, run = (now - before for now, before in zip(self._last, last, strict=True))
        cores = psutil.cpu_count() or 1
        if elapsed <= 0 or not 0 <= run <= _COUNTED_LATE * cores * elapsed:
            # A process has ended, and its time has not been added to its parent's yet.
            return None
        own = run / elapsed
        # The counters are not read at the same moment.
        return MachineLoad(own, max(0.0, min(busy / elapsed, cores) - own), cores)


def family_s(root: int) -> float | None:
    """The processor time of a process and its descendants, including ended ones; None if it has ended itself."""
    try:
        first = psutil.Process(root)
        members = [first, *first.children(recursive=True)]
    except psutil.Error:
        return None
    used_s = 0.0
    for one in members:
        try:
            times = one.cpu_times()
        except psutil.Error:
            continue
        used_s += times.user + times.system
        # The time of ended processes is counted for the process that waited for them, only on Linux and macOS.
        used_s += getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return used_s
