"""What one command to record comes to: a full recording, and a light one whose times count."""

from __future__ import annotations

import json
import time

from . import memory
from .joining import join
from .module_names import module_names
from .operator_lines import OperatorLines
from .recorder import Recorder

# Kept from before the script could put something else in their place.
_open, _dumps, _cpu_clock = open, json.dumps, time.process_time

_READING_S = 3.0
"""As long may reading the light recording take, by how long an iteration of the full one took to read."""

_SHORT_US = 300_000.0
"""The first iteration after the pause for reading is colder than the others: as short a one can well be left out."""


class Recordings:
    """First all that can be known of an iteration is recorded, then what it takes to tell times and lines.

    Shapes, allocations and the line of every operator cost the script time, up to as much again as it takes.
    They are the same in each iteration, as good as always. ``full`` and ``iterations`` are how many to record
    in full and lightly; of the latter none follow without ``with_stacks``, where only memory is asked for.
    """

    def __init__(self, device_kind, marker, full, iterations, with_stacks=True):
        self._device_kind = device_kind
        self._iterations = iterations
        self._lines = OperatorLines() if with_stacks else None
        self._names = {}
        self._full = None
        self._light = None
        self._recorder = Recorder(device_kind, full, marker if with_stacks else None, self._lines)

    @property
    def remaining(self):
        """How many iterations the recording under way still needs."""
        return self._recorder.remaining

    @property
    def is_full(self):
        """Whether the recording under way, or just read, is the full one."""
        return self._light is None

    def start(self):
        """Begin with the next iteration."""
        self._recorder.start()

    def mark(self):
        """An iteration ends here."""
        self._recorder.mark()

    def stop(self, loop):
        """The recording under way has its iterations: read it. Gives whether another is to be started."""
        recorder, began = self._recorder, _cpu_clock()
        recorder.stop()
        if self._lines is not None and not self._names:
            self._names = module_names()
        trace = recorder.read(loop, self._names)
        if self._full is not None:
            self._light = trace
            return False
        self._full = {"trace": trace}
        if self._lines is None:
            return False
        reading_s = (_cpu_clock() - began) / len(trace["iterations"])
        affordable = int(_READING_S / max(reading_s, 1e-6))
        if not affordable:
            return False
        count = min(self._iterations, affordable)
        is_short = affordable > count and _shortest_us(trace) < _SHORT_US
        self._recorder = Recorder(
            self._device_kind,
            count,
            operator_lines=self._lines,
            full=False,
            samples=recorder.has_long_stretches,
            lead_in=int(is_short),
        )
        return True

    def end(self, loop):
        """The script has come to its end: what there is of the light recording is read."""
        if self.is_full and self._full is not None and self._recorder.whole > 0:
            self.stop(loop)

    def note_memory(self, live, on_device):
        """What is alive as the full recording ends, by owner, and what the device's memory holds."""
        peak_bytes = memory.peak(live, self._full["trace"]["allocations"])
        self._full.update(memory=live, peak_bytes=peak_bytes, device_memory=on_device)

    def result(self):
        """The recording as a dictionary in the shape of ``skyline.capture.recording.Recording``.

        Without a light one, because the script ended or has too many calls, the times are those of the full.
        None if there is nothing yet.
        """
        if self._full is None:
            return None
        result, trace = dict(self._full), self._full["trace"]
        if self._light is not None:
            result["unknown_share"] = join(self._light, trace)
            result["trace"] = trace = self._light
        for record in trace["records"]:
            record.pop("whole", None)
        marks = trace["iterations"]
        return dict(result, recorded_ms=[(mark["end_us"] - mark["start_us"]) / 1e3 for mark in marks])

    def write(self, path):
        """Leave the result, if there is any, in a file for the parent: it may be megabytes."""
        result = self.result()
        if result is None:
            return
        with _open(path, "w") as file:
            file.write(_dumps(result))


def _shortest_us(trace):
    return min(mark["end_us"] - mark["start_us"] for mark in trace["iterations"])
