"""The recordings of one command: a full one, and a light one whose times count."""

from __future__ import annotations

import contextlib
import json
import time

from ..module_facts import module_names
from . import memory
from .enrichment import enrich
from .operator_lines import OperatorLines
from .recorder import Recorder

# Kept from before the script could put something else in their place.
_open, _dumps, _cpu_clock = open, json.dumps, time.process_time

_READING_S = 3.0
"""As long may reading the light recording take, by how long an iteration of the full one took to read."""

_ATTEMPTS = 2
"""PyTorch's profiler trips over its own tables once in hundreds of recordings, and then not again."""


class ProfilerFailed(Exception):
    """PyTorch's profiler could not give what it recorded, again and again."""


class Recordings:
    """First all that can be known of an iteration is recorded, then what it takes to tell times and lines.

    Shapes, allocations and the line of every operator cost the script time, up to as much again as it takes.
    They are the same in each iteration, as good as always. ``full`` and ``iterations`` are how many to record
    in full and lightly; of the latter none follow without ``with_stacks``, where only memory is asked for.
    ``evaluated`` tells of modules by their address that ran in evaluation mode, whether in inference mode.
    With ``last_first`` the first reading is that of the last full iteration alone, and ``read_rest`` gives the others.
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
        """True if ``read_rest`` is to be called before anything else is recorded."""
        self._recorder = self._full_recorder()

    @property
    def remaining(self):
        """Number of iterations that the current recording still needs."""
        return self._recorder.remaining

    @property
    def is_too_large(self):
        """True if the full recording that was stopped has more events than can be read in reasonable time."""
        return self._full is None and self._failure is None and self._recorder.is_too_large

    def drop(self):
        """Free the recording that was stopped."""
        self._recorder.drop()

    @property
    def wants_memory(self):
        """True if ``note_memory`` is to be called before the script goes on."""
        return self._full is not None and "memory" not in self._full

    @property
    def wants_facts(self):
        """True if ``note_facts`` is to be called before the script goes on."""
        return self.observed_calls is not None and "settings" not in self._full

    def start(self):
        """Begin with the next iteration."""
        self._devices.reset_peaks()
        self._recorder.start()

    def mark(self):
        """An iteration ends here."""
        peak_bytes = self._devices.peak_bytes()
        self._recorder.mark()
        if self._full is None and peak_bytes is not None:
            self._allocator_peak = max(peak_bytes, self._allocator_peak or 0)
        if self._recorder.remaining:
            self._devices.reset_peaks()

    def stop(self):
        """The recording under way has its iterations."""
        self._stopped = _cpu_clock()
        try:
            self._recorder.stop()
        except Exception as error:
            self._failure = error

    def read(self, loop):
        """Read what was recorded. Gives whether another recording is to be started, an iteration later.

        Raises:
            ProfilerFailed: there is none to be had.
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
        """Read all iterations of the full recording; where the profiler cannot give them, the last one remains."""
        recorder, self.is_partly_read = self._recorder, False
        with contextlib.suppress(Exception):
            self._full["trace"] = recorder.read(loop, self._names, self._evaluated)
            self.observed_calls = recorder.observed_calls

    @property
    def _readable(self):
        """Most iterations of a light recording that the time for reading it allows."""
        return 0 if self._lines is None else int(_READING_S / max(self._reading_s, 1e-6))

    def record_times(self, iterations):
        """A light recording of so many iterations is next, after the full one."""
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
        """No fault of the script's: the full recording is made again, the light one is done without, with a note."""
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
        """The script has come to its end: what there is of the light recording is read."""
        if self._light is None and self._full is not None and self._recorder.whole > 0:
            self.stop()
            self.read(loop)

    def note_facts(self, told):
        """Take the settings, modules and calls of the run at the end of the full recording."""
        self._full.update(told)

    def note_memory(self, live, on_device):
        """Take the live memory by owner, and the device's memory, at the end of the full recording."""
        peak_bytes = memory.peak(live, self._full["trace"]["allocations"])
        if self._allocator_peak is not None:
            # It also contains temporary memory of operators, and memory of libraries.
            peak_bytes = self._allocator_peak
            if on_device is not None:
                on_device["allocated_peak_bytes"] = peak_bytes
        self._full.update(memory=live, peak_bytes=peak_bytes, device_memory=on_device)

    def result(self):
        """The recording as a dictionary in the shape of ``skyline.capture.recording.Recording``.

        Without a light one, because the script ended or has too many calls, the times are those of the full.
        None if there is nothing yet.
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
        """Leave the result, if there is any, in a file for the parent: it may be megabytes."""
        result = self.result()
        if result is None:
            return
        with _open(path, "w") as file:
            file.write(_dumps(result))


class LightRecording:
    """Stands in where ``Recordings`` do: it begins, is marked at each boundary, ends, and is read."""

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
        """An iteration ends here."""
        self._recorder.mark()

    def stop(self):
        """It has its iterations."""
        self._recorder.stop()

    def read(self, loop):
        """Read what was recorded; nothing is to be recorded after it."""
        self._trace = self._recorder.read(loop, module_names())
        return False

    def end(self, loop):
        """The script has come to its end before its iterations were recorded: they are not of use."""

    def write(self, path):
        """Leave the trace, if there is any, in a file for the parent."""
        if self._trace is not None:
            with _open(path, "w") as file:
                file.write(_dumps(self._trace))
