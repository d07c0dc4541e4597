"""The peak of a device's allocator over a few iterations, without PyTorch's profiler."""

from __future__ import annotations

import json
import time
from itertools import pairwise

# Bound at import, before the script can replace them.
_open, _dumps, _clock = open, json.dumps, time.perf_counter


class AllocatorPeak:
    """Has the interface of ``Recordings``, for runs that need only the memory; it is marked at each boundary.

    The kernel recorder takes seconds to start, and may stay attached to the process and slow down each later launch.
    The allocator counts its peak by itself.
    """

    is_too_large = is_partly_read = wants_facts = False
    observed_calls = None

    def __init__(self, devices, iterations):
        self._devices = devices
        self._began = 0.0
        self._marks_us = []
        self._peak_bytes = 0
        self._result = None
        self.remaining = iterations

    @property
    def wants_memory(self):
        """True if ``note_memory`` must still be called."""
        return self._result is not None and "memory" not in self._result

    def start(self):
        """Begin with the next iteration."""
        self._devices.reset_peaks()
        self._began = _clock()

    def mark(self):
        """Mark the end of an iteration."""
        self._peak_bytes = max(self._peak_bytes, self._devices.peak_bytes())
        self._marks_us.append((_clock() - self._began) * 1e6)
        self.remaining -= 1

    def stop(self):
        """Do nothing: all iterations of this recording are done."""

    def read(self, loop):
        """Make a trace without records from the marks. Returns False: nothing else needs to be recorded."""
        iterations = [
            {"index": index, "start_us": start, "end_us": end}
            for index, (start, end) in enumerate(pairwise((0.0, *self._marks_us)))
        ]
        self._result = {
            "trace": {"iterations": iterations, "lines": [], "modules": [], "records": []},
            "recorded_ms": [(one["end_us"] - one["start_us"]) / 1e3 for one in iterations],
        }
        return False

    def note_memory(self, live, on_device):
        """Store the live memory by owner, and the device's memory, at the end of the last iteration."""
        if on_device is not None:
            on_device["allocated_peak_bytes"] = self._peak_bytes
        self._result.update(memory=live, peak_bytes=self._peak_bytes, device_memory=on_device)

    def end(self, loop):
        """Do nothing: the script ended before the iterations did, and there is nothing to read."""

    def write(self, path):
        """Write the result, if there is any, to a file for the parent."""
        if self._result is not None:
            with _open(path, "w") as file:
                file.write(_dumps(self._result))
