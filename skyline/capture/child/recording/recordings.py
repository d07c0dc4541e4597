"""The recordings of one command: a full recording, and a light recording for the times."""

from __future__ import annotations

import contextlib
import json
import time

from ..module_facts import module_names
from . import memory
from .enrichment import enrich
from .operator_lines import OperatorLines
from .recorder import Recorder

# Bound at import, before the script can replace them.
_open, _dumps, _cpu_clock = open, json.dumps, time.process_time

_READING_S = 3.0
"""Maximum seconds to read the light recording, estimated from the time to read an iteration of the full one."""

_ATTEMPTS = 2
"""Attempts at a full recording: PyTorch's profiler fails once in hundreds of recordings, and then works again."""


class ProfilerFailed(Exception):
    """PyTorch's profiler failed repeatedly to return its recording."""


class Recordings:
    """Records iterations in full detail first, then further iterations with only the detail for times and lines.

    Recording shapes, allocations and the line of every operator can double the time of an iteration. These facts are
    almost always the same in every iteration. ``full`` and ``iterations`` are the numbers of iterations to record in
    full and lightly. Without ``with_stacks`` only memory is recorded, and no light recording follows. ``evaluated``
    maps the address of a module that ran in evaluation mode to True if that was in inference mode. With
    ``last_first``, ``read`` reads only the last full iteration, and ``read_rest`` reads all of them.
    """

    def __init__(
        self, devices, marker, full, iterations, with_stacks=True, evaluated=None, *, last_first=False
    ):
        self._devices = devices
        self._device_kind = devices.kind
        self._allocator_peak = None
        self._marker = marker if with_stacks else None
        self._whole = full
        self._iterations = iterations
        self._lines = OperatorLines() if with_stacks else None
        self._evaluated = evaluated or {}
        self._names = {}
        self.observed_calls = None
        self._full = None
        self._light = None
        self._unknown_share = 0.0
        self._stopped = self._reading_s = 0.0
        self._failure = None
        self._light_failure = ""
        self._failures = 0
        self._last_first = last_first
        self.is_partly_read = False
        """True if ``read_rest`` must be called before anything else is recorded."""
        self._recorder = self._full_recorder()

    @property
    def remaining(self):
        """Number of iterations that the current recording still needs."""
        return self._recorder.remaining

    @property
    def is_too_large(self):
        """True if the stopped full recording has more events than can be read in reasonable time."""
        return self._full is None and self._failure is None and self._recorder.is_too_large

    def drop(self):
        """Free the stopped recording."""
        self._recorder.drop()

    @property
    def wants_memory(self):
        """True if ``note_memory`` must be called before the script continues."""
        return self._full is not None and "memory" not in self._full

    @property
    def wants_facts(self):
        """True if ``note_facts`` must be called before the script continues."""
        return self.observed_calls is not None and "settings" not in self._full

    def start(self):
        """Begin with the next iteration."""
        self._devices.reset_peaks()
        self._recorder.start()

    def mark(self):
        """Mark the end of an iteration."""
        peak_bytes = self._devices.peak_bytes()
        self._recorder.mark()
        if self._full is None and peak_bytes is not None:
            self._allocator_peak = max(peak_bytes, self._allocator_peak or 0)
        if self._recorder.remaining:
            self._devices.reset_peaks()

    def stop(self):
        """Stop the current recording: all its iterations are done."""
        self._stopped = _cpu_clock()
        try:
            self._recorder.stop()
        except Exception as error:
            self._failure = error

    def read(self, loop):
        """Read the stopped recording. True if another recording must be started, one iteration later.

        Raises:
            ProfilerFailed: the profiler failed at every attempt.
        """
        recorder = self._recorder
        failure, self._failure = self._failure, None
        try:
            if failure is not None:
                raise failure
            if self._lines is not None and not self._names:
                self._names = module_names()
            self.is_partly_read = self._last_first and self._full is None and recorder.whole > 1
            read = recorder.read_last if self.is_partly_read else recorder.read
            trace = read(loop, self._names, self._evaluated)
            if self._full is not None:
                self._unknown_share = enrich(trace, self._full["trace"])
        except Exception as error:
            return self._goes_on_after(error)
        self._reading_s = (_cpu_clock() - self._stopped) / max(1, len(trace["iterations"]))
        if self._full is not None:
            self._light = trace
            return False
        self._full = {"trace": trace}
        self.observed_calls = recorder.observed_calls if self._lines is not None else None
        lightly = min(self._iterations, self._readable)
        if lightly:
            self.record_times(lightly)
        return lightly > 0

    def read_rest(self, loop):
        """Read all iterations of the full recording; if the profiler fails, only the last one remains."""
        recorder, self.is_partly_read = self._recorder, False
        with contextlib.suppress(Exception):
            self._full["trace"] = recorder.read(loop, self._names, self._evaluated)
            self.observed_calls = recorder.observed_calls

    @property
    def _readable(self):
        """Maximum iterations of a light recording that can be read in the time for it."""
        return 0 if self._lines is None else int(_READING_S / max(self._reading_s, 1e-6))

    def record_times(self, iterations):
        """Prepare a light recording of this number of iterations, after the full one."""
        self._recorder = Recorder(
            self._device_kind,
            iterations,
            operator_lines=self._lines,
            full=False,
            samples=self._recorder.has_long_stretches,
        )

    def _full_recorder(self):
        return Recorder(self._device_kind, self._whole, self._marker, self._lines)

    def _goes_on_after(self, error):
        """Handle a profiler failure: True to repeat a full recording, False to omit a light one, with a note."""
        self._failures += 1
        self._last_first = self.is_partly_read = False
        if self._full is not None:
            self._light_failure = f"{type(error).__name__}: {error}"
            return False
        if self._failures >= _ATTEMPTS:
            raise ProfilerFailed(f"{type(error).__name__}: {error}") from error
        self._recorder = self._full_recorder()
        return True

    def end(self, loop):
        """Read the complete iterations of the light recording: the script has ended."""
        if self._light is None and self._full is not None and self._recorder.whole > 0:
            self.stop()
            self.read(loop)

    def note_facts(self, told):
        """Store the settings, modules and calls of the run at the end of the full recording."""
        self._full.update(told)

    def note_memory(self, live, on_device):
        """Store the live memory by owner, and the device's memory, at the end of the full recording."""
        peak_bytes = memory.peak(live, self._full["trace"]["allocations"])
        if self._allocator_peak is not None:
            # The allocator's peak also includes temporary memory of operators, and memory of libraries.
            peak_bytes = self._allocator_peak
            if on_device is not None:
                on_device["allocated_peak_bytes"] = peak_bytes
        self._full.update(memory=live, peak_bytes=peak_bytes, device_memory=on_device)

    def result(self):
        """The recording as a dictionary with fields of ``skyline.capture.recording.ChildRecording``.

        If there is no light recording, because the script ended or has too many calls, the times come from the full
        one. None if there is no recording yet.
        """
        if self._full is None:
            return None
        result = dict(self._full)
        if self._light is not None:
            result |= {
                "unknown_share": self._unknown_share,
                "trace": self._light,
                "reading_ms": 1e3 * self._reading_s,
            }
        else:
            result["readable"] = self._readable
        marks = result["trace"]["iterations"]
        recorded_ms = [(mark["end_us"] - mark["start_us"]) / 1e3 for mark in marks]
        return dict(result, recorded_ms=recorded_ms, light_failure=self._light_failure)

    def write(self, path):
        """Write the result, if there is any, to a file for the parent, because it may have megabytes."""
        result = self.result()
        if result is None:
            return
        with _open(path, "w") as file:
            file.write(_dumps(result))


class LightRecording:
    """A light recording without a full one, with the interface of ``Recordings``."""

    is_too_large = is_partly_read = wants_memory = wants_facts = False

    def __init__(self, device_kind, iterations):
        self._recorder = Recorder(
            device_kind, iterations, operator_lines=OperatorLines(), full=False, samples=False
        )
        self._trace = None

    @property
    def remaining(self):
        """Number of iterations still needed."""
        return self._recorder.remaining

    def start(self):
        """Begin with the next iteration."""
        self._recorder.start()

    def mark(self):
        """Mark the end of an iteration."""
        self._recorder.mark()

    def stop(self):
        """Stop recording: all iterations are done."""
        self._recorder.stop()

    def read(self, loop):
        """Read the recording. Returns False: nothing else needs to be recorded."""
        self._trace = self._recorder.read(loop, module_names())
        return False

    def end(self, loop):
        """Do nothing: the script ended before its iterations were recorded, and they are of no use."""

    def write(self, path):
        """Write the trace, if there is any, to a file for the parent."""
        if self._trace is not None:
            with _open(path, "w") as file:
                file.write(_dumps(self._trace))
