"""The peak of a device's allocator over a few iterations, without PyTorch's profiler."""

from __future__ import annotations

import json
import time
from itertools import pairwise

# Kept from before the script could put something else in their place.
_open, _dumps, _clock = open, json.dumps, time.perf_counter


class AllocatorPeak:
    """Stands in where ``Recordings`` do for runs of which memory alone is asked: it is marked at each boundary.

    The recorder of a device's kernels takes seconds to start, and may stay attached to the process and slow each
    later launch. The allocator counts its peak by itself.
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
        """True until ``note_memory`` was called."""
        return self._result is not None and "memory" not in self._result

    def start(self):
        """Begin with the next iteration."""
        self._devices.reset_peaks()
        self._began = _clock()

    def mark(self):
        """An iteration ends here."""
        self._peak_bytes = max(self._peak_bytes, self._devices.peak_bytes())
        self._marks_us.append((_clock() - self._began) * 1e6)
        self.remaining -= 1

    def stop(self):
        """It has its iterations."""

    def read(self, loop):
        """Give the marks a trace without records; nothing is to be recorded after it."""
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
        """Take the live memory by owner, and the device's memory, at the end of the last iteration."""
        if on_device is not None:
            on_device["allocated_peak_bytes"] = self._peak_bytes
        self._result.update(memory=live, peak_bytes=self._peak_bytes, device_memory=on_device)

    def end(self, loop):
        """The script has come to its end before its iterations did: there is nothing to read."""

    def write(self, path):
        """Leave the result, if there is any, in a file for the parent."""
        if self._result is not None:
            with _open(path, "w") as file:
                file.write(_dumps(self._result))
